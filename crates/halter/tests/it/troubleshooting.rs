//! What goes wrong in a first hour with the SDK: each error has a stable code
//! and names the remedy.

use crate::support::{
    bare, directory, halter_error, no_keys, offline_harness, one_turn, outcomes, refused, run_turn,
    session_in, told,
};
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter_config::{ConfiguredProvider, ModelConfig, SessionBackend};
use halter_protocol::{ToolErrorCode, ToolName};
use halter_tools::left_out_tools;
use serde_json::json;
use std::sync::Arc;

/// A configuration of one real provider.
fn config(provider: ConfiguredProvider) -> HarnessConfig {
    let mut config = HarnessConfig::default();
    config.models.default = Some(ModelConfig {
        provider,
        model: "a-model".to_owned(),
        max_input_tokens: None,
        max_output_tokens: None,
        reasoning: None,
        tokens_per_minute: None,
    });
    config
}

fn offline_config() -> HarnessConfig {
    config(ConfiguredProvider::Offline)
}

async fn build(config: HarnessConfig) -> anyhow::Result<Halter> {
    bare().with_config(config).build().await
}

#[tokio::test]
async fn missing_resources() {
    let built = Halter::builder()
        .with_config(offline_config())
        .with_environment(no_keys())
        .build();
    let error = refused(built.await);
    assert_eq!(error.code(), "invalid_configuration");
    assert_eq!(
        error.to_string(),
        "invalid configuration: missing resource snapshot; use Halter::from_config_file or \
         HalterBuilder::with_resource_snapshot"
    );
}

#[tokio::test]
async fn missing_key_of_each_provider() {
    for (provider, name, variable) in [
        (ConfiguredProvider::OpenAi, "openai", "OPENAI_API_KEY"),
        (
            ConfiguredProvider::Anthropic,
            "anthropic",
            "ANTHROPIC_API_KEY",
        ),
        (
            ConfiguredProvider::OpenRouter,
            "openrouter",
            "OPENROUTER_API_KEY",
        ),
    ] {
        let error = refused(build(config(provider)).await);
        assert_eq!(error.code(), "config_missing_api_key");
        assert_eq!(
            told(&error),
            format!(
                "missing api key for provider '{name}': \
                 set [providers.{name}].api_key or {variable}"
            )
        );
    }
}

#[tokio::test]
async fn no_model_at_all() {
    let error = refused(build(HarnessConfig::default()).await);
    assert_eq!(error.code(), "invalid_configuration");
    let told = told(&error);
    assert!(
        told.starts_with("invalid configuration: [models.default] is required"),
        "{told}"
    );
    assert!(told.contains("HALTER_MODEL=offline"), "{told}");
}

#[tokio::test]
async fn an_unknown_tool_name() {
    let mut config = offline_config();
    config.tools.enabled = vec!["read".to_owned(), "grpe".to_owned()];
    let error = refused(build(config).await);
    assert_eq!(error.code(), "config_unknown_tool");
    assert_eq!(
        told(&error),
        "tools.enabled: unknown tool 'grpe': did you mean `grep`?"
    );
}

/// A build with all features leaves nothing out; `.ci/run` also tests one with none.
#[tokio::test]
async fn a_tool_whose_feature_is_off() {
    let plain = std::env::var_os("HALTER_TEST_PLAIN_BUILD").is_some();
    assert!(!plain || left_out_tools().len() == 5);
    let listed = build(offline_config()).await.unwrap();
    for tool in left_out_tools() {
        let is_it = |name: &ToolName| name.as_str() == tool.name;
        assert!(!listed.tools().iter().any(|spec| is_it(&spec.name)));
        let mut unavailable = listed.unavailable_tools().iter();
        assert!(!unavailable.any(|it| is_it(&it.spec.name)));
        let mut config = offline_config();
        config.tools.enabled = vec![tool.name.to_owned()];
        let error = refused(build(config).await);
        assert_eq!(error.code(), "config_tool_feature_disabled");
        let expected = format!(
            "tools.enabled: tool '{}' is not compiled in: build with the cargo feature `{}`, \
             or take it out of the list",
            tool.name, tool.feature
        );
        assert_eq!(told(&error), expected);
    }
}

