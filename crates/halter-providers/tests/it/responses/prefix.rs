//! Requests only grow: what was sent once is sent again, byte for byte.

use super::{model, wire};
use crate::wire_kit::{Growing, OwnForm, steps};
use halter_mock::MockWire as Service;
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
        let growing = Growing {
            wire: &wire(),
            model: model(),
            form: &Items,
            elements: "input",
            service: Service::Responses,
        };
        growing.assert_grows(steps);
    }
}
