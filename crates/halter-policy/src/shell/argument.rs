//! What a program is given, as far as that is known before it runs.

use super::known_path::KnownPath;
use super::parts::{PartAssignment, PartWord};
use super::state::{Shape, State, prints_directory};
use super::tree::{Assigned, Assignment, Operation, Parameter, ParameterName, Piece, Word};
use crate::limits::MAX_BRACE_WORDS;

/// One argument, or several where the shell would split it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Argument {
    /// The text without quotes. Where the rest is unknown, how it starts.
    pub(super) text: String,
    /// The word as it is written.
    pub(super) raw: String,
    /// Where in `text` the shell would start to replace file names.
    pub(super) glob: Option<usize>,
    /// Something unknown follows `text`.
    pub(super) open: bool,
    /// Of an open one without `text`: it cannot be taken for an option.
    pub(super) operand: bool,
    /// What is unknown holds letters, digits and `._/+-` only.
    pub(super) plain: bool,
    /// What is unknown is made of digits.
    pub(super) numeric: bool,
    /// What is unknown is a file name that a pattern such as `*.rs` matched.
    pub(super) file: bool,
    /// It may be any number of words.
    pub(super) many: bool,
    /// It starts with somebody's home directory.
    pub(super) home: bool,
    /// What it is as a path.
    pub(super) path: KnownPath,
}

impl Argument {
    /// The argument is exactly its text.
    pub(super) fn is_literal(&self) -> bool {
        self.glob.is_none() && !self.open && !self.many && !self.home
    }

    /// What it starts with is unknown, so it could be an option.
    pub(super) fn could_be_option(&self) -> bool {
        let starts_plain = match self.text.chars().next() {
            None => self.operand,
            Some(first) => first != '-',
        };
        if self.many {
            // Of plain words none starts with `-` if the first does not.
            return !(self.plain && starts_plain);
        }
        self.open && self.text.is_empty() && !self.operand
    }

    pub(super) fn as_part(&self) -> PartWord {
        let literal = self.is_literal();
        let text = if literal { &self.text } else { &self.raw };
        PartWord {
            text: text.clone(),
            literal,
            path: self.path.clone(),
        }
    }
}

/// The arguments a word becomes.
pub(super) fn arguments(word: &Word, state: &State) -> Vec<Argument> {
    match expand_braces(&word.pieces) {
        Some(words) => words
            .into_iter()
            .filter_map(|pieces| argument(&pieces, &word.raw, state))
            .collect(),
        None => vec![Argument {
            raw: word.raw.clone(),
            open: true,
            many: true,
            path: KnownPath::unknown(),
            ..Argument::default()
        }],
    }
}

/// What a single value, such as that of an assignment, is known to be.
pub(super) fn value(word: &Word, state: &State) -> Argument {
    let pieces: Vec<&Piece> = word.pieces.iter().collect();
    let found = argument(&pieces, &word.raw, state);
    found.unwrap_or_else(|| Argument {
        raw: word.raw.clone(),
        ..Argument::default()
    })
}

