//! What holds for every request and every tool.

use super::harness::{TOOLS, converse, failed, result, with_tools};
use crate::support::{
    answer, assemble, assert_well_formed, assistant, assistant_calls, request, system, user,
};
use halter_protocol::{AssistantPart, Message, StopReason, StreamEvent};
use halter_providers::OfflineProvider;
use halter_providers::limits::OFFLINE_STEPS;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Requests the rules know, and any text.
fn any_sentence() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "Summarize this repository",
        "read a.txt b.txt",
        "find x",
        "list files",
        "run ls",
        "run the tests",
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
        Just(assistant_calls(&["a", "b"])),
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
