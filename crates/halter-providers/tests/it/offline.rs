//! Whole conversations with the offline model, over canned tools.

use crate::support::{
    answer, assemble, assert_well_formed, assistant, events, request, system, tool_result, user,
};
use futures::StreamExt as _;
use halter_protocol::{
    AssistantPart, Message, ProviderError, StopReason, StreamEvent, Timestamp, ToolCapabilities,
    ToolConcurrency, ToolError, ToolErrorCode, ToolMessage, ToolResult, ToolSpec,
};
use halter_providers::limits::OFFLINE_STEPS;
use halter_providers::offline::OFFLINE_NOTE;
use halter_providers::{OfflineProvider, Provider, ProviderRequest, check_pairing};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const TOOLS: [&str; 8] = [
    "read", "glob", "grep", "write", "edit", "shell", "process", "task",
];

type Outcome = Result<Value, ToolError>;

fn denied(message: &str) -> Outcome {
    Err(ToolError::new(ToolErrorCode::PolicyDenied, message))
}

fn failed(message: &str) -> Outcome {
    Err(ToolError::new(ToolErrorCode::Failed, message))
}

fn with_tools(mut request: ProviderRequest, tools: &[&str]) -> ProviderRequest {
    request.tools = tools
        .iter()
        .map(|name| ToolSpec {
            name: (*name).into(),
            description: format!("the tool {name}"),
            input_schema: json!({"type": "object"}),
            concurrency: ToolConcurrency::default(),
            capabilities: ToolCapabilities::default(),
            provider_aliases: Default::default(),
        })
        .collect();
    request
}

fn result(call_id: &str, tool: &str, outcome: Outcome) -> Message {
    let (content, error) = match outcome {
        Ok(value) => (ToolResult::json(value), None),
        Err(error) => (ToolResult::Empty, Some(error)),
    };
    Message::Tool(ToolMessage {
        id: format!("msg_{call_id}").as_str().into(),
        call_id: call_id.into(),
        tool_name: tool.into(),
        content,
        error,
        created_at: Timestamp::UNIX_EPOCH,
    })
}

/// What a conversation came to: the calls of each step, and the last words.
struct Conversation {
    steps: Vec<Vec<String>>,
    answer: String,
}

async fn converse(
    said: &str,
    tools: &[&str],
    respond: impl Fn(&str, &Value) -> Outcome,
) -> Conversation {
    let model = OfflineProvider::new();
    let mut asked = with_tools(request([user(said)]), tools);
    let mut steps = Vec::new();
    loop {
        check_pairing(&asked.messages).unwrap();
        let stream = events(&model, asked.clone()).await;
        assert_well_formed(&stream);
        let (parts, stop) = assemble(&stream);
        let Message::Assistant(message) = assistant(parts) else {
            unreachable!()
        };
        let calls: Vec<_> = message.tool_calls().collect();
        let text = message.plain_text();
        asked.messages.push(Message::Assistant(message));
        if calls.is_empty() {
            assert_eq!(stop, StopReason::EndTurn);
            assert!(text.ends_with(OFFLINE_NOTE), "{text}");
            return Conversation {
                steps,
                answer: text,
            };
        }
        assert_eq!(stop, StopReason::ToolUse);
        steps.push(
            calls
                .iter()
                .map(|call| format!("{} {}", call.name, call.arguments))
                .collect(),
        );
        assert!(steps.len() <= OFFLINE_STEPS, "it goes on and on: {steps:?}");
        for call in calls {
            assert!(
                tools.contains(&call.name.as_str()),
                "{} is not on offer",
                call.name
            );
            let outcome = respond(call.name.as_str(), &call.arguments);
            asked
                .messages
                .push(result(call.id.as_str(), call.name.as_str(), outcome));
        }
    }
}

fn matches(paths: &[&str]) -> Value {
    let matches: Vec<Value> = paths
        .iter()
        .map(|path| json!({"path": path, "file_type": "file"}))
        .collect();
    json!({"total_matches": matches.len(), "matches": matches})
}

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
- Files by language: Markdown 2, Rust 2, TOML 1.
- Largest directories: src 2, docs 1.
- Manifest: `Cargo.toml`: `kettle` 2.1.0, “A kettle”.
- Entry points: `src/main.rs`. `src/main.rs` opens with “Starts the server.”
- Latest commits:
  - abc123 Add steam

