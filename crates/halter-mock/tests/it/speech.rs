//! Conversations in each wire's own shapes, written out by hand.

use crate::client::{Open, Reply, open};
use halter_mock::{MockService, MockWire};
use serde_json::{Value, json};

/// A request under construction.
#[derive(Debug, Clone)]
pub struct Talk {
    pub wire: MockWire,
    pub model: String,
    pub body: Value,
    pub headers: Vec<(String, String)>,
    pub path: Option<String>,
    pub streaming: bool,
}

/// What an answer says, whatever its wire.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    pub text: String,
    pub thinking: String,
    pub calls: Vec<(String, Value)>,
    pub stop: String,
    pub call_ids: Vec<String>,
    /// What must be sent back as the assistant's turn.
    pub turn: Vec<Value>,
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"path": {"type": "string"}}})
}

impl Talk {
    pub fn new(wire: MockWire, prompt: &str) -> Self {
        // All that the scenarios call: what was never sent is not called.
        let names = [
            "read",
            "glob",
            "grep",
            "write",
            "shell",
            "task",
            "edit",
            "process",
            "tool_search",
            "ask_user",
            "spawn_agent",
            "wait_agent",
            "mcp__fixture__echo",
            "mcp__plugin_demo_fixture__echo",
        ];
        let (model, body) = match wire {
            MockWire::Anthropic => (
                "claude-sonnet-5",
                json!({
                    "max_tokens": 4096,
                    "tools": names.map(|name| json!({"name": name, "input_schema": schema()})),
                    "messages": [{"role": "user", "content": prompt}],
                }),
            ),
            MockWire::Responses => (
                "gpt-5.6",
                json!({
                    "store": false,
                    "include": ["reasoning.encrypted_content"],
                    "tools": names.map(|name| json!({"type": "function", "name": name, "parameters": schema()})),
                    "input": [{"role": "user", "content": [{"type": "input_text", "text": prompt}]}],
                }),
            ),
            MockWire::Chat => (
                "gpt-4o",
                json!({
                    "tools": names.map(|name| json!({"type": "function",
                        "function": {"name": name, "parameters": schema()}})),
                    "messages": [{"role": "user", "content": prompt}],
                }),
            ),
            _ => (
                "gemini-3-pro",
                json!({
                    "tools": [{"functionDeclarations":
                        names.map(|name| json!({"name": name, "parametersJsonSchema": schema()}))}],
                    "contents": [{"role": "user", "parts": [{"text": prompt}]}],
                }),
            ),
        };
        let key = match wire {
            MockWire::Anthropic => ("x-api-key", "k"),
            MockWire::Gemini => ("x-goog-api-key", "k"),
            _ => ("authorization", "Bearer k"),
        };
        let mut headers = vec![("content-type", "application/json"), key];
        if wire == MockWire::Anthropic {
            headers.push(("anthropic-version", "2026-10-21"));
        }
        Self {
            wire,
            model: model.to_owned(),
            body,
            headers: headers
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            path: None,
            streaming: false,
        }
    }

    pub fn streaming(mut self) -> Self {
        self.streaming = true;
        self
    }

