//! From the parameters of `exec.run` and `exec.stream` to an order.

use std::path::PathBuf;

use bytes::Bytes;
use halter_exec::Signal;

use super::Service;
use crate::exec::{CoreError, ExecId, ExecOrder, ExecStdin, ExecWhat, StartFailure, TerminalSize};
use crate::protocol::{ErrorCode, ExecParams, PtyParams, SignalSpec, WireError};
use crate::session::{PoolError, Session, check_variables, command_timeout};

impl Service {
    pub(super) fn order(
        &self,
        params: ExecParams,
        session: &Session,
    ) -> Result<ExecOrder, WireError> {
        let id = match params.exec_id.as_deref() {
            Some(name) => exec_id(name)?,
            None => {
                let name = format!("e-{:016x}", self.fresh_number());
                exec_id(&name)?
            }
        };
        let what = match (params.command, params.argv, params.fresh) {
            (Some(command), None, false) => ExecWhat::Command(command.into()),
            (Some(command), None, true) => ExecWhat::Fresh(command.into()),
            (None, Some(argv), false) if !argv.is_empty() => ExecWhat::Argv(argv.into()),
            (None, Some(_), false) => {
                return Err(WireError::invalid("argv must name a program at least"));
            }
            (None, Some(_), true) => {
                return Err(WireError::invalid(
                    "fresh is for a command, argv needs no shell",
                ));
            }
            (None, None, _) => {
                return Err(WireError::invalid("give a command, or a program by argv"));
            }
            (Some(_), Some(_), _) => {
                return Err(WireError::invalid(
                    "give either a command or argv, not both",
                ));
            }
        };
        check_words(&what)?;
        let cwd = params.cwd.map(|path| directory("cwd", path)).transpose()?;
        let protect = params.protect.into_iter();
        let protect = protect.map(|path| directory("protect", path));
        let protect = protect.collect::<Result<_, _>>()?;
        if params.beside && params.pty.is_none() && matches!(what, ExecWhat::Command(_)) {
            return Err(WireError::invalid(
                "a command of the session's shell waits for its turn; for one beside it use \
                 argv, fresh or a pty",
            ));
        }
        let pty = params.pty.map(terminal_size).transpose()?;
        let stdin = match (params.stdin, params.open_stdin || pty.is_some()) {
            (None, false) => ExecStdin::Null,
            (None, true) => ExecStdin::Open,
            (Some(text), false) => ExecStdin::Bytes(Bytes::from(text)),
            (Some(_), true) => {
                return Err(WireError::invalid(
                    "stdin is all the input there is; with open_stdin or a pty use exec.write",
                ));
            }
        };
        Ok(ExecOrder {
            id,
            what,
            environment: check_variables(&params.env.0).map_err(WireError::invalid)?,
            stdin,
            timeout: command_timeout(params.timeout_s, session.parameters.timeout)
                .map_err(|error| WireError::invalid(error.to_string()))?,
            pty,
            cwd,
            protect,
            note: match params.beside {
                true => Bytes::from_static(BESIDE),
                false => Bytes::new(),
            },
        })
    }
}

/// The note of a command that runs beside the others.
pub(super) const BESIDE: &[u8] = b"beside";

fn directory(name: &str, path: String) -> Result<PathBuf, WireError> {
    let path = PathBuf::from(path);
    if path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&0) {
        return Ok(path);
    }
    Err(WireError::invalid(format!(
        "{name} must be an absolute path"
    )))
}

fn check_words(what: &ExecWhat) -> Result<(), WireError> {
    let broken = match what {
        ExecWhat::Command(text) | ExecWhat::Fresh(text) => text.contains('\0'),
        ExecWhat::Argv(words) => words.iter().any(|word| word.contains('\0')),
    };
    if broken {
        return Err(WireError::invalid("a command cannot contain a NUL byte"));
    }
    Ok(())
}

pub(super) fn terminal_size(size: PtyParams) -> Result<TerminalSize, WireError> {
    if size.cols == 0 || size.rows == 0 {
        return Err(WireError::invalid(
            "a terminal has at least one column and one row",
        ));
    }
    Ok(TerminalSize {
        cols: size.cols,
        rows: size.rows,
    })
}

pub(super) fn exec_id(name: &str) -> Result<ExecId, WireError> {
    ExecId::parse(name).ok_or_else(|| {
        WireError::invalid(
            "exec_id must be 1 to 64 letters, digits, `.`, `_` or `-`, and not start with a dot",
        )
    })
}

/// A signal by number or by name.
pub(super) fn signal(spec: &SignalSpec) -> Result<Signal, WireError> {
    let number = match spec {
        SignalSpec::Number(number) => Some(*number),
        SignalSpec::Name(name) => signal_number(name),
    };
    number
        .and_then(|number| Signal::new(number).ok())
        .ok_or_else(|| WireError::invalid("no such signal; give a number or a name such as SIGINT"))
}

fn signal_number(name: &str) -> Option<i32> {
    use rustix::process::Signal as Known;
    let name = name.to_ascii_uppercase();
    let known = match name.strip_prefix("SIG").unwrap_or(&name) {
        "HUP" => Known::HUP,
        "INT" => Known::INT,
        "QUIT" => Known::QUIT,
        "ABRT" => Known::ABORT,
        "KILL" => Known::KILL,
        "USR1" => Known::USR1,
        "USR2" => Known::USR2,
        "PIPE" => Known::PIPE,
        "ALRM" => Known::ALARM,
        "TERM" => Known::TERM,
        "CHLD" => Known::CHILD,
        "CONT" => Known::CONT,
        "STOP" => Known::STOP,
        "TSTP" => Known::TSTP,
        "TTIN" => Known::TTIN,
        "TTOU" => Known::TTOU,
        "WINCH" => Known::WINCH,
        _ => return None,
    };
    Some(known.as_raw())
}

pub(super) fn pool_error(error: &PoolError) -> WireError {
    let code = match error {
        PoolError::Full { .. } => ErrorCode::MaxSessionsReached,
        PoolError::NotFound { .. } => ErrorCode::SessionNotFound,
        PoolError::Busy { .. } | PoolError::QueueFull { .. } => ErrorCode::SessionBusy,
        PoolError::Exhausted { .. } => ErrorCode::SessionLimitExceeded,
    };
    WireError::new(code, error.to_string())
}

pub(super) fn core_error(error: &CoreError) -> WireError {
    let code = match error {
        CoreError::SessionUnknown { .. } => ErrorCode::SessionNotFound,
        CoreError::StartFailed {
            reason: StartFailure::InvalidInput,
            ..
        }
        | CoreError::ExecExists { .. }
        | CoreError::ProcessUnknown { .. }
        | CoreError::StdinClosed
        | CoreError::StdinGap { .. }
        | CoreError::NoTerminal
        | CoreError::Ended => ErrorCode::InvalidParams,
        CoreError::StartFailed { .. } => ErrorCode::CommandFailed,
        CoreError::Internal { .. } => ErrorCode::InternalError,
    };
    WireError::new(code, error.to_string()).with_reason(error.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_by_number_and_name() {
        for spec in [
            SignalSpec::Number(2),
            SignalSpec::Name("SIGINT".to_owned()),
            SignalSpec::Name("int".to_owned()),
        ] {
            assert_eq!(signal(&spec), Ok(Signal::INT));
        }
        for spec in [
            SignalSpec::Number(0),
            SignalSpec::Name("SIGSIGINT".to_owned()),
        ] {
            assert_eq!(signal(&spec).unwrap_err().code, ErrorCode::InvalidParams);
        }
    }
}
