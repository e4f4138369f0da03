//! How many tokens something is likely to be, where nobody has counted.

use halter_protocol::{ContentPart, ToolMessage, ToolResult};

/// Bytes of text that make a token, about.
pub(crate) const BYTES_PER_TOKEN: usize = 4;

/// Tokens of an image, about: services scale large ones down.
const IMAGE_TOKENS: usize = 1_500;

/// Tokens of a page of a document, which services read as text and as image.
const PAGE_TOKENS: usize = 2_000;

/// Bytes of a page of a document, about.
const PAGE_BYTES: usize = 50_000;

/// Tokens of what a user said or a tool returned. The bytes of an image say
/// nothing of them.
pub(crate) fn of_part(part: &ContentPart) -> usize {
    match part {
        ContentPart::Text { text } => text.len() / BYTES_PER_TOKEN,
        ContentPart::Document { media_type, data } if media_type.starts_with("text/") => {
            data.len() / BYTES_PER_TOKEN
        }
        ContentPart::Document { data, .. } => {
            data.len().div_ceil(PAGE_BYTES).saturating_mul(PAGE_TOKENS)
        }
        _ => IMAGE_TOKENS,
    }
}

/// Tokens of what a call came to.
pub(crate) fn of_result(result: &ToolMessage) -> usize {
    match (&result.error, &result.content) {
        (Some(error), _) => error.message.len() / BYTES_PER_TOKEN,
        (None, ToolResult::Text { text }) => text.len() / BYTES_PER_TOKEN,
        (None, ToolResult::Parts { parts }) => parts.iter().map(of_part).sum(),
        (None, content) => content.to_model_text().len() / BYTES_PER_TOKEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_not_counted_by_its_bytes() {
        let megabyte = vec![0; 1_000_000];
        for (part, tokens) in [
            (ContentPart::text("x".repeat(40)), 10),
            (
                ContentPart::image("image/png", megabyte.clone()),
                IMAGE_TOKENS,
            ),
            (ContentPart::document("text/plain", vec![b'x'; 40]), 10),
            (
                ContentPart::document("application/pdf", vec![0; 1]),
                PAGE_TOKENS,
            ),
            (
                ContentPart::document("application/pdf", megabyte),
                20 * PAGE_TOKENS,
            ),
        ] {
            assert_eq!(of_part(&part), tokens, "{}", part.describe());
        }
    }
}
