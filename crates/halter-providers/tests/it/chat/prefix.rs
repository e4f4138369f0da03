//! Requests only grow: what was sent once is sent again, byte for byte.

use super::model;
use crate::damage::Dice;
use crate::wire_kit::{Growing, OwnForm, Step, steps};
use halter_providers::wire::chat::{Chat, Dialect};
use proptest::prelude::*;
use serde_json::{Value, json};

struct Kept;

impl OwnForm for Kept {
    fn thinking(&self, text: &str) -> String {
        json!({"field": "reasoning_content", "details": [{"type": "reasoning.text", "text": text}]})
            .to_string()
    }

    fn text(&self, _: &str) -> String {
        "{}".to_owned()
    }

    fn call(&self, _: &str, _: &str, _: usize) -> String {
        json!({"arguments": "{ }", "members": {"extra_content": {"a": 1}}}).to_string()
    }
}

/// What every server demands: results directly after the calls they answer,
/// one for each.
fn check(body: &str) -> Result<(), String> {
    let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let mut open: Vec<String> = Vec::new();
    for message in body["messages"].as_array().ok_or("no messages")? {
        match message["role"].as_str().ok_or("no role")? {
            "tool" => {
                let id = message["tool_call_id"].as_str().ok_or("no id")?;
                let at = open.iter().position(|open| open == id);
                open.remove(at.ok_or_else(|| format!("{id} is not open"))?);
                message["content"].as_str().ok_or("no text")?;
            }
            role => {
                if !open.is_empty() {
                    return Err(format!("{role} before the results of {open:?}"));
                }
                let calls = message["tool_calls"].as_array();
                for call in calls.into_iter().flatten() {
                    let arguments = call["function"]["arguments"].as_str().ok_or("no text")?;
                    serde_json::from_str::<Value>(arguments).map_err(|error| error.to_string())?;
                    open.push(call["id"].as_str().ok_or("no id")?.to_owned());
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_request_begins_with_the_one_before(steps in steps(), dialect in 0..Dialect::ALL.len()) {
        growing(&Chat::new(Dialect::ALL[dialect])).assert_grows(steps);
    }
}

fn growing(wire: &Chat) -> Growing<'_> {
    Growing {
        wire,
        model: model(),
        form: &Kept,
        elements: "messages",
        check,
    }
}

#[test]
fn two_hundred_turns_only_grow() {
    for dialect in Dialect::ALL {
        let mut dice = Dice::new(7);
        let steps = (0..200).map(|_| match dice.roll(6) {
            0 => Step::User,
            1 => Step::Attachment,
            2 => Step::Note,
            3 => Step::OwnCutOff(1 + dice.roll(3)),
            4 => Step::Foreign(dice.roll(4)),
            _ => Step::Own(dice.roll(4)),
        });
        growing(&Chat::new(dialect)).assert_grows(steps);
    }
}
