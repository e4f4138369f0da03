//! Where the requests of hosts go.

use super::agent::{HostLink, ServeError, ServedAgent, SessionsRequest, TaskRequest};
use super::tools::{self, LIST_SESSIONS, RUN_TASK};
use super::work::{Parked, Work};
use crate::limits::TASKS_AT_ONCE;
use futures::StreamExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult,
    ErrorCode, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, Peer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const INSTRUCTIONS: &str = "An agent with tools of its own on this computer. run_task gives it a \
    task and returns its answer and the id of its session; list_sessions finds sessions to go on \
    with. What its policy does not allow it refuses, or asks whoever uses the host.";

/// Methods whose parameters are checked when a request is read: one that comes
/// as an unknown request has wrong ones.
const KNOWN_METHODS: [&str; 5] = [
    "initialize",
    "server/discover",
    "tools/call",
    "tools/list",
    "completion/complete",
];

/// How often it is looked whether a host that is told of changes is still
/// there.
const HOST_CHECK: Duration = Duration::from_secs(30);

/// An agent as a server of the protocol. Clones serve the same agent.
#[derive(Clone)]
pub struct AgentServer {
    shared: Arc<Shared>,
}

struct Shared {
    agent: Arc<dyn ServedAgent>,
    version: String,
    parked: Arc<Parked>,
    tasks: TaskTracker,
    permits: Arc<Semaphore>,
    gone: CancellationToken,
}

impl AgentServer {
    /// Serves an agent. `version` is what hosts are told of the program.
    pub fn new(agent: Arc<dyn ServedAgent>, version: impl Into<String>) -> Self {
        Self {
            shared: Arc::new(Shared {
                agent,
                version: version.into(),
                parked: Arc::default(),
                tasks: TaskTracker::new(),
                permits: Arc::new(Semaphore::new(TASKS_AT_ONCE)),
                gone: CancellationToken::new(),
            }),
        }
    }

    /// All tools as they are now.
    fn tools(&self) -> Vec<Tool> {
        let mut tools = tools::agent_tools();
        // Hosts cache what they are told: always in the same order.
        let own = self.shared.agent.tools();
        let mut own: Vec<Tool> = own.iter().map(tools::own_tool).collect();
        own.retain(|tool| tools.iter().all(|known| known.name != tool.name));
        own.sort_by(|one, other| one.name.cmp(&other.name));
        tools.extend(own);
        tools
    }

    /// Whether the list of tools may change: that of the agent itself does not.
    fn tools_change(&self) -> bool {
        !self.shared.agent.tools().is_empty()
    }

    /// Tells a host of every change of the tools, until it goes.
    async fn tell_of_changes(&self, host: Peer<RoleServer>) {
        let mut changes = self.shared.agent.tool_changes();
        loop {
            tokio::select! {
                () = self.shared.gone.cancelled() => return,
                // Whoever has gone is noticed now and then.
                () = tokio::time::sleep(HOST_CHECK) => {
                    if host.is_transport_closed() {
                        return;
                    }
                }
                change = changes.next() => {
                    if change.is_none() || host.notify_tool_list_changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Fires when no host is left: all work is cancelled.
    pub(super) fn gone(&self) -> &CancellationToken {
        &self.shared.gone
    }

    /// Waits until no work is left. There is none to come once the hosts have
    /// gone.
    pub(super) async fn ended(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    fn start(
        &self,
        name: &str,
        arguments: Option<JsonObject>,
    ) -> Result<Result<Work, ServeError>, ErrorData> {
        let shared = &self.shared;
        let arguments = arguments.unwrap_or_default();
        let Ok(permit) = shared.permits.clone().try_acquire_owned() else {
            let message = format!("{TASKS_AT_ONCE} tasks run already; wait for one of them");
            return Ok(Err(ServeError::new("too_many_tasks", message)));
        };
        let agent = shared.agent.clone();
        let start = |work: Working| {
            Work::start(&shared.tasks, &shared.gone, permit, |host| {
                work(agent, host)
            })
        };
        let work = match name {
            RUN_TASK => match parsed::<TaskRequest>(arguments) {
                Err(refusal) => return Ok(Err(refusal)),
                Ok(task) => start(Box::new(|agent, host| {
                    Box::pin(async move { tools::task_result(agent.run_task(task, host).await) })
                })),
            },
            LIST_SESSIONS => match parsed::<SessionsRequest>(arguments) {
                Err(refusal) => return Ok(Err(refusal)),
                Ok(request) => start(Box::new(|agent, _| {
                    Box::pin(
                        async move { tools::sessions_result(agent.list_sessions(request).await) },
                    )
                })),
            },
            name if self.get_tool(name).is_some() => {
                let name = name.to_owned();
                start(Box::new(|agent, host| {
                    Box::pin(async move {
                        let arguments = Value::Object(arguments);
                        tools::call_result(agent.call_tool(&name, arguments, host).await)
                    })
                }))
            }
            unknown => {
                let message = format!("there is no tool '{unknown}'; see tools/list");
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        Ok(Ok(work))
    }
}

type Working = Box<
    dyn FnOnce(
            Arc<dyn ServedAgent>,
            HostLink,
        ) -> futures::future::BoxFuture<'static, CallToolResult>
        + Send,
>;

/// Arguments of a tool. Wrong ones are told to the host's model, which can do
/// better.
fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ServeError> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let message = format!("the arguments do not fit: {error}");
        ServeError::new("invalid_arguments", message)
    })
}

impl ServerHandler for AgentServer {
    fn get_info(&self) -> ServerConfig {
        let implementation =
            Implementation::new("halter", self.shared.version.clone()).with_title("Halter");
        let capabilities = ServerCapabilities::builder().enable_tools();
        let capabilities = match self.tools_change() {
            true => capabilities.enable_tool_list_changed().build(),
            false => capabilities.build(),
        };
        let mut info = ServerConfig::new(capabilities).with_instructions(INSTRUCTIONS);
        info.server_info = implementation;
        info
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if self.tools_change() {
            let server = self.clone();
            let tasks = &self.shared.tasks;
            tasks.spawn(async move { server.tell_of_changes(context.peer).await });
        }
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.tools_change().then(|| requested.clone())
    }

    /// What hosts of the newest revision hear of changes.
    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.agent.tool_changes();
        loop {
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                () = self.shared.gone.cancelled() => return Ok(()),
                change = changes.next() => match change {
                    // What the host did not ask for is not sent.
                    Some(()) => drop(subscription.sink().notify_tool_list_changed().await),
                    None => return Ok(()),
                },
            }
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let parked = &self.shared.parked;
        let work = match &request.request_state {
            Some(state) => parked.take_up(state, request.input_responses)?,
            None => match self.start(&request.name, request.arguments)? {
                Ok(work) => work,
                Err(refusal) => return Ok(tools::failure(&refusal).into()),
            },
        };
        work.attend(&context, parked).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if KNOWN_METHODS.contains(&method.as_str()) {
            let message = format!("the parameters of {method} are not as the protocol says");
            return Err(ErrorData::invalid_params(message, None));
        }
        let message = format!("there is no method '{method}' here");
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }
}
