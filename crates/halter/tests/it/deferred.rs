//! Requests of sessions that load tools: on every wire each begins with the
//! elements of the one before, and the first is small.

use crate::support::{directory, no_keys, run_turn};
use halter::prelude::*;
use halter_config::{ConfiguredProvider, ModelConfig, ProviderConfig};
use halter_mock::{MockService, RequestOutcome, ServeOptions, serve};
use halter_session::SqliteSessionStore;
use halter_testkit::ScriptedTool;
use halter_tools::{LateTools, Tool};
use serde_json::{Value, json};
use std::sync::Arc;

/// Searches for a tool and calls it.
const SCRIPT: &str = r#"
[scenarios.find]
description = "Loads a tool and calls it."
steps = [
  { parts = [{ type = "call", tool = "tool_search", input = { query = "select:{{arg tool or task}}" } }] },
  { parts = [{ type = "call", tool = "{{arg tool or task}}", input = { action = "list" } }] },
  { parts = [{ type = "text", text = "Used." }] },
]
[scenarios.early]
description = "Calls a tool too early, then again."
invents_tools = true
steps = [
  { parts = [{ type = "call", tool = "{{arg tool or task}}", input = { action = "list" } }] },
  { parts = [{ type = "call", tool = "{{arg tool or task}}", input = { action = "list" } }] },
  { parts = [{ type = "text", text = "Used." }] },
]
"#;

#[derive(Clone, Copy)]
struct Vendor {
    provider: &'static str,
    path: &'static str,
    model: &'static str,
    conversation: &'static str,
}

const ANTHROPIC: Vendor = Vendor {
    provider: "anthropic",
    path: "/anthropic",
    model: "claude-sonnet-4-5",
    conversation: "messages",
};

const RESPONSES: Vendor = Vendor {
    provider: "openai",
    path: "/openai",
    model: "gpt-5",
    conversation: "input",
};

const CHAT: Vendor = Vendor {
    provider: "openrouter",
    path: "/openrouter",
    model: "some/model",
    conversation: "messages",
};

const GEMINI: Vendor = Vendor {
    provider: "gemini",
    path: "/gemini",
    model: "gemini-3-flash-preview",
    conversation: "contents",
};

async fn harness(
    vendor: Vendor,
    native: Option<bool>,
    mock: &MockService,
    database: &std::path::Path,
    late: &Arc<LateTools>,
) -> Halter {
    let provider = ConfiguredProvider::from(vendor.provider.to_owned());
    let mut config = HarnessConfig::default();
    *config.providers.entry(&provider).unwrap() = ProviderConfig {
        base_url: Some(format!("{}{}", mock.base_url(), vendor.path)),
        api_key: Some("sk-any".to_owned()),
        native_tool_loading: native,
        ..ProviderConfig::default()
    };
    config.models.default = Some(ModelConfig::new(provider, vendor.model));
    let store = SqliteSessionStore::open(database.join("log.db"));
    Halter::builder()
        .with_config(config)
        .with_environment(no_keys())
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_session_store(Arc::new(store.await.unwrap()))
        .with_late_tools(late.clone())
        .build()
        .await
        .unwrap()
}

fn tool(name: &str, about: &str) -> Arc<dyn Tool> {
    let schema = json!({"type": "object", "properties": {"action": {"const": about}}});
    ScriptedTool::new(name).read_only().schema(schema).build()
}

/// The elements of a body that a service reads in this order: tools, the system
/// prompt, the conversation.
fn elements(vendor: Vendor, body: &Value) -> [Vec<String>; 3] {
    let tools = body["tools"].as_array().unwrap();
    let functions = tools[0]["functionDeclarations"].as_array().unwrap_or(tools);
    let counted = functions
        .iter()
        .filter(|tool| tool.get("defer_loading").is_none());
    let system = [
        &body["system"],
        &body["instructions"],
        &body["systemInstruction"],
    ];
    let conversation = body[vendor.conversation].as_array().unwrap();
    // Messages of one role in a row are one on some wires: blocks count.
    let blocks = conversation.iter().flat_map(|message| {
        match message["content"]
            .as_array()
            .or(message["parts"].as_array())
        {
            Some(blocks) => blocks
                .iter()
                .map(|block| json!([message["role"], block]))
                .collect(),
            None => vec![message.clone()],
        }
    });
    let written = |value: &Value| {
        let mark = r#","cache_control":{"type":"ephemeral"}"#;
        value.to_string().replace(mark, "")
    };
    [
        counted.map(written).collect(),
        system.into_iter().map(written).collect(),
        blocks.map(|block| written(&block)).collect(),
    ]
}

