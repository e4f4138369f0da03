//! A tool and a hook of one's own, with a scripted model that tries both:
//! `cargo run -p halter --example custom_tool_and_hook`

#![allow(clippy::print_stdout)]

use async_trait::async_trait;
use futures::StreamExt;
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter_hooks::{Hook, HookEventName, HookResponse};
use halter_protocol::ToolResult;
use halter_tools::{ToolContext, TypedTool, typed};
use serde_json::json;
use std::sync::Arc;

/// Count the words of a text.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct CountWords {
    /// The text to count.
    text: String,
}

struct WordCounter;

#[async_trait]
impl TypedTool for WordCounter {
    type Input = CountWords;
    const NAME: &'static str = "count_words";

    async fn run(&self, _: ToolContext, input: CountWords) -> anyhow::Result<ToolResult> {
        let words = input.text.split_whitespace().count();
        Ok(ToolResult::text(format!("{words} words")))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let model = FakeProvider::scripted([
        Reply::new()
            .tool_call("count_words", json!({"text": "a hook may block a call"}))
            .tool_call("shell", json!({"command": "ls"})),
        Reply::new().text("I counted, and was not let into the shell."),
    ]);
    let no_shell = Hook::callback(HookEventName::PreToolUse, |_| async {
        HookResponse::block("this harness runs no commands")
    });
    let harness = Halter::builder()
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_tool(typed(WordCounter))
        .with_plugin_hook("no-shell".into(), no_shell.with_matcher("^shell$"))
        .with_provider(Arc::new(model));
    let harness = harness.build().await?;
    let session = harness.new_session(SessionInit::default()).await?;
    let mut events = session.submit_turn(Turn::user("Count, then look")).await?;
    while let Some(event) = events.next().await {
        println!("{}", serde_json::to_string(&event?)?);
    }
    session.shutdown("complete").await
}
