//! A request costs what is new in it. Alone in a program, because it counts
//! every allocation of the process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs
)]

use async_trait::async_trait;
use halter_protocol::{
    AssembledPrompt, AssistantMessage, AssistantPart, Message, OpaquePart, PromptSegment,
    PromptSegmentKind, ProviderKind, ReplayMeta, ResolvedModel, StopReason, Timestamp, ToolMessage,
    ToolResult, ToolSpec, UserMessage,
};
use halter_providers::http::{
    Endpoint, HttpProvider, HttpRequest, HttpResponse, Transport, TransportError,
};
use halter_providers::wire::Wire;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use halter_providers::{Provider as _, ProviderRequest};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Notes the size of what would be sent, and sends nothing.
#[derive(Default)]
struct Nowhere(AtomicUsize);

#[async_trait]
impl Transport for Nowhere {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        self.0.store(request.body.len(), Ordering::SeqCst);
        let message = String::new();
        Err(TransportError::Broken { message })
    }
}

/// What a request cost besides the copy of the conversation that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    allocations: usize,
    bytes: usize,
}

fn request(model: &str) -> ProviderRequest {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: format!("Does {name}."),
        input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        concurrency: Default::default(),
        capabilities: Default::default(),
        provider_aliases: Default::default(),
    };
    ProviderRequest {
        session_id: "ses_1".into(),
        turn_id: "turn_1".into(),
        model: ResolvedModel {
            id: "default".into(),
            provider: "acme".into(),
            provider_kind: ProviderKind::Custom,
            model: model.to_owned(),
            max_input_tokens: None,
            max_output_tokens: None,
            reasoning: None,
            tokens_per_minute: None,
        },
        prompt: AssembledPrompt::new([PromptSegment::new(
            PromptSegmentKind::System,
            "You are careful.",
        )]),
        messages: [Message::User(UserMessage::text("go"))]
            .into_iter()
            .collect(),
        tools: Arc::from([tool("read"), tool("write")]),
        response_schema: None,
        purpose: halter_providers::RequestPurpose::default(),
        attempts: None,
        loaded_tools: Arc::default(),
    }
}

/// A step: the model thinks, speaks and calls; the call has its result. Every
/// step is as large as any other.
fn step(number: usize, wire: &str, request: &ProviderRequest) -> [Message; 2] {
    let id = format!("call_{number:06}");
    let parts = vec![
        AssistantPart::text(format!("Looking at {number:06}.")),
        AssistantPart::ToolCall {
            id: id.as_str().into(),
            name: "read".into(),
            arguments: json!({"path": format!("file-{number:06}.rs")}),
            malformed_arguments: None,
            opaque: own_form(wire, &id),
        },
    ];
    let answer = Message::Assistant(AssistantMessage {
        id: format!("msg_{number:06}").as_str().into(),
        created_at: Timestamp::UNIX_EPOCH,
        parts,
        stop_reason: Some(StopReason::ToolUse),
        usage: None,
        replay_meta: ReplayMeta {
            provider_name: Some(request.model.provider.clone()),
            model: Some(request.model.model.clone()),
        },
    });
    let result = Message::Tool(ToolMessage {
        id: format!("tool_{number:06}").as_str().into(),
        call_id: id.as_str().into(),
        tool_name: "read".into(),
        content: ToolResult::text("line\n".repeat(200)).into(),
        error: None,
        created_at: Timestamp::UNIX_EPOCH,
        loaded: Vec::new(),
    });
    [answer, result]
}

/// What the service itself wrote, where the wire sends that back.
fn own_form(wire: &str, id: &str) -> Option<OpaquePart> {
    let data = match wire {
        "gemini" => format!(
            r#"[{{"functionCall":{{"name":"read","args":{{}},"id":"{id}"}},"thoughtSignature":"c2ln"}}]"#
        ),
        "responses" => format!(
            r#"{{"id":"fc","type":"function_call","call_id":"{id}","name":"read","arguments":"{{}}"}}"#
        ),
        _ => return None,
    };
    Some(OpaquePart {
        wire: wire.to_owned(),
        data: data.into(),
    })
}

/// The cost of each request of a session.
async fn costs(wire: Arc<dyn Wire>, model: &str, steps: usize) -> Vec<Cost> {
    let transport = Arc::new(Nowhere::default());
    let name = wire.name();
    let provider = HttpProvider::new(wire, Endpoint::new("http://x"), transport.clone());
    let mut request = request(model);
    let mut costs = Vec::new();
    for number in 0..steps {
        for message in step(number, name, &request) {
            request.messages.push(message);
        }
        let sent = request.clone();
        let region = Region::new(ALLOCATOR);
        let failed = provider.stream(sent, CancellationToken::new()).await;
        let change = region.change();
        assert!(failed.is_err());
        let copied = transport.0.load(Ordering::SeqCst);
        assert!(change.bytes_allocated >= copied, "the body is copied out");
        costs.push(Cost {
            allocations: change.allocations + change.reallocations,
            bytes: change.bytes_allocated - copied,
        });
    }
    costs
}

/// The middle of some: a buffer that doubles now and then is no cost of a step.
fn typical(costs: &[Cost]) -> Cost {
    let mut sorted = costs.to_vec();
    sorted.sort();
    sorted[sorted.len() / 2]
}

#[tokio::test(flavor = "current_thread")]
async fn the_request_of_step_300_costs_what_is_new_in_it() {
    let wires: [(Arc<dyn Wire>, &str); 4] = [
        (Arc::new(Anthropic::new()), "claude-opus-4-8"),
        (Arc::new(ResponsesWire), "gpt-5.2"),
        (Arc::new(Chat::new(Dialect::OPENAI)), "m-1"),
        (Arc::new(GeminiWire), "gemini-3-pro-preview"),
    ];
    for (wire, model) in wires {
        let name = wire.name();
        let costs = costs(wire, model, 300).await;
        let early = typical(&costs[20..31]);
        let late = typical(&costs[289..300]);
        println!("{name}: step 30 {early:?}, step 300 {late:?}");
        assert!(
            late.allocations <= early.allocations + 2,
            "{name}: {early:?} became {late:?}"
        );
        // One step's messages, a few times over, and not the conversation.
        assert!(
            late.bytes <= early.bytes + 1_024 && late.bytes < 16 * 1_024,
            "{name}: {early:?} became {late:?}"
        );
    }
}
