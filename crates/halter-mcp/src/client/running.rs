//! A connection from its beginning to its end.

use super::handler::{Client, SharedClient};
use crate::auth::AuthFailure;
use crate::error::McpError;
use crate::host::Host;
use crate::http::{
    HttpClient, HttpFailure, HttpSettings, HttpTransport, LegacySse, http_failure, streamable,
};
use crate::limits::{INSTRUCTIONS_BYTES, PROBE_TIMEOUT, QUOTED_BYTES, STOP_GRACE};
use crate::names::ServerName;
use crate::settings::{Connection, ServerSettings};
use crate::supervise::{Guard, Program, Started};
use crate::text::{plain, shortened};
use crate::transport::{Closing, ProbeDeadline, Stdio, Watched};
use rmcp::model::{ProtocolVersion, ServerCapabilities, ServerPeerInfo};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::Transport;
use rmcp::{ClientLifecycleMode, Peer, RoleClient, serve_client_with_lifecycle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

    /// What the server says of its use, if it says anything, fit to be shown.
    pub(crate) fn instructions(&self) -> Option<Arc<str>> {
        let said = plain(self.info.instructions.as_deref()?);
        let said = shortened(said.trim(), INSTRUCTIONS_BYTES);
        (!said.is_empty()).then(|| said.into())
    }
}

/// A connection as its owner has it. Dropping it kills the server's program.
pub(crate) struct Running {
    service: RunningService<RoleClient, SharedClient>,
    /// None where the server runs elsewhere.
    program: Option<Program>,
    link: Link,
}

/// How a server is spoken to first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// By the newest revision, and by an older one if it does not know that.
    #[default]
    Newest,
    /// By the newest revision, however long it takes to answer: it knows no
    /// older one.
    OnlyNewest,
    /// By an older one: it ended when it was asked for the newest, or did not
    /// answer.
    Older,
}

impl Running {
    /// Starts a server and agrees on a revision of the protocol. `greeting` is
    /// how it is spoken to first, and afterwards how it is to be next time.
    pub(crate) async fn connect(
        settings: &ServerSettings,
        host: &Arc<dyn Host>,
        guard: &Guard,
        greeting: &mut Greeting,
    ) -> Result<Self, McpError> {
        let until = Instant::now() + settings.start_timeout;
        let unanswered = Arc::new(AtomicBool::new(false));
        let greet = |greeting| Opening {
            settings,
            client: Arc::new(Client::new(settings, Arc::clone(host))),
            closing: Closing::default(),
            greeting,
            until,
            unanswered: Arc::clone(&unanswered),
        };
        let mut greeted = greet(*greeting).begin(guard).await;
        let answered = || !unanswered.load(Ordering::Relaxed);
        if let Err(McpError::Connect { .. }) = greeted {
            *greeting = match greeting {
                // Some end when they are asked what they do not know.
                Greeting::Newest if answered() => Greeting::Older,
                Greeting::Newest => Greeting::OnlyNewest,
                Greeting::OnlyNewest | Greeting::Older => Greeting::Newest,
            };
            greeted = greet(*greeting).begin(guard).await;
        }
        if greeted.is_ok() && *greeting == Greeting::Newest && !answered() {
            *greeting = Greeting::Older;
        }
        greeted
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Returns when the server has ended or was disconnected.
    pub(crate) async fn ended(&self) {
        tokio::select! {
            () = self.link.closing.closed() => {}
            () = ended(self.program.as_ref()) => {}
        }
    }

    /// Ends the connection and, with all it started, the server's program.
    pub(crate) async fn close(mut self) -> Closed {
        let _ = self.service.close_with_timeout(STOP_GRACE).await;
        let words = stop(self.program).await;
        Closed {
            reason: self.link.closing.reason(),
            words,
        }
    }
}

/// How a connection ended.
pub(crate) struct Closed {
    /// Why it was ended; none where the server ended by itself.
    reason: Option<String>,
    /// The server's last words.
    pub(crate) words: String,
}

impl Closed {
    pub(crate) fn error(self, server: ServerName) -> McpError {
        McpError::Ended {
            server,
            reason: self.reason,
            words: self.words,
        }
    }
}

/// Returns when a program ends; never if there is none.
async fn ended(program: Option<&Program>) {
    match program {
        Some(program) => program.ended().await,
        None => std::future::pending().await,
    }
}

/// Ends a program, if there is one. Returns its last words, fit to be shown.
async fn stop(program: Option<Program>) -> String {
    match program {
        Some(program) => plain(&program.stop().await),
        None => String::new(),
    }
}

/// A connection that begins.
struct Opening<'a> {
    settings: &'a ServerSettings,
    client: Arc<Client>,
    closing: Closing,
    greeting: Greeting,
    until: Instant,
    /// Set when the question for the newest revision was not answered.
    unanswered: Arc<AtomicBool>,
}

