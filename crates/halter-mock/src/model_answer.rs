//! An answer before it takes the shape of a wire.

use crate::conversation::{CARRIER, Conversation};
use crate::fields;
use crate::scenario::select::Selection;
use crate::scenario::template::Quotes;
use crate::scenario::{ChatQuirk, Pieces, ScriptPart, Step, UnknownKind, Usage};
use crate::signing;
use serde_json::{Map, Value, json};

/// Characters per delta unless a part says otherwise.
const DELTA_CHARS: usize = 24;

/// Bytes that are taken for one token where nothing is scripted.
const BYTES_PER_TOKEN: usize = 4;

/// A moment for `created` fields; answers do not depend on the clock.
pub(crate) const CREATED: u64 = 1_793_000_000;

/// What the model says to one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelAnswer {
    /// The model asked for.
    pub model: String,
    /// The content.
    pub parts: Vec<AnswerPart>,
    /// Why it stopped.
    pub stop: StopKind,
    /// Token counts.
    pub usage: Usage,
    /// A digest of the request, for ids.
    pub request: String,
    /// Novelties to mix in.
    pub unknown: Vec<UnknownKind>,
    /// Departures of a Chat server.
    pub quirks: Vec<ChatQuirk>,
}

/// A piece of an answer, cut into deltas.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AnswerPart {
    Text(Vec<String>),
    Thinking(Vec<String>),
    Redacted,
    Call(AnswerCall),
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnswerCall {
    /// Its number in the answer, from 0.
    pub number: usize,
    pub name: String,
    /// The arguments as sent, perhaps cut off.
    pub pieces: Vec<String>,
    /// The arguments, when they are whole and valid.
    pub input: Option<Map<String, Value>>,
}

impl AnswerCall {
    /// The arguments as sent.
    pub(crate) fn arguments(&self) -> String {
        self.pieces.concat()
    }

    /// The tool that a call is about which carries another one.
    pub(crate) fn carried(&self) -> Option<&str> {
        let input = self.input.as_ref().filter(|_| self.name == CARRIER)?;
        input.get("name")?.as_str()
    }

    /// The input of a tool that takes plain text: the only argument if that is
    /// a string, else what was scripted.
    pub(crate) fn plain_input(&self) -> Vec<String> {
        let mut values = self.input.iter().flat_map(Map::values);
        match (values.next(), values.next()) {
            (Some(Value::String(text)), None) => cut_into(text, None),
            _ => self.pieces.clone(),
        }
    }
}

/// Why an answer ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopKind {
    End,
    ToolUse,
    MaxTokens,
    Sequence,
    Refusal,
    ContentFilter,
    ContextWindow,
    Pause,
    Other(String),
}

