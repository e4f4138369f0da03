//! Inputs of calls, in public terms and back.

use super::table::{PUBLIC_TOOLS, PublicTool, rewrites, types_text};
use crate::encoding::{escape_path, spelled_path};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The input of a call as a public file expects it: its names of fields, and
/// paths that do not depend on a directory.
#[must_use]
pub fn public_input(tool: &str, input: &Value, cwd: &Path) -> Value {
    let Some(row) = PUBLIC_TOOLS.iter().find(|row| row.name == tool) else {
        return input.clone();
    };
    let Some(fields) = input.as_object() else {
        return input.clone();
    };
    if row.name == "multi_edit" {
        return lift_path(fields, cwd).unwrap_or_else(|| input.clone());
    }
    let names = names_of_fields(row, input);
    let mut public = Map::new();
    for (name, value) in fields {
        // What the tool reads hides what merely looks like it.
        let hidden = |it: &(&str, &str)| it.1 == name && fields.contains_key(it.0);
        if names.iter().any(hidden) {
            continue;
        }
        let theirs = names.iter().find(|(ours, _)| ours == name);
        let value = match row.path == Some(name.as_str()) {
            true => told_path(row, value, cwd),
            false => value.clone(),
        };
        public.insert(theirs.map_or(name.as_str(), |it| it.1).to_owned(), value);
    }
    if row.path.is_none()
        && let [path] = changed_paths(tool, input).as_slice()
    {
        public.insert("file_path".to_owned(), public_path(path, cwd).into());
    }
    Value::Object(public)
}

/// The fields of an input that have another name in public files. What is typed
/// into a program that runs is told as the command line that it is where a shell
/// reads it.
fn names_of_fields(row: &PublicTool, input: &Value) -> &'static [(&'static str, &'static str)] {
    match row.name {
        "pty" if types_text(input) => &[("input", "command")],
        "process" if types_text(input) => &[("job_id", "bash_id"), ("input", "command")],
        _ => row.fields,
    }
}

/// A path of a call's input as public files expect it: absolute, and without
/// the escapes that the tool takes back.
#[must_use]
pub fn public_path(path: &str, cwd: &Path) -> String {
    let path = cwd.join(spelled_path(path));
    let plain: PathBuf = path.components().collect();
    match plain.to_str() {
        Some(text) => text.to_owned(),
        // Not to be told in JSON as it is.
        None => escape_path(&plain),
    }
}

/// The files that a call changes, as it names them, each once. A directory
/// stands for files below it that the call does not name.
#[must_use]
pub fn changed_paths<'a>(tool: &str, input: &'a Value) -> Vec<&'a str> {
    const HEADERS: [&str; 4] = [
        "*** Add File: ",
        "*** Update File: ",
        "*** Delete File: ",
        "*** Move to: ",
    ];
    let mut paths: Vec<&str> = Vec::new();
    let mut add = |path: &'a str| {
        if !path.is_empty() && !paths.contains(&path) {
            paths.push(path);
        }
    };
    let field = |name: &str| input.get(name).and_then(Value::as_str);
    match tool {
        "write" | "edit" | "notebook_edit" | "delete" => {
            field("path").into_iter().for_each(&mut add);
        }
        "rename" => {
            let both = field("from").into_iter().chain(field("to"));
            both.for_each(&mut add);
        }
        "ast_grep" if rewrites(input) => add(field("path").unwrap_or(".")),
        "image" | "browser" | "profile" => {
            field("output_path").into_iter().for_each(&mut add);
        }
        "multi_edit" => {
            let edits = input.get("edits").and_then(Value::as_array);
            let edits = edits.into_iter().flatten();
            edits
                .filter_map(|edit| edit.get("path")?.as_str())
                .for_each(&mut add);
        }
        "apply_patch" => {
            let patch = field("patch");
            for line in patch.unwrap_or_default().lines() {
                // Lines of files begin with a sign of their own.
                let mut named = HEADERS.iter().filter_map(|it| line.strip_prefix(it));
                named.next().map(str::trim).into_iter().for_each(&mut add);
            }
        }
        _ => {}
    }
    paths
}

/// The same as absolute paths, as public files expect them.
#[must_use]
pub fn public_changed_paths(tool: &str, input: &Value, cwd: &Path) -> Vec<Value> {
    let paths = changed_paths(tool, input).into_iter();
    paths.map(|path| public_path(path, cwd).into()).collect()
}

