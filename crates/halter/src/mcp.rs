//! Servers of the Model Context Protocol, from their descriptions.

mod described;
mod messages;
mod remote;
mod sandboxed;
mod sessions;

use crate::builder::policy;
use crate::error::invalid;
use crate::permissions::permissions;
pub use described::{DescribedServer, DescribedServers, ProjectServers, ServerSource};
use halter_config::{Environment, HarnessConfig, McpServerTable, McpTransport, expand_variables};
use halter_mcp::limits::SETTLE_GRACE;
use halter_mcp::{
    Connection, McpError, McpServers, Nobody, ProgramSettings, ServerEvents, ServerName,
    ServerSettings, ServerState, ServerStatus, ToolFilter, WorkingDirectories,
};
use halter_runtime::HalterError;
use halter_tools::network::FilteringProxy;
use halter_tools::policy::PolicySettings;
use halter_tools::{LateTools, Tool, command_environment};
pub(crate) use sandboxed::SandboxSource;
use sessions::SessionDirectories;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

/// The variable that stands for the directory of a plugin.
const PLUGIN_ROOT: &str = "CLAUDE_PLUGIN_ROOT";

/// The source of the tools by which models find and read resources.
const RESOURCES: &str = "resources of MCP servers";

/// What servers are started with.
pub(crate) struct ServerEnvironment<'a> {
    pub environment: &'a Environment,
    /// What commands of sessions see of it: no keys.
    pub visible: &'a BTreeMap<OsString, OsString>,
    pub directory: PathBuf,
    /// The directory of the plugin that brings the server.
    pub plugin_root: Option<PathBuf>,
    /// What its sandbox is made from.
    pub sandbox: SandboxSource,
}

impl<'a> ServerEnvironment<'a> {
    pub fn new(
        config: &HarnessConfig,
        environment: &'a Environment,
        visible: &'a BTreeMap<OsString, OsString>,
        policy: &PolicySettings,
        protected: &[PathBuf],
    ) -> Self {
        let current = || environment.current_dir().map(Path::to_path_buf);
        let directory = config.runtime.working_dir.clone().or_else(current);
        let directory = directory.unwrap_or_else(|| PathBuf::from("/"));
        Self {
            environment,
            visible,
            plugin_root: None,
            sandbox: SandboxSource {
                policy: policy.clone(),
                protected: protected.to_vec(),
                directory: directory.clone(),
                home: environment.home().map(Path::to_path_buf),
            },
            directory,
        }
    }

    /// The same for a server from somewhere.
    fn of(&self, source: &ServerSource) -> Self {
        let plugin_root = match source {
            ServerSource::Plugin { root, .. } => Some(root.clone()),
            _ => None,
        };
        Self {
            directory: self.directory.clone(),
            sandbox: self.sandbox.clone(),
            plugin_root,
            ..*self
        }
    }

    /// A variable as descriptions of servers mean it.
    fn variable(&self, name: &str) -> Option<String> {
        match &self.plugin_root {
            Some(root) if name == PLUGIN_ROOT => Some(root.to_string_lossy().into_owned()),
            _ => self.environment.text(name).map(str::to_owned),
        }
    }
}

/// The settings of a server, from its table.
///
/// # Errors
/// What is wrong with the table.
pub(crate) fn server_settings(
    name: &str,
    table: &McpServerTable,
    around: &ServerEnvironment<'_>,
) -> anyhow::Result<ServerSettings> {
    let checked = ServerName::new(name)?;
    let expand = |text: &str| {
        expand_variables(text, |variable| around.variable(variable)).map_err(|variable| {
            let message = format!("MCP server `{name}`: the variable {variable} is not set");
            let hint = format!("set it, or write ${{{variable}:-}} if it may be absent");
            anyhow::Error::from(HalterError::new("mcp_variable", message).with_hint(hint))
        })
    };
    let mut settings = match table.transport {
        McpTransport::Stdio => {
            let program = described_program(name, table, around, &expand)?;
            ServerSettings::new(checked, program)
        }
        _ => {
            let http = remote::http_settings(&checked, table, around, &expand)?;
            ServerSettings::new(checked, http)
        }
    };
    settings.call_timeout = seconds(table.timeout_secs, settings.call_timeout);
    settings.start_timeout = seconds(table.start_timeout_secs, settings.start_timeout);
    settings.required = table.required;
    settings.sampling = table.sampling;
    settings.tools = ToolFilter {
        only: (!table.tools.is_empty()).then(|| table.tools.clone()),
        without: table.without_tools.clone(),
    };
    Ok(settings)
}

