//! How fast answers are decoded, on every wire.
//!
//! The floor splits the same bytes into lines and parses each line of data into
//! a `Value`: what a client does that looks at its answers at all.

use halter_bench::measure::{cpu_time, median};
use halter_bench::report::{AtLeast, remark};
use halter_providers::decode::ResponseDecoder;
use halter_providers::wire::Wire;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use serde_json::{Value, json};
use std::hint::black_box;

/// Pairs of runs; the median counts.
const ROUNDS: usize = 15;

/// How often a run decodes an answer.
const ANSWERS: usize = 20;

/// Pieces of text in an answer, and of arguments in a call.
const DELTAS: usize = 2_000;

/// Bytes that arrive at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// About what a model says in one delta.
const WORDS: &str = " the quick bröwn \"fox\"\n";

fn main() -> anyhow::Result<()> {
    let wires: [(&dyn Wire, String); 4] = [
        (&Anthropic::new(), anthropic()),
        (&ResponsesWire, responses()),
        (&Chat::new(Dialect::OPENAI), chat()),
        (&GeminiWire, gemini()),
    ];
    for (wire, answer) in wires {
        let mut ratios = Vec::new();
        let mut rates = Vec::new();
        for _ in 0..ROUNDS {
            let floor = timed(|| floor(answer.as_bytes()))?;
            let ours = timed(|| decoded(wire, answer.as_bytes()))?;
            ratios.push(100.0 * floor / ours);
            rates.push((ANSWERS * answer.len()) as f64 / ours / 1e6);
        }
        AtLeast {
            what: &format!(
                "{}: throughput of decoding, of lines and values",
                wire.name()
            ),
            value: median(ratios),
            limit: 60.0,
            unit: "%",
        }
        .print();
        remark(&format!("{}: {:.0} MB/s", wire.name(), median(rates)));
    }
    Ok(())
}

/// Seconds of CPU that some answers take.
fn timed(mut work: impl FnMut() -> anyhow::Result<usize>) -> anyhow::Result<f64> {
    let began = cpu_time();
    for _ in 0..ANSWERS {
        anyhow::ensure!(black_box(work()?) > DELTAS, "something was decoded");
    }
    Ok((cpu_time() - began).as_secs_f64())
}

fn floor(answer: &[u8]) -> anyhow::Result<usize> {
    let mut values = 0;
    for line in answer.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(data) = line
            .strip_prefix(b"data: ")
            .filter(|data| *data != b"[DONE]")
        {
            black_box(serde_json::from_slice::<Value>(data)?);
            values += 1;
        }
    }
    Ok(values)
}

fn decoded(wire: &dyn Wire, answer: &[u8]) -> anyhow::Result<usize> {
    let mut decoder = ResponseDecoder::events(wire.decoder());
    let mut events = Vec::new();
    let mut seen = 0;
    for piece in answer.chunks(PIECE_BYTES) {
        decoder.bytes(piece, &mut events)?;
        seen += black_box(&events).len();
        events.clear();
    }
    decoder.end(&mut events)?;
    Ok(seen + events.len())
}

fn event(name: &str, data: &Value) -> String {
    match name {
        "" => format!("data: {data}\n\n"),
        _ => format!("event: {name}\ndata: {data}\n\n"),
    }
}

fn arguments() -> String {
    let text: String = (0..DELTAS).map(|_| WORDS).collect();
    json!({ "path": "notes.txt", "content": text }).to_string()
}

/// The arguments in pieces of a delta's size.
fn pieces(arguments: &str) -> Vec<String> {
    let characters: Vec<char> = arguments.chars().collect();
    characters
        .chunks(WORDS.len())
        .map(|piece| piece.iter().collect())
        .collect()
}

/// Text, then a call, as Anthropic streams them.
fn anthropic() -> String {
    let typed = |kind: &str, more: Value| {
        let mut data = json!({ "type": kind });
        if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
            data.extend(more);
        }
        event(kind, &data)
    };
    let delta = |index: usize, delta: Value| {
        typed(
            "content_block_delta",
            json!({ "index": index, "delta": delta }),
        )
    };
    let usage = json!({ "input_tokens": 25, "output_tokens": 1 });
    let message = json!({ "id": "msg_1", "role": "assistant", "content": [], "usage": usage });
    let mut out = typed("message_start", json!({ "message": message }));
    let text = json!({ "type": "text", "text": "" });
    out += &typed(
        "content_block_start",
        json!({ "index": 0, "content_block": text }),
    );
    for _ in 0..DELTAS {
        out += &delta(0, json!({ "type": "text_delta", "text": WORDS }));
    }
    out += &typed("content_block_stop", json!({ "index": 0 }));
    let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "write", "input": {} });
    out += &typed(
        "content_block_start",
        json!({ "index": 1, "content_block": call }),
    );
    for piece in pieces(&arguments()) {
        out += &delta(
            1,
            json!({ "type": "input_json_delta", "partial_json": piece }),
        );
    }
    out += &typed("content_block_stop", json!({ "index": 1 }));
    let end = json!({ "stop_reason": "tool_use", "stop_sequence": null });
    let usage = json!({ "output_tokens": 900 });
    out += &typed("message_delta", json!({ "delta": end, "usage": usage }));
    out + &typed("message_stop", json!({}))
}

