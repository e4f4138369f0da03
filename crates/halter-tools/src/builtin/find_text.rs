//! Finding and replacing text whatever its line endings are.

use super::support::text_head;
use crate::limits::EDIT_LISTED_LINES;
use std::borrow::Cow;
use std::ops::Range;

/// Lines that are compared with text that was not found, and their length in
/// bytes: enough for source code, cheap for anything else.
const COMPARED_LINES: usize = 20_000;
const COMPARED_LINE_BYTES: usize = 300;

/// How alike two lines must be to be worth showing, and how many are shown.
const ALIKE: f64 = 0.6;
const SHOWN_LINES: usize = 3;

/// The content of a file, searched as if all lines ended in `\n`.
pub(super) struct FileText<'a> {
    original: &'a str,
    unified: Cow<'a, str>,
    /// Where in `unified` a `\n` stands for `\r\n`.
    unified_at: Vec<usize>,
}

impl<'a> FileText<'a> {
    pub(super) fn new(original: &'a str) -> Self {
        if !original.contains("\r\n") {
            return Self {
                original,
                unified: Cow::Borrowed(original),
                unified_at: Vec::new(),
            };
        }
        let mut unified = String::with_capacity(original.len());
        let mut unified_at = Vec::new();
        let mut pieces = original.split("\r\n").peekable();
        while let Some(piece) = pieces.next() {
            unified.push_str(piece);
            if pieces.peek().is_some() {
                unified_at.push(unified.len());
                unified.push('\n');
            }
        }
        Self {
            original,
            unified: Cow::Owned(unified),
            unified_at,
        }
    }

    /// Where `wanted` occurs, as ranges of the unified text.
    pub(super) fn find(&self, wanted: &str) -> Vec<Range<usize>> {
        let wanted = match self.unified_at.is_empty() {
            true => Cow::Borrowed(wanted),
            false => Cow::Owned(wanted.replace("\r\n", "\n")),
        };
        self.unified
            .match_indices(&*wanted)
            .map(|(start, found)| start..start + found.len())
            .collect()
    }

    /// The content with every match replaced. What is put in gets the line
    /// ending of the place it goes to.
    pub(super) fn replace(&self, matches: &[Range<usize>], new: &str) -> String {
        let mut result = String::with_capacity(self.original.len());
        let mut done = 0;
        for found in matches {
            let (start, end) = (self.origin(found.start), self.origin(found.end));
            result.push_str(self.original.get(done..start).unwrap_or_default());
            match self.ends_in_crlf(found.start) {
                true => result.push_str(&new.replace("\r\n", "\n").replace('\n', "\r\n")),
                false => result.push_str(new),
            }
            done = end;
        }
        result.push_str(self.original.get(done..).unwrap_or_default());
        result
    }

    /// The line a position of the unified text is on, counted from 1.
    pub(super) fn line_number(&self, position: usize) -> usize {
        let before = self.unified.get(..position).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.unified.lines())
    }

    /// The position in the original text.
    fn origin(&self, position: usize) -> usize {
        position + self.unified_at.partition_point(|at| *at < position)
    }

    /// True if the line at the position ends in `\r\n`, or, at the end of the
    /// file, the line before it.
    fn ends_in_crlf(&self, position: usize) -> bool {
        let (before, after) = self.unified.split_at(position);
        let newline = after
            .find('\n')
            .map(|offset| position + offset)
            .or_else(|| before.rfind('\n'));
        newline.is_some_and(|at| self.unified_at.binary_search(&at).is_ok())
    }
}

/// The lines of matches, for a message.
pub(super) fn line_list(text: &FileText<'_>, matches: &[Range<usize>]) -> String {
    let listed: Vec<_> = matches
        .iter()
        .take(EDIT_LISTED_LINES)
        .map(|found| text.line_number(found.start).to_string())
        .collect();
    match matches.len().saturating_sub(EDIT_LISTED_LINES) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

/// Lines that may be what was meant by text that does not occur.
pub(super) fn nearest_lines(text: &FileText<'_>, wanted: &str) -> Vec<String> {
    if let Some(block) = same_but_for_whitespace(text, wanted) {
        return vec![block];
    }
    let Some(probe) = wanted.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return Vec::new();
    };
    let probe = text_head(probe, COMPARED_LINE_BYTES);
    let mut alike: Vec<(f64, usize, &str)> = text
        .lines()
        .take(COMPARED_LINES)
        .filter(|(_, line)| line.len() <= 2 * COMPARED_LINE_BYTES && !line.trim().is_empty())
        .map(|(number, line)| {
            (
                strsim::normalized_levenshtein(probe, line.trim()),
                number,
                line,
            )
        })
        .filter(|(likeness, ..)| *likeness >= ALIKE)
        .collect();
    alike.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
    alike
        .into_iter()
        .take(SHOWN_LINES)
        .map(|(_, number, line)| {
            format!("line {number}: `{}`", text_head(line, COMPARED_LINE_BYTES))
        })
        .collect()
}

