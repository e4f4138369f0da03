//! What the program returns to its caller. The numbers are a contract: they are
//! documented in `halter help exit-codes`, tested, and never renumbered.

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// What was asked for was done.
    Success,
    /// It was tried and failed.
    Failed,
    /// The arguments or the configuration are wrong.
    Usage,
    /// Policy or a hook refused it.
    Denied,
    /// Credentials are missing or were refused.
    Authentication,
    /// A budget is used up.
    BudgetExceeded,
    /// The model service cannot be reached, or is overloaded.
    ProviderUnavailable,
    /// The time given ran out.
    TimedOut,
    /// A signal ended it.
    Signal(StopSignal),
    /// The program that it ran for the caller ended so.
    Program(u8),
}

/// A signal that asks the program to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// The terminal is gone.
    Hangup,
    /// Ctrl-C.
    Interrupt,
    /// A supervisor asks the program to end.
    Terminate,
}

impl StopSignal {
    fn number(self) -> u8 {
        match self {
            Self::Hangup => 1,
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Denied => 3,
            Self::Authentication => 4,
            Self::BudgetExceeded => 5,
            Self::ProviderUnavailable => 6,
            Self::TimedOut => 124,
            Self::Signal(signal) => 128 + signal.number(),
            Self::Program(code) => code,
        }
    }

    /// How the program ends on an error with this code. Codes that are not in
    /// the table are failures.
    pub fn for_error(code: &str) -> Self {
        match code {
            "config_missing_api_key" | "provider_authentication" => Self::Authentication,
            "provider_unavailable" | "provider_rate_limited" => Self::ProviderUnavailable,
            "budget_exceeded" => Self::BudgetExceeded,
            "policy_denied" | "hook_blocked" => Self::Denied,
            "cancelled" => Self::Signal(StopSignal::Interrupt),
            "timed_out" => Self::TimedOut,
            "usage"
            | "budget_needs_price"
            | "invalid_configuration"
            | "invalid_response_schema"
            | "provider_not_built"
            | "cassette_damaged"
            | "cassette_exists"
            | "cassette_read"
            | "cassette_without_service"
            | "cassette_write"
            | "sqlite_path_missing"
            | "unknown_model"
            | "unknown_provider"
            | "working_dir_missing" => Self::Usage,
            code if code.starts_with("config_") => Self::Usage,
            _ => Self::Failed,
        }
    }
}

/// What `halter help exit-codes` prints.
pub const HELP: &str = "\
Exit codes of halter

    0  what was asked for was done; also when the reader of a pipe has gone
    1  it was tried and failed: a turn, a tool, a session that is not there
    2  the arguments or the configuration are wrong
    3  policy or a hook refused it
    4  authentication: a key is missing or was refused
    5  a budget is used up: --budget-usd and its like, or [budget]
    6  the model service is unavailable or overloaded, after retries
  124  the time given with --timeout ran out
  129  SIGHUP: the running turn had 10 seconds to finish
  130  Ctrl-C (SIGINT): the running turn was cancelled
  143  SIGTERM: the running turn had 10 seconds to finish

`halter sandbox -- COMMAND` ends as the command does.

Errors have a stable code of their own, such as config_unknown_key. It is in
brackets behind `error` on standard error. In the JSON modes and with --json,
standard output has {\"error\":{\"code\",\"message\",\"hint\"}}; with
--streaming-json a failed turn is its turn_failed event.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_never_change() {
        let all = [
            (Exit::Success, 0),
            (Exit::Failed, 1),
            (Exit::Usage, 2),
            (Exit::Denied, 3),
            (Exit::Authentication, 4),
            (Exit::BudgetExceeded, 5),
            (Exit::ProviderUnavailable, 6),
            (Exit::TimedOut, 124),
            (Exit::Signal(StopSignal::Hangup), 129),
            (Exit::Signal(StopSignal::Interrupt), 130),
            (Exit::Signal(StopSignal::Terminate), 143),
        ];
        for (exit, number) in all {
            assert_eq!(exit.code(), number);
            assert!(HELP.contains(&format!("{number:>5}  ")), "{number}");
        }
    }
}
