//! Writes an allow rule or a server into a configuration file, as somebody with an editor would:
//! comments, order and everything else stay as they are.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use halter_protocol::{PermissionRule, RuleEffect};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Formatted, Item, Table, Value};

use crate::document;
use crate::error::ConfigError;
use crate::limits::{CONFIG_LOCK_WAIT, MAX_CONFIG_FILE_BYTES};
use crate::lock::lock_within;
use crate::project::read_named;
use crate::schema::{McpServerTable, McpTransport};

/// What a file that does not exist yet starts with.
const NEW_FILE: &str = "version = 1\n";

/// Whether a rule had to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavedRule {
    /// It is new in the file.
    Added,
    /// The file has it already.
    WasThere,
}

/// Adds a rule to `permissions.allow` of a file, which is created if it does not exist. The file
/// is replaced as a whole or not at all; one behind a link is replaced where it lies. Blocking.
///
/// # Errors
///
/// The text is no allow rule, the file is no configuration, or it cannot be written. Then nothing
/// has changed.
pub fn save_allow_rule(file: &Path, rule: &str) -> Result<SavedRule, ConfigError> {
    PermissionRule::parse(rule, RuleEffect::Allow).map_err(|error| {
        let problem = format!("{rule:?} is no allow rule: {}", error.problem);
        ConfigError::refused("config_invalid_rule", problem, error.hint())
    })?;
    match edit(file, |text| with_rule(text, rule))? {
        true => Ok(SavedRule::Added),
        false => Ok(SavedRule::WasThere),
    }
}

/// Writes the table of a server into a file, in place of one of that name. Blocking.
///
/// # Errors
///
/// The file is no configuration, or it cannot be written. Then nothing has changed.
pub fn save_mcp_server(
    file: &Path,
    name: &str,
    server: &McpServerTable,
) -> Result<(), ConfigError> {
    edit(file, |text| with_server(text, name, server)).map(drop)
}

/// Takes the table of a server out of a file. Returns whether there was one. Blocking.
///
/// # Errors
///
/// The file is no configuration, or it cannot be written. Then nothing has changed.
pub fn remove_mcp_server(file: &Path, name: &str) -> Result<bool, ConfigError> {
    match file.exists() {
        true => edit(file, |text| without_server(text, name)),
        false => Ok(false),
    }
}

/// Changes the text of a file; `None` leaves it as it is. Returns whether it has changed.
fn edit(file: &Path, change: impl FnOnce(&str) -> Option<String>) -> Result<bool, ConfigError> {
    let fault = |error: io::Error| write_fault(file, &error);
    let file = std::path::absolute(file).map_err(fault)?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(fault)?;
    // A file in a directory of dotfiles is often a link to it.
    let file = fs::canonicalize(&file).unwrap_or(file.clone());
    let directory = file.parent().unwrap_or(directory);
    let _lock = lock(directory, CONFIG_LOCK_WAIT).map_err(fault)?;
    let old = match read_named(&file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            NEW_FILE.to_owned()
        }
        Err(error) => return Err(error),
    };
    // Refuses what is no configuration, and what would not be one any more.
    document::parse(&file, old.as_bytes(), &mut Vec::new())?;
    let Some(new) = change(&old) else {
        return Ok(false);
    };
    document::parse(&file, new.as_bytes(), &mut Vec::new())?;
    if new.len() as u64 > MAX_CONFIG_FILE_BYTES {
        let error = io::Error::other(format!(
            "it would have more than {MAX_CONFIG_FILE_BYTES} bytes"
        ));
        return Err(write_fault(&file, &error));
    }
    replace(&file, directory, &new).map_err(|error| write_fault(&file, &error))?;
    Ok(true)
}

/// The text with the table of a server.
fn with_server(text: &str, name: &str, server: &McpServerTable) -> Option<String> {
    let mut document: DocumentMut = text.parse().unwrap_or_default();
    let mcp = document.entry("mcp").or_insert_with(implicit_table);
    let servers = mcp.as_table_like_mut()?.entry("servers");
    let servers = servers.or_insert_with(implicit_table).as_table_like_mut()?;
    servers.insert(name, Item::Table(server_table(server)));
    Some(document.to_string())
}

/// The text without the table of a server; none if it has none.
fn without_server(text: &str, name: &str) -> Option<String> {
    let mut document: DocumentMut = text.parse().unwrap_or_default();
    let servers = document.get_mut("mcp")?.get_mut("servers")?;
    servers.as_table_like_mut()?.remove(name)?;
    Some(document.to_string())
}

