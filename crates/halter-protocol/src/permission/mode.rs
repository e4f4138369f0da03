//! What happens where no rule decides.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is asked where no rule decides, from the narrowest to the widest.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PermissionMode {
    /// Nothing is changed, and nothing is asked.
    ReadOnly,
    /// Every change is asked about.
    Prompt,
    /// Changes inside the write roots need no question.
    #[default]
    WorkspaceWrite,
    /// Only rules ask.
    FullAccess,
    /// Nothing is asked: what a rule would ask about is denied.
    Allow,
}

impl PermissionMode {
    /// Every mode, from the narrowest to the widest.
    pub const ALL: [Self; 5] = [
        Self::ReadOnly,
        Self::Prompt,
        Self::WorkspaceWrite,
        Self::FullAccess,
        Self::Allow,
    ];

    /// The mode as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Prompt => "prompt",
            Self::WorkspaceWrite => "workspace_write",
            Self::FullAccess => "full_access",
            Self::Allow => "allow",
        }
    }

    /// Whether a person may be asked in this mode.
    #[must_use]
    pub const fn asks(self) -> bool {
        !matches!(self, Self::ReadOnly | Self::Allow)
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for PermissionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("'{text}' is no permission mode; there are {names}")
        })
    }
}

/// A mode of a later version counts as the narrowest one.
impl<'de> Deserialize<'de> for PermissionMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(text.parse().unwrap_or(Self::ReadOnly))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_ordered_and_a_new_one_is_the_narrowest() {
        assert!(PermissionMode::ALL.is_sorted());
        for mode in PermissionMode::ALL {
            assert_eq!(mode.as_str().parse(), Ok(mode));
            let text = serde_json::to_string(&mode).unwrap();
            assert_eq!(text, format!("\"{mode}\""));
            assert_eq!(serde_json::from_str::<PermissionMode>(&text).unwrap(), mode);
        }
        let later: PermissionMode = serde_json::from_str("\"everything\"").unwrap();
        assert_eq!(later, PermissionMode::ReadOnly);
        assert!("everything".parse::<PermissionMode>().is_err());
    }
}
