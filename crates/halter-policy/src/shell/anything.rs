//! The check that is left when every program is allowed: the whole command is
//! walked, and nothing in it may run text as code.

use brush_parser::ast::{
    Assignment, AssignmentName, AssignmentValue, CaseItem, Command, CommandPrefixOrSuffixItem,
    CompoundCommand, CompoundList, CompoundListItem, ElseClause, ExtendedTestExpr,
    IoFileRedirectTarget, IoRedirect, RedirectList, SeparatorOperator, SimpleCommand,
    SubshellCommand, Word,
};

use super::{CODE_RUNNERS, CommandRefusal, reader, syntax};

/// Fails if the command does not parse, names a program by anything but a
/// literal, or runs text as code.
pub(super) fn check(command: &str) -> Result<(), CommandRefusal> {
    let program = syntax::parse(command)?;
    program.complete_commands.iter().try_for_each(list)
}

fn list(list: &CompoundList) -> Result<(), CommandRefusal> {
    for CompoundListItem(and_or, separator) in &list.0 {
        match separator {
            SeparatorOperator::Async | SeparatorOperator::Sequence => {}
        }
        for pipeline in syntax::pipelines(and_or) {
            pipeline.seq.iter().try_for_each(command)?;
        }
    }
    Ok(())
}

fn command(command: &Command) -> Result<(), CommandRefusal> {
    match command {
        Command::Simple(command) => simple(command),
        Command::Compound(command, redirects) => {
            compound(command)?;
            redirections(redirects.as_ref())
        }
        Command::Function(function) => {
            text(&function.fname.value)?;
            compound(&function.body.0)?;
            redirections(function.body.1.as_ref())
        }
        Command::ExtendedTest(test, redirects) => {
            extended_test(&test.expr)?;
            redirections(redirects.as_ref())
        }
    }
}

fn compound(command: &CompoundCommand) -> Result<(), CommandRefusal> {
    match command {
        CompoundCommand::Arithmetic(arithmetic) => text(&arithmetic.expr.value),
        CompoundCommand::ArithmeticForClause(clause) => {
            let parts = [&clause.initializer, &clause.condition, &clause.updater];
            parts
                .into_iter()
                .flatten()
                .try_for_each(|part| text(&part.value))?;
            list(&clause.body.list)
        }
        CompoundCommand::BraceGroup(group) => list(&group.list),
        CompoundCommand::Subshell(subshell) => list(&subshell.list),
        CompoundCommand::ForClause(clause) => {
            words(clause.values.iter().flatten())?;
            list(&clause.body.list)
        }
        CompoundCommand::CaseClause(clause) => {
            text(&clause.value.value)?;
            clause.cases.iter().try_for_each(case_item)
        }
        CompoundCommand::IfClause(clause) => {
            list(&clause.condition)?;
            list(&clause.then)?;
            clause.elses.iter().flatten().try_for_each(else_clause)
        }
        CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
            list(&clause.0)?;
            list(&clause.1.list)
        }
        CompoundCommand::Coprocess(coprocess) => {
            words(coprocess.name.iter())?;
            self::command(&coprocess.body)
        }
    }
}

fn case_item(item: &CaseItem) -> Result<(), CommandRefusal> {
    words(item.patterns.iter())?;
    item.cmd.iter().try_for_each(list)
}

fn else_clause(clause: &ElseClause) -> Result<(), CommandRefusal> {
    clause.condition.iter().try_for_each(list)?;
    list(&clause.body)
}

fn simple(command: &SimpleCommand) -> Result<(), CommandRefusal> {
    let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
    let suffix = command.suffix.iter().flat_map(|suffix| &suffix.0);
    prefix.chain(suffix).try_for_each(item)?;
    let Some(program) = &command.word_or_name else {
        return Ok(());
    };
    let arguments = command
        .suffix
        .iter()
        .flat_map(|suffix| &suffix.0)
        .filter_map(|item| match item {
            CommandPrefixOrSuffixItem::Word(word)
            | CommandPrefixOrSuffixItem::AssignmentWord(_, word) => Some(word),
            CommandPrefixOrSuffixItem::IoRedirect(_)
            | CommandPrefixOrSuffixItem::ProcessSubstitution(..) => None,
        });
    run_by(program, arguments)
}