    /// With a change to the body.
    pub fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.body);
        self
    }

    pub fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(header, _)| header != name);
        self
    }

    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self = self.without_header(name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn at(mut self, path: &str) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    fn address(&self) -> String {
        if let Some(path) = &self.path {
            return path.clone();
        }
        match self.wire {
            MockWire::Anthropic => "/v1/messages".to_owned(),
            MockWire::Responses => "/v1/responses".to_owned(),
            MockWire::Chat => "/v1/chat/completions".to_owned(),
            _ if self.streaming => format!(
                "/v1beta/models/{}:streamGenerateContent?alt=sse",
                self.model
            ),
            _ => format!("/v1beta/models/{}:generateContent", self.model),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut body = self.body.clone();
        if self.wire != MockWire::Gemini && body.is_object() {
            if body.get("model").is_none() {
                body["model"] = json!(self.model);
            }
            if self.streaming {
                body["stream"] = json!(true);
            }
        }
        serde_json::to_vec(&body).unwrap()
    }

    pub async fn open(&self, service: &MockService) -> Open {
        let headers: Vec<_> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        open(service, "POST", &self.address(), &headers, &self.bytes()).await
    }

    pub async fn send(&self, service: &MockService) -> Reply {
        self.open(service).await.finish().await
    }

    /// Sends, and understands the answer.
    pub async fn ask(&self, service: &MockService) -> Said {
        let reply = self.send(service).await;
        assert_eq!(
            reply.status,
            200,
            "{}",
            String::from_utf8_lossy(&reply.body)
        );
        if self.streaming {
            understand_stream(self.wire, &reply.data())
        } else {
            understand(self.wire, &reply.json())
        }
    }

    /// Adds the assistant's turn and one result per call.
    pub fn answer(&mut self, said: &Said, results: &[&str]) {
        assert_eq!(said.call_ids.len(), results.len());
        let pairs = || said.call_ids.iter().zip(results);
        match self.wire {
            MockWire::Anthropic => {
                let blocks: Vec<_> = pairs()
                    .map(|(id, text)| json!({"type": "tool_result", "tool_use_id": id, "content": text}))
                    .collect();
                self.push(
                    "messages",
                    json!({"role": "assistant", "content": said.turn}),
                );
                self.push("messages", json!({"role": "user", "content": blocks}));
            }
            MockWire::Responses => {
                for item in &said.turn {
                    self.push("input", item.clone());
                }
                for (id, text) in pairs() {
                    self.push(
                        "input",
                        json!({"type": "function_call_output", "call_id": id, "output": text}),
                    );
                }
            }
            MockWire::Chat => {
                self.push("messages", said.turn[0].clone());
                for (id, text) in pairs() {
                    self.push(
                        "messages",
                        json!({"role": "tool", "tool_call_id": id, "content": text}),
                    );
                }
            }
            _ => {
                let parts: Vec<_> = pairs()
                    .zip(&said.calls)
                    .map(|((id, text), (name, _))| {
                        json!({"functionResponse": {"id": id, "name": name, "response": {"output": text}}})
                    })
                    .collect();
                self.push("contents", json!({"role": "model", "parts": said.turn}));
                self.push("contents", json!({"role": "user", "parts": parts}));
            }
        }
    }

    pub fn push(&mut self, key: &str, value: Value) {
        self.body[key].as_array_mut().unwrap().push(value);
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A whole answer.
pub fn understand(wire: MockWire, answer: &Value) -> Said {
    match wire {
        MockWire::Anthropic => anthropic(
            answer["content"].as_array().unwrap(),
            &answer["stop_reason"],
        ),
        MockWire::Responses => responses(answer),
        MockWire::Chat => chat(
            &answer["choices"][0]["message"],
            &answer["choices"][0]["finish_reason"],
        ),
        _ => {
            let candidate = &answer["candidates"][0];
            gemini(
                candidate["content"]["parts"].as_array().unwrap(),
                &candidate["finishReason"],
            )
        }
    }
}

fn anthropic(content: &[Value], stop: &Value) -> Said {
    let mut said = Said {
        stop: string(stop),
        turn: content.to_vec(),
        ..Said::default()
    };
    for block in content {
        match block["type"].as_str().unwrap() {
            "text" => said.text += block["text"].as_str().unwrap(),
            "thinking" => said.thinking += block["thinking"].as_str().unwrap(),
            "tool_use" => {
                said.calls
                    .push((string(&block["name"]), block["input"].clone()));
                said.call_ids.push(string(&block["id"]));
            }
            _ => {}
        }
    }
    said
}

fn responses(response: &Value) -> Said {
    let output = response["output"].as_array().unwrap();
    let mut said = Said {
        stop: string(&response["status"]),
        turn: output.clone(),
        ..Said::default()
    };
    for item in output {
        match item["type"].as_str().unwrap() {
            "message" => said.text += item["content"][0]["text"].as_str().unwrap_or_default(),
            "reasoning" => said.thinking += item["summary"][0]["text"].as_str().unwrap_or_default(),
            "function_call" => {
                let arguments = serde_json::from_str(item["arguments"].as_str().unwrap());
                said.calls
                    .push((string(&item["name"]), arguments.unwrap_or_default()));
                said.call_ids.push(string(&item["call_id"]));
            }
            _ => {}
        }
    }
    said
}

fn chat(message: &Value, stop: &Value) -> Said {
    let mut said = Said {
        text: string(&message["content"]),
        thinking: string(&message["reasoning_content"]),
        stop: string(stop),
        turn: vec![message.clone()],
        ..Said::default()
    };
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let arguments = match &call["function"]["arguments"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            other => other.clone(),
        };
        said.calls
            .push((string(&call["function"]["name"]), arguments));
        said.call_ids.push(string(&call["id"]));
    }
    said
}

fn gemini(parts: &[Value], stop: &Value) -> Said {
    let mut said = Said {
        stop: string(stop),
        turn: parts.to_vec(),
        ..Said::default()
    };
    for part in parts {
        if let Some(call) = part.get("functionCall") {
            said.calls
                .push((string(&call["name"]), call["args"].clone()));
            said.call_ids.push(string(&call["id"]));
        } else if part["thought"] == json!(true) {
            said.thinking += part["text"].as_str().unwrap();
        } else {
            said.text += part["text"].as_str().unwrap_or_default();
        }
    }
    said
}

/// An answer in events, put together.
pub fn understand_stream(wire: MockWire, events: &[Value]) -> Said {
    match wire {
        MockWire::Anthropic => anthropic_stream(events),
        MockWire::Responses => {
            let last = events.last().unwrap();
            responses(&last["response"])
        }
        MockWire::Chat => chat_stream(events),
        _ => gemini_stream(events),
    }
}

fn append(target: &mut Value, piece: &Value) {
    let joined = string(target) + piece.as_str().unwrap();
    *target = json!(joined);
}

fn anthropic_stream(events: &[Value]) -> Said {
    let mut blocks: Vec<Value> = Vec::new();
    let mut arguments: Vec<String> = Vec::new();
    let mut stop = Value::Null;
    for event in events {
        let index = usize::try_from(event["index"].as_u64().unwrap_or_default()).unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(index, blocks.len());
                blocks.push(event["content_block"].clone());
                arguments.push(String::new());
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append(&mut blocks[index]["text"], &delta["text"]),
                    "thinking_delta" => append(&mut blocks[index]["thinking"], &delta["thinking"]),
                    "signature_delta" => {
                        append(&mut blocks[index]["signature"], &delta["signature"])
                    }
                    "input_json_delta" => {
                        arguments[index] += delta["partial_json"].as_str().unwrap()
                    }
                    _ => {}
                }
            }
            "content_block_stop" if !arguments[index].is_empty() => {
                blocks[index]["input"] =
                    serde_json::from_str(&arguments[index]).unwrap_or_default();
            }
            "message_delta" => stop = event["delta"]["stop_reason"].clone(),
            _ => {}
        }
    }
    anthropic(&blocks, &stop)
}