/// The lines that are the wanted ones but for leading or trailing whitespace.
fn same_but_for_whitespace(text: &FileText<'_>, wanted: &str) -> Option<String> {
    let wanted: Vec<&str> = wanted.trim().lines().map(str::trim).collect();
    let lines: Vec<&str> = text.lines().map(|(_, line)| line).collect();
    if wanted.iter().all(|line| line.is_empty()) {
        return None;
    }
    // Lines that all look alike would be compared again and again.
    let places = crate::limits::LINE_COMPARISONS / wanted.len();
    let mut windows = lines.windows(wanted.len()).take(places);
    let at = windows.position(|window| {
        window
            .iter()
            .map(|line| line.trim())
            .eq(wanted.iter().copied())
    })?;
    let first = text_head(lines.get(at)?, COMPARED_LINE_BYTES);
    Some(match wanted.len() {
        1 => format!("line {} differs only in whitespace: `{first}`", at + 1),
        count => format!(
            "lines {} to {} differ only in whitespace, starting with `{first}`",
            at + 1,
            at + count
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn replaced(content: &str, old: &str, new: &str) -> String {
        let text = FileText::new(content);
        text.replace(&text.find(old), new)
    }

    #[test]
    fn crlf_files_are_edited_with_lf_text_and_stay_crlf() {
        let file = "one\r\ntwo\r\nthree\r\n";
        assert_eq!(
            replaced(file, "one\ntwo\n", "1\n2\n"),
            "1\r\n2\r\nthree\r\n"
        );
        assert_eq!(
            replaced(file, "two\r\n", "2\nand\n"),
            "one\r\n2\r\nand\r\nthree\r\n"
        );
        assert_eq!(replaced(file, "three", "3\n4"), "one\r\ntwo\r\n3\r\n4\r\n");
        assert_eq!(replaced("a\r\nb", "b", "b\nc"), "a\r\nb\r\nc");
    }

    #[test]
    fn mixed_files_keep_the_ending_of_each_line() {
        let file = "lf\ncrlf\r\nlast";
        assert_eq!(replaced(file, "lf\ncrlf\n", "x\ny\n"), "x\ny\nlast");
        assert_eq!(replaced(file, "crlf", "a\nb"), "lf\na\r\nb\r\nlast");
    }

    #[test]
    fn lf_files_take_text_as_it_is() {
        assert_eq!(replaced("a\nb\n", "a", "x\r\ny"), "x\r\ny\nb\n");
    }

    #[test]
    fn all_matches_are_found_by_line() {
        let text = FileText::new("x\r\ny\r\nx\r\nx");
        let found = text.find("x");
        assert_eq!(line_list(&text, &found), "1, 3, 4");
    }

    #[test]
    fn the_list_of_lines_has_an_end() {
        let content = "x\n".repeat(EDIT_LISTED_LINES);
        let text = FileText::new(&content);
        assert!(!line_list(&text, &text.find("x")).contains("more"));
        let content = "x\n".repeat(EDIT_LISTED_LINES + 2);
        let text = FileText::new(&content);
        assert!(line_list(&text, &text.find("x")).ends_with("20 and 2 more"));
    }

    #[test]
    fn near_misses_are_shown() {
        let text = FileText::new("fn main() {\n    let answer = 42;\n}\n");
        assert_eq!(
            nearest_lines(&text, "  let answer = 42;\n}"),
            ["lines 2 to 3 differ only in whitespace, starting with `    let answer = 42;`"]
        );
        assert_eq!(
            nearest_lines(&text, "let anwser = 42;"),
            ["line 2: `    let answer = 42;`"]
        );
        assert!(nearest_lines(&text, "completely different").is_empty());
        assert!(nearest_lines(&text, "\n\n").is_empty());
    }

    proptest! {
        #[test]
        fn replacing_in_lf_text_is_what_str_replace_does(
            content in "[ab\n]{0,30}", old in "[ab\n]{1,3}", new in "[abc\n]{0,3}"
        ) {
            prop_assert_eq!(replaced(&content, &old, &new), content.replace(&old, &new));
        }

        #[test]
        fn crlf_text_behaves_like_its_lf_twin(
            content in "[ab\n]{0,30}", old in "[ab\n]{1,3}", new in "[abc\n]{0,3}"
        ) {
            let twin = content.replace('\n', "\r\n");
            let edited = replaced(&twin, &old, &new);
            // Without a line break the file has no ending to follow.
            prop_assume!(content.contains('\n'));
            prop_assert_eq!(edited, content.replace(&old, &new).replace('\n', "\r\n"));
        }

        #[test]
        fn any_text_survives_a_replacement_by_itself(content in ".{0,40}", old in ".{1,2}") {
            prop_assume!(!old.contains('\n') && !old.contains('\r'));
            prop_assert_eq!(replaced(&content, &old, &old), content);
        }
    }
}
