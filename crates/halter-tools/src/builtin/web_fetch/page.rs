//! From the bytes of an answer to what a model gets.

use crate::builtin::support::text_head;
use crate::limits::{BINARY_SNIFF_BYTES, WEB_ERROR_BYTES, WEB_RESULT_BYTES, WEB_TEXT_BYTES};
use crate::web::{Answer, ReadingDeadline, html};
use anyhow::bail;
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use halter_protocol::media::pixels;
use halter_protocol::{ContentPart, MediaFormat, ToolResult};
use hyper::header::CONTENT_TYPE;
use serde_json::{Map, Value};

/// What of a page is wanted.
pub(super) struct Wanted {
    /// The first byte of the text.
    pub(super) offset: usize,
    pub(super) raw: bool,
    /// Bytes of an image or document that the policy allows.
    pub(super) max_bytes: u64,
}

/// The result for an answer. Blocks: a page may be large.
pub(super) fn result(
    answer: Answer,
    wanted: &Wanted,
    stop: &ReadingDeadline,
) -> anyhow::Result<ToolResult> {
    if !answer.status.is_success() {
        return Err(refused(&answer, stop));
    }
    if let Some(format) = MediaFormat::detect(&answer.body) {
        return media(answer, format, wanted);
    }
    let text = Text::read(&answer, wanted.raw, stop)?;
    let mut result = facts(&answer);
    if let Some(title) = text.title {
        result.insert("title".into(), title.into());
    }
    let total = text.content.len();
    if wanted.offset > total || !text.content.is_char_boundary(wanted.offset) {
        bail!(
            "`offset` {} is not a place in the text of '{}', which has {total} bytes; use the \
             `next_offset` of the call before",
            wanted.offset,
            answer.url
        );
    }
    let rest = text.content.get(wanted.offset..).unwrap_or_default();
    let shown = text_head(rest, WEB_RESULT_BYTES);
    result.insert("content".into(), shown.into());
    if shown.len() < rest.len() {
        let next = wanted.offset + shown.len();
        result.insert("next_offset".into(), next.into());
        result.insert("total_bytes".into(), total.into());
    }
    if let Some(note) = text.note {
        result.insert("note".into(), note.into());
    }
    Ok(ToolResult::json(Value::Object(result)))
}

fn facts(answer: &Answer) -> Map<String, Value> {
    let mut facts = Map::new();
    facts.insert("url".into(), answer.url.as_str().into());
    facts.insert("content_type".into(), answer.header(CONTENT_TYPE).into());
    facts
}

/// The error for a status that is no success, with what the server says.
fn refused(answer: &Answer, stop: &ReadingDeadline) -> anyhow::Error {
    let said = Text::read(answer, false, stop).map(|text| text.content);
    let said = said.unwrap_or_default();
    let said = text_head(said.trim(), WEB_ERROR_BYTES);
    let advice = match answer.status.as_u16() {
        404 | 410 => "; look for the right address on a page that links to it",
        401 | 403 => "; it wants somebody who is logged in, or no programs",
        429 => "; wait before you fetch from this host again",
        _ => "",
    };
    let colon = if said.is_empty() { "" } else { ":\n" };
    anyhow::anyhow!(
        "'{}' answered {}{advice}{colon}{said}",
        answer.url,
        answer.status
    )
}

/// An image or document, whole.
fn media(answer: Answer, format: MediaFormat, wanted: &Wanted) -> anyhow::Result<ToolResult> {
    let allowed = usize::try_from(wanted.max_bytes).unwrap_or(usize::MAX);
    let room = allowed.min(format.max_bytes());
    if answer.is_cut || answer.body.len() > room {
        let whose = match allowed < format.max_bytes() {
            true => "policy.max_read_bytes allows",
            false => "model services take",
        };
        bail!(
            "'{}' is {format} of more than the {room} bytes that {whose}; look for a smaller \
             form of it",
            answer.url
        );
    }
    let mut facts = facts(&answer);
    facts.insert("content_type".into(), format.media_type().into());
    facts.insert("bytes".into(), answer.body.len().into());
    if let Some((width, height)) = pixels(&answer.body) {
        facts.insert("width".into(), width.into());
        facts.insert("height".into(), height.into());
    }
    let part = format.part(answer.body);
    part.check()?;
    let facts = ContentPart::text(Value::Object(facts).to_string());
    Ok(ToolResult::parts([facts, part]))
}

