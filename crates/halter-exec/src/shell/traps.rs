//! Whether a command may set an EXIT trap, judged by its text alone.
//!
//! Such a trap is to run when its command ends, not when the shell does, so
//! the shell is told to look after it. That costs time and shows in a few
//! places, so it is done only for commands that may need it.

use serde::{Deserialize, Serialize};

/// Whether the command may set an EXIT trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrapWatch {
    /// It does not speak of traps.
    None,
    /// It may: looked after when it ends.
    End,
    /// It does: looked after while it runs, too.
    Always,
}

impl TrapWatch {
    pub(super) fn of(text: &str, mentioned: TrapMentions) -> Self {
        match mentioned.and(text) {
            // A DEBUG trap would see us look.
            TrapMentions::Debug => Self::None,
            // An ERR trap would run once more for the lines that look.
            TrapMentions::Error if !text.contains("trap") => Self::None,
            // A function cannot reset these for its caller, and would show.
            TrapMentions::Error => Self::End,
            TrapMentions::Some if !text.contains("trap") => Self::End,
            TrapMentions::Some if text.contains("RETURN") => Self::End,
            TrapMentions::Some if turns_tracing_on(text) => Self::End,
            TrapMentions::Some => Self::Always,
            TrapMentions::None => Self::None,
        }
    }
}

fn turns_tracing_on(text: &str) -> bool {
    let options = text.split("set -").skip(1);
    text.contains("xtrace")
        || options
            .filter_map(|rest| rest.split_ascii_whitespace().next())
            .any(|word| word.contains('x'))
}

/// What the commands of a shell have said about traps so far: a function may
/// set one that an earlier command has brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum TrapMentions {
    /// Nothing.
    None,
    /// There may be traps.
    Some,
    /// There may be ERR traps.
    Error,
    /// There may be DEBUG traps.
    Debug,
}

impl TrapMentions {
    /// With what this text says.
    pub(super) fn and(self, text: &str) -> Self {
        let talk = if !["trap", "source ", ". "]
            .iter()
            .any(|word| text.contains(word))
        {
            Self::None
        } else if text.contains("DEBUG") {
            Self::Debug
        } else if text.contains("ERR") {
            Self::Error
        } else {
            Self::Some
        };
        self.max(talk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_looked_after_by_what_was_said_about_traps() {
        let (none, some) = (TrapMentions::None, TrapMentions::Some);
        for (mentioned, text, watch) in [
            (none, "echo a", TrapWatch::None),
            (none, "trap 'x' EXIT", TrapWatch::Always),
            (none, "trap 'x' EXIT; trap y ERR", TrapWatch::End),
            (none, "trap 'x' EXIT; trap y DEBUG", TrapWatch::None),
            (none, "set -eux; trap 'x' EXIT", TrapWatch::End),
            (none, "set -eu; trap 'x' EXIT", TrapWatch::Always),
            (none, ". ./env", TrapWatch::End),
            (none, "source env", TrapWatch::End),
            (some, "f", TrapWatch::End),
            (TrapMentions::Error, "false", TrapWatch::None),
            (TrapMentions::Error, "trap 'x' EXIT", TrapWatch::End),
            (TrapMentions::Debug, "trap 'x' EXIT", TrapWatch::None),
        ] {
            assert_eq!(TrapWatch::of(text, mentioned), watch, "{text}");
        }
    }
}
