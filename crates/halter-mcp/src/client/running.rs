//! A connection from its beginning to its end.

use super::handler::{Client, SharedClient};
use crate::error::McpError;
use crate::host::Host;
use crate::limits::{QUOTED_BYTES, STOP_GRACE};
use crate::settings::ServerSettings;
use crate::supervise::{Guard, Program, Started};
use crate::text::{plain, shortened};
use crate::transport::{Closing, Stdio, Watched};
use rmcp::model::{ProtocolVersion, ServerCapabilities, ServerPeerInfo};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::Transport;
use rmcp::{ClientLifecycleMode, Peer, RoleClient, serve_client_with_lifecycle};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A connection as its calls see it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) client: Arc<Client>,
    pub(crate) closing: Closing,
    pub(crate) call_timeout: Duration,
    pub(crate) info: Arc<ServerPeerInfo>,
}

impl Link {
    pub(crate) fn capabilities(&self) -> &ServerCapabilities {
        &self.info.capabilities
    }
}

/// A connection as its owner has it. Dropping it kills the server's program.
pub(crate) struct Running {
    service: RunningService<RoleClient, SharedClient>,
    program: Program,
    link: Link,
}

/// How a server is spoken to first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greeting {
    /// By the newest revision, and by an older one if it does not know that.
    Newest,
    /// By an older one: the server ended when it was asked for the newest.
    Older,
}

impl Running {
    /// Starts a server and agrees on a revision of the protocol.
    pub(crate) async fn connect(
        settings: &ServerSettings,
        host: &Arc<dyn Host>,
        guard: &Guard,
    ) -> Result<Self, McpError> {
        let until = Instant::now() + settings.start_timeout;
        match Self::greet(settings, host, guard, Greeting::Newest, until).await {
            // Some end when they are asked what they do not know.
            Err(McpError::Connect { .. }) => {
                Self::greet(settings, host, guard, Greeting::Older, until).await
            }
            other => other,
        }
    }

    async fn greet(
        settings: &ServerSettings,
        host: &Arc<dyn Host>,
        guard: &Guard,
        greeting: Greeting,
        until: Instant,
    ) -> Result<Self, McpError> {
        let closing = Closing::default();
        let client = Arc::new(Client::new(settings.name.clone(), Arc::clone(host)));
        let opening = Opening {
            settings,
            client,
            closing,
            greeting,
            until,
        };
        let mut program = settings.program.clone();
        let (name, value) = guard.mark();
        program.environment.set(name, value);
        let started = Program::start(&program).map_err(|error| McpError::Start {
            server: settings.name.clone(),
            reason: error.to_string(),
        })?;
        let Started {
            program,
            input,
            output,
        } = started;
        let transport = Stdio::new(input, output, opening.closing.clone());
        opening.open(transport, program).await
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Returns when the server has ended or was disconnected.
    pub(crate) async fn ended(&self) {
        tokio::select! {
            () = self.link.closing.closed() => {}
            () = self.program.ended() => {}
        }
    }

    /// Ends the connection and, with all it started, the server's program.
    /// Returns its last words, or why it was disconnected.
    pub(crate) async fn close(mut self) -> String {
        let _ = self.service.close_with_timeout(STOP_GRACE).await;
        let words = self.program.stop().await;
        self.link.closing.reason().unwrap_or(words)
    }
}

/// A connection that begins.
struct Opening<'a> {
    settings: &'a ServerSettings,
    client: Arc<Client>,
    closing: Closing,
    greeting: Greeting,
    until: Instant,
}

impl Opening<'_> {
    async fn open(
        self,
        transport: impl Transport<RoleClient> + 'static,
        program: Program,
    ) -> Result<Running, McpError> {
        let watched = Watched::new(transport, self.closing.clone());
        let lifecycle = match self.greeting {
            Greeting::Newest => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::LATEST],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Greeting::Older => ClientLifecycleMode::Initialize,
        };
        let handler = SharedClient(Arc::clone(&self.client));
        let served = serve_client_with_lifecycle(handler, watched, lifecycle);
        let served = timeout_at(self.until, served).await;
        let service = match served {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => return Err(self.refused(error, program).await),
            Err(_) => {
                let words = program.stop().await;
                return Err(McpError::StartDeadline {
                    server: self.settings.name.clone(),
                    step: "it did not answer the first message",
                    after: self.settings.start_timeout,
                    words,
                });
            }
        };
        let Some(info) = service.peer().peer_info() else {
            let words = program.stop().await;
            return Err(self.unusable("it did not say who it is".to_owned(), words));
        };
        let link = Link {
            peer: service.peer().clone(),
            client: self.client,
            closing: self.closing,
            call_timeout: self.settings.call_timeout,
            info,
        };
        Ok(Running {
            service,
            program,
            link,
        })
    }

    async fn refused(&self, error: ClientInitializeError, program: Program) -> McpError {
        let words = program.stop().await;
        let reason = self.closing.reason().unwrap_or_else(|| explained(&error));
        self.unusable(reason, words)
    }

    fn unusable(&self, reason: String, words: String) -> McpError {
        McpError::Connect {
            server: self.settings.name.clone(),
            reason,
            words: plain(&words),
        }
    }
}

fn explained(error: &ClientInitializeError) -> String {
    let text = match error {
        ClientInitializeError::ConnectionClosed(_) => "it ended before it answered".to_owned(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => explained(fallback),
        other => other.to_string(),
    };
    shortened(&plain(&text), QUOTED_BYTES)
}
