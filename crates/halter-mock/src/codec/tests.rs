//! No request makes a wire panic, and what a wire says about a
//! well-formed request is the same each time.

use super::*;
use crate::scenario::select::select;
use crate::scenario::{ScenarioLibrary, Step};
use proptest::prelude::*;
use serde_json::{Map, json};

/// Words that the wires look for, so that arbitrary JSON reaches the checks.
const WORDS: &str = "model messages role user assistant system tool content type text tool_use \
    tool_result tool_use_id id name input thinking signature redacted_thinking data \
    cache_control ephemeral ttl 1h tools input_schema object properties required \
    additionalProperties items strict function parameters tool_calls tool_call_id \
    arguments call_id function_call function_call_output output reasoning \
    encrypted_content summary message contents parts functionCall functionResponse \
    response args thoughtSignature generationConfig thinkingConfig thinkingLevel \
    functionDeclarations max_tokens toolu_mock0123456789ab mock mock:default \
    reasoning_details image source base64";

fn word() -> impl Strategy<Value = String> {
    let words: Vec<_> = WORDS.split_ascii_whitespace().collect();
    prop_oneof![
        8 => prop::sample::select(words).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 96, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A request whose frame is right, so that its insides are looked at.
fn request_body(wire: MockWire, inside: Value, tools: Value) -> Value {
    match wire {
        MockWire::Anthropic => {
            json!({"model": "m", "max_tokens": 5, "messages": inside, "tools": tools})
        }
        MockWire::Responses => json!({"model": "m", "input": inside, "tools": tools}),
        MockWire::Chat => json!({"model": "m", "messages": inside, "tools": tools}),
        MockWire::Gemini => json!({"contents": inside, "tools": tools}),
    }
}

fn headers() -> BTreeMap<String, String> {
    [
        ("content-type", "application/json"),
        ("anthropic-version", "2026-10-21"),
        ("authorization", "Bearer k"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

/// Reads, checks and answers, as the handler does it, whatever the checks say.
fn exercise(wire: MockWire, body: &Value) {
    let headers = headers();
    let request = ModelRequest {
        headers: &headers,
        query: "alt=sse",
        path_model: Some("m"),
        dialect: Dialect::Vendor,
        counting: false,
        compacting: false,
        path_streams: true,
        strict: true,
        body: &codec(wire).normalize(body.clone()),
    };
    let codec = codec(wire);
    let first = codec.check(&request);
    assert_eq!(first, codec.check(&request));
    if let Err(problem) = &first {
        assert!((400..500).contains(&problem.status) && !problem.message.is_empty());
        assert!(codec.error_body(problem, Dialect::Vendor, "id").is_object());
    }
    let conversation = codec.conversation(&request);
    let mut library = ScenarioLibrary::default();
    let step = Step::call("read", Map::new()).and_text("{{prompt}} {{result 1 /a}}");
    library
        .add("default", crate::scenario::Scenario::new("d", vec![step]))
        .unwrap();
    if let Ok(selection) = select(&conversation, &library, None) {
        let answer = ModelAnswer::compose(&selection, &conversation, &body.to_string(), 1);
        assert!(codec.whole(&answer, &request).is_object());
        assert!(!codec.frames(&answer, &request).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bodies_never_panic(body in value()) {
        for wire in MockWire::ALL {
            exercise(wire, &body);
        }
    }

    #[test]
    fn arbitrary_insides_never_panic(inside in value(), tools in value()) {
        for wire in MockWire::ALL {
            exercise(wire, &request_body(wire, inside.clone(), tools.clone()));
        }
    }
}
