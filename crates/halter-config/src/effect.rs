//! What trusting a project file would change, for a person to read before deciding.

use std::fmt;

use serde_json::Value;

use crate::credentials::REDACTED;
use crate::error::ConfigError;
use crate::keys::{KeySpec, Kind};
use crate::limits::MAX_SHOWN_VALUE_CHARS;
use crate::load::{LayeredConfigPaths, apply_trusted, base_settings, base_value};
use crate::project::{ProjectFile, blocking};

/// One setting that a project file would change once trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustEffect {
    /// The key, dotted.
    pub key: String,
    /// The value without the file; absent: none.
    pub before: Option<String>,
    /// The value with it. Keys and header values are redacted.
    pub after: String,
    /// What that means, where it is not plain.
    pub meaning: Option<&'static str>,
}

impl fmt::Display for TrustEffect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} = {}", self.key, self.after)?;
        if let Some(before) = &self.before {
            write!(formatter, " (now {before})")?;
        }
        match self.meaning {
            Some(meaning) => write!(formatter, ": {meaning}"),
            None => Ok(()),
        }
    }
}

/// What trusting a project file would change, against the defaults and the user's own file.
/// Control characters in values are escaped and long values cut, so that the lines can be shown
/// on a terminal as they are.
///
/// # Errors
///
/// Whatever is wrong with either file.
pub async fn effect_of(
    project: &ProjectFile,
    paths: &LayeredConfigPaths,
) -> Result<Vec<TrustEffect>, ConfigError> {
    let (project, paths) = (project.clone(), paths.clone());
    blocking(move || effect_now(&project, &paths)).await
}

fn effect_now(
    project: &ProjectFile,
    paths: &LayeredConfigPaths,
) -> Result<Vec<TrustEffect>, ConfigError> {
    let before = base_settings(paths)?;
    let mut after = before.clone();
    let entries = crate::document::parse(project.path(), project.content(), &mut Vec::new())?;
    apply_trusted(&entries, &mut after, &mut Vec::new());
    let mut effects = Vec::new();
    for entry in &entries {
        let old = base_value(&before, &entry.key);
        let new = base_value(&after, &entry.key);
        if old == new || entry.spec.pattern == "version" {
            continue;
        }
        let show = |value: &Value| {
            if entry.spec.kind == Kind::Secret {
                REDACTED.to_owned()
            } else {
                shown(value)
            }
        };
        effects.push(TrustEffect {
            key: entry.key.to_string(),
            before: old.as_ref().map(show),
            after: new.as_ref().map(show).unwrap_or_default(),
            meaning: meaning(entry.spec),
        });
    }
    Ok(effects)
}

fn meaning(spec: &KeySpec) -> Option<&'static str> {
    Some(match spec.pattern.as_str() {
        "providers.<name>.base_url" => "your key and the conversation go to this address",
        "providers.<name>.api_key" => "requests use this key instead of yours",
        "providers.<name>.headers.<name>" => "added to each request",
        "providers.<name>.ca_file" => "servers that its authorities vouch for are trusted",
        key if key.starts_with("models.")
            && (key.ends_with(".provider") || key.ends_with(".model")) =>
        {
            "the conversation goes to this model"
        }
        "prompts.system_prompt" | "prompts.append_system_prompt" => "instructions to the model",
        "prompts.output_style" => "how the model is told to answer",
        "resources.discover" => "whether the usual folders of resources are searched",
        "resources.watch" => "whether resources that change are taken up",
        "resources.instructions" => "whether instruction files reach the model",
        "resources.skills.roots" => "instructions found there reach the model",
        "resources.plugins.roots" => "plugins found there are loaded",
        "hooks.files" => "what they say runs as you, outside of the sandbox",
        "hooks.allowed_http_hosts" => "where hooks may send what they are told",
        "policy.allowed_write_roots" => "where tools may write",
        "policy.allowed_read_roots" => "where tools may read",
        "policy.sensitive_path_patterns" => "the only files that stay closed",
        "permissions.ask" | "permissions.deny" => "asked about, or refused",
        "policy.shell.allow" => "programs the model may run",
        "policy.shell.env.add" => "variables of yours that commands see, secrets among them",
        "policy.network.allowed_hosts" | "policy.network.allowed_loopback" => {
            "what tools may reach"
        }
        "exec.backend" => "what runs commands",
        "exec.token" => "the runtime is shown this token instead of yours",
        "exec.ca_file" => "runtimes that its authorities vouch for are trusted",
        "exec.mounts" => "commands in containers see what is there",
        "exec.container" => "commands run in containers of this image",
        "exec.socket" | "exec.url" => {
            "commands, with what they see of your environment, go to who listens there"
        }
        "browser.cdp_url" => "pages are opened, and typed into, by this browser",
        "mcp.servers.<name>.command" | "mcp.servers.<name>.args" => {
            "this program is started, outside of any sandbox"
        }
        "mcp.servers.<name>.url" => "what its tools are given goes to this address",
        "mcp.servers.<name>.headers_from_env" => "variables of yours that it is sent",
        "tools.web_search.url" => "your searches and your key for them go to this address",
        "tools.web_search.api_key" => "searches use this key instead of yours",
        "sessions.sqlite_path" => "a database is written there",
        "runtime.traces_dir" => "conversations are written there",
        _ => return None,
    })
}

/// A value on one line, safe for a terminal.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    let mut line = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == MAX_SHOWN_VALUE_CHARS {
            line.push_str(&format!(" ... ({} characters)", text.chars().count()));
            break;
        }
        match character {
            '"' | '\\' | '\'' => line.push(character),
            other => line.extend(other.escape_debug()),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_shown_cannot_move_the_cursor() {
        let line = shown(&json!("a\u{1b}[2Jb\nc\u{202e}d\u{9b}"));
        assert!(
            line.chars().all(|c| !c.is_control() && c != '\u{202e}'),
            "{line}"
        );
        assert_eq!(shown(&json!(["git", "it's"])), "[\"git\",\"it's\"]");
    }

    #[test]
    fn what_is_shown_is_cut_at_its_limit() {
        let fits = "x".repeat(MAX_SHOWN_VALUE_CHARS - 2);
        assert!(!shown(&json!(fits)).contains("..."));
        assert!(shown(&json!(fits + "y")).ends_with("... (201 characters)"));
    }
}
