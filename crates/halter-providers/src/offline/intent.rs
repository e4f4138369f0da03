//! What a user's sentence asks for, by simple rules.

use crate::limits::{OFFLINE_PARALLEL_READS, OFFLINE_REQUEST_CHARS};

/// What the offline model understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// Describe the repository.
    Summarize,
    /// Show these files.
    Read { paths: Vec<String> },
    /// List files that match a glob.
    List { pattern: String },
    /// Find a text, in all files or below a path.
    Search { text: String, place: Option<String> },
    /// Run a command.
    Run { command: String },
    /// Run the tests of the project.
    RunTests,
    /// A greeting.
    Greet,
    /// None of the above.
    Unclear,
}

/// Every file below the working directory.
pub const ALL_FILES: &str = "**/*";

/// Words before a request or a noun that say nothing here.
const FILLERS: &[&str] = &[
    "please", "can", "could", "would", "you", "now", "then", "just", "let's", "also", "me", "us",
    "the", "a", "an", "all", "every", "any", "my", "this",
];

/// File names that people write without an extension or a slash.
const BARE_NAMES: &[&str] = &["README", "LICENSE", "CHANGELOG", "Makefile", "Dockerfile"];

type Rule = fn(&str) -> Option<Intent>;

/// In the order they are tried: the first that recognises the sentence wins.
const RULES: &[Rule] = &[greeting, tests, command, summary, listing, search, reading];

/// What the sentence asks for.
pub fn understand(sentence: &str) -> Intent {
    let sentence = match sentence.char_indices().nth(OFFLINE_REQUEST_CHARS) {
        Some((end, _)) => sentence.get(..end).unwrap_or(sentence),
        None => sentence,
    };
    let sentence = without_fillers(sentence);
    RULES
        .iter()
        .find_map(|rule| rule(sentence))
        .unwrap_or(Intent::Unclear)
}

fn greeting(sentence: &str) -> Option<Intent> {
    let greetings = [
        "hello", "hi", "hey", "hallo", "moin", "good", "thanks", "thank", "help",
    ];
    let rest = strip_any(sentence, &greetings)?;
    (rest.split_whitespace().count() <= 3 && paths(rest).is_empty()).then_some(Intent::Greet)
}

fn tests(sentence: &str) -> Option<Intent> {
    let rest = strip_any(sentence, &["run", "execute"])?;
    let what = bare(without_fillers(rest)).to_ascii_lowercase();
    let named = [
        "tests",
        "test suite",
        "unit tests",
        "project's tests",
        "tests of this project",
    ];
    named.contains(&what.as_str()).then_some(Intent::RunTests)
}

fn command(sentence: &str) -> Option<Intent> {
    let command = match sentence.strip_prefix("$ ").or(sentence.strip_prefix('!')) {
        Some(command) => command,
        None => {
            let rest = strip_any(sentence, &["run", "execute"])?;
            let rest = strip_any(rest, &["the command", "command"]).unwrap_or(rest);
            quoted(rest)
                .filter(|_| rest.starts_with(['`', '"']))
                .unwrap_or(rest)
        }
    };
    let command = command.trim().to_owned();
    (!command.is_empty()).then_some(Intent::Run { command })
}

fn summary(sentence: &str) -> Option<Intent> {
    let lower = sentence.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let about_everything = has(&[
        "repo",
        "project",
        "codebase",
        "this code",
        "directory",
        "folder",
    ]);
    let asks = has(&[
        "summar", "overview", "describe", "explain", "what is", "what's", "about",
    ]);
    let alone = strip_any(sentence, &["summarize", "summarise", "describe"]);
    let alone = alone.is_some_and(|rest| bare(rest).is_empty());
    (alone || (about_everything && asks && paths(sentence).is_empty())).then_some(Intent::Summarize)
}

/// `list`, `list src/`, `list *.rs`, `list rust files`, `which files are there?`
fn listing(sentence: &str) -> Option<Intent> {
    let rest = strip_any(sentence, &["list", "ls", "what files", "which files"])
        .or_else(|| strip_any(sentence, &["show", "find"]).filter(|rest| is_about_files(rest)))?;
    let rest = without_fillers(rest);
    let rest = strip_any(rest, &["files in", "files"]).unwrap_or(rest);
    let word = bare(rest.split_whitespace().next().unwrap_or_default());
    let pattern = match word {
        "rust" | "Rust" => "**/*.rs".to_owned(),
        "python" | "Python" => "**/*.py".to_owned(),
        "markdown" | "Markdown" => "**/*.md".to_owned(),
        glob if glob.contains('*') && !glob.contains('/') => format!("**/{glob}"),
        glob if glob.contains('*') => glob.to_owned(),
        place if place.contains('/') => format!("{}/**", place.trim_end_matches('/')),
        _ => ALL_FILES.to_owned(),
    };
    Some(Intent::List { pattern })
}

