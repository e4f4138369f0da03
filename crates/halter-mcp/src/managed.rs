//! One server that is kept running: started in the background, started again
//! when it ends, asked anew when it says that its tools have changed.

use crate::auth::worth_trying;
use crate::client::{CallOrders, Greeting, Link, Running};
use crate::error::{McpError, shown_name};
use crate::host::Host;
use crate::http::HttpFailure;
use crate::instances::{Instances, not_usable, other_directory};
use crate::names::ServerName;
use crate::servers::ServerEvents;
use crate::settings::{Connection, ServerSettings};
use crate::supervise::{Backoff, Guard};
use crate::tool::OfferedTool;
use rmcp::model::{CallToolResult, JsonObject};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How a server is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServerState {
    /// It was not ready yet.
    Starting,
    /// It can be used.
    Ready,
    /// It ended, and is started again after a pause.
    Restarting(McpError),
    /// It cannot be used, and is not started again.
    Failed(McpError),
    /// It was stopped.
    Stopped,
}

/// A server and how it is.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// The server.
    pub name: ServerName,
    /// How it is.
    pub state: ServerState,
    /// Whether a session is of no use without it.
    pub required: bool,
    /// Name and version, as it says.
    pub implementation: Option<String>,
    /// The revision of the protocol that was agreed on.
    pub revision: Option<String>,
    /// Its tools.
    pub tools: Vec<OfferedTool>,
    /// The sandbox that it runs in; none if it runs with the user's rights.
    pub sandbox: Option<&'static str>,
    /// Whether it has resources.
    pub has_resources: bool,
    /// Whether it has prompts.
    pub has_prompts: bool,
    /// What was wrong with its lists.
    pub problems: Vec<String>,
}

/// A server that is kept running.
pub(crate) struct ManagedServer {
    pub(crate) settings: ServerSettings,
    host: Arc<dyn Host>,
    guard: Arc<Guard>,
    pub(crate) events: Arc<dyn ServerEvents>,
    link: Mutex<Option<Link>>,
    pub(crate) status: watch::Sender<ServerStatus>,
    /// Where it is found in other directories. They end with the harness,
    /// whoever still holds a tool.
    instances: Weak<Instances>,
}

/// Why a connection is not used any more.
enum End {
    Stopped,
    Ended,
}

impl ManagedServer {
    pub(crate) fn new(
        settings: ServerSettings,
        host: Arc<dyn Host>,
        guard: Arc<Guard>,
        events: Arc<dyn ServerEvents>,
        instances: Weak<Instances>,
    ) -> Self {
        let status = ServerStatus {
            name: settings.name.clone(),
            state: ServerState::Starting,
            required: settings.required,
            implementation: None,
            revision: None,
            tools: Vec::new(),
            sandbox: settings.sandbox(),
            has_resources: false,
            has_prompts: false,
            problems: Vec::new(),
        };
        Self {
            settings,
            host,
            guard,
            events,
            link: Mutex::default(),
            status: watch::Sender::new(status),
            instances,
        }
    }

    pub(crate) fn status(&self) -> ServerStatus {
        self.status.borrow().clone()
    }

    /// Returns when it is ready or will not be.
    pub(crate) async fn settled(&self) {
        let mut status = self.status.subscribe();
        let settles = |status: &ServerStatus| {
            !matches!(
                status.state,
                ServerState::Starting | ServerState::Restarting(_)
            )
        };
        let _ = status.wait_for(settles).await;
    }

    /// Returns when its first start has succeeded or failed.
    pub(crate) async fn started(&self) {
        let mut status = self.status.subscribe();
        let begun = |status: &ServerStatus| !matches!(status.state, ServerState::Starting);
        let _ = status.wait_for(begun).await;
    }

