//! Everything that expanding a word, or evaluating an expression, would run.

use super::super::CommandRefusal;
use super::super::state::{self, Shape, State};
use super::super::tree::{
    Arithmetic, Index, Operation, Parameter, ParameterName, Piece, Test, Word,
};
use super::super::variables;
use super::{Walk, check_name};

impl Walk<'_> {
    /// Everything that expanding a word would run.
    pub(super) fn word(self, word: &Word, state: &mut State) -> Result<(), CommandRefusal> {
        self.pieces(&word.pieces, state)
    }

    pub(super) fn pieces(self, pieces: &[Piece], state: &mut State) -> Result<(), CommandRefusal> {
        pieces.iter().try_for_each(|piece| self.piece(piece, state))
    }

    pub(super) fn piece(self, piece: &Piece, state: &mut State) -> Result<(), CommandRefusal> {
        match piece {
            Piece::Text(_)
            | Piece::Quoted(_)
            | Piece::Glob(_)
            | Piece::Tilde(_)
            | Piece::Range(_) => Ok(()),
            Piece::Braces(alternatives) => alternatives
                .iter()
                .try_for_each(|alternative| self.pieces(alternative, state)),
            Piece::Parameter { parameter, .. } => self.parameter(parameter, state),
            Piece::Substitution { script, .. } | Piece::Process { script, .. } => {
                let mut inside = state.clone();
                inside.in_substitution = true;
                self.script(script, &mut inside)
            }
            Piece::Arithmetic(expression) => self.expanded(expression, state),
            Piece::Array(assignment) => self.assigned(assignment, state),
        }
    }

    /// What follows the name of a parameter is expanded only where its value
    /// calls for it.
    pub(super) fn parameter(
        self,
        parameter: &Parameter,
        state: &mut State,
    ) -> Result<(), CommandRefusal> {
        let before = state.clone();
        if let Some(index) = &parameter.index {
            self.index(index, state)?;
        }
        self.operation(parameter, state)?;
        state.join(&before);
        Ok(())
    }

    fn operation(self, parameter: &Parameter, state: &mut State) -> Result<(), CommandRefusal> {
        match &parameter.operation {
            Operation::None | Operation::Length | Operation::Keys => Ok(()),
            Operation::Alternative(word) | Operation::Suffix(word) => self.word(word, state),
            Operation::Assign(word) => {
                self.word(word, state)?;
                match &parameter.name {
                    ParameterName::Variable(name) => {
                        check_name(name)?;
                        state.forget_one(name);
                        Ok(())
                    }
                    ParameterName::Positional | ParameterName::Status | ParameterName::Other => {
                        Err(expansion(&word.raw, "this cannot be assigned"))
                    }
                }
            }
            Operation::Pattern(words) => words.iter().try_for_each(|word| self.word(word, state)),
            Operation::Substring(offset, length) => {
                self.expanded(offset, state)?;
                length
                    .iter()
                    .try_for_each(|length| self.expanded(length, state))
            }
            Operation::Transform(letter) => match letter {
                'Q' | 'U' | 'u' | 'L' => Ok(()),
                letter => Err(expansion(
                    &format!("@{letter}"),
                    "this transformation can run what a variable holds; only @Q, @U, @u and @L \
                     are accepted",
                )),
            },
        }
    }

    pub(super) fn index(self, index: &Index, state: &mut State) -> Result<(), CommandRefusal> {
        match index {
            Index::All => Ok(()),
            Index::At(expression) => self.expanded(expression, state),
        }
    }

    /// Arithmetic in an expansion, where an error ends the line.
    pub(super) fn expanded(
        self,
        expression: &Arithmetic,
        state: &mut State,
    ) -> Result<(), CommandRefusal> {
        self.arithmetic(expression, state)?;
        state.may_abort |= !cannot_fail(expression);
        Ok(())
    }

    /// Arithmetic evaluates what a variable holds, and with it substitutions
    /// in there: only numbers are safe.
    pub(super) fn arithmetic(
        self,
        expression: &Arithmetic,
        state: &mut State,
    ) -> Result<(), CommandRefusal> {
        for piece in &expression.expansions {
            self.piece(piece, state)?;
            let number = match piece {
                Piece::Arithmetic(_) => true,
                Piece::Parameter { parameter, .. } => state.parameter(parameter).is_number(),
                Piece::Substitution { script, .. } => state.output(script).is_number(),
                Piece::Text(_)
                | Piece::Quoted(_)
                | Piece::Glob(_)
                | Piece::Tilde(_)
                | Piece::Braces(_)
                | Piece::Range(_)
                | Piece::Process { .. }
                | Piece::Array(_) => false,
            };
            if !number {
                return Err(evaluates(&expression.raw));
            }
        }
        for name in &expression.reads {
            if !state.variable(name).is_number() {
                return Err(evaluates(name));
            }
        }
        let certain = cannot_fail(expression);
        for name in &expression.sets {
            check_name(name)?;
            // Where the expression fails, the variable keeps what it had.
            if certain || state.variable(name).is_number() {
                state.set(name, Shape::Number);
            } else {
                state.forget_one(name);
            }
        }
        for name in &expression.reads {
            // It may have been incremented.
            check_name(name).or_else(|refusal| match state.variable(name) {
                Shape::Number => Ok(()),
                _ => Err(refusal),
            })?;
            if matches!(state.variable(name), Shape::Text(_)) {
                state.set(name, Shape::Number);
            }
        }
        Ok(())
    }

    pub(super) fn test(self, test: &Test, state: &mut State) -> Result<(), CommandRefusal> {
        match test {
            Test::And(left, right) | Test::Or(left, right) => {
                self.test(left, state)?;
                let before = state.clone();
                self.test(right, state)?;
                state.join(&before);
                Ok(())
            }
            Test::Not(inner) | Test::Parenthesized(inner) => self.test(inner, state),
            Test::Word(word) => self.word(word, state),
            Test::Unary(operator, word) => {
                self.word(word, state)?;
                let plain = word.literal().is_some_and(|name| variables::is_name(&name));
                if (operator == "-v" || operator == "-R") && !plain {
                    return Err(evaluates(&word.raw));
                }
                Ok(())
            }
            Test::Binary(left, operator, right) => {
                self.word(left, state)?;
                self.word(right, state)?;
                let computes = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
                if computes.contains(&operator.as_str()) {
                    for word in [left, right] {
                        if !state.shape(word).is_number() {
                            return Err(evaluates(&word.raw));
                        }
                    }
                }
                Ok(())
            }
        }
    }
}

/// Whether an expression is a number or a variable, or sums and products of
/// them, possibly assigned to a variable: nothing else is certain not to fail.
/// Division by zero, and grammar that nobody has checked, end in an error.
fn cannot_fail(expression: &Arithmetic) -> bool {
    let raw = expression.raw.trim();
    let value = match raw.split_once('=') {
        Some((name, value)) if variables::is_name(name.trim()) => value,
        Some(_) => return false,
        None => raw,
    };
    let operand = |text: &str| {
        let text = text.trim();
        variables::is_name(text) || (state::is_number(text) && !text.starts_with(['-', '+']))
    };
    expression.expansions.is_empty() && value.split(['+', '-', '*']).all(operand)
}

fn evaluates(fragment: &str) -> CommandRefusal {
    CommandRefusal::of(
        "shell.arithmetic",
        fragment,
        "arithmetic runs what it finds in a variable; use numbers, or variables that this \
         command line has set to numbers (`[ … ]` compares without arithmetic)",
    )
}

fn expansion(fragment: &str, reason: &str) -> CommandRefusal {
    CommandRefusal::of("shell.expansion", fragment, reason)
}
