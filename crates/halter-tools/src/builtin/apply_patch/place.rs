//! Finding the place of each hunk in a file, and changing the file there.

use super::super::find_text::{FileText, nearest_lines};
use super::super::support::text_head;
use super::grammar::{Hunk, HunkLine};
use crate::limits::LINE_COMPARISONS;
use serde::Serialize;
use std::cell::Cell;

/// How a line of a patch was found equal to one of the file, strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Tolerance {
    Exact,
    /// But for whitespace at their ends.
    TrailingWhitespace,
    /// But for whitespace at their starts and ends.
    Whitespace,
}

impl Tolerance {
    const ALL: [Self; 3] = [Self::Exact, Self::TrailingWhitespace, Self::Whitespace];

    fn same(self, left: &str, right: &str) -> bool {
        match self {
            Self::Exact => left == right,
            Self::TrailingWhitespace => left.trim_end() == right.trim_end(),
            Self::Whitespace => left.trim() == right.trim(),
        }
    }
}

/// Where a hunk went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct PlacedHunk {
    /// The line of the file before the patch, counted from 1.
    line: usize,
    #[serde(rename = "match")]
    tolerance: Tolerance,
}

/// A hunk that has no place in the file.
#[derive(Debug, thiserror::Error)]
#[error("hunk {number} (line {patch_line} of the patch) {problem}")]
pub(super) struct HunkMismatch {
    number: usize,
    patch_line: usize,
    problem: String,
}

/// A file's text with all hunks applied, and where they went. Each is looked
/// for after the one before it. Lines that are kept stay as the file has them.
pub(super) fn apply(
    text: &str,
    hunks: &[Hunk<'_>],
) -> Result<(String, Vec<PlacedHunk>), HunkMismatch> {
    let file = FileLines::new(text);
    let mut out: Vec<(&str, &str)> = Vec::new();
    let mut placed = Vec::new();
    let mut done = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let (start, tolerance) = file.find(hunk, done).map_err(|problem| HunkMismatch {
            number: index + 1,
            patch_line: hunk.line,
            problem,
        })?;
        out.extend(file.lines.get(done..start).unwrap_or_default());
        let mut next = start;
        for line in &hunk.lines {
            match *line {
                HunkLine::Keep(_) => out.extend(file.lines.get(next)),
                HunkLine::Remove(_) => {}
                HunkLine::Add(added) => {
                    let before = out.last().map(|(_, ending)| *ending);
                    out.push((added, before.unwrap_or_else(|| file.ending_at(next))));
                    continue;
                }
            }
            next += 1;
        }
        done = next;
        let line = start + 1;
        placed.push(PlacedHunk { line, tolerance });
    }
    out.extend(file.lines.get(done..).unwrap_or_default());
    Ok((file.joined(&out), placed))
}

/// The lines of a file, each with its ending.
struct FileLines<'a> {
    text: &'a str,
    lines: Vec<(&'a str, &'a str)>,
    /// The last line has an ending too. Whether it does stays as it is.
    ends_in_newline: bool,
    /// How many lines were compared so far.
    compared: Cell<usize>,
}

impl<'a> FileLines<'a> {
    fn new(text: &'a str) -> Self {
        let mut lines: Vec<(&str, &str)> = Vec::new();
        for line in text.split_inclusive('\n') {
            let split = match line.strip_suffix("\r\n") {
                Some(body) => (body, "\r\n"),
                None => match line.strip_suffix('\n') {
                    Some(body) => (body, "\n"),
                    // What may follow the last line ends as the one before it.
                    None => (line, lines.last().map_or("\n", |(_, ending)| *ending)),
                },
            };
            lines.push(split);
        }
        Self {
            text,
            lines,
            ends_in_newline: text.is_empty() || text.ends_with('\n'),
            compared: Cell::new(0),
        }
    }

