//! Reading a plugin manifest: what it must say, and which parts it names.

use crate::limits::MAX_PLUGIN_LABEL_BYTES;
use crate::plugin::PluginPart;
use serde_json::{Map, Value};
use std::path::{Component, Path, PathBuf};

/// What a manifest's path may begin with instead of `./`.
const ROOT_ALIASES: [&str; 2] = ["${PLUGIN_ROOT}/", "${CLAUDE_PLUGIN_ROOT}/"];

/// What a valid manifest says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub name: String,
    pub version: String,
    /// The parts it names, in the order of [`PluginPart::ALL`].
    pub parts: Vec<PluginPart>,
    /// Its hooks, if it names any.
    pub hooks: Option<HooksPlace>,
}

/// Where a manifest says its hooks are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HooksPlace {
    /// In these files, relative to the plugin.
    Files(Vec<PathBuf>),
    /// In the manifest itself.
    Inline,
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
        for list in ["allowedHttpHosts", "allowedEnvVars"] {
            if fields.get(list).is_some_and(|value| !is_string_list(value)) {
                return Err(InvalidManifest::new(format!(
                    "`{list}` must be a list of strings"
                )));
            }
        }
        let mut parts = Vec::new();
        let mut hooks = None;
        for part in PluginPart::ALL {
            let Some(value) = fields.get(part.manifest_key()).filter(|v| !v.is_null()) else {
                continue;
            };
            let place = part_place(part, value)?;
            parts.push(part);
            if part == PluginPart::Hooks {
                hooks = Some(place.map_or(HooksPlace::Inline, HooksPlace::Files));
            }
        }
        Ok(Self {
            name: label(&fields, "name")?,
            version: label(&fields, "version")?,
            parts,
            hooks,
        })
    }
}

fn label(fields: &Map<String, Value>, key: &str) -> Result<String, InvalidManifest> {
    let missing = || InvalidManifest::new(format!("`{key}` is missing; add it as a string"));
    let text = fields
        .get(key)
        .ok_or_else(missing)?
        .as_str()
        .ok_or_else(|| InvalidManifest::new(format!("`{key}` must be a string")))?
        .trim();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    if text.is_empty() {
        return Err(missing());
    }
    if text.len() > MAX_PLUGIN_LABEL_BYTES || !text.bytes().all(plain) {
        return Err(InvalidManifest::new(format!(
            "`{key}` may have up to {MAX_PLUGIN_LABEL_BYTES} letters, digits, `-`, `_`, `.` and `+`"
        )));
    }
    Ok(text.to_owned())
}

/// The files or directories of a part, relative to the plugin; `None` if the
/// part is written out in the manifest.
fn part_place(part: PluginPart, value: &Value) -> Result<Option<Vec<PathBuf>>, InvalidManifest> {
    let key = part.manifest_key();
    let paths = match value {
        Value::String(path) => vec![path.as_str()],
        Value::Array(items) if part.may_be_inline() && items.iter().any(Value::is_object) => {
            return Ok(None);
        }
        Value::Array(_) if is_string_list(value) => string_list(value),
        Value::Object(_) if part.may_be_inline() => return Ok(None),
        _ => {
            return Err(InvalidManifest::new(format!(
                "`{key}` must be a path or a list of paths"
            )));
        }
    };
    let inside = paths.into_iter().map(|path| component_path(key, path));
    Ok(Some(inside.collect::<Result<_, _>>()?))
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

fn is_string_list(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|items| items.iter().all(Value::is_string))
}

fn string_list(value: &Value) -> Vec<&str> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
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
            "description": "unknown keys are left alone",
            "hooks": "./config/hooks.json",
            "skills": ["./skills", "${CLAUDE_PLUGIN_ROOT}/more"],
            "mcpServers": {"a": {"command": "a"}},
            "lspServers": null,
        }))
        .unwrap();
        assert_eq!(
            manifest,
            Manifest {
                name: "tools".into(),
                version: "1.0.0".into(),
                parts: vec![
                    PluginPart::Skills,
                    PluginPart::Hooks,
                    PluginPart::McpServers
                ],
                hooks: Some(HooksPlace::Files(vec!["config/hooks.json".into()])),
            }
        );
        let longest = parse(json!({"version": "x".repeat(MAX_PLUGIN_LABEL_BYTES)}));
        assert!(longest.is_ok());
        let inline = parse(json!({"hooks": {"hooks": {}}})).unwrap();
        assert_eq!(inline.hooks, Some(HooksPlace::Inline));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (fields, named) in [
            (json!({"name": ""}), "`name` is missing"),
            (json!({"name": 7}), "`name` must be a string"),
            (json!({"name": "a/b"}), "`name` may have"),
            (json!({"name": "a\nb"}), "`name` may have"),
            (
                json!({"version": "x".repeat(MAX_PLUGIN_LABEL_BYTES + 1)}),
                "`version` may have",
            ),
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
        let missing = Manifest::parse(r#"{"name": "a"}"#).unwrap_err();
        assert!(missing.reason.contains("`version` is missing"));
    }

    #[test]
    fn broken_json_has_a_line() {
        let error = Manifest::parse("{\n\"name\": \n}").unwrap_err();
        assert_eq!(error.line, Some(3));
        assert!(Manifest::parse("[]").is_err());
    }
}
