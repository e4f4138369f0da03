//! What is amiss with hook files.

use std::fmt;

/// Something about a hook file that a user should know. It travels with
/// compiled resources and becomes a warning event of each session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HookWarning {
    /// Nothing of the file can be used.
    FileRefused {
        /// The file, or where else the hooks are written.
        place: String,
        /// Why.
        reason: String,
    },
    /// The hooks of an event are left out.
    EventQuarantined {
        /// The file.
        place: String,
        /// The event.
        event: String,
        /// Why.
        reason: String,
    },
    /// One handler, or a group of them, is left out.
    HandlerQuarantined {
        /// The file.
        place: String,
        /// Where in it, such as `PreToolUse[0].hooks[1]`.
        at: String,
        /// Why.
        reason: String,
    },
    /// Hooks of files do not run because a file says `disableAllHooks`.
    SwitchedOff {
        /// The file.
        place: String,
        /// Whether it is a project's, which is about the project's hooks alone.
        of_project: bool,
    },
    /// Something that was written has no effect, or another one.
    NotAsWritten {
        /// The file.
        place: String,
        /// Where in it.
        at: String,
        /// What holds instead.
        reason: String,
    },
}

impl HookWarning {
    /// Stable, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::FileRefused { .. } => "hook_file_refused",
            Self::EventQuarantined { .. } => "hook_event_quarantined",
            Self::HandlerQuarantined { .. } => "hook_handler_quarantined",
            Self::SwitchedOff { .. } => "hooks_switched_off",
            Self::NotAsWritten { .. } => "hook_not_as_written",
        }
    }
}

impl fmt::Display for HookWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileRefused { place, reason } => {
                write!(f, "hooks of {place} are not loaded: {reason}")
            }
            Self::EventQuarantined {
                place,
                event,
                reason,
            } => write!(f, "hooks of {place} for `{event}` do not run: {reason}"),
            Self::HandlerQuarantined { place, at, reason } => {
                write!(f, "the hook {at} of {place} does not run: {reason}")
            }
            Self::SwitchedOff { place, of_project } => {
                let whose = match of_project {
                    true => "of the project",
                    false => "of files, plugins, skills and agents",
                };
                write!(f, "`disableAllHooks` of {place}: no hooks {whose} run")
            }
            Self::NotAsWritten { place, at, reason } => {
                write!(f, "the hook {at} of {place}: {reason}")
            }
        }
    }
}
