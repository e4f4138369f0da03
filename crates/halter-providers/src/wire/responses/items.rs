//! The items of `input`: those the harness writes, and those a model wrote
//! and gets back as they were.

use crate::wire::attachment::{self, Document};
use crate::wire::body::Warnings;
use halter_protocol::UserPart;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// An item that the harness writes.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum InputItem<'a> {
    /// Somebody speaks.
    Message {
        role: &'static str,
        content: Content<'a>,
    },
    /// A tool call in the neutral form.
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: String,
    },
    /// A tool's answer.
    FunctionCallOutput { call_id: &'a str, output: &'a str },
}

/// What is said in a message.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    /// The form for what an assistant said: its own parts are for output only.
    Text(&'a str),
    /// Parts, for everybody else.
    Parts(Vec<InputPart<'a>>),
}

impl<'a> Content<'a> {
    /// One text part.
    pub fn input_text(text: &'a str) -> Self {
        Self::Parts(vec![InputPart::text(text)])
    }
}

/// A part of a message.
#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum InputPart<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image {
        detail: &'static str,
        image_url: String,
    },
    #[serde(rename = "input_file")]
    File {
        filename: &'static str,
        file_data: String,
    },
}

impl<'a> InputPart<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The part for what a user attached or wrote; none for an empty text.
    pub fn from_user(part: &'a UserPart, warnings: &mut Warnings) -> Option<Self> {
        match part {
            UserPart::Text { text } => (!text.is_empty()).then(|| Self::text(text)),
            UserPart::Image { media_type, data } if takes_image(media_type) => Some(Self::Image {
                detail: "auto",
                image_url: attachment::data_url(media_type, data),
            }),
            UserPart::Image { media_type, data } => {
                Some(Self::left_out("image", media_type, data, warnings))
            }
            UserPart::Document { media_type, data } => {
                Some(Self::document(media_type, data, warnings))
            }
            _ => None,
        }
    }

    fn document(media_type: &str, data: &'a [u8], warnings: &mut Warnings) -> Self {
        match Document::of(media_type, data) {
            Document::Pdf => Self::File {
                filename: "document.pdf",
                file_data: attachment::data_url(media_type, data),
            },
            Document::Text(text) => Self::text(text),
            Document::Other => Self::left_out("document", media_type, data, warnings),
        }
    }

    fn left_out(what: &str, media_type: &str, data: &[u8], warnings: &mut Warnings) -> Self {
        warnings.add(attachment::left_out_warning(what, media_type));
        Self::text(attachment::left_out(what, media_type, data))
    }
}

fn takes_image(media_type: &str) -> bool {
    matches!(
        attachment::essence(media_type).as_str(),
        "image/png" | "image/jpeg" | "image/webp" | "image/gif"
    )
}

/// How a kept item is to be treated when it goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    /// As it is.
    AsIs,
    /// Reasoning, which a service takes only with what followed it.
    Reasoning,
    /// Not at all: the service could not read it.
    Never,
}

/// Looks at a kept item; none if it is not JSON of an item.
pub(super) fn replay_of(item: &str) -> Option<Replay> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        encrypted_content: Option<&'a RawValue>,
        #[serde(borrow, default)]
        content: Option<&'a RawValue>,
    }
    let head: Head<'_> = serde_json::from_str(item).ok()?;
    if head.kind != "reasoning" {
        return Some(Replay::AsIs);
    }
    // Nothing is stored at the service, so an item that holds only its id
    // names nothing there.
    let encrypted = head
        .encrypted_content
        .is_some_and(|value| value.get().starts_with('"'));
    let open = head.content.is_some_and(|value| value.get() != "[]");
    Some(if encrypted || open {
        Replay::Reasoning
    } else {
        Replay::Never
    })
}
