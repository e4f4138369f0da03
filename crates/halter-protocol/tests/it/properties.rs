//! What holds for any event, not only for the recorded ones.

use crate::arbitrary::{event, message, payload, unknown_event};
use crate::fixtures::schema;
use halter_protocol::fold::{apply_event, fold_events};
use halter_protocol::{Message, SessionEvent, SessionEventPayload, SessionState};
use proptest::prelude::*;
use std::sync::LazyLock;

static SCHEMA: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&schema()).unwrap());

proptest! {
    #[test]
    fn messages_survive_json(message in message()) {
        let text = serde_json::to_string(&message).unwrap();
        prop_assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message);
    }

    #[test]
    fn events_survive_json_as_text_and_as_value(event in event()) {
        let text = serde_json::to_string(&event).unwrap();
        let parsed: SessionEvent = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&parsed, &event);
        prop_assert_eq!(serde_json::to_string(&parsed).unwrap(), text);
        let value = serde_json::to_value(&event).unwrap();
        prop_assert_eq!(serde_json::from_value::<SessionEvent>(value).unwrap(), event);
    }

    #[test]
    fn an_event_is_one_line(event in event()) {
        let text = serde_json::to_string(&event).unwrap();
        prop_assert!(!text.contains(['\n', '\r']));
    }

    #[test]
    fn what_is_written_fits_the_schema(event in event()) {
        let value = serde_json::to_value(&event).unwrap();
        let errors: Vec<String> = SCHEMA.iter_errors(&value).map(|e| e.to_string()).collect();
        prop_assert!(errors.is_empty(), "{errors:?}: {value}");
    }

    #[test]
    fn the_kind_is_the_one_on_the_wire(payload in payload()) {
        let value = serde_json::to_value(&payload).unwrap();
        prop_assert_eq!(value["kind"].as_str().unwrap(), payload.kind());
    }

    #[test]
    fn unknown_kinds_survive_byte_for_byte(value in unknown_event(), spaces in "[ \t]{0,3}") {
        let text = value.to_string().replacen("\"payload\":{", &format!("\"payload\":{{{spaces}"), 1);
        let event: SessionEvent = serde_json::from_str(&text).unwrap();
        prop_assert!(matches!(&event.payload, SessionEventPayload::Unknown(_)));
        prop_assert_eq!(serde_json::to_string(&event).unwrap(), text);
    }

    #[test]
    fn the_state_survives_json_after_any_events(payloads in proptest::collection::vec(payload(), 0..12)) {
        let state = fold_events(&payloads);
        let text = serde_json::to_string(&state).unwrap();
        prop_assert_eq!(serde_json::from_str::<SessionState>(&text).unwrap(), state);
    }

    /// A checkpoint and the events after it make the same state as all events.
    #[test]
    fn a_fold_can_be_interrupted_anywhere(
        payloads in proptest::collection::vec(payload(), 0..12),
        at in 0usize..12,
    ) {
        let at = at.min(payloads.len());
        let checkpoint = serde_json::to_string(&fold_events(&payloads[..at])).unwrap();
        let mut state: SessionState = serde_json::from_str(&checkpoint).unwrap();
        for payload in &payloads[at..] {
            apply_event(&mut state, payload);
        }
        prop_assert_eq!(state, fold_events(&payloads));
    }
}
