//! `.mcp.json`, the file in which projects name their servers of tools, and variables in the
//! tables of servers.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::error::ConfigError;
use crate::limits::MAX_MCP_SERVERS;
use crate::project::{ProjectFile, find_project_file};
use crate::schema::{McpServerTable, McpTransport};

/// The name of the file.
const FILE_NAME: &str = ".mcp.json";

/// The servers that a project's `.mcp.json` names, as it was read once.
#[derive(Debug, Clone)]
pub struct McpFile {
    /// The file: what is shown, trusted and used are the same bytes.
    pub file: ProjectFile,
    /// Its servers.
    pub servers: IndexMap<String, McpServerTable>,
    /// Entries that cannot be used, and why.
    pub problems: Vec<String>,
}

/// An entry as other programs write it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Entry {
    r#type: Option<String>,
    command: Option<String>,
    args: Vec<String>,
    env: IndexMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    headers: IndexMap<String, String>,
    /// Milliseconds.
    timeout: Option<f64>,
    disabled: bool,
}

impl McpFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is not JSON with a table `mcpServers`.
    pub async fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::of(ProjectFile::read(path).await?)
    }

    /// The servers of a file that was read.
    ///
    /// # Errors
    ///
    /// It is not JSON with a table `mcpServers`.
    pub fn of(file: ProjectFile) -> Result<Self, ConfigError> {
        let fault = |problem: String| {
            let problem = format!("{}: {problem}", file.path().display());
            let hint = "write {\"mcpServers\": {\"name\": {\"command\": \"program\"}}}";
            ConfigError::refused("config_mcp_file", problem, hint)
        };
        let read: Value = serde_json::from_slice(file.content())
            .map_err(|error| fault(format!("it is not JSON: {error}")))?;
        let Some(entries) = read.get("mcpServers").and_then(Value::as_object) else {
            return Err(fault("there is no table `mcpServers`".to_owned()));
        };
        if entries.len() > MAX_MCP_SERVERS {
            return Err(fault(format!(
                "it names more than {MAX_MCP_SERVERS} servers"
            )));
        }
        let (servers, problems) = servers_of(entries, file.path());
        Ok(Self {
            file,
            servers,
            problems,
        })
    }
}

/// The servers of a table `mcpServers`, as projects and plugins write it.
fn servers_of(
    entries: &serde_json::Map<String, Value>,
    file: &Path,
) -> (IndexMap<String, McpServerTable>, Vec<String>) {
    let (mut servers, mut problems) = (IndexMap::new(), Vec::new());
    for (name, entry) in entries {
        let table = serde_json::from_value::<Entry>(entry.clone())
            .map_err(|error| error.to_string())
            .and_then(table);
        match table {
            Ok(table) => drop(servers.insert(name.clone(), table)),
            Err(problem) => {
                let name = name.escape_debug();
                problems.push(format!("{}: server `{name}`: {problem}", file.display()));
            }
        }
    }
    (servers, problems)
}

fn table(entry: Entry) -> Result<McpServerTable, String> {
    let transport = match (entry.r#type.as_deref(), &entry.command, &entry.url) {
        (Some("stdio") | None, Some(_), None) => McpTransport::Stdio,
        (Some("http" | "streamable-http" | "streamableHttp"), None, Some(_)) => McpTransport::Http,
        (Some("sse"), None, Some(_)) => McpTransport::Sse,
        (None, None, Some(_)) => {
            return Err("it has a `url` and no `type`; say \"http\" or \"sse\"".to_owned());
        }
        (Some(kind @ ("stdio" | "http" | "sse")), ..) => {
            let needed = if kind == "stdio" { "command" } else { "url" };
            return Err(format!("type \"{kind}\" needs `{needed}` and nothing else"));
        }
        (Some(kind), ..) => return Err(format!("there is no type {kind:?}")),
        (None, ..) => return Err("it has neither `command` nor `url`".to_owned()),
    };
    Ok(McpServerTable {
        transport: Some(transport),
        command: entry.command,
        args: entry.args,
        env: entry.env,
        cwd: entry.cwd,
        url: entry.url,
        headers: entry.headers,
        timeout_secs: entry.timeout.map(|milliseconds| milliseconds / 1000.0),
        enabled: !entry.disabled,
        ..McpServerTable::default()
    })
}

