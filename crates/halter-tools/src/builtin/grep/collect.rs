//! What a `grep` keeps of what it finds: a page of matches, bounded, and
//! truthful counts of everything.

use super::GrepOutput;
use crate::limits::GREP_RESULT_BYTES;
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};
use halter_protocol::ToolResult;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::io;
use tokio_util::sync::CancellationToken;

/// The part of the matches a call asked for.
#[derive(Clone)]
pub(super) struct WantedPage {
    pub(super) mode: GrepOutput,
    pub(super) offset: u64,
    pub(super) max: u64,
    pub(super) before: usize,
    pub(super) after: usize,
    /// Bytes of a line that are shown.
    pub(super) columns: usize,
}

/// Files that were not searched, and why.
#[derive(Default)]
pub(super) struct Skipped {
    pub(super) by_policy: usize,
    pub(super) binary: usize,
    pub(super) too_large: usize,
    pub(super) unreadable: usize,
}

impl Skipped {
    fn to_json(&self) -> Option<Value> {
        let counts: Map<String, Value> = [
            ("by_policy", self.by_policy),
            ("binary", self.binary),
            ("too_large", self.too_large),
            ("unreadable", self.unreadable),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_owned(), count.into()))
        .collect();
        (!counts.is_empty()).then_some(Value::Object(counts))
    }
}

/// The results of all files so far.
pub(super) struct Collector {
    wanted: WantedPage,
    rows: Vec<Value>,
    room: usize,
    /// The first row left out because the result is full.
    next: Option<u64>,
    total_matches: u64,
    files_searched: u64,
    files_with_matches: u64,
    pub(super) skipped: Skipped,
    pub(super) walk_cut: bool,
}

impl Collector {
    pub(super) fn new(wanted: WantedPage) -> Self {
        Self {
            wanted,
            rows: Vec::new(),
            room: GREP_RESULT_BYTES,
            next: None,
            total_matches: 0,
            files_searched: 0,
            files_with_matches: 0,
            skipped: Skipped::default(),
            walk_cut: false,
        }
    }

    /// Adds the result of a file; `path` is asked only if it is shown.
    pub(super) fn add(&mut self, file: FileHits, path: impl Fn() -> String) {
        if file.is_binary {
            self.skipped.binary += 1;
            return;
        }
        self.files_searched += 1;
        if file.count == 0 {
            return;
        }
        let file_index = self.files_with_matches;
        self.total_matches += file.count;
        self.files_with_matches += 1;
        match self.wanted.mode {
            GrepOutput::Content => {
                self.room = file.room;
                self.next = self.next.or(file.next);
                let rows = file.hits.into_iter().map(|hit| hit.into_row(path()));
                self.rows.extend(rows);
            }
            GrepOutput::Count => {
                self.add_file(
                    file_index,
                    json!({"path": path(), "match_count": file.count}),
                );
            }
            GrepOutput::FilesWithMatches => self.add_file(file_index, json!({"path": path()})),
        }
    }

    /// Whether lines of a file that was only counted belong to the page.
    #[cfg(any(feature = "advanced-tools", test))]
    pub(super) fn wants_lines_of(&self, file: &FileHits) -> bool {
        self.wanted.mode == GrepOutput::Content
            && !file.is_binary
            && file.count > 0
            && self.next.is_none()
            && self.total_matches + file.count > self.wanted.offset
    }

    /// Adds the result of a file that was only counted.
    #[cfg(any(feature = "advanced-tools", test))]
    pub(super) fn add_counted(&mut self, mut file: FileHits, path: impl Fn() -> String) {
        file.room = self.room;
        file.next = self.next;
        self.add(file, path);
    }

    fn add_file(&mut self, index: u64, row: Value) {
        if index < self.wanted.offset || self.next.is_some() {
            return;
        }
        let size = row.to_string().len();
        if index - self.wanted.offset >= self.wanted.max || size > self.room {
            self.next = Some(index);
            return;
        }
        self.room -= size;
        self.rows.push(row);
    }

