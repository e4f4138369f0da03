//! Quotes and escapes.

use super::super::CommandRefusal;
use super::super::tree::Piece;
use super::Reader;

/// Where an expansion stands, which decides what quotes mean inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    /// Outside quotes: the result is split into words.
    Plain,
    /// In double quotes.
    Quotes,
    /// In the body of a here-document.
    Document,
    /// In an arithmetic expression.
    Arithmetic,
}

impl Reader<'_> {
    /// Refuses a newline inside a word while a here-document waits for the end
    /// of the line: shells differ about which end that is.
    fn check_newline(&self, next: char) -> Result<(), CommandRefusal> {
        if next == '\n' && self.after_here.is_some() {
            return Err(self.refuse("the line of a here-document ends inside a word"));
        }
        Ok(())
    }

    pub(super) fn single_quoted(&mut self) -> Result<Piece, CommandRefusal> {
        let start = self.at;
        self.next();
        let mut text = String::new();
        while let Some(next) = self.next() {
            if next == '\'' {
                return Ok(Piece::Quoted(text));
            }
            self.check_newline(next)?;
            text.push(next);
        }
        Err(self.refuse_at(start, "the quote is not closed"))
    }

    pub(super) fn double_quoted(&mut self, pieces: &mut Vec<Piece>) -> Result<(), CommandRefusal> {
        let start = self.at;
        self.next();
        let mut text = String::new();
        while let Some(next) = self.peek() {
            self.check_newline(next)?;
            match next {
                '"' => {
                    self.next();
                    pieces.push(Piece::Quoted(text));
                    return Ok(());
                }
                '\\' => {
                    self.next();
                    match self.next() {
                        Some('\n') => {
                            self.check_newline('\n')?;
                            let last = [Piece::Text(text.clone())];
                            let read = if text.is_empty() {
                                pieces.as_slice()
                            } else {
                                last.as_slice()
                            };
                            self.check_continued_word(read)?;
                        }
                        Some(escaped @ ('$' | '`' | '"' | '\\')) => text.push(escaped),
                        Some(other) => text.extend(['\\', other]),
                        None => break,
                    }
                }
                '$' | '`' => match self.expansion(Context::Quotes)? {
                    Some(piece) => {
                        pieces.push(Piece::Quoted(std::mem::take(&mut text)));
                        pieces.push(piece);
                    }
                    None => text.extend(self.next()),
                },
                _ => text.extend(self.next()),
            }
        }
        Err(self.refuse_at(start, "the quote is not closed"))
    }

    /// `$'…'`, whose escapes are resolved here.
    pub(super) fn ansi_quoted(&mut self) -> Result<Piece, CommandRefusal> {
        let start = self.at;
        self.at += 2;
        let mut text = String::new();
        while let Some(next) = self.next() {
            self.check_newline(next)?;
            match next {
                '\'' => return Ok(Piece::Quoted(text)),
                '\\' => text.push(self.ansi_escape(start)?),
                other => text.push(other),
            }
        }
        Err(self.refuse_at(start, "the quote is not closed"))
    }

    fn ansi_escape(&mut self, start: usize) -> Result<char, CommandRefusal> {
        let unclear = "this escape is not accepted; write the character itself";
        let Some(letter) = self.next() else {
            return Err(self.refuse_at(start, "the quote is not closed"));
        };
        let code = match letter {
            'n' => return Ok('\n'),
            't' => return Ok('\t'),
            'r' => return Ok('\r'),
            'e' | 'E' => return Ok('\u{1b}'),
            'a' => return Ok('\u{7}'),
            'b' => return Ok('\u{8}'),
            'f' => return Ok('\u{c}'),
            'v' => return Ok('\u{b}'),
            '\\' | '\'' | '"' | '?' => return Ok(letter),
            'x' => self.digits(16, 2),
            'u' => self.digits(16, 4),
            'U' => self.digits(16, 8),
            '0'..='7' => {
                self.at -= 1;
                self.digits(8, 3)
            }
            _ => None,
        };
        // Bytes above ASCII may be half a character, and NUL ends the word.
        let wide = matches!(letter, 'u' | 'U');
        code.filter(|code| *code != 0 && (wide || *code < 0x80))
            .and_then(char::from_u32)
            .ok_or_else(|| self.refuse_at(start, unclear))
    }

    fn digits(&mut self, radix: u32, most: usize) -> Option<u32> {
        let mut value = None;
        for _ in 0..most {
            let Some(digit) = self.peek().and_then(|next| next.to_digit(radix)) else {
                break;
            };
            self.next();
            value = Some(value.unwrap_or(0) * radix + digit);
        }
        value
    }
}