/// A table that needs no line of its own.
fn implicit_table() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// A server as a person would write it: what differs from the default.
fn server_table(server: &McpServerTable) -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    let list = |items: &[String]| toml_edit::value(items.iter().collect::<Array>());
    match server.transport {
        McpTransport::Stdio => {}
        McpTransport::Http => _ = table.insert("type", toml_edit::value("http")),
        McpTransport::Sse => _ = table.insert("type", toml_edit::value("sse")),
    }
    if let Some(url) = &server.url {
        table.insert("url", toml_edit::value(url));
    }
    if let Some(command) = &server.command {
        table.insert("command", toml_edit::value(command));
    }
    for (key, items) in [
        ("args", &server.args),
        ("tools", &server.tools),
        ("without_tools", &server.without_tools),
    ] {
        if !items.is_empty() {
            table.insert(key, list(items));
        }
    }
    if let Some(directory) = &server.cwd {
        table.insert(
            "cwd",
            toml_edit::value(directory.to_string_lossy().as_ref()),
        );
    }
    for (key, pairs) in [
        ("headers", &server.headers),
        ("headers_from_env", &server.headers_from_env),
        ("env", &server.env),
    ] {
        if !pairs.is_empty() {
            let mut inline = toml_edit::InlineTable::new();
            for (name, value) in pairs {
                inline.insert(name, value.as_str().into());
            }
            table.insert(key, toml_edit::value(inline));
        }
    }
    if let Some(client) = &server.oauth.client_id {
        let mut inline = toml_edit::InlineTable::new();
        inline.insert("client_id", client.as_str().into());
        if let Some(secret) = &server.oauth.client_secret {
            inline.insert("client_secret", secret.as_str().into());
        }
        table.insert("oauth", toml_edit::value(inline));
    }
    for (key, seconds) in [
        ("timeout_secs", server.timeout_secs),
        ("start_timeout_secs", server.start_timeout_secs),
    ] {
        if let Some(seconds) = seconds {
            table.insert(key, toml_edit::value(seconds));
        }
    }
    if server.sandbox {
        table.insert("sandbox", toml_edit::value(true));
    }
    if server.required {
        table.insert("required", toml_edit::value(true));
    }
    if !server.enabled {
        table.insert("enabled", toml_edit::value(false));
    }
    table
}

/// The text with the rule; none if it has it already.
fn with_rule(text: &str, rule: &str) -> Option<String> {
    let mut document: DocumentMut = text.parse().unwrap_or_default();
    let permissions = document.entry("permissions").or_insert_with(|| {
        let mut table = Table::new();
        table.decor_mut().set_prefix("\n");
        Item::Table(table)
    });
    let table = permissions.as_table_like_mut()?;
    let allow = table
        .entry("allow")
        .or_insert_with(|| Item::Value(Value::Array(Array::new())));
    match allow {
        Item::ArrayOfTables(tables) => {
            if tables
                .iter()
                .any(|it| it.get("rule").and_then(Item::as_str) == Some(rule))
            {
                return None;
            }
            push_table(tables, rule);
        }
        item => {
            let list = item.as_array_mut()?;
            if list.iter().any(|it| written_rule(it) == Some(rule)) {
                return None;
            }
            push(list, rule);
        }
    }
    Some(document.to_string())
}

fn written_rule(value: &Value) -> Option<&str> {
    let inner = value
        .as_inline_table()
        .and_then(|table| table.get("rule")?.as_str());
    value.as_str().or(inner)
}

/// Adds an element in the manner of the others: a list over several lines goes on that way.
fn push(list: &mut Array, rule: &str) {
    let last = list.len().checked_sub(1).and_then(|last| list.get(last));
    let before = last.and_then(|last| last.decor().prefix()?.as_str().map(str::to_owned));
    let before = match (before, list.is_empty()) {
        (_, true) => String::new(),
        (Some(prefix), _) if prefix.contains('\n') => {
            // Of a comment above the element before, only the line break.
            let start = prefix.rfind('\n').unwrap_or_default();
            prefix.get(start..).unwrap_or("\n").to_owned()
        }
        _ => " ".to_owned(),
    };
    // A comment after the last comma stays in its line.
    let trailing = list.trailing().as_str().unwrap_or_default().to_owned();
    let (comment, end) = match trailing.rfind('\n') {
        Some(end) if trailing.contains('#') => trailing.split_at(end),
        _ => ("", trailing.as_str()),
    };
    let before = format!("{comment}{before}");
    list.set_trailing(end.to_owned());
    let mut element = Value::String(Formatted::new(rule.to_owned()));
    element.decor_mut().set_prefix(before);
    list.push_formatted(element);
}

fn push_table(tables: &mut ArrayOfTables, rule: &str) {
    let mut table = Table::new();
    table.insert("rule", toml_edit::value(rule));
    tables.push(table);
}