/// The program of a server that is one.
fn described_program(
    name: &str,
    table: &McpServerTable,
    around: &ServerEnvironment<'_>,
    expand: &impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<ProgramSettings> {
    if table.url.is_some() {
        let message = format!("MCP server `{name}` has a `url` and no `type`");
        return Err(invalid(message)
            .with_hint("write type = \"http\", or \"sse\" for the older transport")
            .into());
    }
    let Some(command) = &table.command else {
        let message = format!("MCP server `{name}` has no `command`");
        return Err(invalid(message)
            .with_hint("name the program to start")
            .into());
    };
    program(command, table, around, expand)
}

fn seconds(given: Option<f64>, default: Duration) -> Duration {
    given
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .unwrap_or(default)
}

fn program(
    command: &str,
    table: &McpServerTable,
    around: &ServerEnvironment<'_>,
    expand: &impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<ProgramSettings> {
    let mut environment: halter_tools::exec::Environment = around
        .visible
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let Some(root) = &around.plugin_root {
        environment.set(PLUGIN_ROOT, root);
    }
    for (name, value) in &table.env {
        environment.set(name, expand(value)?);
    }
    let directory = match &table.cwd {
        Some(directory) => PathBuf::from(expand(&directory.to_string_lossy())?),
        None => around.directory.clone(),
    };
    let arguments = table.args.iter().map(|argument| expand(argument));
    Ok(ProgramSettings {
        program: expand(command)?.into(),
        arguments: arguments
            .map(|argument| argument.map(OsString::from))
            .collect::<anyhow::Result<_>>()?,
        environment,
        directory: around.directory.join(directory),
        sandbox: None,
    })
}

/// The servers of a harness.
pub(crate) struct HarnessServers {
    pub servers: McpServers,
    /// Tables that cannot be used, and why.
    pub problems: Vec<HalterError>,
    /// The ways of servers in sandboxes to the hosts they may reach.
    _proxies: Vec<FilteringProxy>,
}

/// Has the tools of servers join sessions.
struct Joining {
    late: Arc<LateTools>,
    /// The tools that read resources, once they are known. They join with the
    /// first server that has any.
    resource_tools: OnceLock<Vec<Arc<dyn Tool>>>,
    joined: Once,
}

impl Joining {
    /// Has the tools that read resources join, if this server has some.
    fn offer_resources(&self, status: &ServerStatus) {
        let ready = matches!(status.state, ServerState::Ready) && status.has_resources;
        if let Some(tools) = self.resource_tools.get().filter(|_| ready) {
            let joins = || self.late.set(RESOURCES, tools.clone());
            self.joined.call_once(joins);
        }
    }
}

impl ServerEvents for Joining {
    fn tools(&self, server: &ServerName, tools: Vec<Arc<dyn Tool>>) {
        self.late.set(server.as_str(), tools);
    }

    fn state(&self, status: &ServerStatus) {
        let name = status.name.as_str();
        if matches!(status.state, ServerState::Failed(_) | ServerState::Stopped) {
            self.late.remove(name);
        }
        match &status.state {
            ServerState::Failed(error) if status.required => {
                self.late.fail(name, &error.to_string());
            }
            ServerState::Restarting(error @ McpError::Ended { .. }) => {
                let message = format!("{error}; it is started again");
                self.late.report(name, &message);
            }
            ServerState::Failed(error @ McpError::Ended { .. }) => {
                let message = format!(
                    "{error}; it ended too often, so look at it with `halter mcp test {name}`"
                );
                self.late.report(name, &message);
            }
            ServerState::Failed(error) | ServerState::Restarting(error) => {
                self.late.report(name, &error.to_string());
            }
            ServerState::Ready if !status.problems.is_empty() => {
                let problems = status.problems.join("; ");
                let message = format!("MCP server `{name}`: {problems}");
                self.late.report(name, &message);
            }
            _ => self.late.recovered(name),
        }
        self.offer_resources(status);
    }
}

impl HarnessServers {
    /// Starts the servers that can be used; `None` if none is described. Waits
    /// for those that are required, and shortly for the others, whose tools
    /// join sessions whenever they are ready.
    ///
    /// # Errors
    /// If a required server cannot be used.
    pub async fn start(
        described: DescribedServers,
        around: &ServerEnvironment<'_>,
        late: &mut Option<Arc<LateTools>>,
    ) -> anyhow::Result<Option<Self>> {
        let DescribedServers {
            servers,
            mut problems,
        } = described;
        let mut settings = Vec::new();
        let mut proxies = Vec::new();
        for server in servers.iter().filter(|server| server.table.enabled) {
            match usable(server, around, &mut proxies).await {
                Ok(server) => settings.push(server),
                Err(problem) if server.table.required => return Err(problem.into()),
                Err(problem) => problems.push(problem),
            }
        }
        if settings.is_empty() && problems.is_empty() {
            return Ok(None);
        }
        let late = match settings.is_empty() {
            true => &mut Arc::default(),
            false => late.get_or_insert_default(),
        };
        // The order of tools is that of the names, whoever is ready first.
        settings.sort_by(|one, other| one.name.cmp(&other.name));
        for server in &settings {
            late.starting_within(server.name.as_str(), server.start_timeout);
        }
        let host = Arc::new(WorkingDirectories(vec![around.directory.clone()]));
        let events = Arc::new(Joining {
            late: Arc::clone(late),
            resource_tools: OnceLock::new(),
            joined: Once::new(),
        });
        let servers = McpServers::start(settings, host, events.clone())?;
        let _ = events.resource_tools.set(servers.resource_tools());
        // One may have been ready before the tools were known.
        for status in servers.status() {
            events.offer_resources(&status);
        }
        if let Err(error) = servers.required_ready().await {
            servers.shutdown().await;
            let failed = HalterError::new(error.code(), error.to_string());
            return Err(failed
                .with_hint("correct its table, or take `required` out of it")
                .into());
        }
        // One that fails is started again in the background.
        let _ = tokio::time::timeout(SETTLE_GRACE, servers.started()).await;
        // Whoever builds the harness reads it from the servers' status.
        late.problems_told();
        Ok(Some(Self {
            servers,
            problems,
            _proxies: proxies,
        }))
    }
}

/// The settings of a described server, or why it is not used.
async fn usable(
    server: &DescribedServer,
    around: &ServerEnvironment<'_>,
    proxies: &mut Vec<FilteringProxy>,
) -> Result<ServerSettings, HalterError> {
    let mut settings = described_settings(server, around)?;
    if server.table.cwd.is_none()
        && let Connection::Program(program) = &settings.connection
    {
        settings.any_directory = Some(Arc::new(SessionDirectories {
            name: settings.name.clone(),
            program: program.as_ref().clone(),
            sandbox: server.table.sandbox.then(|| around.sandbox.clone()),
        }));
    }
    if server.table.sandbox
        && let Connection::Program(program) = &mut settings.connection
    {
        proxies.extend(around.sandbox.contain(&settings.name, program).await?);
    }
    Ok(settings)
}

/// The same, without the sandbox that it may run in.
fn described_settings(
    server: &DescribedServer,
    around: &ServerEnvironment<'_>,
) -> Result<ServerSettings, HalterError> {
    if let Some(problem) = &server.problem {
        return Err(problem.clone());
    }
    let around = around.of(&server.source);
    server_settings(&server.name, &server.table, &around).map_err(|error| as_halter_error(&error))
}

fn as_halter_error(error: &anyhow::Error) -> HalterError {
    match error.downcast_ref::<HalterError>() {
        Some(own) => own.clone(),
        None => HalterError::new("mcp_settings", format!("{error:#}")),
    }
}

/// The settings of a described server, for logging in to it.
///
/// # Errors
/// Why it is not used.
pub fn mcp_server_settings(
    config: &HarnessConfig,
    environment: &Environment,
    server: &DescribedServer,
) -> Result<ServerSettings, HalterError> {
    let visible = BTreeMap::new();
    let policy = PolicySettings::default();
    let around = ServerEnvironment::new(config, environment, &visible, &policy, &[]);
    described_settings(server, &around)
}

/// A server that was tried.
#[derive(Debug, Clone)]
pub struct ProbedServer {
    /// Its name.
    pub name: String,
    /// Where it is described.
    pub source: ServerSource,
    /// How it is, once its first start has succeeded or failed.
    ///
    /// # Errors
    /// Why it was not started.
    pub status: Result<ServerStatus, HalterError>,
}

/// Starts the servers that `wanted` names, or all enabled ones, says how they
/// are, and ends them.
///
/// # Errors
/// If the system has no randomness.
pub async fn probe_mcp_servers(
    config: &HarnessConfig,
    environment: &Environment,
    described: &DescribedServers,
    wanted: &[String],
) -> anyhow::Result<Vec<ProbedServer>> {
    let shell_env = &config.policy.shell.env;
    let visible = command_environment(environment.variables(), &shell_env.add, &shell_env.remove);
    let policy = policy(config, permissions(config, environment)?);
    let protected = crate::builder::own_files(config, environment);
    let around = ServerEnvironment::new(config, environment, &visible, &policy, &protected);
    let mut proxies = Vec::new();
    let mut settings = Vec::new();
    let mut probed = Vec::new();
    for server in &described.servers {
        let named = wanted.contains(&server.name);
        if !(named || wanted.is_empty() && server.table.enabled) {
            continue;
        }
        let problem = match usable(server, &around, &mut proxies).await {
            Ok(server) => {
                settings.push(server);
                None
            }
            Err(problem) => Some(problem),
        };
        probed.push((server, problem));
    }
    let host = Arc::new(WorkingDirectories(vec![around.directory.clone()]));
    let servers = McpServers::start(settings, host, Arc::new(Nobody))?;
    servers.started().await;
    let states = servers.status();
    servers.shutdown().await;
    let found = |name: &str| states.iter().find(|it| it.name.as_str() == name).cloned();
    let told = probed.into_iter().map(|(server, problem)| {
        let (name, source) = (server.name.clone(), server.source.clone());
        let stopped = || HalterError::new("mcp_stopped", format!("MCP server `{name}` is stopped"));
        let status = match problem {
            Some(problem) => Err(problem),
            None => found(&name).ok_or_else(stopped),
        };
        ProbedServer {
            name,
            source,
            status,
        }
    });
    Ok(told.collect())
}