/// The same as OpenAI Responses.
fn responses() -> String {
    let mut number = 0;
    let mut typed = |kind: &str, mut data: Value| {
        if let Some(data) = data.as_object_mut() {
            data.insert("type".to_owned(), kind.into());
            data.insert("sequence_number".to_owned(), number.into());
        }
        number += 1;
        event(kind, &data)
    };
    let said: String = (0..DELTAS).map(|_| WORDS).collect();
    let content = json!([{ "type": "output_text", "annotations": [], "text": said }]);
    let message =
        json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": content });
    let call = json!({
        "id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "write", "arguments": arguments()
    });
    let response = |status: &str, output: Value| json!({ "response": { "id": "resp_1", "status": status, "output": output } });
    let mut out = typed("response.created", response("in_progress", json!([])));
    let begun = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [] });
    out += &typed(
        "response.output_item.added",
        json!({ "output_index": 0, "item": begun }),
    );
    for _ in 0..DELTAS {
        let delta = json!({
            "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": WORDS,
            "logprobs": [], "obfuscation": "aXk9Qe"
        });
        out += &typed("response.output_text.delta", delta);
    }
    out += &typed(
        "response.output_item.done",
        json!({ "output_index": 0, "item": message }),
    );
    let mut begun = call.clone();
    if let Some(arguments) = begun.get_mut("arguments") {
        *arguments = "".into();
    }
    out += &typed(
        "response.output_item.added",
        json!({ "output_index": 1, "item": begun }),
    );
    for piece in pieces(&arguments()) {
        let delta = json!({ "item_id": "fc_1", "output_index": 1, "delta": piece });
        out += &typed("response.function_call_arguments.delta", delta);
    }
    out += &typed(
        "response.output_item.done",
        json!({ "output_index": 1, "item": call }),
    );
    out + &typed(
        "response.completed",
        response("completed", json!([message, call])),
    )
}

/// The same as Chat Completions.
fn chat() -> String {
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        let data = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000,
            "model": "m", "choices": [choice]
        });
        event("", &data)
    };
    let mut out = String::new();
    for _ in 0..DELTAS {
        out += &chunk(json!({ "content": WORDS }), Value::Null);
    }
    let call = |function: Value, more: Value| {
        let mut call = json!({ "index": 0, "function": function });
        if let (Some(call), Value::Object(more)) = (call.as_object_mut(), more) {
            call.extend(more);
        }
        chunk(json!({ "tool_calls": [call] }), Value::Null)
    };
    out += &call(
        json!({ "name": "write", "arguments": "" }),
        json!({ "id": "call_1", "type": "function" }),
    );
    for piece in pieces(&arguments()) {
        out += &call(json!({ "arguments": piece }), json!({}));
    }
    out += &chunk(json!({}), "tool_calls".into());
    out + "data: [DONE]\n\n"
}

/// The same as Gemini: a call comes whole.
fn gemini() -> String {
    let chunk = |parts: Value, reason: Option<&str>| {
        let mut candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": 0 });
        if let (Some(candidate), Some(reason)) = (candidate.as_object_mut(), reason) {
            candidate.insert("finishReason".to_owned(), reason.into());
        }
        let usage =
            json!({ "promptTokenCount": 10, "candidatesTokenCount": 4, "totalTokenCount": 14 });
        let data = json!({
            "candidates": [candidate], "usageMetadata": usage,
            "modelVersion": "gemini-3-pro-preview", "responseId": "rid-1"
        });
        event("", &data).replace('\n', "\r\n")
    };
    let mut out = String::new();
    for _ in 0..DELTAS {
        out += &chunk(json!([{ "text": WORDS }]), None);
    }
    let arguments: Value = json!({ "path": "notes.txt", "content": WORDS.repeat(DELTAS) });
    let call = json!({ "functionCall": { "name": "write", "args": arguments }, "thoughtSignature": "c2ln" });
    out + &chunk(json!([call]), Some("STOP"))
}