fn chat_stream(events: &[Value]) -> Said {
    let mut message = json!({"role": "assistant", "content": ""});
    let mut stop = Value::Null;
    for event in events {
        let Some(choice) = event["choices"].get(0) else {
            continue;
        };
        if !choice["finish_reason"].is_null() {
            stop = choice["finish_reason"].clone();
        }
        let delta = &choice["delta"];
        for key in ["content", "reasoning_content", "reasoning"] {
            if let Some(piece) = delta.get(key) {
                append(&mut message[key], piece);
            }
        }
        if let Some(details) = delta.get("reasoning_details").and_then(Value::as_array) {
            if message["reasoning_details"].is_null() {
                message["reasoning_details"] = json!([]);
            }
            message["reasoning_details"]
                .as_array_mut()
                .unwrap()
                .extend(details.clone());
        }
        for fragment in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(fragment["index"].as_u64().unwrap()).unwrap();
            if message["tool_calls"].is_null() {
                message["tool_calls"] = json!([]);
            }
            let calls = message["tool_calls"].as_array_mut().unwrap();
            if index == calls.len() {
                calls.push(json!({"id": fragment["id"], "type": "function", "function": {"name": "", "arguments": ""}}));
            }
            for key in ["name", "arguments"] {
                if let Some(piece) = fragment["function"].get(key) {
                    append(&mut calls[index]["function"][key], piece);
                }
            }
        }
    }
    chat(&message, &stop)
}

fn gemini_stream(events: &[Value]) -> Said {
    let mut parts: Vec<Value> = Vec::new();
    let mut stop = Value::Null;
    for event in events {
        let candidate = &event["candidates"][0];
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            parts.push(part.clone());
        }
        if let Some(reason) = candidate.get("finishReason") {
            stop = reason.clone();
        }
    }
    gemini(&parts, &stop)
}
