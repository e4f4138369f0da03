//! What a server may ask of us and tell us.
#![expect(
    deprecated,
    reason = "older servers ask for roots, and must be answered"
)]

use super::elicit::elicit;
use super::sample::sample;
use crate::host::Host;
use crate::limits::{PROGRESS_BYTES, QUOTED_BYTES, REQUESTS_PER_CALL};
use crate::names::ServerName;
use crate::settings::ServerSettings;
use crate::text::{plain, shortened};
use futures::FutureExt as _;
use halter_tools::ToolContext;
use rmcp::ClientHandler;
use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    FormElicitationCapability, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, Root, RootsCapabilities,
    SamplingCapability, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, watch};

/// Takes the progress of a call.
pub(crate) type ProgressSink = Arc<dyn Fn(String) + Send + Sync>;

/// A call that is under way.
pub(crate) struct RunningCall {
    pub(crate) sink: ProgressSink,
    /// The call of a session that it is for; without one, nobody is asked.
    pub(crate) caller: Option<ToolContext>,
    /// How much the server has asked for it.
    pub(crate) requests: Arc<AtomicUsize>,
}

/// A connection's side of ours, shared by its calls.
pub(crate) struct Client {
    pub(crate) server: ServerName,
    pub(crate) host: Arc<dyn Host>,
    /// Whether it may ask models.
    sampling: bool,
    /// Told when the server's tools have changed. A flood of notices is one.
    pub(crate) tools_changed: Notify,
    /// Told when the stream is open by which a server over HTTP tells of
    /// changes. Those of before were told to nobody.
    pub(crate) stream_opened: Notify,
    calls: Mutex<HashMap<ProgressToken, RunningCall>>,
    /// What the server waits for: people and models. No deadline of its calls
    /// runs meanwhile.
    open_requests: watch::Sender<usize>,
}

impl Client {
    pub(crate) fn new(settings: &ServerSettings, host: Arc<dyn Host>) -> Self {
        Self {
            server: settings.name.clone(),
            host,
            sampling: settings.sampling,
            tools_changed: Notify::new(),
            stream_opened: Notify::new(),
            calls: Mutex::default(),
            open_requests: watch::Sender::new(0),
        }
    }

    /// Forgets that tools have changed: a list that is asked for now has it.
    pub(crate) fn forget_told_changes(&self) {
        // Takes the permits, if there are any.
        let _ = self.tools_changed.notified().now_or_never();
        let _ = self.stream_opened.notified().now_or_never();
    }

    /// Says how much the server waits for, now and whenever that changes.
    pub(crate) fn open_requests(&self) -> watch::Receiver<usize> {
        self.open_requests.subscribe()
    }

    /// Has the progress of a call go somewhere, until [`forget`](Self::forget).
    pub(crate) fn listen(&self, token: ProgressToken, call: RunningCall) {
        self.lock().insert(token, call);
    }

    pub(crate) fn forget(&self, token: &ProgressToken) {
        self.lock().remove(token);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, RunningCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call that a request of the server is for. Older revisions do not say
    /// which: it is one of the session that has calls under way. A server that
    /// asks outside of calls, or while several sessions wait for it, is not
    /// heard: nobody can tell whom it means.
    fn caller(&self) -> Result<ToolContext, &'static str> {
        let session = |call: &RunningCall| {
            let caller = call.caller.as_ref();
            caller.map(|caller| caller.session_id.clone())
        };
        let calls = self.lock();
        let mut calls = calls.values().filter(|call| call.caller.is_some());
        let call = calls.next();
        let call = call.ok_or("no call is under way that this could be for")?;
        if calls.any(|other| session(other) != session(call)) {
            return Err("several sessions wait, and it is not known which is meant");
        }
        if call.requests.fetch_add(1, Ordering::Relaxed) >= REQUESTS_PER_CALL {
            return Err("this call has asked for too much already");
        }
        call.caller.clone().ok_or("nobody can be asked")
    }

    /// Where the sessions work whose calls are under way.
    fn directories(&self) -> Vec<PathBuf> {
        let calls = self.lock();
        let callers = calls.values().filter_map(|call| call.caller.as_ref());
        let found: BTreeSet<&PathBuf> = callers.map(|caller| &caller.working_dir).collect();
        found.into_iter().cloned().collect()
    }

