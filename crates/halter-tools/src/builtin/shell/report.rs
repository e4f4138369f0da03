//! A finished command, as the tool's result.

use super::Timeout;
use crate::builtin::refused::{add_hosts, add_sandbox_note};
use crate::exec::{ExitStatus, FinishedCommand, FinishedOutput};
use halter_protocol::ToolResult;
use halter_protocol::encoding::escape_path;
use serde_json::{Map, Value};

pub(super) fn result(finished: FinishedCommand, timeout: &Timeout) -> ToolResult {
    let mut result = Map::new();
    result.insert("exit_code".into(), finished.status.shell_code().into());
    if let Some(name) = signal_of(finished.status) {
        result.insert("signal".into(), name.into());
    }
    stream(&mut result, "stdout", finished.stdout);
    stream(&mut result, "stderr", finished.stderr);
    result.insert("timed_out".into(), finished.timed_out.into());
    result.insert("cancelled".into(), finished.cancelled.into());
    if let Some(note) = timeout_note(timeout, finished.timed_out) {
        result.insert("timeout_note".into(), note.into());
    }
    if finished.shell_restarted {
        let note = "the shell had to be restarted: variables, functions or the directory may be \
                    those of an earlier command";
        result.insert("note".into(), note.into());
    }
    add_hosts(&mut result, &finished.refused_hosts);
    add_sandbox_note(&mut result, finished.sandbox_note);
    ToolResult::json(Value::Object(result))
}

/// The text of a stream, what is missing from it, and where to read that.
fn stream(result: &mut Map<String, Value>, name: &str, output: FinishedOutput) {
    result.insert(name.to_owned(), output.text.into());
    if output.omitted_bytes > 0 {
        result.insert(format!("{name}_omitted_bytes"), output.omitted_bytes.into());
    }
    if let Some(file) = output.kept_file {
        result.insert(format!("{name}_file"), escape_path(&file).into());
    }
    if let Some(note) = output.kept_note {
        result.insert(format!("{name}_file_note"), note.into());
    }
}

/// Says when the command got less time than was asked for, and how to give a
/// command that ran out of it more.
pub(super) fn timeout_note(timeout: &Timeout, timed_out: bool) -> Option<String> {
    let cap = timeout.cap.as_millis();
    match timeout.asked {
        Some(asked) if asked > timeout.cap => Some(format!(
            "timeout_ms was cut from {} to {cap}: the user's setting policy.shell.timeout_secs \
             allows no more",
            asked.as_millis()
        )),
        None if timed_out && timeout.deadline < timeout.cap => Some(format!(
            "without timeout_ms a command gets {}; it may be up to {cap}",
            timeout.deadline.as_millis()
        )),
        _ if timed_out && timeout.deadline == timeout.cap => Some(format!(
            "{cap} ms is the most the user's setting policy.shell.timeout_secs allows"
        )),
        _ => None,
    }
}

/// The signal a command died of. Inside a shell that is a code above 128.
pub(in crate::builtin) fn signal_of(status: ExitStatus) -> Option<&'static str> {
    let number = status
        .signal
        .or_else(|| status.code.and_then(|code| code.checked_sub(128)))?;
    Some(match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_named_and_codes_are_not() {
        let status = |code, signal| ExitStatus { code, signal };
        assert_eq!(signal_of(status(Some(137), None)), Some("SIGKILL"));
        assert_eq!(signal_of(status(None, Some(15))), Some("SIGTERM"));
        assert_eq!(signal_of(status(Some(1), None)), None);
        assert_eq!(signal_of(status(Some(128), None)), None);
        assert_eq!(signal_of(status(Some(255), None)), None);
    }
}
