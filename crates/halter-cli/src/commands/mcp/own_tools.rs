//! The harness's own tools, called by hosts: through a session, its policy and
//! its hooks, as a model's calls are.

use super::agent::{HarnessAgent, told};
use futures::StreamExt;
use halter::providers::{FakeProvider, Reply};
use halter::{HalterSession, SessionInit};
use halter_mcp::server::{HostLink, ServeError};
use halter_protocol::{
    Message, ModelId, Prices, SessionEventPayload, ToolError, ToolErrorCode, ToolResult, Turn,
    TurnId,
};
use halter_providers::Provider;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OnceCell, Semaphore};

/// The name under which the stand-in for a model is known.
pub const PROVIDER: &str = "mcp-host";
/// Its model.
const MODEL: &str = "mcp-host/calls";

/// The calls that wait to be made, by the turn that makes them.
type Calls = Arc<Mutex<HashMap<TurnId, (String, Value)>>>;

/// One session for the calls of all hosts, so that what one call reads or
/// leaves in the shell is there for the next.
pub struct OwnTools {
    calls: Calls,
    session: OnceCell<HalterSession>,
    /// One call at a time asks its host and is answered.
    turn: Semaphore,
}

impl OwnTools {
    /// The tools, and the stand-in for a model that makes their calls.
    pub fn new() -> (Self, Arc<dyn Provider>) {
        let calls = Calls::default();
        let waiting = calls.clone();
        let provider = FakeProvider::from_fn(move |request| {
            // Summaries are asked for under the same turn. What is said of tools
            // that joined stands behind the turn's own message.
            let last = request.messages.iter_newest_first().next();
            let begins = matches!(
                last.map(Arc::as_ref),
                Some(Message::User(_) | Message::System(_))
            );
            let begins = begins && !request.tools.is_empty();
            let call = begins.then(|| lock(&waiting).remove(&request.turn_id));
            match call.flatten() {
                Some((name, arguments)) => Reply::new().tool_call(name, arguments),
                None => Reply::new().text("done"),
            }
        });
        let tools = Self {
            calls,
            session: OnceCell::new(),
            turn: Semaphore::new(1),
        };
        (tools, Arc::new(provider.with_prices(Prices::default())))
    }

    async fn session(&self, agent: &HarnessAgent) -> Result<&HalterSession, ServeError> {
        let model = ModelId::from(MODEL);
        let mut init = SessionInit {
            default_model: Some(model.clone()),
            working_dir: agent.init.working_dir.clone(),
            ..SessionInit::default()
        };
        // No real model is paid for a summary of what hosts did.
        init.bounds.models = Some(vec![model]);
        let start = || agent.harness.new_session(init);
        self.session.get_or_try_init(start).await.map_err(told)
    }

    /// Makes one call.
    pub async fn call(
        &self,
        agent: &HarnessAgent,
        name: &str,
        arguments: Value,
        host: HostLink,
    ) -> Result<Result<Arc<ToolResult>, ToolError>, ServeError> {
        let cancelled = || ServeError::new("cancelled", "the call was cancelled before it began");
        let _turn = tokio::select! {
            turn = self.turn.acquire() => turn.map_err(|_| cancelled())?,
            () = host.cancelled() => return Err(cancelled()),
        };
        let session = self.session(agent).await?;
        let _served = agent.approvals.serve(session.session_id(), &host);
        let first = self.make(session, name, &arguments, &host).await?;
        match &first {
            // The refusal has loaded the tool, which hosts do not load themselves.
            Err(error) if error.code == ToolErrorCode::NotLoaded => {
                self.make(session, name, &arguments, &host).await
            }
            _ => Ok(first),
        }
    }

    /// One turn, in which the call is made.
    async fn make(
        &self,
        session: &HalterSession,
        name: &str,
        arguments: &Value,
        host: &HostLink,
    ) -> Result<Result<Arc<ToolResult>, ToolError>, ServeError> {
        let turn = Turn::user(format!("The host calls {name}."));
        let turn_id = turn.id.clone();
        let call = (name.to_owned(), arguments.clone());
        lock(&self.calls).insert(turn_id.clone(), call);
        let outcome = outcome(session, turn, &turn_id, host).await;
        lock(&self.calls).remove(&turn_id);
        outcome
    }
}

async fn outcome(
    session: &HalterSession,
    turn: Turn,
    turn_id: &TurnId,
    host: &HostLink,
) -> Result<Result<Arc<ToolResult>, ToolError>, ServeError> {
    let mut events = session.submit_turn(turn).await.map_err(told)?;
    let mut outcome = None;
    let mut cancelled = false;
    loop {
        tokio::select! {
            biased;
            event = events.next() => {
                let Some(event) = event.transpose().map_err(told)? else {
                    return Err(ServeError::new("cancelled", "the session ended before the call did"));
                };
                match event.payload {
                    SessionEventPayload::ToolExecutionCompleted { outcome: completed } => {
                        outcome = Some(completed.result);
                    }
                    SessionEventPayload::TurnFailed { error, .. } if outcome.is_none() => {
                        return Err(ServeError::new(error.code, error.message));
                    }
                    payload if payload.ends_turn() == Some(turn_id) => {
                        let nothing = || ServeError::new("failed", "the call had no outcome");
                        return outcome.ok_or_else(nothing);
                    }
                    _ => {}
                }
            }
            () = host.cancelled(), if !cancelled => {
                cancelled = true;
                let reason = "the host cancelled it or has gone";
                session.cancel_turn(turn_id, reason).await.map_err(told)?;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