/// The reverse of [`public_input`] for an input that somebody rewrote. What was
/// left as it was, is as it was in `given`; fields that no tool here has are
/// left out.
#[must_use]
pub fn our_input(tool: &str, rewritten: Value, given: &Value, cwd: &Path) -> Value {
    let Some(row) = PUBLIC_TOOLS.iter().find(|row| row.name == tool) else {
        return rewritten;
    };
    let names = names_of_fields(row, &rewritten);
    let Value::Object(fields) = rewritten else {
        return rewritten;
    };
    if row.name == "multi_edit" {
        return Value::Object(push_path_down(fields));
    }
    let mut ours = Map::new();
    for (name, value) in fields {
        if row.only_public.contains(&name.as_str()) && given.get(&name).is_none() {
            continue;
        }
        let own = names.iter().find(|(_, theirs)| *theirs == name);
        let is_ours = own.is_none() && names.iter().any(|(ours, _)| *ours == name);
        let name = own.map_or(name.as_str(), |it| it.0).to_owned();
        let value = match row.path == Some(name.as_str()) && !is_ours {
            true => our_path(row, value, given.get(&name), cwd),
            false => value,
        };
        ours.insert(name, value);
    }
    Value::Object(ours)
}

/// The path in a field of an input.
fn told_path(row: &PublicTool, path: &Value, cwd: &Path) -> Value {
    match path.as_str() {
        // Not a file: content of the session.
        Some(text) if row.name == "read" && text.starts_with("blob:") => path.clone(),
        Some(text) => public_path(text, cwd).into(),
        None => path.clone(),
    }
}

/// The reverse, for a path that may have been rewritten.
fn our_path(row: &PublicTool, path: Value, before: Option<&Value>, cwd: &Path) -> Value {
    match (before, path.as_str()) {
        (Some(before), _) if path == told_path(row, before, cwd) => before.clone(),
        (_, Some(text)) => escape_path(Path::new(text)).into(),
        _ => path,
    }
}

/// Edits that all name one file, with that file named once.
fn lift_path(fields: &Map<String, Value>, cwd: &Path) -> Option<Value> {
    let edits = fields.get("edits")?.as_array()?;
    let path = edits.first()?.get("path")?;
    if edits.iter().any(|edit| edit.get("path") != Some(path)) {
        return None;
    }
    let mut public = fields.clone();
    let without_path = edits.iter().map(|edit| {
        let mut edit = edit.clone();
        if let Some(fields) = edit.as_object_mut() {
            fields.remove("path");
        }
        edit
    });
    public.insert("edits".to_owned(), without_path.collect());
    let path = path.as_str()?;
    public.insert("file_path".to_owned(), public_path(path, cwd).into());
    Some(Value::Object(public))
}

