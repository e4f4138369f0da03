//! Words: text, quotes, patterns, braces.

use super::super::CommandRefusal;
use super::super::tree::{Piece, Word};
use super::quotes::Context;
use super::{Reader, ends_word};

/// What ends the pieces being read, besides the end of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Word,
    /// An alternative in braces: `,` and `}` end it.
    Braces,
}

impl Reader<'_> {
    /// A word, from its first character on.
    pub(super) fn word(&mut self) -> Result<Word, CommandRefusal> {
        self.word_with(Tildes::AtStart)
    }

    /// What stands right of `=`, where `~` counts after colons too and nothing
    /// need be there.
    pub(super) fn assigned_word(&mut self) -> Result<Word, CommandRefusal> {
        self.word_with(Tildes::AfterColons)
    }

    fn word_with(&mut self, tildes: Tildes) -> Result<Word, CommandRefusal> {
        self.count()?;
        let start = self.at;
        let mut pieces = Vec::new();
        if matches!(self.peek(), Some('<' | '>')) && self.peek_second() == Some('(') {
            let output = self.next() == Some('>');
            self.next();
            let script = self.substituted_script()?;
            pieces.push(Piece::Process { output, script });
        } else {
            self.tilde(&mut pieces);
            self.pieces(Within::Word, &mut pieces)?;
        }
        if self.peek() == Some('(') {
            let reason = "patterns such as `@(…)` and a parenthesis inside a word are not \
                          accepted; quote it";
            return Err(self.refuse_at(start, reason));
        }
        let process = matches!(pieces.last(), Some(Piece::Process { .. }));
        let next_is_process =
            matches!(self.peek(), Some('<' | '>')) && self.peek_second() == Some('(');
        if next_is_process || (process && self.peek().is_some_and(|next| !ends_word(next))) {
            let reason = "bash joins a process substitution with the text beside it; put a \
                          blank between them";
            return Err(self.refuse_at(start, reason));
        }
        if tildes == Tildes::AfterColons && has_inner_tilde(&pieces) {
            return Err(self.refuse_at(start, "write the home directory out"));
        }
        let raw = self.since(start).to_owned();
        Ok(Word { raw, pieces })
    }

    fn tilde(&mut self, pieces: &mut Vec<Piece>) {
        if self.peek() != Some('~') {
            return;
        }
        let rest = self.rest();
        let end = rest
            .find(|next: char| next == '/' || next == ':' || ends_word(next))
            .unwrap_or(rest.len());
        let (prefix, _) = rest.split_at(end);
        let plain = |next: char| next.is_ascii_alphanumeric() || "~_-+.".contains(next);
        if prefix.chars().all(plain) {
            self.at += end;
            pieces.push(Piece::Tilde(prefix.to_owned()));
        }
    }

    /// Pieces up to the end of the word, or of an alternative in braces.
    fn pieces(&mut self, within: Within, pieces: &mut Vec<Piece>) -> Result<(), CommandRefusal> {
        while let Some(next) = self.peek() {
            match next {
                '\\' if self.peek_second() == Some('\n') => {
                    self.check_continued_word(pieces)?;
                    self.continuation()?;
                }
                '\\' => {
                    self.next();
                    match self.next() {
                        Some(escaped) => pieces.push(Piece::Quoted(escaped.to_string())),
                        None => return Err(self.refuse("nothing follows the backslash")),
                    }
                }
                '\'' => pieces.push(self.single_quoted()?),
                '"' => self.double_quoted(pieces)?,
                '$' if self.peek_second() == Some('\'') => pieces.push(self.ansi_quoted()?),
                '$' if self.peek_second() == Some('"') => {
                    return Err(self.refuse("`$\"…\"` quotes are not accepted; use plain quotes"));
                }
                '$' | '`' => match self.expansion(Context::Plain)? {
                    Some(piece) => pieces.push(piece),
                    None => self.text(pieces),
                },
                ',' | '}' if within == Within::Braces => return Ok(()),
                '{' => self.braces(within, pieces)?,
                // The program `[`, and the brackets of its end.
                '[' if pieces.is_empty() && self.peek_second().is_none_or(ends_word) => {
                    self.text(pieces);
                }
                '*' | '?' | '[' => {
                    self.next();
                    pieces.push(Piece::Glob(next));
                }
                next if ends_word(next) => return Ok(()),
                _ => self.text(pieces),
            }
        }
        Ok(())
    }

    /// Bash takes a continued line out before it looks for what a `$` starts,
    /// so the next line could make another expansion of it.
    pub(super) fn check_continued_word(&self, pieces: &[Piece]) -> Result<(), CommandRefusal> {
        let open = match pieces.last() {
            Some(Piece::Parameter { .. }) => true,
            Some(Piece::Text(text)) => text.ends_with('$'),
            _ => false,
        };
        if open {
            return Err(self.refuse("a line cannot be continued behind a `$`"));
        }
        Ok(())
    }

    /// One character that stands for itself.
    fn text(&mut self, pieces: &mut Vec<Piece>) {
        let Some(next) = self.next() else { return };
        match pieces.last_mut() {
            Some(Piece::Text(text)) => text.push(next),
            _ => pieces.push(Piece::Text(next.to_string())),
        }
    }

    /// `{a,b}`, `{1..3}`, or a brace that stands for itself.
    fn braces(&mut self, within: Within, pieces: &mut Vec<Piece>) -> Result<(), CommandRefusal> {
        let start = self.at;
        let alternatives = self.nested(|reader| {
            reader.next();
            let mut alternatives = Vec::new();
            loop {
                let mut alternative = Vec::new();
                reader.pieces(Within::Braces, &mut alternative)?;
                alternatives.push(alternative);
                match reader.peek() {
                    Some(',') => {
                        reader.next();
                    }
                    Some('}') => {
                        reader.next();
                        return Ok(Some(alternatives));
                    }
                    _ => return Ok(None),
                }
            }
        })?;
        match alternatives {
            Some(alternatives) if alternatives.len() > 1 => {
                pieces.push(Piece::Braces(alternatives));
                Ok(())
            }
            Some(_) if self.since(start).contains("..") => {
                pieces.push(Piece::Range(self.since(start).to_owned()));
                Ok(())
            }
            Some(_) | None => {
                // No list: the brace is text, and what follows is read again.
                self.at = start;
                self.text(pieces);
                let plain = self.rest().find(['{', '}', '\'', '"', '\\', '$', '`']);
                if within == Within::Braces || (alternatives.is_none() && plain.is_some()) {
                    return Err(self.refuse_at(start, "quote braces that are no list"));
                }
                Ok(())
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tildes {
    AtStart,
    AfterColons,
}

/// Whether a `~` stands behind a colon, where assignments expand it.
fn has_inner_tilde(pieces: &[Piece]) -> bool {
    pieces
        .iter()
        .any(|piece| matches!(piece, Piece::Text(text) if text.contains(":~")))
}
