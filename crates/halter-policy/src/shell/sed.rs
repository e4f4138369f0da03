//! `sed`, whose scripts can run programs (`e`) and write files (`w`): only
//! scripts made of addresses, `p`, `d`, `q`, `=` and plain `s` are accepted.

use std::iter::Peekable;
use std::str::Chars;

use super::CommandRefusal;
use super::programs::Programs;
use super::reader::Word;

pub(super) fn check(_: Programs<'_>, words: &[Word]) -> Result<(), CommandRefusal> {
    const FLAGS: [&str; 9] = ["-n", "-E", "-r", "-s", "-u", "-z", "-nE", "-nr", "--posix"];
    let mut rest = words.iter();
    let mut has_script = false;
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        if FLAGS.contains(&text) || (has_script && !text.starts_with('-')) {
            continue;
        }
        if text == "-e" || text == "-ne" {
            let script = rest.next().map_or("", |script| script.text.as_str());
            check_script(script)?;
        } else if text.starts_with('-') {
            return Err(CommandRefusal::new(
                text,
                "this option of sed is not accepted; use the edit tool to change files",
            ));
        } else {
            check_script(text)?;
        }
        has_script = true;
    }
    Ok(())
}

fn check_script(text: &str) -> Result<(), CommandRefusal> {
    let mut script = SedScript {
        rest: text.chars().peekable(),
    };
    if script.is_plain().is_some() {
        Ok(())
    } else {
        Err(CommandRefusal::new(
            text,
            "only sed scripts of addresses with p, d, q, = and s///[gpiIm] are accepted: \
             others can run programs or write files",
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
            self.skip(|next| next == ';' || next == '\n' || next == ' ');
            if self.rest.peek().is_none() {
                return Some(());
            }
            self.addresses()?;
            self.command()?;
            self.skip(|next| next == ' ');
            match self.rest.next() {
                None => return Some(()),
                Some(';' | '\n') => {}
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
            'p' | 'd' | 'q' | '=' => Some(()),
            's' => self.substitution(),
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
        self.skip(|flag| flag.is_ascii_digit() || "gpiIm".contains(flag));
        Some(())
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
