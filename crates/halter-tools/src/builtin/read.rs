//! `read`: lines of a text file, or an image or PDF to look at.
//!
//! Text is streamed, so size is no reason to refuse it; only what is returned
//! is bounded. An image or PDF, known by its first bytes, is returned whole and
//! has bounds. Any other file that holds a NUL byte near its start is binary
//! and refused; a line that is not UTF-8 is refused by its number, and the
//! lines around it stay readable.

mod earlier;
mod media;

use self::media::{Media, start_of};
use super::file_views::file_seen;
use super::support::{LOOKS, blocking, path_in, shown, spelled};
use crate::context::{EARLIER_MESSAGE, ToolContext};
use crate::limits::{BINARY_SNIFF_BYTES, LINE_BYTES, READ_LINES};
use crate::typed::TypedTool;
use anyhow::{Context as _, anyhow, bail};
use async_trait::async_trait;
use halter_policy::PolicyError;
use halter_protocol::{
    Action, ContentHash, MediaFormat, ToolCapabilities, ToolConcurrency, ToolError, ToolErrorCode,
    ToolResult,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::{Cursor, Read};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Read a text file, an image (PNG, JPEG, GIF, WebP) or a PDF, always before you
/// edit it. A long text comes in pages: go on at `next_offset`. A path such as
/// `blob:0f3a` stands for an earlier output of this session.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReadInput {
    /// Absolute, or from the working directory.
    #[schemars(length(min = 1))]
    path: String,
    /// The first line, counted from 1.
    #[serde(default = "first_line")]
    #[schemars(range(min = 1))]
    offset: u64,
    /// The most lines to return.
    #[serde(default = "all_lines")]
    #[schemars(range(min = 1, max = READ_LINES))]
    limit: u64,
    /// How long the read may take.
    #[serde(default = "ten_seconds")]
    #[schemars(range(min = 1, max = 600), extend("unsent" = true))]
    timeout_secs: u64,
    /// Return numbered `lines` instead of `content`.
    #[serde(default)]
    line_numbers: bool,
}

fn first_line() -> u64 {
    1
}

fn all_lines() -> u64 {
    READ_LINES as u64
}

fn ten_seconds() -> u64 {
    10
}

pub(crate) struct ReadTool;

#[async_trait]
impl TypedTool for ReadTool {
    type Input = ReadInput;
    const NAME: &'static str = "read";

    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::ReadOnly
    }

    fn capabilities(&self) -> ToolCapabilities {
        LOOKS
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let text = input.get("path").and_then(Value::as_str);
        if text.is_some_and(|text| text.starts_with(EARLIER_MESSAGE)) {
            return vec![Action::Other { mutating: false }];
        }
        let path = path_in(input, "path").into_iter();
        path.map(|path| Action::Read { path }).collect()
    }

    async fn run(&self, context: ToolContext, input: ReadInput) -> anyhow::Result<ToolResult> {
        if let Some(id) = input.path.strip_prefix(EARLIER_MESSAGE) {
            let stop = ReadDeadline::new(&context.cancel, &input);
            return earlier::look_up(&context, id, &input, &stop).await;
        }
        blocking(move || {
            let door = context.policy.door();
            let handle = door.open_read(&spelled(&input.path)).map_err(explain)?;
            let resolved = handle.resolved().to_owned();
            let path = shown(door, &resolved);
            let max_bytes = context.policy.max_read_bytes();
            let stop = ReadDeadline::new(&context.cancel, &input);
            let size = handle.metadata().len();
            let file = handle.into_reader();
            let (result, sha256) = look_at(file, size, path, &input, max_bytes, &stop)?;
            context.remember(file_seen(&resolved, &sha256));
            Ok(result)
        })
        .await
    }
}

