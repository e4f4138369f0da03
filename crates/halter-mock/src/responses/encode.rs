//! Answers as output items and as events.

use crate::codec::{Frame, Place};
use crate::fields;
use crate::model_answer::{AnswerCall, AnswerPart, CREATED, ModelAnswer, StopKind};
use crate::scenario::UnknownKind;
use crate::signing;
use serde_json::{Map, Value, json};

pub(super) fn whole(answer: &ModelAnswer, body: &Value) -> Value {
    let output = items(answer, body)
        .into_iter()
        .map(|item| item.whole)
        .collect();
    response(answer, body, Some(output))
}

pub(super) fn frames(answer: &ModelAnswer, body: &Value) -> Vec<Frame> {
    let mut stream = Stream::default();
    let opening = response(answer, body, None);
    stream.push(
        "response.created",
        json!({"response": opening}),
        Place::Opening,
    );
    stream.push(
        "response.in_progress",
        json!({"response": opening}),
        Place::Opening,
    );
    if answer.has_unknown(UnknownKind::Event) {
        stream.push(
            "response.weather_report",
            json!({"sky": "clear"}),
            Place::Opening,
        );
    }
    let mut output = Vec::new();
    for (index, item) in items(answer, body).into_iter().enumerate() {
        item_frames(answer, index, &item, &mut stream);
        output.push(item.whole);
    }
    let finished = response(answer, body, Some(output));
    let name = match fields::text(&finished, "status") {
        Some("incomplete") => "response.incomplete",
        Some("failed") => "response.failed",
        _ => "response.completed",
    };
    stream.push(name, json!({"response": finished}), Place::Closing);
    stream.frames
}

/// An output item: whole, as it is announced, and what fills it.
struct Item {
    whole: Value,
    added: Value,
    filling: Filling,
}

enum Filling {
    Text(Vec<String>),
    Refusal(Vec<String>),
    Summary(Vec<String>),
    Arguments(Vec<String>),
    CustomInput(Vec<String>),
    Nothing,
}

#[derive(Default)]
struct Stream {
    frames: Vec<Frame>,
}

impl Stream {
    fn push(&mut self, name: &str, fields: Value, place: Place) {
        let mut event = Map::new();
        event.insert("type".to_owned(), json!(name));
        event.insert("sequence_number".to_owned(), json!(self.frames.len()));
        if let Value::Object(fields) = fields {
            event.extend(fields);
        }
        self.frames
            .push(Frame::named(name, &Value::Object(event), place));
    }
}

fn response(answer: &ModelAnswer, body: &Value, output: Option<Vec<Value>>) -> Value {
    let finished = output.is_some();
    let echo = |key: &str, default: Value| fields::present(body, key).cloned().unwrap_or(default);
    let (status, reason, error) = if finished {
        ending(&answer.stop)
    } else {
        ("in_progress", None, Value::Null)
    };
    let mut response = json!({
        "id": answer.id("resp_"),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": false,
        "error": error,
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "instructions": echo("instructions", Value::Null),
        "max_output_tokens": echo("max_output_tokens", Value::Null),
        "metadata": echo("metadata", json!({})),
        "model": answer.model,
        "output": output.unwrap_or_default(),
        "parallel_tool_calls": echo("parallel_tool_calls", json!(true)),
        "previous_response_id": fields::text(body, "previous_response_id"),
        "reasoning": echo("reasoning", json!({"effort": null, "summary": null})),
        "store": echo("store", json!(true)),
        "temperature": echo("temperature", json!(1.0)),
        "text": echo("text", json!({"format": {"type": "text"}})),
        "tool_choice": echo("tool_choice", json!("auto")),
        "tools": echo("tools", json!([])),
        "top_p": echo("top_p", json!(1.0)),
        "truncation": echo("truncation", json!("disabled")),
        "usage": if finished { usage(answer) } else { Value::Null },
    });
    answer.add_unknown_field(&mut response);
    response
}

fn ending(stop: &StopKind) -> (&'static str, Option<&str>, Value) {
    match stop {
        StopKind::MaxTokens => ("incomplete", Some("max_output_tokens"), Value::Null),
        StopKind::ContentFilter => ("incomplete", Some("content_filter"), Value::Null),
        StopKind::Other(word) => ("incomplete", Some(word), Value::Null),
        StopKind::ContextWindow => (
            "failed",
            None,
            json!({
                "code": "context_length_exceeded",
                "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
            }),
        ),
        StopKind::End
        | StopKind::ToolUse
        | StopKind::Sequence
        | StopKind::Refusal
        | StopKind::Pause => ("completed", None, Value::Null),
    }
}

