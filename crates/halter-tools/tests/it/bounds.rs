//! Every length and number a schema bounds, at its edge and one beyond.

use halter_protocol::ToolCall;
use halter_tools::{ToolRuntime, builtin_tools};
use serde_json::{Value, json};

#[test]
fn the_bounds_of_every_schema_hold_at_their_edge() {
    let tools = ToolRuntime::with_tools(builtin_tools());
    let mut checked = 0;
    for spec in tools.specs() {
        let properties = spec.input_schema["properties"].as_object().unwrap();
        for (name, schema) in properties {
            for (fits, too_much) in edges(schema) {
                let refused = |value: Value| {
                    let call = ToolCall {
                        id: "call".into(),
                        name: spec.name.clone(),
                        arguments: json!({ name.as_str(): value }),
                    };
                    let refusal = tools.validate(&call).err().map(|error| error.message);
                    refusal.is_some_and(|told| told.contains(&format!("`{name}` must")))
                };
                assert!(!refused(fits), "{} {name}: at the bound", spec.name);
                assert!(refused(too_much), "{} {name}: beyond it", spec.name);
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked} bounds");
}

fn edges(schema: &Value) -> Vec<(Value, Value)> {
    let mut edges = Vec::new();
    if let Some(most) = schema["maxLength"].as_u64() {
        let text = |count: u64| json!("x".repeat(count as usize));
        edges.push((text(most), text(most + 1)));
    }
    if let Some(most) = schema["maximum"].as_u64() {
        edges.push((json!(most), json!(most + 1)));
    }
    edges
}
