//! A session of two hundred turns against a strict service on loopback, half
//! of it in a second process that takes it up from the store.

use super::Service;
use crate::support::{directory, no_keys};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use halter::HalterSession;
use halter::prelude::*;
use halter_config::{ConfiguredProvider, ModelConfig};
use halter_mock::{MockService, RequestOutcome, ServeOptions, serve};
use halter_protocol::{ContentPart, ReasoningEffort, SkillDef, ToolResult};
use halter_providers::http::{
    ClientSettings, Endpoint, HttpProvider, HttpRequest, HttpResponse, NetworkTransport, Transport,
    TransportError,
};
use halter_providers::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use halter_session::SqliteSessionStore;
use halter_testkit::{ScriptedTool, png};
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

const TURNS: usize = 200;

/// The turn that the second process begins with.
const RESUMED_AT: usize = 130;

/// Other skills are in force from these turns on; the second change happens
/// in the second process.
const REPLACED_AT: [usize; 2] = [40, 160];

/// One turn is answered by another model: a cut there and one back.
const OTHER_MODEL_AT: usize = 90;

/// So many turns apart the instruction file changes, in both processes.
const INSTRUCTED_EVERY: usize = 26;

/// The context is compacted before these turns, once in each process.
const COMPACTED_AT: [usize; 2] = [70, 180];

/// What turns ask for, over and over.
const SCENARIOS: [&str; 9] = [
    "says",
    "parallel",
    "thinking_tool",
    "steered",
    "wrong_type",
    "thinking",
    "parallel",
    "unknown_tool",
    "pictures",
];

/// Short ones of our own: what is measured is their number.
const SCRIPT: &str = r#"
[scenarios.says]
description = "A word."
steps = [{ parts = [{ type = "text", text = "Well." }] }]

[scenarios.parallel]
description = "Three calls at once."
steps = [
  { parts = [
    { type = "text", text = "Three." },
    { type = "call", tool = "read", input = { path = "a" } },
    { type = "call", tool = "glob", input = { pattern = "b" } },
    { type = "call", tool = "grep", input = { pattern = "c" } },
  ] },
  { parts = [{ type = "text", text = "{{result 1}}" }] },
]

[scenarios.steered]
description = "Two calls, of which one waits until the user has said something."
steps = [
  { parts = [
    { type = "thinking", text = "Two at once." },
    { type = "call", tool = "pause", input = {} },
    { type = "call", tool = "camera", input = {} },
  ] },
  { parts = [{ type = "text", text = "Steered in step {{step}}." }] },
]

[scenarios.pictures]
description = "Two pictures and a text at once, then another."
steps = [
  { parts = [
    { type = "call", tool = "camera", input = {} },
    { type = "call", tool = "read", input = { path = "a" } },
    { type = "call", tool = "camera", input = {} },
  ] },
  { parts = [{ type = "call", tool = "camera", input = {} }] },
  { parts = [{ type = "text", text = "I saw {{images}}." }] },
]
"#;

/// A request as the harness made it, its bytes, and the cut announced before.
pub struct Made {
    pub request: ProviderRequest,
    pub body: Bytes,
    pub cut: Option<String>,
}

/// All requests of a session.
pub struct Recorded {
    pub requests: Vec<Made>,
}

