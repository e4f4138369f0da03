//! `$…` and backquotes.

use super::super::CommandRefusal;
use super::super::tree::{
    Arithmetic, Index, Operation, Parameter, ParameterName, Piece, ReadCommand, Script, Word,
};
use super::quotes::Context;
use super::{Reader, is_name, read_nested};

const INDIRECT: &str = "indirect expansion reads a variable whose name nobody knows; name it";

impl Reader<'_> {
    /// The expansion that starts here; `None` if the `$` stands for itself.
    pub(super) fn expansion(&mut self, context: Context) -> Result<Option<Piece>, CommandRefusal> {
        let quoted = context != Context::Plain;
        if self.peek() == Some('`') {
            let script = self.backquoted()?;
            return Ok(Some(Piece::Substitution { script, quoted }));
        }
        if self.eat("$((") {
            return self.nested(Self::arithmetic_expansion).map(Some);
        }
        if self.eat("$(") {
            let script = self.substituted_script()?;
            return Ok(Some(Piece::Substitution { script, quoted }));
        }
        if self.looking_at("$[") {
            return Err(self.refuse("write `$((…))` instead of `$[…]`"));
        }
        if self.eat("${") {
            let parameter = self.nested(|reader| reader.parameter(context))?;
            return Ok(Some(Piece::Parameter {
                parameter: Box::new(parameter),
                quoted,
            }));
        }
        let name = self.short_name();
        Ok(name.map(|name| Piece::Parameter {
            parameter: Box::new(Parameter {
                name,
                index: None,
                operation: Operation::None,
            }),
            quoted,
        }))
    }

    /// The name behind a `$` without braces.
    fn short_name(&mut self) -> Option<ParameterName> {
        let rest = self.rest().get(1..).unwrap_or_default();
        let first = rest.chars().next()?;
        if first.is_ascii_alphabetic() || first == '_' {
            let end = rest
                .find(|next: char| !(next.is_ascii_alphanumeric() || next == '_'))
                .unwrap_or(rest.len());
            let name = rest.get(..end).unwrap_or_default();
            self.at += 1 + end;
            return Some(variable(name));
        }
        let name = special(first)?;
        self.at += 2;
        Some(name)
    }

    /// The commands of a substitution, up to its closing parenthesis, which is
    /// consumed.
    ///
    /// None may open with `time` and a compound command: to find the end, bash
    /// 5.2 takes that `time` for the name of a program, so it knows no `case`
    /// behind it and ends at the parenthesis of the first pattern. The rest
    /// would be read in other quotes than here.
    pub(super) fn substituted_script(&mut self) -> Result<Script, CommandRefusal> {
        let start = self.at;
        let script = self.nested_script()?;
        let first = script.items.first().and_then(|item| item.chain.first());
        let opens_timed = first.is_some_and(|(_, pipeline)| {
            let simple = matches!(pipeline.commands.first(), Some(ReadCommand::Simple(_)));
            pipeline.timed && !simple
        });
        if opens_timed {
            return Err(self.refuse_at(
                start,
                "a substitution cannot open with `time` and a compound command; leave `time` out",
            ));
        }
        Ok(script)
    }

    /// Commands up to the closing parenthesis, which is consumed.
    pub(super) fn nested_script(&mut self) -> Result<Script, CommandRefusal> {
        let start = self.at;
        let script = self.nested(|reader| {
            let script = reader.script(&[])?;
            match reader.after_here {
                Some((_, depth)) if depth == reader.depth => {
                    Err(reader.refuse("the here-document has no body"))
                }
                _ => Ok(script),
            }
        })?;
        if self.eat(")") {
            Ok(script)
        } else {
            Err(self.refuse_at(start, "the parenthesis is not closed"))
        }
    }

    fn backquoted(&mut self) -> Result<Script, CommandRefusal> {
        let start = self.at;
        self.next();
        let inner_start = self.at;
        loop {
            match self.next() {
                None => return Err(self.refuse_at(start, "the backquote is not closed")),
                Some('`') => break,
                Some('\\') => {
                    return Err(self.refuse_at(start, "write `$(…)` instead of backquotes"));
                }
                Some('\n') if self.after_here.is_some() => {
                    return Err(self.refuse_at(start, "write `$(…)` instead of backquotes"));
                }
                Some(_) => {}
            }
        }
        let inner = self
            .source
            .get(inner_start..self.at.saturating_sub(1))
            .unwrap_or_default();
        let depth = self.depth;
        self.nested(|_| read_nested(inner, depth + 1))
    }

    /// After `${`.
    fn parameter(&mut self, context: Context) -> Result<Parameter, CommandRefusal> {
        let start = self.at;
        if self.looking_at("!") && !self.looking_at("!}") {
            self.next();
            let name = self.name();
            let keys = self.eat("[@]}") || self.eat("[*]}");
            return match name {
                Some(name) if keys => Ok(Parameter {
                    name: variable(&name),
                    index: Some(Index::All),
                    operation: Operation::Keys,
                }),
                _ => Err(self.refusal(start, INDIRECT)),
            };
        }
        let length = self.looking_at("#") && !self.looking_at("#}");
        if length {
            self.next();
        }
        let Some(name) = self.parameter_name() else {
            return Err(self.refusal(start, "this expansion is not understood"));
        };
        let index = if self.eat("[") {
            Some(self.index()?)
        } else {
            None
        };
        let operation = if length {
            Operation::Length
        } else {
            self.operation(start, context)?
        };
        if !self.eat("}") {
            return Err(self.refusal(start, "this expansion is not understood"));
        }
        Ok(Parameter {
            name,
            index,
            operation,
        })
    }

    fn refusal(&self, start: usize, reason: &str) -> CommandRefusal {
        let mut refusal = self.refuse_at(start.saturating_sub(2), reason);
        refusal.rule = "shell.expansion";
        refusal
    }

    fn name(&mut self) -> Option<String> {
        let rest = self.rest();
        let end = rest
            .find(|next: char| !(next.is_ascii_alphanumeric() || next == '_'))
            .unwrap_or(rest.len());
        let name = rest.get(..end).filter(|name| is_name(name))?;
        self.at += end;
        Some(name.to_owned())
    }

    fn parameter_name(&mut self) -> Option<ParameterName> {
        if let Some(name) = self.name() {
            return Some(variable(&name));
        }
        let first = self.peek()?;
        if first.is_ascii_digit() {
            while self.peek().is_some_and(|next| next.is_ascii_digit()) {
                self.next();
            }
            return Some(ParameterName::Positional);
        }
        let name = special(first)?;
        self.next();
        Some(name)
    }

    fn operation(&mut self, start: usize, context: Context) -> Result<Operation, CommandRefusal> {
        let Some(first) = self.peek() else {
            return Err(self.refusal(start, "this expansion is not closed"));
        };
        match first {
            '}' => Ok(Operation::None),
            '@' => {
                self.next();
                let letter = self.next().unwrap_or('}');
                Ok(Operation::Transform(letter))
            }
            ':' if matches!(self.peek_second(), Some('-' | '+' | '?')) => {
                self.at += 2;
                self.operand(start, context, "}")
                    .map(Operation::Alternative)
            }
            ':' if self.peek_second() == Some('=') => {
                self.at += 2;
                self.operand(start, context, "}").map(Operation::Assign)
            }
            '-' | '+' | '?' => {
                self.next();
                self.operand(start, context, "}")
                    .map(Operation::Alternative)
            }
            '=' => {
                self.next();
                self.operand(start, context, "}").map(Operation::Assign)
            }
            ':' => {
                self.next();
                let offset = self.arithmetic_until(":}")?;
                let length = if self.eat(":") {
                    Some(self.arithmetic_until("}")?)
                } else {
                    None
                };
                Ok(Operation::Substring(offset, length))
            }
            '#' | '%' | '^' | ',' => {
                self.next();
                if self.peek() == Some(first) {
                    self.next();
                }
                let pattern = self.operand(start, context, "}")?;
                Ok(match first {
                    '%' => Operation::Suffix(pattern),
                    _ => Operation::Pattern(vec![pattern]),
                })
            }
            '/' => {
                self.next();
                if matches!(self.peek(), Some('/' | '#' | '%')) {
                    self.next();
                }
                let mut words = vec![self.operand(start, context, "/}")?];
                if self.eat("/") {
                    words.push(self.operand(start, context, "}")?);
                }
                Ok(Operation::Pattern(words))
            }
            _ => Err(self.refusal(start, "this expansion is not understood")),
        }
    }

    /// The word of an operation, up to one of these characters.
    fn operand(
        &mut self,
        start: usize,
        context: Context,
        ends: &str,
    ) -> Result<Word, CommandRefusal> {
        let from = self.at;
        let mut pieces = Vec::new();
        let mut text = String::new();
        loop {
            let Some(next) = self.peek() else {
                return Err(self.refusal(start, "this expansion is not closed"));
            };
            if next == '\n' && self.after_here.is_some() {
                return Err(self.refuse("the line of a here-document ends inside a word"));
            }
            match next {
                next if ends.contains(next) => break,
                '\\' => {
                    self.next();
                    match self.next() {
                        Some('\n') | None => {
                            return Err(self.refusal(start, "write this expansion on one line"));
                        }
                        Some(escaped) => text.push(escaped),
                    }
                }
                '\'' | '"' if context != Context::Plain => {
                    let reason = "quotes inside a quoted expansion are not accepted; \
                                  put the value into a variable first";
                    return Err(self.refusal(start, reason));
                }
                '\'' => pieces.push(self.single_quoted()?),
                '"' => self.double_quoted(&mut pieces)?,
                '{' | '<' | '>' | '(' | ')' => {
                    return Err(self.refusal(start, "quote the special characters in it"));
                }
                '$' if matches!(self.peek_second(), Some('\'' | '"')) => {
                    return Err(self.refusal(start, "use plain quotes in an expansion"));
                }
                '$' | '`' => match self.expansion(context)? {
                    Some(piece) => {
                        pieces.push(Piece::Quoted(std::mem::take(&mut text)));
                        pieces.push(piece);
                    }
                    None => text.extend(self.next()),
                },
                _ => text.extend(self.next()),
            }
        }
        pieces.push(Piece::Quoted(text));
        let raw = self.since(from).to_owned();
        Ok(Word { raw, pieces })
    }

    /// What stands in brackets; the closing one is consumed.
    pub(super) fn index(&mut self) -> Result<Index, CommandRefusal> {
        if self.eat("@]") || self.eat("*]") {
            return Ok(Index::All);
        }
        let index = self.arithmetic_until("]")?;
        if self.eat("]") {
            Ok(Index::At(index))
        } else {
            Err(self.refuse("the index is not closed"))
        }
    }

    fn arithmetic_expansion(&mut self) -> Result<Piece, CommandRefusal> {
        let start = self.at;
        let expression = self.arithmetic_until(")")?;
        if self.eat("))") {
            Ok(Piece::Arithmetic(expression))
        } else {
            let reason = "the arithmetic expansion is not closed; write `$( (` for a subshell";
            Err(self.refuse_at(start.saturating_sub(3), reason))
        }
    }

    /// An arithmetic expression up to one of these characters outside
    /// parentheses.
    pub(super) fn arithmetic_until(&mut self, ends: &str) -> Result<Arithmetic, CommandRefusal> {
        let start = self.at;
        let mut expression = Arithmetic::default();
        let mut parentheses = 0_usize;
        while let Some(next) = self.peek() {
            match next {
                next if parentheses == 0 && ends.contains(next) => break,
                '(' => {
                    parentheses += 1;
                    self.next();
                }
                ')' if parentheses > 0 => {
                    parentheses -= 1;
                    self.next();
                }
                '$' | '`' => match self.expansion(Context::Arithmetic)? {
                    Some(piece) => expression.expansions.push(piece),
                    None => return Err(self.arithmetic_refusal(start)),
                },
                next if next.is_ascii_alphabetic() || next == '_' => {
                    self.arithmetic_name(&mut expression);
                }
                '\n' if self.after_here.is_some() => return Err(self.arithmetic_refusal(start)),
                next if next.is_ascii_digit() => self.number(),
                ' ' | '\t' | '\n' | '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' | '&'
                | '|' | '^' | '~' | '?' | ':' | ',' => {
                    self.next();
                }
                _ => return Err(self.arithmetic_refusal(start)),
            }
        }
        expression.raw = self.since(start).to_owned();
        Ok(expression)
    }

    fn arithmetic_refusal(&self, start: usize) -> CommandRefusal {
        let reason = "only numbers, variables and operators are accepted in arithmetic";
        let mut refusal = self.refuse_at(start, reason);
        refusal.rule = "shell.arithmetic";
        refusal
    }

    /// A number, also `0x1f` and `16#ff`.
    fn number(&mut self) {
        while self
            .peek()
            .is_some_and(|next| next.is_ascii_alphanumeric() || next == '#' || next == '_')
        {
            self.next();
        }
    }

    /// A variable that is read, or set by a plain `=`. An element of an array
    /// ends at the bracket, which the caller refuses.
    fn arithmetic_name(&mut self, expression: &mut Arithmetic) {
        let Some(name) = self.name() else { return };
        let after = self.rest().trim_start();
        let sets = after.starts_with('=') && !after.starts_with("==");
        if sets {
            expression.sets.push(name);
        } else {
            expression.reads.push(name);
        }
    }
}

fn variable(name: &str) -> ParameterName {
    match name {
        "_" => ParameterName::Other,
        name => ParameterName::Variable(name.to_owned()),
    }
}

fn special(first: char) -> Option<ParameterName> {
    match first {
        '?' | '#' | '$' | '!' => Some(ParameterName::Status),
        '@' | '*' | '1'..='9' => Some(ParameterName::Positional),
        '0' | '-' => Some(ParameterName::Other),
        _ => None,
    }
}
