//! Calls that need something of the host, in the newest revision: the result
//! says what, and the host calls again.

use super::fixtures::{complete, parsed, text};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, GetPromptResponse, GetPromptResult,
    InputRequiredResult, InputResponses,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Signs states. A real server makes one when it starts.
const KEY: &[u8] = b"the key of the conformance server";

fn form(message: &str, field: &str, kind: &str) -> Value {
    let schema =
        json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]});
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
}

fn sampling(prompt: &str, tokens: u32) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// A state that nobody else can make.
fn signed(state: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(KEY);
    hash.update(state);
    let digits: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{state}.{digits}")
}

fn is_ours(sent: &str) -> bool {
    sent.split_once('.')
        .is_some_and(|(state, _)| signed(state) == sent)
}

fn needs(requests: Value, state: Option<&str>) -> Result<InputRequiredResult, ErrorData> {
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let (Some(state), Some(fields)) = (state, result.as_object_mut()) {
        fields.insert("requestState".to_owned(), json!(signed(state)));
    }
    parsed(result)
}

/// Answers one of the tools that ask.
pub fn answer(
    name: &str,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    if request
        .request_state
        .as_deref()
        .is_some_and(|state| !is_ours(state))
    {
        return Err(ErrorData::invalid_params(
            "the requestState is not ours",
            None,
        ));
    }
    let sent = |key: &str| request.input_responses.as_ref()?.get(key).cloned();
    let state = request
        .request_state
        .as_deref()
        .and_then(|it| it.split('.').next());
    let done = |told: String| complete::<CallToolResult>(text(&told)).map(CallToolResponse::from);
    let ask = |requests, state| needs(requests, state).map(CallToolResponse::from);
    let name_form = || form("What is your name?", "name", "string");
    match name.trim_start_matches("test_input_required_result_") {
        "elicitation" | "test_streaming_elicitation" => {
            let answer = sent("user_name");
            match answer
                .as_ref()
                .and_then(|it| it["content"]["name"].as_str())
            {
                Some(name) => done(format!("Hello, {name}!")),
                None => ask(json!({"user_name": name_form()}), None),
            }
        }
        "sampling" => match sent("capital_question") {
            Some(answer) => done(format!("The model said: {}", answer["content"]["text"])),
            None => {
                let question = sampling("What is the capital of France?", 100);
                ask(json!({"capital_question": question}), None)
            }
        },
        "list_roots" => match sent("client_roots") {
            Some(answer) => done(format!("The roots are {}", answer["roots"])),
            None => ask(json!({"client_roots": roots()}), None),
        },
        "request_state" | "tampered_state" => match (sent("confirm"), state) {
            (Some(_), Some(_)) => done("state-ok".to_owned()),
            _ => ask(
                json!({"confirm": form("Please confirm", "ok", "boolean")}),
                Some("asked"),
            ),
        },
        "multiple_inputs" => match (sent("user_name"), sent("greeting"), sent("client_roots")) {
            (Some(_), Some(_), Some(_)) => done("all of it".to_owned()),
            _ => {
                let greeting = sampling("Generate a greeting", 50);
                let all = json!({"user_name": name_form(), "greeting": greeting, "client_roots": roots()});
                ask(all, Some("asked"))
            }
        },
        "multi_round" => match (sent("step1"), sent("step2"), state) {
            (_, Some(_), Some("second")) => done("both steps".to_owned()),
            (Some(_), _, Some("first")) => {
                let question = form("Step 2: What is your favorite color?", "color", "string");
                ask(json!({"step2": question}), Some("second"))
            }
            _ => {
                let question = form("Step 1: What is your name?", "name", "string");
                ask(json!({"step1": question}), Some("first"))
            }
        },
        "capabilities" => {
            let declared = context.client_capabilities().unwrap_or_default();
            let mut requests = json!({});
            let mut add = |key: &str, request: Value| {
                if let Some(fields) = requests.as_object_mut() {
                    fields.insert(key.to_owned(), request);
                }
            };
            if declared.elicitation.is_some() {
                add("user_name", name_form());
            }
            if declared.sampling.is_some() {
                add("greeting", sampling("Generate a greeting", 50));
            }
            if declared.roots.is_some() {
                add("client_roots", roots());
            }
            ask(requests, Some("asked"))
        }
        other => Err(ErrorData::invalid_params(
            format!("there is no tool '{other}'"),
            None,
        )),
    }
}

/// The prompt that asks first.
pub fn prompt(sent: Option<&InputResponses>) -> Result<GetPromptResponse, ErrorData> {
    match sent.and_then(|sent| sent.get("user_context")) {
        Some(answer) => {
            let told = format!("In the context of {}", answer["content"]["context"]);
            let message = json!({"role": "user", "content": {"type": "text", "text": told}});
            Ok(complete::<GetPromptResult>(json!({"messages": [message]}))?.into())
        }
        None => {
            let question = form("What context should the prompt use?", "context", "string");
            Ok(needs(json!({"user_context": question}), None)?.into())
        }
    }
}