    /// Asks a person for a call.
    ///
    /// # Errors
    /// What is wrong with what the server asks.
    pub(crate) async fn elicit(
        &self,
        params: ElicitRequestParams,
        caller: &ToolContext,
    ) -> Result<ElicitResult, String> {
        let _open = OpenRequest::new(&self.open_requests);
        elicit(&self.server, params, caller).await
    }

    /// Asks a model for a call.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn sample(
        &self,
        params: CreateMessageRequestParams,
        caller: &ToolContext,
    ) -> Result<CreateMessageResult, String> {
        if !self.sampling {
            return Err("this server may ask no model; its table says so by `sampling`".to_owned());
        }
        let _open = OpenRequest::new(&self.open_requests);
        sample(params, caller).await
    }

    /// The directories that sessions work in: those of the calls under way, or
    /// those of the host if there is none.
    pub(crate) fn roots(&self) -> ListRootsResult {
        self.roots_at(self.directories())
    }

    /// The directory of a session, or those of the host.
    pub(crate) fn roots_of(&self, session: Option<&Path>) -> ListRootsResult {
        self.roots_at(session.into_iter().map(Path::to_path_buf).collect())
    }

    fn roots_at(&self, mut roots: Vec<PathBuf>) -> ListRootsResult {
        if roots.is_empty() {
            roots = self.host.roots();
        }
        let uris = roots.iter().filter_map(|root| {
            let uri = url::Url::from_file_path(root).ok()?;
            Some(Root::new(uri.to_string()))
        });
        ListRootsResult::new(uris.collect())
    }
}

/// Counts something that a server waits for, while this lives.
struct OpenRequest<'a>(&'a watch::Sender<usize>);

impl<'a> OpenRequest<'a> {
    fn new(open: &'a watch::Sender<usize>) -> Self {
        open.send_modify(|count| *count += 1);
        Self(open)
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Shared between the library, which wants it whole, and the calls.
#[derive(Clone)]
pub(crate) struct SharedClient(pub(crate) Arc<Client>);

impl ClientHandler for SharedClient {
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(self.0.roots())
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let caller = match self.0.caller() {
            Ok(caller) => caller,
            Err(reason) => {
                tracing::warn!(server = %self.0.server, reason, "an MCP server asks in vain");
                return Ok(ElicitResult::new(ElicitationAction::Cancel));
            }
        };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            asked = self.0.elicit(params, &caller) => {
                asked.map_err(|reason| ErrorData::invalid_params(reason, None))
            }
        }
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let refused = |reason: String| ErrorData::invalid_request(reason, None);
        let caller = self.0.caller().map_err(|it| refused(it.to_owned()))?;
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(refused("cancelled".to_owned())),
            sampled = self.0.sample(params, &caller) => sampled.map_err(refused),
        }
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let sink = {
            let calls = self.0.lock();
            let call = calls.get(&params.progress_token);
            call.map(|call| Arc::clone(&call.sink))
        };
        if let Some(sink) = sink {
            sink(progress_text(&params));
        }
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = shortened(&plain(&params.data.to_string()), QUOTED_BYTES);
        tracing::debug!(server = %self.0.server, text, "a server logs");
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.tools_changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        let checked = FormElicitationCapability::new().with_schema_validation(true);
        let elicitation = ElicitationCapability::new()
            .with_form(checked)
            .with_url(UrlElicitationCapability::new());
        capabilities.elicitation = Some(elicitation);
        capabilities.sampling = self.0.sampling.then(SamplingCapability::default);
        let implementation = Implementation::new("halter", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, implementation)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// Progress in words.
fn progress_text(params: &ProgressNotificationParam) -> String {
    let count = match params.total {
        Some(total) => format!("{}/{total}", params.progress),
        None => params.progress.to_string(),
    };
    match &params.message {
        Some(message) => {
            let message = shortened(&plain(message), PROGRESS_BYTES);
            format!("{message} ({count})\n")
        }
        None => format!("progress {count}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn progress_is_plain_and_bounded() {
        let text = |message: &str| {
            let params = json!({"progressToken": 1, "progress": 0.5, "message": message});
            progress_text(&serde_json::from_value(params).unwrap())
        };
        assert_eq!(text("a\u{1b}[2J"), "a[2J (0.5)\n");
        assert!(!text(&"a".repeat(PROGRESS_BYTES)).contains("left out"));
        assert!(text(&"a".repeat(PROGRESS_BYTES + 1)).contains("[1 bytes left out]"));
    }
}
