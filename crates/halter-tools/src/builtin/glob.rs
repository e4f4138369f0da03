//! `glob`: files by name.

use super::support::{LOOKS, blocking, path_in, shown, spelled};
use super::walk::{FoundName, HiddenNames, WalkPlan, Walker, below, path_glob};
use crate::context::ToolContext;
use crate::limits::{GLOB_DEFAULT_RESULTS, GLOB_MAX_RESULTS, PATTERN_CHARS};
use crate::typed::TypedTool;
use anyhow::bail;
use async_trait::async_trait;
use globset::GlobMatcher;
use halter_policy::{FileKind, PolicyError};
use halter_protocol::{Action, Timestamp, ToolCapabilities, ToolConcurrency, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Find files by name. `*` stays inside a directory, `**` crosses them:
/// `src/**/*.rs`. Ignored files are left out, hidden ones too unless the
/// pattern names them.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GlobInput {
    /// Matched against paths below `path`.
    #[schemars(length(min = 1, max = PATTERN_CHARS))]
    pattern: String,
    /// A directory; the working directory if left out.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// The most paths to return.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = GLOB_MAX_RESULTS))]
    max_results: u64,
    /// Only entries of this type.
    file_type: Option<FileType>,
    /// The most recently changed first, with their times.
    #[serde(default)]
    sort_by_mtime: bool,
}

fn default_results() -> u64 {
    GLOB_DEFAULT_RESULTS as u64
}

#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum FileType {
    File,
    Dir,
    Symlink,
}

impl FileType {
    fn of(entry: &FoundName) -> Option<Self> {
        match entry.kind() {
            FileKind::Directory => Some(Self::Dir),
            FileKind::Link => Some(Self::Symlink),
            FileKind::File => Some(Self::File),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dir => "dir",
            Self::Symlink => "symlink",
        }
    }
}

pub(crate) struct GlobTool;

#[async_trait]
impl TypedTool for GlobTool {
    type Input = GlobInput;
    const NAME: &'static str = "glob";

    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::ReadOnly
    }

    fn capabilities(&self) -> ToolCapabilities {
        LOOKS
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let path = [path_in(input, "path").unwrap_or_else(|| ".".into())].into_iter();
        path.map(|path| Action::Read { path }).collect()
    }

    async fn run(&self, context: ToolContext, input: GlobInput) -> anyhow::Result<ToolResult> {
        blocking(move || glob(&context, input)).await
    }
}

fn glob(context: &ToolContext, mut input: GlobInput) -> anyhow::Result<ToolResult> {
    if input.pattern.ends_with('/') {
        input.file_type = Some(FileType::Dir);
    }
    let pattern = Pattern::parse(&input.pattern)?;
    let door = context.policy.door();
    let base = spelled(input.path.as_deref().unwrap_or("."));
    // A `path` that is not there is an error; a pattern's own directory that
    // is not there matches nothing.
    door.open_dir(&base)?;
    let directory = match door.open_dir(&base.join(&pattern.directory)) {
        Ok(directory) => directory,
        Err(PolicyError::NotFound { .. } | PolicyError::NotADirectory { .. }) => {
            return Ok(Matches::new(&input).into_result());
        }
        Err(error) => return Err(error.into()),
    };
    let root = directory.path().to_owned();
    let plan = WalkPlan {
        hidden: HiddenNames::named_in(&pattern.rest),
        types: None,
        max_depth: pattern.depth,
    };
    let mut walker = Walker::new(context, &root, plan)?;
    let mut matches = Matches::new(&input);
    while let Some(entry) = walker.next_entry()? {
        if pattern.matcher.is_match(below(&root, entry.path()))
            && let Some(kind) = FileType::of(&entry)
            && input.file_type.is_none_or(|wanted| wanted == kind)
            && walker.admits(entry.path())
        {
            matches.add(&entry, kind, |path| shown(door, path));
        }
    }
    matches.sensitive = walker.sensitive();
    matches.walk_cut = walker.is_cut;
    Ok(matches.into_result())
}

/// A pattern, taken apart into the directory it starts in and the rest.
struct Pattern {
    directory: PathBuf,
    rest: String,
    matcher: GlobMatcher,
    /// How deep below the directory a match can be.
    depth: Option<usize>,
}

