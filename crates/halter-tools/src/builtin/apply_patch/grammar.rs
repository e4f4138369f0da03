//! The text of a patch, taken apart.

use crate::limits::{CHANGED_FILES, PATCH_BYTES};
use crate::suggest::shortened;
use indexmap::IndexSet;
use std::iter::repeat_n;

/// What a patch does.
pub(super) struct Patch<'a> {
    /// In its order.
    pub(super) files: Vec<FilePatch<'a>>,
    /// Every path it names, once.
    pub(super) paths: IndexSet<&'a str>,
}

/// What a patch does to one file.
pub(super) struct FilePatch<'a> {
    pub(super) path: &'a str,
    pub(super) change: PatchedFile<'a>,
}

pub(super) enum PatchedFile<'a> {
    /// A new file with these lines.
    Add(Vec<&'a str>),
    Delete,
    Update {
        move_to: Option<&'a str>,
        hunks: Vec<Hunk<'a>>,
    },
}

/// One change in a file.
pub(super) struct Hunk<'a> {
    /// Where it starts in the patch, counted from 1.
    pub(super) line: usize,
    /// Lines of the file that come before it, outermost first.
    pub(super) anchors: Vec<&'a str>,
    pub(super) lines: Vec<HunkLine<'a>>,
    /// Its last line is the last of the file.
    pub(super) at_end: bool,
}

#[derive(Clone, Copy)]
pub(super) enum HunkLine<'a> {
    Keep(&'a str),
    Remove(&'a str),
    Add(&'a str),
}

impl<'a> Hunk<'a> {
    /// The lines that must be in the file.
    pub(super) fn old_lines(&self) -> Vec<&'a str> {
        let old = self.lines.iter().filter_map(|line| match *line {
            HunkLine::Keep(text) | HunkLine::Remove(text) => Some(text),
            HunkLine::Add(_) => None,
        });
        old.collect()
    }

    fn changes_something(&self) -> bool {
        let is_change = |line: &HunkLine<'_>| !matches!(line, HunkLine::Keep(_));
        self.lines.iter().any(is_change)
    }
}

/// Why a text is not taken as a patch.
#[derive(Debug, thiserror::Error)]
pub(super) enum PatchError {
    #[error("the patch has {0} bytes, over the limit of {PATCH_BYTES}; apply it in parts")]
    TooLarge(usize),
    #[error("line {line} of the patch: {problem}")]
    Syntax { line: usize, problem: String },
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

/// Takes a patch apart, in a time that grows with its size. Blank lines around
/// it and between its files do not count.
pub(super) fn parse(text: &str) -> Result<Patch<'_>, PatchError> {
    if text.len() > PATCH_BYTES {
        return Err(PatchError::TooLarge(text.len()));
    }
    let mut reader = PatchReader {
        lines: text.lines().collect(),
        at: 0,
        paths: IndexSet::new(),
    };
    reader.skip_blank();
    if reader.peek().map(str::trim_end) != Some(BEGIN) {
        return reader.error(format!("a patch starts with `{BEGIN}`"));
    }
    reader.at += 1;
    let mut files = Vec::new();
    loop {
        reader.skip_blank();
        match reader.peek() {
            None => return reader.error(format!("a patch ends with `{END}`, which is missing")),
            Some(line) if line.trim_end() == END => break,
            Some(line) => files.push(reader.file(line)?),
        }
    }
    if files.is_empty() {
        return reader.error(format!("the patch changes nothing; {HEADERS}"));
    }
    reader.at += 1;
    reader.skip_blank();
    match reader.peek() {
        None => Ok(Patch {
            files,
            paths: reader.paths,
        }),
        Some(_) => reader.error(format!("nothing may follow `{END}`")),
    }
}

const HEADERS: &str = "name a file with `*** Add File: path`, `*** Update File: path` or \
                       `*** Delete File: path`";

struct PatchReader<'a> {
    lines: Vec<&'a str>,
    /// The line that is read next.
    at: usize,
    /// Those that were read.
    paths: IndexSet<&'a str>,
}

