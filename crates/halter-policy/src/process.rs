//! Which processes may be signalled: the ones this process started, directly
//! or through its children.

use std::fs;
use std::process;

use crate::error::PolicyError;
use crate::limits::MAX_PROCESS_DEPTH;

/// Fails unless `pid` is a descendant of this process.
pub(crate) fn check_descendant(pid: i32) -> Result<(), PolicyError> {
    let outside = PolicyError::ProcessOutsideTree { pid };
    // 0 and negative numbers address groups, 1 is init.
    let Ok(mut current) = u32::try_from(pid) else {
        return Err(outside);
    };
    let own = process::id();
    if current <= 1 || current == own {
        return Err(outside);
    }
    for _ in 0..MAX_PROCESS_DEPTH {
        match parent_of(current) {
            Some(parent) if parent == own => return Ok(()),
            Some(parent) if parent > 1 => current = parent,
            Some(_) | None => return Err(outside),
        }
    }
    Err(outside)
}

/// The parent of a process, read from `/proc`.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parent_in_stat(&stat)
}

/// The fourth field of `/proc/<pid>/stat`. The second is the program's name in
/// parentheses and may itself hold spaces and parentheses.
fn parent_in_stat(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_parentheses_does_not_hide_the_parent() {
        assert_eq!(parent_in_stat("12 (a) R 99 (b)) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in_stat("nonsense"), None);
    }
}
