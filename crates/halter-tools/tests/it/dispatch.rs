//! The registry, and how errors reach a model.

use crate::support::{PNG, Workspace};
use async_trait::async_trait;
use halter_protocol::{
    ContentPart, ToolCall, ToolCapabilities, ToolConcurrency, ToolError, ToolErrorCode, ToolResult,
    ToolSpec,
};
use halter_tools::limits::TOOL_RESULT_BYTES;
use halter_tools::policy::PolicyError;
use halter_tools::{Tool, ToolContext, ToolRuntime, builtin_tools};
use serde_json::{Value, json};
use std::sync::Arc;

fn size(input: &Value, name: &str) -> usize {
    usize::try_from(input[name].as_u64().unwrap()).unwrap()
}

/// A tool that behaves as its name says.
struct Probe(&'static str);

#[async_trait]
impl Tool for Probe {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.0.into(),
            description: "A probe.".into(),
            input_schema: json!({"type": "object"}),
            concurrency: ToolConcurrency::ParallelSafe,
            capabilities: ToolCapabilities::default(),
            provider_aliases: Default::default(),
        }
    }

    async fn execute(&self, context: ToolContext, input: Value) -> anyhow::Result<ToolResult> {
        match self.0 {
            "panics" => panic!("at the {}", "disco"),
            "denied" => {
                let error = anyhow::Error::new(PolicyError::ShellDisabled);
                Err(error.context("while trying"))
            }
            "missing" => Err(PolicyError::NotFound { path: "x".into() }.into()),
            "own" => Err(ToolError::new(ToolErrorCode::TimedOut, "too late").into()),
            "chain" => Err(anyhow::anyhow!("inner").context("middle").context("outer")),
            "floods" => {
                let text = |name: &str| "é".repeat(size(&input, name) / 2);
                match input["as"].as_str().unwrap() {
                    "text" => Ok(ToolResult::text(text("bytes"))),
                    // With its quotes.
                    "json" => Ok(ToolResult::json(json!(
                        "x".repeat(size(&input, "bytes") - 2)
                    ))),
                    "error" => anyhow::bail!(text("bytes")),
                    _ => Ok(ToolResult::parts(vec![
                        ContentPart::text(text("bytes")),
                        ContentPart::image("image/png", PNG.to_vec()),
                        ContentPart::text(text("more")),
                    ])),
                }
            }
            "cancels" => {
                context.cancel.cancel();
                anyhow::bail!("gave up")
            }
            _ => Ok(ToolResult::text("fine")),
        }
    }

    fn is_polling(&self, input: &Value) -> bool {
        input["wait"] == true
    }
}

