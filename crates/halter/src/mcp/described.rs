//! Where servers are described, and which of them count.
//!
//! | source | counts |
//! |---|---|
//! | `[mcp.servers.NAME]` of the configuration | always |
//! | `.mcp.json` of the project | once the user trusts its content |
//! | plugins, as `plugin_PLUGIN_NAME` | with their plugin |
//!
//! Of two with one name the one that stands higher here counts, as a whole.
//! `a.b` and `a_b` are one name.

use halter_config::{
    HarnessConfig, MCP_FILE_NAME, McpServerTable, ProjectFile, TrustStore, find_project_file,
    parse_mcp_entry, parse_mcp_file, unknown_mcp_members,
};
use halter_mcp::ServerName;
use halter_mcp::error::shown_name;
use halter_protocol::PluginId;
use halter_protocol::encoding::escape_path;
use halter_resources::LoadedMcpServer;
use halter_runtime::HalterError;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a server is described.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerSource {
    /// In a table of the configuration.
    Settings,
    /// In this file of the project.
    Project(PathBuf),
    /// In a plugin.
    Plugin {
        /// The plugin.
        id: PluginId,
        /// Its directory.
        root: PathBuf,
    },
}

impl fmt::Display for ServerSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings => formatter.write_str("settings"),
            Self::Project(path) => formatter.write_str(&escape_path(path)),
            Self::Plugin { id, .. } => write!(formatter, "plugin {id}"),
        }
    }
}

/// A server that is described somewhere.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DescribedServer {
    /// Its name, fit to be shown whatever was written: characters that no name
    /// of a tool may have are `_`.
    pub name: String,
    /// Where it is described.
    pub source: ServerSource,
    /// How it is started; empty where the description is wrong.
    pub table: McpServerTable,
    /// Why it is not used.
    pub problem: Option<HalterError>,
}

impl DescribedServer {
    /// Whether it is to be started.
    pub fn is_usable(&self) -> bool {
        self.table.enabled && self.problem.is_none()
    }
}

/// The `.mcp.json` of a project, read once: what is shown, what is trusted and
/// what is started are the same bytes.
#[derive(Debug, Clone, Default)]
pub struct ProjectServers {
    file: Option<ProjectFile>,
    trusted: bool,
    servers: Vec<DescribedServer>,
    problems: Vec<HalterError>,
}

impl ProjectServers {
    /// Looks for the file of the project around a directory.
    pub async fn find(directory: &Path, trust: &TrustStore) -> Self {
        let Some(path) = find_project_file(directory, MCP_FILE_NAME) else {
            return Self::default();
        };
        match ProjectFile::read(&path).await {
            Ok(file) => Self::of(file, trust),
            Err(error) => Self {
                problems: vec![unusable(&path, error.to_string())],
                ..Self::default()
            },
        }
    }

    /// What a file of a project describes.
    pub fn of(file: ProjectFile, trust: &TrustStore) -> Self {
        let path = file.path().to_owned();
        let parsed = match parse_mcp_file(&String::from_utf8_lossy(file.content())) {
            Ok(parsed) => parsed,
            Err(reason) => {
                return Self {
                    problems: vec![unusable(&path, reason)],
                    ..Self::default()
                };
            }
        };
        let (trusted, mut problems) = match trust.is_trusted(&file) {
            Ok(trusted) => (trusted, Vec::new()),
            Err(error) => (false, vec![unusable(&path, error.to_string())]),
        };
        if parsed.left_out > 0 {
            let (left, kept) = (parsed.left_out, parsed.servers.len());
            let reason = format!("{left} servers are left out: no more than {kept} count");
            problems.push(unusable(&path, reason));
        }
        let source = ServerSource::Project(path.clone());
        let unknown = parsed.unknown.iter();
        problems.extend(unknown.map(|(name, members)| not_read(name, &source, members)));
        let servers = parsed.servers.into_iter().map(|(name, entry)| {
            let mut server = described(&name, source.clone(), entry);
            if !trusted && server.problem.is_none() {
                server.problem = Some(untrusted(&server.name, &path));
            }
            server
        });
        Self {
            servers: servers.collect(),
            file: Some(file),
            trusted,
            problems,
        }
    }

    /// The file, if servers of it wait for the user's trust.
    pub fn untrusted_file(&self) -> Option<&ProjectFile> {
        let file = self.file.as_ref()?;
        (!self.trusted && !self.servers.is_empty()).then_some(file)
    }