/// The text of an answer.
struct Text {
    title: Option<String>,
    content: String,
    /// What there is to know about how it was read.
    note: Option<String>,
}

impl Text {
    fn read(answer: &Answer, raw: bool, stop: &ReadingDeadline) -> anyhow::Result<Self> {
        let kind = answer.header(CONTENT_TYPE).to_ascii_lowercase();
        let is_cut = answer.is_cut || answer.body.len() > WEB_TEXT_BYTES;
        let body = answer.body.get(..WEB_TEXT_BYTES).unwrap_or(&answer.body);
        let encoding = encoding_of(&kind, body);
        if is_binary(body, encoding) {
            bail!(
                "'{}' is a binary file ('{}'); if you need it, download it with a command in the \
                 shell",
                answer.url,
                answer.header(CONTENT_TYPE)
            );
        }
        let (decoded, _, _) = encoding.decode(body);
        let cut = is_cut.then(|| format!("only the first {} bytes were read", body.len()));
        if raw || !is_html(&kind, &decoded) {
            return Ok(Self {
                title: None,
                content: decoded.into_owned(),
                note: cut,
            });
        }
        let page = html::to_markdown(&decoded, &answer.url, stop)?;
        Ok(Self {
            title: page.title,
            content: page.content,
            note: cut.or(page.note),
        })
    }
}

/// The encoding that a server or a page names; a byte order mark wins.
fn encoding_of(kind: &str, body: &[u8]) -> &'static Encoding {
    if let Some((encoding, _)) = Encoding::for_bom(body) {
        return encoding;
    }
    let start = body.get(..body.len().min(HTML_ENCODING_BYTES));
    let start = String::from_utf8_lossy(start.unwrap_or_default()).to_ascii_lowercase();
    let named = named_charset(kind).or_else(|| match kind.contains("html") {
        true => named_charset(&start),
        false => None,
    });
    named.unwrap_or_else(|| match is_utf8(body) {
        true => UTF_8,
        false => WINDOWS_1252,
    })
}

/// Bytes of a page in which it names its encoding, by the HTML standard.
const HTML_ENCODING_BYTES: usize = 1024;

fn named_charset(text: &str) -> Option<&'static Encoding> {
    let (_, rest) = text.split_once("charset=")?;
    let rest = rest.trim_start_matches(['"', '\'']);
    let end = rest.find(['"', '\'', ';', '>', '/', ' ']);
    let name = rest.get(..end.unwrap_or(rest.len()))?;
    Encoding::for_label(name.trim().as_bytes())
}

/// Whether it is UTF-8, but for a character that is cut off at the end.
fn is_utf8(body: &[u8]) -> bool {
    match std::str::from_utf8(body) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

fn is_binary(body: &[u8], encoding: &'static Encoding) -> bool {
    let wide = encoding == UTF_16LE || encoding == UTF_16BE;
    let start = body.iter().take(BINARY_SNIFF_BYTES);
    !wide && start.copied().any(|byte| byte == 0)
}

fn is_html(kind: &str, text: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind {
        "text/html" | "application/xhtml+xml" => true,
        "" => {
            let start = text_head(text.trim_start(), 15).to_ascii_lowercase();
            start.starts_with("<!doctype html") || start.starts_with("<html")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_is_found_where_it_is_named() {
        let found = |kind: &str, body: &[u8]| encoding_of(kind, body).name();
        assert_eq!(found("text/html; charset=iso-8859-1", b"a"), "windows-1252");
        assert_eq!(
            found("text/html", b"<meta charset=\"shift_jis\">"),
            "Shift_JIS"
        );
        let meta = b"<meta content='text/html; charset=koi8-r' http-equiv=content-type>";
        assert_eq!(found("text/html", meta), "KOI8-R");
        assert_eq!(found("text/plain", b"charset=koi8-r"), "UTF-8");
        assert_eq!(found("text/plain; charset=x", b"\xff\xfea\0"), "UTF-16LE");
        assert_eq!(found("text/plain", b"caf\xe9 au lait"), "windows-1252");
        assert_eq!(found("", "café".as_bytes()), "UTF-8");
        assert_eq!(found("", b"caf\xc3"), "UTF-8");
    }

    #[test]
    fn a_page_is_known_without_a_type() {
        assert!(is_html("text/html;charset=utf-8", ""));
        assert!(is_html("", " <!DOCTYPE html><p>"));
        assert!(!is_html("", "<htm"));
        assert!(!is_html("text/plain", "<html>"));
    }
}
