//! Gemini `generateContent`.

mod check;
mod encode;

use crate::codec::{Codec, Frame, ModelRequest, Place, Problem};
use crate::conversation::{Conversation, ToolResult};
use crate::fields;
use crate::model_answer::ModelAnswer;
use crate::models::ModelEntry;
use crate::wire::Dialect;
use serde_json::{Value, json};

/// The wire.
pub(crate) struct Gemini;

impl Codec for Gemini {
    fn authenticate<'a>(&self, request: &ModelRequest<'a>) -> Result<Option<&'a str>, Problem> {
        request
            .header("x-goog-api-key")
            .or_else(|| request.bearer())
            .or_else(|| request.query_value("key"))
            .map(Some)
            .ok_or_else(|| {
                Problem::new(
                    403,
                    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.",
                )
            })
    }

    fn normalize(&self, body: Value) -> Value {
        let mut body = camel_case(body);
        if let Some(contents) = body.get_mut("contents").and_then(Value::as_array_mut) {
            merge_neighbours(contents);
        }
        body
    }

    fn check(&self, request: &ModelRequest<'_>) -> Result<(), Problem> {
        check::check(request)
    }

    fn conversation(&self, request: &ModelRequest<'_>) -> Conversation {
        conversation(request)
    }

    fn whole(&self, answer: &ModelAnswer, request: &ModelRequest<'_>) -> Value {
        encode::whole(answer, request.body)
    }

    fn frames(&self, answer: &ModelAnswer, request: &ModelRequest<'_>) -> Vec<Frame> {
        encode::frames(answer, request.body)
    }

    fn error_body(&self, problem: &Problem, _dialect: Dialect, _request_id: &str) -> Value {
        let mut details = Vec::new();
        if let Some(code) = &problem.code {
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": code,
                "domain": "googleapis.com",
            }));
        }
        if let Some(seconds) = &problem.retry_after {
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": format!("{seconds}s"),
            }));
        }
        let mut error = json!({
            "code": problem.status,
            "message": problem.message,
            "status": status(problem),
        });
        if let (false, Some(object)) = (details.is_empty(), error.as_object_mut()) {
            object.insert("details".to_owned(), json!(details));
        }
        json!({"error": error})
    }

    fn error_frame(
        &self,
        problem: &Problem,
        request: &ModelRequest<'_>,
        request_id: &str,
    ) -> Frame {
        let body = self.error_body(problem, request.dialect, request_id);
        Frame::data(&body, Place::Last)
    }

    fn token_count(&self, tokens: u64) -> Value {
        json!({
            "totalTokens": tokens,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}],
        })
    }

    fn model(&self, entry: &ModelEntry) -> Value {
        json!({
            "name": format!("models/{}", entry.id),
            "baseModelId": entry.id,
            "version": "1",
            "displayName": entry.id,
            "inputTokenLimit": entry.input_tokens,
            "outputTokenLimit": entry.output_tokens,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
            "thinking": true,
        })
    }

    fn model_list(&self, entries: &[ModelEntry]) -> Value {
        let models: Vec<_> = entries.iter().map(|entry| self.model(entry)).collect();
        json!({"models": models})
    }
}

fn status(problem: &Problem) -> &str {
    match (&problem.kind, problem.status) {
        (Some(kind), _) => kind,
        (None, 401) => "UNAUTHENTICATED",
        (None, 403) => "PERMISSION_DENIED",
        (None, 404) => "NOT_FOUND",
        (None, 409) => "ABORTED",
        (None, 429) => "RESOURCE_EXHAUSTED",
        (None, 503 | 529) => "UNAVAILABLE",
        (None, 504) => "DEADLINE_EXCEEDED",
        (None, 500..) => "INTERNAL",
        (None, _) => "INVALID_ARGUMENT",
    }
}

/// The body that holds the contents: counting tokens may wrap it.
fn generation(body: &Value) -> &Value {
    fields::present(body, "generateContentRequest").unwrap_or(body)
}

