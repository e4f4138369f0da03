//! The bash parser's view of a command: bounded before it is parsed, then
//! walked. A construct the walk does not know does not compile.

use std::io::Cursor;
use std::panic::catch_unwind;

use brush_parser::ast::{
    AndOr, AndOrList, AssignmentValue, Command, CommandPrefixOrSuffixItem, CompoundList,
    CompoundListItem, IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, Program,
    SeparatorOperator, SimpleCommand, Word,
};
use brush_parser::{Parser, ParserOptions, Token, uncached_tokenize_str};

use crate::limits::{MAX_COMMAND_BRANCHES, MAX_COMMAND_EXPANSIONS, MAX_COMMAND_KEYWORDS};

use super::{CommandRefusal, reader};

/// Parses a command after checking that the parser can take it.
pub(super) fn parse(command: &str) -> Result<Program, CommandRefusal> {
    let options = ParserOptions::default();
    check_expansions(command)?;
    // The bounds keep the parser from running away; should it panic all the
    // same, that is a refusal, not the end of the caller.
    let parsed = catch_unwind(|| {
        let tokens = uncached_tokenize_str(command, &options.tokenizer_options())
            .map_err(|error| unreadable(command, &error.to_string()))?;
        check_nesting(command, &tokens)?;
        check_stream_numbers(&tokens)?;
        Parser::new(Cursor::new(command), &options)
            .parse_program()
            .map_err(|error| unreadable(command, &error.to_string()))
    });
    parsed.unwrap_or_else(|_| Err(unreadable(command, "the parser gave up")))
}

fn unreadable(command: &str, error: &str) -> CommandRefusal {
    CommandRefusal::new(command, format!("it is not valid shell: {error}"))
}

fn check_expansions(command: &str) -> Result<(), CommandRefusal> {
    let openers = ["$(", "${", "$[", "`", "<(", ">("];
    let count: usize = openers
        .iter()
        .map(|opener| command.matches(opener).count())
        .sum();
    if count > MAX_COMMAND_EXPANSIONS {
        let reason = format!("it holds more than {MAX_COMMAND_EXPANSIONS} expansions");
        return Err(CommandRefusal::new(command, reason));
    }
    Ok(())
}

fn check_nesting(command: &str, tokens: &[Token]) -> Result<(), CommandRefusal> {
    let mut keywords = 0;
    let mut branches = 0;
    for token in tokens {
        match token {
            Token::Operator(text, _) => branches += text.matches('(').count(),
            Token::Word(text, _) if text == "case" => branches += 1,
            Token::Word(text, _) => keywords += usize::from(opens_compound(text)),
        }
    }
    if keywords > MAX_COMMAND_KEYWORDS || branches > MAX_COMMAND_BRANCHES {
        let reason = "it holds too many nested constructs to be read; write a script file";
        return Err(CommandRefusal::new(command, reason));
    }
    Ok(())
}

/// The parser takes any digits before a redirection for a number it can hold.
fn check_stream_numbers(tokens: &[Token]) -> Result<(), CommandRefusal> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let too_large = tokens.windows(2).find_map(|pair| match pair {
        [Token::Word(number, _), Token::Operator(operator, _)]
            if operator.starts_with(['<', '>']) && is_number(number) && number.len() > 4 =>
        {
            Some(number)
        }
        _ => None,
    });
    match too_large {
        None => Ok(()),
        Some(number) => Err(CommandRefusal::new(
            number,
            "there is no such stream to redirect",
        )),
    }
}

fn opens_compound(word: &str) -> bool {
    [
        "if", "elif", "while", "until", "for", "select", "function", "coproc", "time", "!", "{",
        "[[",
    ]
    .contains(&word)
}

/// The words of each command, if the line is made of pipelines and lists of
/// simple commands only.
pub(super) fn flat_commands(command: &str) -> Result<Vec<Vec<String>>, CommandRefusal> {
    let mut commands = Vec::new();
    for list in parse(command)?.complete_commands {
        flat_list(&list, &mut commands)?;
    }
    Ok(commands)
}

fn flat_list(list: &CompoundList, commands: &mut Vec<Vec<String>>) -> Result<(), CommandRefusal> {
    for CompoundListItem(and_or, separator) in &list.0 {
        match separator {
            SeparatorOperator::Sequence => {}
            SeparatorOperator::Async => {
                let reason = "commands in the background are not accepted";
                return Err(CommandRefusal::new(&and_or.to_string(), reason));
            }
        }
        for pipeline in pipelines(and_or) {
            flat_pipeline(pipeline, commands)?;
        }
    }
    Ok(())
}

