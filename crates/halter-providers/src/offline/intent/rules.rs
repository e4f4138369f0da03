//! One rule per kind of request: each says what it understands, or nothing.

use super::file_kinds::{ALL_FILES, file_pattern};
use super::{Countable, Intent, TaskRequest};
use crate::limits::OFFLINE_PARALLEL_READS;
use crate::offline::words::{
    bare, looks_like_path, paths, quoted, skip_words, split_first, split_last, strip_any,
};

/// Words before a noun that say nothing here.
const ARTICLES: &[&str] = &[
    "me", "us", "the", "a", "an", "all", "every", "any", "of", "my", "this",
];
/// Ends of a question that say nothing here.
const PLACES: &[&str] = &[
    " in this repository",
    " in the repository",
    " in this repo",
    " in the repo",
    " in this project",
    " in the project",
    " in the codebase",
    " in this codebase",
    " in the code",
    " in this directory",
    " in the directory",
    " in the current directory",
    " in this folder",
    " are there",
    " do we have",
    " are defined",
    " is defined",
    " defined",
    " here",
];

pub fn greeting(sentence: &str) -> Option<Intent> {
    let text = bare(sentence).to_ascii_lowercase();
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let first = words.first().copied().unwrap_or_default();
    if ["help", "what can you do", "who are you", "what are you"].contains(&text.as_str()) {
        return Some(Intent::Help);
    }
    let greets = [
        "hello", "hi", "hey", "thanks", "thank", "good", "moin", "hallo",
    ]
    .contains(&first);
    (greets && words.len() <= 4).then_some(Intent::Greet)
}

pub fn command(sentence: &str) -> Option<Intent> {
    let prompt = sentence
        .strip_prefix("$ ")
        .or_else(|| sentence.strip_prefix('!'));
    let rest = match prompt {
        Some(rest) => rest,
        None => {
            let rest = strip_any(sentence, &["run", "execute", "exec"])?;
            let rest = skip_words(
                rest,
                &[
                    "the command",
                    "this command",
                    "the shell command",
                    "command",
                ],
            );
            match rest.strip_prefix(['`', '"']) {
                Some(_) => quoted(rest)?,
                None => rest.trim_end_matches(['?', '!']),
            }
        }
    };
    let command = rest.trim().to_owned();
    (!command.is_empty()).then_some(Intent::Run { command })
}

pub fn task(sentence: &str) -> Option<Intent> {
    let adds = [
        "add a task to",
        "add a task",
        "add task",
        "create a task to",
        "create a task",
        "create task",
        "new task",
        "todo",
        "add a todo",
        "remember to",
    ];
    if let Some(rest) = strip_any(sentence, &adds) {
        let subject = rest.trim_start_matches([':', '-']);
        let subject = quoted(subject).unwrap_or_else(|| bare(subject)).to_owned();
        return (!subject.is_empty()).then_some(Intent::Task(TaskRequest::Add { subject }));
    }
    let lists = [
        "list tasks",
        "list my tasks",
        "list the tasks",
        "list all tasks",
        "show tasks",
        "show my tasks",
        "show the tasks",
        "show me my tasks",
        "what are my tasks",
        "which tasks",
    ];
    if strip_any(sentence, &lists).is_some() {
        return Some(Intent::Task(TaskRequest::List));
    }
    let completes = [
        "complete task",
        "complete the task",
        "finish task",
        "mark task",
        "close task",
        "task",
    ];
    let rest = strip_any(sentence, &completes)?;
    let digits: String = rest
        .trim_start_matches('#')
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let id = digits.parse().ok()?;
    Some(Intent::Task(TaskRequest::Complete { id }))
}

pub fn write(sentence: &str) -> Option<Intent> {
    let rest = strip_any(sentence, &["write", "save", "put", "create", "make"])?;
    let fillers = ["a", "an", "the", "new", "file", "text", "called", "named"];
    let opening = skip_words(rest, &fillers);
    let first = bare(opening.split_whitespace().next()?);
    if looks_like_path(first) {
        let (_, said) = split_first(opening, &[" with ", " containing ", " that says "])?;
        let said = skip_words(said, &["the", "content", "contents", "text", "line"]);
        let content = quoted(said).unwrap_or_else(|| said.trim_start_matches(':').trim());
        return written(first, content);
    }
    let (said, place) = split_last(rest, &[" to ", " into ", " in ", " as "])?;
    let place = skip_words(place, &fillers);
    let path = bare(place.split_whitespace().next()?);
    let content = quoted(said).unwrap_or(said);
    looks_like_path(path).then(|| written(path, content))?
}

