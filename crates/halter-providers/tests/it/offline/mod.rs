//! Whole conversations with the offline model, over canned tools.

mod harness;
mod properties;

use crate::support::{
    assemble, assistant, assistant_calls, events, request, system, tool_result, user,
};
use futures::StreamExt as _;
use halter_protocol::{
    AssistantPart, ContentPart, Message, ProviderError, StreamEvent, Timestamp, ToolResult,
    UserMessage,
};
use halter_providers::limits::{OFFLINE_GLOB_RESULTS, OFFLINE_SEARCH_MATCHES, OFFLINE_TEST_MILLIS};
use halter_providers::offline::OFFLINE_NOTE;
use halter_providers::{OfflineProvider, Provider};
use harness::{Outcome, TOOLS, converse, converse_with, denied, failed, matches, with_tools};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A small repository behind the tools of the harness.
fn repository(tool: &str, input: &Value) -> Outcome {
    let path = input["path"].as_str().unwrap_or_default();
    match (tool, path) {
        ("glob", _) => Ok(matches(&[
            "README.md",
            "Cargo.toml",
            "src/main.rs",
            "src/engine.rs",
            "docs/guide.md",
        ])),
        ("read", "README.md") => Ok(json!({
            "path": "README.md",
            "content": "# Kettle\n\nBoils water\nover HTTP.\n\n## Use\n",
            "total_lines": 6,
        })),
        ("read", "Cargo.toml") => Ok(json!({
            "path": "Cargo.toml",
            "content": "[package]\nname = \"kettle\"\nversion = \"2.1.0\"\ndescription = \"A kettle\"\n",
            "total_lines": 4,
        })),
        ("read", "src/main.rs") => Ok(json!({
            "path": "src/main.rs",
            "content": "//! Starts the server.\nfn main() {}\n",
            "total_lines": 2,
        })),
        ("read", _) => failed("no such file"),
        ("shell", _) => Ok(json!({"exit_code": 0, "stdout": "abc123 Add steam\n", "stderr": ""})),
        _ => failed("not here"),
    }
}

