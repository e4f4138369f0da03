//! The text of a hook file to hooks.

use super::condition::RuleCondition;
use super::handler::{FileHandler, HandlerAction, OnFailure};
use super::http;
use super::matcher::FileMatcher;
use super::origin::HookOrigin;
use crate::event::HookEventName;
use crate::hook::Hook;
use crate::limits::{MAX_FILE_BYTES, MAX_FILE_HANDLERS, MAX_TIMEOUT};
use crate::warning::HookWarning;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Public events that are not dispatched here, and why.
const NOT_DISPATCHED: &[(&str, &str)] = &[
    (
        "PostToolBatch",
        "use PostToolUse, which runs after each call",
    ),
    (
        "UserPromptExpansion",
        "use UserPromptSubmit, which sees the expanded prompt",
    ),
    ("TeammateIdle", "there are no teams of agents here"),
    ("TaskCreated", "use PostToolUse with the matcher TodoWrite"),
    (
        "TaskCompleted",
        "use PostToolUse with the matcher TodoWrite",
    ),
    ("WorktreeCreate", "worktrees are not made by hooks here"),
    ("WorktreeRemove", "worktrees are not made by hooks here"),
    (
        "MessageDisplay",
        "what is shown is the business of the program that shows it",
    ),
    ("CwdChanged", "a session stays in its directory"),
    ("Setup", "there is no setup phase; use SessionStart"),
    (
        "PreModelSwitch",
        "a model is chosen per turn, without an event",
    ),
    (
        "PostModelSwitch",
        "a model is chosen per turn, without an event",
    ),
    (
        "StopFailure",
        "a turn that fails ends with the event `turn_failed`",
    ),
    (
        "Elicitation",
        "questions of servers are asked without hooks",
    ),
    (
        "ElicitationResult",
        "questions of servers are asked without hooks",
    ),
    (
        "ConfigChange",
        "configuration is read when a program starts",
    ),
    (
        "InstructionsLoaded",
        "instruction files are announced in the session itself",
    ),
    ("FileChanged", "files are not watched"),
    ("DirectoryAdded", "the directories of a session are fixed"),
    ("PostSampling", "use Stop, or PostToolUse"),
];

/// The key by which settings switch hooks off.
const DISABLE: &str = "disableAllHooks";

/// What a hook file holds.
#[derive(Debug)]
#[must_use = "hooks run once they are added: `Hooks::add_file`"]
pub struct ParsedHooks {
    pub(crate) origin: Arc<HookOrigin>,
    /// The hooks that can be used, in the order of the file.
    pub hooks: Vec<Hook>,
    /// Whether it says `disableAllHooks`: for a file of the user no hook of any
    /// file runs, for one of a project none of the project's.
    pub switches_off: bool,
    /// What cannot be used, and why.
    pub warnings: Vec<HookWarning>,
}

/// Reads the text of a settings file or a `hooks.json`.
///
/// ```
/// use halter_hooks::file::{HookOrigin, parse_text};
///
/// let text = r#"{"hooks": {"PreToolUse": [
///     {"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard"}]}]}}"#;
/// let parsed = parse_text(text, &HookOrigin::user("hooks.json"));
/// assert_eq!((parsed.hooks.len(), parsed.warnings.len()), (1, 0));
/// ```
pub fn parse_text(text: &str, origin: &HookOrigin) -> ParsedHooks {
    let refused = |reason: String| ParsedHooks {
        origin: Arc::new(origin.clone()),
        hooks: Vec::new(),
        switches_off: false,
        warnings: vec![HookWarning::FileRefused {
            place: origin.place.clone(),
            reason,
        }],
    };
    if text.len() > MAX_FILE_BYTES {
        return refused(format!("it is larger than {MAX_FILE_BYTES} bytes"));
    }
    match serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) {
        Ok(value) => parse_value(&value, origin),
        Err(error) => refused(format!("it is not JSON: {error}; correct it at that place")),
    }
}

