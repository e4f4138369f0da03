//! Requests only grow: what was sent once is sent again, byte for byte.
//!
//! A request is made when a step has all its results; between them nothing is
//! sent, so the content that collects them is not compared.

use super::{WIRE, checker, model, wire};
use crate::wire_kit::{OwnForm, body, encoder, messages_of, split_body, steps, text_of};
use proptest::prelude::*;

struct Parts;

impl OwnForm for Parts {
    fn thinking(&self, text: &str) -> String {
        let text = serde_json::to_string(text).unwrap();
        format!(r#"[{{"text":{text},  "thought":true}}]"#)
    }

    fn text(&self, text: &str) -> String {
        let text = serde_json::to_string(text).unwrap();
        format!(r#"[{{"text":{text}}},{{"text":"","thoughtSignature":"c2\/n"}}]"#)
    }

    fn call(&self, id: &str, name: &str, position: usize) -> String {
        let signature = match position {
            0 => r#","thoughtSignature":"c2ln""#,
            _ => "",
        };
        format!(r#"[{{"functionCall":{{"name":"{name}","args":{{ }},"id":"{id}"}}{signature}}}]"#)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_request_begins_with_the_one_before(steps in steps()) {
        let mut growing = encoder(&wire(), &model());
        let mut messages = Vec::new();
        let (head, mut before) = split_body(&text_of(growing.as_mut()), "contents");
        for (number, step) in steps.into_iter().enumerate() {
            for message in messages_of(step, number, WIRE, &Parts, &model()) {
                growing.push(&message);
                messages.push(message);
                // A request in the middle of a step must not disturb what
                // comes later.
                text_of(growing.as_mut());
            }
            let whole = text_of(growing.as_mut());
            let (new_head, elements) = split_body(&whole, "contents");
            prop_assert_eq!(&new_head, &head);
            prop_assert_eq!(&elements[..before.len()], &before[..]);
            before = elements;
            prop_assert_eq!(checker::check(&whole), Ok(()));
            prop_assert_eq!(&body(&wire(), &model(), &messages), &whole);
        }
    }
}
