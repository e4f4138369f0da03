//! A language server as a plugin describes it.

use crate::error::LspError;
use crate::limits::{START_WAIT, START_WAIT_MAX};
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Stands for the directory of the plugin.
const PLUGIN_ROOT: &str = "${CLAUDE_PLUGIN_ROOT}";

/// How a language server is started, and which files it knows.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSettings {
    /// Its name, with that of its plugin.
    pub name: String,
    /// A path, or a name that is looked up.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables it sees besides those of the session's commands.
    pub environment: IndexMap<String, String>,
    /// The language of files, by the end of their names.
    pub languages: IndexMap<String, String>,
    /// What it is told when it starts.
    pub initialization_options: Option<Value>,
    /// What it is told when it asks for its configuration.
    pub settings: Option<Value>,
    /// How long it may take to start.
    pub start_wait: Duration,
}

/// An entry as it is written. Keys that are not known are left alone: other
/// programs read them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: IndexMap<String, String>,
    extension_to_language: IndexMap<String, String>,
    #[serde(default)]
    initialization_options: Option<Value>,
    #[serde(default)]
    settings: Option<Value>,
    #[serde(default)]
    startup_timeout: Option<u64>,
    #[serde(default)]
    transport: Option<String>,
}

impl ServerSettings {
    /// Reads an entry of a plugin whose directory is `root`.
    ///
    /// # Errors
    /// If the entry describes no server that can be used.
    pub fn parse(name: &str, entry: &Value, root: &Path) -> Result<Self, LspError> {
        let wrong = |problem: String| LspError::Settings {
            name: name.to_owned(),
            problem,
        };
        let entry: Entry =
            serde_json::from_value(entry.clone()).map_err(|error| wrong(error.to_string()))?;
        if entry.command.trim().is_empty() {
            return Err(wrong("`command` is empty".to_owned()));
        }
        if entry.extension_to_language.is_empty() {
            let problem = "`extensionToLanguage` names no files, such as {\".py\": \"python\"}";
            return Err(wrong(problem.to_owned()));
        }
        if let Some(transport) = entry.transport.filter(|it| it != "stdio") {
            return Err(wrong(format!(
                "the transport `{transport}` is not known; use `stdio`"
            )));
        }
        let root = root.display().to_string();
        let expanded = |text: String| text.replace(PLUGIN_ROOT, &root);
        let dotted = |(extension, language): (String, String)| {
            let extension = extension.trim_start_matches('.');
            (format!(".{extension}"), language)
        };
        let start_wait = entry.startup_timeout.map(Duration::from_millis);
        Ok(Self {
            name: name.to_owned(),
            command: expanded(entry.command),
            arguments: entry.args.into_iter().map(expanded).collect(),
            environment: entry
                .env
                .into_iter()
                .map(|(name, value)| (name, expanded(value)))
                .collect(),
            languages: entry
                .extension_to_language
                .into_iter()
                .map(dotted)
                .collect(),
            initialization_options: entry.initialization_options,
            settings: entry.settings,
            start_wait: start_wait.unwrap_or(START_WAIT).min(START_WAIT_MAX),
        })
    }

    /// The language of a file, if the server knows it.
    pub fn language_of(&self, path: &Path) -> Option<&str> {
        let name = path.file_name()?.to_str()?;
        let known = |(end, _): &(&String, &String)| name.ends_with(end.as_str());
        self.languages
            .iter()
            .find(known)
            .map(|(_, language)| language.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(entry: Value) -> Result<ServerSettings, LspError> {
        ServerSettings::parse("demo:python", &entry, Path::new("/plugins/demo"))
    }

    #[test]
    fn an_entry_of_a_plugin_is_read() {
        let settings = parse(json!({
            "command": "${CLAUDE_PLUGIN_ROOT}/bin/server",
            "args": ["--stdio", "--root=${CLAUDE_PLUGIN_ROOT}"],
            "env": {"A": "${CLAUDE_PLUGIN_ROOT}"},
            "extensionToLanguage": {".py": "python", "pyi": "python"},
            "startupTimeout": 5,
            "maxRestarts": 3,
        }))
        .unwrap();
        assert_eq!(settings.command, "/plugins/demo/bin/server");
        assert_eq!(settings.arguments, ["--stdio", "--root=/plugins/demo"]);
        assert_eq!(settings.environment.get("A").unwrap(), "/plugins/demo");
        assert_eq!(settings.language_of(Path::new("src/a.py")), Some("python"));
        assert_eq!(settings.language_of(Path::new("src/a.pyi")), Some("python"));
        assert_eq!(settings.language_of(Path::new("src/py")), None);
        assert_eq!(settings.start_wait, Duration::from_millis(5));
    }

    #[test]
    fn starting_has_a_limit() {
        let entry = |wait: u64| json!({"command": "x", "extensionToLanguage": {".x": "x"}, "startupTimeout": wait});
        assert_eq!(parse(entry(u64::MAX)).unwrap().start_wait, START_WAIT_MAX);
        let without = json!({"command": "x", "extensionToLanguage": {".x": "x"}});
        assert_eq!(parse(without).unwrap().start_wait, START_WAIT);
    }

    #[test]
    fn a_wrong_entry_is_named() {
        for (entry, problem) in [
            (json!({"extensionToLanguage": {".x": "x"}}), "command"),
            (
                json!({"command": " ", "extensionToLanguage": {".x": "x"}}),
                "empty",
            ),
            (json!({"command": "x"}), "extensionToLanguage"),
            (
                json!({"command": "x", "extensionToLanguage": {}}),
                "names no files",
            ),
            (
                json!({"command": "x", "extensionToLanguage": {".x": "x"}, "transport": "socket"}),
                "socket",
            ),
            (json!([]), ""),
        ] {
            let error = parse(entry).unwrap_err();
            assert_eq!(error.code(), "lsp_invalid_settings");
            let told = error.to_string();
            assert!(
                told.contains("demo:python") && told.contains(problem),
                "{told}"
            );
        }
    }
}