fn with_probes(names: &[&'static str]) -> Workspace {
    let mut workspace = Workspace::new();
    for name in names {
        workspace.tools.register(Arc::new(Probe(name)));
    }
    workspace
}

#[tokio::test]
async fn every_failure_has_its_code_and_its_words() {
    for (name, code, message) in [
        (
            "panics",
            "tool_failed",
            "the tool 'panics' panicked: at the disco",
        ),
        (
            "denied",
            "policy_denied",
            "while trying: the shell is turned off; set policy.shell.enabled = true to allow it",
        ),
        ("missing", "tool_failed", "'x' does not exist"),
        ("own", "timed_out", "too late"),
        ("chain", "tool_failed", "outer: middle: inner"),
        (
            "cancels",
            "cancelled",
            "the call was cancelled before it finished: gave up",
        ),
    ] {
        let workspace = with_probes(&[name]);
        let error = workspace.call(name, json!({})).await.unwrap_err();
        assert_eq!(error.code.as_str(), code, "{name}");
        assert_eq!(error.message, message, "{name}");
    }
}

#[tokio::test]
async fn a_tool_that_floods_is_cut_with_a_note() {
    let workspace = with_probes(&["floods"]);
    let flood = async |kind: &str, bytes: usize, more: usize| {
        let input = json!({"as": kind, "bytes": bytes, "more": more});
        workspace.result("floods", input).await
    };
    let note = |left_out: usize| {
        format!(
            "\n[{left_out} more bytes are left out: a result has {TOOL_RESULT_BYTES} at most; \
             ask for less at once]"
        )
    };
    for kind in ["text", "json", "error"] {
        let told = async |bytes: usize| match flood(kind, bytes, 0).await {
            Ok(result) => result.to_model_text(),
            Err(error) => error.message,
        };
        let most = told(TOOL_RESULT_BYTES).await;
        assert_eq!(most.len(), TOOL_RESULT_BYTES, "{kind}");
        let cut = told(TOOL_RESULT_BYTES + 2).await;
        assert!(cut.ends_with(&note(2)), "{kind}");
        assert_eq!(cut.len(), TOOL_RESULT_BYTES + note(2).len(), "{kind}");
    }
    let texts = async |more: usize| match flood("parts", TOOL_RESULT_BYTES - 10, more).await {
        Ok(ToolResult::Parts { parts }) => {
            assert_eq!(parts.len(), 3);
            parts[2].as_text().unwrap().to_owned()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(texts(10).await, "é".repeat(5));
    assert_eq!(texts(100).await, "é".repeat(5) + &note(90));
}

#[tokio::test]
async fn a_call_cancelled_beforehand_does_not_run() {
    let workspace = with_probes(&["panics"]);
    workspace.cancel.cancel();
    workspace
        .error("panics", json!({}), ToolErrorCode::Cancelled)
        .await;
}

#[tokio::test]
async fn an_unknown_tool_gets_a_suggestion_and_is_never_mapped() {
    let workspace = Workspace::new();
    let message = workspace
        .error("Raed", json!({"path": "a"}), ToolErrorCode::UnknownTool)
        .await;
    // Which tools follow depends on the build.
    let expected = "there is no tool 'Raed'; did you mean 'read'? Available: read, glob, grep, ";
    assert!(message.starts_with(expected), "{message}");
    let message = workspace
        .error("Read", json!({"path": "a"}), ToolErrorCode::UnknownTool)
        .await;
    assert!(message.contains("did you mean 'read'?"), "{message}");
    let message = workspace
        .error("telephone", json!({}), ToolErrorCode::UnknownTool)
        .await;
    assert!(!message.contains("did you mean"), "{message}");

    let call = ToolCall {
        id: "call".into(),
        name: "x".into(),
        arguments: json!({}),
    };
    let error = ToolRuntime::new().validate(&call).unwrap_err();
    assert_eq!(
        error.message,
        "there is no tool 'x' (no tools are available)"
    );
}

#[test]
fn a_replaced_tool_keeps_its_place() {
    let mut tools = ToolRuntime::with_tools(builtin_tools());
    let before: Vec<_> = tools.names().cloned().collect();
    tools.register(Arc::new(Probe("grep")));
    tools.register(Arc::new(Probe("late")));
    let after: Vec<_> = tools.names().cloned().collect();
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.last().unwrap().as_str(), "late");
    assert_eq!(tools.spec("grep").unwrap().description, "A probe.");
}

#[test]
fn filtering_keeps_order_and_empty_keeps_all() {
    let tools = ToolRuntime::with_tools(builtin_tools());
    let names = |tools: &ToolRuntime| -> Vec<String> {
        tools.names().map(|name| name.to_string()).collect()
    };
    assert_eq!(names(&tools.clone_filtered(&[])), names(&tools));
    let some = tools.clone_filtered(&["task".into(), "read".into(), "nope".into()]);
    assert_eq!(names(&some), ["read", "task"]);
}

#[test]
fn waiting_by_repetition_is_the_tools_own_word() {
    let tools = with_probes(&["probe"]).tools;
    let probe = tools.get("probe").unwrap();
    assert!(probe.is_polling(&json!({"wait": true})));
    assert!(!probe.is_polling(&json!({})));
    let process = tools.get("process").unwrap();
    assert!(process.is_polling(&json!({"action": "list_descendants"})));
    assert!(!process.is_polling(&json!({"action": "kill_tree", "pid": 1})));
}