/// Reads hooks that are JSON already: inside a manifest, or from frontmatter.
/// The events may stand in an object `hooks` or by themselves.
pub fn parse_value(value: &Value, origin: &HookOrigin) -> ParsedHooks {
    let mut origin = origin.clone();
    let mut warnings = Vec::new();
    if let Some(hosts) = value
        .get("allowedHttpHosts")
        .or(value.get("allowed_http_hosts"))
    {
        let listed = texts(hosts);
        if listed.is_none() {
            warnings.push(HookWarning::NotAsWritten {
                place: origin.place.clone(),
                at: "allowedHttpHosts".to_owned(),
                reason: "it is not a list of texts, so no host may be reached".to_owned(),
            });
        }
        origin = origin.with_allowed_http_hosts(listed.unwrap_or_default());
    }
    let switches_off = match value.get(DISABLE) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(switches_off)) => *switches_off,
        Some(_) => {
            warnings.push(HookWarning::NotAsWritten {
                place: origin.place.clone(),
                at: DISABLE.to_owned(),
                reason: "it is neither true nor false, so it has no effect".to_owned(),
            });
            false
        }
    };
    let mut reader = FileReader {
        origin: Arc::new(origin),
        hooks: Vec::new(),
        warnings,
        events: Vec::new(),
    };
    reader.file(value);
    ParsedHooks {
        origin: reader.origin,
        hooks: reader.hooks,
        switches_off,
        warnings: reader.warnings,
    }
}

struct FileReader {
    origin: Arc<HookOrigin>,
    hooks: Vec<Hook>,
    warnings: Vec<HookWarning>,
    /// Events that were read, with how they were spelled.
    events: Vec<(HookEventName, String)>,
}

impl FileReader {
    fn file(&mut self, value: &Value) {
        let Some(fields) = value.as_object() else {
            return self.refuse("it is not a JSON object");
        };
        let events = match fields.get("hooks") {
            Some(Value::Object(events)) => events,
            Some(_) => return self.refuse("its `hooks` is not an object of events"),
            // A settings file need not have hooks.
            None if fields.keys().any(|key| is_event(key)) => fields,
            None => return,
        };
        for (name, groups) in events {
            self.event(name, groups);
        }
    }

    fn refuse(&mut self, reason: &str) {
        self.warnings.push(HookWarning::FileRefused {
            place: self.origin.place.clone(),
            reason: reason.to_owned(),
        });
    }

    fn event(&mut self, name: &str, groups: &Value) {
        let event = match name.parse::<HookEventName>() {
            Ok(event) => event,
            // Nothing is lost.
            Err(_) if groups.as_array().is_some_and(Vec::is_empty) => return,
            Err(error) => {
                let known = NOT_DISPATCHED
                    .iter()
                    .find(|(it, _)| it.eq_ignore_ascii_case(name));
                let reason = match known {
                    Some((_, why)) => format!("the event is not dispatched here; {why}"),
                    None => error.to_string(),
                };
                return self.quarantine_event(name, reason);
            }
        };
        if let Some((_, first)) = self.events.iter().find(|(it, _)| *it == event) {
            let reason = format!("`{first}` names the same event; put its groups there");
            return self.quarantine_event(name, reason);
        }
        self.events.push((event, name.to_owned()));
        let Some(groups) = groups.as_array() else {
            let reason = "its value is not a list of groups".to_owned();
            return self.quarantine_event(name, reason);
        };
        for (index, group) in groups.iter().enumerate() {
            self.group(event, group, &format!("{event}[{index}]"));
        }
    }

    fn quarantine_event(&mut self, event: &str, reason: String) {
        self.warnings.push(HookWarning::EventQuarantined {
            place: self.origin.place.clone(),
            event: event.to_owned(),
            reason,
        });
    }

    fn quarantine(&mut self, at: &str, reason: impl Into<String>) {
        self.warnings.push(HookWarning::HandlerQuarantined {
            place: self.origin.place.clone(),
            at: at.to_owned(),
            reason: reason.into(),
        });
    }

