//! One request to a server, within its deadlines.

use super::handler::{Client, RunningCall};
use super::running::Link;
use crate::auth::AuthFailure;
use crate::error::McpError;
use crate::http::{HttpFailure, http_failure};
use crate::limits::{CALL_TIMEOUT_MAX, INPUT_ROUNDS, QUOTED_BYTES, REQUESTS_PER_CALL};
use crate::text::{plain, shortened};
use halter_tools::ToolContext;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
    CancelledNotificationParam, ClientNotification, ClientRequest, GetPromptRequest,
    GetPromptRequestParams, InputRequest, InputRequests, InputResponses, JsonObject,
    ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What whoever calls wants of a call.
#[derive(Clone)]
pub(crate) struct CallOrders {
    /// Fires when the call should stop.
    pub(crate) cancel: CancellationToken,
    /// Takes what the server says meanwhile.
    pub(crate) output: Arc<dyn Fn(String) + Send + Sync>,
    /// The call of a session that it is for; without one, nobody is asked.
    pub(crate) caller: Option<ToolContext>,
    /// How much the server has asked for this call, in all its rounds.
    pub(crate) asked: Arc<AtomicUsize>,
}

impl CallOrders {
    /// A call that nobody watches.
    pub(crate) fn quiet() -> Self {
        Self {
            cancel: CancellationToken::new(),
            output: Arc::new(|_| {}),
            caller: None,
            asked: Arc::default(),
        }
    }
}

/// What a request asks for that a server may want input for.
pub(super) trait TakesInput: Clone + Send {
    fn into_request(self) -> ClientRequest;

    /// The same request, with the answers to what the server asked.
    fn give(&mut self, responses: Option<InputResponses>, state: Option<String>);
}

macro_rules! takes_input {
    ($params:ty, $request:ident) => {
        impl TakesInput for $params {
            fn into_request(self) -> ClientRequest {
                ClientRequest::$request($request::new(self))
            }

            fn give(&mut self, responses: Option<InputResponses>, state: Option<String>) {
                self.input_responses = responses;
                self.request_state = state;
            }
        }
    };
}

takes_input!(CallToolRequestParams, CallToolRequest);
takes_input!(ReadResourceRequestParams, ReadResourceRequest);
takes_input!(GetPromptRequestParams, GetPromptRequest);

