//! Guards that were written for other harnesses name the tools that change files
//! and run commands there. Whatever does so here has to be in the table that
//! says so.

use halter_protocol::Action;
use halter_protocol::public_tools::{public_changed_paths, public_input, public_path, public_tool};
use halter_tools::builtin_tools;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const FILE: &str = "src/guarded.env";

/// Tools of public files that change files, by our names.
const CHANGES_FILES: [&str; 4] = ["write", "edit", "multi_edit", "notebook_edit"];

/// Values that fit a schema: all of a list, both of a yes or no, else one, which
/// names a file where a text may stand.
fn values(schema: &Value) -> Vec<Value> {
    if let Some(listed) = schema["enum"].as_array() {
        return listed.iter().filter(|it| !it.is_null()).cloned().collect();
    }
    if let Some(only) = schema.get("const") {
        return vec![only.clone()];
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[choice].as_array() {
            return choices.iter().flat_map(values).collect();
        }
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    match kinds.first().and_then(Value::as_str) {
        Some("string") => vec![json!(FILE)],
        Some("boolean") => vec![json!(true), json!(false)],
        Some("integer" | "number") => vec![json!(1)],
        Some("array") => vec![json!([values(&schema["items"]).first()])],
        Some("object") => objects(schema, |_| true).into_iter().take(1).collect(),
        _ => Vec::new(),
    }
}

/// Every combination of the values of an object's properties.
fn objects(schema: &Value, wanted: impl Fn(&str) -> bool) -> Vec<Value> {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let mut made = vec![Map::new()];
    for (name, schema) in properties.iter().filter(|(name, _)| wanted(name)) {
        let values = match name.as_str() {
            "patch" => vec![json!(format!(
                "*** Begin Patch\n*** Add File: {FILE}\n+x\n*** End Patch\n"
            ))],
            _ => values(schema),
        };
        if values.is_empty() {
            continue;
        }
        made = made
            .iter()
            .flat_map(|object| {
                values.iter().map(move |value| {
                    let mut object = object.clone();
                    object.insert(name.clone(), value.clone());
                    object
                })
            })
            .collect();
    }
    made.into_iter().map(Value::Object).collect()
}

#[test]
fn a_guard_means_every_tool_that_changes_files_or_runs_commands() {
    let cwd = Path::new("/p");
    let (mut writing, mut running) = (BTreeSet::new(), BTreeSet::new());
    for tool in builtin_tools() {
        let spec = tool.spec();
        let name = spec.name.as_str();
        let schema = &spec.input_schema;
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        // A choice is made in either case.
        let least = |it: &str| required.contains(&json!(it)) || it == "dry_run";
        let whole = objects(schema, |_| true).into_iter();
        for input in whole.chain(objects(schema, least)) {
            let work = public_tool(name).map(|row| row.work_of(&input).collect::<Vec<_>>());
            let work = work.unwrap_or_default();
            let means = |tool: &str| name == tool || work.contains(&tool);
            for action in tool.actions(&input) {
                match action {
                    Action::Write { path } => {
                        writing.insert(name.to_owned());
                        let path = public_path(path.to_str().unwrap(), cwd);
                        assert!(
                            CHANGES_FILES.iter().any(|it| means(it)),
                            "{name} changes {path}, and no guard of edits hears of it: it needs \
                             a row in `PUBLIC_TOOLS`: {input}"
                        );
                        let told = public_changed_paths(name, &input, cwd);
                        assert!(told.contains(&json!(path)), "{name} {input}: {told:?}");
                    }
                    Action::Run { command, .. } => {
                        running.insert(name.to_owned());
                        assert!(
                            means("shell"),
                            "{name} runs commands, and no guard of commands hears of it: it \
                             needs a row in `PUBLIC_TOOLS`: {input}"
                        );
                        let told = public_input(name, &input, cwd);
                        assert_eq!(told["command"], command, "{name} {input}");
                    }
                    _ => {}
                }
            }
        }
    }
    for name in CHANGES_FILES
        .iter()
        .chain(&["apply_patch", "rename", "delete"])
    {
        assert!(writing.contains(*name), "{name} was not seen: {writing:?}");
    }
    assert!(running.contains("shell"), "{running:?}");
}
