//! A rule that asks about a file asks about every call that would change it,
//! whichever tool makes it and however it names the file.

use crate::support::Workspace;
use halter_protocol::{
    CallToJudge, PermissionMode, PolicyVerdict, RuleEffect, RuleSource, ToolCall,
};
use halter_tools::PolicySettings;
use halter_tools::policy::SourcedRule;
use halter_tools::policy::permission::Permissions;
use serde_json::{Value, json};

/// Changes of `DIR/a.rs`, which is there, by each tool that changes files.
fn changes(directory: &str) -> Vec<(&'static str, Value)> {
    let file = format!("{directory}/a.rs");
    let free = format!("{directory}/new.rs");
    let edit = |path: &str| json!({"path": path, "old_string": "a", "new_string": "b"});
    let patch = |lines: String| {
        let patch = format!("*** Begin Patch\n{lines}\n*** End Patch\n");
        ("apply_patch", json!({ "patch": patch }))
    };
    let mut calls = vec![
        ("write", json!({"path": file, "content": "x"})),
        ("write", json!({"path": free, "content": "x"})),
        ("edit", edit(&file)),
        (
            "multi_edit",
            json!({"edits": [edit("other.rs"), edit(&file)]}),
        ),
        ("delete", json!({"path": file})),
        ("delete", json!({"path": directory, "recursive": true})),
        ("rename", json!({"from": file, "to": "b.rs"})),
        ("rename", json!({"from": "other.rs", "to": free})),
        ("rename", json!({"from": directory, "to": "elsewhere"})),
        (
            "notebook_edit",
            json!({"path": file, "cell_id": "a", "new_source": "x"}),
        ),
        patch(format!("*** Add File: {free}\n+x")),
        patch(format!("*** Update File: {file}\n@@\n-a\n+b")),
        patch(format!("*** Delete File: {file}")),
        patch(format!(
            "*** Update File: {file}\n*** Move to: b.rs\n@@\n-a\n+b"
        )),
        patch(format!(
            "*** Update File: other.rs\n*** Move to: {free}\n@@\n-a\n+b"
        )),
        patch(format!(
            "*** Add File: first.rs\n+x\n*** Update File: {file}\n@@\n-a\n+b"
        )),
        ("shell", json!({"command": format!("rm -r {directory}")})),
        ("shell", json!({"command": format!("sed -i s/a/b/ {file}")})),
    ];
    if cfg!(feature = "ast-tools") {
        for path in [file.as_str(), directory] {
            let rewrite = json!({"action": "replace", "patterns": ["f($A)"], "rewrite": "g($A)",
                "path": path, "dry_run": false});
            calls.push(("ast_grep", rewrite));
        }
    }
    if cfg!(feature = "image-tools") {
        let convert = json!({"action": "convert", "path": "a.png", "format": "jpeg",
            "output_path": format!("{directory}/a.jpg")});
        calls.push(("image", convert));
    }
    if cfg!(feature = "browser-tools") {
        let picture = json!({"action": "screenshot", "output_path": format!("{directory}/a.png")});
        calls.push(("browser", picture));
    }
    if cfg!(feature = "profiling") {
        let graph = json!({"command": "ls", "output_path": format!("{directory}/a.svg")});
        calls.push(("profile", graph));
    }
    if cfg!(feature = "pty") {
        let remove = json!({"action": "start", "command": format!("rm -r {directory}")});
        calls.push(("pty", remove));
    }
    calls
}

fn workspace(rule: &str) -> Workspace {
    let rule = SourcedRule::new(RuleEffect::Ask, rule, RuleSource::User);
    let workspace = Workspace::with_settings(PolicySettings {
        permissions: Permissions {
            mode: PermissionMode::FullAccess,
            rules: vec![rule.unwrap()],
            ..Permissions::default()
        },
        allowed_shell_commands: vec!["*".to_owned()].into(),
        ..PolicySettings::default()
    });
    workspace.put("kept/a.rs", "a");
    workspace.put("plain/a.rs", "a");
    workspace.put("other.rs", "a");
    std::os::unix::fs::symlink("kept", workspace.dir().join("way")).unwrap();
    workspace
}

