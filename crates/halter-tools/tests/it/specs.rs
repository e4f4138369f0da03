//! The specs are part of every prompt: a change of theirs must be seen.

use crate::support::Workspace;
use halter_protocol::{ToolConcurrency, ToolErrorCode};
use halter_tools::{ToolStatus, known_tools};
use serde_json::{Value, json};
use std::path::Path;

/// Set `HALTER_BLESS=1` to write the file anew after a wanted change.
#[test]
fn the_specs_are_the_checked_in_ones() {
    let specs = Workspace::new().tools.specs();
    let now = serde_json::to_string_pretty(&specs).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/specs.json");
    if std::env::var_os("HALTER_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(
        golden == now,
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
fn classes_and_capabilities_are_right() {
    let tools = Workspace::new().tools;
    for (name, concurrency, mutating, requires_approval, cancellable, long_running) in [
        ("read", ToolConcurrency::ReadOnly, false, false, true, false),
        ("glob", ToolConcurrency::ReadOnly, false, false, true, false),
        ("grep", ToolConcurrency::ReadOnly, false, false, true, false),
        (
            "write",
            ToolConcurrency::Exclusive,
            true,
            false,
            true,
            false,
        ),
        ("edit", ToolConcurrency::Exclusive, true, false, true, false),
        ("shell", ToolConcurrency::Exclusive, true, true, true, true),
        (
            "process",
            ToolConcurrency::Exclusive,
            true,
            false,
            true,
            false,
        ),
        (
            "task",
            ToolConcurrency::Exclusive,
            false,
            false,
            false,
            false,
        ),
    ] {
        let spec = tools.spec(name).unwrap();
        let capabilities = spec.capabilities;
        assert_eq!(spec.concurrency, concurrency, "{name}");
        assert_eq!(tools.concurrency_for(name), concurrency, "{name}");
        assert_eq!(
            [
                capabilities.mutating,
                capabilities.requires_approval,
                capabilities.cancellable,
                capabilities.long_running
            ],
            [mutating, requires_approval, cancellable, long_running],
            "{name}"
        );
    }
}

#[test]
fn the_available_tools_are_the_built_in_ones() {
    let available: Vec<_> = known_tools()
        .iter()
        .filter(|tool| tool.status == ToolStatus::Available)
        .map(|tool| tool.name)
        .collect();
    let tools = Workspace::new().tools;
    let names: Vec<_> = tools.names().map(|name| name.as_str()).collect();
    assert_eq!(names, available);
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_a_tool() {
    let workspace = Workspace::new();
    for (tool, arguments, expected) in [
        ("read", json!({}), "`path` is required and missing"),
        (
            "read",
            json!({"path": "a", "limit": 501}),
            "`limit` must be at most 500, but 501 was given",
        ),
        (
            "read",
            json!({"file_path": "a"}),
            "`file_path` is not a parameter",
        ),
        (
            "grep",
            json!({"pattern": "x", "output_mode": "lines"}),
            "`output_mode` must be one of \"content\", \"count\", \"files_with_matches\"",
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
            "`env.A` must be a string, but 1 was given",
        ),
        (
            "shell",
            json!({"command": "true", "timeout_ms": 0}),
            "`timeout_ms`",
        ),
        (
            "process",
            json!({"action": "kill"}),
            "`action` must be one of",
        ),
        (
            "task",
            json!({"action": "list", "id": "one"}),
            "`id` must be a whole number",
        ),
        (
            "read",
            Value::Null,
            "the input must be an object, but null was given",
        ),
    ] {
        let message = workspace
            .error(tool, arguments, ToolErrorCode::InvalidArguments)
            .await;
        assert!(message.contains(expected), "{message}");
    }
}
