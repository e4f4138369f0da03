//! What several tests need.

use async_trait::async_trait;
use halter_hooks::{Hook, HookEventName, HookResponse};
use halter_protocol::{Message, SessionEvent, SessionEventPayload, UserPart};
use halter_providers::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use halter_runtime::{HalterError, SessionHandle};
use halter_session::{InMemorySessionStore, SessionStore, SqliteSessionStore};
use halter_testkit::{Gate, TempWorkspace};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// The stable code of an error of the runtime.
pub fn code(error: &anyhow::Error) -> String {
    error
        .downcast_ref::<HalterError>()
        .unwrap_or_else(|| panic!("not an error with a code: {error:?}"))
        .code()
        .to_owned()
}

/// A hook that always answers the same.
pub fn answering(event: HookEventName, response: HookResponse) -> Hook {
    Hook::callback(event, move |_| {
        let response = response.clone();
        async move { response }
    })
}

/// A hook that waits at a gate and then has no opinion.
pub fn waiting(event: HookEventName, gate: &Gate) -> Hook {
    let gate = gate.clone();
    Hook::callback(event, move |_| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            HookResponse::passthrough()
        }
    })
}

/// A provider whose answers are the streams it is given, well formed or not.
pub struct StreamingProvider(Box<dyn Fn() -> EventStream + Send + Sync>);

impl StreamingProvider {
    pub fn new(answer: impl Fn() -> EventStream + Send + Sync + 'static) -> Self {
        Self(Box::new(answer))
    }
}

#[async_trait]
impl Provider for StreamingProvider {
    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::new()
    }

    async fn stream(
        &self,
        _: ProviderRequest,
        _: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        Ok((self.0)())
    }
}

/// Names written down in the order things happened.
#[derive(Clone, Default)]
pub struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub fn note(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    pub fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Both stores, each with the place it lives in.
pub async fn both_stores(workspace: &TempWorkspace) -> Vec<(&'static str, Arc<dyn SessionStore>)> {
    let path = workspace.beside("sessions.db");
    let sqlite = SqliteSessionStore::open(path).await.unwrap();
    vec![
        ("memory", Arc::new(InMemorySessionStore::new())),
        ("sqlite", Arc::new(sqlite)),
    ]
}

pub fn is_delta(payload: &SessionEventPayload) -> bool {
    matches!(payload, SessionEventPayload::DeltaItem { .. })
}

pub fn is_kind(kind: &str) -> impl FnMut(&SessionEventPayload) -> bool {
    move |payload| payload.kind() == kind
}

/// The text of a message, whoever said it.
pub fn text_of(message: &Message) -> String {
    match message {
        Message::System(system) => system.text.clone(),
        Message::User(user) => user
            .parts
            .iter()
            .filter_map(|part| match part {
                UserPart::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect(),
        Message::Assistant(assistant) => assistant.plain_text(),
        Message::Tool(tool) => tool.to_model_text(),
        _ => String::new(),
    }
}

/// Checks that every turn of a log that started has exactly one terminal
/// event, and every hook that started an end.
pub fn assert_everything_ended(events: &[SessionEvent]) {
    let mut open_turns = Vec::new();
    let mut open_hooks = Vec::new();
    for event in events {
        match &event.payload {
            SessionEventPayload::TurnStarted { turn_id, .. } => open_turns.push(turn_id.clone()),
            SessionEventPayload::HookStarted { run } => open_hooks.push(run.run_id.clone()),
            SessionEventPayload::HookCompleted { run } => {
                let place = open_hooks.iter().position(|id| *id == run.run_id);
                open_hooks.remove(place.expect("a hook ends that had started"));
            }
            other => {
                if let Some(ended) = other.ends_turn() {
                    let place = open_turns.iter().position(|id| id == ended);
                    open_turns.remove(place.expect("a turn ends that had started"));
                }
            }
        }
    }
    let rendered = halter_testkit::render(events);
    assert!(open_turns.is_empty(), "a turn has no end:\n{rendered}");
    assert!(open_hooks.is_empty(), "a hook has no end:\n{rendered}");
}

/// Everything the session has committed.
pub async fn replayed(session: &SessionHandle) -> Vec<SessionEvent> {
    session.replay().await.unwrap()
}
