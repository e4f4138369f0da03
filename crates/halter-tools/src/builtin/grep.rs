//! `grep`: text in files, on ripgrep's own search engine.

mod collect;
pub(super) mod filter;
#[cfg(any(feature = "advanced-tools", test))]
mod parallel;

use super::support::{LOOKS, blocking, path_in, shown, spelled};
use super::walk::{WalkPlan, Walker, below};
use crate::context::{ToolContext, cancelled};
use crate::limits::{
    GREP_CONTEXT_LINES, GREP_DEFAULT_MATCHES, GREP_HEAP_BYTES, GREP_MAX_MATCHES,
    GREP_PATTERN_MEMORY_BYTES, LINE_BYTES, PATTERN_CHARS,
};
use crate::typed::TypedTool;
use async_trait::async_trait;
use collect::{Collector, FileHits, FileSink, WantedPage};
use filter::FileFilter;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use halter_policy::{PolicyError, ReadHandle};
use halter_protocol::{Action, ToolCapabilities, ToolConcurrency, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Search files with a regular expression (Rust syntax: escape `{`, `(`, `[`
/// and `.` to mean themselves). Ignored, hidden and binary files are skipped.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GrepInput {
    /// The regular expression.
    #[schemars(length(min = 1, max = PATTERN_CHARS))]
    pattern: String,
    /// A file or directory; the working directory if left out.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// Only files that match, such as `src/**/*.ts`; with `!` in front, only
    /// others.
    #[schemars(length(min = 1, max = PATTERN_CHARS))]
    glob: Option<String>,
    /// Only files of this language, such as `rust` or `py`.
    #[serde(rename = "type")]
    file_type: Option<String>,
    /// Ignore upper and lower case.
    #[serde(default)]
    ignore_case: bool,
    /// Let a match, and `.`, span lines.
    #[serde(default)]
    multiline: bool,
    /// Lines before each match.
    #[serde(default)]
    #[schemars(range(max = GREP_CONTEXT_LINES))]
    context_before: u64,
    /// Lines after each match.
    #[serde(default)]
    #[schemars(range(max = GREP_CONTEXT_LINES))]
    context_after: u64,
    /// The most matches, or files in the other modes, to return.
    #[serde(default = "default_matches")]
    #[schemars(range(min = 1, max = GREP_MAX_MATCHES), extend("unsent" = true))]
    max_matches: u64,
    /// How many to skip: `next_offset` of the last result.
    #[serde(default)]
    offset: u64,
    /// Cut lines that are longer, in bytes.
    #[schemars(range(min = 20, max = LINE_BYTES), extend("unsent" = true))]
    max_columns: Option<u64>,
    /// Matching lines, matches per file, or files only.
    #[serde(default)]
    output_mode: GrepOutput,
}

fn default_matches() -> u64 {
    GREP_DEFAULT_MATCHES as u64
}

#[derive(Deserialize, JsonSchema, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum GrepOutput {
    #[default]
    Content,
    Count,
    FilesWithMatches,
}

impl serde::Serialize for GrepOutput {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Content => "content",
            Self::Count => "count",
            Self::FilesWithMatches => "files_with_matches",
        })
    }
}

pub(crate) struct GrepTool;

#[async_trait]
impl TypedTool for GrepTool {
    type Input = GrepInput;
    const NAME: &'static str = "grep";

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

    async fn run(&self, context: ToolContext, input: GrepInput) -> anyhow::Result<ToolResult> {
        blocking(move || grep(&context, &input)).await
    }
}

fn grep(context: &ToolContext, input: &GrepInput) -> anyhow::Result<ToolResult> {
    let mut search = Search {
        context,
        input,
        matcher: matcher(input)?,
        searcher: searcher(input),
        collector: Collector::new(wanted(input)),
    };
    let filter = FileFilter::new(input.glob.as_deref(), input.file_type.as_deref())?;
    let target = spelled(search.input.path.as_deref().unwrap_or("."));
    match context.policy.door().open_dir(&target) {
        Ok(directory) => search.directory(directory.path(), filter)?,
        Err(PolicyError::NotADirectory { .. }) => {
            let handle = context.policy.door().open_read(&target)?;
            search.file(handle)?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(search.collector.into_result())
}

/// One search over one or many files.
struct Search<'a> {
    context: &'a ToolContext,
    input: &'a GrepInput,
    matcher: RegexMatcher,
    searcher: Searcher,
    collector: Collector,
}

impl Search<'_> {
    fn directory(&mut self, root: &Path, mut filter: FileFilter) -> anyhow::Result<()> {
        let plan = WalkPlan {
            hidden: filter.hidden(),
            types: filter.take_types(),
            max_depth: None,
        };
        let walker = Walker::new(self.context, root, plan)?;
        #[cfg(feature = "advanced-tools")]
        return self.files_with_threads(walker, root, &filter);
        #[cfg(not(feature = "advanced-tools"))]
        self.files_one_by_one(walker, root, &filter)
    }

    #[cfg(any(not(feature = "advanced-tools"), test))]
    fn files_one_by_one(
        &mut self,
        mut walker: Walker,
        root: &Path,
        filter: &FileFilter,
    ) -> anyhow::Result<()> {
        while let Some(path) = next_file(&mut walker, root, filter)? {
            let looked = self.look_at(&path)?;
            self.add(looked);
        }
        self.left_out(&walker);
        Ok(())
    }

    fn left_out(&mut self, walker: &Walker) {
        self.collector.skipped.by_policy += walker.sensitive();
        self.collector.skipped.unreadable += walker.unreadable;
        self.collector.walk_cut = walker.is_cut;
    }

    fn look_at(&mut self, path: &Path) -> anyhow::Result<LookedAt> {
        look_at(
            self.context,
            &mut self.searcher,
            &self.matcher,
            &self.collector,
            path,
        )
    }

    fn file(&mut self, handle: ReadHandle) -> anyhow::Result<()> {
        let looked = search_file(
            self.context,
            &mut self.searcher,
            &self.matcher,
            &self.collector,
            handle,
        )?;
        self.add(looked);
        Ok(())
    }

    fn add(&mut self, looked: LookedAt) {
        let door = self.context.policy.door();
        match looked {
            LookedAt::Searched(file, resolved) => {
                self.collector.add(file, || shown(door, &resolved));
            }
            other => self.skip(&other),
        }
    }

    fn skip(&mut self, looked: &LookedAt) {
        let skipped = &mut self.collector.skipped;
        match looked {
            LookedAt::Searched(..) => {}
            LookedAt::ByPolicy => skipped.by_policy += 1,
            LookedAt::TooLarge => skipped.too_large += 1,
            LookedAt::Unreadable => skipped.unreadable += 1,
        }
    }
}

