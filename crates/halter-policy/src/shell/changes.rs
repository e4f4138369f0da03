//! What the body of a loop, or a trap, changes.

use std::collections::BTreeSet;

use super::builtins;
use super::state::{self, Shape, State};
use super::tree::{
    Arithmetic, ArithmeticLoop, Assigned, Assignment, Compound, HereBody, Index, Item, Operation,
    Parameter, Piece, ReadCommand, Redirect, RedirectKind, Script, Test, Word,
};

/// Whether a script leaves all variables and functions alone, and the shell
/// where it is.
pub(super) fn sets_nothing(script: &Script) -> bool {
    let functions = BTreeSet::new();
    let changes = Changes::of(script, &functions);
    !changes.all && !changes.moves && changes.numbers.is_empty() && changes.others.is_empty()
}

/// Variables that the body of a loop changes, so that what was known of them
/// before does not hold in its second run.
pub(super) struct Changes<'a> {
    functions: &'a BTreeSet<String>,
    /// Set to numbers only.
    numbers: Vec<String>,
    others: Vec<String>,
    /// Something may set any variable.
    all: bool,
    /// Something may change the directory.
    moves: bool,
}

impl<'a> Changes<'a> {
    pub(super) fn of(script: &Script, functions: &'a BTreeSet<String>) -> Self {
        let items: Vec<&Item> = script.items.iter().collect();
        Self::of_items(&items, functions)
    }

    pub(super) fn of_items(items: &[&Item], functions: &'a BTreeSet<String>) -> Self {
        let mut changes = Self {
            functions,
            numbers: Vec::new(),
            others: Vec::new(),
            all: false,
            moves: false,
        };
        items.iter().for_each(|item| changes.item(item));
        changes
    }

    /// The commands may not have run, or not all of them.
    pub(super) fn undo(&self, before: &State, state: &mut State) {
        let mut undone = before.clone();
        self.apply(&mut undone);
        let directories = std::mem::take(&mut state.directories);
        *state = undone;
        state.directories = directories;
        state.also_in(&before.directories);
        state.may_abort = false;
    }

    pub(super) fn apply(&self, state: &mut State) {
        if self.all {
            state.forget();
        }
        if self.moves {
            state.go(None);
        }
        for name in &self.others {
            state.forget_one(name);
        }
        for name in &self.numbers {
            if state.variable(name).is_number() {
                state.set(name, Shape::Number);
            } else {
                state.forget_one(name);
            }
        }
    }

    fn script(&mut self, script: &Script) {
        script.items.iter().for_each(|item| self.item(item));
    }

    fn item(&mut self, item: &Item) {
        for (_, pipeline) in &item.chain {
            for command in &pipeline.commands {
                self.command(command);
            }
        }
    }

    fn command(&mut self, command: &ReadCommand) {
        match command {
            ReadCommand::Simple(simple) => {
                for assignment in &simple.assignments {
                    self.assignment(assignment);
                }
                let name = simple.words.first().and_then(Word::literal);
                let name = name.unwrap_or_default();
                let calls = self.functions.contains(&name);
                let words = simple.words.iter().filter_map(Word::literal);
                let mut first = words.take(3);
                self.all |= calls;
                self.moves |= calls || first.any(|it| builtins::MOVERS.contains(&it.as_str()));
                if builtins::SETTERS.contains(&name.as_str()) {
                    self.builtin(&name, simple.words.get(1..).unwrap_or_default());
                }
                simple.words.iter().for_each(|word| self.word(word));
                self.redirects(&simple.redirects);
            }
            ReadCommand::Compound(compound, redirects) => {
                self.compound(compound);
                self.redirects(redirects);
            }
            ReadCommand::Function { .. } => self.all = true,
            ReadCommand::Test(test, redirects) => {
                self.test(test);
                self.redirects(redirects);
            }
        }
    }

    /// Every word of a builtin that could be the name of a variable.
    fn builtin(&mut self, name: &str, words: &[Word]) {
        let sets = name != "printf" || words.first().is_some_and(|first| first.raw == "-v");
        if !sets {
            return;
        }
        for word in words {
            let literal = word.literal();
            let names = literal.as_deref().unwrap_or(&word.raw);
            let assigned = names.split_once('=').map(|(name, _)| name);
            match assigned.or(literal.as_deref()) {
                Some(name) => self.others.push(name.to_owned()),
                None => self.all = true,
            }
        }
        self.all |= name == "let";
    }