impl<'a> PatchReader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
    }

    fn error<T>(&self, problem: impl Into<String>) -> Result<T, PatchError> {
        Err(PatchError::Syntax {
            line: self.at + 1,
            problem: problem.into(),
        })
    }

    fn file(&mut self, header: &'a str) -> Result<FilePatch<'a>, PatchError> {
        let (path, change) = if let Some(path) = header.strip_prefix("*** Add File: ") {
            let path = self.path(path)?;
            (path, PatchedFile::Add(self.added_lines()?))
        } else if let Some(path) = header.strip_prefix("*** Delete File: ") {
            (self.path(path)?, PatchedFile::Delete)
        } else if let Some(path) = header.strip_prefix("*** Update File: ") {
            let path = self.path(path)?;
            (path, self.update()?)
        } else {
            let problem = match header.starts_with(['+', '-', ' ', '@']) {
                true => format!("this line belongs to no file; {HEADERS}"),
                false => format!("`{}` is not understood; {HEADERS}", shortened(header)),
            };
            return self.error(problem);
        };
        Ok(FilePatch { path, change })
    }

    /// The path of a header, which has been read then.
    fn path(&mut self, path: &'a str) -> Result<&'a str, PatchError> {
        let path = path.trim();
        if path.is_empty() {
            return self.error("the path is missing");
        }
        if self.paths.insert(path) && self.paths.len() > CHANGED_FILES {
            return self.error(format!(
                "one patch names {CHANGED_FILES} files at most; change the rest in another"
            ));
        }
        self.at += 1;
        Ok(path)
    }

    fn added_lines(&mut self) -> Result<Vec<&'a str>, PatchError> {
        let mut lines = Vec::new();
        while let Some(line) = self.peek() {
            match line.strip_prefix('+') {
                Some(text) => lines.push(text),
                None if line.starts_with("*** ") || self.is_separator(self.empty_lines()) => break,
                None => return self.error("each line of a new file starts with `+`"),
            }
            self.at += 1;
        }
        Ok(lines)
    }

    fn update(&mut self) -> Result<PatchedFile<'a>, PatchError> {
        let header = self.at;
        let mut move_to = None;
        if let Some(path) = self.peek().and_then(|it| it.strip_prefix("*** Move to: ")) {
            move_to = Some(self.path(path)?);
        }
        let mut hunks = Vec::new();
        loop {
            if self.is_separator(self.empty_lines()) {
                self.skip_blank();
            }
            match self.peek() {
                None => break,
                Some(line) if line.starts_with("*** ") && line.trim_end() != END_OF_FILE => break,
                Some(_) => hunks.push(self.hunk()?),
            }
        }
        if hunks.is_empty() && move_to.is_none() {
            self.at = header;
            return self.error(
                "an update needs a change: after `@@`, lines that start with ` ` (kept), \
                 `-` (removed) or `+` (added)",
            );
        }
        Ok(PatchedFile::Update { move_to, hunks })
    }

    fn hunk(&mut self) -> Result<Hunk<'a>, PatchError> {
        let start = self.at;
        let mut hunk = Hunk {
            line: start + 1,
            anchors: Vec::new(),
            lines: Vec::new(),
            at_end: false,
        };
        while let Some(rest) = self.peek().and_then(|line| line.strip_prefix("@@")) {
            let anchor = rest.strip_prefix(' ').unwrap_or(rest);
            if !anchor.trim().is_empty() && !is_line_range(anchor) {
                hunk.anchors.push(anchor);
            }
            self.at += 1;
        }
        while let Some(line) = self.peek() {
            if line.trim_end() == END_OF_FILE {
                hunk.at_end = true;
                self.at += 1;
                break;
            }
            if line.starts_with("@@") || line.starts_with("*** ") {
                break;
            }
            // All empty lines at once: what follows them says what each is.
            let empty = self.empty_lines();
            if self.is_separator(empty) {
                break;
            }
            if empty > 0 {
                hunk.lines.extend(repeat_n(HunkLine::Keep(""), empty));
                self.at += empty;
                continue;
            }
            hunk.lines.push(self.hunk_line(line)?);
            self.at += 1;
        }
        if !hunk.changes_something() {
            self.at = start;
            return self.error("this hunk changes nothing: no line of it starts with `-` or `+`");
        }
        Ok(hunk)
    }

    fn hunk_line(&self, line: &'a str) -> Result<HunkLine<'a>, PatchError> {
        let mut chars = line.chars();
        let found = match (chars.next(), chars.as_str()) {
            (None, text) | (Some(' '), text) => Some(HunkLine::Keep(text)),
            (Some('-'), text) => Some(HunkLine::Remove(text)),
            (Some('+'), text) => Some(HunkLine::Add(text)),
            _ => None,
        };
        match found {
            Some(found) => Ok(found),
            None => self.error(format!(
                "`{}` starts with none of ` ` (kept), `-` (removed) and `+` (added)",
                shortened(line)
            )),
        }
    }

    /// How many empty lines come next.
    fn empty_lines(&self) -> usize {
        let rest = self.lines.get(self.at..).unwrap_or_default();
        rest.iter().take_while(|line| line.is_empty()).count()
    }

    /// Empty lines before a header, or at the end, separate; elsewhere they are
    /// empty lines of the file.
    fn is_separator(&self, empty: usize) -> bool {
        let heads = |line: &&str| line.starts_with("*** ") || line.starts_with("@@");
        empty > 0 && self.lines.get(self.at + empty).is_none_or(heads)
    }
}

/// The line numbers of a unified diff, which say nothing here: text decides.
fn is_line_range(text: &str) -> bool {
    let Some((old, rest)) = text.strip_prefix('-').and_then(|it| it.split_once(" +")) else {
        return false;
    };
    let Some((new, _)) = rest.split_once(" @@") else {
        return false;
    };
    let is_range = |it: &str| !it.is_empty() && it.chars().all(|c| c.is_ascii_digit() || c == ',');
    is_range(old) && is_range(new)
}
