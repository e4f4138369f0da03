//! The rules of the builder.

use crate::support::{
    Fixed, bare, directory, halter_error, no_keys, offline_harness, one_turn, outcomes, refused,
    run_turn, session_in, warnings,
};
use async_trait::async_trait;
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter::session::InMemorySessionStore;
use halter::{Approvals, CompiledResources, LoadedSkill};
use halter_config::{ConfiguredProvider, ModelConfig, SessionBackend};
use halter_hooks::{Hook, HookEventName, HookResponse, HookWarning, Hooks, RegisteredHookPriority};
use halter_protocol::{ModelRole, ToolErrorCode, ToolResult, ToolSpec};
use halter_session::PageRequest;
use halter_tools::{HarnessFacts, Tool, ToolContext};
use serde_json::{Value, json};
use std::sync::Arc;

/// A model that calls one tool and is done. The arguments are those of `task`;
/// tools with an open schema take them as well.
fn calls(tool: &'static str) -> Arc<FakeProvider> {
    Arc::new(FakeProvider::scripted([
        Reply::new().tool_call(tool, json!({"pattern": "*"})),
        Reply::new().text("done"),
    ]))
}

fn skill() -> LoadedSkill {
    LoadedSkill::new(
        "release",
        "How to release.",
        "/skills/release/SKILL.md",
        "steps",
    )
    .unwrap()
}

fn builder() -> HalterBuilder {
    Halter::builder().with_environment(no_keys())
}

/// The hooks of a plugin that blocks every call.
fn blocking_plugin() -> Arc<Hooks> {
    let mut hooks = Hooks::new();
    let hook = blocking("by the plugin");
    hooks
        .register("a-plugin".into(), Default::default(), hook)
        .unwrap();
    Arc::new(hooks)
}

/// A hook that blocks every call, saying why.
fn blocking(reason: &'static str) -> Hook {
    Hook::callback(HookEventName::PreToolUse, move |_| async move {
        HookResponse::block(reason)
    })
}

#[tokio::test]
async fn a_snapshot_and_loaded_skills_do_not_mix() {
    let mixes = [
        builder().with_resource_snapshot(ResourceSnapshot::empty()),
        builder().with_compiled_resources(CompiledResources::default()),
    ];
    for mix in mixes {
        let built = mix
            .with_loaded_skills(vec![skill()])
            .with_provider(Arc::new(FakeProvider::default()))
            .build();
        let error = refused(built.await);
        assert_eq!(error.code(), "invalid_configuration");
        assert_eq!(
            error.to_string(),
            "invalid configuration: cannot combine a prebuilt resource snapshot with loaded \
             skills/plugins"
        );
        assert!(error.hint().is_some());
    }
}

#[tokio::test]
async fn loaded_skills_alone_are_resources_enough() {
    let harness = builder()
        .with_loaded_skills(vec![skill()])
        .with_provider(Arc::new(FakeProvider::default()))
        .build()
        .await
        .unwrap();
    let resources = harness.runtime().services().resources.get();
    assert!(resources.snapshot.skills.contains_key("release"));
}