/// Plays the whole session.
pub async fn play(service: &Service) -> Recorded {
    let mut options = ServeOptions::default();
    options.scenarios.add_toml(SCRIPT).unwrap();
    let mock = serve(options).await.unwrap();
    let place = Place {
        workspace: directory(&[]),
        database: directory(&[]),
    };
    let first = Process::start(service, &mock, &place).await;
    place.instruct(0);
    let session = place.new_session(&first.harness).await;
    let mut requests = Vec::new();
    for turn in 0..RESUMED_AT {
        place.instruct(turn);
        requests.extend(first.turn(&session, turn).await);
    }
    session.shutdown("half").await.unwrap();
    let id = session.session_id().clone();
    drop((session, first));

    let second = Process::start(service, &mock, &place).await;
    second.replace(REPLACED_AT[0]);
    let resumed = second.harness.runtime().resume(&id).await;
    let session = resumed.unwrap().unwrap();
    for turn in RESUMED_AT..TURNS {
        place.instruct(turn);
        requests.extend(second.turn(&session, turn).await);
    }
    session.shutdown("done").await.unwrap();
    let mut captured = mock.requests();
    captured.retain(|request| request.scenario() != Some("compaction_summary"));
    assert_eq!(captured.len(), requests.len());
    let last = String::from_utf8_lossy(captured.last().unwrap().body()).into_owned();
    // Those of the start stand in the prompt; of those told later, the ones in
    // force at the last compaction stay.
    let in_force = COMPACTED_AT[1] / INSTRUCTED_EVERY * INSTRUCTED_EVERY;
    let told = (in_force..TURNS).step_by(INSTRUCTED_EVERY);
    for turn in [0].into_iter().chain(told) {
        assert!(last.contains(&rules(turn)), "{}", rules(turn));
    }
    for request in &captured {
        assert_eq!(*request.outcome(), RequestOutcome::Answered, "{request:?}");
    }
    let requests = requests.into_iter().zip(captured);
    let requests = requests.map(|((request, cut), captured)| Made {
        request,
        body: captured.body().clone(),
        cut,
    });
    let requests = requests.collect();
    mock.stop().await;
    Recorded { requests }
}

/// The bytes of requests that a provider makes which has seen none before.
pub async fn serialized_again(service: &Service, requests: &[Made]) -> Vec<Bytes> {
    let transport = Arc::new(Capturing::default());
    let provider = HttpProvider::new(
        service.wire.clone(),
        Endpoint::new("http://x"),
        transport.clone(),
    );
    for made in requests {
        let sent = provider.stream(made.request.clone(), CancellationToken::new());
        assert!(sent.await.is_err(), "there is no server");
    }
    std::mem::take(&mut transport.0.lock().unwrap())
}

/// Keeps what would be sent.
#[derive(Default)]
struct Capturing(Mutex<Vec<Bytes>>);

#[async_trait]
impl Transport for Capturing {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        self.0.lock().unwrap().push(request.body);
        Err(TransportError::Broken {
            message: "nothing is sent".to_owned(),
        })
    }
}

/// Notes the requests that pass.
struct Noting {
    inner: HttpProvider,
    noted: Mutex<Vec<ProviderRequest>>,
}

#[async_trait]
impl Provider for Noting {
    fn capabilities(&self) -> ProviderCapabilities {
        self.inner.capabilities()
    }

    async fn stream(
        &self,
        request: ProviderRequest,
        cancel: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        self.noted.lock().unwrap().push(request.clone());
        self.inner.stream(request, cancel).await
    }
}

/// What outlives a process.
struct Place {
    workspace: tempfile::TempDir,
    database: tempfile::TempDir,
}

impl Place {
    /// Changes the instruction file, which cuts nothing.
    fn instruct(&self, turn: usize) {
        if turn.is_multiple_of(INSTRUCTED_EVERY) {
            std::fs::write(self.workspace.path().join("AGENTS.md"), rules(turn)).unwrap();
        }
    }

    async fn new_session(&self, harness: &Halter) -> HalterSession {
        let init = SessionInit::default().with_working_dir(self.workspace.path());
        harness.new_session(init).await.unwrap()
    }
}

/// A harness as one process has it.
struct Process {
    harness: Halter,
    provider: Arc<Noting>,
    /// Lets the waiting tool go on.
    go_on: Arc<Semaphore>,
}

