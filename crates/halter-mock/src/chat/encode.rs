//! Answers as completions and as chunks.

use super::reasoning::{self, Style};
use crate::codec::{Frame, ModelRequest, Place};
use crate::fields;
use crate::model_answer::{AnswerCall, AnswerPart, CREATED, ModelAnswer, StopKind};
use crate::scenario::{ChatQuirk, UnknownKind};
use crate::signing;
use crate::wire::Dialect;
use serde_json::{Map, Value, json};

pub(super) fn whole(answer: &ModelAnswer, request: &ModelRequest<'_>) -> Value {
    let dialect = request.dialect;
    let style = reasoning::style(answer, dialect);
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    let mut text = String::new();
    for part in &answer.parts {
        match part {
            AnswerPart::Text(pieces) => text.push_str(&pieces.concat()),
            AnswerPart::Thinking(pieces) => {
                whole_thought(answer, style, pieces, &mut message, &mut text)
            }
            AnswerPart::Redacted | AnswerPart::Call(_) => {}
        }
    }
    let content = if text.is_empty() {
        Value::Null
    } else {
        json!(text)
    };
    let refused = answer.stop == StopKind::Refusal;
    let (content, refusal) = if refused {
        (Value::Null, content)
    } else {
        (content, Value::Null)
    };
    message.insert("content".to_owned(), content);
    message.insert("refusal".to_owned(), refusal);
    let to_return = reasoning::to_return(answer, style);
    let calls: Vec<_> = answer
        .calls()
        .map(|call| {
            if is_custom(request.body, &call.name) {
                let made = json!({"name": call.name, "input": call.plain_input().concat()});
                let id = call_id(answer, call, to_return.as_deref());
                return json!({"id": id, "type": "custom", "custom": made});
            }
            json!({
                "id": call_id(answer, call, to_return.as_deref()),
                "type": "function",
                "function": {"name": call.name, "arguments": arguments(answer, call)},
            })
        })
        .collect();
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    if answer.has_unknown(UnknownKind::Block) {
        message.insert("hologram".to_owned(), json!({"light": "green"}));
    }
    let mut completion = json!({
        "id": answer.id("chatcmpl-"),
        "object": "chat.completion",
        "created": CREATED,
        "model": answer.model,
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": finish_reason(answer),
        }],
    });
    if !answer.has(ChatQuirk::NoUsage) {
        fields::set(&mut completion, "usage", usage(answer, dialect));
    }
    answer.add_unknown_field(&mut completion);
    completion
}

fn whole_thought(
    answer: &ModelAnswer,
    style: Style,
    pieces: &[String],
    message: &mut Map<String, Value>,
    text: &mut String,
) {
    if style == Style::Tags {
        text.push_str(&format!("<think>{}</think>\n\n", pieces.concat()));
        return;
    }
    for fields in reasoning::fields(style, &[pieces.concat()], &answer.model) {
        let Value::Object(fields) = fields else {
            continue;
        };
        for (key, value) in fields {
            match (message.get_mut(&key), value) {
                (Some(Value::Array(old)), Value::Array(new)) => old.extend(new),
                (_, value) => {
                    message.insert(key, value);
                }
            }
        }
    }
}

pub(super) fn frames(answer: &ModelAnswer, request: &ModelRequest<'_>) -> Vec<Frame> {
    let style = reasoning::style(answer, request.dialect);
    let to_return = reasoning::to_return(answer, style);
    let mut frames = vec![chunk(
        answer,
        json!({"role": "assistant", "content": ""}),
        Value::Null,
        Place::Opening,
    )];
    if answer.has_unknown(UnknownKind::Event) {
        let novelty = json!({"object": "weather.report", "sky": "clear"});
        frames.push(Frame::data(&novelty, Place::Opening));
    }
    let refused = answer.stop == StopKind::Refusal;
    for part in &answer.parts {
        let deltas = match part {
            AnswerPart::Text(pieces) if refused => pieces
                .iter()
                .map(|piece| json!({"refusal": piece}))
                .collect(),
            AnswerPart::Text(pieces) => pieces
                .iter()
                .map(|piece| json!({"content": piece}))
                .collect(),
            AnswerPart::Thinking(pieces) => reasoning::fields(style, pieces, &answer.model),
            AnswerPart::Redacted => Vec::new(),
            AnswerPart::Call(call) if is_custom(request.body, &call.name) => {
                custom_deltas(call, &call_id(answer, call, to_return.as_deref()))
            }
            AnswerPart::Call(call) => call_deltas(answer, call, to_return.as_deref()),
        };
        for delta in deltas {
            frames.push(chunk(answer, delta, Value::Null, Place::Delta));
        }
    }
    if answer.has_unknown(UnknownKind::Block) {
        let novelty = json!({"hologram": {"light": "green"}});
        frames.push(chunk(answer, novelty, Value::Null, Place::Delta));
    }
    closing_frames(answer, request, &mut frames);
    frames
}

fn closing_frames(answer: &ModelAnswer, request: &ModelRequest<'_>, frames: &mut Vec<Frame>) {
    let wanted = request
        .body
        .get("stream_options")
        .is_some_and(|options| fields::flag(options, "include_usage"))
        || request.dialect == Dialect::OpenRouter;
    let usage = (wanted && !answer.has(ChatQuirk::NoUsage)).then(|| usage(answer, request.dialect));
    let on_choice = answer.has(ChatQuirk::UsageOnChoice);
    let mut last = base(
        answer,
        json!([{
            "index": 0, "delta": {}, "logprobs": null, "finish_reason": finish_reason(answer),
        }]),
    );
    if let (true, Some(usage)) = (on_choice, &usage) {
        fields::set(&mut last, "usage", usage.clone());
    }
    frames.push(Frame::data(&last, Place::Closing));
    if let (false, Some(usage)) = (on_choice, usage) {
        let mut chunk = base(answer, json!([]));
        fields::set(&mut chunk, "usage", usage);
        frames.push(Frame::data(&chunk, Place::Closing));
    }
    if !answer.has(ChatQuirk::MissingDone) {
        frames.push(Frame {
            event: None,
            data: "[DONE]".to_owned(),
            place: Place::Last,
        });
    }
}