impl Link {
    /// Calls a tool, and answers what the server wants to know for it.
    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: JsonObject,
        orders: &CallOrders,
    ) -> Result<CallToolResult, McpError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        match self.answered(params, orders).await? {
            ServerResult::CallToolResult(result) => Ok(result),
            ServerResult::CustomResult(other) => {
                let text = shortened(&plain(&other.0.to_string()), QUOTED_BYTES);
                Err(self.not_understood(&format!("no result of a tool: {text}")))
            }
            _ => Err(self.not_understood("no result of a tool")),
        }
    }

    /// Makes a request, and answers what the server wants to know for it.
    pub(super) async fn answered<Params: TakesInput>(
        &self,
        mut params: Params,
        orders: &CallOrders,
    ) -> Result<ServerResult, McpError> {
        for round in 0..INPUT_ROUNDS {
            let request = params.clone().into_request();
            match self.request(request, self.call_timeout, orders).await? {
                ServerResult::InputRequiredResult(wanted) => {
                    let (requests, state) = (wanted.input_requests, wanted.request_state);
                    if requests.is_none() && state.is_none() {
                        return Err(self.not_understood("it wants input and does not say which"));
                    }
                    if requests.is_none() {
                        pause(round).await;
                    }
                    let wanted = requests.unwrap_or_default();
                    params.give(self.inputs(wanted, orders).await?, state);
                }
                other => return Ok(other),
            }
        }
        Err(self.not_understood(&format!(
            "it asked for input more than {INPUT_ROUNDS} times"
        )))
    }

    /// What a server wants to know before it can answer. No deadline runs
    /// meanwhile.
    async fn inputs(
        &self,
        requests: InputRequests,
        orders: &CallOrders,
    ) -> Result<Option<InputResponses>, McpError> {
        let asked = orders.asked.fetch_add(requests.len(), Ordering::Relaxed);
        if asked.saturating_add(requests.len()) > REQUESTS_PER_CALL {
            let reason = format!("it wants more than {REQUESTS_PER_CALL} inputs for one call");
            return Err(self.not_understood(&reason));
        }
        let mut responses = InputResponses::default();
        for (key, request) in requests {
            let response = match (request, &orders.caller) {
                (InputRequest::ListRoots(_), caller) => {
                    let directory = caller.as_ref().map(|it| it.working_dir.as_path());
                    serde_json::to_value(self.client.roots_of(directory))
                }
                (InputRequest::Elicitation(request), Some(caller)) => {
                    let asked = self.client.elicit(request.params, caller).await;
                    serde_json::to_value(asked.map_err(|it| self.not_understood(&it))?)
                }
                (InputRequest::CreateMessage(request), Some(caller)) => {
                    let sampled = self.client.sample(request.params, caller).await;
                    serde_json::to_value(sampled.map_err(|it| self.not_understood(&it))?)
                }
                _ => return Err(self.not_understood("it wants input that nobody here gives")),
            };
            if orders.cancel.is_cancelled() {
                let server = self.client.server.clone();
                return Err(McpError::Cancelled { server });
            }
            let response = response.map_err(|error| self.not_understood(&error.to_string()))?;
            responses.insert(key, response);
        }
        Ok((!responses.is_empty()).then_some(responses))
    }

    /// Sends a request and waits for its answer: for `timeout` without a sign
    /// of progress, and for [`CALL_TIMEOUT_MAX`] in all. While the server itself
    /// waits for a person or a model, no time passes.
    pub(crate) async fn request(
        &self,
        request: ClientRequest,
        timeout: Duration,
        orders: &CallOrders,
    ) -> Result<ServerResult, McpError> {
        let sending = self
            .peer
            .send_cancellable_request(request, PeerRequestOptions::no_options());
        // The queue of a server that does not read may be full.
        let sent = tokio::time::timeout(timeout, sending).await;
        let Ok(sent) = sent else {
            return Err(self.too_late(timeout));
        };
        let mut sent = sent.map_err(|error| self.explain(error))?;
        let token = sent.progress_token.clone();
        let alive = Arc::new(Notify::new());
        let (seen, output) = (Arc::clone(&alive), Arc::clone(&orders.output));
        let sink = move |text| {
            seen.notify_one();
            output(text);
        };
        let call = RunningCall {
            sink: Arc::new(sink),
            caller: orders.caller.clone(),
            requests: Arc::clone(&orders.asked),
        };
        self.client.listen(token.clone(), call);
        let _listening = Listening(&self.client, token);
        let mut open = self.client.open_requests();
        let mut last = Instant::now() + CALL_TIMEOUT_MAX;
        let mut idle = Instant::now() + timeout;
        let mut waits_since: Option<Instant> = None;
        loop {
            match (*open.borrow_and_update() > 0, waits_since) {
                (true, None) => waits_since = Some(Instant::now()),
                (false, Some(since)) => {
                    last += since.elapsed();
                    idle = Instant::now() + timeout;
                    waits_since = None;
                }
                _ => {}
            }
            tokio::select! {
                biased;
                answer = &mut sent.rx => {
                    let answer = answer.unwrap_or(Err(ServiceError::TransportClosed));
                    return answer.map_err(|error| self.explain(error));
                }
                () = orders.cancel.cancelled() => {
                    self.give_up(sent.id.clone(), "cancelled by the user").await;
                    let server = self.client.server.clone();
                    return Err(McpError::Cancelled { server });
                }
                () = alive.notified() => idle = Instant::now() + timeout,
                _ = open.changed() => {}
                () = tokio::time::sleep_until(idle.min(last)), if waits_since.is_none() => {
                    self.give_up(sent.id.clone(), "it took too long").await;
                    return Err(self.too_late(timeout));
                }
            }
        }
    }

    /// Tells the server that nobody waits for an answer any more.
    async fn give_up(&self, id: rmcp::model::RequestId, reason: &str) {
        let params = CancelledNotificationParam::new(Some(id), Some(reason.to_owned()));
        let notice = CancelledNotification::new(params);
        let notice = ClientNotification::CancelledNotification(notice);
        let telling = self.peer.send_notification(notice);
        // One that hangs may not read this either.
        let _ = tokio::time::timeout(Duration::from_millis(100), telling).await;
    }

    pub(crate) fn explain(&self, error: ServiceError) -> McpError {
        let server = self.client.server.clone();
        match error {
            ServiceError::McpError(error) => McpError::Refused {
                server,
                code: error.code.0,
                message: shortened(&plain(&error.message), QUOTED_BYTES),
            },
            ServiceError::TransportClosed => McpError::Ended {
                server,
                reason: self.closing.reason(),
                words: String::new(),
            },
            ServiceError::TransportSend(error) => match http_failure(&error) {
                Some(HttpFailure::Auth(AuthFailure::LoginNeeded { scope })) => {
                    McpError::LoginNeeded { server, scope }
                }
                // The connection stands, and the next request may succeed.
                Some(failure) if !self.closing.is_closed() => McpError::Http {
                    server,
                    reason: failure.to_string(),
                },
                _ => McpError::Ended {
                    server,
                    reason: Some(shortened(&plain(&error.to_string()), QUOTED_BYTES)),
                    words: String::new(),
                },
            },
            other => self.not_understood(&other.to_string()),
        }
    }

    pub(crate) fn not_understood(&self, reason: &str) -> McpError {
        McpError::Answer {
            server: self.client.server.clone(),
            reason: reason.to_owned(),
        }
    }

    fn too_late(&self, after: Duration) -> McpError {
        McpError::CallDeadline {
            server: self.client.server.clone(),
            after,
        }
    }
}

/// Between rounds in which a server only wants to be asked again.
async fn pause(round: usize) {
    let millis = 50_u64 << round.min(3);
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// The progress of a call is listened to while this lives.
struct Listening<'a>(&'a Client, rmcp::model::ProgressToken);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.forget(&self.1);
    }
}
