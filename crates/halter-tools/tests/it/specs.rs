//! The specs are part of every prompt: a change of theirs must be seen.

use crate::support::Workspace;
use halter_protocol::{Action, ToolCall, ToolErrorCode, ToolSpec};
use halter_tools::left_out_tools;
use serde_json::{Value, json};
use std::path::Path;

/// Set `HALTER_BLESS=1`, with `--all-features`, to write the file anew after a
/// wanted change.
#[test]
fn the_specs_are_the_checked_in_ones() {
    let tools = Workspace::new().tools;
    let pretty = |specs: &[ToolSpec]| serde_json::to_string_pretty(specs).unwrap() + "\n";
    let now = pretty(&tools.specs());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/specs.json");
    if std::env::var_os("HALTER_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let mut golden: Vec<ToolSpec> = serde_json::from_str(&golden).unwrap();
    let left_out = left_out_tools();
    golden.retain(|spec| left_out.iter().all(|it| it.name != spec.name.as_str()));
    assert!(
        pretty(&golden) == now,
        "the specs differ from {}:\n{now}",
        path.display()
    );
}

#[test]
fn every_schema_is_closed_and_every_parameter_explained() {
    for spec in Workspace::new().tools.specs() {
        assert!(!spec.description.is_empty(), "{}", spec.name);
        assert_eq!(spec.input_schema["type"], "object", "{}", spec.name);
        assert_eq!(
            spec.input_schema["additionalProperties"], false,
            "{}",
            spec.name
        );
        for (parameter, schema) in spec.input_schema["properties"].as_object().unwrap() {
            assert!(
                schema["description"].is_string(),
                "{}.{parameter}",
                spec.name
            );
            assert!(schema.get("title").is_none(), "{}.{parameter}", spec.name);
        }
    }
}

#[test]
fn a_tool_that_is_left_out_is_not_built_in() {
    let tools = Workspace::new().tools;
    for left_out in left_out_tools() {
        assert!(tools.spec(left_out.name).is_none(), "{left_out:?}");
    }
}

#[test]
fn what_only_looks_at_a_job_changes_nothing() {
    let tools = Workspace::new().tools;
    for (action, mutating) in [
        ("list", false),
        ("poll", false),
        ("read", false),
        ("list_descendants", false),
        ("write", true),
        ("kill", true),
        ("kill_tree", true),
    ] {
        let call = ToolCall {
            id: "call".into(),
            name: "process".into(),
            arguments: json!({ "action": action }),
        };
        let actions = tools.actions(&call).unwrap();
        assert_eq!(actions, [Action::Other { mutating }], "{action}");
    }
}

#[test]
fn parameters_for_programs_are_taken_and_no_model_is_told_of_them() {
    let tools = Workspace::new().tools;
    let sent = tools.sent_specs();
    let properties = |specs: &[ToolSpec], tool: &str| {
        let spec = specs.iter().find(|spec| spec.name.as_str() == tool);
        spec.unwrap().input_schema["properties"].clone()
    };
    for (tool, parameter) in [
        ("read", "timeout_secs"),
        ("grep", "max_columns"),
        ("edit", "expected_sha256"),
    ] {
        assert!(properties(&tools.specs(), tool)[parameter].is_object());
        assert!(properties(&sent, tool).get(parameter).is_none(), "{tool}");
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_a_tool() {
    let workspace = Workspace::new();
    for (tool, arguments, expected) in [
        ("read", json!({}), "`path` is required and missing"),
        (
            "read",
            json!({"path": "a", "limit": 501}),
            "`limit`: 501 is greater than the maximum of 500",
        ),
        (
            "read",
            json!({"file_path": "a"}),
            "`file_path` is not a parameter",
        ),
        (
            "grep",
            json!({"pattern": "x", "output_mode": "lines"}),
            "`output_mode`: \"lines\" is not one of \"content\"",
        ),
        (
            "glob",
            json!({"pattern": "*", "file_type": "socket"}),
            "`file_type`",
        ),
        (
            "edit",
            json!({"path": "a", "old_string": "", "new_string": "b"}),
            "`old_string`",
        ),
        (
            "shell",
            json!({"command": "true", "env": {"A": 1}}),
            "`env.A`: 1 is not of type \"string\"",
        ),
        (
            "shell",
            json!({"command": "true", "timeout_ms": 0}),
            "`timeout_ms`",
        ),
        (
            "process",
            json!({"action": "stop"}),
            "`action`: \"stop\" is not one of",
        ),
        (
            "task",
            json!({"action": "list", "id": "one"}),
            "`id`: \"one\" is not of type",
        ),
        (
            "read",
            Value::Null,
            "the input: null is not of type \"object\"",
        ),
    ] {
        let message = workspace
            .error(tool, arguments, ToolErrorCode::InvalidArguments)
            .await;
        assert!(message.contains(expected), "{message}");
    }
}
