//! Requests only grow: what was sent once is sent again, byte for byte.

use super::{WIRE, checker, model, wire};
use crate::wire_kit::{OwnForm, body, encoder, messages_of, split_body, steps, text_of};
use proptest::prelude::*;

struct Items;

impl OwnForm for Items {
    fn thinking(&self, text: &str) -> String {
        let id = text.len();
        format!(
            r#"{{"id":"rs_{id}",  "type":"reasoning","summary":[],"encrypted_content":"x\/y"}}"#
        )
    }

    fn text(&self, text: &str) -> String {
        let text = serde_json::to_string(text).unwrap();
        format!(
            r#"{{"id":"msg","type":"message","role":"assistant","content":[{{"type":"output_text","text":{text}}}]}}"#
        )
    }

    fn call(&self, id: &str, name: &str, _position: usize) -> String {
        format!(
            r#"{{"id":"fc","type":"function_call","call_id":"{id}","name":"{name}","arguments":"{{ }}"}}"#
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_request_begins_with_the_one_before(steps in steps()) {
        let mut growing = encoder(&wire(), &model());
        let mut messages = Vec::new();
        let (head, mut before) = split_body(&text_of(growing.as_mut()), "input");
        for (number, step) in steps.into_iter().enumerate() {
            for message in messages_of(step, number, WIRE, &Items, &model()) {
                growing.push(&message);
                messages.push(message);
                let (new_head, elements) = split_body(&text_of(growing.as_mut()), "input");
                prop_assert_eq!(&new_head, &head);
                prop_assert_eq!(&elements[..before.len()], &before[..]);
                before = elements;
            }
            let whole = text_of(growing.as_mut());
            prop_assert_eq!(checker::check(&whole), Ok(()));
            prop_assert_eq!(&body(&wire(), &model(), &messages), &whole);
        }
    }
}
