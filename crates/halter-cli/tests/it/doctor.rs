//! What the policy says of one call, and of this place.

use crate::place::Place;
use serde_json::Value;

fn place() -> Place {
    let place = Place::new();
    let config = place.home().join(".config/halter");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(
        config.join("halter.toml"),
        "version = 1\n[policy]\nsandbox = \"off\"\n\
         [permissions]\nallow = [\"Bash(make:*)\"]\nask = [\"Bash(git push:*)\"]\n",
    )
    .unwrap();
    place.write(
        "halter.toml",
        "version = 1\n[permissions]\ndeny = [\"Read(secret/**)\"]\n",
    );
    place
}

fn explain(place: &Place, arguments: &[&str]) -> Value {
    let mut all = vec!["policy", "explain", "--json"];
    all.extend(arguments);
    place.halter(all).expect(0).json()
}

#[test]
fn a_call_is_explained_without_running_it() {
    let place = place();
    let push = explain(&place, &["shell", r#"{"command":"ls; git push"}"#]);
    assert_eq!(push["decision"], "ask");
    assert_eq!(push["decided_by"], "ask_rule");
    assert_eq!(push["rules"][0]["rule"], "Bash(git push:*)");
    assert_eq!(push["rules"][0]["fragment"], "git push");
    assert_eq!(push["rules"][0]["source"], "user");
    assert_eq!(push["mode"]["origin"], "default");

    let touch = explain(&place, &["shell", r#"{"command":"terraform apply"}"#]);
    assert_eq!(touch["decision"], "ask");
    assert_eq!(touch["always"], "Bash(terraform apply:*)");
    let made = explain(&place, &["shell", r#"{"command":"make it"}"#]);
    assert_eq!(
        (&made["decision"], &made["rules"][0]["effect"]),
        (&"allow".into(), &"allow".into())
    );

    let secret = explain(&place, &["read", r#"{"path":"secret/key"}"#]);
    assert_eq!(secret["decision"], "deny");
    assert_eq!(secret["policy"]["rule"], "deny_rule");
    assert_eq!(secret["rules"][0]["source"], "project");
    let outside = explain(&place, &["write", r#"{"path":"/etc/x","content":""}"#]);
    assert_eq!(outside["decided_by"], "not_in_root");
    assert_eq!(outside["always"], "Edit(//etc/x)");
    let narrowed = [
        "write",
        r#"{"path":"x","content":""}"#,
        "--permission-mode",
        "read_only",
    ];
    assert_eq!(explain(&place, &narrowed)["decided_by"], "permission_mode");

    let text = place.halter(["policy", "explain", "shell", r#"{"command":"git push"}"#]);
    for part in [
        "runs `git push`",
        "lets it through",
        "the ask rule `Bash(git push:*)`",
        "sandbox   none: a command runs with the rights",
        "decision  ask",
    ] {
        assert!(
            text.expect(0).stdout.contains(part),
            "{part} in {}",
            text.stdout
        );
    }
    place.halter(["policy", "explain", "shel", "{}"]).expect(2);
    place.halter(["policy", "explain", "read", "{"]).expect(2);
    assert_eq!(std::fs::read_dir(place.work()).unwrap().count(), 1);
}

#[test]
fn the_doctor_shows_mode_rules_roots_programs_and_questions() {
    let place = place();
    let found = place.halter(["doctor", "--json"]).expect(0).json();
    assert_eq!(found["settings"]["mode"]["value"], "workspace_write");
    assert_eq!(found["settings"]["write_roots"]["value"][0], ".");
    assert_eq!(found["settings"]["programs"]["origin"], "default");
    let rules: Vec<_> = found["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["rule"])
        .collect();
    assert_eq!(
        rules,
        ["Read(secret/**)", "Bash(git push:*)", "Bash(make:*)"]
    );
    assert!(
        found["rules"][0]["origin"]
            .as_str()
            .unwrap()
            .starts_with("project ")
    );
    let decision = |call: &str| {
        let calls = found["calls"].as_array().unwrap();
        calls.iter().find(|it| it["call"] == call).unwrap()["decision"].clone()
    };
    assert_eq!(decision("write: notes.txt"), "allow");
    assert_eq!(decision("write: /etc/halter-doctor"), "ask");
    assert_eq!(decision("shell: git push"), "ask");
    assert_eq!(decision("shell: git reset --hard"), "ask");
    assert_eq!(decision("shell: make test"), "allow");
    let text = place.halter(["doctor", "--permission-mode", "read_only"]);
    for part in [
        "mode         read_only  (flag --permission-mode)",
        "deny   Read(secret/**)",
        "deny   write: notes.txt",
    ] {
        assert!(
            text.expect(0).stdout.contains(part),
            "{part} in {}",
            text.stdout
        );
    }
}
