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

/// How many members of an entry are named that nothing reads.
const UNKNOWN_MEMBERS: usize = 8;

/// What a file in the public format holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpFile {
    /// Its servers by name, in their order. One that is described wrongly says why, without its
    /// values, which may be secrets, and costs itself only.
    pub servers: IndexMap<String, Result<McpServerTable, String>>,
    /// How many more there are than [`MAX_MCP_FILE_SERVERS`]; they do not count.
    pub left_out: usize,
    /// The members that nothing here reads, by server.
    pub unknown: IndexMap<String, Vec<String>>,
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
            unknown: servers
                .iter()
                .take(MAX_MCP_FILE_SERVERS)
                .map(|(name, entry)| (name.clone(), unknown_mcp_members(entry)))
                .filter(|(_, unknown)| !unknown.is_empty())
                .collect(),
        }),
        Some(_) => Err(format!("`{SERVERS}` is not an object of servers by name")),
        None => Err(format!("it has no `{SERVERS}`")),
    }
}

/// Members of an entry that are known, beside those of [`Member`]: how it is reached, and what
/// other programs show or ask before, which changes nothing here.
const OTHER_MEMBERS: [&str; 10] = [
    "type",
    "timeout",
    "disabled",
    "headersHelper",
    "name",
    "description",
    "alwaysLoad",
    "alwaysAllow",
    "autoApprove",
    "trust",
];

/// One member, as tables spell it and as the public format does.
struct Member {
    names: &'static [&'static str],
    meant: &'static str,
}

macro_rules! members {
    ($all:ident: $($member:ident = $names:expr, $meant:expr;)*) => {
        $(const $member: Member = Member { names: &$names, meant: $meant };)*
        const $all: &[Member] = &[$($member),*];
    };
}

members! { MEMBERS:
    URL = ["url"], "a text";
    HEADERS = ["headers"], "an object of texts";
    HEADERS_FROM_ENV = ["headers_from_env", "headersFromEnv"], "an object of texts";
    OAUTH = ["oauth"], "an object";
    SSE_READ_TIMEOUT = ["sse_read_timeout_secs", "sseReadTimeoutSecs"], "a number of seconds";
    TERMINATE_ON_CLOSE = ["terminate_on_close", "terminateOnClose"], "true or false";
    COMMAND = ["command"], "a text";
    ARGS = ["args"], "a list of texts";
    ENV = ["env"], "an object of texts";
    CWD = ["cwd"], "a path";
    TIMEOUT = ["timeout_secs", "timeoutSecs"], "a number of seconds";
    START_TIMEOUT = ["start_timeout_secs", "startTimeoutSecs"], "a number of seconds";
    TOOLS = ["tools", "includeTools"], "a list of texts";
    WITHOUT_TOOLS = ["without_tools", "withoutTools", "excludeTools"], "a list of texts";
    SAMPLING = ["sampling"], "true or false";
    SANDBOX = ["sandbox"], "true or false";
    REQUIRED = ["required"], "true or false";
    ENABLED = ["enabled"], "true or false";
}

members! { OAUTH_MEMBERS:
    CLIENT_ID = ["client_id", "clientId"], "a text";
    CLIENT_SECRET = ["client_secret", "clientSecret"], "a text";
    CLIENT_METADATA_URL = ["client_metadata_url", "clientMetadataUrl"], "a text";
    CALLBACK_PORT = ["callback_port", "callbackPort"], "a port";
    SCOPES = ["scopes"], "a text or a list of texts";
}

/// The members of an entry that nothing here reads: a word that is spelled wrongly, or one of
/// another program.
pub fn unknown_mcp_members(entry: &Value) -> Vec<String> {
    let mut unknown = unknown_of(entry, MEMBERS, &OTHER_MEMBERS);
    if let Some(oauth) = entry.get("oauth") {
        let within = unknown_of(oauth, OAUTH_MEMBERS, &[]);
        unknown.extend(within.into_iter().map(|name| format!("oauth.{name}")));
    }
    unknown.truncate(UNKNOWN_MEMBERS);
    unknown
}

fn unknown_of(object: &Value, members: &[Member], others: &[&str]) -> Vec<String> {
    let known = |name: &str| {
        let members = members.iter().flat_map(|member| member.names);
        members.chain(others).any(|it| *it == name)
    };
    let names = object.as_object().into_iter().flat_map(Map::keys);
    let unknown = names.filter(|name| !known(name)).take(UNKNOWN_MEMBERS);
    unknown
        .map(|name| name.escape_debug().take(40).collect())
        .collect()
}

