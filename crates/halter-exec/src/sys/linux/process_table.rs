//! What `/proc` says about processes.

use std::collections::HashSet;
use std::fs;
use std::io;

use crate::limits::MAX_COMMAND_LINE_BYTES;
use crate::sys::stat::{EnvironmentLook, Stat};

/// The process with this number, if there is one.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&text))
}

/// Every process that can be seen.
pub(crate) fn all() -> io::Result<Vec<Stat>> {
    let mut found = Vec::new();
    sweep(|stat| found.push(stat))?;
    Ok(found)
}

/// How often new processes are looked for in one sweep.
const SWEEP_ROUNDS: usize = 64;

/// Examines every process, those that appear meanwhile included. A process
/// that is listed may have forked and died before it is examined; its child
/// is then in a later list, so the last list is one without anything new.
pub(crate) fn sweep(mut examine: impl FnMut(Stat)) -> io::Result<()> {
    let mut seen = HashSet::new();
    for _ in 0..SWEEP_ROUNDS {
        let mut news = false;
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if seen.insert(pid) {
                news = true;
                if let Some(stat) = stat(pid) {
                    examine(stat);
                }
            }
        }
        if !news {
            break;
        }
    }
    Ok(())
}

/// The name stands in parentheses and may itself hold any character, so the
/// last closing parenthesis is the one that counts.
fn parse_stat(text: &str) -> Option<Stat> {
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    // Field 22 of the file; six have been taken.
    let start_time = fields.nth(15)?.parse().ok()?;
    Some(Stat {
        pid: pid.trim().parse().ok()?,
        name: name.to_owned(),
        state,
        parent,
        group,
        session,
        start_time,
    })
}

/// The command line, arguments separated by blanks, or the bracketed name of
/// a process that has none.
pub(crate) fn command_line(stat: &Stat) -> String {
    let mut raw = fs::read(format!("/proc/{}/cmdline", stat.pid)).unwrap_or_default();
    while raw.last() == Some(&0) {
        raw.pop();
    }
    if raw.is_empty() {
        return format!("[{}]", stat.name);
    }
    raw.truncate(MAX_COMMAND_LINE_BYTES);
    for byte in &mut raw {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    String::from_utf8_lossy(&raw).into_owned()
}

/// Whether the process was started with exactly this `NAME=value`.
pub(crate) fn environment_look(pid: i32, variable: &[u8]) -> EnvironmentLook {
    // Twice, because the first may have opened what an exec then threw away.
    for _ in 0..2 {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
            return EnvironmentLook::Lacks;
        };
        if !environment.is_empty() {
            let found = environment
                .split(|byte| *byte == 0)
                .any(|one| one == variable);
            return if found {
                EnvironmentLook::Has
            } else {
                EnvironmentLook::Lacks
            };
        }
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if arguments.is_empty() {
            let alive = stat(pid).is_some_and(|stat| !stat.is_dead());
            return if alive {
                EnvironmentLook::Unclear
            } else {
                EnvironmentLook::Lacks
            };
        }
    }
    EnvironmentLook::Lacks
}

/// The resident memory of this program.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().split(' ').next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_blanks_does_not_shift_the_fields() {
        let line = "42 (a) b (c) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        let stat = parse_stat(line).unwrap();
        assert_eq!(
            stat,
            Stat {
                pid: 42,
                name: "a) b (c".to_owned(),
                state: 'S',
                parent: 7,
                group: 8,
                session: 9,
                start_time: 987_654,
            }
        );
    }

    #[test]
    fn garbage_is_no_process() {
        for text in ["", "42", "42 (x", "42 (x) S", "x (y) S 1 2 3"] {
            assert_eq!(parse_stat(text), None, "{text:?}");
        }
    }
}