/// What a command runs: its first word, or what follows `command` and
/// `builtin`.
fn run_by<'a>(
    program: &'a Word,
    mut arguments: impl Iterator<Item = &'a Word>,
) -> Result<(), CommandRefusal> {
    let mut name = literal(program)?;
    while name == "command" || name == "builtin" {
        let next = arguments.find(|word| !word.value.starts_with('-'));
        let Some(next) = next else {
            return Ok(());
        };
        name = literal(next)?;
    }
    if CODE_RUNNERS.contains(&name.as_str()) {
        return Err(runs_code(&name));
    }
    Ok(())
}

fn literal(word: &Word) -> Result<String, CommandRefusal> {
    reader::read_program(&word.value).ok_or_else(|| {
        CommandRefusal::of(
            "shell.program_not_literal",
            &word.value,
            "the name of a program must be literal; write it out",
        )
    })
}

fn runs_code(fragment: &str) -> CommandRefusal {
    CommandRefusal::of(
        "shell.code",
        fragment,
        "`eval`, `exec`, `source` and `.` are never accepted; run the command itself",
    )
}

fn item(item: &CommandPrefixOrSuffixItem) -> Result<(), CommandRefusal> {
    match item {
        CommandPrefixOrSuffixItem::IoRedirect(redirect) => redirection(redirect),
        CommandPrefixOrSuffixItem::Word(word) => text(&word.value),
        CommandPrefixOrSuffixItem::AssignmentWord(assigned, word) => {
            text(&word.value)?;
            assignment(assigned)
        }
        CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => substitution(subshell),
    }
}

fn assignment(assignment: &Assignment) -> Result<(), CommandRefusal> {
    match &assignment.name {
        AssignmentName::VariableName(_) => {}
        AssignmentName::ArrayElementName(_, index) => text(index)?,
    }
    match &assignment.value {
        AssignmentValue::Scalar(word) => text(&word.value),
        AssignmentValue::Array(elements) => elements.iter().try_for_each(|(key, value)| {
            words(key.iter())?;
            text(&value.value)
        }),
    }
}

fn substitution(subshell: &SubshellCommand) -> Result<(), CommandRefusal> {
    list(&subshell.list)
}

fn redirections(redirects: Option<&RedirectList>) -> Result<(), CommandRefusal> {
    redirects
        .iter()
        .flat_map(|redirects| &redirects.0)
        .try_for_each(redirection)
}

fn redirection(redirect: &IoRedirect) -> Result<(), CommandRefusal> {
    match redirect {
        IoRedirect::File(_, _, target) => match target {
            IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
                text(&word.value)
            }
            IoFileRedirectTarget::Fd(_) => Ok(()),
            IoFileRedirectTarget::ProcessSubstitution(_, subshell) => substitution(subshell),
        },
        IoRedirect::HereDocument(_, document) if document.requires_expansion => {
            text(&document.doc.value)
        }
        IoRedirect::HereDocument(..) => Ok(()),
        IoRedirect::HereString(_, word) | IoRedirect::OutputAndError(word, _) => text(&word.value),
    }
}

fn extended_test(test: &ExtendedTestExpr) -> Result<(), CommandRefusal> {
    match test {
        ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
            extended_test(left)?;
            extended_test(right)
        }
        ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
            extended_test(inner)
        }
        ExtendedTestExpr::UnaryTest(_, word) => text(&word.value),
        ExtendedTestExpr::BinaryTest(_, left, right) => {
            text(&left.value)?;
            text(&right.value)
        }
    }
}

fn words<'a>(mut words: impl Iterator<Item = &'a Word>) -> Result<(), CommandRefusal> {
    words.try_for_each(|word| text(&word.value))
}

/// Looks for the four names in text that the shell would expand. Quotes are
/// dropped first, so that `ev''al` counts. `eval` and `exec` count anywhere;
/// `source` and `.` are ordinary words too, so they count where a command
/// starts.
fn text(raw: &str) -> Result<(), CommandRefusal> {
    if !raw.contains(['$', '`']) {
        return Ok(());
    }
    let plain: String = raw.chars().filter(|c| !"'\"\\".contains(*c)).collect();
    let in_word = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let mut before = ' ';
    let mut rest = plain.as_str();
    while let Some(first) = rest.chars().next() {
        let word_end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word_end);
        if word.is_empty() {
            if !first.is_whitespace() || first == '\n' {
                before = first;
            }
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        let starts_command = "(`;|&{\n!".contains(before);
        let runner = match word {
            "eval" | "exec" => true,
            "source" | "." => starts_command,
            _ => false,
        };
        if runner {
            return Err(runs_code(raw));
        }
        let passes_on = starts_command && (word == "command" || word == "builtin");
        before = if passes_on { before } else { ' ' };
        rest = after;
    }
    Ok(())
}