fn role(content: &Value) -> &str {
    fields::text(content, "role").unwrap_or("user")
}

fn is_response(part: &Value) -> bool {
    fields::present(part, "functionResponse").is_some()
}

fn conversation(request: &ModelRequest<'_>) -> Conversation {
    let body = generation(request.body);
    let mut conversation = Conversation {
        model: request.path_model.unwrap_or_default().to_owned(),
        streaming: request.path_streams,
        tools: fields::items(body, "tools")
            .iter()
            .flat_map(|tool| fields::items(tool, "functionDeclarations"))
            .filter_map(|function| fields::text(function, "name"))
            .map(str::to_owned)
            .collect(),
        ..Conversation::default()
    };
    for content in fields::items(body, "contents") {
        let parts = fields::items(content, "parts");
        if role(content) == "model" {
            let calls = parts
                .iter()
                .filter(|part| fields::present(part, "functionCall").is_some())
                .count();
            conversation.push_assistant(calls);
            continue;
        }
        for part in parts.iter().filter(|part| is_response(part)) {
            conversation.push_result(result(part));
        }
        let texts: Vec<_> = parts
            .iter()
            .filter_map(|part| fields::text(part, "text"))
            .collect();
        conversation.push_user(&texts.join("\n"), images(parts));
    }
    conversation
}

/// Members whose content is the client's own.
const FREE_FORM: &str = "args response parametersJsonSchema responseJsonSchema \
    responseFormat enum required default example labels";

/// The body with its members in camel case: the service takes both spellings.
/// The names of properties, and what is the client's own, stay as they are.
fn camel_case(body: Value) -> Value {
    match body {
        Value::Array(items) => items.into_iter().map(camel_case).collect(),
        Value::Object(object) => {
            let members = object.into_iter().map(|(key, value)| {
                let key = camel_case_name(&key);
                let value = match value {
                    Value::Object(properties) if key == "properties" => properties
                        .into_iter()
                        .map(|(name, schema)| (name, camel_case(schema)))
                        .collect(),
                    value if fields::is_word(&key, FREE_FORM) => value,
                    value => camel_case(value),
                };
                (key, value)
            });
            Value::Object(members.collect())
        }
        other => other,
    }
}

fn camel_case_name(name: &str) -> String {
    let mut parts = name.split('_');
    let mut joined = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (first, rest) = part.split_at_checked(1).unwrap_or(("_", part));
        joined.push_str(&first.to_ascii_uppercase());
        joined.push_str(rest);
    }
    joined
}

fn media_of(part: &Value) -> Option<&Value> {
    fields::present(part, "inlineData").or_else(|| fields::present(part, "fileData"))
}

fn images(parts: &[Value]) -> usize {
    parts
        .iter()
        .filter_map(media_of)
        .filter(|media| {
            fields::text(media, "mimeType").is_some_and(|kind| kind.starts_with("image/"))
        })
        .count()
}

/// Joins neighbouring turns of the model: a client may send each chunk of a
/// stream as a turn of its own.
fn merge_neighbours(contents: &mut Vec<Value>) {
    contents.dedup_by(|later, earlier| {
        let same = role(earlier) == "model" && role(later) == "model";
        let lists = (later.get_mut("parts"), earlier.get_mut("parts"));
        match lists {
            (Some(Value::Array(more)), Some(Value::Array(parts))) if same => {
                parts.append(more);
                true
            }
            _ => false,
        }
    });
}

/// By convention the value is under `output`, `result`, `error` or `content`.
fn result(part: &Value) -> ToolResult {
    let answer = part.get("functionResponse").unwrap_or(&Value::Null);
    let response = answer.get("response").unwrap_or(&Value::Null);
    let value = ["output", "result", "error", "content"]
        .iter()
        .find_map(|key| response.get(key))
        .unwrap_or(response);
    ToolResult {
        text: match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
        images: images(fields::items(answer, "parts")),
    }
}
