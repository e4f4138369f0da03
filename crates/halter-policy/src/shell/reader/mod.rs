//! Our own reader of the shell language: the part of it that the judge
//! accepts, by recursive descent as bash reads it. What it does not know it
//! refuses by name. It is written without regard to the other parser on
//! purpose; `agreement` compares the two.

mod commands;
mod compound;
mod expansions;
mod here;
mod quotes;
mod words;

use super::CommandRefusal;
use super::tree::{Arithmetic, Script};
use crate::limits::{MAX_COMMAND_NESTING, MAX_COMMAND_WORDS};

/// Reads a whole command line.
pub(super) fn read(source: &str) -> Result<Script, CommandRefusal> {
    read_nested(source, 0)
}

/// The text of a word as a parser has cut it out, if it stands for itself.
pub(super) fn read_program(raw: &str) -> Option<String> {
    let mut reader = Reader::new(raw, 0);
    let word = reader.word().ok()?;
    match reader.peek() {
        None => word.literal(),
        Some(_) => None,
    }
}

/// Reads an arithmetic expression.
pub(super) fn read_arithmetic(source: &str) -> Result<Arithmetic, CommandRefusal> {
    let mut reader = Reader::new(source, 0);
    let expression = reader.arithmetic_until("")?;
    match reader.peek() {
        None => Ok(expression),
        Some(_) => Err(reader.refuse("this is no arithmetic expression")),
    }
}

/// Reads the text between backquotes, which is a command line of its own.
fn read_nested(source: &str, depth: usize) -> Result<Script, CommandRefusal> {
    let mut reader = Reader::new(source, depth);
    let script = reader.script(&[])?;
    match reader.peek() {
        None if reader.after_here.is_none() => Ok(script),
        None => Err(reader.refuse("the here-document has no end")),
        Some(_) => Err(reader.refuse("it is not valid shell here")),
    }
}

struct Reader<'a> {
    source: &'a str,
    /// The next byte to read.
    at: usize,
    /// Constructs around the one being read.
    depth: usize,
    /// Words read so far.
    words: usize,
    /// Where the next line starts, if here-documents stand in between, and how
    /// deep the command is that they belong to.
    after_here: Option<(usize, usize)>,
}

impl<'a> Reader<'a> {
    fn new(source: &'a str, depth: usize) -> Self {
        Self {
            source,
            at: 0,
            depth,
            words: 0,
            after_here: None,
        }
    }

    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn peek_second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn looking_at(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    /// Consumes the text if it is next.
    fn eat(&mut self, text: &str) -> bool {
        let found = self.looking_at(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn since(&self, start: usize) -> &'a str {
        self.source.get(start..self.at).unwrap_or_default()
    }

    fn refuse(&self, reason: impl Into<String>) -> CommandRefusal {
        self.refuse_at(self.at, reason)
    }

    fn refuse_at(&self, at: usize, reason: impl Into<String>) -> CommandRefusal {
        let rest = self.source.get(at..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        let shown = if line.is_empty() {
            self.source.trim_end()
        } else {
            line
        };
        CommandRefusal::of("shell.syntax", shown, reason)
    }

    /// Counts a word or a command.
    fn count(&mut self) -> Result<(), CommandRefusal> {
        self.words += 1;
        if self.words > MAX_COMMAND_WORDS {
            return Err(CommandRefusal::of(
                "shell.too_long",
                self.source,
                format!("it holds more than {MAX_COMMAND_WORDS} words; write a script file"),
            ));
        }
        Ok(())
    }

    /// Goes one construct deeper.
    fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CommandRefusal>,
    ) -> Result<T, CommandRefusal> {
        if self.depth >= MAX_COMMAND_NESTING {
            return Err(CommandRefusal::of(
                "shell.too_deep",
                self.source,
                format!(
                    "more than {MAX_COMMAND_NESTING} constructs are nested; write a script file"
                ),
            ));
        }
        self.depth += 1;
        let outcome = read(self);
        self.depth -= 1;
        outcome
    }

    /// Skips blanks and continued lines.
    fn blanks(&mut self) -> Result<(), CommandRefusal> {
        loop {
            match self.peek() {
                Some(' ' | '\t') => {
                    self.next();
                }
                Some('\\') if self.peek_second() == Some('\n') => self.continuation()?,
                _ => return Ok(()),
            }
        }
    }

    /// A backslash and the newline after it.
    fn continuation(&mut self) -> Result<(), CommandRefusal> {
        if self.after_here.is_some() {
            return Err(self.refuse("a line with a here-document cannot be continued"));
        }
        self.at += 2;
        Ok(())
    }

    /// Blanks, comments and newlines.
    fn lines(&mut self) -> Result<(), CommandRefusal> {
        loop {
            self.blanks()?;
            match self.peek() {
                Some('#') => self.comment(),
                Some('\n') => self.newline()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|next| next != '\n') {
            self.next();
        }
    }

    /// A newline between commands; the bodies of here-documents follow it.
    fn newline(&mut self) -> Result<(), CommandRefusal> {
        match self.after_here.take() {
            None => {
                self.next();
                Ok(())
            }
            Some((at, depth)) if depth == self.depth => {
                self.at = at;
                Ok(())
            }
            Some(_) => Err(self.refuse("the line of a here-document ends inside a construct")),
        }
    }
}

/// Characters that end a word where they are not quoted.
fn ends_word(character: char) -> bool {
    matches!(
        character,
        ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')'
    )
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text
            .chars()
            .all(|next| next.is_ascii_alphanumeric() || next == '_')
}
