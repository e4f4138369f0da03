//! What hosts get wrong is told to them, and the next request is answered.

use super::host::{RawHost, ScriptedAgent, text};
use halter_mcp::limits::MESSAGE_BYTES;
use serde_json::{Value, json};

fn call(task: &str) -> Value {
    json!({"name": "run_task", "arguments": {"task": task}})
}

#[tokio::test]
async fn what_is_no_message_is_refused_and_the_next_one_answered() {
    let mut host = RawHost::legacy(json!({})).await;
    for (line, code, id) in [
        ("{\"jsonrpc\": ", -32700, json!(null)),
        ("no json at all", -32700, json!(null)),
        ("[]", -32600, json!(null)),
        ("{\"id\": 5}", -32600, json!(5)),
        (
            "{\"jsonrpc\": \"1.0\", \"id\": 6, \"method\": \"ping\"}",
            -32600,
            json!(6),
        ),
    ] {
        host.send_line(line).await;
        let answer = host.next().await;
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        assert_eq!(answer["id"], id, "{line}: {answer}");
    }
    host.send_line("").await;
    let answer = host.request(7, "tools/call", call("say hello")).await;
    assert_eq!(text(&answer), "hello");
}

#[tokio::test]
async fn unknown_methods_tools_and_arguments_are_named() {
    let mut host = RawHost::legacy(json!({})).await;
    let answer = host.request(1, "tools/burn", json!({})).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("tools/burn")
    );
    let answer = host.request(2, "tools/call", json!({"name": 5})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = host.request(3, "tools/call", json!({"name": "burn"})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("'burn'")
    );
    // What a model can do better is told to the model.
    for arguments in [
        json!({}),
        json!({"task": 5}),
        json!({"task": "x", "budget": 1}),
        json!({"task": "x", "timeout_secs": 0}),
    ] {
        let params = json!({"name": "run_task", "arguments": arguments});
        let answer = host.request(4, "tools/call", params).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(text(&answer).starts_with("invalid_arguments: "), "{answer}");
    }
}

#[tokio::test]
async fn a_message_may_be_so_long_and_no_longer() {
    let mut host = RawHost::legacy(json!({})).await;
    let padded = |id: u64, length: usize| {
        let message = |pad: &str| {
            let params = json!({"name": "list_sessions", "_meta": {"pad": pad}});
            // The id stands behind what is too long.
            format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{params},\"id\":{id}}}"
            )
        };
        let pad = length - message("").len() - 1;
        message(&"x".repeat(pad))
    };
    host.send_line(&padded(1, MESSAGE_BYTES)).await;
    let answer = host.next().await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    host.send_line(&padded(2, MESSAGE_BYTES + 1)).await;
    let answer = host.next().await;
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert_eq!(answer["id"], 2);
    let answer = host.request(3, "tools/call", call("say hello")).await;
    assert_eq!(text(&answer), "hello");
}

#[tokio::test]
async fn a_hundred_megabytes_are_refused_in_passing() {
    let mut host = RawHost::legacy(json!({})).await;
    let piece = "x".repeat(1024 * 1024);
    let mut line =
        String::from("{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":\"");
    (0..100).for_each(|_| line.push_str(&piece));
    line.push_str("\"}");
    host.send_line(&line).await;
    let answer = host.next().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(9), &json!(-32600))
    );
    assert_eq!(
        text(&host.request(10, "tools/call", call("say hello")).await),
        "hello"
    );
}

#[tokio::test]
async fn a_cancel_of_nothing_changes_nothing() {
    let mut host = RawHost::legacy(json!({})).await;
    host.cancel(77).await;
    host.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}))
        .await;
    host.send(json!({"jsonrpc": "2.0", "id": 88, "result": {}}))
        .await;
    let answer = host.request(1, "tools/call", call("say hello")).await;
    assert_eq!(text(&answer), "hello");
}

#[tokio::test]
async fn a_host_may_begin_clumsily() {
    let mut host = RawHost::silent(ScriptedAgent::default());
    host.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        .await;
    let answer = host.request(1, "tools/list", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = host.request(2, "ping", json!({})).await;
    assert_eq!(answer["result"], json!({}));
    host.leave().await;
    // One that says nothing at all is fine too.
    RawHost::silent(ScriptedAgent::default()).leave().await;
}
