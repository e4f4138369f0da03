//! The content of user messages.

use crate::wire::attachment::{Document, data_url, left_out, left_out_warning};
use crate::wire::body::Warnings;
use halter_protocol::UserPart;
use serde::Serialize;

/// The content of a message.
#[derive(Debug, Serialize, PartialEq)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// One part of it.
#[derive(Debug, Serialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part {
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

impl Part {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            cache_control: None,
        }
    }
}

/// What a user said, with `files` where the service takes them.
pub(super) fn user_content(parts: &[UserPart], files: bool, warnings: &mut Warnings) -> Content {
    if let [UserPart::Text { text }] = parts {
        return Content::Text(text.clone());
    }
    let parts: Vec<Part> = parts
        .iter()
        .map(|part| user_part(part, files, warnings))
        .collect();
    match parts.is_empty() {
        true => Content::Text(String::new()),
        false => Content::Parts(parts),
    }
}

fn user_part(part: &UserPart, files: bool, warnings: &mut Warnings) -> Part {
    match part {
        UserPart::Text { text } => Part::text(text.clone()),
        UserPart::Image { media_type, data } => Part::ImageUrl {
            image_url: ImageUrl {
                url: data_url(media_type, data),
            },
        },
        UserPart::Document { media_type, data } => match Document::of(media_type, data) {
            Document::Text(text) => Part::text(text),
            Document::Pdf if files => Part::File {
                file: File {
                    filename: "document.pdf",
                    file_data: data_url(media_type, data),
                },
            },
            _ => {
                warnings.add(left_out_warning("document", media_type));
                Part::text(left_out("document", media_type, data))
            }
        },
        _ => {
            warnings.add("a part of a message was left out: its kind is not known".to_owned());
            Part::text("[left out: content of an unknown kind]")
        }
    }
}