    fn ending_at(&self, line: usize) -> &'a str {
        let line = self.lines.get(line).or(self.lines.last());
        line.map_or("\n", |(_, ending)| *ending)
    }

    fn joined(&self, lines: &[(&str, &str)]) -> String {
        let mut text: String = lines.iter().flat_map(|(body, end)| [*body, *end]).collect();
        if !self.ends_in_newline
            && let Some((_, ending)) = lines.last()
        {
            text.truncate(text.len() - ending.len());
        }
        text
    }

    /// The first line a hunk is about, or why there is none.
    fn find(&self, hunk: &Hunk<'_>, from: usize) -> Result<(usize, Tolerance), String> {
        let mut start = from;
        let mut tolerance = Tolerance::Exact;
        for anchor in &hunk.anchors {
            let (at, needed) = self
                .search(&[anchor], start)
                .ok_or_else(|| self.missing(&[anchor], start, "its `@@` line"))?;
            start = at + 1;
            tolerance = tolerance.max(needed);
        }
        let old = hunk.old_lines();
        let found = match (old.is_empty(), hunk.at_end) {
            // Added where the anchor ends, or at the end of the file.
            (true, false) if !hunk.anchors.is_empty() => Some((start, Tolerance::Exact)),
            (true, _) => Some((self.lines.len(), Tolerance::Exact)),
            (false, true) => self.search_at_end(&old, start),
            (false, false) => self.search(&old, start).or_else(|| {
                // Many repeat the line of the anchor in the hunk.
                let repeated = !hunk.anchors.is_empty();
                repeated.then(|| self.search(&old, start - 1)).flatten()
            }),
        };
        match found {
            Some((at, needed)) => Ok((at, tolerance.max(needed))),
            None if hunk.at_end => Err(self.not_at_end(&old)),
            None => Err(self.missing(&old, start, "its lines")),
        }
    }

    fn search(&self, wanted: &[&str], from: usize) -> Option<(usize, Tolerance)> {
        Tolerance::ALL.into_iter().find_map(|tolerance| {
            let rest = self.lines.get(from..)?;
            let mut windows = rest.windows(wanted.len());
            let at = windows.position(|window| {
                self.is_exhausted() || self.matches(window, wanted, tolerance)
            })?;
            (!self.is_exhausted()).then_some((from + at, tolerance))
        })
    }

    fn matches(&self, window: &[(&str, &str)], wanted: &[&str], tolerance: Tolerance) -> bool {
        let mut pairs = window.iter().zip(wanted);
        pairs.all(|((line, _), wanted)| {
            self.compared.set(self.compared.get() + 1);
            tolerance.same(line, wanted)
        })
    }

    /// Lines that all look alike are compared again and again: that has an end.
    fn is_exhausted(&self) -> bool {
        self.compared.get() > LINE_COMPARISONS
    }

    fn search_at_end(&self, wanted: &[&str], from: usize) -> Option<(usize, Tolerance)> {
        let at = self.lines.len().checked_sub(wanted.len())?;
        let window = self.lines.get(at..).filter(|_| at >= from)?;
        let fits = |tolerance: &Tolerance| self.matches(window, wanted, *tolerance);
        Some((at, Tolerance::ALL.into_iter().find(fits)?))
    }

    fn not_at_end(&self, wanted: &[&str]) -> String {
        match self.search(wanted, 0) {
            Some((at, _)) => format!(
                "does not match: its lines are at line {}, not at the end of the file; leave \
                 `*** End of File` out",
                at + 1
            ),
            None => self.missing(wanted, 0, "its lines"),
        }
    }

    /// Says what is in the file in place of lines that are not.
    fn missing(&self, wanted: &[&str], from: usize, what: &str) -> String {
        if self.is_exhausted() {
            return format!(
                "is not placed: {what} look like too many others to be compared with all of \
                 them; quote fewer lines, and others"
            );
        }
        if let Some((at, _)) = self.search(wanted, 0)
            && at < from
        {
            return format!(
                "does not match: {what} are at line {}, before the place of the hunk or `@@` line \
                 that precedes them; put hunks in the order of the file",
                at + 1
            );
        }
        let near = match self.nearest_block(wanted) {
            Some(block) => block,
            None => nearest_lines(&FileText::new(self.text), &wanted.join("\n")).join("; "),
        };
        match near.is_empty() {
            true => format!(
                "does not match: {what} are not in the file, nor anything like them; read the \
                 file and quote it"
            ),
            false => format!(
                "does not match: {what} are not in the file. Nearest: {near}. Quote the file as \
                 it is"
            ),
        }
    }

    /// The place where most of the lines are, and the first that differs there.
    fn nearest_block(&self, wanted: &[&str]) -> Option<String> {
        let matching = |window: &[(&str, &str)]| {
            let pairs = window.iter().zip(wanted);
            let same = |((line, _), wanted): &(&(&str, &str), &&str)| {
                !wanted.trim().is_empty() && Tolerance::Whitespace.same(line, wanted)
            };
            pairs.filter(same).count()
        };
        let lines = self.lines.get(..COMPARED_LINES).unwrap_or(&self.lines);
        let windows = lines.windows(wanted.len()).enumerate();
        let counted = windows.map(|(at, window)| (matching(window), at));
        // Of equals, the first.
        let (count, at) = counted.max_by_key(|(count, at)| (*count, usize::MAX - at))?;
        if count == 0 {
            return None;
        }
        let pairs = lines.iter().skip(at).zip(wanted).enumerate();
        let (offset, ((line, _), wanted)) = pairs
            .into_iter()
            .find(|(_, ((line, _), wanted))| !Tolerance::Whitespace.same(line, wanted))?;
        Some(format!(
            "line {} is `{}`, where the hunk has `{}`",
            at + offset + 1,
            text_head(line, SHOWN_BYTES),
            text_head(wanted, SHOWN_BYTES)
        ))
    }
}

/// Lines that are compared with a hunk that does not match, and bytes of one
/// that are shown.
const COMPARED_LINES: usize = 20_000;
const SHOWN_BYTES: usize = 300;

#[cfg(test)]
mod tests;