#[tokio::test]
async fn compiled_resources_keep_their_hooks_and_warnings() {
    let directory = directory(&[]);
    let resources = CompiledResources {
        hooks: blocking_plugin(),
        hook_warnings: vec![HookWarning::FileRefused {
            place: "/plugins/a-plugin/hooks/hooks.json".into(),
            reason: "it is not JSON".into(),
        }],
        ..CompiledResources::default()
    };
    let harness = builder()
        .with_compiled_resources(resources)
        .with_provider(calls("glob"))
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, directory.path()).await;
    let outcomes = outcomes(&run_turn(&session, "go").await);
    let error = outcomes[0].result.as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::HookBlocked);
    assert!(error.message.contains("by the plugin"));
    let warnings = warnings(&session.replay().await.unwrap());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("hooks/hooks.json"), "{warnings:?}");
    session.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn replaced_resources_keep_the_hooks_of_the_sdk() {
    let directory = directory(&[]);
    let model = FakeProvider::from_fn(|request| {
        let answered = matches!(
            request.messages.last().map(AsRef::as_ref),
            Some(Message::Tool(_))
        );
        match answered {
            true => Reply::new().text("done"),
            false => Reply::new().tool_call("glob", json!({"pattern": "*"})),
        }
    });
    let harness = bare()
        .with_plugin_hook("sdk-policy".into(), blocking("by the SDK"))
        .with_provider(Arc::new(model))
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, directory.path()).await;
    let blocked = |events: &[SessionEvent]| {
        let outcomes = outcomes(events);
        let error = outcomes[0].result.as_ref().unwrap_err();
        error.message.contains("by the SDK")
    };
    assert!(blocked(&run_turn(&session, "once").await));
    let compiled = ResourceCompiler::default()
        .with_loaded_skills(vec![skill()])
        .compile()
        .await
        .unwrap();
    harness.replace_resources(compiled).unwrap();
    let events = run_turn(&session, "again").await;
    assert!(blocked(&events));
    assert!(
        events
            .iter()
            .any(|event| event.payload.kind() == "cache_break")
    );
    session.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn a_store_of_ones_own_replaces_the_configured_backend() {
    let directory = directory(&[]);
    let store = Arc::new(InMemorySessionStore::new());
    let mut config = HarnessConfig::default();
    // Not even compiled in, perhaps: what replaces it needs no backend.
    config.sessions.backend = SessionBackend::Sqlite;
    config.sessions.sqlite_path = Some(directory.path().join("sessions.db"));
    let harness = bare()
        .with_config(config)
        .with_provider(Arc::new(FakeProvider::default()))
        .with_session_store(store.clone())
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, directory.path()).await;
    run_turn(&session, "hello").await;
    let id = session.session_id().clone();
    session.shutdown("done").await.unwrap();
    let kept = halter_session::read_events(store.as_ref(), &id, 0, 100)
        .await
        .unwrap();
    assert_eq!(
        kept.last().unwrap().payload.kind(),
        "session_shutdown_complete"
    );
    assert!(!directory.path().join("sessions.db").exists());

    let page = harness
        .runtime()
        .list_sessions(PageRequest::default())
        .await
        .unwrap();
    assert_eq!(page.sessions.len(), 1);
}

#[tokio::test]
async fn a_custom_tool_replaces_the_built_in_of_its_name() {
    let directory = directory(&[]);
    let tool = Fixed {
        name: "read",
        answer: "my own reading",
    };
    let harness = bare()
        .with_tool(Arc::new(tool))
        .with_provider(calls("read"))
        .build()
        .await
        .unwrap();
    let outcomes = outcomes(&one_turn(&harness, directory.path(), "go").await);
    let text = outcomes[0].result.as_ref().unwrap().to_model_text();
    assert_eq!(text, "my own reading");
    let names = harness.runtime().services().tools.names();
    assert_eq!(names.filter(|name| name.as_str() == "read").count(), 1);
}

#[tokio::test]
async fn custom_tools_are_never_filtered() {
    let directory = directory(&[]);
    let mut config = HarnessConfig::default();
    config.tools.enabled = vec!["glob".to_owned()];
    let tool = Fixed {
        name: "weather",
        answer: "rain",
    };
    let harness = bare()
        .with_config(config)
        .with_tool(Arc::new(tool))
        .with_provider(calls("weather"))
        .build()
        .await
        .unwrap();
    let tools = &harness.runtime().services().tools;
    let names: Vec<&str> = tools.names().map(|name| name.as_str()).collect();
    assert_eq!(names, ["glob", "weather"]);
    let outcomes = outcomes(&one_turn(&harness, directory.path(), "go").await);
    assert_eq!(outcomes[0].result.as_ref().unwrap().to_model_text(), "rain");
}

/// A tool that is not enabled is unknown to the model and to dispatch.
#[tokio::test]
async fn a_tool_that_is_not_enabled_cannot_be_called() {
    let directory = directory(&[]);
    let mut config = HarnessConfig::default();
    config.tools.enabled = vec!["glob".to_owned()];
    let model = calls("shell");
    let harness = bare()
        .with_config(config)
        .with_provider(model.clone())
        .build()
        .await
        .unwrap();
    let outcomes = outcomes(&one_turn(&harness, directory.path(), "go").await);
    let error = outcomes[0].result.as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::UnknownTool);
    assert_eq!(model.requests()[0].tools.len(), 1);
}

