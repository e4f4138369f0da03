//! The items of `input`: those the harness writes, and those a model wrote
//! and gets back as they were.

use super::tools::FunctionTool;
use crate::wire::attachment::{Carried, Intake, parts_of};
use crate::wire::body::Warnings;
use halter_protocol::{ContentPart, ToolMessage};
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
    FunctionCallOutput {
        call_id: &'a str,
        output: Output<'a>,
    },
    /// Tools that may be called from here on.
    AdditionalTools {
        role: &'static str,
        tools: Vec<FunctionTool<'a>>,
    },
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

/// What a tool answered.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Output<'a> {
    Text(String),
    Parts(Vec<InputPart<'a>>),
}

impl<'a> Output<'a> {
    /// What a call came to.
    pub fn of(result: &'a ToolMessage, intake: &Intake, warnings: &mut Warnings) -> Self {
        let parts = parts_of(result).map(|parts| InputPart::all(parts, intake, warnings));
        match parts {
            Some(parts) if !parts.is_empty() => Self::Parts(parts),
            Some(_) => Self::Text(String::new()),
            None => Self::Text(result.to_model_text()),
        }
    }
}

/// A part of a message or of what a tool answered.
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

    /// What a user attached or wrote, or a tool returned, part by part.
    pub fn all(parts: &'a [ContentPart], intake: &Intake, warnings: &mut Warnings) -> Vec<Self> {
        parts
            .iter()
            .filter_map(|part| intake.carry(part, warnings))
            .map(Self::from)
            .collect()
    }
}

impl<'a> From<Carried<'a>> for InputPart<'a> {
    fn from(part: Carried<'a>) -> Self {
        match part {
            Carried::Text(text) => Self::text(text),
            Carried::TextDocument(text) => Self::text(text),
            Carried::Image(blob) => Self::Image {
                detail: "auto",
                image_url: blob.data_url(),
            },
            Carried::Pdf(blob) => Self::File {
                filename: "document.pdf",
                file_data: blob.data_url(),
            },
        }
    }
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

/// True for what stands for items that the service compacted.
pub(super) fn is_compaction_item(item: &str) -> bool {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    serde_json::from_str::<Head<'_>>(item).is_ok_and(|head| head.kind == "compaction")
}
