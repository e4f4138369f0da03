//! Compaction by the model's own service: what is sent back, what the log
//! keeps, and what happens where it is not to be had or does not help.

use crate::support::{directory, no_keys, run_turn};
use futures::StreamExt as _;
use halter::HalterSession;
use halter::prelude::*;
use halter_config::{ConfiguredProvider, ModelConfig, ProviderConfig};
use halter_mock::{CapturedRequest, MockService, RequestOutcome, ServeOptions, serve};
use halter_protocol::{CompactionTier, ContextCompaction};
use halter_session::SqliteSessionStore;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

const SCRIPT: &str = r#"
[scenarios.long]
description = "A long answer."
steps = [{ parts = [{ type = "text", text = "NEEDLE" }, { type = "filler", bytes = 60000 }] }]

[scenarios.says]
description = "A word."
steps = [{ parts = [{ type = "text", text = "Well." }] }]

[scenarios.greedy]
description = "A word, to a conversation that is said to be as long as before."
steps = [{ parts = [{ type = "text", text = "Well." }], usage = { input = 90000, output = 5 } }]
"#;

/// Where the wires differ.
#[derive(Clone, Copy)]
struct Vendor {
    provider: &'static str,
    path: &'static str,
    model: &'static str,
    other_model: &'static str,
    list: &'static str,
}

const ANTHROPIC: Vendor = Vendor {
    provider: "anthropic",
    path: "/anthropic",
    model: "claude-opus-5",
    other_model: "claude-sonnet-5",
    list: "messages",
};

const OPENAI: Vendor = Vendor {
    provider: "openai",
    path: "/openai",
    model: "gpt-5.2",
    other_model: "gpt-5.1",
    list: "input",
};

struct Stage {
    mock: MockService,
    vendor: Vendor,
    native: Option<bool>,
    workspace: tempfile::TempDir,
}

impl Stage {
    async fn new(vendor: Vendor, native: Option<bool>) -> Self {
        let mut options = ServeOptions::default();
        options.scenarios.add_toml(SCRIPT).unwrap();
        Self {
            mock: serve(options).await.unwrap(),
            vendor,
            native,
            workspace: directory(&[]),
        }
    }

    async fn harness(&self) -> Halter {
        let provider = ConfiguredProvider::from(self.vendor.provider.to_owned());
        let mut config = HarnessConfig::default();
        *config.providers.entry(&provider).unwrap() = ProviderConfig {
            base_url: Some(format!("{}{}", self.mock.base_url(), self.vendor.path)),
            api_key: Some("sk-very-secret".to_owned()),
            native_compaction: self.native,
            ..ProviderConfig::default()
        };
        let model = |name: &str| Some(ModelConfig::new(provider.clone(), name));
        config.models.default = model(self.vendor.model);
        config.models.small = model(self.vendor.other_model);
        config.context.compaction_threshold = Some(40_000);
        let store = SqliteSessionStore::open(self.workspace.path().join("log.db"));
        Halter::builder()
            .with_config(config)
            .with_environment(no_keys())
            .with_resource_snapshot(ResourceSnapshot::empty())
            .with_session_store(Arc::new(store.await.unwrap()))
            .build()
            .await
            .unwrap()
    }

    async fn session(&self, harness: &Halter) -> HalterSession {
        let init = SessionInit::default().with_working_dir(Path::new(self.workspace.path()));
        harness.new_session(init).await.unwrap()
    }

    /// A session that is too long for its next turn.
    async fn long_session(&self, harness: &Halter) -> HalterSession {
        let session = self.session(harness).await;
        for turn in 0..3 {
            let events = run_turn(&session, &format!("turn {turn} mock:long")).await;
            assert_eq!(compactions(&events), []);
        }
        session
    }

    /// The requests, none of which the strict service refused.
    fn requests(&self) -> Vec<Arc<CapturedRequest>> {
        let requests = self.mock.requests();
        for request in &requests {
            let outcome = request.outcome();
            assert_eq!(*outcome, RequestOutcome::Answered, "{}", request.json());
        }
        requests
    }

    fn last_request(&self) -> Arc<CapturedRequest> {
        self.requests().last().unwrap().clone()
    }

    fn asked_to_compact(&self) -> usize {
        let asks = |request: &&Arc<CapturedRequest>| {
            request.path().ends_with("/compact") || request.json().get("compaction").is_some()
        };
        self.requests().iter().filter(asks).count()
    }

    /// The elements of the conversation in a request.
    fn elements(&self, request: &CapturedRequest) -> Vec<Value> {
        let body = request.json();
        body[self.vendor.list].as_array().unwrap().clone()
    }
}

/// What the service made, as it is in a request.
fn native_parts(request: &CapturedRequest) -> Vec<Value> {
    let body = request.json();
    let messages = body["messages"].as_array().into_iter().flatten();
    let blocks = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    let items = body["input"].as_array().into_iter().flatten();
    let is_native = |part: &&Value| part["type"] == "compaction";
    blocks.chain(items).filter(is_native).cloned().collect()
}

fn compactions(events: &[SessionEvent]) -> Vec<ContextCompaction> {
    let compaction = |event: &SessionEvent| match &event.payload {
        SessionEventPayload::ContextCompacted(compaction) => Some(compaction.as_ref().clone()),
        _ => None,
    };
    events.iter().filter_map(compaction).collect()
}

fn kinds(events: &[SessionEvent]) -> Vec<&str> {
    events.iter().map(|event| event.payload.kind()).collect()
}

