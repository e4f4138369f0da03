//! Servers of the Model Context Protocol, from the configuration.

use crate::error::invalid;
use halter_config::{Environment, HarnessConfig, McpServerTable, expand_variables};
use halter_mcp::limits::{CALL_TIMEOUT, SETTLE_GRACE, START_TIMEOUT};
use halter_mcp::{
    McpServers, ProgramSettings, ServerEvents, ServerName, ServerSettings, ServerState,
    ServerStatus, ToolFilter, WorkingDirectories,
};
use halter_runtime::HalterError;
use halter_tools::{LateTools, Tool, command_environment};
use indexmap::IndexMap;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What servers are started with.
pub(crate) struct ServerEnvironment<'a> {
    pub environment: &'a Environment,
    /// What commands of sessions see of it: no keys.
    pub visible: &'a BTreeMap<OsString, OsString>,
    pub directory: PathBuf,
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
        let lookup = |variable: &str| around.environment.text(variable).map(str::to_owned);
        expand_variables(text, lookup).map_err(|variable| {
            let message = format!("MCP server `{name}`: the variable {variable} is not set");
            let hint = format!("set it, or write ${{{variable}:-}} if it may be absent");
            anyhow::Error::from(HalterError::new("mcp_variable", message).with_hint(hint))
        })
    };
    let Some(command) = &table.command else {
        let message = format!("MCP server `{name}` has no `command`");
        return Err(invalid(message)
            .with_hint("name the program to start")
            .into());
    };
    let program = program(command, table, around, &expand)?;
    let mut settings = ServerSettings::new(checked, program);
    settings.call_timeout = seconds(table.timeout_secs, CALL_TIMEOUT);
    settings.start_timeout = seconds(table.start_timeout_secs, START_TIMEOUT);
    settings.required = table.required;
    settings.tools = ToolFilter {
        only: (!table.tools.is_empty()).then(|| table.tools.clone()),
        without: table.without_tools.clone(),
    };
    Ok(settings)
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
    })
}

/// The servers of a harness.
pub(crate) struct HarnessServers {
    pub servers: McpServers,
    /// Tables that cannot be used, and why.
    pub problems: Vec<HalterError>,
}

/// Has the tools of servers join sessions.
struct Joining(Arc<LateTools>);

impl ServerEvents for Joining {
    fn tools(&self, server: &ServerName, tools: Vec<Arc<dyn Tool>>) {
        self.0.set(server.as_str(), tools);
    }

    fn state(&self, status: &ServerStatus) {
        if matches!(status.state, ServerState::Failed(_) | ServerState::Stopped) {
            self.0.remove(status.name.as_str());
        }
    }
}

/// Hears of nothing.
struct Nobody;

impl ServerEvents for Nobody {
    fn tools(&self, _: &ServerName, _: Vec<Arc<dyn Tool>>) {}

    fn state(&self, _: &ServerStatus) {}
}

impl HarnessServers {
    /// Starts the enabled servers; `None` if there is none. Waits for those
    /// that are required, and shortly for the others, whose tools join
    /// sessions whenever they are ready.
    ///
    /// # Errors
    /// If a required server cannot be used.
    pub async fn start(
        tables: &IndexMap<String, McpServerTable>,
        around: &ServerEnvironment<'_>,
        late: &Arc<LateTools>,
    ) -> anyhow::Result<Option<Self>> {
        let (mut settings, mut problems) = (Vec::new(), Vec::new());
        for (name, table) in tables.iter().filter(|(_, table)| table.enabled) {
            match server_settings(name, table, around) {
                Ok(server) => settings.push(server),
                Err(error) if table.required => return Err(error),
                Err(error) => problems.push(as_halter_error(&error)),
            }
        }
        if settings.is_empty() && problems.is_empty() {
            return Ok(None);
        }
        // The order of tools is that of the names, whoever is ready first.
        settings.sort_by(|one, other| one.name.cmp(&other.name));
        for server in &settings {
            late.starting(server.name.as_str());
        }
        let host = Arc::new(WorkingDirectories(vec![around.directory.clone()]));
        let events = Arc::new(Joining(Arc::clone(late)));
        let servers = McpServers::start(settings, host, events)?;
        if let Err(error) = servers.required_ready().await {
            servers.shutdown().await;
            let failed = HalterError::new(error.code(), error.to_string());
            return Err(failed
                .with_hint("correct its table, or take `required` out of it")
                .into());
        }
        servers.settled(SETTLE_GRACE).await;
        Ok(Some(Self { servers, problems }))
    }
}

fn as_halter_error(error: &anyhow::Error) -> HalterError {
    match error.downcast_ref::<HalterError>() {
        Some(own) => own.clone(),
        None => HalterError::new("mcp_settings", format!("{error:#}")),
    }
}

/// A server that was tried.
#[derive(Debug, Clone)]
pub struct ProbedServer {
    /// Its name.
    pub name: String,
    /// How it is, once its first start has succeeded or failed.
    ///
    /// # Errors
    /// What is wrong with its table.
    pub status: Result<ServerStatus, HalterError>,
}

/// Starts the servers of a configuration that `wanted` names, or all enabled
/// ones, says how they are, and ends them.
///
/// # Errors
/// If the system has no randomness.
pub async fn probe_mcp_servers(
    config: &HarnessConfig,
    environment: &Environment,
    wanted: &[String],
) -> anyhow::Result<Vec<ProbedServer>> {
    let shell_env = &config.policy.shell.env;
    let visible = command_environment(environment.variables(), &shell_env.add, &shell_env.remove);
    let around = ServerEnvironment {
        environment,
        visible: &visible,
        directory: directory(config.runtime.working_dir.as_deref(), environment),
    };
    let mut settings = Vec::new();
    let mut probed: IndexMap<String, Option<HalterError>> = IndexMap::new();
    for (name, table) in &config.mcp.servers {
        let named = wanted.iter().any(|it| it == name);
        if named || wanted.is_empty() && table.enabled {
            let problem = match server_settings(name, table, &around) {
                Ok(server) => {
                    settings.push(server);
                    None
                }
                Err(error) => Some(as_halter_error(&error)),
            };
            probed.insert(name.clone(), problem);
        }
    }
    let host = Arc::new(WorkingDirectories(vec![around.directory.clone()]));
    let servers = McpServers::start(settings, host, Arc::new(Nobody))?;
    servers.started().await;
    let states = servers.status();
    servers.shutdown().await;
    let found = |name: &str| states.iter().find(|it| it.name.as_str() == name).cloned();
    let told = probed.into_iter().map(|(name, problem)| {
        let stopped = || HalterError::new("mcp_stopped", format!("MCP server `{name}` is stopped"));
        let status = match problem {
            Some(problem) => Err(problem),
            None => found(&name).ok_or_else(stopped),
        };
        ProbedServer { name, status }
    });
    Ok(told.collect())
}

/// Where servers start: where sessions work that name no other directory.
pub(crate) fn directory(configured: Option<&Path>, environment: &Environment) -> PathBuf {
    let current = || environment.current_dir().map(Path::to_path_buf);
    configured
        .map(Path::to_path_buf)
        .or_else(current)
        .unwrap_or_else(|| PathBuf::from("/"))
}
