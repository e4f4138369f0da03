//! Permission rules and modes, through the whole binary.

use crate::place::{Place, Ran};
use crate::scenarios::stage::{ANTHROPIC, Stage};

fn shell(place: &Place, command: &str, more: &[&str]) -> Ran {
    let input = serde_json::json!({ "command": command }).to_string();
    let mut arguments = vec!["tools", "call", "shell", &input];
    arguments.extend(more);
    place.halter(arguments)
}

fn write(place: &Place, path: &str, more: &[&str]) -> Ran {
    let input = serde_json::json!({ "path": path, "content": "x\n" }).to_string();
    let mut arguments = vec!["tools", "call", "write", &input];
    arguments.extend(more);
    place.halter(arguments)
}

#[track_caller]
fn denied(ran: &Ran, why: &str) {
    let error = &ran.expect(3).json()["error"];
    assert_eq!(error["code"], "policy_denied");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(why), "{message}");
}

#[test]
fn a_deny_rule_in_a_file_denies_a_model_s_call() {
    let stage = Stage::new(&ANTHROPIC[0]);
    let settings = "[policy.shell]\nallow = [\"printf\"]\n";
    stage.configure(settings);
    let allowed = stage.play("bash_stdout_roundtrip");
    assert_eq!(allowed.tools(), [("shell".to_owned(), "ok".to_owned())]);

    let stage = Stage::new(&ANTHROPIC[0]);
    stage.configure(&format!(
        "{settings}[permissions]\ndeny = [\"Bash(printf:*)\"]\n"
    ));
    let played = stage.play("bash_stdout_roundtrip");
    let denied = &played.one("tool_execution_completed")["outcome"]["result"]["error"];
    assert_eq!(denied["code"], "policy_denied");
    let message = denied["message"].as_str().unwrap();
    assert!(
        message.contains("the deny rule `Bash(printf:*)` (user, ")
            && message.contains("service.toml:"),
        "{message}"
    );
    assert!(played.all("tool_execution_started").is_empty());
}

#[test]
fn rules_of_a_file_found_in_the_project_only_narrow() {
    let place = Place::new();
    place.write(
        "halter.toml",
        "version = 1\n[permissions]\nmode = \"allow\"\nallow = [\"Bash(touch:*)\"]\n\
         deny = [\"Bash(git push:*)\", \"Edit(secret/**)\"]\n",
    );
    let push = shell(&place, "git status && git push", &[]);
    denied(&push, "the deny rule `Bash(git push:*)` (project, ");
    assert!(
        push.stderr.contains("a project never widens"),
        "{}",
        push.stderr
    );
    denied(&write(&place, "secret/x", &[]), "Edit(secret/**)");
    write(&place, "open.txt", &[]).expect(0);
    shell(&place, "touch widened", &[]).expect(3);
    place.halter(["trust", "-y"]).expect(0);
    shell(&place, "touch widened", &[]).expect(3);
    assert!(!place.work().join("widened").exists());
}

#[test]
fn flags_add_rules_and_choose_the_mode() {
    let place = Place::new();
    denied(
        &shell(&place, "ls", &["--deny", "bash(ls)"]),
        "the deny rule `bash(ls)` (cli)",
    );
    denied(
        &write(&place, "a", &["--permission-mode", "read_only"]),
        "read_only",
    );
    denied(
        &write(&place, "a", &["--permission-mode", "prompt"]),
        "prompt",
    );
    let allowed = ["--permission-mode", "prompt", "--allow", "Edit(./a)"];
    write(&place, "a", &allowed).expect(0);
    denied(&write(&place, "b", &allowed), "prompt");
    shell(&place, "ls", &["--permission-mode", "read_only"]).expect(0);
    denied(
        &shell(&place, "cargo build", &["--permission-mode", "read_only"]),
        "read_only",
    );
}