/// A session in two processes in which tools are loaded by a search and by
/// calls that come too early, and late ones join, change and go.
async fn requests_extend(vendor: Vendor, native: Option<bool>) -> Vec<Value> {
    let mut options = ServeOptions::default();
    options.scenarios.add_toml(SCRIPT).unwrap();
    let mock = serve(options).await.unwrap();
    let place = directory(&[("a.txt", "a")]);
    let late = Arc::new(LateTools::new());
    let first = harness(vendor, native, &mock, place.path(), &late).await;
    let init = SessionInit::default().with_working_dir(place.path());
    let session = first.new_session(init).await.unwrap();
    let mut called = Vec::new();
    let mut note = |events: Vec<SessionEvent>| {
        called.extend(events.into_iter().filter_map(|event| match event.payload {
            SessionEventPayload::ToolExecutionCompleted { outcome } => {
                Some(outcome.call.name.to_string())
            }
            _ => None,
        }));
    };
    note(run_turn(&session, "mock:find tool=task").await);
    late.set(
        "server",
        vec![tool("tickets", "list"), tool("labels", "list")],
    );
    note(run_turn(&session, "mock:find tool=tickets").await);
    note(run_turn(&session, "mock:early tool=current_time").await);
    late.set(
        "server",
        vec![tool("tickets", "list"), tool("boards", "list")],
    );
    note(run_turn(&session, "mock:early tool=boards").await);
    session.shutdown("half").await.unwrap();
    let id = session.session_id().clone();
    drop((session, first));

    let second = harness(vendor, native, &mock, place.path(), &late).await;
    let session = second.runtime().resume(&id).await.unwrap().unwrap();
    late.set("server", vec![tool("tickets", "otherwise")]);
    note(run_turn(&session, "mock:find tool=list").await);
    late.remove("server");
    note(run_turn(&session, "mock:find tool=delete").await);
    session.shutdown("done").await.unwrap();
    // Whatever carried a call: the log, hooks and rules know the tool.
    let searched = |tool| ["tool_search", tool];
    let twice = |tool| [tool, tool];
    let meant = [
        searched("task"),
        searched("tickets"),
        twice("current_time"),
        twice("boards"),
        searched("list"),
        searched("delete"),
    ];
    assert_eq!(called, meant.concat());
    let captured = mock.requests();
    for request in &captured {
        assert_eq!(*request.outcome(), RequestOutcome::Answered, "{request:?}");
    }
    let bodies: Vec<Value> = captured.iter().map(|request| request.json()).collect();
    mock.stop().await;
    assert_eq!(bodies.len(), 18);
    for pair in bodies.windows(2) {
        let [before, after] = [&pair[0], &pair[1]].map(|body| elements(vendor, body));
        let [tools, system, conversation] = before;
        // These come before the conversation: nothing joins them, either.
        assert_eq!(tools, after[0], "{}", vendor.provider);
        assert_eq!(system, after[1], "{}", vendor.provider);
        assert!(
            after[2].starts_with(&conversation),
            "{}: {conversation:#?}\nthen\n{:#?}",
            vendor.provider,
            after[2]
        );
    }
    let carries = elements(vendor, &bodies[0])[0]
        .iter()
        .any(|tool| tool.contains("\"call_tool\""));
    assert_eq!(carries, native != Some(true), "{}", vendor.provider);
    let last = bodies.last().unwrap()[vendor.conversation].to_string();
    let used = last.matches("\"call_tool\"").count();
    assert_eq!(used > 0, carries, "{last}");
    bodies
}

#[tokio::test]
async fn requests_with_loaded_tools_extend_each_other_on_anthropic() {
    requests_extend(ANTHROPIC, None).await;
    requests_extend(ANTHROPIC, Some(true)).await;
}

#[tokio::test]
async fn requests_with_loaded_tools_extend_each_other_on_responses() {
    requests_extend(RESPONSES, None).await;
    requests_extend(RESPONSES, Some(true)).await;
}

#[tokio::test]
async fn requests_with_loaded_tools_extend_each_other_on_chat() {
    requests_extend(CHAT, None).await;
}

#[tokio::test]
async fn requests_with_loaded_tools_extend_each_other_on_gemini() {
    requests_extend(GEMINI, None).await;
}
