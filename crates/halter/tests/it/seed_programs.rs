//! Programs written against the documentation, compiled and run unchanged.
//!
//! Each runs in a process of its own, with the directory and the environment
//! it expects: without a key for a real model, and without a network.

use crate::support::{Fixed, directory, in_child, is_child, run_turn, shown};
use std::path::Path;

const CONFIG: &str = include_str!("../seed/halter.toml");
const OFFLINE: (&str, &str) = ("HALTER_MODEL", "offline");

/// Runs a test again in a child process and returns what it printed.
fn passes_in_child(test: &str, directory: &Path, variables: &[(&str, &str)]) -> String {
    let output = in_child(test, directory, variables, "");
    assert!(output.status.success(), "{}", shown(&output));
    shown(&output)
}

mod config_file {
    include!("../seed/config_file.rs");

    #[test]
    fn the_first_program_runs_unchanged() {
        if super::is_child() {
            return main().unwrap();
        }
        let files = [
            ("halter.toml", super::CONFIG),
            ("README.md", "# Umbrella\n\nKeeps the rain off.\n"),
            ("src/main.rs", "fn main() {}\n"),
        ];
        let directory = super::directory(&files);
        let printed = super::passes_in_child(
            "seed_programs::config_file::the_first_program_runs_unchanged",
            directory.path(),
            &[super::OFFLINE],
        );
        assert!(printed.contains("Umbrella"), "{printed}");
        assert!(printed.contains("offline model"), "{printed}");
        assert!(printed.contains("usage: in="), "{printed}");
    }

    #[test]
    fn without_a_key_it_names_the_variable_and_the_table() {
        if super::is_child() {
            let error = main().unwrap_err();
            return println!("refused: {error:#}");
        }
        let directory = super::directory(&[("halter.toml", super::CONFIG)]);
        let printed = super::passes_in_child(
            "seed_programs::config_file::without_a_key_it_names_the_variable_and_the_table",
            directory.path(),
            &[],
        );
        assert!(printed.contains("[providers.openai].api_key"), "{printed}");
        assert!(printed.contains("OPENAI_API_KEY"), "{printed}");
    }
}

mod programmatic_config {
    include!("../seed/programmatic_config.rs");

    #[tokio::test]
    async fn the_literal_builds_a_harness() {
        if super::is_child() {
            let harness = build().await.unwrap();
            let model = harness.config().models.default.clone().unwrap();
            assert_eq!(model.provider, ConfiguredProvider::Offline);
            let session = harness.new_session(SessionInit::default()).await.unwrap();
            let events = super::run_turn(&session, "What can you do?").await;
            let last = &events.last().unwrap().payload;
            assert!(matches!(last, SessionEventPayload::TurnCompleted { .. }));
            session.shutdown("done").await.unwrap();
            return;
        }
        let directory = super::directory(&[]);
        super::passes_in_child(
            "seed_programs::programmatic_config::the_literal_builds_a_harness",
            directory.path(),
            &[super::OFFLINE, ("OPENAI_API_KEY", "sk-dummy")],
        );
    }
}

mod custom_tool {
    include!("../seed/custom_tool.rs");

    #[tokio::test]
    async fn a_tool_joins_the_configured_ones() {
        if super::is_child() {
            let tool = Arc::new(super::Fixed {
                name: "weather",
                answer: "rain",
            });
            let harness = build_custom(tool).await.unwrap();
            let tools = &harness.runtime().services().tools;
            let names: Vec<&str> = tools.names().map(|name| name.as_str()).collect();
            let enabled = ["read", "glob", "grep", "write", "edit", "shell", "task"];
            assert_eq!(names, [&enabled[..], &["weather"]].concat());
            return;
        }
        let directory = super::directory(&[("halter.toml", super::CONFIG)]);
        super::passes_in_child(
            "seed_programs::custom_tool::a_tool_joins_the_configured_ones",
            directory.path(),
            &[super::OFFLINE],
        );
    }
}

mod sdk_hook {
    use crate::support::{no_keys, outcomes, run_turn, session_in};
    use halter::prelude::*;
    use halter::providers::{FakeProvider, Reply};
    use halter_protocol::ToolErrorCode;
    use serde_json::json;
    use std::sync::Arc;

    /// Statements cannot be included from a file, so they stand here and the
    /// test below holds them against the file.
    #[allow(clippy::let_and_return)]
    #[rustfmt::skip]
    fn builder() -> HalterBuilder {
        use halter_hooks::{Hook, HookEventName, HookResponse};
        use halter_protocol::PluginId;
        let hook = Hook::callback(HookEventName::PreToolUse, |input| async move {
            if input.tool_name() == Some("shell")
                && input.payload.to_string().contains("rm -rf /")
            {
                return HookResponse::block("dangerous shell command blocked");
            }
            HookResponse::passthrough()
        });
        let builder = Halter::builder()
            .with_plugin_hook(PluginId::from("sdk-policy"), hook);
        builder
    }

    #[test]
    fn the_statements_are_the_documented_ones() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let here = words(include_str!("seed_programs.rs"));
        assert!(here.contains(&words(include_str!("../seed/sdk_hook.rs"))));
    }

    #[tokio::test]
    async fn the_hook_blocks_what_it_names_and_nothing_else() {
        let directory = super::directory(&[]);
        let model = FakeProvider::scripted([
            Reply::new()
                .tool_call("shell", json!({"command": "rm -rf /"}))
                .tool_call("shell", json!({"command": "true"})),
            Reply::new().text("done"),
        ]);
        let harness = builder()
            .with_resource_snapshot(ResourceSnapshot::empty())
            .with_environment(no_keys())
            .with_provider(Arc::new(model))
            .build()
            .await
            .unwrap();
        let session = session_in(&harness, directory.path()).await;
        let outcomes = outcomes(&run_turn(&session, "clean up").await);
        let blocked = outcomes[0].result.as_ref().unwrap_err();
        assert_eq!(blocked.code, ToolErrorCode::HookBlocked);
        assert!(blocked.message.contains("dangerous shell command blocked"));
        assert!(outcomes[1].result.is_ok(), "{:?}", outcomes[1].result);
        session.shutdown("done").await.unwrap();
    }
}