async fn goes_on_from_what_the_service_made(vendor: Vendor) {
    let stage = Stage::new(vendor, Some(true)).await;
    let harness = stage.harness().await;
    let session = stage.long_session(&harness).await;
    let events = run_turn(&session, "turn 3 mock:says").await;

    let [compaction] = compactions(&events).try_into().unwrap();
    assert_eq!(compaction.tier, CompactionTier::Native);
    assert_eq!(compaction.messages_cut, 6);
    assert!(compaction.tokens_after < compaction.tokens_before / 2);
    assert!(compaction.usage.output_tokens > 0, "what it cost");
    let model = compaction.answered_by.model.as_deref();
    assert_eq!(model, Some(vendor.model));
    let kinds = kinds(&events);
    let place = |kind: &str| kinds.iter().position(|it| *it == kind).unwrap();
    assert_eq!(place("cache_break"), place("context_compacted") + 1);
    assert_eq!(stage.asked_to_compact(), 1);
    let first = stage.last_request();
    let parts = native_parts(&first);
    assert_eq!(parts.len(), 1);
    assert!(!first.json().to_string().contains("NEEDLE"), "it is cut");

    // The log has it: a second process sends the same bytes, and only appends.
    let id = session.session_id().clone();
    session.shutdown("done").await.unwrap();
    drop(harness);
    let harness = stage.harness().await;
    let session = harness.runtime().resume(&id).await.unwrap().unwrap();
    run_turn(&session, "turn 4 mock:says").await;
    let second = stage.last_request();
    assert_eq!(native_parts(&second), parts);
    let written = parts[0].to_string();
    for request in [&first, &second] {
        let body = String::from_utf8(request.body().to_vec()).unwrap();
        assert!(body.contains(&written), "as it came: {body}");
    }
    let (before, after) = (stage.elements(&first), stage.elements(&second));
    assert_eq!(unmarked(&after[..before.len()]), unmarked(&before));
    assert_eq!(stage.asked_to_compact(), 1);

    // Another model cannot read it, and is told in words.
    let turn = Turn::user("turn 5 mock:says").with_default_model("small");
    let mut events = session.submit_turn(turn).await.unwrap();
    while let Some(event) = events.next().await {
        event.unwrap();
    }
    let other = stage.last_request();
    assert_eq!(other.json()["model"], vendor.other_model);
    assert_eq!(native_parts(&other), Vec::<Value>::new());
    assert_eq!(other.header("anthropic-beta"), None);
    let body = other.json().to_string();
    assert!(
        body.contains("<context-summary>") && body.contains("turn 0"),
        "{body}"
    );
    session.shutdown("done").await.unwrap();
}

/// Without cache marks, which move on.
fn unmarked(elements: &[Value]) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.remove("cache_control");
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut elements = elements.to_vec();
    elements.iter_mut().for_each(strip);
    elements
}

#[tokio::test]
async fn anthropic_goes_on_from_its_own_compaction() {
    goes_on_from_what_the_service_made(ANTHROPIC).await;
}

#[tokio::test]
async fn openai_goes_on_from_its_own_compaction() {
    goes_on_from_what_the_service_made(OPENAI).await;
}

async fn a_summary_is_written_if_usage_does_not_fall(vendor: Vendor) {
    let stage = Stage::new(vendor, Some(true)).await;
    let harness = stage.harness().await;
    let session = stage.long_session(&harness).await;
    let events = run_turn(&session, "turn 3 mock:greedy").await;
    assert_eq!(compactions(&events)[0].tier, CompactionTier::Native);
    let events = run_turn(&session, "turn 4 mock:says").await;
    assert_eq!(compactions(&events)[0].tier, CompactionTier::Summary);
    assert_eq!(stage.asked_to_compact(), 1, "not twice");
    assert_eq!(native_parts(&stage.last_request()), Vec::<Value>::new());
    session.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn a_summary_is_written_if_the_usage_of_anthropic_does_not_fall() {
    a_summary_is_written_if_usage_does_not_fall(ANTHROPIC).await;
}

#[tokio::test]
async fn a_summary_is_written_if_the_usage_of_openai_does_not_fall() {
    a_summary_is_written_if_usage_does_not_fall(OPENAI).await;
}

/// The address of the mock is no vendor's.
#[tokio::test]
async fn nobody_but_the_vendor_is_asked() {
    for vendor in [ANTHROPIC, OPENAI] {
        let stage = Stage::new(vendor, None).await;
        let harness = stage.harness().await;
        let session = stage.long_session(&harness).await;
        let events = run_turn(&session, "turn 3 mock:says").await;
        assert_eq!(compactions(&events)[0].tier, CompactionTier::Summary);
        assert_eq!(stage.asked_to_compact(), 0);
        session.shutdown("done").await.unwrap();
    }
}

/// A compaction that the vendor made does not go to somebody else under the
/// same names.
#[tokio::test]
async fn what_the_vendor_made_is_sent_to_nobody_else() {
    for vendor in [ANTHROPIC, OPENAI] {
        let mut stage = Stage::new(vendor, Some(true)).await;
        let harness = stage.harness().await;
        let session = stage.long_session(&harness).await;
        run_turn(&session, "turn 3 mock:says").await;
        assert_eq!(native_parts(&stage.last_request()).len(), 1);
        let id = session.session_id().clone();
        session.shutdown("done").await.unwrap();
        drop(harness);
        stage.native = None;
        let harness = stage.harness().await;
        let session = harness.runtime().resume(&id).await.unwrap().unwrap();
        run_turn(&session, "turn 4 mock:says").await;
        let request = stage.last_request();
        assert_eq!(native_parts(&request), Vec::<Value>::new());
        assert_eq!(request.header("anthropic-beta"), None);
        assert!(request.json().to_string().contains("<context-summary>"));
        session.shutdown("done").await.unwrap();
    }
}
