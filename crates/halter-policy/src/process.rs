//! Which processes may be signalled: the ones this process started, directly
//! or through its children.

use std::fs;
use std::process;

use crate::error::PolicyError;
use crate::limits::MAX_PROCESS_DEPTH;

/// Fails unless `pid` is a descendant of this process.
pub(crate) fn check_descendant(pid: i32) -> Result<(), PolicyError> {
    match descends(pid, process::id(), parent_of) {
        true => Ok(()),
        false => Err(PolicyError::ProcessOutsideTree { pid }),
    }
}

fn descends(pid: i32, own: u32, parent_of: impl Fn(u32) -> Option<u32>) -> bool {
    // 0 and negative numbers address groups, 1 is init.
    let Ok(mut current) = u32::try_from(pid) else {
        return false;
    };
    if current <= 1 || current == own {
        return false;
    }
    for _ in 0..MAX_PROCESS_DEPTH {
        match parent_of(current) {
            Some(parent) if parent == own => return true,
            Some(parent) if parent > 1 => current = parent,
            Some(_) | None => return false,
        }
    }
    false
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
    fn so_many_ancestors_are_looked_at_and_no_more() {
        // Each process is the child of the one before it.
        let parent = |pid: u32| Some(pid - 1);
        let own = 100;
        let deepest = own + u32::try_from(MAX_PROCESS_DEPTH).unwrap();
        let descends = |pid: u32| descends(i32::try_from(pid).unwrap(), own, parent);
        assert!(descends(own + 1));
        assert!(descends(deepest));
        assert!(!descends(deepest + 1));
        assert!(!descends(own));
    }

    #[test]
    fn a_program_name_with_parentheses_does_not_hide_the_parent() {
        assert_eq!(parent_in_stat("12 (a) R 99 (b)) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in_stat("nonsense"), None);
    }
}
