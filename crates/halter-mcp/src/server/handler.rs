//! Where the requests of hosts go.

use super::agent::{HostLink, ServeError, ServedAgent, SessionsRequest, TaskRequest};
use super::tools::{self, LIST_SESSIONS, RUN_TASK};
use super::work::{Parked, Work};
use crate::limits::TASKS_AT_ONCE;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult,
    ErrorCode, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
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

/// An agent as a server of the protocol. Clones serve the same agent.
#[derive(Clone)]
pub struct AgentServer {
    shared: Arc<Shared>,
}

struct Shared {
    agent: Arc<dyn ServedAgent>,
    version: String,
    tools: Vec<Tool>,
    parked: Arc<Parked>,
    tasks: TaskTracker,
    permits: Arc<Semaphore>,
    gone: CancellationToken,
}

impl AgentServer {
    /// Serves an agent. `version` is what hosts are told of the program.
    pub fn new(agent: Arc<dyn ServedAgent>, version: impl Into<String>) -> Self {
        let mut tools = tools::agent_tools();
        // Hosts cache what they are told: always in the same order.
        let mut own: Vec<Tool> = agent.tools().iter().map(tools::own_tool).collect();
        own.retain(|tool| tools.iter().all(|known| known.name != tool.name));
        own.sort_by(|one, other| one.name.cmp(&other.name));
        tools.extend(own);
        Self {
            shared: Arc::new(Shared {
                agent,
                version: version.into(),
                tools,
                parked: Arc::default(),
                tasks: TaskTracker::new(),
                permits: Arc::new(Semaphore::new(TASKS_AT_ONCE)),
                gone: CancellationToken::new(),
            }),
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
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_instructions(INSTRUCTIONS);
        info.server_info = implementation;
        info
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.shared.tools.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let mut tools = self.shared.tools.iter();
        tools.find(|tool| tool.name == name).cloned()
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