fn written(path: &str, content: &str) -> Option<Intent> {
    (!content.is_empty()).then(|| Intent::Write {
        path: path.to_owned(),
        content: content.to_owned(),
    })
}

pub fn edit(sentence: &str) -> Option<Intent> {
    let rest = strip_any(sentence, &["replace", "change", "substitute", "rename"])?;
    let (change, place) = split_last(rest, &[" in "])?;
    let path = bare(
        skip_words(place, &["the", "file"])
            .split_whitespace()
            .next()?,
    );
    let (old, new) = split_first(change, &[" with ", " to ", " by "])?;
    let (old, new) = (bare(old), bare(new));
    (looks_like_path(path) && !old.is_empty()).then(|| Intent::Edit {
        path: path.to_owned(),
        old: old.to_owned(),
        new: new.to_owned(),
    })
}

pub fn count(sentence: &str) -> Option<Intent> {
    let rest = strip_any(sentence, &["how many", "count", "number of"])?;
    let rest = skip_words(rest, ARTICLES);
    if strip_any(rest, &["line", "lines"]).is_some() {
        let path = paths(rest).into_iter().next()?;
        return Some(Intent::Count(Countable::Lines { path }));
    }
    if let Some(pattern) = file_pattern(rest) {
        return Some(Intent::Count(Countable::Files { pattern }));
    }
    let asked = skip_words(
        rest,
        &[
            "times",
            "time",
            "does",
            "is",
            "occurrences of",
            "uses of",
            "the",
        ],
    );
    let (text, _) =
        split_first(asked, &[" occur", " appear", " used", " mentioned"]).unwrap_or((asked, ""));
    let text = quoted(text).unwrap_or_else(|| without_place(text));
    (!text.is_empty()).then(|| {
        Intent::Count(Countable::Occurrences {
            text: text.to_owned(),
        })
    })
}

pub fn summary(sentence: &str) -> Option<Intent> {
    let lower = sentence.to_ascii_lowercase();
    let about_everything = [
        "repo",
        "project",
        "codebase",
        "this code",
        "this directory",
        "this folder",
    ]
    .iter()
    .any(|noun| lower.contains(noun));
    let asks = [
        "summar",
        "overview",
        "describe",
        "explain",
        "what is",
        "what's",
        "tell me about",
        "analy",
    ]
    .iter()
    .any(|verb| lower.contains(verb));
    let files = paths(sentence);
    if about_everything && asks && files.is_empty() {
        return Some(Intent::Summarize);
    }
    let rest = strip_any(sentence, &["summarize", "summarise", "describe"])?;
    match read_intent(files) {
        Some(read) => Some(read),
        None if bare(rest).is_empty() => Some(Intent::Summarize),
        None => None,
    }
}

pub fn listing(sentence: &str) -> Option<Intent> {
    let everything = || Intent::List {
        pattern: ALL_FILES.to_owned(),
    };
    if strip_any(sentence, &["what files", "which files"]).is_some() {
        return Some(everything());
    }
    if let Some(rest) = strip_any(sentence, &["list", "ls", "dir"]) {
        let place = bare(skip_words(
            rest,
            &["files in", "the", "directory", "folder"],
        ));
        if place.is_empty() {
            return Some(everything());
        }
        if place.contains('/') && looks_like_path(place) {
            let pattern = format!("{}/**", place.trim_end_matches('/'));
            return Some(Intent::List { pattern });
        }
    }
    let rest = strip_any(sentence, &["list", "ls", "show", "find", "are there"])?;
    file_pattern(skip_words(rest, ARTICLES)).map(|pattern| Intent::List { pattern })
}

