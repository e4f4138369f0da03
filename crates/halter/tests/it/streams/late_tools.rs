//! Tools that join a session late, change, are loaded, called too early, and go.

use super::Recorded;
use super::scenarios::{harness, recorded, say, session};
use async_trait::async_trait;
use halter_protocol::{
    ProviderKind, ToolAlias, ToolCapabilities, ToolConcurrency, ToolResult, ToolSpec,
};
use halter_testkit::{Harness, Reply};
use halter_tools::{LateTools, Tool, ToolContext};
use serde_json::{Value, json};
use std::sync::Arc;

/// A tool of a server.
struct Served {
    name: &'static str,
    concurrency: ToolConcurrency,
    about: &'static str,
}

#[async_trait]
impl Tool for Served {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.into(),
            description: self.about.to_owned(),
            input_schema: json!({"type": "object", "properties": {"id": {"type": "integer"}}}),
            concurrency: self.concurrency,
            capabilities: ToolCapabilities {
                cancellable: true,
                ..ToolCapabilities::default()
            },
            provider_aliases: [(ProviderKind::Custom, ToolAlias::from(self.name))].into(),
        }
    }

    async fn execute(&self, _: ToolContext, _: Value) -> anyhow::Result<ToolResult> {
        Ok(ToolResult::text("ticket 7"))
    }
}

fn served(name: &'static str, concurrency: ToolConcurrency, about: &'static str) -> Arc<dyn Tool> {
    Arc::new(Served {
        name,
        concurrency,
        about,
    })
}

pub async fn late_tools() -> Recorded {
    use ToolConcurrency::{Exclusive, ParallelSafe, ReadOnly};
    let search = json!({"query": "select:tickets,labels"});
    let replies = [
        Reply::new().tool_call("tool_search", search),
        Reply::new().tool_call("boards", json!({})),
        Reply::new().tool_call("tickets", json!({"id": 7})),
        "Ticket 7.".into(),
        "They changed.".into(),
        "They are gone.".into(),
    ];
    let late = Arc::new(LateTools::new());
    let given = late.clone();
    let builder = Harness::scripted(replies);
    let harness = harness(builder.services(|services| services.late_tools = Some(given)));
    let session = session(&harness, "late_tools").await;
    late.set(
        "tracker",
        vec![
            served("tickets", ReadOnly, "Show a ticket."),
            served("labels", ParallelSafe, "List labels."),
            served("boards", Exclusive, "Show a board."),
        ],
    );
    say(&harness, &session, 1, "Show me ticket 7").await;
    late.set(
        "tracker",
        vec![
            served("tickets", ReadOnly, "Show a ticket with its comments."),
            served("labels", ParallelSafe, "List labels."),
        ],
    );
    say(&harness, &session, 2, "What has changed?").await;
    late.remove("tracker");
    say(&harness, &session, 3, "And now?").await;
    recorded(&harness, &session).await
}
