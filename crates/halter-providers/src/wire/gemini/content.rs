//! The contents of a request: what the harness writes. What a model wrote
//! goes back as text that is never written anew.

use crate::wire::attachment::{self, Document};
use crate::wire::body::Warnings;
use halter_protocol::{ToolMessage, ToolResult, UserPart};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// A turn of one speaker.
#[derive(Serialize)]
pub(super) struct Content<'a> {
    pub role: &'static str,
    pub parts: Vec<Part<'a>>,
}

/// A part that the harness writes.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Part<'a> {
    Text {
        text: Cow<'a, str>,
    },
    #[serde(rename_all = "camelCase")]
    InlineData {
        inline_data: Blob,
    },
    #[serde(rename_all = "camelCase")]
    FunctionCall {
        function_call: FunctionCall<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'static str>,
    },
    #[serde(rename_all = "camelCase")]
    FunctionResponse {
        function_response: FunctionResponse<'a>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blob {
    mime_type: String,
    data: String,
}

#[derive(Serialize)]
pub(super) struct FunctionCall<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub args: &'a Value,
}

#[derive(Serialize)]
pub(super) struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a str>,
    pub name: &'a str,
    pub response: Outcome<'a>,
}

/// What a tool answered, by the convention of the service.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome<'a> {
    Output(Output<'a>),
    Error(String),
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Output<'a> {
    Text(String),
    Json(&'a Value),
}

impl<'a> Outcome<'a> {
    pub fn of(message: &'a ToolMessage) -> Self {
        match (&message.error, &message.content) {
            (Some(_), _) => Self::Error(message.to_model_text()),
            (None, ToolResult::Json { value }) => Self::Output(Output::Json(value)),
            (None, _) => Self::Output(Output::Text(message.to_model_text())),
        }
    }
}

impl<'a> Part<'a> {
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The part for what a user attached or wrote; none for an empty text.
    pub fn from_user(part: &'a UserPart, warnings: &mut Warnings) -> Option<Self> {
        match part {
            UserPart::Text { text } => (!text.is_empty()).then(|| Self::text(text)),
            UserPart::Image { media_type, data } if takes_image(media_type) => {
                Some(Self::inline(media_type, data))
            }
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
            Document::Pdf => Self::inline(media_type, data),
            Document::Text(text) => Self::text(text),
            Document::Other => Self::left_out("document", media_type, data, warnings),
        }
    }

    fn inline(media_type: &str, data: &[u8]) -> Self {
        Self::InlineData {
            inline_data: Blob {
                mime_type: attachment::essence(media_type),
                data: attachment::base64(data),
            },
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
        "image/png" | "image/jpeg" | "image/webp" | "image/heic" | "image/heif"
    )
}