    fn note(&mut self, at: &str, reason: impl Into<String>) {
        self.warnings.push(HookWarning::NotAsWritten {
            place: self.origin.place.clone(),
            at: at.to_owned(),
            reason: reason.into(),
        });
    }

    fn group(&mut self, event: HookEventName, group: &Value, at: &str) {
        let Some(fields) = group.as_object() else {
            return self.quarantine(at, "it is not an object with `hooks`");
        };
        let matcher_text = match fields.get("matcher") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => return self.quarantine(at, "its matcher is not a text"),
        };
        let matcher = match FileMatcher::parse(matcher_text.as_deref().unwrap_or("")) {
            Ok(matcher) => matcher,
            Err(reason) => {
                let text = matcher_text.unwrap_or_default();
                let reason = format!("its matcher `{text}` cannot be used: {reason}");
                return self.quarantine(at, reason);
            }
        };
        let matcher = match event.matcher_field() {
            None if !matches!(matcher, FileMatcher::Everything) => {
                self.note(
                    at,
                    format!("{event} has nothing to match, so it always runs"),
                );
                FileMatcher::Everything
            }
            _ => matcher,
        };
        if let Some(values) = event.matcher_values() {
            for name in matcher.names() {
                if !values.contains(&name.as_str()) {
                    let known = values.join(", ");
                    let reason =
                        format!("`{name}` never comes at {event} here; what comes is {known}");
                    self.note(at, reason);
                }
            }
        }
        let Some(handlers) = fields.get("hooks").and_then(Value::as_array) else {
            return self.quarantine(at, "it has no list `hooks`");
        };
        for (index, handler) in handlers.iter().enumerate() {
            let at = format!("{at}.hooks[{index}]");
            if self.hooks.len() == MAX_FILE_HANDLERS {
                let reason = format!("a file holds {MAX_FILE_HANDLERS} handlers at most");
                return self.quarantine(&at, reason);
            }
            match self.handler(event, handler, &at) {
                Ok((mut file, timeout, seen)) => {
                    file.matcher = matcher.clone();
                    file.matcher_text = matcher_text.clone();
                    let mut hook = Hook::from_file(event, file).with_timeout(timeout);
                    hook.status_message = seen.status_message;
                    self.hooks.push(hook.with_once(seen.once));
                }
                Err(reason) => self.quarantine(&at, reason),
            }
        }
    }

    fn handler(
        &mut self,
        event: HookEventName,
        handler: &Value,
        at: &str,
    ) -> Result<(FileHandler, Duration, Seen), String> {
        let Some(fields) = handler.as_object() else {
            return Err("it is not an object with `type`".to_owned());
        };
        let fields = Fields(fields);
        let kind = match fields.text(&["type"])? {
            Some(kind) => kind,
            // As in files that only ever had commands.
            None if fields.get(&["command"]).is_some() => "command".to_owned(),
            None => return Err("it has no `type`".to_owned()),
        };
        let (action, default) = self.action(&kind, &fields, at)?;
        let timeout = self.timeout(event, &fields, default, at)?;
        let condition = match fields.text(&["if"])? {
            None => None,
            Some(_) if event.matcher_field() != Some("tool_name") => {
                return Err(format!(
                    "its `if` is about calls of tools, and {event} is not"
                ));
            }
            Some(rule) => {
                let (condition, note) = RuleCondition::parse(&rule)
                    .map_err(|reason| format!("its `if` cannot be used: {reason}"))?;
                if let Some(note) = note {
                    self.note(at, note);
                }
                Some(condition)
            }
        };
        let on_failure = match fields.text(&["onFailure", "on_failure"])?.as_deref() {
            None => OnFailure::ByEvent,
            Some("continue") => OnFailure::Continue,
            Some("block") => OnFailure::Block,
            Some(other) => {
                return Err(format!(
                    "its `onFailure` is `{other}`, not `continue` or `block`"
                ));
            }
        };
        let mut env_vars = match fields.get(&["allowedEnvVars", "allowed_env_vars"]) {
            None => Vec::new(),
            Some(names) => texts(names).ok_or("its `allowedEnvVars` is not a list of names")?,
        };
        env_vars.extend(self.origin.allowed_env_vars.iter().cloned());
        let mut runs_beside = fields.flag(&["async"])?;
        if fields.flag(&["asyncRewake"])? {
            runs_beside = true;
            self.note(
                at,
                "`asyncRewake` is read as `async`: it never wakes the model",
            );
        }
        if runs_beside
            && !matches!(
                action,
                HandlerAction::Shell { .. } | HandlerAction::Program { .. }
            )
        {
            return Err("only a command can be `async`".to_owned());
        }
        self.unknown_keys(&fields, at);
        let file = FileHandler {
            origin: self.origin.clone(),
            matcher: FileMatcher::Everything,
            matcher_text: None,
            condition,
            action,
            on_failure,
            runs_beside,
            env_vars,
        };
        let seen = Seen {
            once: fields.flag(&["once"])?,
            status_message: fields.text(&["statusMessage", "status_message"])?,
        };
        Ok((file, timeout, seen))
    }

    fn action(
        &mut self,
        kind: &str,
        fields: &Fields<'_>,
        at: &str,
    ) -> Result<(HandlerAction, Duration), String> {
        let model = fields.text(&["model"])?;
        match kind {
            "command" => Ok((command(fields)?, COMMAND_TIMEOUT)),
            "http" => {
                let url = fields.required("url")?;
                http::check_address(&url, &self.origin.allowed_http_hosts)?;
                let headers = fields.text_map(&["headers"])?;
                Ok((HandlerAction::Http { url, headers }, COMMAND_TIMEOUT))
            }
            "prompt" => {
                let prompt = fields.required("prompt")?;
                if fields.get(&["continueOnBlock"]).is_some() {
                    self.note(at, "`continueOnBlock` has no effect");
                }
                Ok((HandlerAction::Prompt { prompt, model }, PROMPT_TIMEOUT))
            }
            "agent" => {
                let max_turns = match fields.get(&["maxTurns", "max_turns"]) {
                    None => None,
                    Some(turns) => {
                        let turns = turns.as_u64().and_then(|it| u32::try_from(it).ok());
                        Some(
                            turns
                                .filter(|it| *it > 0)
                                .ok_or("its `maxTurns` is no number from 1")?,
                        )
                    }
                };
                if fields.get(&["allowedTools", "allowed_tools"]).is_some() {
                    self.note(
                        at,
                        "`allowedTools` has no effect: it has the tools that only read",
                    );
                }
                let action = HandlerAction::Agent {
                    prompt: fields.required("prompt")?,
                    model,
                    max_turns,
                };
                Ok((action, AGENT_TIMEOUT))
            }
            "mcp_tool" => Err("handlers of the type `mcp_tool` are not run here; \
                               use a command that calls the server"
                .to_owned()),
            "callback" | "function" => Err(format!(
                "handlers of the type `{kind}` are registered by a program, not by a file"
            )),
            other => Err(format!(
                "there is no handler of the type `{other}`; the types are command, http, prompt \
                 and agent"
            )),
        }
    }

    fn timeout(
        &mut self,
        event: HookEventName,
        fields: &Fields<'_>,
        default: Duration,
        at: &str,
    ) -> Result<Duration, String> {
        let Some(value) = fields.get(&["timeout", "timeout_sec", "timeoutSec"]) else {
            return Ok(match event {
                HookEventName::UserPromptSubmit => default.min(PROMPT_TIMEOUT),
                HookEventName::SessionEnd => SESSION_END_TIMEOUT,
                _ => default,
            });
        };
        let seconds = value.as_f64().filter(|it| it.is_finite() && *it > 0.0);
        let Some(seconds) = seconds else {
            return Err(format!(
                "its timeout {value} is no number of seconds above 0"
            ));
        };
        let most = match event {
            HookEventName::SessionEnd => SESSION_END_MAX_TIMEOUT,
            _ => MAX_TIMEOUT,
        };
        // Compared first: a duration has no room for every number.
        if seconds > most.as_secs_f64() {
            self.note(at, format!("its timeout is cut to {} s", most.as_secs()));
            return Ok(most);
        }
        Ok(Duration::from_secs_f64(seconds).max(Duration::from_millis(1)))
    }

    fn unknown_keys(&mut self, fields: &Fields<'_>, at: &str) {
        let unknown: Vec<&str> = fields
            .0
            .keys()
            .map(String::as_str)
            .filter(|key| !KEYS.contains(key))
            .collect();
        if !unknown.is_empty() {
            self.note(at, format!("nothing here reads `{}`", unknown.join("`, `")));
        }
    }
}

