//! Every line ever written is read by this version, and means what it meant.

use crate::fixtures::{schema, streams};
use halter_protocol::fold::fold_events;
use halter_protocol::{Delivery, SessionEvent, SessionEventPayload, SessionState};
use serde_json::Value;

/// Set to write the states that are missing.
const RECORD: &str = "HALTER_RECORD_STATES";

fn parse(line: &str) -> SessionEvent {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn is_unknown(event: &SessionEvent) -> bool {
    matches!(event.payload, SessionEventPayload::Unknown(_))
}

/// What `after` lacks of `before`. A later version may add fields with defaults;
/// it may not lose one or change a value.
fn lost(before: &Value, after: &Value, place: &str) -> Vec<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => before
            .iter()
            .flat_map(|(name, value)| {
                let after = after.get(name).unwrap_or(&Value::Null);
                lost(value, after, &format!("{place}.{name}"))
            })
            .collect(),
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => before
            .iter()
            .zip(after)
            .flat_map(|(before, after)| lost(before, after, place))
            .collect(),
        _ if before == after => Vec::new(),
        _ => vec![format!("{place}: {before} became {after}")],
    }
}

/// A field that went, or that takes less than it took, shows here: it is lost
/// on the way through this version's types.
#[test]
fn every_line_survives_this_version() {
    for stream in streams() {
        for line in &stream.lines {
            let before: Value = serde_json::from_str(line).unwrap();
            let after = serde_json::to_value(parse(line)).unwrap();
            let lost = lost(&before, &after, "");
            assert!(lost.is_empty(), "{}: {lost:?}", stream.name);
        }
    }
}

#[test]
fn what_is_unknown_is_written_as_it_was() {
    for stream in streams() {
        for line in &stream.lines {
            let event = parse(line);
            if is_unknown(&event) {
                assert_eq!(&serde_json::to_string(&event).unwrap(), line);
            }
        }
    }
}

/// The checks above can fail: they see a field that is dropped or narrowed.
#[test]
fn a_lost_or_narrowed_field_is_noticed() {
    let line: Value = serde_json::json!({"a": 1, "b": [{"c": "x"}]});
    let more = serde_json::json!({"a": 1, "b": [{"c": "x", "new": 0}], "d": 2});
    assert_eq!(lost(&line, &more, ""), Vec::<String>::new());
    let dropped = serde_json::json!({"a": 1, "b": [{}]});
    assert_eq!(lost(&line, &dropped, ""), [".b.c: \"x\" became null"]);
    let narrowed = serde_json::json!({"a": 0, "b": [{"c": "x"}]});
    assert_eq!(lost(&line, &narrowed, ""), [".a: 1 became 0"]);
}

#[test]
fn every_line_fits_the_schema() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    for stream in streams() {
        for line in &stream.lines {
            let value: Value = serde_json::from_str(line).unwrap();
            let errors: Vec<String> = schema
                .iter_errors(&value)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{line}\n{errors:?}");
        }
    }
}

/// A kind that is not known is taken; a known one must have its fields.
#[test]
fn the_schema_refuses_a_known_kind_without_its_fields() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let fits = |payload: Value| {
        schema.is_valid(&serde_json::json!({
            "session_id": "ses_1", "sequence": 1, "delivery": "lossless",
            "at": "2026-01-02T03:04:05Z", "payload": payload,
        }))
    };
    let message = |message: Value| serde_json::json!({"kind": "message_item", "message": message});
    assert!(fits(
        serde_json::json!({"kind": "mind_read", "thoughts": []})
    ));
    assert!(fits(message(serde_json::json!({"role": "oracle"}))));
    assert!(!fits(serde_json::json!({"kind": "warning"})));
    assert!(!fits(serde_json::json!({"thoughts": []})));
    assert!(!fits(message(serde_json::json!({"role": "user"}))));
}

/// Kinds that were written once and are no longer: they are kept as they are
/// and leave no trace in the state.
const RETIRED: [&str; 2] = ["question_asked", "question_answered"];

/// Only the hand-written stream holds what no version knows.
#[test]
fn recorded_streams_are_known_through_and_through() {
    for stream in streams() {
        let unknown = stream.lines.iter().filter(|line| {
            let event = parse(line);
            is_unknown(&event) && !RETIRED.contains(&event.payload.kind())
        });
        match stream.name.as_str() {
            "unknown" => assert!(unknown.count() >= 3),
            name => assert_eq!(unknown.count(), 0, "{name}"),
        }
    }
}

#[test]
fn sequences_have_no_gaps_and_the_first_event_tells_the_version() {
    for stream in streams() {
        let mut head = 0;
        for (index, line) in stream.lines.iter().enumerate() {
            let event = parse(line);
            assert_eq!(event.schema_version.is_some(), index == 0, "{line}");
            head += u64::from(event.delivery == Delivery::Lossless);
            assert_eq!(event.sequence(), head, "{}: {line}", stream.name);
            if !is_unknown(&event) {
                assert_eq!(event.delivery, event.payload.delivery(), "{line}");
            }
        }
    }
}

#[test]
fn every_stream_folds_to_the_state_it_always_had() {
    for stream in streams() {
        let events: Vec<SessionEvent> = stream.lines.iter().map(|line| parse(line)).collect();
        let lossless = events
            .iter()
            .filter(|event| event.delivery == Delivery::Lossless)
            .map(|event| &event.payload);
        let state = fold_events(lossless);
        let everything = fold_events(events.iter().map(|event| &event.payload));
        assert_eq!(state, everything, "best-effort events leave no trace");

        let file = stream.state_file();
        if std::env::var_os(RECORD).is_some() && !file.exists() {
            let text = serde_json::to_string_pretty(&state).unwrap() + "\n";
            std::fs::write(&file, text).unwrap();
        }
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|_| panic!("no state for {}: set {RECORD}=1", stream.name));
        let expected: Value = serde_json::from_str(&text).unwrap();
        let lost = lost(&expected, &serde_json::to_value(&state).unwrap(), "");
        assert!(lost.is_empty(), "{}: {lost:?}", stream.name);
        // A checkpoint of that version opens in this one.
        serde_json::from_str::<SessionState>(&text).unwrap();
    }
}

/// Consumers of the stream get everything but what only a provider reads, and
/// all that a session has loaded.
#[test]
fn provider_data_is_taken_out_of_what_consumers_see() {
    let mut found = 0;
    for stream in streams() {
        for line in &stream.lines {
            let event = parse(line);
            let shown = serde_json::to_string(&event.clone().without_opaque()).unwrap();
            assert!(!shown.contains("\"opaque\""), "{shown}");
            if let SessionEventPayload::ResourcesLoaded(loaded) = &event.payload {
                assert!(loaded.snapshot.is_some() && !shown.contains("\"snapshot\""));
                continue;
            }
            match line.contains("\"opaque\"") {
                true => found += 1,
                false => assert_eq!(&shown, line),
            }
        }
    }
    assert!(found > 0);
}