---
";
    let text = talk.answer.split_once("Latest").unwrap().1;
    assert!(text.contains("abc123"));
    assert_eq!(
        &talk.answer[talk.answer.find("# Kettle").unwrap()..],
        format!("{expected}{OFFLINE_NOTE}")
    );
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

    let shell = converse(
        "Summarize this repository",
        &["shell", "read"],
        |tool, input| match input["command"].as_str() {
            Some("ls -p") => {
                Ok(json!({"exit_code": 0, "stdout": "Cargo.toml\nsrc/\n", "stderr": ""}))
            }
            Some(_) => {
                Ok(json!({"exit_code": 128, "stdout": "", "stderr": "not a git repository"}))
            }
            None => repository(tool, input),
        },
    )
    .await;
    assert!(shell.answer.contains("`kettle` 2.1.0"), "{}", shell.answer);
    assert!(shell.answer.contains("- Top level: 1 file."));
    assert!(!shell.answer.contains("commits"));

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
    let talk = converse("find TODO", &TOOLS, |_, _| {
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
    assert_eq!(nothing.steps.len(), 2);
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
async fn files_are_listed_and_counted() {
    let list = converse("list files", &TOOLS, repository).await;
    assert!(
        list.answer
            .starts_with("5 files match `**/*`:\n\n- Cargo.toml\n- README.md\n")
    );
    let count = converse("how many files are there?", &TOOLS, repository).await;
    assert!(count.answer.starts_with("5 files match `**/*`.\n"));
    let lines = converse("how many lines does README.md have?", &TOOLS, repository).await;
    assert!(lines.answer.starts_with("`README.md` has 6 lines.\n"));
    let words = converse("how many times does boil occur?", &TOOLS, |_, _| {
        Ok(json!({"matches": [{"path": "a", "match_count": 2}, {"path": "b", "match_count": 1}]}))
    })
    .await;
    assert!(
        words
            .answer
            .starts_with("`boil` occurs in 3 lines of 2 files.\n")
    );
}

#[tokio::test]
async fn a_name_is_explained_by_its_definition_and_uses() {
    let talk = converse("what does boil do?", &TOOLS, |tool, input| match tool {
        "grep" if input["pattern"].as_str().unwrap().contains("fn|") => Ok(json!({
            "matches": [{"path": "src/engine.rs", "line_number": 20, "line": "pub fn boil() {"}],
        })),
        "grep" => Ok(json!({"matches": [
            {"path": "src/engine.rs", "line_number": 20, "line": "pub fn boil() {"},
            {"path": "src/main.rs", "line_number": 2, "line": "boil();"},
        ]})),
        _ => Ok(json!({"path": "src/engine.rs", "content": "/// Heats water.\npub fn boil() {", "total_lines": 99})),
    })
    .await;
    assert_eq!(talk.steps[0].len(), 2);
    assert_eq!(
        talk.steps[1],
        [r#"read {"path":"src/engine.rs","offset":12,"limit":30}"#]
    );
    assert!(
        talk.answer
            .starts_with("`boil` is defined in src/engine.rs:20:\n\n```\n/// Heats water.\n")
    );
    assert!(
        talk.answer
            .contains("It occurs in 2 files:\n\n- src/engine.rs\n- src/main.rs\n")
    );

    let unknown = converse("what does froth do?", &TOOLS, |_, _| Ok(matches(&[]))).await;
    assert!(
        unknown
            .answer
            .starts_with("I found nothing called `froth` here.")
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
    let unknown = run(Err(ToolError::new(
        ToolErrorCode::OutcomeUnknown,
        "interrupted",
    )))
    .await;
    assert!(
        unknown
            .starts_with("`shell` on `git status` may or may not have taken effect: interrupted")
    );
}

#[tokio::test]
async fn files_are_written_and_changed_when_asked() {
    let written = converse("write hello to notes.txt", &TOOLS, |_, _| {
        Ok(json!({"path": "notes.txt"}))
    })
    .await;
    assert_eq!(
        written.steps,
        [[r#"write {"path":"notes.txt","content":"hello"}"#]]
    );
    assert!(
        written
            .answer
            .starts_with("I wrote 5 bytes to `notes.txt`.")
    );

    let edited = converse(
        "replace hello with bye in notes.txt",
        &TOOLS,
        |tool, _| match tool {
            "read" => Ok(json!({"content": "hello", "total_lines": 1})),
            _ => Ok(json!({"replacements_applied": 1})),
        },
    )
    .await;
    assert_eq!(
        edited.steps,
        [
            [r#"read {"path":"notes.txt"}"#],
            [r#"edit {"path":"notes.txt","old_string":"hello","new_string":"bye"}"#],
        ]
    );
    assert!(
        edited
            .answer
            .starts_with("I replaced `hello` with `bye` in `notes.txt`.")
    );

    let missing = converse("replace a with b in gone.txt", &TOOLS, |_, _| {
        failed("no such file")
    })
    .await;
    assert_eq!(missing.steps.len(), 1);
    assert!(
        missing
            .answer
            .starts_with("`read` on `gone.txt` failed (tool_failed): no such file")
    );
}

#[tokio::test]
async fn tasks_are_kept() {
    let add = converse("add a task: boil water", &TOOLS, |_, _| {
        Ok(json!({"task": {"id": 1}}))
    })
    .await;
    assert_eq!(
        add.steps,
        [[r#"task {"action":"create","subject":"boil water"}"#]]
    );
    assert!(add.answer.starts_with("I added the task `boil water`."));
    let list = converse("list my tasks", &TOOLS, |_, _| {
        Ok(json!({"tasks": [{"id": 1, "subject": "boil water", "status": "pending"}]}))
    })
    .await;
    assert!(
        list.answer
            .starts_with("Your tasks:\n\n- 1: boil water (pending)\n")
    );
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
        crate::support::assistant_calls(&["a"]),
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

/// Requests the rules know, and any text.
fn any_sentence() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "Summarize this repository",
        "read a.txt b.txt",
        "find x",
        "what does x do?",
        "list files",
        "how many times does x occur",
        "run ls",
        "write a to b.txt",
        "replace a with b in c.txt",
        "list my tasks",
        "hello",
    ]);
    prop_oneof![known.prop_map(str::to_owned), "\\PC{0,60}"]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<u32>().prop_map(Value::from),
        "\\PC{0,30}".prop_map(Value::from),
        Just(json!({"matches": [{"path": "/a/b.rs", "line_number": u64::MAX, "line": "ü"}, 3]})),
        Just(json!({"matches": [{"path": ""}], "total_matches": u64::MAX})),
        Just(json!({"content": "```\n# a", "total_lines": 1})),
        Just(json!({"exit_code": -1, "stdout": 3, "stderr": "x"})),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop::collection::hash_map("(matches|content|stdout|tasks|path)", inner, 0..3)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    let tool = prop::sample::select(TOOLS.to_vec());
    prop_oneof![
        any_sentence().prop_map(|text| user(&text)),
        any_sentence().prop_map(|text| system(&text)),
        Just(assistant(Vec::new())),
        Just(crate::support::assistant_calls(&["a", "b"])),
        (tool.clone(), any_json()).prop_map(|(tool, value)| result("a", tool, Ok(value))),
        (tool, "\\PC{0,30}").prop_map(|(tool, text)| result("b", tool, failed(&text))),
    ]
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_transcript_gets_a_well_formed_answer(
        sentence in any_sentence(),
        messages in prop::collection::vec(any_message(), 0..12),
        tools in prop::sample::subsequence(TOOLS.to_vec(), 0..=TOOLS.len()),
    ) {
        let transcript = std::iter::once(user(&sentence)).chain(messages);
        let asked = with_tools(request(transcript), &tools);
        let items = block_on(answer(&OfflineProvider::new(), asked));
        let events: Vec<StreamEvent> = items.into_iter().map(Result::unwrap).collect();
        assert_well_formed(&events);
        let (parts, stop) = assemble(&events);
        let calls = parts.iter().filter_map(|part| match part {
            AssistantPart::ToolCall { name, arguments, .. } => Some((name, arguments)),
            _ => None,
        });
        let mut count = 0;
        for (name, arguments) in calls {
            prop_assert!(tools.contains(&name.as_str()));
            prop_assert!(arguments.is_object());
            count += 1;
        }
        prop_assert_eq!(stop == StopReason::ToolUse, count > 0);
    }

    #[test]
    fn any_conversation_ends(sentence in any_sentence(), results in prop::collection::vec(any_json(), 1..6)) {
        let talk = block_on(converse(&sentence, &TOOLS, |tool, _| {
            match results.get(tool.len() % results.len()) {
                Some(Value::Null) | None => failed("nothing"),
                Some(value) => Ok(value.clone()),
            }
        }));
        prop_assert!(talk.steps.len() <= OFFLINE_STEPS);
    }
}
