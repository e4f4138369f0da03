//! Lists, pipelines, simple commands and redirections.

use super::super::CommandRefusal;
use super::super::tree::{
    Assigned, Assignment, Item, Link, Piece, Pipeline, ReadCommand, Redirect, RedirectKind, Script,
    Simple, Word,
};
use super::{Reader, ends_word, is_name};

/// Words that end a list where a command could stand.
const CLOSERS: [&str; 9] = [
    "then", "elif", "else", "fi", "do", "done", "esac", "}", "]]",
];

/// Builtins that take `name=(…)` as an argument.
const DECLARERS: [&str; 5] = ["declare", "typeset", "local", "readonly", "export"];

impl Reader<'_> {
    /// Commands up to the end, to a closing parenthesis, to `;;`, or to one of
    /// these words.
    pub(super) fn script(&mut self, closers: &[&str]) -> Result<Script, CommandRefusal> {
        let start = self.at;
        let mut items = Vec::new();
        loop {
            self.lines()?;
            let over = match self.peek() {
                None | Some(')') => true,
                Some(';') => self.looking_at(";;") || self.looking_at(";&"),
                Some(_) => closers.iter().any(|closer| self.at_word(closer)),
            };
            if over {
                break;
            }
            if let Some(word) = CLOSERS.iter().find(|closer| self.at_word(closer)) {
                return Err(self.refuse(format!("`{word}` closes nothing here")));
            }
            let chain = self.chain()?;
            self.blanks()?;
            let background = self.looking_at("&") && !self.looking_at("&&");
            let separated = background
                || (self.looking_at(";") && !self.looking_at(";;") && !self.looking_at(";&"));
            if separated {
                self.next();
            }
            self.blanks()?;
            items.push(Item {
                chain,
                background,
                ends_line: matches!(self.peek(), None | Some('\n' | '#')),
            });
            let ends = matches!(self.peek(), None | Some('\n' | ')' | '#' | ';'));
            if !separated && !ends {
                return Err(self.refuse("a command cannot stand right behind another"));
            }
        }
        let source = self.since(start).to_owned();
        Ok(Script { items, source })
    }

    /// Whether this unquoted word is next.
    pub(super) fn at_word(&self, word: &str) -> bool {
        self.rest()
            .strip_prefix(word)
            .is_some_and(|after| after.chars().next().is_none_or(ends_word))
    }

    fn chain(&mut self) -> Result<Vec<(Link, Pipeline)>, CommandRefusal> {
        let mut chain = vec![(Link::First, self.pipeline()?)];
        loop {
            self.blanks()?;
            let link = if self.eat("&&") {
                Link::And
            } else if self.eat("||") {
                Link::Or
            } else {
                return Ok(chain);
            };
            self.lines()?;
            chain.push((link, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Result<Pipeline, CommandRefusal> {
        let timed = self.at_word("time");
        if timed {
            self.at += "time".len();
            self.blanks()?;
            if self.at_word("-p") {
                self.at += "-p".len();
                self.blanks()?;
            }
            if self.looking_at("-") {
                return Err(self.refuse("`time` takes no options here; leave them out"));
            }
        }
        let negated = self.at_word("!");
        if negated {
            self.at += 1;
            self.blanks()?;
        }
        if (timed || negated) && (self.at_word("time") || self.at_word("!")) {
            return Err(self.refuse("write `time` and `!` once each, and `time` first"));
        }
        let mut commands = Vec::new();
        loop {
            let mut command = self.command()?;
            self.blanks()?;
            if self.looking_at("|&") {
                self.at += 2;
                redirect_errors(&mut command);
            } else if self.looking_at("|") && !self.looking_at("||") {
                self.at += 1;
            } else {
                commands.push(command);
                return Ok(Pipeline {
                    timed,
                    negated,
                    commands,
                });
            }
            commands.push(command);
            self.lines()?;
        }
    }

    fn command(&mut self) -> Result<ReadCommand, CommandRefusal> {
        self.count()?;
        if let Some(compound) = self.compound()? {
            return Ok(compound);
        }
        self.simple().map(ReadCommand::Simple)
    }

    fn simple(&mut self) -> Result<Simple, CommandRefusal> {
        let start = self.at;
        let mut simple = Simple::default();
        let mut declares = false;
        loop {
            self.blanks()?;
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            match self.peek() {
                Some('#') | None => break,
                Some('<' | '>') => {}
                Some('(') if simple.words.len() == 1 => {
                    return Err(self.refuse("write a function as `name() { …; }`"));
                }
                Some(next) if ends_word(next) => break,
                Some(_) => {}
            }
            let assigns = simple.words.is_empty() || declares;
            if assigns && let Some(assignment) = self.assignment(simple.words.is_empty())? {
                if simple.words.is_empty() {
                    simple.assignments.push(assignment);
                } else {
                    simple.words.push(Word {
                        raw: assignment.raw.clone(),
                        pieces: vec![Piece::Array(Box::new(assignment))],
                    });
                }
                continue;
            }
            let word = self.word()?;
            if simple.words.is_empty() {
                let name = word.literal();
                declares = name.is_some_and(|name| DECLARERS.contains(&name.as_str()));
            }
            simple.words.push(word);
        }
        if self.at == start {
            return Err(self.refuse("a command is missing here"));
        }
        Ok(simple)
    }

    /// `name=value`, `name+=value`, `name[index]=value`, `name=(…)`. Behind a
    /// command only the last one is read here; the others are words.
    fn assignment(&mut self, scalars: bool) -> Result<Option<Assignment>, CommandRefusal> {
        let rest = self.rest();
        let end = rest
            .find(|next: char| !(next.is_ascii_alphanumeric() || next == '_'))
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if !is_name(name) {
            return Ok(None);
        }
        let start = self.at;
        let indexed = after.starts_with('[');
        if !indexed && !after.starts_with('=') && !after.starts_with("+=") {
            return Ok(None);
        }
        self.at += end;
        let index = if indexed {
            self.next();
            Some(self.index()?)
        } else {
            None
        };
        let append = self.eat("+");
        if !self.eat("=") {
            if indexed {
                // A pattern such as `a[bc]`, which bash tries to read as an
                // assignment first.
                return Err(self.refuse_at(start, "put `./` in front of a pattern, or quote it"));
            }
            self.at = start;
            return Ok(None);
        }
        if self.looking_at("(") {
            if index.is_some() {
                return Err(self.refuse_at(start, "an element cannot be a list"));
            }
            let value = Assigned::Array(self.elements()?);
            let (name, raw) = (name.to_owned(), self.since(start).to_owned());
            return Ok(Some(Assignment {
                name,
                index,
                append,
                value,
                raw,
            }));
        }
        if !scalars {
            self.at = start;
            return Ok(None);
        }
        let value = self.assigned_word()?;
        Ok(Some(Assignment {
            name: name.to_owned(),
            index,
            append,
            value: Assigned::Scalar(value),
            raw: self.since(start).to_owned(),
        }))
    }

    fn elements(&mut self) -> Result<Vec<Word>, CommandRefusal> {
        self.next();
        let mut elements = Vec::new();
        loop {
            self.lines()?;
            match self.peek() {
                Some(')') => {
                    self.next();
                    return Ok(elements);
                }
                Some('[') => return Err(self.refuse("list the elements without their keys")),
                Some('<' | '>') if self.peek_second() != Some('(') => {
                    return Err(self.refuse("a list cannot hold a redirection"));
                }
                Some('<' | '>') => elements.push(self.word()?),
                None | Some(';' | '|' | '&' | '(') => {
                    return Err(self.refuse("the list is not closed"));
                }
                Some(_) => elements.push(self.word()?),
            }
        }
    }

    pub(super) fn redirects(&mut self) -> Result<Vec<Redirect>, CommandRefusal> {
        let mut redirects = Vec::new();
        loop {
            self.blanks()?;
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => return Ok(redirects),
            }
        }
    }

    /// A redirection, if one is next.
    fn redirect(&mut self) -> Result<Option<Redirect>, CommandRefusal> {
        let start = self.at;
        let digits = self
            .rest()
            .find(|next: char| !next.is_ascii_digit())
            .unwrap_or(0);
        let (number, after) = self.rest().split_at(digits);
        let both = number.is_empty() && after.starts_with("&>");
        if !both && !after.starts_with(['<', '>']) {
            if let Some((name, after)) = after.strip_prefix('{').and_then(|it| it.split_once('}'))
                && is_name(name)
                && after.starts_with(['<', '>'])
            {
                return Err(self.refuse("a redirection cannot set a variable; use a number"));
            }
            return Ok(None);
        }
        if after.starts_with("<(") || after.starts_with(">(") {
            return Ok(None);
        }
        let stream = match number {
            "" => None,
            number if number.len() <= 4 => number.parse().ok(),
            _ => return Err(self.refuse("there is no such stream to redirect")),
        };
        self.at += digits;
        let kind = self.redirect_kind();
        if let Some(strips_tabs) = kind.here {
            return self.here_document(stream, strips_tabs).map(Some);
        }
        self.blanks()?;
        match self.peek() {
            None | Some('\n' | ';' | '|' | '&' | ')' | '#') => {
                return Err(self.refuse_at(start, "the redirection has no target"));
            }
            Some('<' | '>') if self.peek_second() != Some('(') => {
                return Err(self.refuse_at(start, "the redirection has no target"));
            }
            Some(_) => {}
        }
        let target = self.word()?;
        Ok(Some(Redirect {
            stream,
            kind: kind.kind,
            target,
        }))
    }

    fn redirect_kind(&mut self) -> ReadKind {
        let plain = |kind| ReadKind { kind, here: None };
        let here = |strips_tabs| ReadKind {
            kind: RedirectKind::HereString,
            here: Some(strips_tabs),
        };
        for (text, kind) in [
            ("&>>", plain(RedirectKind::BothAppend)),
            ("&>", plain(RedirectKind::Both)),
            ("<<<", plain(RedirectKind::HereString)),
            ("<<-", here(true)),
            ("<<", here(false)),
            ("<&", plain(RedirectKind::DuplicateInput)),
            ("<>", plain(RedirectKind::ReadWrite)),
            ("<", plain(RedirectKind::Read)),
            (">>", plain(RedirectKind::Append)),
            (">|", plain(RedirectKind::Clobber)),
            (">&", plain(RedirectKind::DuplicateOutput)),
        ] {
            if self.eat(text) {
                return kind;
            }
        }
        self.next();
        plain(RedirectKind::Write)
    }
}

/// What a redirection operator stands for.
struct ReadKind {
    kind: RedirectKind,
    /// For a here-document: whether leading tabs are taken off.
    here: Option<bool>,
}

/// `|&` is `2>&1 |`.
fn redirect_errors(command: &mut ReadCommand) {
    let errors = Redirect {
        stream: Some(2),
        kind: RedirectKind::DuplicateOutput,
        target: Word {
            raw: "1".to_owned(),
            pieces: vec![Piece::Text("1".to_owned())],
        },
    };
    match command {
        ReadCommand::Simple(simple) => simple.redirects.push(errors),
        ReadCommand::Compound(_, redirects)
        | ReadCommand::Test(_, redirects)
        | ReadCommand::Function { redirects, .. } => redirects.push(errors),
    }
}
