//! A lexer for the part of the shell language that the judge accepts from
//! listed programs: words, quotes, pipelines and lists. It refuses the rest by
//! name, and is written without regard to the other parser on purpose.

use std::iter::Peekable;
use std::str::CharIndices;

use super::CommandRefusal;

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The word with its quotes removed.
    pub(super) text: String,
    /// Where in `text` the shell would start to replace file names.
    pub(super) glob: Option<usize>,
    /// The word is written without quotes or escapes.
    pub(super) bare: bool,
}

impl Word {
    fn empty() -> Self {
        Self {
            text: String::new(),
            glob: None,
            bare: true,
        }
    }

    /// The word stands for exactly its text: no file names, no home directory.
    pub(super) fn is_literal(&self) -> bool {
        self.glob.is_none() && !(self.bare && self.text.starts_with('~'))
    }
}

/// The words of each command in the line, in order.
pub(super) fn read(command: &str) -> Result<Vec<Vec<Word>>, CommandRefusal> {
    Reader {
        source: command,
        rest: command.char_indices().peekable(),
        commands: Vec::new(),
        current: Vec::new(),
    }
    .read()
}

/// The texts alone, to compare with another reading.
pub(super) fn texts(commands: &[Vec<Word>]) -> Vec<Vec<String>> {
    let text = |word: &Word| word.text.clone();
    commands
        .iter()
        .map(|words| words.iter().map(text).collect())
        .collect()
}

/// The text of one word as a parser has cut it out.
pub(super) fn read_word(raw: &str) -> Result<String, CommandRefusal> {
    read_program(raw).map(|word| word.text)
}

/// One word as a parser has cut it out.
pub(super) fn read_program(raw: &str) -> Result<Word, CommandRefusal> {
    let mut reader = Reader {
        source: raw,
        rest: raw.char_indices().peekable(),
        commands: Vec::new(),
        current: Vec::new(),
    };
    let word = reader.word()?;
    match reader.rest.peek() {
        None => Ok(word),
        Some(_) => Err(CommandRefusal::new(raw, "it is not a single word")),
    }
}

/// Words that open or continue a compound command where a program may stand.
const KEYWORDS: [&str; 22] = [
    "!", "{", "}", "[[", "]]", "if", "then", "elif", "else", "fi", "for", "while", "until", "do",
    "done", "case", "esac", "in", "select", "function", "time", "coproc",
];

struct Reader<'a> {
    source: &'a str,
    rest: Peekable<CharIndices<'a>>,
    commands: Vec<Vec<Word>>,
    current: Vec<Word>,
}