#[tokio::test]
async fn a_tool_of_no_use_here_is_neither_sent_nor_found() {
    struct Telephone;

    #[async_trait]
    impl Tool for Telephone {
        fn spec(&self) -> ToolSpec {
            let like = Fixed {
                name: "telephone",
                answer: "",
            };
            like.spec()
        }

        async fn execute(&self, _: ToolContext, _: Value) -> anyhow::Result<ToolResult> {
            panic!("nobody may call it");
        }

        fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
            let reason = "nobody would hear it ring".to_owned();
            (!harness.attended).then_some(reason)
        }
    }

    let directory = directory(&[]);
    let model = calls("telephone");
    let built = |approvals| {
        bare()
            .with_tool(Arc::new(Telephone))
            .with_provider(model.clone())
            .with_approvals(approvals)
            .build()
    };
    let harness = built(Approvals::Unattended).await.unwrap();
    let reason_in = |harness: &Halter| {
        let mut tools = harness.unavailable_tools().iter();
        let found = tools.find(|it| it.spec.name.as_str() == "telephone");
        found.map(|it| it.reason.clone())
    };
    let reason = reason_in(&harness);
    assert_eq!(reason.as_deref(), Some("nobody would hear it ring"));
    let outcomes = outcomes(&one_turn(&harness, directory.path(), "go").await);
    let error = outcomes[0].result.as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::UnknownTool);
    let why = "the tool 'telephone' is of no use here: nobody would hear it ring. Available: ";
    assert!(error.message.starts_with(why), "{error}");
    let request = &model.requests()[0];
    assert!(
        request
            .tools
            .iter()
            .all(|it| it.name.as_str() != "telephone")
    );

    let attended = built(Approvals::Attended).await.unwrap();
    assert_eq!(reason_in(&attended), None);
    assert!(
        attended
            .tools()
            .iter()
            .any(|it| it.name.as_str() == "telephone")
    );
}

/// One role goes to a provider of one's own, without a key; the others as
/// configured.
#[tokio::test]
async fn a_named_provider_serves_the_models_configured_for_it() {
    let directory = directory(&[]);
    let model = |provider| ModelConfig {
        provider,
        model: "gpt-5".to_owned(),
        max_input_tokens: None,
        max_output_tokens: None,
        reasoning: None,
        tokens_per_minute: None,
    };
    let mut config = HarnessConfig::default();
    config.models.default = Some(model(ConfiguredProvider::OpenAi));
    config.models.small = Some(model(ConfiguredProvider::Offline));
    let fake = Arc::new(FakeProvider::default());
    let harness = bare()
        .with_config(config)
        .with_named_provider("openai", fake.clone())
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, directory.path()).await;
    run_turn(&session, "hello").await;
    assert_eq!(fake.requests()[0].model.model, "gpt-5");
    let models = &harness.runtime().services().models;
    let small = models.model(&ModelRole::Small.as_str().into()).unwrap();
    assert_eq!(small.provider.as_str(), "offline");
    session.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn the_offline_model_needs_neither_key_nor_configuration() {
    let directory = directory(&[("README.md", "# Umbrella\n")]);
    let harness = offline_harness().await;
    for role in ["default", "small", "subagent"] {
        let init = SessionInit::default()
            .with_working_dir(directory.path())
            .with_default_model(role);
        let session = harness.new_session(init).await.unwrap();
        let events = run_turn(&session, "Summarize this repository").await;
        assert_eq!(events.last().unwrap().payload.kind(), "turn_completed");
        session.shutdown("done").await.unwrap();
    }
}

/// No handle, error or debug text of a harness shows a key.
#[tokio::test]
async fn keys_are_not_shown() {
    let mut config = HarnessConfig::default();
    config.providers.openai = Some(halter_config::ProviderConfig {
        api_key: Some("sk-very-secret".to_owned()),
        ..Default::default()
    });
    let harness = bare()
        .with_config(config)
        .with_provider(Arc::new(FakeProvider::default()))
        .build()
        .await
        .unwrap();
    assert!(!format!("{harness:?}").contains("sk-very-secret"));
    let shown = serde_json::to_string(harness.config()).unwrap();
    assert!(!shown.contains("sk-very-secret"));
}

