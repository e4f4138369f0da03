//! Requests only grow: what was sent once is sent again, byte for byte.

use super::model;
use crate::damage::Dice;
use crate::wire_kit::{Growing, OwnForm, Step, steps};
use halter_mock::MockWire as Service;
use halter_providers::wire::chat::{Chat, Dialect};
use proptest::prelude::*;
use serde_json::json;

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
        service: Service::Chat,
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