/// What a user interface shows, and how often a hook runs.
struct Seen {
    once: bool,
    status_message: Option<String>,
}

const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);
const PROMPT_TIMEOUT: Duration = Duration::from_secs(30);
const AGENT_TIMEOUT: Duration = Duration::from_secs(60);
/// A program that ends does not wait long for hooks.
const SESSION_END_TIMEOUT: Duration = Duration::from_millis(1500);
const SESSION_END_MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// Every key of a handler that is read.
const KEYS: &[&str] = &[
    "type",
    "command",
    "args",
    "shell",
    "env",
    "async",
    "asyncRewake",
    "onFailure",
    "on_failure",
    "url",
    "headers",
    "allowedEnvVars",
    "allowed_env_vars",
    "prompt",
    "model",
    "continueOnBlock",
    "maxTurns",
    "max_turns",
    "allowedTools",
    "allowed_tools",
    "if",
    "timeout",
    "timeout_sec",
    "timeoutSec",
    "statusMessage",
    "status_message",
    "once",
];

fn command(fields: &Fields<'_>) -> Result<HandlerAction, String> {
    match fields.text(&["shell"])?.as_deref() {
        None | Some("bash" | "sh") => {}
        Some(other) => return Err(format!("its shell `{other}` is not run here, only bash is")),
    }
    let command = fields.required("command")?;
    let env = fields.text_map(&["env"])?;
    Ok(match fields.get(&["args"]) {
        None => HandlerAction::Shell { line: command, env },
        Some(args) => HandlerAction::Program {
            program: command,
            args: texts(args).ok_or("its `args` is not a list of texts")?,
            env,
        },
    })
}

