//! Kinds of files as users name them, and the globs they mean.

use crate::offline::words::{bare, strip_any, strip_phrase};

/// Languages by the names users give them, and the files they mean.
const FILE_KINDS: &[(&str, &str)] = &[
    ("rust", "**/*.rs"),
    ("python", "**/*.py"),
    ("javascript", "**/*.js"),
    ("typescript", "**/*.ts"),
    ("go", "**/*.go"),
    ("java", "**/*.java"),
    ("ruby", "**/*.rb"),
    ("shell", "**/*.sh"),
    ("markdown", "**/*.md"),
    ("toml", "**/*.toml"),
    ("json", "**/*.json"),
    ("yaml", "**/*.{yml,yaml}"),
    ("c++", "**/*.{cpp,cc,hpp}"),
    ("c", "**/*.{c,h}"),
    ("html", "**/*.html"),
    ("css", "**/*.css"),
];

/// Every file below the working directory.
pub const ALL_FILES: &str = "**/*";

/// The glob of `*.rs`, `rust files`, `files named x`, or plain `files`.
pub fn file_pattern(text: &str) -> Option<String> {
    let glob = bare(text.split_whitespace().next()?);
    if glob.contains('*') {
        let anchored = glob.contains('/');
        return Some(if anchored {
            glob.to_owned()
        } else {
            format!("**/{glob}")
        });
    }
    for (kind, pattern) in FILE_KINDS {
        if let Some(rest) = strip_phrase(text, kind)
            && strip_any(rest, &["file", "files", "source files", "sources"]).is_some()
        {
            return Some((*pattern).to_owned());
        }
    }
    let rest = strip_any(text, &["files", "file"])?;
    match strip_any(rest, &["named", "called"]) {
        Some(name) => {
            let name = bare(name.split_whitespace().next()?);
            (!name.is_empty()).then(|| format!("**/{name}"))
        }
        None => Some(ALL_FILES.to_owned()),
    }
}
