//! The states of a session, and the one function that changes them.

use std::sync::Arc;

use super::clock::Moment;
use crate::exec::ExecId;

/// Where a session is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionState {
    /// It is being set up.
    Creating,
    /// It waits for a command.
    Idle,
    /// A command runs.
    Running {
        /// The command's name.
        exec: ExecId,
        /// What it is.
        command: Arc<str>,
        /// When it was started.
        started: Moment,
    },
    /// It is gone.
    Terminated,
}

impl SessionState {
    /// Its name on the wire.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Idle => "idle",
            Self::Running { .. } => "running",
            Self::Terminated => "terminated",
        }
    }
}

/// What happens to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEvent {
    /// It has been set up.
    Opened,
    /// It could not be set up.
    OpenFailed,
    /// A command is about to run.
    Started {
        /// The command's name.
        exec: ExecId,
        /// What it is.
        command: Arc<str>,
        /// When it starts.
        at: Moment,
    },
    /// A command has ended.
    Finished {
        /// The command's name.
        exec: ExecId,
    },
    /// Someone wants it gone, unless it is in use.
    Destroy,
    /// Someone wants it gone, whatever it does.
    DestroyByForce,
}

/// Why a session does not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransitionError {
    /// A command runs, or it is still being set up.
    #[error("the session is busy")]
    Busy,
    /// It is gone.
    #[error("the session is gone")]
    Gone,
    /// This does not happen to a session in this state.
    #[error("the session is in another state")]
    InvalidState,
}

/// The next state. Nothing else changes the state of a session.
///
/// # Errors
/// If the event is refused in this state, which then stays.
pub fn transition(
    state: &SessionState,
    event: SessionEvent,
) -> Result<SessionState, TransitionError> {
    use {SessionEvent as Event, SessionState as State};
    match (state, event) {
        (State::Creating, Event::Opened) => Ok(State::Idle),
        (State::Creating, Event::OpenFailed) => Ok(State::Terminated),
        (State::Idle, Event::Started { exec, command, at }) => Ok(State::Running {
            exec,
            command,
            started: at,
        }),
        (State::Running { exec, .. }, Event::Finished { exec: finished }) if *exec == finished => {
            Ok(State::Idle)
        }
        (State::Idle, Event::Destroy) => Ok(State::Terminated),
        (State::Idle | State::Running { .. }, Event::DestroyByForce) => Ok(State::Terminated),
        (State::Creating | State::Running { .. }, Event::Started { .. } | Event::Destroy)
        | (State::Creating, Event::DestroyByForce) => Err(TransitionError::Busy),
        (State::Terminated, _) => Err(TransitionError::Gone),
        (State::Idle | State::Running { .. }, Event::Opened | Event::OpenFailed)
        | (State::Creating | State::Idle | State::Running { .. }, Event::Finished { .. }) => {
            Err(TransitionError::InvalidState)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Clock as _, SystemClock};

    /// Every state against every event. `.` stays for a refusal's name.
    const TABLE: &str = "
                   creating    idle        running     terminated
        opened     idle        misplaced   misplaced   gone
        failed     terminated  misplaced   misplaced   gone
        started    busy        running     busy        gone
        finished   misplaced   misplaced   idle        gone
        other      misplaced   misplaced   misplaced   gone
        destroy    busy        terminated  busy        gone
        force      busy        terminated  terminated  gone
    ";

    fn exec(name: &str) -> ExecId {
        ExecId::parse(name).unwrap()
    }

    fn state(name: &str, now: Moment) -> SessionState {
        match name {
            "creating" => SessionState::Creating,
            "idle" => SessionState::Idle,
            "running" => SessionState::Running {
                exec: exec("e-1"),
                command: "make".into(),
                started: now,
            },
            _ => SessionState::Terminated,
        }
    }

    fn event(name: &str, now: Moment) -> SessionEvent {
        match name {
            "opened" => SessionEvent::Opened,
            "failed" => SessionEvent::OpenFailed,
            "started" => SessionEvent::Started {
                exec: exec("e-1"),
                command: "make".into(),
                at: now,
            },
            "finished" => SessionEvent::Finished { exec: exec("e-1") },
            "other" => SessionEvent::Finished { exec: exec("e-2") },
            "destroy" => SessionEvent::Destroy,
            _ => SessionEvent::DestroyByForce,
        }
    }

    #[test]
    fn every_state_meets_every_event_as_the_table_says() {
        let now = SystemClock.now();
        let mut lines = TABLE.trim().lines();
        let states: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        let mut cells = 0;
        for line in lines {
            let mut words = line.split_whitespace();
            let happens = words.next().unwrap();
            for (from, expected) in states.iter().zip(words) {
                let expected = match expected {
                    "busy" => Err(TransitionError::Busy),
                    "gone" => Err(TransitionError::Gone),
                    "misplaced" => Err(TransitionError::InvalidState),
                    name => Ok(state(name, now)),
                };
                let found = transition(&state(from, now), event(happens, now));
                assert_eq!(found, expected, "{happens} while {from}");
                cells += 1;
            }
        }
        assert_eq!(cells, 28);
    }
}
