//! The first place where two requests differ, in words.

use super::exchange::{RecordedBody, RecordedRequest};
use crate::limits::DIFFERENCE_CHARS;
use serde_json::Value;

/// Where the request differs from the recorded one.
pub(super) fn first_difference(recorded: &RecordedRequest, sent: &RecordedRequest) -> String {
    if (&recorded.method, &recorded.path) != (&sent.method, &sent.path) {
        return format!(
            "recorded {} {}, sent {} {}",
            recorded.method, recorded.path, sent.method, sent.path
        );
    }
    let (RecordedBody::Text(ours), RecordedBody::Text(theirs)) = (&recorded.body, &sent.body)
    else {
        return "the bodies differ and are not both text".to_owned();
    };
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    match (parsed(ours), parsed(theirs)) {
        (Some(ours), Some(theirs)) => in_values("body", &ours, &theirs).unwrap_or_else(|| {
            "the bodies have the same values in another order or spelling".to_owned()
        }),
        _ => in_texts("body", ours, theirs),
    }
}

fn in_values(place: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let missing = ours
                .keys()
                .find(|name| !theirs.contains_key(*name))
                .map(|name| format!("{place}.{name}: recorded, not sent"));
            let added = theirs
                .keys()
                .find(|name| !ours.contains_key(*name))
                .map(|name| format!("{place}.{name}: sent, not recorded"));
            ours.iter()
                .find_map(|(name, ours)| {
                    in_values(&format!("{place}.{name}"), ours, theirs.get(name)?)
                })
                .or(missing)
                .or(added)
        }
        (Value::Array(ours), Value::Array(theirs)) => ours
            .iter()
            .zip(theirs)
            .enumerate()
            .find_map(|(index, (ours, theirs))| {
                in_values(&format!("{place}[{index}]"), ours, theirs)
            })
            .or_else(|| {
                (ours.len() != theirs.len()).then(|| {
                    format!(
                        "{place}: recorded {} elements, sent {}",
                        ours.len(),
                        theirs.len()
                    )
                })
            }),
        (Value::String(ours), Value::String(theirs)) if ours != theirs => {
            Some(in_texts(place, ours, theirs))
        }
        (ours, theirs) if ours != theirs => {
            Some(in_texts(place, &ours.to_string(), &theirs.to_string()))
        }
        _ => None,
    }
}

fn in_texts(place: &str, ours: &str, theirs: &str) -> String {
    let same = ours
        .chars()
        .zip(theirs.chars())
        .take_while(|(ours, theirs)| ours == theirs)
        .count();
    format!(
        "{place}, character {}: recorded {}, sent {}",
        same + 1,
        around(ours, same),
        around(theirs, same)
    )
}

/// The text from a little before the difference.
fn around(text: &str, at: usize) -> String {
    let from = at.saturating_sub(DIFFERENCE_CHARS / 4);
    let mut piece: String = text.chars().skip(from).take(DIFFERENCE_CHARS).collect();
    if from > 0 {
        piece.insert(0, '…');
    }
    if text.chars().nth(from + DIFFERENCE_CHARS).is_some() {
        piece.push('…');
    }
    format!("{piece:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &str) -> RecordedRequest {
        RecordedRequest {
            method: "POST".to_owned(),
            path: "/v1/x".to_owned(),
            body: RecordedBody::Text(body.to_owned()),
        }
    }

    #[test]
    fn the_first_difference_is_named_with_its_place() {
        for (recorded, sent, difference) in [
            (
                r#"{"model":"a","messages":[{"content":"hello there"}]}"#,
                r#"{"model":"a","messages":[{"content":"hello world"}]}"#,
                r#"body.messages[0].content, character 7: recorded "hello there", sent "hello world""#,
            ),
            (
                r#"{"messages":[1]}"#,
                r#"{"messages":[1,2]}"#,
                "body.messages: recorded 1 elements, sent 2",
            ),
            (
                r#"{"a":1,"b":2}"#,
                r#"{"a":1}"#,
                "body.b: recorded, not sent",
            ),
            (
                r#"{"a":1}"#,
                r#"{"a":1,"b":2}"#,
                "body.b: sent, not recorded",
            ),
            (
                r#"{"a":1}"#,
                r#"{"a":2}"#,
                r#"body.a, character 1: recorded "1", sent "2""#,
            ),
            (
                r#"{"a":1,"b":2}"#,
                r#"{"b":2,"a":1}"#,
                "the bodies have the same values in another order or spelling",
            ),
            ("x", "y", r#"body, character 1: recorded "x", sent "y""#),
        ] {
            assert_eq!(
                first_difference(&request(recorded), &request(sent)),
                difference
            );
        }
    }

    #[test]
    fn long_texts_are_shown_around_the_difference() {
        let long = "a".repeat(DIFFERENCE_CHARS * 2);
        let difference = first_difference(
            &request(&format!("{long}x{long}")),
            &request(&format!("{long}y{long}")),
        );
        assert!(difference.len() < DIFFERENCE_CHARS * 3, "{difference}");
        assert!(
            difference.contains('x') && difference.contains('y'),
            "{difference}"
        );
    }
}