impl Opening<'_> {
    /// Starts or reaches the server, and greets it.
    async fn begin(self, guard: &Guard) -> Result<Running, McpError> {
        let mut program = match &self.settings.connection {
            Connection::Program(program) => (**program).clone(),
            Connection::Http(http) => return self.open_http(http).await,
        };
        let (name, value) = guard.mark();
        program.environment.set(name, value);
        let started = Program::start(&program).map_err(|error| McpError::Start {
            server: self.settings.name.clone(),
            reason: error.to_string(),
        })?;
        let Started {
            program,
            input,
            output,
        } = started;
        guard.watch(&program);
        let transport = Stdio::new(input, output, self.closing.clone());
        self.open(transport, Some(program)).await
    }

    /// How long it is asked for the newest revision.
    fn probe_deadline(&self) -> Option<ProbeDeadline> {
        let share = PROBE_TIMEOUT.min(self.settings.start_timeout / 3);
        let deadline = ProbeDeadline {
            until: Instant::now() + share,
            passed: Arc::clone(&self.unanswered),
        };
        (self.greeting == Greeting::Newest).then_some(deadline)
    }

    /// Connects to a server that runs elsewhere.
    async fn open_http(self, http: &HttpSettings) -> Result<Running, McpError> {
        let ours = Arc::clone(&self.client);
        let stream_opened = Arc::new(move || ours.stream_opened.notify_one());
        let closing = self.closing.clone();
        let client = HttpClient::new(&self.settings.name, http, closing, stream_opened);
        if http.transport == HttpTransport::Streamable {
            return self.open(streamable(client), None).await;
        }
        let opened = timeout_at(self.until, LegacySse::open(client)).await;
        match opened {
            // Its servers know older revisions only.
            Ok(Ok(transport)) => {
                let opening = Self {
                    greeting: Greeting::Older,
                    ..self
                };
                opening.open(transport, None).await
            }
            Ok(Err(failure)) => Err(self.failed(failure)),
            Err(_) => Err(self.too_late("it did not name an address to post to", String::new())),
        }
    }

    /// A request that failed while the connection began.
    fn failed(&self, failure: HttpFailure) -> McpError {
        let server = self.settings.name.clone();
        match failure {
            HttpFailure::Auth(AuthFailure::LoginNeeded { scope }) => {
                McpError::LoginNeeded { server, scope }
            }
            other => McpError::Connect {
                server,
                reason: other.to_string(),
                words: String::new(),
            },
        }
    }

    fn too_late(&self, step: &'static str, words: String) -> McpError {
        McpError::StartDeadline {
            server: self.settings.name.clone(),
            step,
            after: self.settings.start_timeout,
            words,
        }
    }

    async fn open(
        self,
        transport: impl Transport<RoleClient> + 'static,
        program: Option<Program>,
    ) -> Result<Running, McpError> {
        let watched = Watched::new(transport, self.closing.clone(), self.probe_deadline());
        let lifecycle = match self.greeting {
            Greeting::Newest => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::LATEST],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Greeting::OnlyNewest => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::LATEST],
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
                let words = stop(program).await;
                return Err(self.too_late("it did not answer the first message", words));
            }
        };
        let Some(info) = service.peer().peer_info() else {
            let words = stop(program).await;
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

    async fn refused(&self, error: ClientInitializeError, program: Option<Program>) -> McpError {
        let words = stop(program).await;
        if let Some(failure) = failure_of(&error) {
            return self.failed(failure);
        }
        let reason = self.closing.reason().unwrap_or_else(|| explained(&error));
        self.unusable(reason, words)
    }

    fn unusable(&self, reason: String, words: String) -> McpError {
        McpError::Connect {
            server: self.settings.name.clone(),
            reason,
            words,
        }
    }
}

/// The request that failed, if that is why a connection did not begin.
fn failure_of(error: &ClientInitializeError) -> Option<HttpFailure> {
    match error {
        ClientInitializeError::TransportError { error, .. } => http_failure(error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => failure_of(fallback),
        _ => None,
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
