//! The contents of a request: what the harness writes. What a model wrote
//! goes back as text that is never written anew.

use crate::wire::attachment::{self, Carried, Intake, parts_of};
use crate::wire::body::Warnings;
use halter_protocol::{ContentPart, ToolMessage, ToolResult};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// The types that the service looks at itself.
pub(super) const MEDIA_TYPES: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
    "application/pdf",
];

/// Types of images and documents that a response may hold.
const IN_RESPONSES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "application/pdf"];

/// A turn of one speaker.
#[derive(Serialize)]
pub(super) struct Content<'a> {
    pub role: &'static str,
    pub parts: Vec<GeminiPart<'a>>,
}

/// A part that the harness writes.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum GeminiPart<'a> {
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
    pub response: FunctionValue<'a>,
    /// Images and documents of the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<GeminiPart<'a>>,
}

/// What a tool answered, by where it goes.
pub(super) struct Answered<'a> {
    pub outcome: FunctionValue<'a>,
    /// What goes into the response.
    pub inside: Vec<GeminiPart<'a>>,
    /// What goes behind the responses of the step.
    pub behind: Vec<GeminiPart<'a>>,
}

impl<'a> Answered<'a> {
    /// Sorts what a call came to. The text names each image and document in
    /// its place.
    pub fn of(
        message: &'a ToolMessage,
        intake: &Intake,
        takes_parts: bool,
        warnings: &mut Warnings,
    ) -> Self {
        let (mut inside, mut behind) = (Vec::new(), Vec::new());
        let Some(parts) = parts_of(message) else {
            let outcome = FunctionValue::of(message);
            return Self {
                outcome,
                inside,
                behind,
            };
        };
        let mut lines = Vec::new();
        for part in parts {
            match intake.carry(part, warnings) {
                Some(Carried::Text(text)) => lines.push(text),
                Some(Carried::TextDocument(text)) => lines.push(Cow::Borrowed(text)),
                Some(Carried::Image(blob) | Carried::Pdf(blob)) => {
                    lines.push(Cow::Owned(part.describe()));
                    let nested = takes_parts && IN_RESPONSES.contains(&blob.media_type.as_str());
                    let place = if nested { &mut inside } else { &mut behind };
                    place.push(GeminiPart::inline(blob));
                }
                None => {}
            }
        }
        if !behind.is_empty() {
            let (tool, call) = (message.tool_name.as_str(), message.call_id.as_str());
            behind.insert(0, GeminiPart::text(attachment::returned_by(tool, call)));
        }
        Self {
            outcome: FunctionValue::Output(Output::Text(lines.join("\n"))),
            inside,
            behind,
        }
    }
}

/// What a tool answered, by the convention of the service.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FunctionValue<'a> {
    Output(Output<'a>),
    Error(String),
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Output<'a> {
    Text(String),
    Json(&'a Value),
}

impl<'a> FunctionValue<'a> {
    pub fn of(message: &'a ToolMessage) -> Self {
        match (&message.error, message.content.as_ref()) {
            (Some(_), _) => Self::Error(message.to_model_text()),
            (None, ToolResult::Json { value }) => Self::Output(Output::Json(value)),
            (None, _) => Self::Output(Output::Text(message.to_model_text())),
        }
    }
}

impl<'a> GeminiPart<'a> {
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into() }
    }

    /// What a user attached or wrote, part by part.
    pub fn all(parts: &'a [ContentPart], intake: &Intake, warnings: &mut Warnings) -> Vec<Self> {
        parts
            .iter()
            .filter_map(|part| intake.carry(part, warnings))
            .map(|part| match part {
                Carried::Text(text) => Self::text(text),
                Carried::TextDocument(text) => Self::text(text),
                Carried::Image(blob) | Carried::Pdf(blob) => Self::inline(blob),
            })
            .collect()
    }

    fn inline(blob: attachment::Blob<'_>) -> Self {
        Self::InlineData {
            inline_data: Blob {
                data: blob.base64(),
                mime_type: blob.media_type,
            },
        }
    }
}
