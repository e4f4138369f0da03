//! What a session may use of what its harness has.

use crate::encoding::escaped_paths;
use crate::ids::{ModelId, ToolName};
use crate::permission::PermissionMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a session may use of what its harness has. What is absent is as the
/// harness has it; nothing here gives more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionBounds {
    /// These tools of the harness and no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolName>>,
    /// These registered models and no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<ModelId>>,
    /// Directories that may be written; relative ones start at the session's.
    #[serde(
        default,
        with = "escaped_paths",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<Vec<String>>")]
    pub write_roots: Option<Vec<PathBuf>>,
    /// Directories that may be read besides those; relative ones start at the
    /// session's.
    #[serde(
        default,
        with = "escaped_paths",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<Vec<String>>")]
    pub read_roots: Option<Vec<PathBuf>>,
    /// Programs the shell may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<Vec<String>>,
    /// Hosts that may be reached, services of this machine among them:
    /// `localhost:8080`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// The most a tool may read of one file, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_read_bytes: Option<u64>,
    /// Deadline of one shell command, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_timeout_secs: Option<u64>,
    /// What is asked where no rule decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub permission_mode: Option<PermissionMode>,
}

impl SessionBounds {
    /// True if the session may use all its harness has.
    pub fn is_unbounded(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_come_back_as_they_were_written() {
        let bounds = SessionBounds {
            tools: Some(vec!["read".into()]),
            write_roots: Some(vec!["src".into()]),
            programs: Some(Vec::new()),
            ..SessionBounds::default()
        };
        let text = serde_json::to_string(&bounds).unwrap();
        assert_eq!(
            text,
            r#"{"tools":["read"],"write_roots":["src"],"programs":[]}"#
        );
        assert_eq!(
            serde_json::from_str::<SessionBounds>(&text).unwrap(),
            bounds
        );
        assert!(
            serde_json::from_str::<SessionBounds>("{}")
                .unwrap()
                .is_unbounded()
        );
    }
}