    pub(super) fn into_result(self) -> ToolResult {
        let mut result = Map::new();
        result.insert("matches".into(), Value::Array(self.rows));
        result.insert("total_matches".into(), self.total_matches.into());
        result.insert("files_searched".into(), self.files_searched.into());
        result.insert("files_with_matches".into(), self.files_with_matches.into());
        let truncated = self.next.is_some() || self.walk_cut;
        result.insert("truncated".into(), truncated.into());
        if let Some(next) = self.next {
            result.insert("next_offset".into(), next.into());
        }
        if let Some(skipped) = self.skipped.to_json() {
            result.insert("skipped".into(), skipped);
        }
        if self.walk_cut {
            let note = "the directory is too large to search to the end; search a part of it";
            result.insert("note".into(), note.into());
        }
        ToolResult::json(Value::Object(result))
    }
}

/// What one file held.
pub(super) struct FileHits {
    hits: Vec<Hit>,
    count: u64,
    room: usize,
    next: Option<u64>,
    is_binary: bool,
}

#[cfg(test)]
impl FileHits {
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

struct Hit {
    number: u64,
    line: String,
    is_cut: bool,
    before: Option<Vec<String>>,
    after: Option<Vec<String>>,
}

impl Hit {
    fn into_row(self, path: String) -> Value {
        let mut row = Map::new();
        row.insert("path".into(), path.into());
        row.insert("line_number".into(), self.number.into());
        row.insert("line".into(), self.line.into());
        if let Some(before) = self.before {
            row.insert("context_before".into(), before.into());
        }
        if let Some(after) = self.after {
            row.insert("context_after".into(), after.into());
        }
        if self.is_cut {
            row.insert("truncated".into(), true.into());
        }
        Value::Object(row)
    }
}

/// Takes the matches of one file from the searcher.
pub(super) struct FileSink<'a> {
    wanted: WantedPage,
    matcher: &'a RegexMatcher,
    cancel: &'a CancellationToken,
    /// The number of the next match over all files.
    index: u64,
    file: FileHits,
    is_content: bool,
    /// Whether the last match seen is the last one kept.
    kept_last: bool,
    /// The last lines seen, for the first match that is kept after others
    /// were skipped: their context was never shown.
    recent: VecDeque<(u64, String)>,
    before: Vec<String>,
}

