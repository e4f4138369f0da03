//! Whether the bash parser sees the same commands as our own reader.
//!
//! Both readings are written down in one form, which is then compared: every
//! word as it stands in the line, and every construct around it. The match
//! over the parser's tree has no default arm, so a construct it does not know
//! does not compile. The text of substitutions is compared as a part of its
//! word here, and then on its own.

mod ours;
mod theirs;

use super::CommandRefusal;
use super::syntax;
use super::tree::Script;

/// Fails unless both read the script alike, and everything nested in it.
pub(super) fn check(script: &Script) -> Result<(), CommandRefusal> {
    let theirs = theirs::written(&syntax::parse_closed(&script.source)?);
    let mut ours = ours::Ours::default();
    ours.script(script);
    if ours.form.0 != theirs {
        return Err(CommandRefusal::of(
            "shell.ambiguous",
            &script.source,
            "it can be read in more than one way; write it more plainly",
        ));
    }
    ours.substitutions.into_iter().try_for_each(check)
}

/// One reading, written down.
#[derive(Debug, Default)]
struct Form(String);

impl Form {
    /// A construct, or a mark between its parts. No command holds the control
    /// characters that set these apart from words.
    fn mark(&mut self, name: &str) {
        self.0.push('\u{1}');
        self.0.push_str(name);
    }

    /// A word as it stands in the line.
    fn word(&mut self, raw: &str) {
        self.0.push('\u{2}');
        // Continued lines are taken out by one reader and kept by the other.
        for part in raw.split("\\\n") {
            self.0.push_str(part);
        }
    }

    /// An arithmetic expression, whose blanks mean nothing.
    fn arithmetic(&mut self, raw: &str) {
        self.0.push('\u{3}');
        self.0
            .extend(raw.chars().filter(|next| !next.is_whitespace()));
    }
}