    fn assignment(&mut self, assignment: &Assignment) {
        let number = match &assignment.value {
            Assigned::Scalar(value) => {
                self.word(value);
                let counts = matches!(value.pieces.as_slice(), [Piece::Arithmetic(_)]);
                let literal = value.literal().is_some_and(|it| state::is_number(&it));
                (counts || literal) && !assignment.append && assignment.index.is_none()
            }
            Assigned::Array(_) => false,
        };
        if number {
            self.numbers.push(assignment.name.clone());
        } else {
            self.others.push(assignment.name.clone());
        }
    }

    fn word(&mut self, word: &Word) {
        word.pieces.iter().for_each(|piece| self.piece(piece));
    }

    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Parameter { parameter, .. } => self.parameter(parameter),
            Piece::Arithmetic(expression) => self.arithmetic(expression),
            Piece::Array(_) => self.all = true,
            Piece::Braces(alternatives) => alternatives
                .iter()
                .flatten()
                .for_each(|piece| self.piece(piece)),
            Piece::Text(_)
            | Piece::Quoted(_)
            | Piece::Glob(_)
            | Piece::Tilde(_)
            | Piece::Range(_)
            | Piece::Substitution { .. }
            | Piece::Process { .. } => {}
        }
    }

    fn parameter(&mut self, parameter: &Parameter) {
        if let Some(Index::At(expression)) = &parameter.index {
            self.arithmetic(expression);
        }
        match &parameter.operation {
            Operation::None | Operation::Length | Operation::Keys | Operation::Transform(_) => {}
            Operation::Assign(_) => self.all = true,
            Operation::Alternative(word) | Operation::Suffix(word) => self.word(word),
            Operation::Pattern(words) => words.iter().for_each(|word| self.word(word)),
            Operation::Substring(offset, length) => {
                self.arithmetic(offset);
                length.iter().for_each(|length| self.arithmetic(length));
            }
        }
    }

    fn redirects(&mut self, redirects: &[Redirect]) {
        for redirect in redirects {
            self.word(&redirect.target);
            if let RedirectKind::HereDocument {
                body: HereBody::Expanded(word),
                ..
            } = &redirect.kind
            {
                self.word(word);
            }
        }
    }

    fn arithmetic(&mut self, expression: &Arithmetic) {
        expression
            .expansions
            .iter()
            .for_each(|piece| self.piece(piece));
        self.numbers.extend(expression.sets.iter().cloned());
        self.numbers.extend(expression.reads.iter().cloned());
    }

    fn test(&mut self, test: &Test) {
        match test {
            Test::And(left, right) | Test::Or(left, right) => {
                self.test(left);
                self.test(right);
            }
            Test::Not(inner) | Test::Parenthesized(inner) => self.test(inner),
            Test::Unary(_, word) | Test::Word(word) => self.word(word),
            Test::Binary(left, _, right) => {
                self.word(left);
                self.word(right);
            }
        }
    }

    fn compound(&mut self, compound: &Compound) {
        match compound {
            Compound::Group(script) => self.script(script),
            Compound::Subshell(script) => {
                let moves = self.moves;
                self.script(script);
                self.moves = moves;
            }
            Compound::For {
                variable,
                words,
                body,
            } => {
                self.others.push(variable.clone());
                words.iter().flatten().for_each(|word| self.word(word));
                self.script(body);
            }
            Compound::ForArithmetic(clause) => {
                let ArithmeticLoop {
                    start,
                    condition,
                    step,
                    body,
                } = &**clause;
                for expression in [start, condition, step] {
                    self.arithmetic(expression);
                }
                self.script(body);
            }
            Compound::While {
                until: _,
                condition,
                body,
            } => {
                self.script(condition);
                self.script(body);
            }
            Compound::If {
                branches,
                otherwise,
            } => {
                for (condition, body) in branches {
                    self.script(condition);
                    self.script(body);
                }
                otherwise.iter().for_each(|script| self.script(script));
            }
            Compound::Case { subject, arms } => {
                self.word(subject);
                arms.iter().for_each(|arm| self.script(&arm.body));
            }
            Compound::Arithmetic(expression) => self.arithmetic(expression),
        }
    }
}
