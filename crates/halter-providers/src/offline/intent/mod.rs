//! What a user's sentence asks for, by simple rules.

mod file_kinds;
mod rules;
#[cfg(test)]
mod tests;

pub use file_kinds::ALL_FILES;

use super::words::skip_words;
use crate::limits::OFFLINE_REQUEST_CHARS;

/// What the offline model understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// Describe the repository.
    Summarize,
    /// Show these files.
    Read { paths: Vec<String> },
    /// List files that match a glob.
    List { pattern: String },
    /// Find a text.
    Search { text: String, glob: Option<String> },
    /// Say what a name in the code is.
    Explain { name: String },
    /// Count something.
    Count(Countable),
    /// Run a command.
    Run { command: String },
    /// Put a text into a file.
    Write { path: String, content: String },
    /// Replace a text in a file.
    Edit {
        path: String,
        old: String,
        new: String,
    },
    /// Do something with the task list.
    Task(TaskRequest),
    /// A greeting.
    Greet,
    /// A question about what it can do.
    Help,
    /// None of the above.
    Unclear,
}

/// What can be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Countable {
    /// Files that match a glob.
    Files { pattern: String },
    /// Places where a text stands.
    Occurrences { text: String },
    /// The lines of a file.
    Lines { path: String },
}

/// What can be done with the task list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskRequest {
    Add { subject: String },
    List,
    Complete { id: u64 },
}

/// How people open a request.
const COURTESY: &[&str] = &[
    "please",
    "can you",
    "could you",
    "would you",
    "will you",
    "kindly",
    "now",
    "then",
    "just",
    "let's",
    "i want you to",
    "i would like you to",
    "i'd like you to",
    "you should",
    "also",
];

type Rule = fn(&str) -> Option<Intent>;

/// In the order they are tried: the first that understands the sentence wins.
const RULES: &[Rule] = &[
    rules::greeting,
    rules::command,
    rules::task,
    rules::write,
    rules::edit,
    rules::count,
    rules::summary,
    rules::listing,
    rules::whereabouts,
    rules::search,
    rules::reading,
    rules::explanation,
    rules::mentioned_file,
];

/// What the sentence asks for.
pub fn understand(sentence: &str) -> Intent {
    let sentence = match sentence.char_indices().nth(OFFLINE_REQUEST_CHARS) {
        Some((end, _)) => sentence.get(..end).unwrap_or(sentence),
        None => sentence,
    };
    let sentence = skip_words(sentence.trim(), COURTESY);
    RULES
        .iter()
        .find_map(|rule| rule(sentence))
        .unwrap_or(Intent::Unclear)
}
