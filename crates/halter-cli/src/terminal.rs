//! What is at the other end of our streams, and making text safe for it.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR or TERM=dumb say otherwise.
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// Whether each standard stream is a terminal, and what it can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// Somebody can type.
    pub stdin: bool,
    /// Somebody reads the data as it comes.
    pub stdout: bool,
    /// Somebody reads what we say.
    pub stderr: bool,
    /// The terminal can move its cursor.
    pub capable: bool,
    /// What we say is coloured.
    pub color: bool,
}

impl Terminal {
    /// Looks at the streams of this process.
    pub fn detect(choice: ColorChoice, variable: impl Fn(&str) -> Option<String>) -> Self {
        let stderr = std::io::stderr().is_terminal();
        let capable = variable("TERM").is_none_or(|term| term != "dumb");
        Self {
            stdin: std::io::stdin().is_terminal(),
            stdout: std::io::stdout().is_terminal(),
            stderr,
            capable,
            color: wants_color(choice, stderr && capable, variable),
        }
    }
}

fn wants_color(
    choice: ColorChoice,
    capable_terminal: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> bool {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if set("NO_COLOR").is_some() => false,
        ColorChoice::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
        ColorChoice::Auto => capable_terminal && set("CLICOLOR").is_none_or(|value| value != "0"),
    }
}

/// How wide the terminal of standard error is, in columns.
pub fn columns() -> usize {
    crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns.max(20)))
}

/// Waits until the terminal of standard input is closed; for ever where that
/// cannot be told.
pub async fn closed() {
    let (tell, told) = tokio::sync::oneshot::channel();
    // A thread of its own, which may outlive the wait: the threads of the
    // runtime are waited for when the program ends.
    std::thread::spawn(move || {
        let stdin = io::stdin();
        // A poll for no event still reports a hangup.
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        loop {
            match poll(&mut watched, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
                Ok(_) => break,
            }
        }
        // Nobody waits for it once the chat has ended.
        let _ = tell.send(());
    });
    if told.await.is_err() {
        std::future::pending().await
    }
}

/// How the terminal's keys were before [`read_without_echo`].
static KEYS_BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Hands keys over one by one and shows none of them, until [`restore`].
pub fn read_without_echo() -> io::Result<()> {
    let before = tcgetattr(io::stdin())?;
    let mut silent = before.clone();
    silent
        .local_modes
        .remove(LocalModes::ICANON | LocalModes::ECHO);
    silent.special_codes[SpecialCodeIndex::VMIN] = 1;
    silent.special_codes[SpecialCodeIndex::VTIME] = 0;
    // First: whatever happens next, there is a way back.
    let mut kept = KEYS_BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    kept.get_or_insert(before);
    tcsetattr(io::stdin(), OptionalActions::Now, &silent)?;
    Ok(())
}

/// Puts the terminal back into the mode programs expect.
pub fn restore() {
    let mut kept = KEYS_BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(before) = kept.take() {
        // Nobody is left to tell.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
    let raw = crossterm::terminal::is_raw_mode_enabled().unwrap_or(false);
    if raw {
        // Nobody is left to tell.
        let _ = crossterm::terminal::disable_raw_mode();
    }
}

/// Text that comes from a model, a tool or a file, made safe for a terminal:
/// what would move the cursor, change modes or reorder text becomes visible.
/// Newlines and tabs stay.
pub fn safe(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            // A carriage return before a newline changes nothing.
            '\r' if characters.peek() == Some(&'\n') => {}
            '\0'..='\x1f' if is_unsafe(character) => {
                let picture = u32::from(character) + 0x2400;
                shown.push(char::from_u32(picture).unwrap_or('\u{fffd}'));
            }
            '\x7f' => shown.push('\u{2421}'),
            _ if is_unsafe(character) => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// The same on one line.
pub fn safe_line(text: &str) -> String {
    let one_line: String = text
        .chars()
        .map(|character| match character {
            '\n' | '\t' | '\r' => ' ',
            other => other,
        })
        .collect();
    safe(&one_line).into_owned()
}

fn is_unsafe(character: char) -> bool {
    let control = character.is_control() && character != '\n' && character != '\t';
    let reorders = matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    control || reorders
}

/// The start of a text that fits into some columns, with an ellipsis where it
/// was cut.
pub fn fitted(text: &str, columns: usize) -> Cow<'_, str> {
    use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let mut shown = String::new();
    for character in text.chars() {
        let width = character.width().unwrap_or(0);
        if used + width + 1 > columns {
            break;
        }
        used += width;
        shown.push(character);
    }
    if columns > 0 {
        shown.push('…');
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(safe("plain\n\ttext"), "plain\n\ttext");
        assert_eq!(safe("a\x1b[31mred\x07"), "a\u{241b}[31mred\u{2407}");
        assert_eq!(safe("line\r\nback\rover"), "line\nback\u{240d}over");
        assert_eq!(safe("\u{9b}31m\u{7f}"), "\\u{9b}31m\u{2421}");
        assert_eq!(safe("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(safe_line("two\nlines\x1b"), "two lines\u{241b}");
    }

    #[test]
    fn texts_are_cut_by_columns() {
        assert_eq!(fitted("abc", 3), "abc");
        assert_eq!(fitted("abcd", 3), "ab…");
        assert_eq!(fitted("漢字漢字", 5), "漢字…");
        assert_eq!(fitted("abc", 0), "");
    }

    #[test]
    fn colour_follows_the_usual_variables() {
        let wants = |choice, terminal, variables: &[(&str, &str)]| {
            wants_color(choice, terminal, |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(wants(ColorChoice::Auto, true, &[]));
        assert!(!wants(ColorChoice::Auto, false, &[]));
        assert!(!wants(ColorChoice::Auto, true, &[("NO_COLOR", "1")]));
        assert!(wants(ColorChoice::Auto, true, &[("NO_COLOR", "")]));
        assert!(wants(ColorChoice::Auto, false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!wants(ColorChoice::Auto, false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!wants(ColorChoice::Auto, true, &[("CLICOLOR", "0")]));
        assert!(wants(ColorChoice::Always, false, &[("NO_COLOR", "1")]));
        assert!(!wants(ColorChoice::Never, true, &[("CLICOLOR_FORCE", "1")]));
    }
}
