//! Servers of tools in the public format: the `.mcp.json` of a project, and what plugins bring.

use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::path::PathBuf;

use crate::limits::{MAX_MCP_FILE_SERVERS, MAX_MCP_TIMEOUT_SECS};
use crate::schema::{McpOAuthTable, McpServerTable, McpTransport};

/// The file of a project that describes servers of tools.
pub const MCP_FILE_NAME: &str = ".mcp.json";

/// The member of such a file that holds the servers.
const SERVERS: &str = "mcpServers";

/// What a file in the public format holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpFile {
    /// Its servers by name, in their order. One that is described wrongly says why, without its
    /// values, which may be secrets, and costs itself only.
    pub servers: IndexMap<String, Result<McpServerTable, String>>,
    /// How many more there are than [`MAX_MCP_FILE_SERVERS`]; they do not count.
    pub left_out: usize,
}

/// Reads a file in the public format.
///
/// ```
/// use halter_config::parse_mcp_file;
///
/// let text = r#"{"mcpServers": {"files": {"command": "files-server"}, "odd": {"args": 7}}}"#;
/// let servers = parse_mcp_file(text)?.servers;
/// assert_eq!(servers["files"].as_ref().unwrap().command.as_deref(), Some("files-server"));
/// assert!(servers["odd"].is_err());
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// The text is no JSON, or holds no servers.
pub fn parse_mcp_file(text: &str) -> Result<McpFile, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        match error.is_data() {
            true => "it is not a JSON object".to_owned(),
            false => format!("it is not JSON: line {line}, column {column}"),
        }
    })?;
    match file.get(SERVERS) {
        Some(Value::Object(servers)) => Ok(McpFile {
            servers: servers
                .iter()
                .take(MAX_MCP_FILE_SERVERS)
                .map(|(name, entry)| (name.clone(), parse_mcp_entry(entry)))
                .collect(),
            left_out: servers.len().saturating_sub(MAX_MCP_FILE_SERVERS),
        }),
        Some(_) => Err(format!("`{SERVERS}` is not an object of servers by name")),
        None => Err(format!("it has no `{SERVERS}`")),
    }
}

/// One server in the public format. Members that are not known are left alone: other programs
/// read them.
///
/// # Errors
///
/// What is wrong with it, without its values.
pub fn parse_mcp_entry(entry: &Value) -> Result<McpServerTable, String> {
    let Value::Object(entry) = entry else {
        return Err("it is not an object".to_owned());
    };
    let kind: Option<String> = member(entry, "type", "a text")?;
    let url: Option<String> = member(entry, "url", "a text")?;
    let transport = match kind.as_deref() {
        None | Some("stdio") if url.is_some() => {
            return Err("it has a `url` without a `type`: write \"http\" or \"sse\"".to_owned());
        }
        None | Some("stdio") => return program(entry),
        Some("http" | "streamable-http") => McpTransport::Http,
        Some("sse") => McpTransport::Sse,
        Some(other) => {
            let other = other.chars().take(40).collect::<String>();
            return Err(format!("its `type` is \"{}\"", other.escape_debug()));
        }
    };
    let Some(url) = url.filter(|url| !url.trim().is_empty()) else {
        return Err("it has no `url`".to_owned());
    };
    if entry.contains_key("headersHelper") {
        return Err("it has a `headersHelper`, which is not built: use `headers`".to_owned());
    }
    Ok(McpServerTable {
        transport,
        url: Some(url),
        headers: member(entry, "headers", "an object of texts")?.unwrap_or_default(),
        oauth: oauth(entry)?,
        timeout_secs: timeout(entry)?,
        ..McpServerTable::default()
    })
}

/// How users log in, in the public format.
fn oauth(entry: &Map<String, Value>) -> Result<McpOAuthTable, String> {
    let meant = "an object";
    let Some(given) = member::<Map<String, Value>>(entry, "oauth", meant)? else {
        return Ok(McpOAuthTable::default());
    };
    let port: Option<u16> = member(&given, "callbackPort", "a port")?;
    let scopes: Option<String> = member(&given, "scopes", "a text")?;
    let scopes = scopes.unwrap_or_default();
    Ok(McpOAuthTable {
        client_id: member(&given, "clientId", "a text")?,
        client_secret: member(&given, "clientSecret", "a text")?,
        callback_port: port.filter(|port| *port != 0).map(u32::from),
        scopes: scopes.split_whitespace().map(str::to_owned).collect(),
        ..McpOAuthTable::default()
    })
}

/// A server that is a program.
fn program(entry: &Map<String, Value>) -> Result<McpServerTable, String> {
    let command: Option<String> = member(entry, "command", "a text")?;
    let Some(command) = command.filter(|command| !command.trim().is_empty()) else {
        return Err("it has no `command`".to_owned());
    };
    Ok(McpServerTable {
        command: Some(command),
        args: member(entry, "args", "a list of texts")?.unwrap_or_default(),
        env: member(entry, "env", "an object of texts")?.unwrap_or_default(),
        cwd: member::<PathBuf>(entry, "cwd", "a path")?,
        timeout_secs: timeout(entry)?,
        ..McpServerTable::default()
    })
}