impl StopKind {
    fn parse(word: &str) -> Self {
        match word {
            "end" => Self::End,
            "tool_use" => Self::ToolUse,
            "max_tokens" => Self::MaxTokens,
            "stop_sequence" => Self::Sequence,
            "refusal" => Self::Refusal,
            "content_filter" => Self::ContentFilter,
            "context_window" => Self::ContextWindow,
            "pause" => Self::Pause,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl ModelAnswer {
    /// The answer of a step to a request.
    pub(crate) fn compose(
        selection: &Selection<'_>,
        conversation: &Conversation,
        raw_body: &str,
        input_tokens: u64,
    ) -> Self {
        let step: &Step = &selection.step;
        let quotes = Quotes {
            conversation,
            anchor: selection.anchor,
            step_index: selection.step_index,
        };
        let mut calls = 0;
        let parts: Vec<_> = step
            .parts
            .iter()
            .map(|part| {
                let composed = compose_part(part, &quotes, calls);
                calls += usize::from(matches!(composed, AnswerPart::Call(_)));
                composed
            })
            .collect();
        let stop = match &step.stop {
            Some(word) => StopKind::parse(word),
            None if calls > 0 => StopKind::ToolUse,
            None => StopKind::End,
        };
        let usage = step.usage.unwrap_or_else(|| estimate(input_tokens, &parts));
        Self {
            model: conversation.model.clone(),
            parts,
            stop,
            usage,
            request: signing::digest(&[&selection.name, raw_body]),
            unknown: step.unknown.clone(),
            quirks: step.quirks.clone(),
        }
    }

    /// Whether the step asks for this unknown thing.
    pub(crate) fn has_unknown(&self, kind: UnknownKind) -> bool {
        self.unknown.contains(&kind)
    }

    /// Adds a field that no client knows, where that is asked for.
    pub(crate) fn add_unknown_field(&self, target: &mut Value) {
        if self.has_unknown(UnknownKind::Field) {
            fields::set(target, "novel_field", json!({"since": 2031}));
        }
    }

    /// Whether the Chat server has this quirk.
    pub(crate) fn has(&self, quirk: ChatQuirk) -> bool {
        self.quirks.contains(&quirk)
    }

    /// An id that follows from the request.
    pub(crate) fn id(&self, vendor: &str) -> String {
        format!("{vendor}mock{}", self.request.get(..20).unwrap_or_default())
    }

    /// Has calls of tools that are described, and not offered, carried.
    pub(crate) fn carry_calls(&mut self, conversation: &Conversation) {
        for part in &mut self.parts {
            let AnswerPart::Call(call) = part else {
                continue;
            };
            let name = call.name.as_str();
            if conversation.offers(name) || !conversation.was_sent(name) {
                continue;
            }
            let written = json!({"name": name, "arguments": call.input});
            call.name = CARRIER.to_owned();
            call.pieces = cut_into(&written.to_string(), None);
            call.input = written.as_object().cloned();
        }
    }

    /// The calls.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &AnswerCall> {
        self.parts.iter().filter_map(|part| match part {
            AnswerPart::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// Tokens of so many bytes, roughly.
pub(crate) fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}

fn estimate(input: u64, parts: &[AnswerPart]) -> Usage {
    let size = |pieces: &[String]| pieces.iter().map(String::len).sum::<usize>();
    let mut usage = Usage {
        input,
        ..Usage::default()
    };
    for part in parts {
        match part {
            AnswerPart::Text(pieces) => usage.output += tokens(size(pieces)),
            AnswerPart::Thinking(pieces) => usage.reasoning += tokens(size(pieces)),
            AnswerPart::Redacted => usage.reasoning += 1,
            AnswerPart::Call(call) => usage.output += tokens(size(&call.pieces) + call.name.len()),
        }
    }
    usage
}

fn compose_part(part: &ScriptPart, quotes: &Quotes<'_>, number: usize) -> AnswerPart {
    match part {
        ScriptPart::Text { text, chunk_chars } => {
            AnswerPart::Text(deltas(text, *chunk_chars, quotes))
        }
        ScriptPart::Thinking { text, chunk_chars } => {
            AnswerPart::Thinking(deltas(text, *chunk_chars, quotes))
        }
        ScriptPart::RedactedThinking {} => AnswerPart::Redacted,
        ScriptPart::Filler { bytes } => AnswerPart::Text(vec!["x".repeat(*bytes)]),
        ScriptPart::Call {
            tool,
            input,
            raw,
            cut_chars,
            chunk_chars,
        } => {
            let mut arguments = match raw {
                Some(raw) => quotes.fill(raw),
                None => Value::Object(quotes.fill_object(input)).to_string(),
            };
            if let Some(cut) = cut_chars {
                arguments = arguments.chars().take(*cut).collect();
            }
            AnswerPart::Call(AnswerCall {
                number,
                name: quotes.fill(tool),
                pieces: cut_into(&arguments, *chunk_chars),
                input: serde_json::from_str(&arguments).ok(),
            })
        }
    }
}

fn deltas(text: &Pieces, chunk_chars: Option<usize>, quotes: &Quotes<'_>) -> Vec<String> {
    match text {
        Pieces::Whole(text) => cut_into(&quotes.fill(text), chunk_chars),
        Pieces::Deltas(pieces) => pieces.iter().map(|piece| quotes.fill(piece)).collect(),
    }
}

fn cut_into(text: &str, chunk_chars: Option<usize>) -> Vec<String> {
    let size = chunk_chars.unwrap_or(DELTA_CHARS).max(1);
    let letters: Vec<char> = text.chars().collect();
    letters
        .chunks(size)
        .map(|chunk| chunk.iter().collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_characters_not_bytes() {
        assert_eq!(cut_into("äöü", Some(2)), ["äö", "ü"]);
        assert!(cut_into("", None).is_empty());
        assert_eq!(cut_into("ab", Some(0)), ["a", "b"]);
    }

    #[test]
    fn the_usual_words_for_stopping_are_known_and_others_kept() {
        assert_eq!(StopKind::parse("max_tokens"), StopKind::MaxTokens);
        assert_eq!(
            StopKind::parse("moonrise"),
            StopKind::Other("moonrise".to_owned())
        );
    }
}