/// What became of the search of one file.
enum LookedAt {
    /// What it holds, and where it is.
    Searched(FileHits, PathBuf),
    ByPolicy,
    TooLarge,
    Unreadable,
}

/// The next file of a walk that is to be searched.
fn next_file(
    walker: &mut Walker,
    root: &Path,
    filter: &FileFilter,
) -> anyhow::Result<Option<PathBuf>> {
    while let Some(entry) = walker.next_entry()? {
        // What the policy refuses is found out when it is opened.
        if entry.is_file() && filter.admits(below(root, entry.path())) {
            return Ok(Some(entry.into_path()));
        }
    }
    Ok(None)
}

/// Opens and searches one file. One that cannot be read to its end counts as
/// skipped; only cancellation ends the search.
fn look_at(
    context: &ToolContext,
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    collector: &Collector,
    path: &Path,
) -> anyhow::Result<LookedAt> {
    match context.policy.door().open_listed(path) {
        Ok(handle) => search_file(context, searcher, matcher, collector, handle),
        Err(error) if error.is_denial() => Ok(LookedAt::ByPolicy),
        Err(error @ PolicyError::OutOfDescriptors { .. }) => Err(error.into()),
        Err(_) => Ok(LookedAt::Unreadable),
    }
}

fn search_file(
    context: &ToolContext,
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    collector: &Collector,
    handle: ReadHandle,
) -> anyhow::Result<LookedAt> {
    let resolved: PathBuf = handle.resolved().to_owned();
    let mut sink = FileSink::new(collector, matcher, &context.cancel);
    let searched = search_reader(
        &context.cancel,
        searcher,
        matcher,
        &mut sink,
        handle.into_reader(),
    )?;
    Ok(match searched {
        Ok(()) => LookedAt::Searched(sink.finish(), resolved),
        // The searcher's own report of a line or file beyond its heap.
        Err(error) if error.kind() == io::ErrorKind::Other => LookedAt::TooLarge,
        Err(_) => LookedAt::Unreadable,
    })
}

/// Searches until the end or until the call is cancelled, which is the outer
/// error.
fn search_reader(
    cancel: &CancellationToken,
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    sink: &mut FileSink<'_>,
    file: impl Read,
) -> anyhow::Result<io::Result<()>> {
    let reader = CancelRead { file, cancel };
    let searched = searcher.search_reader(matcher, reader, sink);
    if cancel.is_cancelled() {
        return Err(cancelled().into());
    }
    Ok(searched)
}

fn wanted(input: &GrepInput) -> WantedPage {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    WantedPage {
        mode: input.output_mode,
        offset: input.offset,
        max: input.max_matches,
        before: number(input.context_before),
        after: number(input.context_after),
        columns: input.max_columns.map_or(LINE_BYTES, number).min(LINE_BYTES),
    }
}

fn matcher(input: &GrepInput) -> anyhow::Result<RegexMatcher> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(input.ignore_case)
        .multi_line(true)
        .crlf(true)
        .size_limit(GREP_PATTERN_MEMORY_BYTES)
        .dfa_size_limit(GREP_PATTERN_MEMORY_BYTES);
    match input.multiline {
        true => builder.dot_matches_new_line(true).line_terminator(None),
        false => &mut builder,
    };
    builder.build(&input.pattern).map_err(|error| {
        let hint = match error.kind() {
            grep_regex::ErrorKind::NotAllowed(_) => "set multiline=true to match across lines",
            _ => {
                "repair the pattern: escape a special character with `\\` to mean itself; repeat \
                 less in a pattern that is too large"
            }
        };
        anyhow::anyhow!("the pattern cannot be searched for: {error}\n{hint}")
    })
}

fn searcher(input: &GrepInput) -> Searcher {
    let context = |lines: u64| match input.output_mode {
        GrepOutput::Content => usize::try_from(lines).unwrap_or(GREP_CONTEXT_LINES),
        GrepOutput::Count | GrepOutput::FilesWithMatches => 0,
    };
    let mut builder = SearcherBuilder::new();
    builder
        .line_number(true)
        .multi_line(input.multiline)
        .before_context(context(input.context_before))
        .after_context(context(input.context_after))
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(GREP_HEAP_BYTES));
    if !input.multiline {
        builder.line_terminator(LineTerminator::crlf());
    }
    builder.build()
}

/// A file whose reads end when the call is cancelled.
struct CancelRead<'a, R> {
    file: R,
    cancel: &'a CancellationToken,
}

impl<R: Read> Read for CancelRead<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        self.file.read(buffer)
    }
}

#[cfg(test)]
mod tests;