/// The deadline of a call, which the public format counts in milliseconds.
fn timeout(entry: &Map<String, Value>) -> Result<Option<f64>, String> {
    let meant = "a number of milliseconds";
    let millis: Option<f64> = member(entry, "timeout", meant)?;
    match millis.map(|millis| millis / 1000.0) {
        Some(seconds) if !(0.001..=MAX_MCP_TIMEOUT_SECS).contains(&seconds) => Err(format!(
            "`timeout` must be {meant} up to {MAX_MCP_TIMEOUT_SECS} seconds"
        )),
        seconds => Ok(seconds),
    }
}

fn member<T: DeserializeOwned>(
    entry: &Map<String, Value>,
    name: &str,
    meant: &str,
) -> Result<Option<T>, String> {
    match entry.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value)
            .map(Some)
            .map_err(|_| format!("its `{name}` is not {meant}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_entry_of_the_public_format_is_read() {
        let table = parse_mcp_entry(&json!({
            "type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"A": "${B:-c}"},
            "timeout": 1500, "alwaysLoad": true,
        }))
        .unwrap();
        assert_eq!(table.command.as_deref(), Some("npx"));
        assert_eq!(table.args, ["-y", "x"]);
        assert_eq!(table.env["A"], "${B:-c}");
        assert_eq!(table.timeout_secs, Some(1.5));
        assert!(table.enabled && !table.required);
    }

    #[test]
    fn an_entry_over_http_is_read() {
        let table = parse_mcp_entry(&json!({
            "type": "http", "url": "https://${HOST}/mcp", "headers": {"X-Key": "${KEY}"},
            "oauth": {"clientId": "c", "callbackPort": 4000, "scopes": "a b"}, "timeout": 1500,
        }))
        .unwrap();
        assert_eq!(table.transport, McpTransport::Http);
        assert_eq!(table.url.as_deref(), Some("https://${HOST}/mcp"));
        assert_eq!(table.headers["X-Key"], "${KEY}");
        assert_eq!(table.oauth.client_id.as_deref(), Some("c"));
        assert_eq!(table.oauth.callback_port, Some(4000));
        assert_eq!(table.oauth.scopes, ["a", "b"]);
        assert_eq!(table.timeout_secs, Some(1.5));
        let older = json!({"type": "sse", "url": "https://a.example/sse"});
        let older = parse_mcp_entry(&older).unwrap();
        assert_eq!(older.transport, McpTransport::Sse);
    }

    #[test]
    fn what_is_wrong_is_named_and_no_value_is_repeated() {
        for (entry, said) in [
            (json!(7), "not an object"),
            (json!({}), "has no `command`"),
            (json!({"command": " "}), "has no `command`"),
            (json!({"command": ["secret"]}), "`command` is not a text"),
            (json!({"command": "x", "args": "secret"}), "`args` is not"),
            (json!({"command": "x", "args": [7]}), "`args` is not"),
            (json!({"command": "x", "env": {"A": 7}}), "`env` is not"),
            (json!({"command": "x", "env": ["secret"]}), "`env` is not"),
            (json!({"command": "x", "timeout": "secret"}), "`timeout` is"),
            (json!({"command": "x", "timeout": -1}), "`timeout` must"),
            (json!({"command": "x", "timeout": 1e18}), "`timeout` must"),
            (json!({"type": "pigeon"}), "`type` is \"pigeon\""),
            (json!({"type": 7}), "`type` is not a text"),
            (json!({"url": "https://secret"}), "without a `type`"),
            (json!({"type": "http"}), "has no `url`"),
            (json!({"type": "http", "url": ["secret"]}), "`url` is not"),
            (
                json!({"type": "http", "url": "https://a.example", "headers": ["secret"]}),
                "`headers` is not",
            ),
            (
                json!({"type": "http", "url": "https://a.example", "oauth": "secret"}),
                "`oauth` is not",
            ),
            (
                json!({"type": "http", "url": "https://a.example", "headersHelper": "secret"}),
                "`headersHelper`",
            ),
        ] {
            let error = parse_mcp_entry(&entry).unwrap_err();
            assert!(error.contains(said), "{entry}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        for (text, said) in [
            ("{", "line 1, column 1"),
            ("[]", "not a JSON object"),
            ("{}", "has no `mcpServers`"),
            ("{\"mcpServers\": []}", "not an object of servers"),
        ] {
            let error = parse_mcp_file(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_has_so_many_servers_and_no_more() {
        let file = |count: usize| {
            let servers: Map<String, Value> = (0..count)
                .map(|n| (format!("s{n}"), json!({"command": "x"})))
                .collect();
            parse_mcp_file(&json!({"mcpServers": servers}).to_string()).unwrap()
        };
        let fits = file(MAX_MCP_FILE_SERVERS);
        assert_eq!(
            (fits.servers.len(), fits.left_out),
            (MAX_MCP_FILE_SERVERS, 0)
        );
        let more = file(MAX_MCP_FILE_SERVERS + 1);
        assert_eq!(
            (more.servers.len(), more.left_out),
            (MAX_MCP_FILE_SERVERS, 1)
        );
    }

    #[test]
    fn a_deadline_of_the_public_format_holds_at_its_edge() {
        let entry = |secs: f64| json!({"command": "x", "timeout": secs * 1000.0});
        assert!(parse_mcp_entry(&entry(MAX_MCP_TIMEOUT_SECS)).is_ok());
        assert!(parse_mcp_entry(&entry(MAX_MCP_TIMEOUT_SECS + 1.0)).is_err());
    }
}