fn push_path_down(mut fields: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::String(path)) = fields.remove("file_path")
        && let Some(Value::Array(edits)) = fields.get_mut("edits")
    {
        for edit in edits.iter_mut().filter_map(Value::as_object_mut) {
            let path = || escape_path(Path::new(&path)).into();
            edit.entry("path").or_insert_with(path);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_input_survives_the_way_to_a_public_file_and_back() {
        let cwd = Path::new("/project");
        for (tool, ours, public) in [
            (
                "shell",
                json!({"command": "ls", "timeout_ms": 5, "background": true, "cwd": "x"}),
                json!({"command": "ls", "timeout": 5, "run_in_background": true, "cwd": "x"}),
            ),
            (
                "read",
                json!({"path": "src/a.rs", "limit": 3}),
                json!({"file_path": "/project/src/a.rs", "limit": 3}),
            ),
            (
                "write",
                json!({"path": "/tmp/x", "content": "y"}),
                json!({"file_path": "/tmp/x", "content": "y"}),
            ),
            (
                "read",
                json!({"path": "blob:abc"}),
                json!({"file_path": "blob:abc"}),
            ),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "new_source": "1"}),
                json!({"notebook_path": "/project/n.ipynb", "new_source": "1"}),
            ),
            (
                "process",
                json!({"action": "write", "job_id": "1", "input": "ls\n"}),
                json!({"action": "write", "bash_id": "1", "command": "ls\n"}),
            ),
            (
                "pty",
                json!({"action": "write", "input": "ls", "keys": ["Enter"]}),
                json!({"action": "write", "command": "ls", "keys": ["Enter"]}),
            ),
            (
                "pty",
                json!({"action": "start", "command": "ls", "input": "x"}),
                json!({"action": "start", "command": "ls", "input": "x"}),
            ),
            (
                "grep",
                json!({"pattern": "x", "ignore_case": true, "context_before": 2}),
                json!({"pattern": "x", "-i": true, "-B": 2}),
            ),
            (
                "spawn_agent",
                json!({"message": "look", "agent_type": "reviewer"}),
                json!({"prompt": "look", "subagent_type": "reviewer"}),
            ),
            ("custom", json!({"path": "a"}), json!({"path": "a"})),
            ("read", json!("rubbish"), json!("rubbish")),
        ] {
            assert_eq!(public_input(tool, &ours, cwd), public, "{tool}");
            assert_eq!(our_input(tool, public, &ours, cwd), ours, "{tool}");
        }
    }

    #[test]
    fn a_path_is_told_as_the_tool_reads_it() {
        let cwd = Path::new("/p");
        for (spelled, told) in [
            (r"x.\x65nv", "/p/x.env"),
            (r"a\\b", r"/p/a\b"),
            (r"a\b", r"/p/a\b"),
            // No tool knows of a home directory.
            ("~/x", "/p/~/x"),
            ("./a//b", "/p/a/b"),
            (".", "/p"),
            (r"/q/\xff", r"/q/\xff"),
            ("blob:x", "/p/blob:x"),
        ] {
            let ours = json!({"path": spelled, "content": "y"});
            let public = public_input("write", &ours, cwd);
            assert_eq!(public["file_path"], told);
            assert_eq!(our_input("write", public, &ours, cwd), ours);
            let edits = json!({"edits": [{"path": spelled}]});
            assert_eq!(public_input("multi_edit", &edits, cwd)["file_path"], told);
            let patch = json!({"patch": format!("*** Add File: {spelled}\n+x\n")});
            assert_eq!(public_input("apply_patch", &patch, cwd)["file_path"], told);
        }
        // What a hook writes is no escape, and reaches the tool as it is.
        let rewritten = json!({"file_path": r"/p/\x65"});
        let back = our_input("write", rewritten, &json!({"path": "a"}), cwd);
        assert_eq!(back, json!({"path": r"/p/\\x65"}));
    }

    #[test]
    fn a_field_that_no_tool_reads_hides_none_that_it_does() {
        let input = json!({"path": ".env", "file_path": "notes.txt"});
        let told = public_input("write", &input, Path::new("/p"));
        assert_eq!(told, json!({"file_path": "/p/.env"}));
        let typed = json!({"action": "write", "input": "rm x", "command": "ls"});
        let told = public_input("pty", &typed, Path::new("/p"));
        assert_eq!(told, json!({"action": "write", "command": "rm x"}));
    }

    #[test]
    fn edits_of_one_file_name_it_once() {
        let cwd = Path::new("/p");
        let ours = json!({"edits": [{"path": "/p/a", "old_string": "1", "new_string": "2"}]});
        let public = json!({
            "file_path": "/p/a",
            "edits": [{"old_string": "1", "new_string": "2"}],
        });
        assert_eq!(public_input("multi_edit", &ours, cwd), public);
        assert_eq!(our_input("multi_edit", public, &ours, cwd), ours);
        let two = json!({"edits": [{"path": "a"}, {"path": "b"}]});
        assert_eq!(public_input("multi_edit", &two, cwd), two);
    }

    #[test]
    fn a_patch_names_its_file_as_edits_do() {
        let cwd = Path::new("/p");
        let patch =
            "*** Begin Patch\n*** Update File: a.ts\n@@\n-x\n+*** Add File: b\n*** End Patch";
        let ours = json!({"patch": patch});
        let public = public_input("apply_patch", &ours, cwd);
        assert_eq!(public["file_path"], "/p/a.ts");
        assert_eq!(our_input("apply_patch", public, &ours, cwd), ours);
        let patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Delete File: /c\n";
        let several = json!({"patch": patch});
        assert_eq!(public_input("apply_patch", &several, cwd), several);
        let named = public_changed_paths("apply_patch", &several, cwd);
        assert_eq!(named, ["/p/a", "/p/b", "/c"]);
    }

    #[test]
    fn what_only_public_files_know_is_left_out() {
        let given = json!({"command": "ls"});
        let rewritten = json!({"command": "ls -l", "description": "list"});
        let back = our_input("shell", rewritten, &given, Path::new("/"));
        assert_eq!(back, json!({"command": "ls -l"}));
    }
}
