//! Reading a plugin manifest: what it must say, and where its parts are.

use crate::limits::MAX_PLUGIN_LABEL_BYTES;
use crate::plugin::PluginPart;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// What a manifest's path may begin with instead of `./`.
const ROOT_ALIASES: [&str; 2] = ["${PLUGIN_ROOT}/", "${CLAUDE_PLUGIN_ROOT}/"];

/// Public keys that have no effect here.
const UNUSED_KEYS: [&str; 6] = [
    "channels",
    "dependencies",
    "experimental",
    "monitors",
    "userConfig",
    "workflows",
];

/// What a valid manifest says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub name: String,
    pub version: Option<String>,
    pub description: Option<String>,
    /// Where the parts are that it names.
    pub parts: BTreeMap<PluginPart, Vec<PartPlace>>,
    pub allowed_http_hosts: Vec<String>,
    pub allowed_env_vars: Vec<String>,
    /// Whether the plugin is in force where nobody says otherwise.
    pub default_enabled: bool,
    /// Its keys that are known and have no effect.
    pub unused: Vec<String>,
}

/// Where a part of a plugin is, or a piece of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartPlace {
    /// In this file or directory, relative to the plugin.
    Path(PathBuf),
    /// In the manifest itself.
    Inline(Value),
}

/// Why a manifest is not valid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidManifest {
    pub line: Option<u64>,
    pub reason: String,
}

impl InvalidManifest {
    fn new(reason: impl Into<String>) -> Self {
        Self {
            line: None,
            reason: reason.into(),
        }
    }
}

impl Manifest {
    pub fn parse(text: &str) -> Result<Self, InvalidManifest> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let fields: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| InvalidManifest {
                line: Some(error.line() as u64),
                reason: format!("the manifest is not a JSON object: {error}"),
            })?;
        let mut parts = BTreeMap::new();
        for part in PluginPart::ALL {
            if let Some(value) = fields.get(part.manifest_key()).filter(|v| !v.is_null()) {
                parts.insert(part, part_places(part, value)?);
            }
        }
        let default_enabled = match fields.get("defaultEnabled") {
            None | Some(Value::Null) => true,
            Some(Value::Bool(enabled)) => *enabled,
            Some(_) => {
                return Err(InvalidManifest::new(
                    "`defaultEnabled` must be true or false",
                ));
            }
        };
        let name = label(&fields, "name")?.ok_or_else(|| {
            InvalidManifest::new("`name` is missing; add it as a string such as `my-plugin`")
        })?;
        Ok(Self {
            name: plugin_name(name).map_err(InvalidManifest::new)?,
            version: label(&fields, "version")?.map(str::to_owned),
            description: match fields.get("description") {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text.clone()),
                Some(_) => return Err(InvalidManifest::new("`description` must be a string")),
            },
            parts,
            allowed_http_hosts: strings(&fields, "allowedHttpHosts")?,
            allowed_env_vars: strings(&fields, "allowedEnvVars")?,
            default_enabled,
            unused: UNUSED_KEYS
                .into_iter()
                .filter(|key| fields.contains_key(*key))
                .map(str::to_owned)
                .collect(),
        })
    }
}

/// A name that can be part of a path and stand before a colon.
pub(crate) fn plugin_name(name: &str) -> Result<String, String> {
    match name.bytes().next() {
        Some(first) if first.is_ascii_alphanumeric() && is_label(name) => Ok(name.to_owned()),
        _ => Err(format!(
            "the name `{}` must begin with a letter or a digit and may have up to \
             {MAX_PLUGIN_LABEL_BYTES} letters, digits, `-`, `_`, `.` and `+`",
            name.escape_debug()
        )),
    }
}

fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    text.len() <= MAX_PLUGIN_LABEL_BYTES && text.bytes().all(plain)
}

fn label<'a>(
    fields: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a str>, InvalidManifest> {
    let text = match fields.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.trim(),
        Some(_) => return Err(InvalidManifest::new(format!("`{key}` must be a string"))),
    };
    match text.is_empty() {
        true => Ok(None),
        false if is_label(text) => Ok(Some(text)),
        false => Err(InvalidManifest::new(format!(
            "`{key}` may have up to {MAX_PLUGIN_LABEL_BYTES} letters, digits, `-`, `_`, `.` and `+`"
        ))),
    }
}

fn strings(fields: &Map<String, Value>, key: &str) -> Result<Vec<String>, InvalidManifest> {
    let Some(value) = fields.get(key).filter(|value| !value.is_null()) else {
        return Ok(Vec::new());
    };
    let items = value.as_array().map(|items| {
        let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
        texts.collect::<Option<Vec<_>>>()
    });
    items
        .flatten()
        .ok_or_else(|| InvalidManifest::new(format!("`{key}` must be a list of strings")))
}