/// One server in the public format. It may say all that a table says, in the spelling of tables or
/// of the public format. Members that are not known are [told](unknown_mcp_members) and left alone:
/// other programs read them.
///
/// # Errors
///
/// What is wrong with it, without its values.
pub fn parse_mcp_entry(entry: &Value) -> Result<McpServerTable, String> {
    let Value::Object(entry) = entry else {
        return Err("it is not an object".to_owned());
    };
    let url: Option<String> = member(entry, &URL)?;
    let transport = transport(entry, url.is_some())?;
    let command: Option<String> = member(entry, &COMMAND)?;
    let is_given = |text: &String| !text.trim().is_empty();
    match transport {
        McpTransport::Stdio if !command.as_ref().is_some_and(is_given) => {
            return Err("it has no `command`".to_owned());
        }
        McpTransport::Http | McpTransport::Sse if !url.as_ref().is_some_and(is_given) => {
            return Err("it has no `url`".to_owned());
        }
        _ => {}
    }
    if entry.contains_key("headersHelper") {
        return Err("it has a `headersHelper`, which is not built: use `headers`".to_owned());
    }
    let usual = McpServerTable::default();
    let disabled: Option<bool> = named(entry, "disabled", "true or false")?;
    Ok(McpServerTable {
        transport,
        url,
        headers: member(entry, &HEADERS)?.unwrap_or_default(),
        headers_from_env: member(entry, &HEADERS_FROM_ENV)?.unwrap_or_default(),
        oauth: oauth(entry)?,
        sse_read_timeout_secs: seconds(entry, &SSE_READ_TIMEOUT)?,
        terminate_on_close: member(entry, &TERMINATE_ON_CLOSE)?.unwrap_or(usual.terminate_on_close),
        command,
        args: member(entry, &ARGS)?.unwrap_or_default(),
        env: member(entry, &ENV)?.unwrap_or_default(),
        cwd: member::<PathBuf>(entry, &CWD)?,
        timeout_secs: match seconds(entry, &TIMEOUT)? {
            None => timeout(entry)?,
            given => given,
        },
        start_timeout_secs: seconds(entry, &START_TIMEOUT)?,
        tools: tools(entry)?,
        without_tools: member(entry, &WITHOUT_TOOLS)?.unwrap_or_default(),
        sampling: member(entry, &SAMPLING)?.unwrap_or(usual.sampling),
        sandbox: member(entry, &SANDBOX)?.unwrap_or(usual.sandbox),
        required: member(entry, &REQUIRED)?.unwrap_or(usual.required),
        enabled: member(entry, &ENABLED)?.unwrap_or(usual.enabled) && disabled != Some(true),
    })
}

/// How a server is reached.
fn transport(entry: &Map<String, Value>, has_url: bool) -> Result<McpTransport, String> {
    let kind: Option<String> = named(entry, "type", "a text")?;
    match kind.as_deref() {
        None | Some("stdio") if has_url => {
            Err("it has a `url` without a `type`: write \"http\" or \"sse\"".to_owned())
        }
        None | Some("stdio") => Ok(McpTransport::Stdio),
        Some("http" | "streamable-http") => Ok(McpTransport::Http),
        Some("sse") => Ok(McpTransport::Sse),
        Some(other) => {
            let other = other.chars().take(40).collect::<String>();
            Err(format!("its `type` is \"{}\"", other.escape_debug()))
        }
    }
}

/// How users log in, in the public format.
fn oauth(entry: &Map<String, Value>) -> Result<McpOAuthTable, String> {
    let Some(given) = member::<Map<String, Value>>(entry, &OAUTH)? else {
        return Ok(McpOAuthTable::default());
    };
    let port: Option<u16> = member(&given, &CALLBACK_PORT)?;
    // A text in the public format, a list in tables.
    let scopes = match given.get("scopes") {
        Some(Value::Array(_)) => member(&given, &SCOPES)?,
        _ => member(&given, &SCOPES)?
            .map(|text: String| text.split_whitespace().map(str::to_owned).collect()),
    };
    Ok(McpOAuthTable {
        client_id: member(&given, &CLIENT_ID)?,
        client_secret: member(&given, &CLIENT_SECRET)?,
        client_metadata_url: member(&given, &CLIENT_METADATA_URL)?,
        callback_port: port.filter(|port| *port != 0).map(u32::from),
        scopes: scopes.unwrap_or_default(),
    })
}

/// Its tools that there are. Some programs write `*` for all.
fn tools(entry: &Map<String, Value>) -> Result<Vec<String>, String> {
    let tools: Vec<String> = member(entry, &TOOLS)?.unwrap_or_default();
    Ok(match tools.iter().any(|tool| tool == "*") {
        true => Vec::new(),
        false => tools,
    })
}

/// The deadline of a call, which the public format counts in milliseconds.
fn timeout(entry: &Map<String, Value>) -> Result<Option<f64>, String> {
    let meant = "a number of milliseconds";
    let millis: Option<f64> = named(entry, "timeout", meant)?;
    within(millis.map(|millis| millis / 1000.0), "timeout", meant)
}

