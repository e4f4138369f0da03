//! Every length and number a schema bounds, at its edge and one beyond.

use halter_protocol::ToolCall;
use halter_tools::limits::{
    GLOB_MAX_RESULTS, GREP_CONTEXT_LINES, GREP_MAX_MATCHES, LINE_BYTES, PATTERN_CHARS, READ_LINES,
    SHELL_COMMAND_CHARS, SHELL_ENV_VARS, TASK_DESCRIPTION_CHARS, TASK_SUBJECT_CHARS,
    WEB_FETCH_MAX_SECS, WEB_FETCH_SECS, WEB_SEARCH_DEFAULT_RESULTS, WEB_SEARCH_QUERY_CHARS,
    WEB_SEARCH_RESULTS,
};
use halter_tools::{ToolRuntime, builtin_tools};
use serde_json::{Map, Value, json};

#[test]
fn the_bounds_of_the_schemas_are_the_named_limits() {
    let tools = ToolRuntime::with_tools(builtin_tools());
    for (tool, parameter, keyword, limit) in [
        ("read", "limit", "maximum", READ_LINES),
        ("glob", "pattern", "maxLength", PATTERN_CHARS),
        ("glob", "max_results", "maximum", GLOB_MAX_RESULTS),
        ("grep", "pattern", "maxLength", PATTERN_CHARS),
        ("grep", "glob", "maxLength", PATTERN_CHARS),
        ("grep", "context_before", "maximum", GREP_CONTEXT_LINES),
        ("grep", "context_after", "maximum", GREP_CONTEXT_LINES),
        ("grep", "max_matches", "maximum", GREP_MAX_MATCHES),
        ("grep", "max_columns", "maximum", LINE_BYTES),
        ("shell", "command", "maxLength", SHELL_COMMAND_CHARS),
        ("shell", "env", "maxProperties", SHELL_ENV_VARS),
        ("task", "subject", "maxLength", TASK_SUBJECT_CHARS),
        ("task", "description", "maxLength", TASK_DESCRIPTION_CHARS),
        (
            "web_fetch",
            "timeout_secs",
            "default",
            WEB_FETCH_SECS as usize,
        ),
        (
            "web_fetch",
            "timeout_secs",
            "maximum",
            WEB_FETCH_MAX_SECS as usize,
        ),
        ("web_search", "query", "maxLength", WEB_SEARCH_QUERY_CHARS),
        (
            "web_search",
            "max_results",
            "default",
            WEB_SEARCH_DEFAULT_RESULTS,
        ),
        ("web_search", "max_results", "maximum", WEB_SEARCH_RESULTS),
    ] {
        let schema = &tools.spec(tool).unwrap().input_schema;
        let bound = &schema["properties"][parameter][keyword];
        assert_eq!(*bound, limit, "{tool} {parameter}");
    }
}

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
                    refusal.is_some_and(|told| told.contains(&format!("`{name}`: ")))
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
    if let Some(most) = schema["maxItems"].as_u64() {
        // Items that do not fit would be refused for another reason.
        if schema["items"]["type"] == "string" {
            let list = |count: u64| json!(vec!["x"; count as usize]);
            edges.push((list(most), list(most + 1)));
        }
    }
    if let Some(most) = schema["maxProperties"].as_u64() {
        let object = |count: u64| {
            let entries = (0..count).map(|index| (format!("N{index}"), json!("x")));
            Value::Object(entries.collect::<Map<_, _>>())
        };
        edges.push((object(most), object(most + 1)));
    }
    edges
}