fn verdict(workspace: &Workspace, tool: &str, arguments: &Value) -> PolicyVerdict {
    let offered = workspace.tools.get(tool).unwrap();
    let call = ToolCall {
        id: "call".into(),
        name: tool.into(),
        arguments: arguments.clone(),
    };
    let mut call = CallToJudge::new(call, offered.actions(arguments));
    call.capabilities = offered.spec().capabilities;
    workspace.policy.judge(&call)
}

#[test]
fn a_rule_that_asks_about_a_file_asks_in_every_tool_that_changes_it() {
    let workspace = workspace("Edit(kept/**)");
    let absolute = workspace.dir().join("kept").display().to_string();
    for directory in ["kept", "./plain/../kept", "way", absolute.as_str()] {
        for (tool, arguments) in changes(directory) {
            let PolicyVerdict::Ask(objection) = verdict(&workspace, tool, &arguments) else {
                panic!("{tool} {arguments} is not asked about");
            };
            assert_eq!(objection.rule, "ask_rule", "{tool} {arguments}");
        }
    }
    for (tool, arguments) in changes("plain") {
        let verdict = verdict(&workspace, tool, &arguments);
        assert_eq!(verdict, PolicyVerdict::Allow, "{tool} {arguments}");
    }
}

#[cfg(feature = "ast-tools")]
#[test]
fn a_rewrite_is_asked_about_for_what_is_below_and_not_for_a_trial() {
    let workspace = workspace("Edit(a.rs)");
    let rewrite = |path: &str, dry_run: bool| {
        json!({"action": "replace", "patterns": ["f($A)"], "rewrite": "g($A)",
            "path": path, "dry_run": dry_run})
    };
    for path in [".", "kept", "kept/a.rs"] {
        let asked = verdict(&workspace, "ast_grep", &rewrite(path, false));
        assert!(matches!(asked, PolicyVerdict::Ask(_)), "{path}: {asked:?}");
        let tried = verdict(&workspace, "ast_grep", &rewrite(path, true));
        assert_eq!(tried, PolicyVerdict::Allow, "{path}");
    }
    // The session's directory is what is meant where no path is.
    let mut whole = rewrite(".", false);
    whole.as_object_mut().unwrap().remove("path");
    let asked = verdict(&workspace, "ast_grep", &whole);
    assert!(matches!(asked, PolicyVerdict::Ask(_)), "{asked:?}");
}

#[cfg(feature = "image-tools")]
#[test]
fn a_rule_that_asks_about_reading_a_picture_asks_before_it_is_converted() {
    let workspace = workspace("Read(kept/**)");
    let convert = json!({"action": "convert", "path": "kept/a.png", "format": "jpeg",
        "output_path": "plain/a.jpg"});
    let asked = verdict(&workspace, "image", &convert);
    assert!(matches!(asked, PolicyVerdict::Ask(_)), "{asked:?}");
}

#[tokio::test]
async fn a_search_leaves_out_what_a_person_would_be_asked_about() {
    let workspace = workspace("Read(kept/**)");
    workspace.put("kept/deep/b.rs", "f(1);\n");
    workspace.put("plain/b.rs", "f(1);\n");
    let mut searches = vec![
        ("grep", json!({"pattern": "f.1", "path": "."})),
        ("glob", json!({"pattern": "**/b.rs"})),
    ];
    if cfg!(feature = "ast-tools") {
        searches.push(("ast_grep", json!({"action": "find", "patterns": ["f($A)"]})));
    }
    for (tool, search) in searches {
        let offered = verdict(&workspace, tool, &search);
        assert_eq!(offered, PolicyVerdict::Allow, "{tool}");
        let found = workspace.ok(tool, search).await;
        assert!(found.to_string().contains("plain/b.rs"), "{tool}: {found}");
        assert!(!found.to_string().contains("deep/b.rs"), "{tool}: {found}");
        let told = [&found["skipped_by_policy"], &found["skipped"]["by_policy"]];
        let told = told.iter().any(|it| it.as_u64() > Some(0));
        assert!(told, "{tool}: {found}");
    }
    // What was asked about by its name is searched.
    let within = json!({"pattern": "f.1", "path": "kept/deep"});
    let asked = verdict(&workspace, "grep", &within);
    assert!(matches!(asked, PolicyVerdict::Ask(_)), "{asked:?}");
    let found = workspace.ok("grep", within).await;
    assert!(found.to_string().contains("b.rs"), "{found}");
}
