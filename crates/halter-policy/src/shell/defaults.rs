//! The programs that run where the user has set no list.

use std::sync::LazyLock;

/// The built-in list: programs that only read, and those a project is built
/// with from day to day.
#[must_use]
pub fn default_programs() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> =
        LazyLock::new(|| NAMED.iter().map(|&name| name.to_owned()).collect());
    &NAMES
}

const NAMED: &[&str] = &["git", "cargo", "rg", "ls", "find", "true", "cd"];