impl Pattern {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut directory = PathBuf::new();
        if text.starts_with('/') {
            directory.push("/");
        }
        let components: Vec<&str> = text
            .split('/')
            .filter(|component| !matches!(*component, "" | "."))
            .collect();
        let literal = components
            .iter()
            .take(components.len().saturating_sub(1))
            .take_while(|component| !component.contains(['*', '?', '[', '{', '\\']))
            .count();
        let (start, rest) = components.split_at(literal);
        directory.extend(start);
        if rest.is_empty() {
            bail!("the pattern '{text}' names no file; end it with a name or a wildcard");
        }
        if rest.contains(&"..") {
            bail!("the pattern '{text}' has '..' after a wildcard; start it with the directory");
        }
        let depth = (!rest.iter().any(|component| component.contains("**")))
            .then(|| rest.join("/").matches('/').count() + 1);
        let rest = rest.join("/");
        let matcher = path_glob(&rest)
            .map_err(|error| anyhow::anyhow!("'{text}' is not a glob pattern: {}", error.kind()))?;
        Ok(Self {
            directory,
            rest,
            matcher,
            depth,
        })
    }
}

struct Match {
    path: String,
    kind: FileType,
    changed: Option<SystemTime>,
}

/// The matches to return, bounded, and the count of all.
struct Matches {
    by_time: bool,
    max: usize,
    total: usize,
    kept: Vec<Match>,
    sensitive: usize,
    walk_cut: bool,
}

impl Matches {
    fn new(input: &GlobInput) -> Self {
        Self {
            by_time: input.sort_by_mtime,
            max: usize::try_from(input.max_results).unwrap_or(GLOB_MAX_RESULTS),
            total: 0,
            kept: Vec::new(),
            sensitive: 0,
            walk_cut: false,
        }
    }

    fn add(&mut self, entry: &FoundName, kind: FileType, show: impl Fn(&Path) -> String) {
        self.total += 1;
        if !self.by_time && self.kept.len() >= self.max {
            return;
        }
        let changed = match self.by_time {
            true => entry.modified(),
            false => None,
        };
        let path = show(entry.path());
        self.kept.push(Match {
            path,
            kind,
            changed,
        });
        // Now and then, so that sorting stays cheap and memory bounded.
        if self.kept.len() >= 4 * self.max.max(256) {
            self.sort();
        }
    }

    /// Newest first; among equals the walk's order, which is that of names.
    fn sort(&mut self) {
        if self.by_time {
            self.kept.sort_by_key(|found| Reverse(found.changed));
            self.kept.truncate(self.max);
        }
    }

    fn into_result(mut self) -> ToolResult {
        self.sort();
        let returned = self.kept.len();
        let matches = self.kept.into_iter().map(|found| {
            let mut row = Map::new();
            row.insert("path".into(), found.path.into());
            row.insert("file_type".into(), found.kind.name().into());
            if let Some(time) = found
                .changed
                .and_then(|time| Timestamp::try_from(time).ok())
            {
                row.insert("mtime".into(), time.to_string().into());
            }
            Value::Object(row)
        });
        let mut result = Map::new();
        result.insert("matches".into(), matches.collect());
        result.insert("total_matches".into(), self.total.into());
        let truncated = returned < self.total || self.walk_cut;
        result.insert("truncated".into(), truncated.into());
        if self.walk_cut {
            let note = "the directory is too large to search to the end; search a part of it";
            result.insert("note".into(), note.into());
        }
        if self.sensitive > 0 {
            result.insert("skipped_by_policy".into(), self.sensitive.into());
        }
        ToolResult::json(Value::Object(result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_start_in_their_literal_directory() {
        for (text, directory, rest, depth) in [
            ("*.rs", "", "*.rs", Some(1)),
            ("src/lib.rs", "src", "lib.rs", Some(1)),
            ("./src/a/*/x", "src/a", "*/x", Some(2)),
            ("/etc/*.conf", "/etc", "*.conf", Some(1)),
            ("../up/*", "../up", "*", Some(1)),
            ("src/**/*.rs", "src", "**/*.rs", None),
            ("{a/b,c}/x", "", "{a/b,c}/x", Some(3)),
        ] {
            let pattern = Pattern::parse(text).unwrap();
            assert_eq!(pattern.directory, Path::new(directory), "{text}");
            assert_eq!(pattern.rest, rest, "{text}");
            assert_eq!(pattern.depth, depth, "{text}");
        }
    }

    #[test]
    fn patterns_that_cannot_match_say_why() {
        for (text, reason) in [
            ("/", "names no file"),
            ("*/../x", "after a wildcard"),
            ("a[", "not a glob pattern"),
        ] {
            let error = Pattern::parse(text).err().unwrap().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