#[test]
fn a_tool_that_is_denied_as_a_whole_is_not_offered() {
    let place = Place::new();
    let config = place.root().join("rules.toml");
    std::fs::write(
        &config,
        "version = 1\n[permissions]\ndeny = [\"WRITE\", \"Bash(rm:*)\"]\n",
    )
    .unwrap();
    let listed = place.halter([
        "--config",
        config.to_str().unwrap(),
        "tools",
        "list",
        "--json",
    ]);
    let listed = listed.expect(0).json();
    let is_offered = |name: &str| {
        let mut tools = listed.as_array().unwrap().iter();
        let tool = tools.find(|tool| tool["name"] == name).unwrap();
        tool.get("unavailable").is_none()
    };
    let offered = ["write", "shell", "edit"].map(is_offered);
    assert_eq!(offered, [false, true, true], "{listed}");
}

/// The policy of the seed's file.
const SEED: &str = "version = 1\n[policy]\nallowed_write_roots = [\"./\", \"/tmp/halter\"]\n\
    max_read_bytes = 1048576\n[policy.shell]\nenabled = true\n\
    allow = [\"git\", \"cargo\", \"rg\", \"ls\", \"find\"]\ntimeout_secs = 30\n";

#[test]
fn with_the_seed_s_file_nobody_has_to_attend() {
    let place = Place::new();
    let config = place.root().join("seed.toml");
    std::fs::write(&config, SEED).unwrap();
    let seed = ["--config", config.to_str().unwrap()];
    shell(
        &place,
        "git init -q . && ls | rg -v zzz; find . -maxdepth 1",
        &seed,
    )
    .expect(0);
    write(&place, "src/a.rs", &seed).expect(0);
    denied(&shell(&place, "touch x", &seed), "touch");
    denied(&write(&place, "/etc/x", &seed), "allowed_write_roots");
    // A person would be asked, and there is none.
    denied(&shell(&place, "git reset --hard", &seed), "approve");
}

#[test]
fn no_rule_passes_a_list_that_the_user_has_set() {
    let place = Place::new();
    let config = place.root().join("set.toml");
    std::fs::write(&config, "version = 1\n[policy.shell]\nallow = [\"ls\"]\n").unwrap();
    let config = config.to_str().unwrap();
    let all = [
        "--config",
        config,
        "--permission-mode",
        "allow",
        "--allow",
        "Bash",
    ];
    denied(&shell(&place, "touch x", &all), "touch");
    shell(&place, "ls", &all).expect(0);
}

#[test]
fn a_bad_rule_is_refused_with_its_place_and_the_nearest_rule() {
    let place = Place::new();
    place.write(
        "halter.toml",
        "version = 1\n[permissions]\ndeny = [\n  \"Bash(ls)\",\n  \"Bash(git:* push)\",\n]\n",
    );
    let ran = shell(&place, "ls", &[]);
    ran.expect(2);
    let error = format!("{}{}", ran.stdout, ran.stderr);
    for part in [
        "halter.toml:5:12",
        "`:*` stands at the end only",
        "Bash(git * push)",
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
    place.write("halter.toml", "version = 1\n");
    let ran = shell(&place, "ls", &["--deny", "git push"]);
    ran.expect(2);
    assert!(ran.stderr.contains("Bash(git push:*)"), "{}", ran.stderr);
    shell(&place, "ls", &["--permission-mode", "yolo"]).expect(2);
    let ran = shell(&place, "ls", &["--deny", "Read([z-a])"]);
    assert!(
        ran.expect(2).stderr.contains("Read([z-a])"),
        "{}",
        ran.stderr
    );
}

#[test]
fn examples_of_a_rule_are_checked_when_it_is_loaded() {
    let place = Place::new();
    let config = place.root().join("rules.toml");
    let text = |not: &str| {
        format!(
            "version = 1\n[[permissions.deny]]\nrule = \"Bash(git push:*)\"\n\
             match = [\"git push -f\", \"ls; git push\"]\nnot_match = [\"{not}\"]\n"
        )
    };
    let named = ["--config", config.to_str().unwrap()];
    std::fs::write(&config, text("git pull")).unwrap();
    shell(&place, "ls", &named).expect(0);
    std::fs::write(&config, text("git push origin")).unwrap();
    let ran = shell(&place, "ls", &named);
    ran.expect(2);
    let error = format!("{}{}", ran.stdout, ran.stderr);
    assert!(error.contains("rules.toml:2:"), "{error}");
    assert!(error.contains("covers \\\"git push origin\\\""), "{error}");
}