impl<'a> FileSink<'a> {
    pub(super) fn new(
        collector: &Collector,
        matcher: &'a RegexMatcher,
        cancel: &'a CancellationToken,
    ) -> Self {
        Self {
            wanted: collector.wanted.clone(),
            matcher,
            cancel,
            index: collector.total_matches,
            file: FileHits {
                hits: Vec::new(),
                count: 0,
                room: collector.room,
                next: collector.next,
                is_binary: false,
            },
            is_content: collector.wanted.mode == GrepOutput::Content,
            kept_last: true,
            recent: VecDeque::new(),
            before: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> FileHits {
        self.file
    }

    fn wants(&self, index: u64) -> bool {
        self.is_content && self.file.next.is_none() && index >= self.wanted.offset
    }

    fn keep(&mut self, index: u64, number: u64, bytes: &[u8]) {
        let (line, is_cut) = self.matched_text(bytes);
        let before = match self.kept_last {
            true => std::mem::take(&mut self.before),
            false => self.recent_before(number),
        };
        let size = line.len() + before.iter().map(String::len).sum::<usize>();
        if index - self.wanted.offset >= self.wanted.max || size > self.file.room {
            self.file.next = Some(index);
            return;
        }
        self.file.room -= size;
        self.file.hits.push(Hit {
            number,
            line,
            is_cut,
            before: (self.wanted.before > 0).then_some(before),
            after: (self.wanted.after > 0).then(Vec::new),
        });
    }

    fn recent_before(&self, number: u64) -> Vec<String> {
        let first = number.saturating_sub(self.wanted.before as u64);
        self.recent
            .iter()
            .filter(|(at, _)| *at >= first && *at < number)
            .map(|(_, line)| line.clone())
            .collect()
    }

    /// Only a page that skips matches can need the lines around them.
    fn remembers(&self) -> bool {
        self.is_content && self.wanted.before > 0 && self.index <= self.wanted.offset
    }

    fn remember(&mut self, number: u64, line: String) {
        if self.recent.len() == self.wanted.before {
            self.recent.pop_front();
        }
        self.recent.push_back((number, line));
    }

    /// A matching line, cut so that the match can be seen.
    fn matched_text(&self, bytes: &[u8]) -> (String, bool) {
        let bytes = without_newline(bytes);
        if bytes.len() <= self.wanted.columns {
            return (String::from_utf8_lossy(bytes).into_owned(), false);
        }
        let found = self.matcher.find(bytes).ok().flatten();
        let at = found.map_or(0, |found| found.start());
        let last = bytes.len() - self.wanted.columns;
        let start = at.saturating_sub(self.wanted.columns / 4).min(last);
        (window(bytes, start, self.wanted.columns), true)
    }

    fn context_text(&self, bytes: &[u8]) -> String {
        let bytes = without_newline(bytes);
        match bytes.len() <= self.wanted.columns {
            true => String::from_utf8_lossy(bytes).into_owned(),
            false => window(bytes, 0, self.wanted.columns),
        }
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.cancel.is_cancelled() {
            return Ok(false);
        }
        let index = self.index;
        let number = found.line_number().unwrap_or(0);
        self.index += 1;
        self.file.count += 1;
        let kept_before = self.file.hits.len();
        if self.wants(index) {
            self.keep(index, number, found.bytes());
        }
        self.kept_last = self.file.hits.len() > kept_before;
        self.before.clear();
        if self.remembers() {
            let lines: Vec<_> = found.lines().map(|line| self.context_text(line)).collect();
            for (number, line) in (number..).zip(lines) {
                self.remember(number, line);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        if !self.is_content || self.file.next.is_some() && !self.kept_last {
            return Ok(true);
        }
        let text = self.context_text(line.bytes());
        if self.remembers() {
            self.remember(line.line_number().unwrap_or(0), text.clone());
        }
        if !self.kept_last {
            return Ok(true);
        }
        match line.kind() {
            SinkContextKind::After => {
                if let Some(after) = self.file.hits.last_mut().and_then(|hit| hit.after.as_mut()) {
                    self.file.room = self.file.room.saturating_sub(text.len());
                    after.push(text);
                }
            }
            _ => self.before.push(text),
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.file.is_binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.file.is_binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A line, or the lines of one match, without the last line break.
fn without_newline(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

/// A part of a line, with marks where something is left out.
fn window(bytes: &[u8], start: usize, width: usize) -> String {
    let end = (start + width).min(bytes.len());
    let mut part = bytes.get(start..end).unwrap_or_default();
    // Do not start or end inside a character.
    while start > 0 && part.first().is_some_and(|byte| byte & 0xC0 == 0x80) {
        part = part.get(1..).unwrap_or_default();
    }
    if end < bytes.len()
        && let Err(error) = std::str::from_utf8(part)
        && error.error_len().is_none()
    {
        part = part.get(..error.valid_up_to()).unwrap_or_default();
    }
    let text = String::from_utf8_lossy(part);
    let left = if start > 0 { "…" } else { "" };
    let right = if end < bytes.len() { "…" } else { "" };
    format!("{left}{text}{right}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_cut_between_characters_and_marked() {
        let line = "aé".repeat(4);
        assert_eq!(window(line.as_bytes(), 0, 12), line);
        assert_eq!(window(line.as_bytes(), 0, 5), "aéa…");
        assert_eq!(window(line.as_bytes(), 2, 5), "…aéa…");
        assert_eq!(window(b"abc", 1, 2), "…bc");
    }
}