    /// Keeps it running until it is stopped or fails too often.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut backoff = Backoff::default();
        let mut greeting = Greeting::default();
        loop {
            let begun = tokio::select! {
                begun = self.begin(&mut greeting) => begun,
                () = stop.cancelled() => break,
            };
            let (error, usable) = match begun {
                Ok(running) => {
                    let ready = Instant::now();
                    let end = self.serve(&running, &stop).await;
                    self.set_link(None);
                    let closed = running.close().await;
                    match end {
                        End::Stopped => break,
                        End::Ended => {
                            let server = self.settings.name.clone();
                            (closed.error(server), ready.elapsed())
                        }
                    }
                }
                Err(error) => (error, Duration::ZERO),
            };
            let hopeless = matches!(error, McpError::Start { .. } | McpError::LoginNeeded { .. });
            let Some(delay) = backoff.next_delay(usable).filter(|_| !hopeless) else {
                self.set_state(ServerState::Failed(error));
                self.events.tools(&self.settings.name, Vec::new());
                let Connection::Http(http) = &self.settings.connection else {
                    return;
                };
                // It is not ours to start, and comes back when it likes.
                tokio::select! {
                    () = worth_trying(&self.settings.name, http) => continue,
                    () = stop.cancelled() => break,
                }
            };
            // Whoever listens to its state is told.
            tracing::info!(%error, ?delay, "an MCP server is started again");
            self.set_state(ServerState::Restarting(error));
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = stop.cancelled() => break,
            }
        }
        self.set_state(ServerState::Stopped);
    }

    /// Connects, and learns what it has.
    async fn begin(self: &Arc<Self>, greeting: &mut Greeting) -> Result<Running, McpError> {
        let until = Instant::now() + self.settings.start_timeout;
        let running = Running::connect(&self.settings, &self.host, &self.guard, greeting).await?;
        let left = until.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, self.learn(running.link())).await {
            Ok(Ok(())) => {
                self.set_link(Some(running.link().clone()));
                self.set_state(ServerState::Ready);
                Ok(running)
            }
            Ok(Err(error)) => {
                let closed = running.close().await;
                Err(match error {
                    McpError::Ended { server, .. } => closed.error(server),
                    other => other,
                })
            }
            Err(_) => {
                let words = running.close().await.words;
                Err(McpError::StartDeadline {
                    server: self.settings.name.clone(),
                    step: "it did not say which tools it has",
                    after: self.settings.start_timeout,
                    words,
                })
            }
        }
    }

    /// Waits for the end of a connection, and learns meanwhile what changes.
    async fn serve(self: &Arc<Self>, running: &Running, stop: &CancellationToken) -> End {
        tokio::select! {
            () = stop.cancelled() => End::Stopped,
            () = running.ended() => End::Ended,
            never = self.follow_changes(running.link()) => match never {},
        }
    }

    /// Calls a tool, once the server is ready: where the session works, if it
    /// can run there.
    pub(crate) async fn call_tool(
        &self,
        tool: &OfferedTool,
        arguments: JsonObject,
        orders: &CallOrders,
    ) -> Result<CallToolResult, McpError> {
        let other = match (&self.settings.any_directory, &orders.caller) {
            (Some(any), Some(session)) => {
                let directory = other_directory(&self.settings, session).await;
                directory.map(|directory| (any, directory))
            }
            _ => None,
        };
        let Some((any, directory)) = other else {
            let link = self.ready_link(orders).await?;
            return self.call_at(&link, tool, arguments, orders).await;
        };
        let name = self.name();
        let stopped = || McpError::Stopped {
            server: name.clone(),
        };
        let instances = self.instances.upgrade().ok_or_else(stopped)?;
        let found = instances.get(&self.settings, &**any, &directory);
        let found = tokio::time::timeout(self.settings.start_timeout, found);
        let found = tokio::select! {
            found = found => found,
            () = orders.cancel.cancelled() => {
                return Err(McpError::Cancelled { server: name.clone() });
            }
        };
        drop(instances);
        let late = |_| not_usable(name, &directory, "its sandbox was not ready in time".into());
        let here = found.map_err(late)??;
        let link = here.server.ready_link(orders).await;
        let link = link.map_err(|error| match error {
            McpError::Cancelled { .. } | McpError::Stopped { .. } => error,
            error => not_usable(name, &directory, error.to_string()),
        })?;
        let called = here.server.call_at(&link, tool, arguments, orders).await;
        called.map_err(|error| match error {
            McpError::Changed { .. } => {
                let own = shown_name(&tool.own_name);
                let reason = format!(
                    "its tool `{own}` is another one there than the one that was approved; \
                     name a `cwd` in its table to have one server for all directories"
                );
                not_usable(name, &directory, reason)
            }
            error => error,
        })
    }

    /// Calls a tool that is still the one that was approved: the server may
    /// have been started again, or have changed it meanwhile.
    async fn call_at(
        &self,
        link: &Link,
        tool: &OfferedTool,
        arguments: JsonObject,
        orders: &CallOrders,
    ) -> Result<CallToolResult, McpError> {
        let approved = {
            let status = self.status.borrow();
            let mut tools = status.tools.iter();
            let now = tools.find(|it| it.own_name == tool.own_name);
            now.is_some_and(|now| now.definition.digest == tool.definition.digest)
        };
        if !approved {
            return Err(McpError::Changed {
                server: self.settings.name.clone(),
                tool: tool.own_name.clone(),
            });
        }
        let called = link.call_tool(&tool.own_name, arguments, orders).await;
        self.with_last_words(link, called).await
    }

    /// An answer; for a server that has ended, with its last words, which are
    /// known once it has been collected.
    pub(crate) async fn with_last_words<T>(
        &self,
        link: &Link,
        answer: Result<T, McpError>,
    ) -> Result<T, McpError> {
        match answer {
            // Over HTTP the answer to one request may end without the connection.
            Err(McpError::Ended { .. }) if self.is_elsewhere() && !link.closing.is_closed() => {
                Err(McpError::Http {
                    server: self.settings.name.clone(),
                    reason: HttpFailure::CutOff.to_string(),
                })
            }
            // Its last words are known once it has been collected.
            Err(McpError::Ended { .. }) => Err(self.ended().await),
            other => other,
        }
    }

    /// The connection, waited for while the server starts.
    pub(crate) async fn ready_link(&self, orders: &CallOrders) -> Result<Link, McpError> {
        if let Some(link) = self.link() {
            return Ok(link);
        }
        let mut status = self.status.subscribe();
        // One that was disconnected counts as ready until it has been collected.
        let known = |status: &ServerStatus| {
            let hopeless = matches!(status.state, ServerState::Failed(_) | ServerState::Stopped);
            hopeless || self.link().is_some()
        };
        let waiting = status.wait_for(known);
        let waiting = tokio::time::timeout(self.settings.start_timeout, waiting);
        tokio::select! {
            _ = waiting => {}
            () = orders.cancel.cancelled() => {
                return Err(McpError::Cancelled { server: self.settings.name.clone() });
            }
        }
        match (self.link(), self.status().state) {
            (Some(link), _) => Ok(link),
            (None, ServerState::Failed(error) | ServerState::Restarting(error)) => Err(error),
            (None, ServerState::Starting) => Err(McpError::StartDeadline {
                server: self.settings.name.clone(),
                step: "it is still starting",
                after: self.settings.start_timeout,
                words: String::new(),
            }),
            (None, ServerState::Ready) => Err(self.gone()),
            (None, ServerState::Stopped) => Err(McpError::Stopped {
                server: self.settings.name.clone(),
            }),
        }
    }

    /// Why it ended, once that is known.
    async fn ended(&self) -> McpError {
        let mut status = self.status.subscribe();
        let told = status.wait_for(|status| !matches!(status.state, ServerState::Ready));
        let told = tokio::time::timeout(self.settings.start_timeout, told).await;
        let state = told.ok().and_then(Result::ok).map(|it| it.state.clone());
        match state {
            Some(ServerState::Restarting(error) | ServerState::Failed(error)) => error,
            _ => self.gone(),
        }
    }

    /// That it ended, where no more is known.
    fn gone(&self) -> McpError {
        McpError::Ended {
            server: self.settings.name.clone(),
            reason: None,
            words: String::new(),
        }
    }

    pub(crate) fn name(&self) -> &ServerName {
        &self.settings.name
    }

    fn is_elsewhere(&self) -> bool {
        matches!(self.settings.connection, Connection::Http(_))
    }

    fn link(&self) -> Option<Link> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.clone().filter(|link| !link.closing.is_closed())
    }

    fn set_link(&self, link: Option<Link>) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
    }

    fn set_state(&self, state: ServerState) {
        self.status.send_modify(|status| status.state = state);
        self.events.state(&self.status());
    }
}