    /// Its servers.
    pub fn servers(&self) -> &[DescribedServer] {
        &self.servers
    }
}

/// All servers that are described, and files that cannot be used.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DescribedServers {
    /// The servers, those first that count where names clash.
    pub servers: Vec<DescribedServer>,
    /// What is wrong with files.
    pub problems: Vec<HalterError>,
}

impl DescribedServers {
    /// Those of a configuration, of a project and of plugins.
    pub fn of(
        config: &HarnessConfig,
        project: &ProjectServers,
        plugins: &[LoadedMcpServer],
    ) -> Self {
        let settings = config
            .mcp
            .servers
            .iter()
            .map(|(name, table)| described(name, ServerSource::Settings, Ok(table.clone())));
        let of_plugins = plugins.iter().map(of_plugin);
        let unread = plugins.iter().filter_map(|loaded| {
            let unknown = unknown_mcp_members(&loaded.config);
            let (name, source) = public_name(loaded);
            (!unknown.is_empty()).then(|| not_read(&name, &source, &unknown))
        });
        let all = settings
            .chain(project.servers.iter().cloned())
            .chain(of_plugins);
        let mut servers: Vec<DescribedServer> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for mut server in all {
            let first = known.get(&server.name).and_then(|at| servers.get(*at));
            match first {
                // Whoever switches a server off does so wherever it is described.
                Some(first) if !first.table.enabled => server.table.enabled = false,
                Some(first) => {
                    server.problem = Some(clash(&server, &first.source));
                }
                None => {
                    known.insert(server.name.clone(), servers.len());
                }
            }
            servers.push(server);
        }
        Self {
            servers,
            problems: project.problems.iter().cloned().chain(unread).collect(),
        }
    }

    /// Whether nothing is described, rightly or wrongly.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.problems.is_empty()
    }
}

/// A server of a plugin, under the public name.
fn of_plugin(loaded: &LoadedMcpServer) -> DescribedServer {
    let (name, source) = public_name(loaded);
    described(&name, source, parse_mcp_entry(&loaded.config))
}

fn public_name(loaded: &LoadedMcpServer) -> (String, ServerSource) {
    let source = ServerSource::Plugin {
        id: loaded.plugin_id.clone(),
        root: loaded.plugin_root.clone(),
    };
    let name = format!("plugin_{}_{}", loaded.plugin_id, loaded.name);
    (name, source)
}

/// Says which members of an entry change nothing.
fn not_read(name: &str, source: &ServerSource, members: &[String]) -> HalterError {
    let (name, members) = (shown_name(name), members.join("`, `"));
    let message = format!("MCP server `{name}` ({source}): nothing reads `{members}`");
    HalterError::new("mcp_entry", message).with_hint("correct the spelling, or take it out")
}

fn described(
    name: &str,
    source: ServerSource,
    entry: Result<McpServerTable, String>,
) -> DescribedServer {
    let shown = shown_name(name);
    let wrong = |reason: String| {
        let message = format!("MCP server `{shown}` ({source}): {reason}");
        HalterError::new("mcp_entry", message).with_hint("correct its entry")
    };
    let (table, mut problem) = match entry {
        Ok(table) => (table, None),
        Err(reason) => (McpServerTable::default(), Some(wrong(reason))),
    };
    let name = match ServerName::public(name) {
        Ok(name) => name.to_string(),
        Err(error) => {
            let error = HalterError::new(error.code(), format!("{error} ({source})"));
            problem = Some(error.with_hint("give it another name"));
            shown
        }
    };
    DescribedServer {
        name,
        source,
        table,
        problem,
    }
}

fn unusable(path: &Path, reason: impl fmt::Display) -> HalterError {
    let shown = escape_path(path);
    HalterError::new("mcp_file", format!("{shown}: {reason}")).with_hint("correct the file")
}

fn untrusted(name: &str, path: &Path) -> HalterError {
    let shown = escape_path(path);
    let message = format!(
        "MCP server `{name}` is not started: {shown} is new or has changed, and it would run \
         programs as you, or send what you do elsewhere"
    );
    HalterError::new("mcp_untrusted", message)
        .with_hint(format!("read the file, then run `halter trust {shown}`"))
}

fn clash(server: &DescribedServer, first: &ServerSource) -> HalterError {
    let message = format!(
        "MCP server `{}` ({}) does not count: there is one of that name in {first}",
        server.name, server.source
    );
    HalterError::new("mcp_name_clash", message).with_hint("give one of them another name")
}