/// The `.mcp.json` that holds in a directory: the nearest one from there up to the root of the git
/// repository; outside of one, only that of the directory itself.
pub fn find_mcp_file(start: &Path) -> Option<PathBuf> {
    find_project_file(start, FILE_NAME)
}

/// A text with `${NAME}` and `${NAME:-text}` replaced by variables. A `$` before anything else
/// stays.
///
/// ```
/// use halter_config::expand_variables;
///
/// let lookup = |name: &str| (name == "HOST").then(|| "a.example".to_owned());
/// assert_eq!(expand_variables("https://${HOST}/$1", lookup)?, "https://a.example/$1");
/// assert_eq!(expand_variables("${PORT:-80}", lookup)?, "80");
/// assert_eq!(expand_variables("${PORT}", lookup), Err("PORT".to_owned()));
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// The name of the first variable that is not set and has no other text.
pub fn expand_variables(
    text: &str,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((inside, tail)) = after.split_once('}') else {
            expanded.push_str("${");
            rest = after;
            break;
        };
        let (name, other) = match inside.split_once(":-") {
            Some((name, other)) => (name, Some(other)),
            None => (inside, None),
        };
        match lookup(name).filter(|value| !value.is_empty() || other.is_none()) {
            Some(value) => expanded.push_str(&value),
            None => expanded.push_str(other.ok_or_else(|| name.to_owned())?),
        }
        rest = tail;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(content: &Value) -> Result<McpFile, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        std::fs::write(&path, content.to_string()).unwrap();
        McpFile::of(ProjectFile::read_now(&path)?)
    }

    #[test]
    fn entries_are_read_as_others_write_them() {
        let file = read(&json!({"mcpServers": {
            "a": {"command": "npx", "args": ["-y", "x"], "env": {"K": "${K}"}, "timeout": 1500},
            "b": {"type": "http", "url": "https://x.example/mcp", "headers": {"A": "b"}},
            "c": {"type": "sse", "url": "https://x.example/sse", "disabled": true},
            "d": {"url": "https://x.example/mcp"},
            "e": {"type": "ws", "url": "wss://x.example"},
            "f": {"type": "http", "command": "x"},
            "g": 7,
            "h": {},
        }}))
        .unwrap();
        let names: Vec<_> = file.servers.keys().collect();
        assert_eq!(names, ["a", "b", "c"]);
        let a = &file.servers["a"];
        assert_eq!(a.transport, Some(McpTransport::Stdio));
        assert_eq!(a.timeout_secs, Some(1.5));
        assert!(!file.servers["c"].enabled);
        assert_eq!(file.problems.len(), 5, "{:?}", file.problems);
    }

    #[test]
    fn a_file_names_so_many_servers_and_no_more() {
        let of = |count: usize| {
            let entries = (0..count).map(|n| (format!("s{n}"), json!({"command": "x"})));
            json!({"mcpServers": entries.collect::<serde_json::Map<_, _>>()})
        };
        assert!(read(&of(MAX_MCP_SERVERS)).is_ok());
        let error = read(&of(MAX_MCP_SERVERS + 1)).unwrap_err();
        assert_eq!(error.code(), "config_mcp_file");
        for other in [json!([]), json!({"servers": {}})] {
            assert_eq!(read(&other).unwrap_err().code(), "config_mcp_file");
        }
    }

    #[test]
    fn variables_are_expanded_once() {
        let lookup = |name: &str| match name {
            "A" => Some("${B}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, meant) in [
            ("x${A}y", Ok("x${B}y")),
            ("$A ${", Ok("$A ${")),
            ("${EMPTY:-e}${EMPTY}", Ok("e")),
            ("${B:-}", Ok("")),
            ("${B}", Err("B")),
        ] {
            let expanded = expand_variables(text, lookup);
            assert_eq!(expanded.as_deref().map_err(String::as_str), meant, "{text}");
        }
    }

    #[test]
    fn a_deadline_of_a_server_holds_at_its_edge() {
        use crate::check::check;
        use crate::keys::{KeyPath, spec};
        use crate::limits::MAX_MCP_TIMEOUT_SECS;
        let kind = &spec(&KeyPath::plain("mcp.servers.x.timeout_secs"))
            .unwrap()
            .kind;
        assert!(check(kind, &json!(MAX_MCP_TIMEOUT_SECS)).is_ok());
        assert!(check(kind, &json!(MAX_MCP_TIMEOUT_SECS + 1.0)).is_err());
        assert!(check(kind, &json!(0)).is_err());
    }
}
