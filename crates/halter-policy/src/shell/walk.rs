//! The walk over a command line: everything it would run is judged, and what
//! is known of its variables is carried along.

use super::CommandRefusal;
use super::argument;
use super::changes::Changes;
use super::programs::Programs;
use super::state::{Shape, State, tells_shape};
use super::tree::{
    Arithmetic, ArithmeticLoop, Assigned, Assignment, Command, Compound, HereBody, Index, Item,
    Link, Operation, Parameter, ParameterName, Piece, Pipeline, Redirect, RedirectKind, Script,
    Simple, Test, Word,
};
use super::{builtins, programs, state, variables};

/// Judges a script, with this known before it.
pub(super) fn script(
    programs: Programs<'_>,
    script: &Script,
    state: &mut State,
) -> Result<(), CommandRefusal> {
    Walk { programs }.lines(script, state)
}

#[derive(Clone, Copy)]
struct Walk<'a> {
    programs: Programs<'a>,
}

impl Walk<'_> {
    fn script(self, script: &Script, state: &mut State) -> Result<(), CommandRefusal> {
        script
            .items
            .iter()
            .try_for_each(|item| self.item(item, state))
    }

    /// A whole command line. An expansion that fails ends the line it is in,
    /// not those behind it, so what that line has set is not known there.
    fn lines(self, script: &Script, state: &mut State) -> Result<(), CommandRefusal> {
        let mut before = state.clone();
        let mut line = Vec::new();
        for item in &script.items {
            self.item(item, state)?;
            line.push(item);
            if item.ends_line {
                if state.may_abort {
                    let functions = state.functions.clone();
                    Changes::of_items(&line, &functions).undo(&before, state);
                }
                before = state.clone();
                line.clear();
            }
        }
        Ok(())
    }

    /// Runs in a shell of its own: nothing of it stays.
    fn apart(self, script: &Script, state: &State) -> Result<(), CommandRefusal> {
        self.script(script, &mut state.clone())
    }

    fn item(self, item: &Item, state: &mut State) -> Result<(), CommandRefusal> {
        if item.background {
            let mut apart = state.clone();
            return self.chain(&item.chain, &mut apart);
        }
        let before = state.directories.clone();
        self.chain(&item.chain, state)?;
        // A `cd` may have failed.
        state.also_in(&before);
        Ok(())
    }

    fn chain(self, chain: &[(Link, Pipeline)], state: &mut State) -> Result<(), CommandRefusal> {
        let mut outcomes = Vec::new();
        for (link, pipeline) in chain {
            let before = state.clone();
            self.pipeline(pipeline, state)?;
            match link {
                Link::First => {}
                // It may not have run.
                Link::And | Link::Or => outcomes.push(before),
            }
        }
        for outcome in &outcomes {
            state.join(outcome);
        }
        Ok(())
    }

    fn pipeline(self, pipeline: &Pipeline, state: &mut State) -> Result<(), CommandRefusal> {
        match pipeline.commands.as_slice() {
            [command] => self.command(command, state),
            commands => commands
                .iter()
                .try_for_each(|command| self.command(command, &mut state.clone())),
        }
    }

    fn command(self, command: &Command, state: &mut State) -> Result<(), CommandRefusal> {
        match command {
            Command::Simple(simple) => {
                let before = state.clone();
                self.simple(simple, state)?;
                if !simple.redirects.is_empty() {
                    state.join(&before);
                }
                Ok(())
            }
            Command::Compound(compound, redirects) => {
                self.redirects(redirects, state)?;
                self.programs.record_redirections(state);
                let before = state.clone();
                self.compound(compound, state)?;
                // A file that cannot be opened keeps it from running.
                if !redirects.is_empty() {
                    state.join(&before);
                }
                Ok(())
            }
            Command::Function {
                name,
                body,
                redirects,
            } => self.function(name, body, redirects, state),
            Command::Test(test, redirects) => {
                self.redirects(redirects, state)?;
                self.programs.record_redirections(state);
                self.test(test, state)
            }
        }
    }

    fn function(
        self,
        name: &str,
        body: &Compound,
        redirects: &[Redirect],
        state: &mut State,
    ) -> Result<(), CommandRefusal> {
        if self.programs.names(name)
            || programs::is_known(name)
            || builtins::NAMES.contains(&name)
            || tells_shape(name)
            || name == "command_not_found_handle"
        {
            return Err(CommandRefusal::of(
                "shell.function",
                name,
                "a function must not take the name of a program or builtin; rename it",
            ));
        }
        let mut inside = state.inside_function();
        inside.functions.insert(name.to_owned());
        self.redirects(redirects, &mut inside)?;
        self.programs.record_redirections(&inside);
        self.compound(body, &mut inside)?;
        state.functions.insert(name.to_owned());
        Ok(())
    }

    fn compound(self, compound: &Compound, state: &mut State) -> Result<(), CommandRefusal> {
        match compound {
            Compound::Group(script) => self.script(script, state),
            Compound::Subshell(script) => self.apart(script, state),
            Compound::For {
                variable,
                words,
                body,
            } => {
                check_name(variable)?;
                let mut values = Vec::new();
                for word in words.iter().flatten() {
                    self.word(word, state)?;
                    values.extend(argument::arguments(word, state));
                }
                let before = state.clone();
                Changes::of(body, &before.functions).apply(state);
                state.set(variable, State::common(&values));
                self.script(body, state)?;
                state.forget_one(variable);
                state.join(&before);
                Ok(())
            }
            Compound::ForArithmetic(clause) => {
                let ArithmeticLoop {
                    start,
                    condition,
                    step,
                    body,
                } = &**clause;
                self.arithmetic(start, state)?;
                let before = state.clone();
                Changes::of(body, &before.functions).apply(state);
                self.arithmetic(condition, state)?;
                self.script(body, state)?;
                self.arithmetic(step, state)?;
                state.join(&before);
                Ok(())
            }
            Compound::While {
                until: _,
                condition,
                body,
            } => {
                let before = state.clone();
                Changes::of(condition, &before.functions).apply(state);
                Changes::of(body, &before.functions).apply(state);
                self.script(condition, state)?;
                self.script(body, state)?;
                state.join(&before);
                Ok(())
            }
            Compound::If {
                branches,
                otherwise,
            } => self.conditional(branches, otherwise.as_ref(), state),
            Compound::Case { subject, arms } => {
                self.word(subject, state)?;
                let before = state.clone();
                for arm in arms {
                    for pattern in &arm.patterns {
                        self.word(pattern, state)?;
                    }
                    // `;&` goes on into the next arm.
                    self.script(&arm.body, state)?;
                    state.join(&before);
                }
                Ok(())
            }
            Compound::Arithmetic(expression) => self.arithmetic(expression, state),
        }
    }

    fn conditional(
        self,
        branches: &[(Script, Script)],
        otherwise: Option<&Script>,
        state: &mut State,
    ) -> Result<(), CommandRefusal> {
        let mut outcomes = Vec::new();
        for (condition, body) in branches {
            self.script(condition, state)?;
            let mut taken = state.clone();
            self.script(body, &mut taken)?;
            outcomes.push(taken);
        }
        if let Some(otherwise) = otherwise {
            self.script(otherwise, state)?;
        }
        for outcome in &outcomes {
            state.join(outcome);
        }
        Ok(())
    }

    fn test(self, test: &Test, state: &mut State) -> Result<(), CommandRefusal> {
        match test {
            Test::And(left, right) | Test::Or(left, right) => {
                self.test(left, state)?;
                self.test(right, state)
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

    fn simple(self, simple: &Simple, state: &mut State) -> Result<(), CommandRefusal> {
        let mut arguments = Vec::new();
        for word in &simple.words {
            self.word(word, state)?;
            arguments.extend(argument::arguments(word, state));
        }
        self.redirects(&simple.redirects, state)?;
        let reads = arguments.first().is_some_and(|first| first.text == "read");
        for assignment in &simple.assignments {
            self.assigned(assignment, state)?;
            // `IFS= read` is how lines are read, and holds for it alone.
            if !(reads && assignment.name == "IFS") {
                check_name(&assignment.name)?;
            }
        }
        self.programs.record(simple, &arguments, state);
        let Some(program) = arguments.first() else {
            for assignment in &simple.assignments {
                set(assignment, state);
            }
            return Ok(());
        };
        // A word that may vanish would make the next one the program.
        if !program.is_literal() || simple.words.first().and_then(Word::literal).is_none() {
            return Err(CommandRefusal::of(
                "shell.program_not_literal",
                &program.raw,
                "the name of a program must be literal; write it out",
            ));
        }
        if state.functions.contains(&program.text) {
            state.may_abort = true;
            state.forget();
            state.directories.clear();
            return Ok(());
        }
        let temporary = simple.assignments.iter().find(|it| it.name != "IFS");
        let outcome = match builtins::call(self.programs, &arguments, simple, state) {
            Some(_) if temporary.is_some() => Err(CommandRefusal::of(
                "shell.variable",
                temporary.map_or("", |it| it.raw.as_str()),
                "a builtin is not given variables; assign them in a command of their own",
            )),
            Some(outcome) => outcome,
            None => self.programs.check(&arguments),
        };
        self.programs.settle(outcome)
    }

    fn assigned(self, assignment: &Assignment, state: &mut State) -> Result<(), CommandRefusal> {
        if let Some(index) = &assignment.index {
            self.index(index, state)?;
        }
        match &assignment.value {
            Assigned::Scalar(value) => self.word(value, state),
            Assigned::Array(elements) => elements
                .iter()
                .try_for_each(|element| self.word(element, state)),
        }
    }

    fn redirects(self, redirects: &[Redirect], state: &mut State) -> Result<(), CommandRefusal> {
        redirects
            .iter()
            .try_for_each(|redirect| self.redirect(redirect, state))
    }

    fn redirect(self, redirect: &Redirect, state: &mut State) -> Result<(), CommandRefusal> {
        let refuse = |reason: &str| {
            let fragment = redirect.target.raw.as_str();
            Err(CommandRefusal::of("shell.redirection", fragment, reason))
        };
        if redirect.stream.is_some_and(|stream| stream > 9) {
            return refuse("only the streams 0 to 9 can be redirected");
        }
        match &redirect.kind {
            RedirectKind::HereDocument { body, .. } => match body {
                HereBody::Literal(_) => Ok(()),
                HereBody::Expanded(word) => self.word(word, state),
            },
            RedirectKind::HereString => self.word(&redirect.target, state),
            RedirectKind::DuplicateInput | RedirectKind::DuplicateOutput => {
                let target = redirect.target.literal().unwrap_or_default();
                let stream = target.len() == 1 && target.bytes().all(|byte| byte.is_ascii_digit());
                if stream || target == "-" {
                    return Ok(());
                }
                refuse("write `&> file` to redirect both streams to a file")
            }
            RedirectKind::Read
            | RedirectKind::Write
            | RedirectKind::Append
            | RedirectKind::Clobber
            | RedirectKind::ReadWrite
            | RedirectKind::Both
            | RedirectKind::BothAppend => {
                self.word(&redirect.target, state)?;
                let target = argument::value(&redirect.target, state);
                // The shell itself takes these for network addresses.
                let text = target.text.as_str();
                if ["/dev/tcp", "/dev/udp"]
                    .iter()
                    .any(|it| text.starts_with(it))
                {
                    return refuse("this opens a network connection");
                }
                // An expansion that becomes several words is an error of bash.
                let lists = |piece: &Piece| matches!(piece, Piece::Braces(_) | Piece::Range(_));
                if target.glob.is_some() || redirect.target.pieces.iter().any(lists) {
                    return refuse("the target of a redirection must be one file");
                }
                self.programs.redirection(&redirect.kind, &target);
                Ok(())
            }
        }
    }

    /// Everything that expanding a word would run.
    fn word(self, word: &Word, state: &mut State) -> Result<(), CommandRefusal> {
        self.pieces(&word.pieces, state)
    }

    fn pieces(self, pieces: &[Piece], state: &mut State) -> Result<(), CommandRefusal> {
        pieces.iter().try_for_each(|piece| self.piece(piece, state))
    }

    fn piece(self, piece: &Piece, state: &mut State) -> Result<(), CommandRefusal> {
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
                self.apart(script, state)
            }
            Piece::Arithmetic(expression) => self.expanded(expression, state),
            Piece::Array(assignment) => self.assigned(assignment, state),
        }
    }

    fn parameter(self, parameter: &Parameter, state: &mut State) -> Result<(), CommandRefusal> {
        if let Some(index) = &parameter.index {
            self.index(index, state)?;
        }
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

    fn index(self, index: &Index, state: &mut State) -> Result<(), CommandRefusal> {
        match index {
            Index::All => Ok(()),
            Index::At(expression) => self.expanded(expression, state),
        }
    }

    /// Arithmetic in an expansion, where an error ends the line.
    fn expanded(self, expression: &Arithmetic, state: &mut State) -> Result<(), CommandRefusal> {
        self.arithmetic(expression, state)?;
        state.may_abort |= !cannot_fail(expression);
        Ok(())
    }

    /// Arithmetic evaluates what a variable holds, and with it substitutions
    /// in there: only numbers are safe.
    fn arithmetic(self, expression: &Arithmetic, state: &mut State) -> Result<(), CommandRefusal> {
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

/// Judges one arithmetic expression, for `let`.
pub(super) fn arithmetic(
    programs: Programs<'_>,
    expression: &Arithmetic,
    state: &mut State,
) -> Result<(), CommandRefusal> {
    Walk { programs }.arithmetic(expression, state)
}

fn set(assignment: &Assignment, state: &mut State) {
    let plain = assignment.index.is_none() && !assignment.append;
    match &assignment.value {
        Assigned::Scalar(value) if plain => {
            let shape = state.shape(value);
            state.set(&assignment.name, shape);
        }
        Assigned::Scalar(_) | Assigned::Array(_) => state.forget_one(&assignment.name),
    }
}

/// Fails if setting the variable could decide what runs.
pub(super) fn check_name(name: &str) -> Result<(), CommandRefusal> {
    match variables::refuse(name) {
        None => Ok(()),
        Some(reason) => Err(CommandRefusal::of("shell.variable", name, reason)),
    }
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
