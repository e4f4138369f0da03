//! The walk over a command line: everything it would run is judged, and what
//! is known of its variables is carried along.

mod expansion;

use super::CommandRefusal;
use super::argument::{self, Argument};
use super::changes::Changes;
use super::programs::Programs;
use super::state::{State, tells_shape};
use super::tree::{
    Arithmetic, ArithmeticLoop, Assigned, Assignment, Compound, HereBody, Item, Link, Piece,
    Pipeline, ReadCommand, Redirect, RedirectKind, Script, Simple, Word,
};
use super::{builtins, known_programs, variables};

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
        // A `cd` may have failed, unless the line goes on only if it has not.
        if !ends_in_exit(&item.chain) {
            state.also_in(&before);
        }
        Ok(())
    }

    fn chain(self, chain: &[(Link, Pipeline)], state: &mut State) -> Result<(), CommandRefusal> {
        let mut outcomes = Vec::new();
        let (last, chain) = match chain.split_last() {
            Some((last, before)) if ends_in_exit(chain) => (Some(last), before),
            _ => (None, chain),
        };
        for (link, pipeline) in chain {
            let before = state.clone();
            self.pipeline(pipeline, state)?;
            match link {
                Link::First => {}
                // It may not have run.
                Link::And | Link::Or => outcomes.push(before),
            }
        }
        if let Some((_, pipeline)) = last {
            // What comes behind it has seen all of the rest succeed.
            return self.pipeline(pipeline, &mut state.clone());
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

    fn command(self, command: &ReadCommand, state: &mut State) -> Result<(), CommandRefusal> {
        match command {
            ReadCommand::Simple(simple) => {
                let before = state.clone();
                self.simple(simple, state)?;
                if !simple.redirects.is_empty() {
                    state.join(&before);
                }
                Ok(())
            }
            ReadCommand::Compound(compound, redirects) => {
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
            ReadCommand::Function {
                name,
                body,
                redirects,
            } => self.function(name, body, redirects, state),
            ReadCommand::Test(test, redirects) => {
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
            || known_programs::is_known(name)
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
        let start = self.programs.recorded();
        self.redirects(redirects, &mut inside)?;
        self.programs.record_redirections(&inside);
        self.compound(body, &mut inside)?;
        self.programs.record_function(start);
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
                // What it goes through is most often files.
                self.programs.record_paths(&values, state);
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
                        // An earlier one may have matched.
                        let unmatched = state.clone();
                        self.word(pattern, state)?;
                        state.join(&unmatched);
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
            if self.programs.moves() {
                state.go(None);
            }
            return Ok(());
        }
        if moves(&arguments) {
            self.programs.record_move();
        }
        let temporary = simple.assignments.iter().find(|it| it.name != "IFS");
        let outcome = match builtins::call(self.programs, &arguments, simple, state) {
            Some(_) if temporary.is_some() => Err(CommandRefusal::of(
                "shell.variable",
                temporary.map_or("", |it| it.raw.as_str()),
                "a builtin is not given variables; assign them in a command of their own",
            )),
            Some(outcome) => outcome,
            None => {
                // `command cd` leads away as well.
                if moves(&arguments) {
                    state.go(None);
                }
                self.programs.check(&arguments)
            }
        };
        self.programs.settle(outcome)
    }

    fn assigned(self, assignment: &Assignment, state: &mut State) -> Result<(), CommandRefusal> {
        if let Some(index) = &assignment.index {
            self.index(index, state)?;
        }
        match &assignment.value {
            Assigned::Scalar(value) => self.word(value, state),
            Assigned::Array(elements) => elements.iter().try_for_each(|element| {
                // Bash 5.2 reads a substitution twice, and loses these on the
                // way.
                if state.in_substitution && element.raw.contains('\\') {
                    return Err(CommandRefusal::of(
                        "shell.expansion",
                        &element.raw,
                        "a backslash in a list within a substitution means different things to \
                         different shells; quote it with '…'",
                    ));
                }
                self.word(element, state)
            }),
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
}

/// Whether the command may change the shell's directory.
fn moves(arguments: &[Argument]) -> bool {
    let wraps = |word: &Argument| ["command", "builtin"].contains(&word.text.as_str());
    let wrapped = arguments.iter().skip_while(|word| wraps(word));
    let mut inner = wrapped.skip_while(|word| ["-p", "--"].contains(&word.text.as_str()));
    inner
        .next()
        .is_some_and(|word| builtins::MOVERS.contains(&word.text.as_str()))
}

/// Whether what follows a chain runs only where all of it but the end has
/// succeeded: `cd x || exit 1`.
fn ends_in_exit(chain: &[(Link, Pipeline)]) -> bool {
    let Some((Link::Or, pipeline)) = chain.last() else {
        return false;
    };
    let [ReadCommand::Simple(simple)] = pipeline.commands.as_slice() else {
        return false;
    };
    let words: Option<Vec<String>> = simple.words.iter().map(Word::literal).collect();
    let words = words.unwrap_or_default();
    let number = |word: &String| word.bytes().all(|byte| byte.is_ascii_digit());
    let others_are_and = |chain: &[(Link, Pipeline)]| {
        let before = chain.split_last().map(|(_, before)| before);
        before
            .unwrap_or_default()
            .iter()
            .all(|(link, pipeline)| *link != Link::Or && !pipeline.negated)
    };
    simple.assignments.is_empty()
        && simple.redirects.is_empty()
        && words.first().is_some_and(|first| first == "exit")
        && words.len() <= 2
        && words.iter().skip(1).all(number)
        && others_are_and(chain)
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