fn is_event(name: &str) -> bool {
    name.parse::<HookEventName>().is_ok() || NOT_DISPATCHED.iter().any(|(it, _)| *it == name)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array()?.iter();
    items.map(|item| item.as_str().map(str::to_owned)).collect()
}

/// The fields of a handler, each of which may have several names.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn get(&self, names: &[&str]) -> Option<&Value> {
        let found = names.iter().find_map(|name| self.0.get(*name));
        found.filter(|value| !value.is_null())
    }

    fn text(&self, names: &[&str]) -> Result<Option<String>, String> {
        match self.get(names) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!(
                "its `{}` is not a text",
                names.first().unwrap_or(&"")
            )),
        }
    }

    fn required(&self, name: &str) -> Result<String, String> {
        let text = self.text(&[name])?.filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| format!("it has no `{name}`"))
    }

    fn flag(&self, names: &[&str]) -> Result<bool, String> {
        match self.get(names) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(format!(
                "its `{}` is not true or false",
                names.first().unwrap_or(&"")
            )),
        }
    }

    fn text_map(&self, names: &[&str]) -> Result<BTreeMap<String, String>, String> {
        let name = names.first().unwrap_or(&"");
        let Some(value) = self.get(names) else {
            return Ok(BTreeMap::new());
        };
        let entries = value.as_object().map(|map| {
            let texts = map
                .iter()
                .map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
            texts.collect::<Option<BTreeMap<_, _>>>()
        });
        entries
            .flatten()
            .ok_or_else(|| format!("its `{name}` is not an object of texts"))
    }
}

#[cfg(test)]
mod tests;
