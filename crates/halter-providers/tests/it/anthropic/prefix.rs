//! What was sent stays as it was sent, however a conversation goes on.

use super::{assert_acceptable, blocks, encoder, model};
use crate::support::{assistant, system, tool_result, user};
use crate::wire_kit::{result, with_media};
use halter_protocol::{AssistantPart, Message, OpaquePart};
use halter_providers::wire::RequestSettings;
use proptest::prelude::*;
use serde_json::{Value, json};

const MODEL: &str = "claude-opus-4-8";

/// One step of a session, as a script.
#[derive(Debug, Clone)]
enum Step {
    Turn {
        text: String,
    },
    Note {
        text: String,
    },
    Calls {
        thinks: bool,
        raw: bool,
        count: usize,
        steered: bool,
    },
    Says {
        text: String,
        by_another: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let text = prop_oneof![
        Just(String::new()),
        Just("\n".to_owned()),
        "[a-zé\"\\\\ ]{1,12}"
    ];
    prop_oneof![
        text.clone().prop_map(|text| Step::Turn { text }),
        text.clone().prop_map(|text| Step::Note { text }),
        (any::<bool>(), any::<bool>(), 1..15usize, any::<bool>()).prop_map(
            |(thinks, raw, count, steered)| Step::Calls {
                thinks,
                raw,
                count,
                steered
            }
        ),
        (text, any::<bool>()).prop_map(|(text, by_another)| Step::Says { text, by_another }),
    ]
}

fn by_model(message: Message, name: &str) -> Message {
    match message {
        Message::Assistant(mut message) => {
            message.replay_meta.model = Some(name.to_owned());
            Message::Assistant(message)
        }
        other => other,
    }
}

fn opaque(json: Value) -> Option<OpaquePart> {
    Some(OpaquePart {
        wire: "anthropic".to_owned(),
        data: json.to_string().into(),
    })
}

fn thought() -> AssistantPart {
    AssistantPart::Thinking {
        text: String::new(),
        opaque: opaque(json!({"type": "thinking", "thinking": "", "signature": "s"})),
    }
}

/// The messages of a step; those after which a request is sent are marked by
/// the second field.
fn messages(number: usize, step: &Step) -> Vec<Message> {
    match step {
        Step::Turn { text } => vec![user(text)],
        Step::Note { text } => vec![system(text)],
        Step::Says { text, by_another } => {
            let said = assistant(vec![thought(), AssistantPart::text(text.as_str())]);
            vec![by_model(said, if *by_another { "gpt" } else { MODEL })]
        }
        Step::Calls {
            thinks,
            raw,
            count,
            steered,
        } => {
            // Some services number their calls from one in each answer.
            let id = |place: usize| match raw {
                true => format!("toolu_{number}_{place}"),
                false => format!("call.{place}"),
            };
            let mut parts: Vec<AssistantPart> = thinks.then(thought).into_iter().collect();
            parts.extend((0..*count).map(|place| AssistantPart::ToolCall {
                id: id(place).into(),
                name: "read".into(),
                arguments: json!({"path": place}),
                malformed_arguments: None,
                opaque: match raw {
                    true => opaque(json!({
                        "type": "tool_use", "id": id(place), "name": "read", "input": {"path": place}
                    })),
                    false => None,
                },
            }));
            let mut messages = vec![by_model(assistant(parts), MODEL)];
            messages.extend((0..*count).map(|place| match place % 4 {
                3 => result(&id(place), "read", with_media("a page")),
                _ => tool_result(&id(place)),
            }));
            messages.extend(steered.then(|| user("steer")));
            messages
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_only_ever_appended_and_always_acceptable(
        steps in proptest::collection::vec(step(), 1..30)
    ) {
        let sonnet = model(MODEL);
        let settings = RequestSettings::default();
        let mut growing = encoder(&sonnet, &[user("begin")]);
        let mut all = vec![user("begin")];
        let mut earlier: Vec<(String, Value)> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let new = messages(number, step);
            for message in &new {
                growing.push(message);
            }
            all.extend(new);
            let json = growing.body(&settings).unwrap().json;
            // An encoder that took everything at once writes the same bytes.
            prop_assert_eq!(&json, &encoder(&sonnet, &all).body(&settings).unwrap().json);
            let body: Value = serde_json::from_slice(&json).unwrap();
            // After an answer nothing is sent until there is something to say.
            let last = body["messages"].as_array().unwrap().last().unwrap();
            if last["role"] != "assistant" {
                assert_acceptable(&body);
            }
            let now = blocks(&body);
            prop_assert!(now.len() >= earlier.len());
            prop_assert_eq!(&now[..earlier.len()], earlier.as_slice());
            earlier = now;
        }
    }
}