impl Process {
    async fn start(service: &Service, mock: &MockService, place: &Place) -> Self {
        let endpoint = Endpoint::new(format!("{}{}", mock.base_url(), service.prefix));
        let transport = Arc::new(NetworkTransport::new(ClientSettings::default()));
        let provider = Arc::new(Noting {
            inner: HttpProvider::new(
                service.wire.clone(),
                endpoint.with_api_key("sk-x".to_owned()),
                transport,
            ),
            noted: Mutex::default(),
        });
        let go_on = Arc::new(Semaphore::new(0));
        let waits_for = go_on.clone();
        let path = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        let look = |name: &str| {
            ScriptedTool::new(name)
                .read_only()
                .schema(path.clone())
                .build()
        };
        let pause = ScriptedTool::new("pause").read_only().runs(move |_, _| {
            let waits_for = waits_for.clone();
            async move {
                waits_for.acquire().await?.forget();
                Ok(ToolResult::text("rested"))
            }
        });
        let camera = ScriptedTool::new("camera").read_only().runs(|_, _| async {
            Ok(ToolResult::parts([
                ContentPart::text("a picture and its papers"),
                ContentPart::image("image/png", png(1, 1)),
                ContentPart::document("application/pdf", *b"%PDF-1.7"),
                ContentPart::image("image/tiff", *b"II*\0"),
            ]))
        });
        let store = SqliteSessionStore::open(place.database.path().join("s.db")).await;
        let harness = Halter::builder()
            .with_config(config(service))
            .with_environment(no_keys())
            .with_resource_snapshot(ResourceSnapshot::empty())
            .with_session_store(Arc::new(store.unwrap()))
            .with_provider(provider.clone())
            .with_tool(look("read"))
            .with_tool(look("glob"))
            .with_tool(look("grep"))
            .with_tool(pause.build())
            .with_tool(camera.build())
            .build()
            .await
            .unwrap();
        Self {
            harness,
            provider,
            go_on,
        }
    }

    /// Puts the skill of a turn in force.
    fn replace(&self, turn: usize) {
        let snapshot = skills(turn);
        let compiled = halter::CompiledResources::from_snapshot(snapshot);
        self.harness.replace_resources(compiled).unwrap();
    }

    /// Runs a turn; its requests, the first with the cut that was announced.
    async fn turn(
        &self,
        session: &HalterSession,
        number: usize,
    ) -> Vec<(ProviderRequest, Option<String>)> {
        if REPLACED_AT.contains(&number) {
            self.replace(number);
        }
        let scenario = SCENARIOS[number % SCENARIOS.len()];
        let mut turn = Turn::user(format!("turn {number} mock:{scenario}"));
        if number == OTHER_MODEL_AT {
            turn = turn.with_default_model("small");
        }
        let mut cut = None;
        if COMPACTED_AT.contains(&number) {
            let compaction = session.compact(None).await.unwrap().unwrap();
            assert_eq!(compaction.summary_error, None);
            cut = Some("context_compacted".to_owned());
        }
        let mut events = session.submit_turn(turn).await.unwrap();
        let mut last = None;
        while let Some(event) = events.next().await {
            let payload = event.unwrap().payload;
            match &payload {
                SessionEventPayload::CacheBreak { reason, .. } => {
                    assert_eq!(cut.replace(reason.to_string()), None);
                }
                SessionEventPayload::ToolExecutionStarted { call, .. }
                    if call.name.as_str() == "pause" =>
                {
                    session.steer(format!("and mind {number}")).await.unwrap();
                    self.go_on.add_permits(1);
                }
                _ => {}
            }
            last = Some(payload);
        }
        assert!(
            matches!(last, Some(SessionEventPayload::TurnCompleted { .. })),
            "turn {number}, {scenario}: {last:?}"
        );
        let mut made = std::mem::take(&mut *self.provider.noted.lock().unwrap());
        made.retain(|request| !request.tools.is_empty());
        made.into_iter()
            .map(|request| (request, cut.take()))
            .collect()
    }
}

fn config(service: &Service) -> HarnessConfig {
    let mut config = HarnessConfig::default();
    let model = |name: &str| {
        let mut model = ModelConfig::new(ConfiguredProvider::OpenAi, name);
        model.reasoning = Some(ReasoningEffort::Low);
        // So many pictures would fill a smaller window.
        model.max_input_tokens = Some(1_000_000);
        Some(model)
    };
    config.models.default = model(service.model);
    config.models.small = model(service.other_model);
    // Replaced by one of the test's.
    config.tools.enabled = vec!["read".to_owned()];
    config
}

fn rules(turn: usize) -> String {
    format!("Rules of turn {turn}.")
}

fn skills(turn: usize) -> ResourceSnapshot {
    let mut snapshot = ResourceSnapshot::empty();
    let name = format!("skill-{turn}");
    let skill = SkillDef::new(
        format!("skl_{turn}").as_str(),
        name.as_str(),
        "How to.",
        Path::new("/skills").join(&name).join("SKILL.md"),
        "the body",
    );
    snapshot.skills.insert(name.as_str().into(), skill);
    snapshot.revision = name.as_str().into();
    snapshot
}