fn is_about_files(rest: &str) -> bool {
    let rest = without_fillers(rest);
    rest.starts_with('*')
        || rest
            .split_whitespace()
            .take(2)
            .any(|word| bare(word) == "files")
}

fn search(sentence: &str) -> Option<Intent> {
    let verbs = [
        "search for",
        "search",
        "grep for",
        "grep",
        "find",
        "look for",
        "where is",
        "where are",
    ];
    let rest = without_fillers(strip_any(sentence, &verbs)?);
    let (text, place) = match rest.rsplit_once(" in ") {
        Some((text, place)) if looks_like_path(bare(place)) => (text, Some(bare(place).to_owned())),
        Some((text, place)) if is_here(place) => (text, None),
        _ => (rest, None),
    };
    let text = quoted(text).unwrap_or_else(|| bare(text));
    if looks_like_path(text) && place.is_none() {
        let pattern = format!("**/{text}");
        return Some(Intent::List { pattern });
    }
    // Those who say "TODOs" look for "TODO".
    let singular = text
        .strip_suffix('s')
        .filter(|singular| singular.len() > 1 && singular.chars().all(|c| c.is_ascii_uppercase()));
    let text = singular.unwrap_or(text).to_owned();
    (!text.is_empty()).then_some(Intent::Search { text, place })
}

fn is_here(place: &str) -> bool {
    let place = bare(without_fillers(place));
    [
        "repository",
        "repo",
        "project",
        "code",
        "codebase",
        "directory",
        "folder",
    ]
    .contains(&place)
}

/// Any sentence that names files.
fn reading(sentence: &str) -> Option<Intent> {
    let mut paths = paths(sentence);
    paths.truncate(OFFLINE_PARALLEL_READS);
    (!paths.is_empty()).then_some(Intent::Read { paths })
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
    let mut text = text.trim();
    while let Some(rest) = strip_any(text, FILLERS) {
        text = rest;
    }
    text
}

/// The first part of the text in backticks or quotation marks, without them.
fn quoted(text: &str) -> Option<&str> {
    let (at, mark) = text.char_indices().find(|(_, c)| ['`', '"'].contains(c))?;
    let inner = text.get(at + 1..)?;
    inner
        .get(..inner.find(mark)?)
        .filter(|inner| !inner.is_empty())
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
    if BARE_NAMES.contains(&word) || word.contains('/') {
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

    fn list(pattern: &str) -> Intent {
        Intent::List {
            pattern: pattern.to_owned(),
        }
    }

    fn find(text: &str, place: Option<&str>) -> Intent {
        Intent::Search {
            text: text.to_owned(),
            place: place.map(str::to_owned),
        }
    }

    fn run(command: &str) -> Intent {
        Intent::Run {
            command: command.to_owned(),
        }
    }

    fn read(paths: &[&str]) -> Intent {
        Intent::Read {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    #[test]
    fn common_requests_are_recognised() {
        for (sentence, intent) in [
            ("Hello!", Intent::Greet),
            ("good morning, Halter", Intent::Greet),
            ("help", Intent::Greet),
            ("Summarize this repository", Intent::Summarize),
            ("what is this project about?", Intent::Summarize),
            ("Describe.", Intent::Summarize),
            ("run the tests", Intent::RunTests),
            ("Please run all tests!", Intent::RunTests),
            ("run `cargo test -p a`", run("cargo test -p a")),
            ("run git status", run("git status")),
            ("run the command: ls -l", run("ls -l")),
            ("$ uname", run("uname")),
            ("find TODOs", find("TODO", None)),
            ("Find all TODOs in this repository.", find("TODO", None)),
            ("find \"let x\" in src/", find("let x", Some("src/"))),
            ("where is parse_line?", find("parse_line", None)),
            ("find main.rs", list("**/main.rs")),
            ("list files", list(ALL_FILES)),
            ("which files are there?", list(ALL_FILES)),
            ("list src/", list("src/**")),
            ("find all *.toml files", list("**/*.toml")),
            ("show me the rust files", list("**/*.rs")),
            ("read notes.txt", read(&["notes.txt"])),
            (
                "Show me README.md, and src/a.rs!",
                read(&["README.md", "src/a.rs"]),
            ),
            ("what does main.c do?", read(&["main.c"])),
            ("show the README", read(&["README"])),
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
        let many: String = (0..=OFFLINE_PARALLEL_READS)
            .map(|n| format!("f{n}.rs "))
            .collect();
        let Intent::Read { paths } = understand(&many) else {
            panic!("{many}");
        };
        assert_eq!(paths.len(), OFFLINE_PARALLEL_READS);
    }
}
