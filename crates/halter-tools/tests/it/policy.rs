//! Every path-bearing argument of every tool goes through the door.

use crate::support::Workspace;
use halter_protocol::ToolErrorCode;
use halter_tools::PolicySettings;
use serde_json::{Value, json};

/// Every argument of every tool that names a path, as a call with that path.
fn path_arguments(path: &str) -> Vec<(&'static str, &'static str, Value)> {
    let directory = path.rsplit_once('/').map_or(".", |(parent, _)| parent);
    let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n");
    let edit = json!({"path": path, "old_string": "secret", "new_string": "x"});
    let cell = json!({"path": path, "cell_id": "a", "new_source": "x"});
    let mut calls = vec![
        ("apply_patch", "patch", json!({"patch": patch})),
        ("multi_edit", "edits", json!({"edits": [edit]})),
        ("delete", "path", json!({"path": path})),
        ("rename", "from", json!({"from": path, "to": "b"})),
        ("rename", "to", json!({"from": "plain", "to": path})),
        ("list", "path", json!({"path": directory})),
        ("notebook_edit", "path", cell),
        ("read", "path", json!({"path": path})),
        ("write", "path", json!({"path": path, "content": "x"})),
        (
            "edit",
            "path",
            json!({"path": path, "old_string": "secret", "new_string": "x"}),
        ),
        ("grep", "path", json!({"pattern": "secret", "path": path})),
        (
            "grep",
            "path",
            json!({"pattern": "secret", "path": directory}),
        ),
        ("glob", "path", json!({"pattern": "*", "path": directory})),
        (
            "glob",
            "pattern",
            json!({"pattern": format!("{directory}/*")}),
        ),
        ("shell", "cwd", json!({"command": "pwd", "cwd": directory})),
    ];
    if cfg!(feature = "ast-tools") {
        for path in [path, directory] {
            let find = json!({"action": "find", "patterns": ["f($A)"], "path": path});
            calls.push(("ast_grep", "path", find));
        }
    }
    if cfg!(feature = "pty") {
        let start = json!({"action": "start", "command": "pwd", "cwd": directory});
        calls.push(("pty", "cwd", start));
    }
    if cfg!(feature = "profiling") {
        let sampled = json!({"command": "pwd", "cwd": directory});
        calls.push(("profile", "cwd", sampled));
    }
    if cfg!(feature = "image-tools") {
        calls.push(("image", "path", json!({"action": "info", "path": path})));
    }
    calls
}

#[test]
fn the_table_names_every_path_argument() {
    let mut expected: Vec<(String, String)> = Vec::new();
    for spec in Workspace::new().tools.specs() {
        let properties = spec.input_schema["properties"].as_object().unwrap();
        for parameter in properties.keys() {
            let names_paths = ["path", "cwd", "from", "to", "edits", "patch"];
            if names_paths.contains(&parameter.as_str())
                || (parameter == "pattern" && spec.name.as_str() == "glob")
            {
                expected.push((spec.name.to_string(), parameter.clone()));
            }
        }
    }
    let mut covered: Vec<(String, String)> = path_arguments("a/b")
        .into_iter()
        .map(|(tool, parameter, _)| (tool.to_owned(), parameter.to_owned()))
        .collect();
    expected.sort();
    covered.sort();
    covered.dedup();
    assert_eq!(covered, expected);
}

/// A secret outside, and links inside that lead to it.
fn with_secret() -> Workspace {
    let workspace = Workspace::with_open_shell();
    std::fs::create_dir(workspace.outside().join("vault")).unwrap();
    std::fs::write(workspace.outside().join("vault/file"), "secret").unwrap();
    let vault = workspace.outside().join("vault");
    std::os::unix::fs::symlink(vault, workspace.dir().join("link")).unwrap();
    workspace.put("plain", "nothing");
    workspace
}

#[tokio::test]
async fn paths_outside_are_denied_however_they_are_spelled() {
    let workspace = with_secret();
    let absolute = workspace.outside().join("vault/file");
    for path in [absolute.to_str().unwrap(), "../vault/file", "link/file"] {
        for (tool, _, arguments) in path_arguments(path) {
            let shown = format!("{tool} {arguments}");
            let message = workspace
                .error(tool, arguments, ToolErrorCode::PolicyDenied)
                .await;
            assert!(!message.is_empty(), "{shown}");
        }
    }
    let secret = std::fs::read_to_string(absolute).unwrap();
    assert_eq!(secret, "secret");
}

