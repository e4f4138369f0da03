//! Which limit of its session was in the way of a command.

use halter_exec::LimitHits;
use halter_exec::Signal;

use crate::exec::types::{ExecEnd, Limits};

/// The limit in words, with its value and its setting. `hits` is what was
/// counted while the command ran.
pub(in crate::exec) fn reached(limits: Limits, hits: LimitHits, end: &ExecEnd) -> Option<String> {
    let signal = Signal::XCPU.number();
    // A shell tells of a signal by its own code.
    let is_out_of_time = end.signal == Some(signal) || end.exit_code == Some(128 + signal);
    let found = [
        (
            is_out_of_time,
            limits.cpu_seconds,
            "CPU time of a process in seconds",
            "TRL_CHILD_CPU_SEC",
            "cpu_seconds",
        ),
        (
            hits.memory > 0,
            limits.memory_bytes,
            "memory in bytes",
            "TRL_CHILD_MEMORY_BYTES",
            "memory_bytes",
        ),
        (
            hits.processes > 0,
            limits.processes,
            "number of processes",
            "TRL_CHILD_NPROC",
            "processes",
        ),
    ];
    let mut found = found.into_iter().filter(|(is_reached, ..)| *is_reached);
    found.find_map(|(_, value, what, variable, parameter)| {
        Some(format!(
            "the session's limit on the {what} was reached: {} \
             ({variable}, or `limits.{parameter}` of session.create)",
            value?
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit_code: Option<i32>, signal: Option<i32>) -> ExecEnd {
        ExecEnd {
            shell_restarted: false,
            exit_code,
            signal,
            timed_out: false,
            cancelled: false,
            duration: std::time::Duration::ZERO,
            usage: None,
            cwd: None,
            limit: None,
        }
    }

    #[test]
    fn cpu_time_is_known_by_its_signal_where_it_is_limited() {
        let limits = Limits {
            cpu_seconds: Some(7),
            ..Limits::default()
        };
        let none = LimitHits::default();
        for end in [ended(None, Some(24)), ended(Some(152), None)] {
            let limit = reached(limits, none, &end).unwrap();
            assert!(
                limit.contains("TRL_CHILD_CPU_SEC") && limit.contains('7'),
                "{limit}"
            );
            assert_eq!(reached(Limits::default(), none, &end), None);
        }
        assert_eq!(reached(limits, none, &ended(None, Some(9))), None);
    }
}