/// The result for an open file, and the hash of the file.
fn look_at(
    mut file: impl Read,
    size: u64,
    path: String,
    input: &ReadInput,
    max_bytes: u64,
    stop: &ReadDeadline<'_>,
) -> anyhow::Result<(ToolResult, String)> {
    let cannot = || format!("cannot read '{path}'");
    let start = start_of(&mut file).with_context(cannot)?;
    let format = MediaFormat::detect(&start);
    let whole = Cursor::new(start).chain(file);
    if let Some(format) = format {
        let media = Media::read(format, whole, size, max_bytes, stop).with_context(cannot)?;
        let sha256 = media.sha256.clone();
        return Ok((media.into_result(path), sha256));
    }
    let mut page = Page::new(input, max_bytes);
    let sha256 = page.scan(whole, stop).with_context(cannot)?;
    let result = page.into_result(path, &sha256, input.line_numbers)?;
    Ok((result, sha256))
}

/// What to do instead, where the door cannot know.
fn explain(error: PolicyError) -> anyhow::Error {
    match error {
        PolicyError::NotAFile { .. } => anyhow!("{error}; list it with `glob`"),
        PolicyError::NotFound { .. } => anyhow!("{error}; find its name with `glob`"),
        other => other.into(),
    }
}

/// When to give up a read.
struct ReadDeadline<'a> {
    cancel: &'a CancellationToken,
    deadline: Instant,
    timeout_secs: u64,
}

impl<'a> ReadDeadline<'a> {
    fn new(cancel: &'a CancellationToken, input: &ReadInput) -> Self {
        Self {
            cancel,
            deadline: Instant::now() + Duration::from_secs(input.timeout_secs),
            timeout_secs: input.timeout_secs,
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.cancel.is_cancelled() {
            return Err(crate::context::cancelled().into());
        }
        if Instant::now() >= self.deadline {
            return Err(ToolError::new(
                ToolErrorCode::TimedOut,
                format!(
                    "reading took longer than {} s; raise `timeout_secs`, or search with `grep`",
                    self.timeout_secs
                ),
            )
            .into());
        }
        Ok(())
    }
}

/// The lines asked for, collected while the file goes by.
struct Page {
    first: u64,
    limit: usize,
    room: usize,
    line_cap: usize,
    lines: Vec<String>,
    /// The line that is being read: its number, its start, its full length.
    number: u64,
    current: Vec<u8>,
    current_len: usize,
    /// The first line left out because the page is full.
    next: Option<u64>,
    ends_with_newline: bool,
    crlf: bool,
    bad_text: Option<String>,
}

impl Page {
    fn new(input: &ReadInput, max_bytes: u64) -> Self {
        let room = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        Self {
            first: input.offset,
            limit: usize::try_from(input.limit).unwrap_or(READ_LINES),
            room,
            line_cap: LINE_BYTES.min(room),
            lines: Vec::new(),
            number: 1,
            current: Vec::new(),
            current_len: 0,
            next: None,
            ends_with_newline: false,
            crlf: false,
            bad_text: None,
        }
    }

    /// Reads the whole file and returns its hash.
    fn scan(&mut self, mut file: impl Read, stop: &ReadDeadline<'_>) -> anyhow::Result<String> {
        let mut hash = ContentHash::default();
        let mut buffer = vec![0; 64 * 1024];
        let mut seen = 0;
        loop {
            stop.check()?;
            let count = match file.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            let chunk = buffer.get(..count).unwrap_or_default();
            if chunk.is_empty() {
                break;
            }
            let start = chunk.len().min(BINARY_SNIFF_BYTES.saturating_sub(seen));
            if chunk.iter().take(start).any(|byte| *byte == 0) {
                bail!(
                    "it is a binary file; look at it with a program that knows its format \
                     (for example `file` or `od` in the shell)"
                );
            }
            seen += chunk.len();
            hash.update(chunk);
            for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                self.take(piece);
            }
        }
        if self.current_len > 0 {
            self.finish_line(false);
        }
        Ok(hash.hex())
    }

