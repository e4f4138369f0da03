//! The content of messages of users and tools.

use crate::wire::attachment::{Carried, Intake, parts_of};
use crate::wire::body::Warnings;
use halter_protocol::{ContentPart, ToolMessage};
use serde::Serialize;
use std::borrow::Cow;

/// Stands in a result in the place of what its message cannot hold.
const FOLLOWS: &str = "(it follows in a message after the results)";

/// The content of a message.
#[derive(Debug, Serialize, PartialEq)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<ChatPart>),
}

/// One part of it.
#[derive(Debug, Serialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChatPart {
    Text {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheMark>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
    File {
        file: File,
    },
}

#[derive(Debug, Serialize, PartialEq)]
pub(super) struct ImageUrl {
    url: String,
}

#[derive(Debug, Serialize, PartialEq)]
pub(super) struct File {
    filename: &'static str,
    file_data: String,
}

/// Asks the service to keep everything up to here.
#[derive(Debug, Clone, Copy, Serialize, PartialEq)]
pub(super) struct CacheMark {
    r#type: &'static str,
}

impl CacheMark {
    pub const EPHEMERAL: Self = Self {
        r#type: "ephemeral",
    };
}

impl ChatPart {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            cache_control: None,
        }
    }
}

/// What a user said.
pub(super) fn user_content(
    parts: &[ContentPart],
    intake: &Intake,
    warnings: &mut Warnings,
) -> Content {
    if let [ContentPart::Text { text }] = parts {
        return Content::Text(text.clone());
    }
    let parts: Vec<ChatPart> = parts
        .iter()
        .filter_map(|part| intake.carry(part, warnings))
        .map(ChatPart::from)
        .collect();
    match parts.is_empty() {
        true => Content::Text(String::new()),
        false => Content::Parts(parts),
    }
}

impl From<Carried<'_>> for ChatPart {
    fn from(part: Carried<'_>) -> Self {
        match part {
            Carried::Text(text) => Self::text(text),
            Carried::TextDocument(text) => Self::text(text),
            Carried::Image(blob) => Self::ImageUrl {
                image_url: ImageUrl {
                    url: blob.data_url(),
                },
            },
            Carried::Pdf(blob) => Self::File {
                file: File {
                    filename: "document.pdf",
                    file_data: blob.data_url(),
                },
            },
        }
    }
}

/// What a tool returned: the text of its own message, and what must go into a
/// message of the user, for a tool's holds text alone.
pub(super) fn result_content(
    result: &ToolMessage,
    intake: &Intake,
    warnings: &mut Warnings,
) -> (String, Vec<ChatPart>) {
    let Some(parts) = parts_of(result) else {
        return (result.to_model_text(), Vec::new());
    };
    let (mut lines, mut media) = (Vec::new(), Vec::new());
    for part in parts {
        match intake.carry(part, warnings) {
            Some(Carried::Text(text)) => lines.push(text),
            Some(Carried::TextDocument(text)) => lines.push(Cow::Borrowed(text)),
            Some(sent @ (Carried::Image(_) | Carried::Pdf(_))) => {
                lines.push(Cow::Owned(format!("{} {FOLLOWS}", part.describe())));
                media.push(ChatPart::from(sent));
            }
            None => {}
        }
    }
    (lines.join("\n"), media)
}