#[tokio::test]
async fn sensitive_files_are_denied_to_every_tool() {
    let workspace = Workspace::new();
    workspace.put("conf/.env", "secret\n");
    workspace.put("conf/plain", "nothing\n");
    for (tool, arguments) in [
        ("read", json!({"path": "conf/.env"})),
        ("write", json!({"path": "conf/.env", "content": "x"})),
        (
            "edit",
            json!({"path": "conf/.env", "old_string": "secret", "new_string": "x"}),
        ),
        ("grep", json!({"pattern": "secret", "path": "conf/.env"})),
    ] {
        let message = workspace
            .error(tool, arguments, ToolErrorCode::PolicyDenied)
            .await;
        assert!(message.contains("sensitive"), "{message}");
    }
    let result = workspace
        .ok("grep", json!({"pattern": "secret", "glob": ".env"}))
        .await;
    assert_eq!(result["matches"], json!([]));
    assert_eq!(result["skipped"]["by_policy"], 1);
    assert_eq!(workspace.get("conf/.env"), "secret\n");
}

#[tokio::test]
async fn special_files_are_denied_without_waiting() {
    let workspace = Workspace::new();
    workspace.fifo("pipe");
    for (tool, arguments) in [
        ("read", json!({"path": "pipe"})),
        ("write", json!({"path": "pipe", "content": "x"})),
        (
            "edit",
            json!({"path": "pipe", "old_string": "a", "new_string": "b"}),
        ),
        ("grep", json!({"pattern": "x", "path": "pipe"})),
    ] {
        workspace
            .error(tool, arguments, ToolErrorCode::PolicyDenied)
            .await;
    }
}

#[tokio::test]
async fn a_shell_that_is_off_runs_nothing() {
    let workspace = Workspace::with_settings(PolicySettings {
        shell_enabled: false,
        ..PolicySettings::default()
    });
    let message = workspace
        .error(
            "shell",
            json!({"command": "true"}),
            ToolErrorCode::PolicyDenied,
        )
        .await;
    assert!(message.contains("policy.shell.enabled"), "{message}");
    assert!(!workspace.store.scratch().path().exists());
}

#[tokio::test]
async fn a_program_that_is_not_listed_is_not_run() {
    let workspace = Workspace::with_settings(PolicySettings {
        allowed_shell_commands: vec!["ls".to_owned()].into(),
        ..PolicySettings::default()
    });
    let message = workspace
        .error(
            "shell",
            json!({"command": "touch made"}),
            ToolErrorCode::PolicyDenied,
        )
        .await;
    assert!(message.contains("touch"), "{message}");
    assert!(!workspace.dir().join("made").exists());
}

#[tokio::test]
async fn variables_that_choose_code_are_denied() {
    let workspace = Workspace::with_open_shell();
    for name in [
        "PATH",
        "LD_PRELOAD",
        "BASH_ENV",
        "GIT_SSH_COMMAND",
        "HALTER_EXEC_TREE",
        "not a name",
    ] {
        let arguments = json!({"command": "true", "env": {name: "x"}});
        let message = workspace
            .error("shell", arguments, ToolErrorCode::PolicyDenied)
            .await;
        assert!(message.contains(name), "{message}");
    }
}

#[tokio::test]
async fn a_value_with_a_nul_byte_is_denied() {
    let workspace = Workspace::with_open_shell();
    let arguments = json!({"command": "true", "env": {"A": "x\0y"}});
    workspace
        .error("shell", arguments, ToolErrorCode::PolicyDenied)
        .await;
}

#[tokio::test]
async fn processes_of_others_are_denied() {
    let workspace = Workspace::new();
    let own = std::process::id();
    for pid in [1, own] {
        for action in ["kill_tree", "list_descendants"] {
            let arguments = json!({"action": action, "pid": pid, "signal": 15});
            workspace
                .error("process", arguments, ToolErrorCode::PolicyDenied)
                .await;
        }
    }
}
