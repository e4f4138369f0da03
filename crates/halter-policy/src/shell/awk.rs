//! `awk`, which can run programs and write files from its own text: only text
//! that plainly does neither is accepted.

use std::str::Chars;

use super::CommandRefusal;
use super::argument::Argument;
use super::arguments::runs_another;
use super::programs::Programs;

pub(super) fn check(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        if text == "-F" || text == "-v" {
            rest.next();
            continue;
        }
        let attached = text.starts_with("-F") || text.starts_with("-v");
        if !attached && text.starts_with('-') {
            return Err(runs_another(text));
        }
        if !attached {
            if !word.is_literal() {
                return Err(CommandRefusal::new(
                    &word.raw,
                    "an awk program must be literal; pass values with `-v name=value`",
                ));
            }
            return check_text(text);
        }
    }
    Ok(())
}

fn check_text(text: &str) -> Result<(), CommandRefusal> {
    let refused = |part: &str| {
        CommandRefusal::new(
            part,
            "in an awk program this could run another program or write a file; \
             compare outside of `print`, and keep strings and patterns simple",
        )
    };
    for part in ["system", "getline", "@"] {
        if text.contains(part) {
            return Err(refused(part));
        }
    }
    let readings = readings(text).filter(|readings| !readings.is_empty());
    let readings = readings.ok_or_else(|| refused(text))?;
    for code in &readings {
        if code.replace("||", "").contains('|') {
            return Err(refused("|"));
        }
        let mut statements = code.split([';', '{', '}', '\n']);
        if let Some(statement) = statements.find(|it| writes(it)) {
            return Err(refused(statement.trim()));
        }
    }
    Ok(())
}

/// `>` compares, but behind `print` it writes.
fn writes(statement: &str) -> bool {
    let printed = statement.split_once("print").map(|(_, printed)| printed);
    printed.is_some_and(|printed| printed.replace(">=", "").contains('>'))
}

/// What a slash can be, by what stands before it.
enum Slash {
    Divides,
    Pattern,
    /// That depends on the version of awk, or on more than is read here.
    Either,
}

/// A program being read, with its strings, patterns and comments taken out.
#[derive(Clone)]
struct Reading<'t> {
    rest: Chars<'t>,
    code: String,
}

/// How a string or a pattern ends.
enum Literal {
    Closed,
    /// Not at all, so that awk would not start.
    Open,
    /// Here or further on, depending on the version of awk.
    Unclear,
}

/// More readings than any program has that people write.
const MAX_READINGS: usize = 16;

/// The ways in which awk may read the program; `None` if they cannot be told.
fn readings(text: &str) -> Option<Vec<String>> {
    let mut open = vec![Reading {
        rest: text.chars(),
        code: String::new(),
    }];
    let mut finished = Vec::new();
    while let Some(mut reading) = open.pop() {
        let ends = loop {
            let Some(next) = reading.rest.next() else {
                break true;
            };
            let literal = match next {
                '"' => reading.skip_literal('"'),
                '/' => match reading.slash() {
                    Slash::Divides => {
                        reading.code.push('/');
                        continue;
                    }
                    Slash::Pattern => reading.skip_literal('/'),
                    Slash::Either => {
                        let mut divides = reading.clone();
                        divides.code.push('/');
                        open.push(divides);
                        reading.skip_literal('/')
                    }
                },
                '\\' | '`' => return None,
                '#' => {
                    reading.skip_comment();
                    continue;
                }
                next => {
                    reading.push(next);
                    continue;
                }
            };
            match literal {
                Literal::Closed => reading.code.push('"'),
                Literal::Open => break false,
                Literal::Unclear => return None,
            }
        };
        if ends {
            finished.push(reading.code);
        }
        if open.len() + finished.len() > MAX_READINGS {
            return None;
        }
    }
    Some(finished)
}

impl Reading<'_> {
    fn push(&mut self, next: char) {
        // A statement goes on behind these, on the next line too.
        let goes_on = next == '\n' && self.before().ends_with([',', '&', '|', '?', ':']);
        self.code.push(if goes_on { ' ' } else { next });
    }

    fn before(&self) -> &str {
        self.code.trim_end_matches([' ', '\t'])
    }

    fn slash(&self) -> Slash {
        /// Words that are no values, or may be followed by one.
        const WORDS: [&str; 15] = [
            "print", "printf", "return", "exit", "in", "else", "do", "length", "case", "delete",
            "next", "BEGIN", "END", "func", "function",
        ];
        let before = self.before();
        let in_word = |next: char| next.is_alphanumeric() || next == '_';
        match before.chars().next_back() {
            Some(last) if in_word(last) => {
                let start = before.trim_end_matches(in_word).len();
                let word = before.get(start..).unwrap_or_default();
                match WORDS.contains(&word) {
                    true => Slash::Either,
                    false => Slash::Divides,
                }
            }
            Some(']') => Slash::Divides,
            Some(')' | '"' | '$') => Slash::Either,
            _ if before.ends_with("++") || before.ends_with("--") => Slash::Either,
            _ => Slash::Pattern,
        }
    }

    fn skip_comment(&mut self) {
        let rest = self.rest.as_str();
        let end = rest.find('\n').unwrap_or(rest.len());
        self.rest = rest.get(end..).unwrap_or_default().chars();
    }

    fn skip_literal(&mut self, end: char) -> Literal {
        while let Some(next) = self.rest.next() {
            match next {
                '\\' => {
                    self.rest.next();
                }
                '\n' => return Literal::Open,
                '[' if end == '/' => match self.skip_brackets() {
                    Literal::Closed => {}
                    other => return other,
                },
                next if next == end => return Literal::Closed,
                _ => {}
            }
        }
        Literal::Open
    }

    /// The rest of a set such as `[^a-z]` or `[[:space:]]`. A slash in it ends
    /// the pattern in some versions, and a first `]` the set.
    fn skip_brackets(&mut self) -> Literal {
        let set = self.rest.as_str();
        if set.strip_prefix('^').unwrap_or(set).starts_with(']') {
            return Literal::Unclear;
        }
        while let Some(next) = self.rest.next() {
            match next {
                ']' => return Literal::Closed,
                '\n' => return Literal::Open,
                '/' | '\\' => return Literal::Unclear,
                '[' if self.rest.as_str().starts_with(':') => {
                    let set = self.rest.as_str();
                    let Some((_, after)) = set.split_once(":]") else {
                        return Literal::Unclear;
                    };
                    let class = set.get(1..set.len() - after.len() - 2).unwrap_or("/");
                    if !class.chars().all(|letter| letter.is_ascii_lowercase()) {
                        return Literal::Unclear;
                    }
                    self.rest = after.chars();
                }
                '[' if self.rest.as_str().starts_with(['.', '=']) => return Literal::Unclear,
                _ => {}
            }
        }
        Literal::Open
    }
}