fn argument(pieces: &[&Piece], raw: &str, state: &State) -> Option<Argument> {
    let mut found = Argument {
        raw: raw.to_owned(),
        plain: true,
        numeric: true,
        ..Argument::default()
    };
    let mut quoted_or_text = false;
    for piece in pieces {
        match piece {
            Piece::Text(text) | Piece::Quoted(text) => {
                quoted_or_text = true;
                found.push(text);
            }
            Piece::Glob(sign) => {
                quoted_or_text = true;
                if !found.open {
                    found.glob.get_or_insert(found.text.len());
                    found.text.push(*sign);
                }
                found.path.push_sign(*sign);
            }
            Piece::Tilde(text) => {
                quoted_or_text = true;
                found.home = true;
                found.path.push_tilde(text);
                found.text.push_str(text);
            }
            Piece::Range(range) => {
                quoted_or_text = true;
                let negative = range.contains("{-") || range.contains("..-");
                found.unknown(if negative { &Shape::Any } else { &Shape::Token });
                found.many = true;
            }
            Piece::Braces(_) | Piece::Array(_) => {
                found.unknown(&Shape::Any);
                found.many = true;
            }
            Piece::Process { .. } => {
                quoted_or_text = true;
                found.push("/dev/fd/");
                found.unknown(&Shape::Token);
            }
            Piece::Arithmetic(_) => found.unknown(&Shape::Number),
            Piece::Parameter { parameter, quoted } => {
                quoted_or_text |= *quoted;
                found.expansion(&state.parameter(parameter), *quoted, variable(parameter));
                found.many |= state.is_list(parameter);
            }
            Piece::Substitution { script, quoted } => {
                quoted_or_text |= *quoted;
                let name = prints_directory(script).then_some("PWD");
                found.expansion(&state.output(script), *quoted, name);
            }
        }
    }
    // An unquoted expansion that is empty leaves no argument at all.
    (quoted_or_text || found.open || !found.text.is_empty()).then_some(found)
}

impl Argument {
    fn push(&mut self, text: &str) {
        if !self.open {
            self.text.push_str(text);
        }
        self.path.push(text);
    }

    /// What a variable or a substitution yields; the name is that of a
    /// variable which is expanded as it is.
    fn expansion(&mut self, shape: &Shape, quoted: bool, name: Option<&str>) {
        match shape {
            Shape::Text(text) if quoted || text.chars().all(is_plain) => self.push(text),
            Shape::Text(_) => {
                self.unknown(&Shape::Any);
                self.many = true;
            }
            Shape::Number | Shape::Token => self.unknown(shape),
            Shape::Operand | Shape::File | Shape::Any => {
                self.path.push_variable(name);
                self.unknown_text(shape);
                self.many |= !quoted;
            }
        }
    }

    fn unknown(&mut self, shape: &Shape) {
        self.path.push_variable(None);
        self.unknown_text(shape);
    }

    fn unknown_text(&mut self, shape: &Shape) {
        if !self.open {
            self.open = true;
            self.operand = !matches!(shape, Shape::Any | Shape::File);
            self.file = matches!(shape, Shape::File);
        }
        self.plain &= matches!(shape, Shape::Number | Shape::Token);
        self.numeric &= matches!(shape, Shape::Number);
    }
}

/// The name of a variable that is expanded as it is.
fn variable(parameter: &Parameter) -> Option<&str> {
    match (&parameter.name, &parameter.index, &parameter.operation) {
        (ParameterName::Variable(name), None, Operation::None) => Some(name),
        _ => None,
    }
}

/// Characters that nothing the judge knows takes for a sign.
pub(super) fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "._/+-".contains(character)
}

/// The words that braces make of one; `None` if they are too many.
fn expand_braces(pieces: &[Piece]) -> Option<Vec<Vec<&Piece>>> {
    let mut words: Vec<Vec<&Piece>> = vec![Vec::new()];
    for piece in pieces {
        match piece {
            Piece::Braces(alternatives) => {
                let mut expanded = Vec::new();
                for word in &words {
                    for alternative in alternatives {
                        for end in expand_braces(alternative)? {
                            let mut whole = word.clone();
                            whole.extend(end);
                            expanded.push(whole);
                            if expanded.len() > MAX_BRACE_WORDS {
                                return None;
                            }
                        }
                    }
                }
                words = expanded;
            }
            _ => words.iter_mut().for_each(|word| word.push(piece)),
        }
    }
    Some(words)
}

impl Assignment {
    pub(super) fn as_part(&self, state: &State) -> PartAssignment {
        let value = match &self.value {
            Assigned::Scalar(word) => value(word, state).as_part(),
            Assigned::Array(_) => PartWord {
                text: self.raw.clone(),
                path: KnownPath::unknown(),
                literal: false,
            },
        };
        PartAssignment {
            name: self.name.clone(),
            value,
        }
    }
}
