//! What the Landlock of this kernel knows, tried out once.

use std::sync::OnceLock;

use crate::sys;

/// Whether it can keep programs from being executed that are not listed.
#[must_use]
pub fn landlock_lists_programs() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| sys::execute_ruleset(Some(&[]), false).is_ok())
}

/// Whether it can keep abstract sockets of other programs, and signals to
/// them, out of reach: version 6, of Linux 6.12.
#[must_use]
pub fn landlock_scopes() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(sys::landlock_scopes)
}