fn chunk(answer: &ModelAnswer, delta: Value, finish: Value, place: Place) -> Frame {
    let mut chunk = base(
        answer,
        json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]),
    );
    answer.add_unknown_field(&mut chunk);
    Frame::data(&chunk, place)
}

fn base(answer: &ModelAnswer, choices: Value) -> Value {
    json!({
        "id": answer.id("chatcmpl-"),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": answer.model,
        "choices": choices,
    })
}

fn call_id(answer: &ModelAnswer, call: &AnswerCall, to_return: Option<&str>) -> String {
    signing::call_id(
        "call_",
        &answer.model,
        to_return,
        &answer.request,
        call.number,
    )
}

/// The arguments of a whole call, as this server writes them.
fn arguments(answer: &ModelAnswer, call: &AnswerCall) -> Value {
    match &call.input {
        Some(input) if answer.has(ChatQuirk::ArgumentsObject) => json!(input),
        Some(input) if input.is_empty() && answer.has(ChatQuirk::EmptyArguments) => json!(""),
        _ => json!(call.arguments()),
    }
}

/// Whether the request offers a tool of this name that takes plain text.
fn is_custom(body: &Value, name: &str) -> bool {
    let mut tools = fields::items(body, "tools").iter();
    tools.any(|tool| {
        let custom = tool.get("custom");
        custom.and_then(|custom| fields::text(custom, "name")) == Some(name)
    })
}

fn custom_deltas(call: &AnswerCall, id: &str) -> Vec<Value> {
    let first = json!({
        "index": call.number, "id": id, "type": "custom",
        "custom": {"name": call.name, "input": ""},
    });
    let rest = call.plain_input();
    let rest = rest
        .iter()
        .map(|piece| json!({"index": call.number, "custom": {"input": piece}}));
    std::iter::once(first)
        .chain(rest)
        .map(|fragment| json!({"tool_calls": [fragment]}))
        .collect()
}

fn call_deltas(answer: &ModelAnswer, call: &AnswerCall, to_return: Option<&str>) -> Vec<Value> {
    let id = call_id(answer, call, to_return);
    let index = if answer.has(ChatQuirk::SharedIndex) {
        0
    } else {
        call.number
    };
    let one_piece = answer.has(ChatQuirk::WholeCall) || answer.has(ChatQuirk::ArgumentsObject);
    let mut fragments: Vec<Value> = Vec::new();
    if one_piece {
        fragments.push(json!({"name": call.name, "arguments": arguments(answer, call)}));
    } else {
        let (first, rest) = split_name(answer, &call.name);
        fragments.push(json!({"name": first, "arguments": ""}));
        if !rest.is_empty() {
            fragments.push(json!({"name": rest, "arguments": ""}));
        }
        let no_arguments = arguments(answer, call) == json!("");
        let pieces = call.pieces.iter().filter(|_| !no_arguments);
        fragments.extend(pieces.map(|piece| json!({"arguments": piece})));
    }
    fragments
        .into_iter()
        .enumerate()
        .map(|(number, function)| {
            let mut fragment = Map::new();
            if !answer.has(ChatQuirk::MissingIndex) {
                fragment.insert("index".to_owned(), json!(index));
            }
            if number == 0 || answer.has(ChatQuirk::RepeatedId) {
                fragment.insert("id".to_owned(), json!(id));
                fragment.insert("type".to_owned(), json!("function"));
            } else if answer.has(ChatQuirk::EmptyId) {
                fragment.insert("id".to_owned(), json!(""));
            }
            fragment.insert("function".to_owned(), function);
            json!({"tool_calls": [fragment]})
        })
        .collect()
}

fn split_name<'a>(answer: &ModelAnswer, name: &'a str) -> (&'a str, &'a str) {
    if answer.has(ChatQuirk::SplitName) {
        name.split_at_checked(name.len() / 2).unwrap_or((name, ""))
    } else {
        (name, "")
    }
}

fn finish_reason(answer: &ModelAnswer) -> &str {
    let calls = answer.calls().next().is_some();
    match &answer.stop {
        StopKind::ToolUse if calls && answer.has(ChatQuirk::StopWithCalls) => "stop",
        StopKind::ToolUse => "tool_calls",
        StopKind::End | StopKind::Sequence | StopKind::Refusal | StopKind::Pause => "stop",
        StopKind::MaxTokens | StopKind::ContextWindow => "length",
        StopKind::ContentFilter => "content_filter",
        StopKind::Other(word) => word,
    }
}

fn usage(answer: &ModelAnswer, dialect: Dialect) -> Value {
    let usage = &answer.usage;
    let mut value = json!({
        "prompt_tokens": usage.total_input(),
        "completion_tokens": usage.total_output(),
        "total_tokens": usage.total_input().saturating_add(usage.total_output()),
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_writes(),
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    });
    if dialect == Dialect::OpenRouter {
        fields::set(&mut value, "cost", json!(0.00042));
        fields::set(&mut value, "is_byok", json!(false));
    }
    if answer.has_unknown(UnknownKind::Usage) {
        fields::set(&mut value, "dream_tokens", json!(7));
    }
    value
}