#[tokio::test]
async fn a_shell_command_that_is_not_allowed() {
    let directory = directory(&[]);
    let model = FakeProvider::scripted([
        Reply::new().tool_call("shell", json!({"command": "curl example.com"})),
        Reply::new().text("I may not."),
    ]);
    let mut config = offline_config();
    config.policy.shell.allow = vec!["git".to_owned()];
    let harness = bare()
        .with_config(config)
        .with_provider(Arc::new(model))
        .build()
        .await
        .unwrap();
    let outcomes = outcomes(&one_turn(&harness, directory.path(), "fetch it").await);
    let error = outcomes[0].result.as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);
    assert!(error.message.contains("curl"), "{}", error.message);
    assert!(
        error.message.contains("policy.shell.allow"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_shell_that_is_turned_off() {
    let directory = directory(&[]);
    let model = FakeProvider::scripted([
        Reply::new().tool_call("shell", json!({"command": "ls"})),
        Reply::new().text("I may not."),
    ]);
    let mut config = offline_config();
    config.policy.shell.enabled = false;
    let harness = bare()
        .with_config(config)
        .with_provider(Arc::new(model))
        .build()
        .await
        .unwrap();
    let outcomes = outcomes(&one_turn(&harness, directory.path(), "list").await);
    let error = outcomes[0].result.as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);
    assert!(
        error.message.contains("policy.shell.enabled"),
        "{}",
        error.message
    );
}

/// The model of a session is a registered id, not a provider's model name.
#[tokio::test]
async fn an_upstream_model_name_instead_of_an_id() {
    let harness = offline_harness().await;
    let init = SessionInit::default().with_default_model("gpt-5");
    let error = harness.new_session(init).await.unwrap_err();
    let error = halter_error(&error);
    assert_eq!(error.code(), "unknown_model");
    for part in ["'gpt-5'", "default", "small", "subagent"] {
        assert!(told(error).contains(part), "{}", told(error));
    }
}

/// Also for one turn: the turn fails, the session goes on.
#[tokio::test]
async fn an_upstream_model_name_for_one_turn() {
    let directory = directory(&[]);
    let harness = offline_harness().await;
    let session = session_in(&harness, directory.path()).await;
    let turn = Turn::user("hello").with_default_model("gpt-5");
    let told = match session.submit_turn(turn).await {
        Err(error) => format!("{error:#}"),
        Ok(events) => {
            use futures::StreamExt;
            let events: Vec<_> = events.collect().await;
            let last = events.last().unwrap().as_ref().unwrap();
            match &last.payload {
                SessionEventPayload::TurnFailed { error, .. } => error.message.clone(),
                other => panic!("{other:?}"),
            }
        }
    };
    for part in ["'gpt-5'", "default", "small", "subagent"] {
        assert!(told.contains(part), "{told}");
    }
    let events = run_turn(&session, "hello").await;
    assert_eq!(events.last().unwrap().payload.kind(), "turn_completed");
    session.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn a_missing_working_directory() {
    let harness = offline_harness().await;
    let init = SessionInit::default().with_working_dir("/nowhere/at/all");
    let error = harness.new_session(init).await.unwrap_err();
    assert_eq!(halter_error(&error).code(), "working_dir_missing");
    assert!(told(halter_error(&error)).contains("/nowhere/at/all"));
}

#[tokio::test]
async fn a_missing_config_file() {
    let directory = directory(&[]);
    let error = Halter::from_config_file(directory.path().join("halter.toml")).await;
    let error = refused(error);
    assert_eq!(error.code(), "config_read");
    assert!(told(&error).contains("halter.toml"));
    assert!(told(&error).contains("halter init"), "{}", told(&error));
}

#[tokio::test]
async fn a_misspelt_key_in_a_config_file() {
    let text = "version = 1\n[models.default]\nprovider = \"offline\"\nmodle = \"offline\"\n";
    let directory = directory(&[("halter.toml", text)]);
    let error = refused(Halter::from_config_file(directory.path().join("halter.toml")).await);
    assert_eq!(error.code(), "config_unknown_key");
    let told = told(&error);
    assert!(told.contains("halter.toml:4:1"), "{told}");
    assert!(told.contains("did you mean `model`?"), "{told}");
}

#[cfg(not(feature = "sqlite"))]
#[tokio::test]
async fn sqlite_without_its_feature() {
    let mut config = offline_config();
    config.sessions.backend = SessionBackend::Sqlite;
    let error = refused(build(config).await);
    assert_eq!(error.code(), "config_backend_feature_disabled");
    let told = told(&error);
    assert!(told.contains("'sqlite' is not compiled in"), "{told}");
    assert!(told.contains("cargo feature `sqlite`"), "{told}");
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn sqlite_with_its_feature_keeps_sessions() {
    let directory = directory(&[]);
    let mut config = offline_config();
    config.sessions.backend = SessionBackend::Sqlite;
    config.sessions.sqlite_path = Some(directory.path().join("state/sessions.db"));
    let harness = build(config.clone()).await.unwrap();
    let session = session_in(&harness, directory.path()).await;
    run_turn(&session, "hello").await;
    let id = session.session_id().clone();
    session.shutdown("done").await.unwrap();
    let kept = session.replay().await.unwrap();
    assert!(
        kept.iter()
            .any(|event| event.payload.kind() == "turn_completed")
    );
    drop((session, harness));

    let again = build(config).await.unwrap();
    let session = again.runtime().resume(&id).await.unwrap().unwrap();
    assert!(session.replay().await.unwrap().starts_with(&kept));
    session.shutdown("done").await.unwrap();
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_store_that_is_no_database() {
    let directory = directory(&[("sessions.db", "this is not a database, not at all\n")]);
    let mut config = offline_config();
    config.sessions.backend = SessionBackend::Sqlite;
    let path = directory.path().join("sessions.db");
    config.sessions.sqlite_path = Some(path.clone());
    let error = refused(build(config).await);
    assert!(told(&error).contains("sessions.db"), "{}", told(&error));
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        "this is not a database, not at all\n"
    );
}
