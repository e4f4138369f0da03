//! What becomes of images and documents that a wire takes, and of those that
//! it does not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A document by how a model can read it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Document<'a> {
    /// A PDF, which services read themselves.
    Pdf,
    /// Text, which every model reads.
    Text(&'a str),
    /// Anything else.
    Other,
}

impl<'a> Document<'a> {
    /// Looks at the media type and, for text, at the bytes.
    pub fn of(media_type: &str, data: &'a [u8]) -> Self {
        let essence = essence(media_type);
        if essence == "application/pdf" {
            return Self::Pdf;
        }
        match std::str::from_utf8(data) {
            Ok(text) if is_text(&essence) => Self::Text(text),
            _ => Self::Other,
        }
    }
}

/// The media type without its parameters, in lower case.
pub(super) fn essence(media_type: &str) -> String {
    let end = media_type.find(';').unwrap_or(media_type.len());
    media_type
        .get(..end)
        .unwrap_or(media_type)
        .trim()
        .to_ascii_lowercase()
}

/// The bytes as base64.
pub(super) fn base64(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// The bytes as a `data:` address.
pub(super) fn data_url(media_type: &str, data: &[u8]) -> String {
    format!("data:{};base64,{}", essence(media_type), base64(data))
}

/// What a model reads in place of something its service does not take.
pub(super) fn left_out(what: &str, media_type: &str, data: &[u8]) -> String {
    format!(
        "[{what} of type {media_type}, {} bytes, left out: this model service does not take the type]",
        data.len()
    )
}

/// What the user is told about it.
pub(super) fn left_out_warning(what: &str, media_type: &str) -> String {
    format!(
        "an attached {what} of type {media_type} was left out: this model service does not take the type"
    )
}

fn is_text(essence: &str) -> bool {
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || matches!(
            essence,
            "application/json"
                | "application/xml"
                | "application/yaml"
                | "application/x-yaml"
                | "application/toml"
                | "application/javascript"
                | "application/x-sh"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_told_apart_by_type_and_bytes() {
        assert_eq!(Document::of("application/pdf", b"%PDF"), Document::Pdf);
        assert_eq!(
            Document::of("Text/Markdown; charset=utf-8", b"# hi"),
            Document::Text("# hi")
        );
        assert_eq!(Document::of("text/plain", b"\xff"), Document::Other);
        assert_eq!(Document::of("application/zip", b"PK"), Document::Other);
    }
}
