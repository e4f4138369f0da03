//! Which variables a call may set.

use halter_exec::{Environment, TREE_MARKER};
use halter_policy::{PolicyError, ToolPolicy};
use std::collections::BTreeMap;

/// The variables, if none of them may change what runs or hide a process.
pub(super) fn checked(
    policy: &dyn ToolPolicy,
    variables: BTreeMap<String, String>,
) -> Result<Environment, PolicyError> {
    for (name, value) in &variables {
        policy.check_shell_variable(name)?;
        let reason = if name == TREE_MARKER {
            "this variable is how the harness finds what a command started"
        } else if value.contains('\0') {
            "the value of a variable cannot hold a NUL byte"
        } else {
            continue;
        };
        return Err(PolicyError::ShellCommandRejected {
            reason: reason.to_owned(),
            fragment: crate::suggest::shortened(name),
        });
    }
    Ok(variables.into_iter().collect())
}
