//! Hooks of files: every kind of handler.

use super::Recorded;
use super::scenarios::{harness, recorded, say, session};
use halter_hooks::file::{AgentQuestion, HookOutside, HttpAnswer, HttpCall, PromptQuestion};
use halter_testkit::{Harness, Reply, ScriptedTool};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

/// A server and a model that always say the same.
struct Outside;

#[async_trait::async_trait]
impl HookOutside for Outside {
    fn environment(&self) -> BTreeMap<OsString, OsString> {
        BTreeMap::new()
    }

    fn variable(&self, _: &str) -> Option<OsString> {
        None
    }

    async fn send(&self, _: HttpCall) -> Result<HttpAnswer, String> {
        let body = json!({"hookSpecificOutput": {"additionalContext": "It was logged."}});
        Ok(HttpAnswer {
            status: 200,
            body: body.to_string().into_bytes(),
        })
    }

    async fn ask(&self, _: PromptQuestion) -> Result<String, String> {
        Ok("{\"ok\": true}".to_owned())
    }

    async fn look(&self, _: AgentQuestion) -> Result<String, String> {
        Ok("{\"ok\": false, \"reason\": \"the wall is not clean\"}".to_owned())
    }
}

/// A command that lets pass, one that blocks, one that fails, a request, a
/// question and an agent, each by itself so that the order is the same always.
pub async fn hook_files() -> Recorded {
    let command = |line: &str| json!({"type": "command", "command": line});
    let group = |matcher: &str, handler| json!({"matcher": matcher, "hooks": [handler]});
    let file = json!({"hooks": {
        "SessionStart": [group("startup", command("echo The wall is white."))],
        "UserPromptSubmit": [{"hooks": [{"type": "prompt", "prompt": "Is it polite?"}]}],
        "PreToolUse": [group("burn", command("echo not today >&2; exit 2"))],
        "PostToolUse": [group("look", json!({"type": "http", "url": "http://localhost:1/"}))],
        "PostToolUseFailure": [group("burn", command("exit 7"))],
        "Stop": [{"hooks": [{"type": "agent", "prompt": "Look.", "once": true}]}],
    }});
    let calls = Reply::new()
        .tool_call("look", json!({}))
        .tool_call("burn", json!({}));
    let builder = Harness::scripted([calls, "A wall.".into(), "Cleaned.".into()])
        .tool(ScriptedTool::new("look").returns("a wall").build())
        .tool(ScriptedTool::new("burn").returns("ashes").build())
        .hook_file(&file)
        .services(|services| services.hook_outside = Arc::new(Outside));
    let harness = harness(builder);
    let session = session(&harness, "hook_files").await;
    say(&harness, &session, 1, "Look, then burn").await;
    recorded(&harness, &session).await
}