/// Every pipeline of a list.
pub(super) fn pipelines(list: &AndOrList) -> impl Iterator<Item = &Pipeline> {
    let further = list.additional.iter().map(|next| match next {
        AndOr::And(pipeline) | AndOr::Or(pipeline) => pipeline,
    });
    std::iter::once(&list.first).chain(further)
}

fn flat_pipeline(
    pipeline: &Pipeline,
    commands: &mut Vec<Vec<String>>,
) -> Result<(), CommandRefusal> {
    let refused = |construct: &dyn ToString, name: &str| {
        let reason = format!("{name} are not accepted, only pipelines and lists of programs");
        Err(CommandRefusal::new(&construct.to_string(), reason))
    };
    if pipeline.bang || pipeline.timed.is_some() {
        return refused(pipeline, "`!` and `time`");
    }
    for command in &pipeline.seq {
        match command {
            Command::Simple(simple) => {
                let words = flat_words(simple)?;
                if !words.is_empty() {
                    commands.push(words);
                }
            }
            Command::Compound(compound, _) => return refused(compound, "compound commands"),
            Command::Function(function) => return refused(function, "function definitions"),
            Command::ExtendedTest(test, _) => return refused(test, "`[[ … ]]` tests"),
        }
    }
    Ok(())
}

fn flat_words(command: &SimpleCommand) -> Result<Vec<String>, CommandRefusal> {
    let mut words = Vec::new();
    for item in command.prefix.iter().flat_map(|prefix| &prefix.0) {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => flat_redirect(redirect)?,
            CommandPrefixOrSuffixItem::Word(word) => words.push(flat_word(word)?),
            CommandPrefixOrSuffixItem::AssignmentWord(_, word) => {
                return Err(CommandRefusal::new(
                    &word.value,
                    "assignments are not accepted",
                ));
            }
            CommandPrefixOrSuffixItem::ProcessSubstitution(..) => {
                return Err(process_substitution(item));
            }
        }
    }
    words.extend(command.word_or_name.as_ref().map(flat_word).transpose()?);
    for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => flat_redirect(redirect)?,
            CommandPrefixOrSuffixItem::Word(word) => words.push(flat_word(word)?),
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => match assignment.value {
                AssignmentValue::Scalar(_) => words.push(flat_word(word)?),
                AssignmentValue::Array(_) => {
                    return Err(CommandRefusal::new(&word.value, "arrays are not accepted"));
                }
            },
            CommandPrefixOrSuffixItem::ProcessSubstitution(..) => {
                return Err(process_substitution(item));
            }
        }
    }
    Ok(words)
}

fn process_substitution(item: &CommandPrefixOrSuffixItem) -> CommandRefusal {
    CommandRefusal::new(&item.to_string(), "process substitution is not accepted")
}

fn flat_word(word: &Word) -> Result<String, CommandRefusal> {
    reader::read_word(&word.value)
}

/// Accepts redirections among the standard streams and to the null device.
fn flat_redirect(redirect: &IoRedirect) -> Result<(), CommandRefusal> {
    let accepted = match redirect {
        IoRedirect::File(number, kind, target) => {
            number.is_none_or(|number| (0..=2).contains(&number)) && flat_target(kind, target)?
        }
        IoRedirect::OutputAndError(target, _) => is_null_device(target)?,
        IoRedirect::HereDocument(..) | IoRedirect::HereString(..) => false,
    };
    if accepted {
        Ok(())
    } else {
        let reason = "only /dev/null and the standard streams can be redirected to";
        Err(CommandRefusal::new(&redirect.to_string(), reason))
    }
}

fn flat_target(
    kind: &IoFileRedirectKind,
    target: &IoFileRedirectTarget,
) -> Result<bool, CommandRefusal> {
    let duplicates = match kind {
        IoFileRedirectKind::Read
        | IoFileRedirectKind::Write
        | IoFileRedirectKind::Append
        | IoFileRedirectKind::Clobber => false,
        IoFileRedirectKind::DuplicateInput | IoFileRedirectKind::DuplicateOutput => true,
        IoFileRedirectKind::ReadAndWrite => return Ok(false),
    };
    match target {
        IoFileRedirectTarget::Filename(word) => Ok(!duplicates && is_null_device(word)?),
        IoFileRedirectTarget::Fd(number) => Ok(duplicates && (0..=2).contains(number)),
        IoFileRedirectTarget::Duplicate(word) => {
            Ok(duplicates && ["0", "1", "2", "-"].contains(&flat_word(word)?.as_str()))
        }
        IoFileRedirectTarget::ProcessSubstitution(..) => Ok(false),
    }
}

fn is_null_device(word: &Word) -> Result<bool, CommandRefusal> {
    Ok(flat_word(word)? == "/dev/null")
}
