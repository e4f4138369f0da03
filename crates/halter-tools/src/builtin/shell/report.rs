//! A command's outcome, as its result.

use super::ShellSession;
use halter_exec::{CapturedOutput, CommandOutcome, ExitStatus};
use halter_protocol::ToolResult;
use halter_protocol::encoding::escape_path;
use serde_json::{Map, Value};

pub(super) fn result(outcome: CommandOutcome, session: &ShellSession) -> ToolResult {
    let mut result = Map::new();
    result.insert("exit_code".into(), outcome.status.shell_code().into());
    if let Some(name) = signal_of(outcome.status) {
        result.insert("signal".into(), name.into());
    }
    stream(&mut result, "stdout", outcome.stdout, session);
    stream(&mut result, "stderr", outcome.stderr, session);
    result.insert("timed_out".into(), outcome.timed_out.into());
    result.insert("cancelled".into(), outcome.cancelled.into());
    if outcome.shell_restarted {
        let note = "the shell had to be restarted: variables, functions or the directory may be \
                    those of an earlier command";
        result.insert("note".into(), note.into());
    }
    ToolResult::json(Value::Object(result))
}

/// The text of a stream, what is missing from it, and where to read that.
fn stream(
    result: &mut Map<String, Value>,
    name: &str,
    output: CapturedOutput,
    session: &ShellSession,
) {
    result.insert(name.to_owned(), output.to_text().into());
    if output.is_complete() {
        return;
    }
    result.insert(format!("{name}_omitted_bytes"), output.dropped().into());
    let total = output.total;
    if let Some(file) = output.spool {
        if file.bytes() < total {
            let reason = file.problem().unwrap_or("it reached its limit");
            let note = format!(
                "holds the first {} of {total} bytes: {reason}",
                file.bytes()
            );
            result.insert(format!("{name}_file_note"), note.into());
        }
        let path = file.keep();
        result.insert(format!("{name}_file"), escape_path(&path).into());
        session.keep(path);
    } else if let Some(problem) = output.spool_problem {
        result.insert(format!("{name}_file_note"), problem.into());
    }
}

/// The signal a command died of. Inside a shell that is a code above 128.
fn signal_of(status: ExitStatus) -> Option<&'static str> {
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