fn replace(file: &Path, directory: &Path, text: &str) -> io::Result<()> {
    let mut temporary = tempfile::Builder::new()
        .prefix(".halter-config-")
        .tempfile_in(directory)?;
    temporary.write_all(text.as_bytes())?;
    if let Ok(metadata) = fs::metadata(file) {
        temporary
            .as_file()
            .set_permissions(metadata.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(file).map_err(|error| error.error)?;
    Ok(())
}

/// Waits its turn among the writers of a directory. The lock ends with the returned handle.
fn lock(directory: &Path, wait: Duration) -> io::Result<File> {
    let handle = File::open(directory)?;
    match lock_within(&handle, wait) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::Error::other(
            "another process has been writing there for too long",
        )),
        locked => locked.map(|()| handle),
    }
}

fn write_fault(file: &Path, error: &io::Error) -> ConfigError {
    let problem = format!("cannot write configuration {}: {error}", file.display());
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there",
        _ => "check its permissions, or write the rule into [permissions] yourself",
    };
    ConfigError::refused("config_unwritable", problem, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_joins_the_others_and_everything_else_stays() {
        for (before, after) in [
            (
                "version = 1\n",
                Some("version = 1\n\n[permissions]\nallow = [\"Bash(make)\"]\n"),
            ),
            (
                "# mine\nversion = 1 # one\n[permissions]\n# rules\nallow = [\"Read\"] # kept\nmode = \"prompt\"\n",
                Some(
                    "# mine\nversion = 1 # one\n[permissions]\n# rules\nallow = [\"Read\", \"Bash(make)\"] # kept\nmode = \"prompt\"\n",
                ),
            ),
            (
                "version = 1\n[permissions]\nallow = [\n  # why\n  \"Read\",\n  \"Edit\", # also\n]\n",
                Some(
                    "version = 1\n[permissions]\nallow = [\n  # why\n  \"Read\",\n  \"Edit\", # also\n  \"Bash(make)\",\n]\n",
                ),
            ),
            (
                "version = 1\npermissions.deny = [\"Read\"]\n",
                Some(
                    "version = 1\npermissions.deny = [\"Read\"]\npermissions.allow = [\"Bash(make)\"]\n",
                ),
            ),
            (
                "version = 1\npermissions = { mode = \"prompt\" }\n",
                Some(
                    "version = 1\npermissions = { mode = \"prompt\" , allow = [\"Bash(make)\"] }\n",
                ),
            ),
            (
                "version = 1\n[[permissions.allow]]\nrule = \"Read\"\n",
                Some(
                    "version = 1\n[[permissions.allow]]\nrule = \"Read\"\n\n[[permissions.allow]]\nrule = \"Bash(make)\"\n",
                ),
            ),
            (
                "version = 1\n[permissions]\nallow = [\"Bash(make)\"]\n",
                None,
            ),
            (
                "version = 1\n[permissions]\nallow = [{ rule = \"Bash(make)\" }]\n",
                None,
            ),
            (
                "version = 1\n[[permissions.allow]]\nrule = \"Bash(make)\"\n",
                None,
            ),
        ] {
            assert_eq!(
                with_rule(before, "Bash(make)").as_deref(),
                after,
                "{before}"
            );
        }
    }

    #[test]
    fn a_server_is_written_replaced_and_taken_out() {
        let before = "# mine\nversion = 1\n";
        let mut server = McpServerTable {
            command: Some("npx".to_owned()),
            args: vec!["-y".to_owned(), "server".to_owned()],
            ..McpServerTable::default()
        };
        server.env.insert("TOKEN".to_owned(), "${TOKEN}".to_owned());
        let after = with_server(before, "files", &server).unwrap();
        assert_eq!(
            after,
            "# mine\nversion = 1\n\n[mcp.servers.files]\ncommand = \"npx\"\n\
             args = [\"-y\", \"server\"]\nenv = { TOKEN = \"${TOKEN}\" }\n"
        );
        server.env.clear();
        server.args.clear();
        let replaced = with_server(&after, "files", &server).unwrap();
        assert!(!replaced.contains("TOKEN"), "{replaced}");
        assert_eq!(without_server(&replaced, "other"), None);
        assert_eq!(without_server(&replaced, "files").as_deref(), Some(before));
        let mut remote = McpServerTable {
            transport: McpTransport::Http,
            url: Some("https://a.example/mcp".to_owned()),
            ..McpServerTable::default()
        };
        remote
            .headers
            .insert("X-Key".to_owned(), "${KEY}".to_owned());
        assert_eq!(
            with_server(before, "docs", &remote).unwrap(),
            "# mine\nversion = 1\n\n[mcp.servers.docs]\ntype = \"http\"\n\
             url = \"https://a.example/mcp\"\nheaders = { X-Key = \"${KEY}\" }\n"
        );
    }

    #[test]
    fn a_writer_that_waits_too_long_gives_up() {
        let directory = tempfile::tempdir().unwrap();
        let held = lock(directory.path(), CONFIG_LOCK_WAIT).unwrap();
        assert!(lock(directory.path(), Duration::ZERO).is_err());
        drop(held);
        lock(directory.path(), Duration::ZERO).unwrap();
    }
}
