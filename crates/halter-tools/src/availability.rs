//! Tools that are compiled and enabled, and still of no use where they are.

use halter_policy::PolicySettings;
use halter_protocol::ToolSpec;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// What of a harness decides whether a tool is of use in it. See
/// [`Tool::unavailable`](crate::Tool::unavailable).
#[derive(Debug, Clone, Copy)]
pub struct HarnessFacts<'a> {
    /// What tools may do.
    pub policy: &'a PolicySettings,
    /// The environment that commands of sessions start with.
    pub environment: &'a BTreeMap<OsString, OsString>,
    /// Whether anybody can be asked.
    pub attended: bool,
    /// Whether there is a skill that models may use, or one may come.
    pub skills: bool,
    /// Whether processes can be sampled where commands run.
    pub samples_processes: bool,
}

/// Why every call of a tool is denied, where a rule says so.
pub(crate) fn denied(harness: &HarnessFacts<'_>, tool: &str) -> Option<String> {
    let rule = harness.policy.permissions.denying_tool(tool)?;
    Some(format!("{} denies it", rule.described()))
}

/// A tool that models are neither told of nor may call, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct UnavailableTool {
    /// The tool.
    pub spec: ToolSpec,
    /// What is missing, for a person to read.
    pub reason: String,
}
