//! `sed`, whose scripts can run programs (`e`) and write files (`w`): only
//! scripts whose every command is known to do neither are accepted.

use std::iter::Peekable;
use std::str::Chars;

use super::CommandRefusal;
use super::argument::Argument;
use super::programs::Programs;

pub(super) fn check(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    let mut rest = words.iter();
    let mut has_script = false;
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        if has_script && !text.starts_with('-') {
            continue;
        }
        if let Some(attached) = text.strip_prefix("--expression=") {
            check_script(word, attached)?;
            has_script = true;
        } else if is_flag(text) || text == "--" {
            // `-i` may carry the suffix of a backup, which is a file name.
            continue;
        } else if takes_script(text) {
            if let Some(script) = rest.next() {
                check_script(script, &script.text)?;
            }
            has_script = true;
        } else if text.starts_with('-') {
            return Err(CommandRefusal::new(
                text,
                "this option of sed is not accepted; give the script as an argument",
            ));
        } else {
            check_script(word, text)?;
            has_script = true;
        }
    }
    Ok(())
}

/// Whether files are written back.
pub(super) fn writes(words: &[Argument]) -> bool {
    words.iter().any(|word| {
        let text = word.text.as_str();
        let short = text.starts_with('-') && !text.starts_with("--") && text.contains('i');
        short || text.starts_with("--in-place")
    })
}

/// Options that change how files are read, and `-i`, which writes them back.
fn is_flag(text: &str) -> bool {
    let letters = text.strip_prefix('-').unwrap_or_default();
    let long = [
        "--posix",
        "--quiet",
        "--silent",
        "--in-place",
        "--regexp-extended",
    ];
    let in_place = text.strip_prefix("-i").or(text.strip_prefix("--in-place="));
    long.contains(&text)
        || (!letters.is_empty() && letters.chars().all(|letter| "nErsuzi".contains(letter)))
        || in_place.is_some_and(|suffix| suffix.starts_with('.') && !suffix.contains('/'))
}

/// `-e`, `-ne` and the like.
fn takes_script(text: &str) -> bool {
    let letters = text.strip_prefix('-').and_then(|it| it.strip_suffix('e'));
    text == "--expression"
        || letters.is_some_and(|letters| letters.chars().all(|letter| "nErsuz".contains(letter)))
}

fn check_script(word: &Argument, text: &str) -> Result<(), CommandRefusal> {
    // A value in the replacement could end it and add a command.
    if !word.is_literal() {
        return Err(CommandRefusal::new(
            &word.raw,
            "a sed script must be literal: others can run programs or write files",
        ));
    }
    let mut script = SedScript {
        rest: text.chars().peekable(),
    };
    if script.is_plain().is_some() {
        Ok(())
    } else {
        Err(CommandRefusal::new(
            text,
            "only sed scripts without e, w and r, and with s///[gpiIm], are accepted: others can \
             run programs or reach files",
        ))
    }
}

struct SedScript<'a> {
    rest: Peekable<Chars<'a>>,
}

impl SedScript<'_> {
    /// `Some` if the whole script is understood and harmless.
    fn is_plain(&mut self) -> Option<()> {
        loop {
            self.skip(|next| ";\n }".contains(next));
            if self.rest.peek().is_none() {
                return Some(());
            }
            self.addresses()?;
            if self.rest.next_if(|next| *next == '{').is_some() {
                continue;
            }
            self.command()?;
            self.skip(|next| next == ' ');
            match self.rest.peek() {
                None => return Some(()),
                Some(';' | '\n' | '}') => {}
                Some(_) => return None,
            }
        }
    }

    fn skip(&mut self, skipped: impl Fn(char) -> bool) {
        while self.rest.next_if(|next| skipped(*next)).is_some() {}
    }

    fn addresses(&mut self) -> Option<()> {
        self.address()?;
        if self.rest.next_if_eq(&',').is_some() {
            self.rest.next_if_eq(&'+');
            self.address()?;
        }
        self.skip(|next| next == ' ' || next == '!');
        Some(())
    }

    fn address(&mut self) -> Option<()> {
        match self.rest.peek() {
            Some('/') => {
                self.rest.next();
                self.delimited('/')?;
                self.rest.next_if_eq(&'I');
            }
            Some('$') => {
                self.rest.next();
            }
            Some(_) | None => self.skip(|next| next.is_ascii_digit() || next == '~'),
        }
        Some(())
    }

    fn command(&mut self) -> Option<()> {
        match self.rest.next()? {
            'p' | 'd' | '=' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | 'D' | 'P' | 'l' | 'z' => {
                Some(())
            }
            'q' | 'Q' => {
                self.skip(|next| next.is_ascii_digit() || next == ' ');
                Some(())
            }
            // A label, or nothing. A space ends it, and a command may follow.
            'b' | 't' | 'T' | ':' => {
                self.skip(|next| next == ' ');
                self.skip(|next| next.is_ascii_alphanumeric() || next == '_');
                Some(())
            }
            // Text up to the end of the script; a further line of it would be
            // a command.
            'a' | 'i' | 'c' => {
                self.skip(|next| next != '\n');
                self.rest.peek().is_none().then_some(())
            }
            's' => self.substitution(),
            'y' => self.transliteration(),
            _ => None,
        }
    }

    fn substitution(&mut self) -> Option<()> {
        let delimiter = self.rest.next()?;
        if delimiter.is_alphanumeric() || "\\\n ;".contains(delimiter) {
            return None;
        }
        self.delimited(delimiter)?;
        self.delimited(delimiter)?;
        self.skip(|flag| flag.is_ascii_digit() || "gpiImM".contains(flag));
        Some(())
    }

    fn transliteration(&mut self) -> Option<()> {
        let delimiter = self.rest.next().filter(|it| "/|,#".contains(*it))?;
        self.delimited(delimiter)?;
        self.delimited(delimiter)
    }

    /// Skips to the delimiter. Brackets are not special to sed's own search
    /// for it in all versions, so a delimiter inside one is refused.
    fn delimited(&mut self, delimiter: char) -> Option<()> {
        let mut in_brackets = false;
        loop {
            match self.rest.next()? {
                '\n' => return None,
                '\\' => {
                    self.rest.next()?;
                }
                next if next == delimiter && in_brackets => return None,
                next if next == delimiter => return Some(()),
                '[' => in_brackets = true,
                ']' => in_brackets = false,
                _ => {}
            }
        }
    }
}