fn usage(answer: &ModelAnswer) -> Value {
    let usage = &answer.usage;
    let mut value = json!({
        "input_tokens": usage.total_input(),
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_writes(),
        },
        "output_tokens": usage.total_output(),
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total_input().saturating_add(usage.total_output()),
    });
    if answer.has_unknown(UnknownKind::Usage) {
        fields::set(&mut value, "dream_tokens", json!(7));
    }
    value
}

fn items(answer: &ModelAnswer, body: &Value) -> Vec<Item> {
    let encrypted = fields::items(body, "include")
        .iter()
        .any(|wanted| wanted.as_str() == Some("reasoning.encrypted_content"));
    let cut_off = answer.stop == StopKind::MaxTokens;
    let last = answer.parts.len().saturating_sub(1);
    let mut thought: Option<String> = None;
    let mut items = Vec::new();
    for (index, part) in answer.parts.iter().enumerate() {
        let status = if cut_off && index == last {
            "incomplete"
        } else {
            "completed"
        };
        let id = |kind: &str| format!("{}{index:02x}", answer.id(kind));
        items.push(match part {
            AnswerPart::Text(pieces) => text_item(answer, &id("msg_"), pieces, status),
            AnswerPart::Thinking(pieces) => {
                thought.get_or_insert_default().push_str(&id("rs_"));
                reasoning_item(answer, &id("rs_"), pieces, encrypted)
            }
            AnswerPart::Redacted => {
                thought.get_or_insert_default().push_str(&id("rs_"));
                reasoning_item(answer, &id("rs_"), &[], encrypted)
            }
            AnswerPart::Call(call) => {
                let call_id = signing::call_id(
                    "call_",
                    &answer.model,
                    thought.as_deref(),
                    &answer.request,
                    call.number,
                );
                if is_custom(body, &call.name) {
                    items.push(custom_item(&id("ctc_"), &call_id, call, status));
                    continue;
                }
                let item = |status: &str, arguments: &str| {
                    json!({
                        "id": id("fc_"),
                        "type": "function_call",
                        "status": status,
                        "call_id": call_id,
                        "name": call.name,
                        "arguments": arguments,
                    })
                };
                Item {
                    whole: item(status, &call.arguments()),
                    added: item("in_progress", ""),
                    filling: Filling::Arguments(call.pieces.clone()),
                }
            }
        });
    }
    if answer.has_unknown(UnknownKind::Block) {
        let whole = json!({"type": "hologram", "id": answer.id("hg_"), "light": "green"});
        items.push(Item {
            added: whole.clone(),
            whole,
            filling: Filling::Nothing,
        });
    }
    items
}

/// Whether the request offers a tool of this name that takes plain text.
fn is_custom(body: &Value, name: &str) -> bool {
    let is_it =
        |tool: &Value| fields::kind(tool) == "custom" && fields::text(tool, "name") == Some(name);
    let inner = |tool: &Value| fields::items(tool, "tools").iter().any(is_it);
    let mut tools = fields::items(body, "tools").iter();
    tools.any(|tool| is_it(tool) || inner(tool))
}

fn custom_item(id: &str, call_id: &str, call: &AnswerCall, status: &str) -> Item {
    let item = |status: &str, input: &str| {
        json!({
            "id": id,
            "type": "custom_tool_call",
            "status": status,
            "call_id": call_id,
            "name": call.name,
            "input": input,
        })
    };
    let pieces = call.plain_input();
    Item {
        whole: item(status, &pieces.concat()),
        added: item("in_progress", ""),
        filling: Filling::CustomInput(pieces),
    }
}

fn text_item(answer: &ModelAnswer, id: &str, pieces: &[String], status: &str) -> Item {
    let message = |status: &str, content: Value| json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content});
    let refused = answer.stop == StopKind::Refusal;
    let part = part(refused, &pieces.concat());
    Item {
        whole: message(status, json!([part])),
        added: message("in_progress", json!([])),
        filling: if refused {
            Filling::Refusal(pieces.to_vec())
        } else {
            Filling::Text(pieces.to_vec())
        },
    }
}

fn part(refused: bool, text: &str) -> Value {
    if refused {
        json!({"type": "refusal", "refusal": text})
    } else {
        json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
    }
}