#[tokio::test]
async fn a_repository_is_listed_read_side_by_side_and_summarized() {
    let talk = converse("Summarize this repository", &TOOLS, repository).await;
    assert_eq!(
        talk.steps,
        [
            vec![r#"glob {"pattern":"**/*","file_type":"file","max_results":1000}"#],
            vec![
                r#"read {"path":"README.md"}"#,
                r#"read {"path":"Cargo.toml"}"#,
                r#"read {"path":"src/main.rs"}"#,
                r#"shell {"command":"git log --oneline -n 5"}"#,
            ],
        ]
    );
    let expected = "\
# Kettle

`README.md` says: “Boils water over HTTP.”

- Size: 5 files.
- Files by ending: md 2, rs 2, toml 1.
- Manifest: `Cargo.toml`, kettle, 2.1.0, A kettle.
- Entry points: `src/main.rs`.
- Latest commits:
  - abc123 Add steam

---
";
    assert_eq!(talk.answer, format!("{expected}{OFFLINE_NOTE}"));
}

#[tokio::test]
async fn a_summary_copes_with_refusals() {
    let talk = converse(
        "Summarize this repository",
        &TOOLS,
        |tool, input| match tool {
            "shell" => denied("the shell is disabled"),
            "read" if input["path"] == "README.md" => denied("outside the read roots"),
            _ => repository(tool, input),
        },
    )
    .await;
    assert!(talk.answer.contains("# kettle"), "{}", talk.answer);
    assert!(
        talk.answer
            .contains("Policy refused `shell` on `git log --oneline -n 5`: the shell is disabled")
    );
    assert!(
        talk.answer
            .contains("Policy refused `read` on `README.md`: outside the read roots")
    );
}

#[tokio::test]
async fn an_empty_directory_is_said_to_be_empty() {
    let talk = converse("Summarize this repository", &TOOLS, |_, _| Ok(matches(&[]))).await;
    assert_eq!(talk.steps.len(), 1);
    assert!(
        talk.answer
            .contains("There are no files here that I may see")
    );
}

#[tokio::test]
async fn a_summary_works_with_less() {
    let few = converse("Summarize this repository", &["glob"], repository).await;
    assert_eq!(few.steps.len(), 1);
    assert!(few.answer.contains("- Size: 5 files."));

    let nothing = converse("Summarize this repository", &[], repository).await;
    assert!(
        nothing.answer.starts_with(
            "I need the tool `glob` for that, but this session offers no tools at all."
        )
    );
}

#[tokio::test]
async fn more_files_than_listed_are_counted() {
    let talk = converse(
        "Summarize this repository",
        &TOOLS,
        |tool, input| match tool {
            "glob" => Ok(json!({"matches": [{"path": "a.rs"}], "total_matches": 70_000})),
            _ => repository(tool, input),
        },
    )
    .await;
    assert!(
        talk.answer
            .contains("- Size: 70000 files; I looked at 1 of them.")
    );
}

#[tokio::test]
async fn files_are_shown_side_by_side() {
    let talk = converse("Show me README.md and Cargo.toml", &TOOLS, repository).await;
    assert_eq!(talk.steps.len(), 1);
    assert_eq!(talk.steps[0].len(), 2);
    assert!(
        talk.answer
            .contains("`README.md` (6 lines):\n\n```\n# Kettle\n")
    );
    assert!(talk.answer.contains("`Cargo.toml` (4 lines):"));
}

#[tokio::test]
async fn an_image_is_named_by_its_type_and_size() {
    let talk = converse_with("Show me picture.png", &TOOLS, |_, _| {
        Ok(ToolResult::parts([
            ContentPart::text("picture.png"),
            ContentPart::image("image/png", vec![0; 1_000_000]),
        ]))
    })
    .await;
    assert_eq!(talk.steps, [[r#"read {"path":"picture.png"}"#]]);
    let told = "[image of type image/png, 1000000 bytes]";
    assert!(talk.answer.contains(told), "{}", talk.answer);
}

#[tokio::test]
async fn an_image_costs_what_images_cost() {
    let image = ContentPart::image("image/png", vec![0; 1_000_000]);
    let asked = request([Message::User(UserMessage {
        id: "msg_user".into(),
        created_at: Timestamp::UNIX_EPOCH,
        parts: vec![ContentPart::text("What is it?"), image],
    })]);
    let usage = events(&OfflineProvider::new(), asked).await;
    let input = usage.iter().find_map(|event| match event {
        StreamEvent::UsageUpdate { usage } => Some(usage.buckets.uncached_input),
        _ => None,
    });
    assert!((1_000..10_000).contains(&input.unwrap()), "{input:?}");
}

#[tokio::test]
async fn a_file_named_without_its_directory_is_found() {
    let talk = converse("read main.rs", &TOOLS, |tool, input| match tool {
        "glob" => Ok(matches(&["src/main.rs"])),
        _ => repository(tool, input),
    })
    .await;
    assert_eq!(
        talk.steps,
        [
            [r#"read {"path":"main.rs"}"#],
            [r#"glob {"pattern":"**/main.rs","file_type":"file","max_results":1000}"#],
            [r#"read {"path":"src/main.rs"}"#],
        ]
    );
    assert!(talk.answer.contains("//! Starts the server."));
}

#[tokio::test]
async fn a_refused_read_is_reported() {
    let talk = converse("read /etc/shadow", &TOOLS, |_, _| {
        denied("a sensitive path")
    })
    .await;
    assert!(
        talk.answer
            .starts_with("Policy refused `read` on `/etc/shadow`: a sensitive path\n")
    );
}

#[tokio::test]
async fn a_text_is_searched_for() {
    let talk = converse("find TODOs", &TOOLS, |_, _| {
        Ok(json!({
            "matches": [{"path": "a.rs", "line_number": 3, "line": "  // TODO: boil"}],
            "total_matches": 1,
        }))
    })
    .await;
    assert!(
        talk.answer
            .starts_with("`TODO` occurs in 1 line:\n\n- a.rs:3: // TODO: boil\n")
    );

    let nothing = converse("find TODO", &TOOLS, |_, _| Ok(matches(&[]))).await;
    assert_eq!(nothing.steps.len(), 1);
    assert!(nothing.answer.starts_with("`TODO` does not occur here"));
}

#[tokio::test]
async fn long_results_are_cut_short() {
    let talk = converse("find x", &TOOLS, |_, _| {
        let hits: Vec<Value> = (1..=100)
            .map(|line| json!({"path": "a", "line_number": line, "line": "x".repeat(5_000)}))
            .collect();
        Ok(json!({"matches": hits, "total_matches": 100, "truncated": true}))
    })
    .await;
    assert!(talk.answer.starts_with("`x` occurs in at least 100 lines:"));
    assert!(talk.answer.contains("… and 70 more"));
    assert!(talk.answer.len() < 10_000);
}

#[tokio::test]
async fn files_are_listed() {
    let list = converse("list files", &TOOLS, repository).await;
    assert!(
        list.answer
            .starts_with("5 files match `**/*`:\n\n- Cargo.toml\n- README.md\n")
    );
}

#[tokio::test]
async fn tests_are_run_as_the_manifest_says() {
    let talk = converse("run the tests", &TOOLS, |tool, input| match tool {
        "shell" => Ok(json!({"exit_code": 0, "stdout": "ok. 3 passed\n", "stderr": ""})),
        _ => repository(tool, input),
    })
    .await;
    assert_eq!(
        talk.steps[1],
        [r#"shell {"command":"cargo test","timeout_ms":600000}"#]
    );
    assert!(
        talk.answer
            .starts_with("`cargo test` succeeded.\n\n```\nok. 3 passed\n```\n"),
        "{}",
        talk.answer
    );
    let none = converse("run the tests", &TOOLS, |_, _| Ok(matches(&["a.txt"]))).await;
    assert!(
        none.answer
            .starts_with("I found no file here that tells me")
    );
}

#[tokio::test]
async fn a_command_is_run_and_its_end_reported() {
    let run = |outcome: Outcome| async move {
        converse("run git status", &TOOLS, move |_, _| outcome.clone())
            .await
            .answer
    };
    let fine = run(Ok(
        json!({"exit_code": 0, "stdout": "clean\n", "stderr": ""}),
    ))
    .await;
    assert!(fine.starts_with("`git status` succeeded.\n\n```\nclean\n```\n"));
    let bad = run(Ok(
        json!({"exit_code": 128, "stdout": "", "stderr": "fatal: no"}),
    ))
    .await;
    assert!(bad.starts_with(
        "`git status` failed with exit code 128.\n\nIt wrote to standard error:\n\n```\nfatal: no\n"
    ));
    let slow = run(Ok(json!({"timed_out": true, "exit_code": null}))).await;
    assert!(slow.starts_with("`git status` ran out of time."));
    let refused = run(denied("git is not in [policy.shell] allow")).await;
    assert!(
        refused.starts_with(
            "Policy refused `shell` on `git status`: git is not in [policy.shell] allow"
        )
    );
}

#[tokio::test]
async fn what_is_asked_of_tools_is_bounded() {
    let asked = |sentence| async move {
        let talk = converse(sentence, &TOOLS, repository).await;
        talk.steps.concat().concat()
    };
    for (sentence, bound) in [
        (
            "list files",
            format!("\"max_results\":{OFFLINE_GLOB_RESULTS}"),
        ),
        (
            "find x",
            format!("\"max_matches\":{OFFLINE_SEARCH_MATCHES}"),
        ),
        (
            "run the tests",
            format!("\"timeout_ms\":{OFFLINE_TEST_MILLIS}"),
        ),
    ] {
        let calls = asked(sentence).await;
        assert!(calls.contains(&bound), "{calls}");
    }
}

#[tokio::test]
async fn small_talk_lists_what_the_session_offers() {
    let hello = converse("hello", &["read"], repository).await;
    assert!(hello.answer.starts_with(
        "Hello! With the tools of this session I can, for example:\n\n- read README.md\n\n"
    ));
    let unclear = converse("prove it", &TOOLS, repository).await;
    assert!(unclear.answer.starts_with("I did not understand that"));
    assert!(unclear.answer.contains("- Summarize this repository\n"));
}

#[tokio::test]
async fn a_later_request_starts_afresh() {
    let model = OfflineProvider::new();
    let history = [
        user("find TODO"),
        assistant_calls(&["a"]),
        tool_result("a"),
        assistant(vec![AssistantPart::text("nothing")]),
        user("run ls"),
        system("the date has changed"),
    ];
    let (parts, _) = assemble(&events(&model, with_tools(request(history), &TOOLS)).await);
    let Some(AssistantPart::ToolCall { name, .. }) = parts.last() else {
        panic!("a call: {parts:?}");
    };
    assert_eq!(name.as_str(), "shell");
}

#[tokio::test]
async fn the_same_request_gets_the_same_events_in_several_deltas() {
    let model = OfflineProvider::new();
    let asked = with_tools(request([user("hello")]), &TOOLS);
    let first = events(&model, asked.clone()).await;
    assert_eq!(first, events(&OfflineProvider::new(), asked.clone()).await);
    let count =
        |wanted: fn(&StreamEvent) -> bool| first.iter().filter(|event| wanted(event)).count();
    assert!(count(|event| matches!(event, StreamEvent::TextDelta { .. })) > 3);
    assert!(count(|event| matches!(event, StreamEvent::ThinkingDelta { .. })) > 0);
    let usage = first.iter().find_map(|event| match event {
        StreamEvent::UsageUpdate { usage } => Some(*usage),
        _ => None,
    });
    let usage = usage.unwrap();
    assert!(
        usage.buckets.uncached_input > 0 && usage.buckets.output > 0 && usage.buckets.reasoning > 0
    );
}

#[tokio::test]
async fn call_ids_are_not_used_twice_in_a_session() {
    let model = OfflineProvider::new();
    let mut seen = std::collections::HashSet::new();
    for turn in 0..5 {
        let mut asked = with_tools(request([user("run ls")]), &TOOLS);
        asked.turn_id = format!("turn_{turn}").as_str().into();
        for event in events(&model, asked).await {
            if let StreamEvent::ToolCallStart { tool_call_id, .. } = event {
                assert!(seen.insert(tool_call_id));
            }
        }
    }
    assert_eq!(seen.len(), 5);
}

#[tokio::test]
async fn a_cancel_after_any_event_is_the_next_and_last_item() {
    let model = OfflineProvider::new();
    let asked = with_tools(request([user("read a.txt and b.txt")]), &TOOLS);
    let whole = events(&model, asked.clone()).await;
    for seen in 0..whole.len() {
        let cancel = CancellationToken::new();
        let mut stream = model.stream(asked.clone(), cancel.clone()).await.unwrap();
        for expected in whole.iter().take(seen) {
            assert_eq!(stream.next().await.unwrap().as_ref(), Ok(expected));
        }
        cancel.cancel();
        let rest: Vec<_> = stream.collect().await;
        assert_eq!(rest, [Err(ProviderError::cancelled())]);
    }
}
