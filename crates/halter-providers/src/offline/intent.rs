//! What a user's sentence asks for, by simple rules.

use crate::limits::{OFFLINE_PARALLEL_READS, OFFLINE_REQUEST_CHARS};

/// What the offline model understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    Greet,
    Summarize,
    /// Show these files.
    Read(Vec<String>),
    /// List files that match a glob.
    List(String),
    /// Find a text, in all files or below a path.
    Search {
        text: String,
        place: Option<String>,
    },
    Run(String),
    RunTests,
    Unclear,
}

/// Every file below the working directory.
pub const ALL_FILES: &str = "**/*";

/// Words before a request or a noun that say nothing here.
const FILLERS: &str = "please can could would you now just also me the a an all any my this";
const GREETINGS: &[&str] = &["hello", "hi", "hey", "good", "thanks", "thank", "help"];
const TESTS: &[&str] = &["tests", "test suite", "unit tests", "project's tests"];
const SEARCHES: &[&str] = &[
    "search for",
    "search",
    "grep",
    "find",
    "look for",
    "where is",
];

/// What the sentence asks for: the first rule that recognises it wins.
pub fn understand(sentence: &str) -> Intent {
    let read: String = sentence.chars().take(OFFLINE_REQUEST_CHARS).collect();
    let sentence = without_fillers(without_command(&read));
    let rules = [greeting, command, summary, listing, search, reading];
    let found = rules.iter().find_map(|rule| rule(sentence));
    found.unwrap_or(Intent::Unclear)
}

/// The text without the name of a command that it begins with, such as
/// `/review`, which is no path.
fn without_command(text: &str) -> &str {
    let text = text.trim_start();
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let is_command = first.strip_prefix('/').is_some_and(|name| {
        let mut letters = name.chars();
        letters.next().is_some_and(char::is_alphanumeric)
            && letters.all(|letter| letter.is_alphanumeric() || "_-:".contains(letter))
    });
    if is_command { rest } else { text }
}

fn greeting(sentence: &str) -> Option<Intent> {
    let rest = strip_any(sentence, GREETINGS)?;
    (rest.split_whitespace().count() <= 3 && paths(rest).is_empty()).then_some(Intent::Greet)
}

/// `run the tests`, `run git status`, `run "ls -l"`, `$ ls`.
fn command(sentence: &str) -> Option<Intent> {
    let rest = match sentence.strip_prefix("$ ") {
        Some(rest) => rest,
        None => strip_any(sentence, &["run", "execute"])?,
    };
    if TESTS.contains(&bare(without_fillers(rest)).to_ascii_lowercase().as_str()) {
        return Some(Intent::RunTests);
    }
    let quoted = quoted(rest).filter(|_| rest.starts_with(['`', '"']));
    let command = quoted.unwrap_or(rest).trim();
    (!command.is_empty()).then(|| Intent::Run(command.to_owned()))
}

fn summary(sentence: &str) -> Option<Intent> {
    let lower = sentence.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let about_everything = has(&["repo", "project", "codebase", "directory"]);
    let asks = has(&[
        "summar", "overview", "describe", "explain", "what is", "about",
    ]);
    let alone = ["summarize", "describe"].contains(&bare(&lower));
    (alone || (about_everything && asks && paths(sentence).is_empty())).then_some(Intent::Summarize)
}

/// `list files`, `list src/`, `list *.rs`, `which files are there?`, `find *.toml`.
fn listing(sentence: &str) -> Option<Intent> {
    let named = strip_any(sentence, &["list", "ls", "what files", "which files"]);
    let rest = named.or_else(|| {
        let rest = without_fillers(strip_any(sentence, &["show", "find"])?);
        (rest.starts_with('*') || rest.starts_with("files")).then_some(rest)
    })?;
    let words = rest.split_whitespace().map(bare);
    let place = words.clone().find(|word| word.contains(['*', '/']));
    Some(Intent::List(match place {
        Some(glob) if glob.contains('*') && !glob.contains('/') => format!("**/{glob}"),
        Some(glob) if glob.contains('*') => glob.to_owned(),
        Some(place) => format!("{}/**", place.trim_end_matches('/')),
        None => ALL_FILES.to_owned(),
    }))
}

fn search(sentence: &str) -> Option<Intent> {
    let rest = without_fillers(strip_any(sentence, SEARCHES)?);
    let (text, place) = match rest.rsplit_once(" in ") {
        Some((text, place)) if looks_like_path(bare(place)) => (text, Some(bare(place).to_owned())),
        // "in this repository" is everywhere.
        Some((text, place)) if without_fillers(place).split_whitespace().count() == 1 => {
            (text, None)
        }
        _ => (rest, None),
    };
    let text = quoted(text).unwrap_or_else(|| bare(text));
    if looks_like_path(text) && place.is_none() {
        return Some(Intent::List(format!("**/{text}")));
    }
    // Those who say "TODOs" look for "TODO".
    let singular = text
        .strip_suffix('s')
        .filter(|singular| singular.len() > 1 && singular.chars().all(|c| c.is_ascii_uppercase()));
    let text = singular.unwrap_or(text).to_owned();
    (!text.is_empty()).then_some(Intent::Search { text, place })
}

/// Any sentence that names files.
fn reading(sentence: &str) -> Option<Intent> {
    let mut paths = paths(sentence);
    paths.truncate(OFFLINE_PARALLEL_READS);
    (!paths.is_empty()).then_some(Intent::Read(paths))
}

