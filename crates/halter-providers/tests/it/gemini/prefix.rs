//! Requests only grow: what was sent once is sent again, byte for byte.
//!
//! A request is made when a step has all its results; between them nothing is
//! sent, so the content that collects them is not compared.

use super::{model, wire};
use crate::wire_kit::{Growing, OwnForm, steps};
use halter_mock::MockWire as Service;
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
        let growing = Growing {
            wire: &wire(),
            model: model(),
            form: &Parts,
            elements: "contents",
            service: Service::Gemini,
        };
        growing.assert_grows(steps);
    }
}
