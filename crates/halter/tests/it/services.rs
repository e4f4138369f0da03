//! Whole turns over the wires of configured model services, against a strict
//! service on loopback.

use crate::support::{directory, no_keys};
use futures::StreamExt;
use halter::prelude::*;
use halter_config::{ConfiguredProvider, KNOWN_SERVICES, ModelConfig, ProviderConfig};
use halter_mock::{MockService, ServeOptions, serve};
use halter_protocol::{ProviderKind, ResolvedModel};
use halter_providers::catalog::{Catalog, Source};

const SERVICES: [(ConfiguredProvider, &str, &str); 4] = [
    (
        ConfiguredProvider::Anthropic,
        "claude-sonnet-4-5",
        "/anthropic",
    ),
    (ConfiguredProvider::OpenAi, "gpt-5", "/openai"),
    (ConfiguredProvider::OpenRouter, "some/model", "/openrouter"),
    (
        ConfiguredProvider::Gemini,
        "gemini-3-flash-preview",
        "/gemini",
    ),
];

fn config(service: &MockService, which: usize) -> HarnessConfig {
    let (provider, model, prefix) = SERVICES[which].clone();
    let table = Some(ProviderConfig {
        base_url: Some(format!("{}{prefix}", service.base_url())),
        api_key: Some("sk-very-secret".to_owned()),
        ..ProviderConfig::default()
    });
    let mut config = HarnessConfig::default();
    match provider {
        ConfiguredProvider::Anthropic => config.providers.anthropic = table,
        ConfiguredProvider::OpenRouter => config.providers.openrouter = table,
        ConfiguredProvider::Gemini => config.providers.gemini = table,
        _ => config.providers.openai = table,
    }
    config.models.default = Some(ModelConfig::new(provider, model));
    config.resilience.request_retry.base_backoff_ms = 1;
    config
}

async fn ask(config: HarnessConfig, files: &[(&str, &str)], prompt: &str) -> Vec<SessionEvent> {
    let workspace = directory(files);
    let harness = Halter::builder()
        .with_config(config)
        .with_environment(no_keys())
        .with_resource_snapshot(ResourceSnapshot::empty())
        .build()
        .await
        .unwrap();
    let init = SessionInit::default().with_working_dir(workspace.path());
    let session = harness.new_session(init).await.unwrap();
    let events = session.submit_turn(Turn::user(prompt)).await.unwrap();
    let events = events.map(Result::unwrap).collect().await;
    session.shutdown("done").await.unwrap();
    events
}

fn last_text(events: &[SessionEvent]) -> String {
    let messages = events
        .iter()
        .rev()
        .filter_map(|event| match &event.payload {
            SessionEventPayload::MessageItem { message } => message.as_assistant(),
            _ => None,
        });
    messages
        .map(|message| message.plain_text())
        .next()
        .unwrap_or_default()
}

fn failure(events: &[SessionEvent]) -> String {
    match &events.last().unwrap().payload {
        SessionEventPayload::TurnFailed { error, .. } => error.code.clone(),
        other => panic!("the turn should have failed: {other:?}"),
    }
}

#[tokio::test]
async fn a_tool_is_called_and_its_result_read_on_every_wire() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for which in 0..SERVICES.len() {
        let files = [("fixture.txt", "parity is kept")];
        let prompt = "look at it mock:multi_tool_turn_roundtrip";
        let events = ask(config(&service, which), &files, prompt).await;
        let text = last_text(&events);
        assert!(
            text.contains("parity is kept"),
            "{which}: {text} {events:?}"
        );
        assert!(text.contains("found 1"), "{which}: {text}");
    }
    service.stop().await;
}

#[tokio::test]
async fn thinking_goes_back_as_it_came_on_every_wire() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for which in 0..SERVICES.len() {
        let files = [("fixture.txt", "parity is kept")];
        let events = ask(config(&service, which), &files, "mock:thinking_tool").await;
        let ended = &events.last().unwrap().payload;
        assert!(
            matches!(ended, SessionEventPayload::TurnCompleted { .. }),
            "{which}: {ended:?}"
        );
    }
    service.stop().await;
}

/// Each turn opens no connection that it can do without. On a busy machine the
/// last bytes of an answer may come too late for its connection to be waited
/// for, so one of three attempts counts.
#[tokio::test]
async fn a_connection_serves_many_requests_on_every_wire() {
    for which in 0..SERVICES.len() {
        let mut connections = Vec::new();
        while connections.len() < 3 && !connections.contains(&1) {
            connections.push(connections_of_four_turns(which).await);
        }
        assert!(connections.contains(&1), "{which}: {connections:?}");
    }
}

async fn connections_of_four_turns(which: usize) -> u64 {
    let service = serve(ServeOptions::default()).await.unwrap();
    let workspace = directory(&[("notes.txt", "alpha")]);
    let harness = Halter::builder()
        .with_config(config(&service, which))
        .with_environment(no_keys())
        .with_resource_snapshot(ResourceSnapshot::empty())
        .build()
        .await
        .unwrap();
    for _ in 0..2 {
        let init = SessionInit::default()
            .with_working_dir(workspace.path())
            .with_max_turns(5);
        let session = harness.new_session(init).await.unwrap();
        for _ in 0..2 {
            let turn = Turn::user("mock:many_steps");
            let events = session.submit_turn(turn).await.unwrap();
            assert!(events.count().await > 5);
        }
        session.shutdown("done").await.unwrap();
    }
    assert!(service.requests().len() > 10, "{which}");
    let connections = service.connections();
    service.stop().await;
    connections
}

#[tokio::test]
async fn a_refused_key_says_so_and_is_not_shown() {
    let options = ServeOptions {
        api_key: Some("another-key".to_owned().into()),
        ..ServeOptions::default()
    };
    let service = serve(options).await.unwrap();
    for which in 0..SERVICES.len() {
        let events = ask(config(&service, which), &[], "hello").await;
        assert_eq!(failure(&events), "provider_authentication");
        assert!(!format!("{events:?}").contains("very-secret"));
    }
    service.stop().await;
}

#[tokio::test]
async fn a_service_that_is_not_there_is_unavailable() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let mut config = config(&service, 0);
    service.stop().await;
    config.resilience.request_retry.max_attempts = 2;
    let events = ask(config, &[], "hello").await;
    assert_eq!(failure(&events), "provider_unavailable");
}

/// A model that nobody named has its limits known before its first answer.
#[test]
fn the_model_of_a_key_alone_is_in_the_built_in_table() {
    let catalog = Catalog::new();
    let chosen = KNOWN_SERVICES
        .iter()
        .filter_map(|service| Some((service.name, service.first_model?)));
    let mut unknown = Vec::new();
    for (provider, model) in chosen {
        let facts = catalog.facts(&ResolvedModel {
            id: "default".into(),
            provider: provider.into(),
            provider_kind: ProviderKind::Custom,
            model: model.to_owned(),
            max_input_tokens: None,
            max_output_tokens: None,
            reasoning: None,
            tokens_per_minute: None,
        });
        if facts.context_window.source != Source::BuiltIn || facts.output_limit.is_none() {
            unknown.push(format!("{provider}/{model}"));
        }
    }
    // The one whose model the service chooses anew for each request.
    assert_eq!(unknown, ["openrouter/openrouter/auto"]);
}