impl Reader<'_> {
    fn read(mut self) -> Result<Vec<Vec<Word>>, CommandRefusal> {
        while let Some(&(at, character)) = self.rest.peek() {
            match character {
                ' ' | '\t' => self.skip(),
                '\n' => {
                    self.skip();
                    self.end_command();
                }
                '#' => self.comment(),
                ';' | '|' | '&' => self.operator()?,
                '<' | '>' => self.redirection()?,
                '\\' if self.continues_line() => {}
                _ => self.command_word(at)?,
            }
        }
        self.end_command();
        Ok(self.commands)
    }

    fn skip(&mut self) {
        self.rest.next();
    }

    fn end_command(&mut self) {
        if !self.current.is_empty() {
            self.commands.push(std::mem::take(&mut self.current));
        }
    }

    fn next_is(&mut self, wanted: char) -> bool {
        self.rest.next_if(|(_, next)| *next == wanted).is_some()
    }

    fn comment(&mut self) {
        while self.rest.next_if(|(_, next)| *next != '\n').is_some() {}
    }

    /// Consumes a backslash and the newline after it.
    fn continues_line(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        ahead.next();
        // At the very end there is nothing to continue with.
        if ahead.next().is_some_and(|(_, next)| next == '\n') && ahead.next().is_some() {
            self.rest.next();
            self.rest.next();
            true
        } else {
            false
        }
    }

    fn operator(&mut self) -> Result<(), CommandRefusal> {
        let Some((at, first)) = self.rest.next() else {
            return Ok(());
        };
        match first {
            '&' if self.next_is('>') => {
                self.next_is('>');
                return self.target(at);
            }
            '&' if !self.next_is('&') => {
                return Err(self.refusal(at, "commands in the background are not accepted"));
            }
            '|' => {
                self.next_is('|');
                if self.next_is('&') {
                    return Err(self.refusal(at, "write `2>&1 |` instead of `|&`"));
                }
            }
            _ => {
                let doubled = first == ';' && (self.next_is(';') || self.next_is('&'));
                if doubled {
                    return Err(self.refusal(at, "`;;` and `;&` belong to `case`"));
                }
            }
        }
        self.end_command();
        Ok(())
    }

    /// A redirection, from its operator on.
    fn redirection(&mut self) -> Result<(), CommandRefusal> {
        let Some((at, first)) = self.rest.next() else {
            return Ok(());
        };
        if first == '<' {
            if self.next_is('<') {
                return Err(self.refusal(at, "here-documents and here-strings are not accepted"));
            }
            if self.next_is('>') {
                return Err(self.refusal(at, REDIRECTION));
            }
        } else if !self.next_is('>') {
            self.next_is('|');
        }
        if self.next_is('(') {
            return Err(self.refusal(at, "process substitution is not accepted"));
        }
        if self.next_is('&') {
            return self.duplicate(at);
        }
        self.target(at)
    }

    /// `>&1` and the like: only between the three standard streams.
    fn duplicate(&mut self, at: usize) -> Result<(), CommandRefusal> {
        let word = self.operand(at)?;
        let standard = ["0", "1", "2", "-"].contains(&word.text.as_str());
        if word.bare && standard {
            Ok(())
        } else {
            Err(self.refusal(at, REDIRECTION))
        }
    }

    /// The file of a redirection: only the null device.
    fn target(&mut self, at: usize) -> Result<(), CommandRefusal> {
        let word = self.operand(at)?;
        if word.text == "/dev/null" && word.is_literal() {
            Ok(())
        } else {
            Err(self.refusal(at, REDIRECTION))
        }
    }

    fn operand(&mut self, at: usize) -> Result<Word, CommandRefusal> {
        while self
            .rest
            .next_if(|(_, next)| *next == ' ' || *next == '\t')
            .is_some()
        {}
        match self.rest.peek() {
            Some((_, next)) if !ends_word(*next) && *next != '#' => self.word(),
            Some(_) | None => Err(self.refusal(at, "the redirection has no target")),
        }
    }

    /// A word of a command, or the number in front of a redirection.
    fn command_word(&mut self, at: usize) -> Result<(), CommandRefusal> {
        let word = self.word()?;
        if let Some((_, '<' | '>')) = self.rest.peek()
            && word.bare
        {
            if ["0", "1", "2"].contains(&word.text.as_str()) {
                return self.redirection();
            }
            // Another number, or `{name}`, which would set a variable.
            let is_number = word.text.bytes().all(|byte| byte.is_ascii_digit());
            if is_number || word.text.ends_with('}') {
                return Err(self.refusal(at, REDIRECTION));
            }
        }
        if self.current.is_empty() {
            self.check_first(&word, at)?;
        }
        self.current.push(word);
        Ok(())
    }

    /// Where a program may stand, a bare word may also be a keyword or an
    /// assignment.
    fn check_first(&self, word: &Word, at: usize) -> Result<(), CommandRefusal> {
        if word.bare && KEYWORDS.contains(&word.text.as_str()) {
            let reason = "only pipelines and lists of programs are accepted, no compound commands";
            return Err(self.refusal(at, reason));
        }
        let raw = self.source.get(at..).unwrap_or_default();
        if is_assignment(raw) {
            return Err(self.refusal(
                at,
                "assignments are not accepted; pass the value as an argument",
            ));
        }
        Ok(())
    }

    fn word(&mut self) -> Result<Word, CommandRefusal> {
        let mut word = Word::empty();
        while let Some(&(at, character)) = self.rest.peek() {
            if ends_word(character) {
                break;
            }
            match character {
                '\\' if self.continues_line() => {}
                '\\' => self.escaped(&mut word)?,
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '$' => return Err(self.expansion(at)),
                '`' => return Err(self.refusal(at, SUBSTITUTION)),
                '(' | ')' => {
                    let reason = "subshells, functions, arrays and `(…)` patterns are not accepted; \
                                  quote the parenthesis if it belongs to an argument";
                    return Err(self.refusal(at, reason));
                }
                '{' | '}' => self.braces(&mut word, at)?,
                // The program `[`, which no pattern starts with.
                '[' if word.text.is_empty() && self.is_single() => {
                    self.skip();
                    word.text.push('[');
                }
                '*' | '?' | '[' => {
                    self.skip();
                    word.glob.get_or_insert(word.text.len());
                    word.text.push(character);
                }
                _ => {
                    self.skip();
                    word.text.push(character);
                }
            }
        }
        Ok(word)
    }

    /// Whether the next character is a word of its own.
    fn is_single(&self) -> bool {
        let mut ahead = self.rest.clone();
        ahead.next();
        ahead.next().is_none_or(|(_, next)| ends_word(next))
    }

    fn escaped(&mut self, word: &mut Word) -> Result<(), CommandRefusal> {
        let start = self.rest.next();
        word.bare = false;
        match self.rest.next() {
            Some((_, character)) => {
                word.text.push(character);
                Ok(())
            }
            None => {
                let at = start.map_or(0, |(at, _)| at);
                Err(self.refusal(at, "nothing follows the backslash"))
            }
        }
    }

    fn single_quoted(&mut self, word: &mut Word) -> Result<(), CommandRefusal> {
        let start = self.rest.next().map_or(0, |(at, _)| at);
        word.bare = false;
        for (_, character) in self.rest.by_ref() {
            if character == '\'' {
                return Ok(());
            }
            word.text.push(character);
        }
        Err(self.refusal(start, "the quote is not closed"))
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), CommandRefusal> {
        let start = self.rest.next().map_or(0, |(at, _)| at);
        word.bare = false;
        while let Some((at, character)) = self.rest.next() {
            match character {
                '"' => return Ok(()),
                '`' => return Err(self.refusal(at, SUBSTITUTION)),
                '$' => {
                    if !self.stands_alone() {
                        return Err(self.expansion(at));
                    }
                    word.text.push('$');
                }
                '\\' => match self.rest.next() {
                    Some((_, '\n')) => {}
                    Some((_, next @ ('$' | '`' | '"' | '\\'))) => word.text.push(next),
                    Some((_, next)) => word.text.extend(['\\', next]),
                    None => break,
                },
                _ => word.text.push(character),
            }
        }
        Err(self.refusal(start, "the quote is not closed"))
    }

    /// After a `$` in double quotes: whether the shell leaves it alone, as in
    /// the regular expression `"end$"`.
    fn stands_alone(&mut self) -> bool {
        matches!(self.rest.peek(), Some((_, '"' | ' ' | '|' | ')' | '/')))
    }

    /// Braces that the shell leaves alone: `{}` and `@{1}`, but not lists or
    /// ranges, which would make several words of one.
    fn braces(&mut self, word: &mut Word, at: usize) -> Result<(), CommandRefusal> {
        let inner =
            |character: char| character.is_ascii_alphanumeric() || "_-^".contains(character);
        let rest = self.source.get(at..).unwrap_or_default();
        let plain = rest
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
            .is_some_and(|(content, _)| content.chars().all(inner));
        // A single `{` or `}` is a keyword, which its caller looks for.
        let alone = word.text.is_empty() && rest.chars().nth(1).is_none_or(ends_word);
        if !plain && !alone {
            let reason = "braces that make several words of one are not accepted; \
                          quote them or write the words out";
            return Err(self.refusal(at, reason));
        }
        for (_, character) in self.rest.by_ref() {
            word.text.push(character);
            if alone || character == '}' {
                break;
            }
        }
        Ok(())
    }

    fn expansion(&self, at: usize) -> CommandRefusal {
        let rest = self.source.get(at..).unwrap_or_default();
        let reason = if rest.starts_with("$(") {
            SUBSTITUTION
        } else if rest.starts_with("$'") || rest.starts_with("$\"") {
            "`$'…'` and `$\"…\"` quotes are not accepted; use plain quotes"
        } else {
            "variables and other `$` expansions are not accepted; \
             write the value out, or put a literal `$` in single quotes"
        };
        self.refusal(at, reason)
    }

    fn refusal(&self, at: usize, reason: &str) -> CommandRefusal {
        let rest = self.source.get(at..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        CommandRefusal::new(line, reason)
    }
}

const SUBSTITUTION: &str =
    "command substitution is not accepted; run the inner command first and use its output";
const REDIRECTION: &str = "only /dev/null and the standard streams can be redirected to; \
                           use the write tool for files, or give the file as an argument";

/// Characters that end a word where they are not quoted.
fn ends_word(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>')
}

/// Whether the text starts like an assignment: `NAME=`, `NAME+=`, `NAME[…`.
fn is_assignment(raw: &str) -> bool {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let after = raw.trim_start_matches(is_name);
    let starts_with_name =
        after.len() < raw.len() && !raw.starts_with(|c: char| c.is_ascii_digit());
    starts_with_name
        && (after.starts_with('=') || after.starts_with("+=") || after.starts_with('['))
}
