//! Whose hooks a file holds, what has to be trusted of it, and where its
//! commands run.

use crate::place::{Place, Ran, finish};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn guard(line: &str) -> String {
    let handler = json!({"type": "command", "command": line, "timeout": 300});
    json!({"hooks": {"PreToolUse": [{"hooks": [handler]}]}}).to_string()
}

/// A call of the shell, held against the hooks that hold in a directory.
fn tried_in(place: &Place, directory: &Path) -> Ran {
    let call = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}).to_string();
    let mut command = place.command(["hooks", "test", "PreToolUse", &call, "--json"]);
    finish(command.current_dir(directory).spawn().unwrap())
}

fn tried(place: &Place) -> Ran {
    tried_in(place, &place.work())
}

#[track_caller]
fn blocks(ran: &Ran, part: &str) {
    let trial = ran.expect(3).json();
    assert_eq!(trial["outcome"], "block", "{trial}");
    assert!(trial.to_string().contains(part), "{trial}");
}

#[track_caller]
fn passes_untrusted(ran: &Ran) {
    assert_eq!(ran.expect(0).json()["runs"], json!([]));
    assert!(ran.stderr.contains("not trusted"), "{}", ran.stderr);
}

/// A checkout with a directory below.
fn checkout() -> Place {
    let place = Place::new();
    for folder in [".git", "sub/tools"] {
        std::fs::create_dir_all(place.work().join(folder)).unwrap();
    }
    place
}