/// What follows the first of these phrases that the text begins with, as whole
/// words in any case.
fn strip_any<'a>(text: &'a str, phrases: &[&str]) -> Option<&'a str> {
    phrases.iter().find_map(|phrase| {
        let (head, rest) = text.split_at_checked(phrase.len())?;
        let joined = |next: char| next.is_alphanumeric() || "-_.".contains(next);
        let whole = rest.trim_end_matches('.').is_empty() || !rest.starts_with(joined);
        let skipped = |c: char| c.is_whitespace() || ",:".contains(c);
        (whole && head.eq_ignore_ascii_case(phrase)).then(|| rest.trim_start_matches(skipped))
    })
}

fn without_fillers(text: &str) -> &str {
    let fillers: Vec<&str> = FILLERS.split(' ').collect();
    let mut text = text.trim();
    while let Some(rest) = strip_any(text, &fillers) {
        text = rest;
    }
    text
}

/// The first part of the text in backticks or quotation marks, without them.
fn quoted(text: &str) -> Option<&str> {
    let (at, mark) = text.char_indices().find(|(_, c)| ['`', '"'].contains(c))?;
    let inner = text.get(at + 1..)?;
    let inner = inner.get(..inner.find(mark)?)?;
    (!inner.is_empty()).then_some(inner)
}

/// The text without quotation marks and punctuation around it.
fn bare(text: &str) -> &str {
    text.trim()
        .trim_end_matches(['?', '!', ',', ';', ':', '.'])
        .trim_matches(['`', '"', '\'', '(', ')'])
        .trim()
}

/// The words that look like paths, each once.
fn paths(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split_whitespace().map(bare) {
        if looks_like_path(word) && !found.iter().any(|seen| seen == word) {
            found.push(word.to_owned());
        }
    }
    found
}

/// True for `src/main.rs`, `notes.txt`, `Makefile`; false for `3.5`, `e.g`,
/// `https://…`, `*.rs`.
fn looks_like_path(word: &str) -> bool {
    if word.contains("://") || word.contains(['*', ' ']) {
        return false;
    }
    // Names that people write without an extension or a slash.
    if ["README", "LICENSE", "CHANGELOG", "Makefile"].contains(&word) || word.contains('/') {
        return word.contains(char::is_alphanumeric);
    }
    let Some((stem, extension)) = word.rsplit_once('.') else {
        return false;
    };
    (1..=8).contains(&extension.len())
        && extension.chars().all(|c| c.is_ascii_alphanumeric())
        && extension.contains(|c: char| c.is_ascii_alphabetic())
        && (extension.len() > 1 || stem.len() > 1)
        && stem
            .chars()
            .all(|c| c.is_alphanumeric() || "_-.+".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, place: Option<&str>) -> Intent {
        let (text, place) = (text.to_owned(), place.map(str::to_owned));
        Intent::Search { text, place }
    }

    fn read(paths: &[&str]) -> Intent {
        Intent::Read(paths.iter().map(|path| (*path).to_owned()).collect())
    }

    #[test]
    fn common_requests_are_recognised() {
        let list = |pattern: &str| Intent::List(pattern.to_owned());
        let run = |command: &str| Intent::Run(command.to_owned());
        for (sentence, intent) in [
            ("Hello!", Intent::Greet),
            ("good morning, Halter", Intent::Greet),
            ("Summarize this repository", Intent::Summarize),
            ("what is this project about?", Intent::Summarize),
            ("Describe.", Intent::Summarize),
            ("run the tests", Intent::RunTests),
            ("Please run all tests!", Intent::RunTests),
            ("run `cargo test -p a`", run("cargo test -p a")),
            ("run git status", run("git status")),
            ("$ uname", run("uname")),
            ("find TODOs", find("TODO", None)),
            ("Find all TODOs in this repository.", find("TODO", None)),
            ("find \"let x\" in src/", find("let x", Some("src/"))),
            ("where is parse_line?", find("parse_line", None)),
            ("find main.rs", list("**/main.rs")),
            ("list files", list(ALL_FILES)),
            ("which files are there?", list(ALL_FILES)),
            ("list files in src/", list("src/**")),
            ("find all *.toml files", list("**/*.toml")),
            ("read notes.txt", read(&["notes.txt"])),
            (
                "Show me README.md, and src/a.rs!",
                read(&["README.md", "src/a.rs"]),
            ),
            ("what does main.c do?", read(&["main.c"])),
            ("show the README", read(&["README"])),
            ("/mcp__files__review", Intent::Unclear),
            ("/review src/a.rs", read(&["src/a.rs"])),
            ("/etc/hostname", read(&["/etc/hostname"])),
            ("write me a poem", Intent::Unclear),
            ("it is 3.5, e.g. so", Intent::Unclear),
            ("", Intent::Unclear),
        ] {
            assert_eq!(understand(sentence), intent, "{sentence}");
        }
    }

    #[test]
    fn a_request_is_read_up_to_its_limit() {
        let long = format!("{}read a.txt", " ".repeat(OFFLINE_REQUEST_CHARS));
        assert_eq!(understand(&long), Intent::Unclear);
        let many = (0..=OFFLINE_PARALLEL_READS).map(|n| format!("f{n}.rs "));
        let Intent::Read(paths) = understand(&many.collect::<String>()) else {
            panic!("they are files");
        };
        assert_eq!(paths.len(), OFFLINE_PARALLEL_READS);
    }
}
