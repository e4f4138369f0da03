//! The bash parser's view of a command: bounded before it is parsed, then
//! walked. A construct the walk does not know does not compile.

use std::panic::catch_unwind;

use brush_parser::ast::{AndOr, AndOrList, Pipeline, Program};
use brush_parser::{ParserOptions, Token, parse_tokens, uncached_tokenize_str};

use crate::limits::{
    MAX_CLOSED_BRANCHES, MAX_COMMAND_BRANCHES, MAX_COMMAND_EXPANSIONS, MAX_COMMAND_KEYWORDS,
    MAX_COMMAND_WORDS,
};

use super::CommandRefusal;

/// Parses a command that nobody has read before.
pub(super) fn parse(command: &str) -> Result<Program, CommandRefusal> {
    parse_within(command, MAX_COMMAND_BRANCHES)
}

/// Parses a command whose every construct is closed.
pub(super) fn parse_closed(command: &str) -> Result<Program, CommandRefusal> {
    parse_within(command, MAX_CLOSED_BRANCHES)
}

/// Parses a command after checking that the parser can take it.
fn parse_within(command: &str, most_branches: usize) -> Result<Program, CommandRefusal> {
    let options = ParserOptions::default();
    check_expansions(command)?;
    // The bounds keep the parser from running away; should it panic all the
    // same, that is a refusal, not the end of the caller.
    let parsed = catch_unwind(|| {
        let tokens = uncached_tokenize_str(command, &options.tokenizer_options())
            .map_err(|error| unreadable(command, &error.to_string()))?;
        check_length(command, &tokens)?;
        check_nesting(command, &tokens, most_branches)?;
        check_stream_numbers(&tokens)?;
        parse_tokens(&tokens, &options).map_err(|error| unreadable(command, &error.to_string()))
    });
    parsed.unwrap_or_else(|_| Err(unreadable(command, "the parser gave up")))
}

fn unreadable(command: &str, error: &str) -> CommandRefusal {
    CommandRefusal::of(
        "shell.syntax",
        command,
        format!("it is not valid shell: {error}"),
    )
}

fn check_expansions(command: &str) -> Result<(), CommandRefusal> {
    let openers = ["$(", "${", "$[", "`", "<(", ">("];
    let count: usize = openers
        .iter()
        .map(|opener| command.matches(opener).count())
        .sum();
    if count > MAX_COMMAND_EXPANSIONS {
        let reason = format!("it holds more than {MAX_COMMAND_EXPANSIONS} expansions");
        return Err(CommandRefusal::of("shell.too_deep", command, reason));
    }
    Ok(())
}

fn check_length(command: &str, tokens: &[Token]) -> Result<(), CommandRefusal> {
    // Both ends of a here-document count, and so do newlines.
    if tokens.len() > 2 * MAX_COMMAND_WORDS {
        let reason = format!("it holds more than {MAX_COMMAND_WORDS} words; write a script file");
        return Err(CommandRefusal::of("shell.too_long", command, reason));
    }
    Ok(())
}

fn check_nesting(
    command: &str,
    tokens: &[Token],
    most_branches: usize,
) -> Result<(), CommandRefusal> {
    let mut keywords = 0;
    let mut branches = 0;
    for token in tokens {
        match token {
            Token::Operator(text, _) => branches += text.matches('(').count(),
            Token::Word(text, _) if text == "case" => branches += 1,
            Token::Word(text, _) => keywords += usize::from(opens_compound(text)),
        }
    }
    if keywords > MAX_COMMAND_KEYWORDS || branches > most_branches {
        let reason = "it holds too many nested constructs to be read; write a script file";
        return Err(CommandRefusal::of("shell.too_deep", command, reason));
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
        Some(number) => Err(CommandRefusal::of(
            "shell.redirection",
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

/// Every pipeline of a list.
pub(super) fn pipelines(list: &AndOrList) -> impl Iterator<Item = &Pipeline> {
    let further = list.additional.iter().map(|next| match next {
        AndOr::And(pipeline) | AndOr::Or(pipeline) => pipeline,
    });
    std::iter::once(&list.first).chain(further)
}
