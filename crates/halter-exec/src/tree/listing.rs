//! Looking at, and killing, trees that were not necessarily started here.

use std::io;

use super::{Member, freeze_and_kill, walk};
use crate::error::ExecError;
use crate::sys::{Signal, process_table};

/// One process of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its number.
    pub pid: i32,
    /// Its parent's number.
    pub ppid: i32,
    /// Its command line, or its name in brackets if it has none.
    pub command: String,
    /// Its state as the system abbreviates it: `R` running, `S` sleeping,
    /// `D` waiting for a device, `T` stopped, `Z` ended but not collected.
    pub state: char,
    /// Clock ticks between boot and its start; with the number it names this
    /// process and no later one.
    pub start_time: u64,
}

/// What became of the signal to one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignalResult {
    /// The signal was delivered.
    Signalled,
    /// The process had ended before the signal arrived.
    AlreadyGone,
    /// The system refused.
    Refused {
        /// Why.
        reason: String,
    },
}

/// The signal to one process of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillOutcome {
    /// The process.
    pub pid: i32,
    /// What became of it.
    pub result: SignalResult,
}

/// The processes below `pid`, by parent links, without `pid` itself.
///
/// # Errors
/// If there is no such process, or `/proc` cannot be read.
pub fn list_descendants(pid: i32) -> Result<Vec<ProcessInfo>, ExecError> {
    let all = process_table::all().map_err(|source| ExecError::io("listing processes", source))?;
    if !all.iter().any(|stat| stat.pid == pid) {
        return Err(ExecError::NoSuchProcess { pid });
    }
    Ok(walk::closure(&all, [pid])
        .into_iter()
        .filter(|stat| stat.pid != pid)
        .map(|stat| ProcessInfo {
            pid: stat.pid,
            ppid: stat.parent,
            command: process_table::command_line(stat),
            state: stat.state,
            start_time: stat.start_time,
        })
        .collect())
}

/// Signals `pid` and everything below it. KILL first stops the whole tree, so
/// that nothing forks away meanwhile; other signals go to what one look
/// finds. A number that changed hands in between is left alone.
///
/// # Errors
/// If there is no such process, or `/proc` cannot be read.
pub fn kill_tree(pid: i32, signal: Signal) -> Result<Vec<KillOutcome>, ExecError> {
    let root = process_table::stat(pid)
        .filter(|stat| !stat.is_dead())
        .map(|stat| Member::from(&stat))
        .ok_or(ExecError::NoSuchProcess { pid })?;
    let sent = if signal == Signal::KILL {
        freeze_and_kill(|| living_tree(root))
    } else {
        living_tree(root)
            .into_iter()
            .map(|member| (member, member.send(signal)))
            .collect()
    };
    Ok(sent
        .into_iter()
        .map(|(member, result)| KillOutcome {
            pid: member.pid,
            result: signal_result(result),
        })
        .collect())
}

/// Nothing if the root has ended: its number might be somebody else's.
fn living_tree(root: Member) -> Vec<Member> {
    let all = process_table::all().unwrap_or_default();
    let alive = all
        .iter()
        .any(|stat| stat.pid == root.pid && stat.start_time == root.start_time);
    if !alive {
        return Vec::new();
    }
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    walk::closure(&all, [root.pid])
        .into_iter()
        .filter(|stat| stat.pid != own && !stat.is_dead())
        .map(Member::from)
        .collect()
}

fn signal_result(result: io::Result<()>) -> SignalResult {
    match result {
        Ok(()) => SignalResult::Signalled,
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(libc::ESRCH) =>
        {
            SignalResult::AlreadyGone
        }
        Err(error) => SignalResult::Refused {
            reason: error.to_string(),
        },
    }
}