/// Credentials and state of the embedding program are closed to all tools.
#[tokio::test]
async fn a_protected_path_is_closed_to_tools() {
    let directory = directory(&[("state/token.txt", "s3cret"), ("notes.txt", "hello")]);
    let model = FakeProvider::scripted([
        Reply::new()
            .tool_call("read", json!({"path": "state/token.txt"}))
            .tool_call("read", json!({"path": "notes.txt"}))
            .tool_call("grep", json!({"pattern": "s3cret"})),
        Reply::new().text("done"),
    ]);
    let harness = bare()
        .with_protected_path(directory.path().join("state"))
        .with_provider(Arc::new(model))
        .build()
        .await
        .unwrap();
    let outcomes = outcomes(&one_turn(&harness, directory.path(), "go").await);
    let denied = outcomes[0].result.as_ref().unwrap_err();
    assert_eq!(denied.code, ToolErrorCode::PolicyDenied);
    assert!(outcomes[1].result.is_ok());
    let found = outcomes[2].result.as_ref().unwrap().to_model_text();
    assert!(!found.contains("token.txt"), "{found}");
}

#[tokio::test]
async fn a_session_works_in_the_configured_directory_unless_it_names_one() {
    let (configured, own) = (directory(&[]), directory(&[]));
    let mut config = HarnessConfig::default();
    config.runtime.working_dir = Some(configured.path().to_owned());
    let harness = bare()
        .with_config(config)
        .with_provider(Arc::new(FakeProvider::default()))
        .build()
        .await
        .unwrap();
    let session = harness.new_session(SessionInit::default()).await.unwrap();
    let expected = configured.path().canonicalize().unwrap();
    assert_eq!(session.blueprint().working_dir, expected);
    let session = session_in(&harness, own.path()).await;
    let expected = own.path().canonicalize().unwrap();
    assert_eq!(session.blueprint().working_dir, expected);
}

/// What is said to the model: the session's words over the configured ones over
/// the preset, then the additions.
#[tokio::test]
async fn prompts_have_an_order_of_precedence() {
    let directory = directory(&[]);
    let model = Arc::new(FakeProvider::default());
    let mut config = HarnessConfig::default();
    config.prompts.preset = SystemPromptPreset::Coding;
    config.prompts.append_system_prompt = Some("House rules.".to_owned());
    let harness = bare()
        .with_config(config)
        .with_provider(model.clone())
        .build()
        .await
        .unwrap();
    let init = SessionInit::default().with_working_dir(directory.path());
    let own = init
        .clone()
        .with_system_prompt("You are a pirate.")
        .append_system_prompt("Speak up.");
    for init in [init, own] {
        let session = harness.new_session(init).await.unwrap();
        run_turn(&session, "hello").await;
        session.shutdown("done").await.unwrap();
    }
    let texts: Vec<String> = model
        .requests()
        .iter()
        .map(|request| request.prompt.text())
        .collect();
    assert!(texts[0].starts_with(prompts::default_coding_agent_prompt()));
    assert!(texts[0].contains("House rules."));
    assert!(texts[1].starts_with("You are a pirate."));
    let [house, own] = ["House rules.", "Speak up."].map(|text| texts[1].find(text).unwrap());
    assert!(house < own);
}

/// Hooks registered before plugins run first, and their answer stands.
#[tokio::test]
async fn hooks_run_in_the_order_of_their_priority() {
    let directory = directory(&[]);
    let resources = CompiledResources {
        hooks: blocking_plugin(),
        ..CompiledResources::default()
    };
    let before = RegisteredHookPriority::BeforePlugins;
    let harness = builder()
        .with_compiled_resources(resources)
        .with_plugin_hook("late".into(), blocking("by the late one"))
        .with_plugin_hook_priority("early".into(), before, blocking("by the early one"))
        .with_provider(calls("glob"))
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, directory.path()).await;
    let events = run_turn(&session, "go").await;
    let message = outcomes(&events)[0]
        .result
        .as_ref()
        .unwrap_err()
        .message
        .clone();
    assert!(message.contains("by the early one"), "{message}");
    session.shutdown("done").await.unwrap();
}

/// A harness that is shut down takes no more work and says so.
#[tokio::test]
async fn a_harness_that_is_shut_down_says_so() {
    let harness = bare()
        .with_provider(Arc::new(FakeProvider::default()))
        .build()
        .await
        .unwrap();
    let report = harness.shutdown(std::time::Duration::from_secs(1)).await;
    assert_eq!((report.turns_aborted, report.timed_out), (0, false));
    let error = harness
        .new_session(SessionInit::default())
        .await
        .unwrap_err();
    assert_eq!(halter_error(&error).code(), "runtime_shutting_down");
}