/// "Where is X?" looks for X; "where is X defined?" explains it.
pub fn whereabouts(sentence: &str) -> Option<Intent> {
    let rest = strip_any(sentence, &["where is", "where are", "where's"])?;
    let definition = split_first(rest, &[" defined", " declared", " implemented"]);
    let (name, _) = definition.unwrap_or((rest, ""));
    let name = quoted(name).unwrap_or_else(|| without_place(skip_words(name, ARTICLES)));
    let name = name.trim_end_matches("()").to_owned();
    if name.is_empty() {
        return None;
    }
    Some(match (looks_like_path(&name), definition) {
        (true, _) => Intent::List {
            pattern: format!("**/{name}"),
        },
        (false, Some(_)) => Intent::Explain { name },
        (false, None) => Intent::Search {
            text: name,
            glob: None,
        },
    })
}

pub fn search(sentence: &str) -> Option<Intent> {
    let verbs = [
        "search for",
        "search",
        "grep for",
        "grep",
        "find",
        "look for",
        "locate",
        "rg",
    ];
    let nouns = [
        "the text",
        "the word",
        "occurrences of",
        "uses of",
        "usages of",
    ];
    let rest = strip_any(sentence, &verbs)?;
    let rest = skip_words(skip_words(rest, &nouns), ARTICLES);
    let is_place = |place: &str| place.contains('*') || looks_like_path(bare(place));
    let (text, glob) = match split_last(rest, &[" in "]) {
        Some((text, place)) if is_place(place) => (text, Some(bare(place).to_owned())),
        _ => (rest, None),
    };
    let text = quoted(text).unwrap_or_else(|| without_place(text));
    if looks_like_path(text) && glob.is_none() && !text.contains(char::is_whitespace) {
        return Some(Intent::List {
            pattern: format!("**/{text}"),
        });
    }
    (!text.is_empty()).then(|| Intent::Search {
        text: text.to_owned(),
        glob,
    })
}

pub fn reading(sentence: &str) -> Option<Intent> {
    let verbs = [
        "read",
        "show",
        "open",
        "cat",
        "print",
        "view",
        "display",
        "look at",
        "what is in",
        "what's in",
    ];
    let rest = strip_any(sentence, &verbs)?;
    read_intent(paths(rest)).or_else(|| {
        let named = skip_words(bare(rest), ARTICLES).to_ascii_lowercase();
        let path = match named.trim_end_matches(" file") {
            "readme" => "README.md",
            "license" | "licence" => "LICENSE",
            "changelog" => "CHANGELOG.md",
            _ => return None,
        };
        read_intent(vec![path.to_owned()])
    })
}

pub fn explanation(sentence: &str) -> Option<Intent> {
    let asks = [
        "what does",
        "what is",
        "what are",
        "explain",
        "how does",
        "how do",
        "tell me about",
        "describe",
    ];
    let rest = strip_any(sentence, &asks)?;
    let files = paths(rest);
    if !files.is_empty() {
        return read_intent(files);
    }
    let (name, _) = split_first(rest, &[" do?", " do ", " work", " mean"]).unwrap_or((rest, ""));
    let name = quoted(name).unwrap_or_else(|| skip_words(bare(name), ARTICLES));
    let name = name.strip_suffix(" do").unwrap_or(name);
    let kinds = [
        "function", "struct", "class", "type", "method", "module", "trait", "enum",
    ];
    let name = skip_words(name, &kinds);
    let word = bare(name.split_whitespace().next()?).trim_end_matches("()");
    let single = name
        .split_whitespace()
        .nth(1)
        .is_none_or(|next| kinds.contains(&bare(next)));
    (single && !word.is_empty()).then(|| Intent::Explain {
        name: word.to_owned(),
    })
}

pub fn mentioned_file(sentence: &str) -> Option<Intent> {
    read_intent(paths(sentence))
}

fn read_intent(mut paths: Vec<String>) -> Option<Intent> {
    paths.truncate(OFFLINE_PARALLEL_READS);
    (!paths.is_empty()).then_some(Intent::Read { paths })
}

fn without_place(text: &str) -> &str {
    let text = bare(text);
    let lower = text.to_ascii_lowercase();
    let end = PLACES.iter().filter_map(|place| lower.find(place)).min();
    bare(end.and_then(|end| text.get(..end)).unwrap_or(text))
}