fn script(place: &Place, name: &str, text: &str) {
    let path = place.write(name, text);
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_file_that_a_projects_configuration_names_is_trusted_by_its_own_content() {
    let place = checkout();
    place.write("h.json", &guard("echo from the project >&2; exit 2"));
    place.write(
        "halter.toml",
        "version = 1\n[hooks]\nfiles = [\"h.json\"]\n",
    );
    place.halter(["trust", "--yes", "halter.toml"]).expect(0);
    passes_untrusted(&tried(&place));
    place.halter(["trust", "--yes", "h.json"]).expect(0);
    blocks(&tried(&place), "from the project");
    let listed = place.halter(["hooks", "list", "--json"]);
    assert_eq!(listed.expect(0).json()["hooks"][0]["layer"], "project");
    place.write("h.json", &guard("echo something else >&2; exit 2"));
    passes_untrusted(&tried(&place));
}

#[test]
fn commands_of_a_project_run_where_the_user_has_seen_their_files() {
    let place = checkout();
    script(
        &place,
        "tools/guard.sh",
        "echo the one that was seen >&2; exit 2",
    );
    script(&place, "sub/tools/guard.sh", "touch ../../never; exit 0");
    place.write(".claude/settings.json", &guard("sh tools/guard.sh"));
    place
        .halter(["trust", "--yes", ".claude/settings.json"])
        .expect(0);
    blocks(
        &tried_in(&place, &place.work().join("sub")),
        "the one that was seen",
    );
    assert!(!place.root().join("never").exists());
}

#[test]
fn the_project_is_known_from_each_directory_of_it() {
    let place = checkout();
    let sub = place.work().join("sub");
    script(
        &place,
        ".claude/hooks/ok.sh",
        "#!/bin/sh\necho found >&2; exit 2\n",
    );
    let line = "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/ok.sh";
    place.write(".claude/settings.json", &guard(line));
    place
        .halter(["trust", "--yes", ".claude/settings.json"])
        .expect(0);
    blocks(&tried_in(&place, &sub), "found");
    std::fs::remove_file(place.work().join(".claude/settings.json")).unwrap();
    // The user's hooks run where the session works, and know the project, too.
    let own = place.home().join(".config/halter");
    std::fs::create_dir_all(&own).unwrap();
    let line = "echo \"$PWD $CLAUDE_PROJECT_DIR\" >&2; exit 2";
    std::fs::write(own.join("hooks.json"), guard(line)).unwrap();
    let shown = |path: &Path| path.canonicalize().unwrap().display().to_string();
    let both = format!("{} {}", shown(&sub), shown(&place.work()));
    blocks(&tried_in(&place, &sub), &both);
}

#[test]
fn the_users_settings_count_and_local_ones_of_a_project_once_they_are_trusted() {
    let place = checkout();
    std::fs::create_dir(place.home().join(".claude")).unwrap();
    let own = place.home().join(".claude/settings.json");
    std::fs::write(&own, guard("echo from the user >&2; exit 2")).unwrap();
    let ran = tried(&place);
    blocks(&ran, "from the user");
    let listed = place.halter(["hooks", "list", "--json"]);
    assert_eq!(listed.expect(0).json()["hooks"][0]["layer"], "user");
    std::fs::remove_file(&own).unwrap();
    let local = ".claude/settings.local.json";
    place.write(local, &guard("echo from here >&2; exit 2"));
    passes_untrusted(&tried(&place));
    place.halter(["trust", "--yes", local]).expect(0);
    blocks(&tried(&place), "from here");
}

#[test]
fn a_guard_of_edits_hears_of_every_file_whatever_tool_changes_it() {
    let place = checkout();
    let own = place.home().join(".config/halter");
    std::fs::create_dir_all(&own).unwrap();
    // As such guards are written: one path, found in the input.
    let line = "path=$(sed -n 's/.*\"file_path\":\"\\([^\"]*\\)\".*/\\1/p'); \
                case \"$path\" in *.env) echo \"not $path\" >&2; exit 2;; esac";
    let handler = json!({"type": "command", "command": line});
    let file = json!({"hooks": {"PreToolUse": [{"matcher": "Edit|Write", "hooks": [handler]}]}});
    std::fs::write(own.join("hooks.json"), file.to_string()).unwrap();
    let patch = |files: &[&str]| {
        let parts = files
            .iter()
            .map(|file| format!("*** Add File: {file}\n+x\n"));
        let parts: String = parts.collect();
        json!({"patch": format!("*** Begin Patch\n{parts}*** End Patch\n")})
    };
    let edits = |files: &[&str]| {
        let edits = files
            .iter()
            .map(|file| json!({"path": file, "old_string": "a"}));
        json!({"edits": edits.collect::<Vec<Value>>()})
    };
    let rewrite = |file: &str| json!({"action": "replace", "path": file, "dry_run": false});
    for (tool, input, expected) in [
        ("Write", json!({"file_path": ".env"}), "block"),
        ("Write", json!({"file_path": "a.txt"}), "pass"),
        ("write", json!({"path": r"x.\x65nv"}), "block"),
        ("apply_patch", patch(&[".env"]), "block"),
        ("apply_patch", patch(&["a.txt", "b/.env"]), "block"),
        ("apply_patch", patch(&["a.txt", "b.txt"]), "pass"),
        ("MultiEdit", edits(&["a.txt", ".env"]), "block"),
        ("apply_patch", patch(&[r"x.\x65nv", "a.txt"]), "block"),
        ("MultiEdit", edits(&["a.txt", "b.txt"]), "pass"),
        ("rename", json!({"from": ".env", "to": "a.txt"}), "block"),
        ("rename", json!({"from": "a.txt", "to": ".env"}), "block"),
        ("rename", json!({"from": "a.txt", "to": "b.txt"}), "pass"),
        ("delete", json!({"path": ".env"}), "block"),
        ("delete", json!({"path": "a.txt"}), "pass"),
        ("ast_grep", rewrite("b.env"), "block"),
        ("ast_grep", rewrite("a.rs"), "pass"),
        (
            "image",
            json!({"action": "crop", "path": "a.png", "output_path": "b.env"}),
            "block",
        ),
        (
            "browser",
            json!({"action": "screenshot", "output_path": "b.env"}),
            "block",
        ),
        (
            "profile",
            json!({"pid": 7, "output_path": "b.env"}),
            "block",
        ),
    ] {
        let call = json!({"tool_name": tool, "tool_input": input}).to_string();
        let ran = place.halter(["hooks", "test", "PreToolUse", &call, "--json"]);
        let trial = ran.json();
        assert_eq!(trial["outcome"], expected, "{call} {trial}");
        assert_eq!(trial["runs"].as_array().unwrap().len(), 1, "{call}");
    }
    // Who only looks changes nothing that this guard is about.
    for (tool, input) in [
        ("ast_grep", json!({"action": "replace", "path": ".env"})),
        ("image", json!({"action": "info", "path": ".env"})),
        ("read", json!({"path": ".env"})),
    ] {
        let call = json!({"tool_name": tool, "tool_input": input}).to_string();
        let ran = place.halter(["hooks", "test", "PreToolUse", &call, "--json"]);
        assert_eq!(ran.expect(0).json()["runs"], json!([]), "{call}");
    }
}

#[test]
fn a_guard_of_commands_hears_of_every_tool_that_runs_them() {
    let place = checkout();
    let own = place.home().join(".config/halter");
    std::fs::create_dir_all(&own).unwrap();
    let line = "grep -q '\"command\":\"rm ' && { echo not this >&2; exit 2; } || exit 0";
    let whole = json!({"type": "command", "command": line});
    let rule = json!({"type": "command", "command": "exit 2", "if": "Bash(rm *)"});
    for group in [
        json!({"matcher": "Bash", "hooks": [whole]}),
        json!({"matcher": "^(Bash|Edit)$", "hooks": [whole]}),
        json!({"hooks": [rule]}),
    ] {
        let file = json!({"hooks": {"PreToolUse": [group.clone()]}}).to_string();
        std::fs::write(own.join("hooks.json"), file).unwrap();
        for (tool, input, expected) in [
            ("Bash", json!({"command": "rm x"}), "block"),
            (
                "shell",
                json!({"command": "rm x", "background": true}),
                "block",
            ),
            (
                "pty",
                json!({"action": "start", "command": "rm x"}),
                "block",
            ),
            ("pty", json!({"action": "start", "command": "ls"}), "pass"),
            (
                "pty",
                json!({"action": "write", "input": "rm x\n"}),
                "block",
            ),
            ("pty", json!({"action": "read"}), "pass"),
            (
                "process",
                json!({"action": "write", "input": "rm x\n"}),
                "block",
            ),
            ("process", json!({"action": "list"}), "pass"),
            ("profile", json!({"command": "rm x"}), "block"),
            ("profile", json!({"pid": 7}), "pass"),
        ] {
            let call = json!({"tool_name": tool, "tool_input": input}).to_string();
            let trial = place
                .halter(["hooks", "test", "PreToolUse", &call, "--json"])
                .json();
            assert_eq!(trial["outcome"], expected, "{group} {call} {trial}");
        }
    }
}

#[test]
fn hooks_that_hold_with_a_skill_are_listed_so_and_not_tried() {
    let place = Place::new();
    let skill = place.home().join(".claude/skills/careful");
    std::fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: careful\ndescription: Be careful.\nhooks:\n  PreToolUse:\n    - hooks:\n\
                \x20       - type: command\n          command: exit 2\n---\nBe careful.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    let listed = place.halter(["hooks", "list", "--json"]);
    let hooks = listed.expect(0).json()["hooks"].clone();
    assert_eq!(hooks[0]["with"], "skill:careful", "{hooks}");
    let ran = tried(&place);
    assert_eq!(ran.expect(0).json()["runs"], json!([]));
    assert!(
        ran.stderr.contains("it holds with skill:careful"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_directory_that_was_asked_for_says_which_project_it_is() {
    let place = checkout();
    let other = place.root().join("other");
    std::fs::create_dir_all(other.join(".halter")).unwrap();
    std::fs::write(other.join(".halter/hooks.json"), guard("exit 2")).unwrap();
    let file = place.root().join("elsewhere.toml");
    let config = format!("version = 1\n[runtime]\nworking_dir = {:?}\n", place.work());
    std::fs::write(&file, config).unwrap();
    let other = other.to_str().unwrap();
    let file = file.to_str().unwrap();
    let ran = place.halter(["--config", file, "--cwd", other, "hooks", "list"]);
    assert!(
        ran.expect(0).stderr.contains("not trusted"),
        "{}",
        ran.stderr
    );
}

/// A skill or an agent file whose hook runs a script of the project.
fn hooked(name: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: Be careful.\nhooks:\n  PreToolUse:\n    - hooks:\n\
         \x20       - type: command\n          command: ./scripts/check.sh\n---\nBe careful.\n"
    )
}

#[test]
fn a_script_that_a_skill_or_an_agent_names_is_trusted_with_it() {
    let place = checkout();
    script(&place, "scripts/check.sh", "#!/bin/sh\nexit 2\n");
    let listed = || {
        let ran = place.halter(["hooks", "list", "--json"]);
        ran.expect(0).json()["hooks"].as_array().unwrap().len()
    };
    for (file, content) in [
        (".claude/agents/careful.md", ".claude/agents/careful.md"),
        (".claude/skills/careful/SKILL.md", ".claude/skills/careful"),
    ] {
        place.write(file, &hooked("careful"));
        assert_eq!(listed(), 0, "{file}");
        let trusted = place.halter(["trust", "--yes", content]);
        let shown = &trusted.expect(0).stderr;
        assert!(shown.contains("scripts/check.sh, as it is now"), "{shown}");
        assert_eq!(listed(), 1, "{file}");
        script(&place, "scripts/check.sh", "#!/bin/sh\ntouch /tmp/x\n");
        assert_eq!(listed(), 0, "{file}");
        place.halter(["trust", "--yes", content]).expect(0);
        assert_eq!(listed(), 1, "{file}");
        script(&place, "scripts/check.sh", "#!/bin/sh\nexit 2\n");
        std::fs::remove_file(place.work().join(file)).unwrap();
    }
}

/// What hooks run is outside of the sandbox.
#[test]
fn nobody_but_the_user_changes_what_hooks_of_resources_run() {
    let place = checkout();
    script(&place, "plugins/p/guard.sh", "#!/bin/sh\nexit 0\n");
    let line = "${CLAUDE_PLUGIN_ROOT}/guard.sh";
    place.write("plugins/p/hooks/hooks.json", &guard(line));
    place.write(
        "plugins/p/skills/s/SKILL.md",
        "---\nname: s\ndescription: d\n---\nWork.\n",
    );
    script(&place, "scripts/check.sh", "#!/bin/sh\nexit 0\n");
    place.write("skills/careful/SKILL.md", &hooked("careful"));
    let config = place.root().join("named.toml");
    let roots = format!(
        "version = 1\n[resources.plugins]\nroots = [{:?}]\n[resources.skills]\nroots = [{:?}]\n",
        place.work().join("plugins"),
        place.work().join("skills")
    );
    std::fs::write(&config, roots).unwrap();
    let config = config.to_str().unwrap();
    let call = |tool: &str, input: &Value| {
        let input = input.to_string();
        place.halter(["--config", config, "tools", "call", tool, &input])
    };
    let kept = [
        "plugins/p/guard.sh",
        "plugins/p/hooks/hooks.json",
        "scripts/check.sh",
        "skills/careful/SKILL.md",
    ];
    for file in kept {
        let before = std::fs::read_to_string(place.work().join(file)).unwrap();
        let refused = call("write", &json!({"path": file, "content": "exit 2"}));
        let said = &refused.expect(3).stdout;
        assert!(said.contains("hooks run it"), "{said}");
        call("delete", &json!({"path": file})).expect(3);
        call("read", &json!({"path": file})).expect(0);
        let line = format!("echo x >> {file}; mv {file} moved; true");
        call("shell", &json!({"command": line}));
        let after = std::fs::read_to_string(place.work().join(file)).unwrap();
        assert_eq!(before, after, "{file}");
    }
    let other = json!({"path": "plugins/p/skills/s/SKILL.md", "content": "x"});
    call("write", &other).expect(0);
}

/// One hook each of the user, of a plugin and of a skill that are the user's,
/// and of a project that is trusted.
fn hooks_of_all() -> Place {
    let place = checkout();
    let own = |path: &str, text: &str| {
        let path = place.home().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    own(".config/halter/hooks.json", &guard("echo user >&2; exit 2"));
    own(
        ".claude/skills/careful/SKILL.md",
        &hooked("careful").replace("./scripts/check.sh", "exit 2"),
    );
    let plugin = place.root().join("p");
    std::fs::create_dir_all(plugin.join("hooks")).unwrap();
    let line = guard("echo plugin >&2; exit 2");
    std::fs::write(plugin.join("hooks/hooks.json"), line).unwrap();
    place
        .halter(["plugin", "install", plugin.to_str().unwrap()])
        .expect(0);
    place.write(".claude/settings.json", &guard("echo project >&2; exit 2"));
    place
        .halter(["trust", "--yes", ".claude/settings.json"])
        .expect(0);
    place
}

/// The owners of the hooks in force, and what is said of them.
fn in_force(place: &Place) -> (Vec<String>, String) {
    let listed = place.halter(["hooks", "list", "--json"]).expect(0).json();
    let hooks = listed["hooks"].as_array().unwrap().iter();
    let owners = hooks.map(|hook| hook["owner"].as_str().unwrap().to_owned());
    (owners.collect(), listed["warnings"].to_string())
}

#[test]
fn the_user_switches_the_hooks_of_all_files_off() {
    let place = hooks_of_all();
    assert_eq!(
        in_force(&place).0,
        ["p", "project", "user", "skill:careful"]
    );
    blocks(&tried(&place), "user");
    let own = place.home().join(".claude/settings.json");
    std::fs::write(&own, r#"{"disableAllHooks": true}"#).unwrap();
    let (owners, said) = in_force(&place);
    assert_eq!(owners, [""; 0]);
    let shown = format!("`disableAllHooks` of {}: no hooks", own.display());
    assert!(said.contains(&shown), "{said}");
    assert_eq!(tried(&place).expect(0).json()["runs"], json!([]));
    std::fs::write(&own, r#"{"disableAllHooks": false}"#).unwrap();
    blocks(&tried(&place), "user");
}

#[test]
fn a_project_switches_its_own_hooks_off_and_no_others_once_it_is_trusted() {
    let place = hooks_of_all();
    let local = ".claude/settings.local.json";
    place.write(local, r#"{"disableAllHooks": true}"#);
    let (owners, said) = in_force(&place);
    assert_eq!(owners, ["p", "project", "user", "skill:careful"]);
    assert!(said.contains("`disableAllHooks` counts once"), "{said}");
    place.halter(["trust", "--yes", local]).expect(0);
    let (owners, said) = in_force(&place);
    assert_eq!(owners, ["p", "user", "skill:careful"]);
    assert!(said.contains("no hooks of the project run"), "{said}");
    blocks(&tried(&place), "user");
}
