//! A background job that a session remembers.

use super::Recorded;
use super::scenarios::{harness, recorded, say, session};
use halter_protocol::{BackgroundJob, MemoryChange, ToolResult};
use halter_testkit::{Harness, Reply, ScriptedTool};
use serde_json::json;

/// One that is started, and found to have ended.
pub async fn jobs() -> Recorded {
    let tool = |name: &str, exit_code: Option<i32>| {
        let tool = ScriptedTool::new(name).runs(move |context, _| async move {
            let job = BackgroundJob {
                number: 1,
                command: "npm run dev".to_owned(),
                running: exit_code.is_none(),
                exit_code,
            };
            context.remember(MemoryChange::Job { job });
            Ok(ToolResult::text("job_1"))
        });
        tool.build()
    };
    let call = |name: &str| Reply::new().tool_call(name, json!({}));
    let builder = Harness::scripted([call("start"), call("poll"), "done".into()])
        .tool(tool("start", None))
        .tool(tool("poll", Some(1)));
    let harness = harness(builder);
    let session = session(&harness, "jobs").await;
    say(&harness, &session, 1, "start the server").await;
    recorded(&harness, &session).await
}
