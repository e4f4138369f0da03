//! What a server may ask of us and tell us.
#![expect(
    deprecated,
    reason = "older servers ask for roots, and must be answered"
)]

use crate::host::Host;
use crate::limits::{PROGRESS_BYTES, QUOTED_BYTES};
use crate::names::ServerName;
use crate::text::{plain, shortened};
use rmcp::ClientHandler;
use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    Root, RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Takes the progress of a call.
pub(crate) type ProgressSink = Arc<dyn Fn(String) + Send + Sync>;

/// A connection's side of ours, shared by its calls.
pub(crate) struct Client {
    pub(crate) server: ServerName,
    pub(crate) host: Arc<dyn Host>,
    /// Told when the server's tools have changed. A flood of notices is one.
    pub(crate) tools_changed: Notify,
    calls: Mutex<HashMap<ProgressToken, ProgressSink>>,
}

impl Client {
    pub(crate) fn new(server: ServerName, host: Arc<dyn Host>) -> Self {
        Self {
            server,
            host,
            tools_changed: Notify::new(),
            calls: Mutex::default(),
        }
    }

    /// Has the progress of a call go somewhere, until [`forget`](Self::forget).
    pub(crate) fn listen(&self, token: ProgressToken, sink: ProgressSink) {
        self.lock().insert(token, sink);
    }

    pub(crate) fn forget(&self, token: &ProgressToken) {
        self.lock().remove(token);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, ProgressSink>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn roots(&self) -> ListRootsResult {
        let roots = self.host.roots();
        let uris = roots.iter().filter_map(|root| {
            let uri = url::Url::from_file_path(root).ok()?;
            Some(Root::new(uri.to_string()))
        });
        ListRootsResult::new(uris.collect())
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

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let sink = self.0.lock().get(&params.progress_token).cloned();
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
