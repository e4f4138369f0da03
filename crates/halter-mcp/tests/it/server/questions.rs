//! Approvals: asked through the host, and denied where it cannot ask.

use super::host::{RawHost, ScriptedAgent, text};
use halter_mcp::limits::{PARKED_WAIT, QUESTION_BYTES, QUESTION_WAIT};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use tokio::time::Instant;

const FORMS: &str = "{\"elicitation\": {}}";

fn forms() -> Value {
    serde_json::from_str(FORMS).unwrap()
}

/// What a host of the newest revision says with each request.
fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    })
}

fn task(what: &str, capabilities: &Value) -> Value {
    json!({"name": "run_task", "arguments": {"task": what}, "_meta": meta(capabilities)})
}

#[tokio::test]
async fn a_host_that_cannot_ask_has_said_no() {
    let mut host = RawHost::legacy(json!({})).await;
    host.start(1, "ask make").await;
    let answer = host.next().await;
    let expected = "deny a person has to approve this, and the host cannot ask one; it would run \
                    with the permission rule `Bash(make)`";
    assert_eq!(text(&answer), expected);
    let mut modern = RawHost::silent(ScriptedAgent::default());
    let answer = modern
        .request(1, "tools/call", task("ask make", &json!({})))
        .await;
    assert_eq!(text(&answer), expected);
}

#[tokio::test]
async fn a_person_decides_by_a_form() {
    let mut host = RawHost::legacy(forms()).await;
    let accept = |content: Value| json!({"action": "accept", "content": content});
    for (id, (result, expected)) in [
        (accept(json!({"decision": "once"})), "once"),
        (accept(json!({"decision": "session"})), "session"),
        (
            accept(json!({"decision": "deny", "reason": "not now"})),
            "deny not now",
        ),
        (json!({"action": "decline"}), "deny the user declined"),
        (
            json!({"action": "cancel"}),
            "deny the question was dismissed",
        ),
        // Nothing that was not offered, and nothing that holds for good.
        (
            accept(json!({"decision": "always"})),
            "deny the host sent no decision that was offered",
        ),
        (
            accept(json!({"decision": "yes"})),
            "deny the host sent no decision that was offered",
        ),
        (
            accept(json!({})),
            "deny the host sent no decision that was offered",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let id = id as u64 + 1;
        host.start(id, "ask make").await;
        let question = host.next().await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let params = &question["params"];
        let message = params["message"].as_str().unwrap();
        assert!(message.contains("{\"command\":\"make\"}"), "{message}");
        assert!(message.contains("make is not on the list"), "{message}");
        let offered = &params["requestedSchema"]["properties"]["decision"]["enum"];
        assert_eq!(*offered, json!(["once", "session", "deny"]));
        host.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": result}))
            .await;
        let answer = host.next().await;
        assert_eq!(text(&answer), expected);
    }
    host.start(50, "ask make").await;
    let question = host.next().await;
    let error = json!({"code": -32603, "message": "no window"});
    host.send(json!({"jsonrpc": "2.0", "id": question["id"], "error": error}))
        .await;
    assert!(text(&host.next().await).starts_with("deny the host could not ask: "));
}

#[tokio::test]
async fn a_host_of_the_newest_revision_calls_again_with_the_answer() {
    let mut host = RawHost::silent(ScriptedAgent::default());
    let capabilities = forms();
    let asked = host
        .request(1, "tools/call", task("ask make", &capabilities))
        .await;
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(
        host.agent.running.load(Ordering::SeqCst),
        1,
        "the work waits"
    );
    let mut again = task("ask make", &capabilities);
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] =
        json!({"approval": {"action": "accept", "content": {"decision": "once"}}});
    let answer = host.request(2, "tools/call", again.clone()).await;
    assert_eq!(text(&answer), "once");
    // It is answered once.
    let answer = host.request(3, "tools/call", again.clone()).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    // No answer is a no, and a state of somebody else is none.
    let asked = host
        .request(4, "tools/call", task("ask make", &capabilities))
        .await;
    let mut empty = task("ask make", &capabilities);
    empty["requestState"] = asked["result"]["requestState"].clone();
    let answer = host.request(5, "tools/call", empty).await;
    assert_eq!(text(&answer), "deny the host brought no answer");
    again["requestState"] = json!("forged");
    let answer = host.request(6, "tools/call", again).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test]
async fn work_that_waits_for_an_answer_ends_with_its_host() {
    let mut host = RawHost::silent(ScriptedAgent::default());
    host.request(1, "tools/call", task("ask make", &forms()))
        .await;
    let agent = host.leave().await;
    assert_eq!(agent.running.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_has_its_time() {
    let mut host = RawHost::silent(ScriptedAgent::default());
    let asked = host
        .request(1, "tools/call", task("ask make", &forms()))
        .await;
    tokio::time::sleep(PARKED_WAIT + std::time::Duration::from_secs(1)).await;
    let mut late = task("ask make", &forms());
    late["requestState"] = asked["result"]["requestState"].clone();
    let answer = host.request(2, "tools/call", late).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(host.agent.running.load(Ordering::SeqCst), 0);

    let mut host = RawHost::legacy(forms()).await;
    host.start(1, "ask make").await;
    let began = Instant::now();
    assert_eq!(host.next().await["method"], "elicitation/create");
    // rmcp tells the host that the question is withdrawn.
    let mut answer = host.next().await;
    if answer["method"] == "notifications/cancelled" {
        answer = host.next().await;
    }
    assert_eq!(began.elapsed(), QUESTION_WAIT);
    assert!(
        text(&answer).starts_with("deny the host could not ask: "),
        "{answer}"
    );
}

#[tokio::test]
async fn nobody_approves_what_is_too_long_to_be_seen() {
    let mut host = RawHost::legacy(forms()).await;
    host.start(1, &format!("ask {}", "x".repeat(QUESTION_BYTES / 2)))
        .await;
    assert_eq!(host.next().await["method"], "elicitation/create");
    host.start(2, &format!("ask {}", "x".repeat(QUESTION_BYTES)))
        .await;
    let answer = host.next().await;
    assert_eq!(
        text(&answer),
        "deny the call is too long to be shown to a person over the host"
    );
}