fn seconds(entry: &Map<String, Value>, member_of: &Member) -> Result<Option<f64>, String> {
    let name = member_of.names.first().copied().unwrap_or_default();
    within(member(entry, member_of)?, name, member_of.meant)
}

fn within(seconds: Option<f64>, name: &str, meant: &str) -> Result<Option<f64>, String> {
    match seconds {
        Some(seconds) if !(0.001..=MAX_MCP_TIMEOUT_SECS).contains(&seconds) => Err(format!(
            "`{name}` must be {meant} up to {MAX_MCP_TIMEOUT_SECS} seconds"
        )),
        seconds => Ok(seconds),
    }
}

/// A member in any of its spellings.
fn member<T: DeserializeOwned>(
    entry: &Map<String, Value>,
    member: &Member,
) -> Result<Option<T>, String> {
    let given = |name: &&&str| entry.get(**name).is_some_and(|it| !it.is_null());
    let mut names = member.names.iter().filter(given);
    match (names.next(), names.next()) {
        (Some(one), Some(other)) => Err(format!("it has both `{one}` and `{other}`")),
        (Some(name), None) => named(entry, name, member.meant),
        _ => Ok(None),
    }
}

fn named<T: DeserializeOwned>(
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

    /// Every member of a table counts in a file as well, in both spellings.
    #[test]
    fn an_entry_says_all_that_a_table_says() {
        let tables = json!({
            "type": "http", "url": "https://a.example/mcp", "headers": {"A": "b"},
            "headers_from_env": {"X-Key": "KEY"},
            "oauth": {"client_id": "c", "client_secret": "s", "client_metadata_url": "https://m",
                "callback_port": 4000, "scopes": ["a", "b"]},
            "sse_read_timeout_secs": 2.5, "terminate_on_close": false,
            "command": "x", "args": ["y"], "env": {"C": "d"}, "cwd": "/e",
            "timeout_secs": 3.5, "start_timeout_secs": 4.5,
            "tools": ["t"], "without_tools": ["u"],
            "sampling": true, "sandbox": true, "required": true, "enabled": false,
        });
        let public = json!({
            "type": "http", "url": "https://a.example/mcp", "headers": {"A": "b"},
            "headersFromEnv": {"X-Key": "KEY"},
            "oauth": {"clientId": "c", "clientSecret": "s", "clientMetadataUrl": "https://m",
                "callbackPort": 4000, "scopes": "a b"},
            "sseReadTimeoutSecs": 2.5, "terminateOnClose": false,
            "command": "x", "args": ["y"], "env": {"C": "d"}, "cwd": "/e",
            "timeout": 3500, "startTimeoutSecs": 4.5,
            "includeTools": ["t"], "excludeTools": ["u"],
            "sampling": true, "sandbox": true, "required": true, "disabled": true,
        });
        let expected: McpServerTable = serde_json::from_value(tables.clone()).unwrap();
        assert_eq!(parse_mcp_entry(&tables).unwrap(), expected);
        assert_eq!(parse_mcp_entry(&public).unwrap(), expected);
        for entry in [&tables, &public] {
            assert!(unknown_mcp_members(entry).is_empty());
        }
        // A member that tables get must be read here as well.
        let table = toml::Value::try_from(&expected).unwrap();
        let own = tables.as_object().unwrap();
        for name in table.as_table().unwrap().keys() {
            assert!(own.contains_key(name), "{name}");
        }
        let all = json!({"command": "x", "tools": ["*"]});
        assert!(parse_mcp_entry(&all).unwrap().tools.is_empty());
    }

    #[test]
    fn members_that_nothing_reads_are_named() {
        let entry = json!({"command": "x", "sandboxed": true, "alwaysLoad": true, "a\n": 1,
            "oauth": {"clientId": "c", "scope": "s"}});
        let named = ["sandboxed", "a\\n", "oauth.scope"];
        assert_eq!(unknown_mcp_members(&entry), named);
        let file = json!({"mcpServers": {"s": entry, "t": {"command": "x"}}});
        let file = parse_mcp_file(&file.to_string()).unwrap();
        assert!(file.servers["s"].is_ok());
        assert_eq!(file.unknown.keys().collect::<Vec<_>>(), ["s"]);
        let many: Map<String, Value> = (0..=UNKNOWN_MEMBERS)
            .map(|n| (format!("m{n}"), json!(1)))
            .collect();
        let many = unknown_mcp_members(&Value::Object(many));
        assert_eq!(many.len(), UNKNOWN_MEMBERS);
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
            (
                json!({"command": "x", "sandbox": "secret"}),
                "`sandbox` is not true or false",
            ),
            (
                json!({"command": "x", "start_timeout_secs": 0}),
                "`start_timeout_secs` must",
            ),
            (
                json!({"command": "x", "tools": ["secret"], "includeTools": []}),
                "has both `tools` and `includeTools`",
            ),
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