/// Where a part is: a path, a list of paths, or for some parts the thing itself.
fn part_places(part: PluginPart, value: &Value) -> Result<Vec<PartPlace>, InvalidManifest> {
    let key = part.manifest_key();
    let one = |value: &Value| match value {
        Value::String(path) => Ok(PartPlace::Path(component_path(key, path)?)),
        Value::Object(_) if part.may_be_inline() => Ok(PartPlace::Inline(value.clone())),
        _ => Err(InvalidManifest::new(format!(
            "`{key}` must be a path or a list of paths"
        ))),
    };
    match value {
        Value::Array(items) => items.iter().map(one).collect(),
        single => Ok(vec![one(single)?]),
    }
}

fn component_path(key: &str, path: &str) -> Result<PathBuf, InvalidManifest> {
    let relative = ROOT_ALIASES
        .iter()
        .chain(["./"].iter())
        .find_map(|start| path.strip_prefix(start))
        .ok_or_else(|| {
            InvalidManifest::new(format!(
                "`{key}`: the path {path:?} must begin with `./`, from the plugin's directory"
            ))
        })?;
    let stays_inside = Path::new(relative)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !stays_inside || path.contains('\0') {
        return Err(InvalidManifest::new(format!(
            "`{key}`: the path {path:?} leads out of the plugin's directory"
        )));
    }
    Ok(PathBuf::from(relative))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(fields: Value) -> Result<Manifest, InvalidManifest> {
        let mut manifest = json!({"name": "tools", "version": "1.0.0"});
        let own = fields.as_object().unwrap().clone();
        manifest.as_object_mut().unwrap().extend(own);
        Manifest::parse(&manifest.to_string())
    }

    #[test]
    fn a_manifest_names_its_parts() {
        let manifest = parse(json!({
            "$schema": "https://example.com/schema.json",
            "displayName": "unknown keys are left alone",
            "description": "Tools.",
            "author": {"name": "A"},
            "hooks": "./config/hooks.json",
            "skills": ["./skills", "${CLAUDE_PLUGIN_ROOT}/more"],
            "mcpServers": {"a": {"command": "a"}},
            "lspServers": null,
            "allowedEnvVars": ["TOKEN"],
            "defaultEnabled": false,
            "userConfig": {},
        }))
        .unwrap();
        let path = |path: &str| PartPlace::Path(path.into());
        assert_eq!(
            manifest,
            Manifest {
                name: "tools".into(),
                version: Some("1.0.0".into()),
                description: Some("Tools.".into()),
                parts: BTreeMap::from([
                    (PluginPart::Skills, vec![path("skills"), path("more")]),
                    (PluginPart::Hooks, vec![path("config/hooks.json")]),
                    (
                        PluginPart::McpServers,
                        vec![PartPlace::Inline(json!({"a": {"command": "a"}}))]
                    ),
                ]),
                allowed_http_hosts: Vec::new(),
                allowed_env_vars: vec!["TOKEN".into()],
                default_enabled: false,
                unused: vec!["userConfig".into()],
            }
        );
        let longest = parse(json!({"version": "x".repeat(MAX_PLUGIN_LABEL_BYTES)}));
        assert!(longest.is_ok());
        let without = Manifest::parse(r#"{"name": "a"}"#).unwrap();
        assert_eq!((without.version, without.default_enabled), (None, true));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (fields, named) in [
            (json!({"name": ""}), "`name` is missing"),
            (json!({"name": 7}), "`name` must be a string"),
            (json!({"name": "a/b"}), "`name` may have"),
            (json!({"name": "a\nb"}), "`name` may have"),
            (json!({"name": ".."}), "must begin with a letter"),
            (json!({"name": "-x"}), "must begin with a letter"),
            (json!({"name": "a:b"}), "`name` may have"),
            (
                json!({"version": "x".repeat(MAX_PLUGIN_LABEL_BYTES + 1)}),
                "`version` may have",
            ),
            (json!({"version": 1}), "`version` must be a string"),
            (json!({"description": []}), "`description` must be a string"),
            (json!({"defaultEnabled": "no"}), "`defaultEnabled`"),
            (json!({"skills": {"a": 1}}), "`skills` must be a path"),
            (json!({"agents": ["./a", 7]}), "`agents` must be a path"),
            (json!({"skills": "skills"}), "must begin with `./`"),
            (json!({"skills": "/etc"}), "must begin with `./`"),
            (json!({"skills": "./../other"}), "leads out"),
            (json!({"skills": ["./a/../../b"]}), "leads out"),
            (json!({"hooks": "./a/../b"}), "leads out"),
            (json!({"hooks": ".//etc/passwd"}), "leads out"),
            (json!({"skills": "${PLUGIN_ROOT}/../x"}), "leads out"),
            (json!({"allowedEnvVars": "HOME"}), "`allowedEnvVars`"),
            (json!({"allowedHttpHosts": [1]}), "`allowedHttpHosts`"),
        ] {
            let error = parse(fields.clone()).unwrap_err();
            assert!(error.reason.contains(named), "{fields}: {}", error.reason);
        }
    }

    #[test]
    fn broken_json_has_a_line() {
        let error = Manifest::parse("{\n\"name\": \n}").unwrap_err();
        assert_eq!(error.line, Some(3));
        assert!(Manifest::parse("[]").is_err());
    }
}