fn reasoning_item(answer: &ModelAnswer, id: &str, pieces: &[String], encrypted: bool) -> Item {
    let text = pieces.concat();
    let summary = if pieces.is_empty() {
        json!([])
    } else {
        json!([{"type": "summary_text", "text": text}])
    };
    let mut whole = json!({"id": id, "type": "reasoning", "summary": summary});
    let mut added = json!({"id": id, "type": "reasoning", "summary": []});
    if encrypted {
        let sealed = signing::sign(&answer.model, &["reasoning", id, &text]);
        fields::set(&mut whole, "encrypted_content", json!(sealed));
        // Only the finished item carries the content that must be kept.
        fields::set(&mut added, "encrypted_content", json!("not-yet"));
    }
    Item {
        whole,
        added,
        filling: Filling::Summary(pieces.to_vec()),
    }
}

fn item_frames(answer: &ModelAnswer, index: usize, item: &Item, stream: &mut Stream) {
    let added = json!({"output_index": index, "item": item.added});
    stream.push("response.output_item.added", added, Place::Between);
    let id = fields::text(&item.whole, "id").unwrap_or_default();
    match &item.filling {
        Filling::Text(pieces) => content_frames(answer, index, id, pieces, false, stream),
        Filling::Refusal(pieces) => content_frames(answer, index, id, pieces, true, stream),
        Filling::Summary(pieces) if pieces.is_empty() => {}
        Filling::Summary(pieces) => summary_frames(index, id, pieces, stream),
        Filling::Arguments(pieces) => {
            let name = "response.function_call_arguments";
            call_frames(name, "arguments", index, item, pieces, stream);
        }
        Filling::CustomInput(pieces) => {
            let name = "response.custom_tool_call_input";
            call_frames(name, "input", index, item, pieces, stream);
        }
        Filling::Nothing => {}
    }
    let done = json!({"output_index": index, "item": item.whole});
    stream.push("response.output_item.done", done, Place::Between);
}

fn content_frames(
    answer: &ModelAnswer,
    index: usize,
    id: &str,
    pieces: &[String],
    refused: bool,
    stream: &mut Stream,
) {
    let place = |mut fields: Value| {
        fields::set(&mut fields, "item_id", json!(id));
        fields::set(&mut fields, "output_index", json!(index));
        fields::set(&mut fields, "content_index", json!(0));
        fields
    };
    let name = if refused {
        "response.refusal"
    } else {
        "response.output_text"
    };
    let added = place(json!({"part": part(refused, "")}));
    stream.push("response.content_part.added", added, Place::Between);
    for piece in pieces {
        let mut delta = place(json!({"delta": piece, "logprobs": [], "obfuscation": "xyz"}));
        answer.add_unknown_field(&mut delta);
        stream.push(&format!("{name}.delta"), delta, Place::Delta);
    }
    let text = pieces.concat();
    let done = if refused {
        json!({"refusal": text})
    } else {
        json!({"text": text, "logprobs": []})
    };
    stream.push(&format!("{name}.done"), place(done), Place::Between);
    let done = place(json!({"part": part(refused, &text)}));
    stream.push("response.content_part.done", done, Place::Between);
}

fn summary_frames(index: usize, id: &str, pieces: &[String], stream: &mut Stream) {
    let place = |key: &str, value: Value| {
        let mut fields = json!({"item_id": id, "output_index": index, "summary_index": 0});
        fields::set(&mut fields, key, value);
        fields
    };
    let part = |text: &str| place("part", json!({"type": "summary_text", "text": text}));
    let text = pieces.concat();
    stream.push(
        "response.reasoning_summary_part.added",
        part(""),
        Place::Between,
    );
    for piece in pieces {
        let delta = place("delta", json!(piece));
        stream.push("response.reasoning_summary_text.delta", delta, Place::Delta);
    }
    let done = place("text", json!(text));
    stream.push("response.reasoning_summary_text.done", done, Place::Between);
    stream.push(
        "response.reasoning_summary_part.done",
        part(&text),
        Place::Between,
    );
}

fn call_frames(
    name: &str,
    key: &str,
    index: usize,
    item: &Item,
    pieces: &[String],
    stream: &mut Stream,
) {
    let id = item.whole.get("id");
    for piece in pieces {
        let delta = json!({"item_id": id, "output_index": index, "delta": piece});
        stream.push(&format!("{name}.delta"), delta, Place::Delta);
    }
    // A call that was cut off has no end.
    if fields::text(&item.whole, "status") != Some("incomplete") {
        let done = json!({
            "item_id": id,
            "output_index": index,
            "name": item.whole.get("name"),
            key: pieces.concat(),
        });
        stream.push(&format!("{name}.done"), done, Place::Between);
    }
}
