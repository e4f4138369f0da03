//! What users say and tools return, where text alone is not enough.

use crate::encoding::base64_bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A piece of what a user said or a tool returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// Its media type, such as `image/png`.
        media_type: String,
        /// Its bytes, base64 in JSON.
        #[serde(with = "base64_bytes")]
        #[schemars(with = "String")]
        data: Arc<[u8]>,
    },
    /// A document.
    Document {
        /// Its media type, such as `application/pdf`.
        media_type: String,
        /// Its bytes, base64 in JSON.
        #[serde(with = "base64_bytes")]
        #[schemars(with = "String")]
        data: Arc<[u8]>,
    },
}

impl ContentPart {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// An image part.
    pub fn image(media_type: impl Into<String>, data: impl Into<Arc<[u8]>>) -> Self {
        Self::Image {
            media_type: media_type.into(),
            data: data.into(),
        }
    }

    /// A document part.
    pub fn document(media_type: impl Into<String>, data: impl Into<Arc<[u8]>>) -> Self {
        Self::Document {
            media_type: media_type.into(),
            data: data.into(),
        }
    }

    /// The text of a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }

    /// The media type and the bytes of an image or document.
    pub fn media(&self) -> Option<(&str, &Arc<[u8]>)> {
        match self {
            Self::Text { .. } => None,
            Self::Image { media_type, data } | Self::Document { media_type, data } => {
                Some((media_type, data))
            }
        }
    }

    /// The part in words, for readers of text alone: an image or document is
    /// named by its type and size.
    pub fn describe(&self) -> String {
        match self {
            Self::Text { text } => text.clone(),
            Self::Image { media_type, data } => described("image", media_type, data),
            Self::Document { media_type, data } => described("document", media_type, data),
        }
    }
}

fn described(what: &str, media_type: &str, data: &[u8]) -> String {
    format!("[{what} of type {media_type}, {} bytes]", data.len())
}

/// The parts that are no text, in order.
pub(crate) fn attachments(parts: &[ContentPart]) -> impl Iterator<Item = &ContentPart> {
    parts.iter().filter(|part| part.as_text().is_none())
}

/// The text parts, joined by newlines.
pub(crate) fn joined_text(parts: &[ContentPart]) -> String {
    let texts: Vec<&str> = parts.iter().filter_map(ContentPart::as_text).collect();
    texts.join("\n")
}