    /// Takes a piece of a line, or its end.
    fn take(&mut self, piece: &[u8]) {
        let (body, is_end) = match piece {
            [body @ .., b'\n'] => (body, true),
            body => (body, false),
        };
        self.current_len += body.len();
        if self.wants_current() {
            // One byte more than is shown tells a cut line from a full one,
            // another is room for the `\r` of a line that is not cut.
            let room = (self.line_cap + 2).saturating_sub(self.current.len());
            self.current.extend(body.iter().take(room));
        }
        if is_end {
            self.finish_line(true);
        }
    }

    fn wants_current(&self) -> bool {
        self.number >= self.first && self.next.is_none()
    }

    fn finish_line(&mut self, has_newline: bool) {
        if self.wants_current() {
            self.keep_line(has_newline);
        }
        self.number += 1;
        self.current.clear();
        self.current_len = 0;
    }

    fn keep_line(&mut self, has_newline: bool) {
        let mut bytes = std::mem::take(&mut self.current);
        let mut length = self.current_len;
        if has_newline && length == bytes.len() && bytes.last() == Some(&b'\r') {
            bytes.pop();
            length -= 1;
            self.crlf = true;
        }
        let is_cut = length > self.line_cap;
        bytes.truncate(self.line_cap);
        let needed = bytes.len() + 1;
        if self.lines.len() >= self.limit || (needed > self.room && !self.lines.is_empty()) {
            self.next = Some(self.number);
            return;
        }
        let Some(mut text) = self.decode(bytes, is_cut) else {
            return;
        };
        if is_cut {
            let shown = text.len();
            text.push_str(&format!(" … [line cut: {shown} of {length} bytes shown]"));
        }
        self.room = self.room.saturating_sub(needed);
        self.lines.push(text);
        self.ends_with_newline = has_newline;
    }

    /// The line as text. A cut may leave the start of a character at the end.
    fn decode(&mut self, bytes: Vec<u8>, is_cut: bool) -> Option<String> {
        let error = match String::from_utf8(bytes) {
            Ok(text) => return Some(text),
            Err(error) => error,
        };
        let valid = error.utf8_error().valid_up_to();
        if is_cut && error.utf8_error().error_len().is_none() {
            let mut bytes = error.into_bytes();
            bytes.truncate(valid);
            return String::from_utf8(bytes).ok();
        }
        let byte = error.as_bytes().get(valid).copied().unwrap_or_default();
        self.bad_text.get_or_insert_with(|| {
            format!(
                "line {} is not UTF-8 (byte 0x{byte:02x} at column {}); read other lines with \
                 `offset` and `limit`, or convert the file first (for example with `iconv`)",
                self.number,
                valid + 1
            )
        });
        None
    }

    fn into_result(
        self,
        path: String,
        sha256: &str,
        line_numbers: bool,
    ) -> anyhow::Result<ToolResult> {
        if let Some(problem) = self.bad_text {
            bail!("cannot read '{path}': {problem}");
        }
        let total = self.number - 1;
        if self.first > total.max(1) {
            bail!(
                "`offset` {} is past the end of '{path}', which has {total} lines",
                self.first
            );
        }
        let mut result = Map::new();
        result.insert("path".into(), path.into());
        match line_numbers {
            true => {
                let lines = (self.first..)
                    .zip(&self.lines)
                    .map(|(number, line)| json!({"line_number": number, "line": line}))
                    .collect();
                result.insert("lines".into(), Value::Array(lines));
            }
            false => {
                let mut content = self.lines.join("\n");
                if self.ends_with_newline {
                    content.push('\n');
                }
                result.insert("content".into(), content.into());
            }
        }
        result.insert("sha256".into(), sha256.into());
        result.insert("total_lines".into(), total.into());
        if let Some(next) = self.next {
            result.insert("next_offset".into(), next.into());
        }
        if self.crlf {
            result.insert("line_endings".into(), "crlf".into());
        }
        Ok(ToolResult::json(Value::Object(result)))
    }
}
