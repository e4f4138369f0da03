//! `halter policy check`, as a security engineer uses it.

use crate::place::Place;
use serde_json::{Value, json};

#[test]
fn one_command_is_judged_by_the_list_of_the_line() {
    let place = Place::new();
    let check = |allow: &str, command: &str| {
        let ran = place.halter(["policy", "check", "--allow", allow, "--", command]);
        (ran.code.unwrap(), ran.stdout)
    };
    assert_eq!(check("git,ls", "git status && ls"), (0, "allow\n".into()));
    let (code, said) = check("git,ls", "git status; rm x");
    assert_eq!(code, 3);
    assert!(said.starts_with("deny [shell.unlisted] `rm`: "), "{said}");
    let (code, said) = check("git", "git reset --hard");
    assert_eq!(code, 3);
    assert!(
        said.starts_with("ask [shell.destructive.git_reset_hard] `git reset --hard`: "),
        "{said}"
    );
    assert_eq!(check("*", "make -j4"), (0, "allow\n".into()));
    assert_eq!(check("", "ls").0, 3);
    place.halter(["policy", "check"]).expect(2);
}

#[test]
fn without_a_list_on_the_line_it_says_what_a_session_would_do() {
    let place = Place::new();
    let check = |command: &str| place.halter(["policy", "check", "--", command]);
    assert_eq!(check("wc x").expect(0).stdout, "allow\n");
    let says = |command: &str, start: &str| {
        let said = check(command).expect(3).stdout.clone();
        assert!(said.starts_with(start), "{said}");
    };
    let config = |more: &str| {
        let list = format!("version = 1\n[policy.shell]\nallow = [\"ls\"]\n{more}");
        let file = place.home().join(".config/halter/halter.toml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, list).unwrap();
    };
    config("");
    says("wc x", "ask [shell.not_in_list] `wc");
    assert_eq!(check("ls x").expect(0).stdout, "allow\n");
    says("ls; $program x", "deny [shell.");
    says("ls /etc", "ask [not_in_root]");
    // One mode asks about nothing.
    for (mode, answer) in [
        ("full_access", "ask [shell.not_in_list] `wc"),
        ("allow", "deny [shell.unlisted] `wc"),
    ] {
        config(&format!("[permissions]\nmode = \"{mode}\"\n"));
        says("wc x", answer);
    }
    config("[permissions]\ndeny = [\"Bash(ls:*)\"]\n");
    says("ls x", "deny [deny_rule]");
}

#[test]
fn lines_are_answered_in_order_and_bad_ones_with_an_error() {
    let place = Place::new();
    place.write("a.txt", "a");
    place.write(".env", "key");
    let here = place.work();
    let rooted = |command: &str| {
        json!({"command": command, "allow": ["cat", "cp", "cd", "echo"], "cwd": here,
               "read_roots": ["."], "write_roots": ["out"]})
    };
    let cases: Vec<(Value, &str, Option<&str>)> = vec![
        (json!({"command": "ls", "allow": ["ls"]}), "allow", None),
        (
            json!({"command": "ls $(rm x)", "allow": ["ls"]}),
            "deny",
            Some("shell.unlisted"),
        ),
        (
            json!({"command": "rm -rf x", "allow": ["rm"]}),
            "ask",
            Some("shell.destructive.rm"),
        ),
        // Without roots, files are nobody's business here.
        (
            json!({"command": "cat /etc/shadow", "allow": ["cat"]}),
            "allow",
            None,
        ),
        (rooted("cat a.txt"), "allow", None),
        (rooted("cat missing"), "allow", None),
        (rooted("cat .env"), "deny", Some("sensitive_path")),
        (rooted("cat .en*"), "deny", Some("sensitive_path")),
        (rooted("cat < .env"), "deny", Some("sensitive_path")),
        (rooted("cat /etc/hostname"), "deny", Some("not_in_root")),
        (
            rooted("cd out && cat ../.env"),
            "deny",
            Some("sensitive_path"),
        ),
        (rooted("cd out && cat ../a.txt"), "allow", None),
        (
            rooted("cd \"$x\" && cat a.txt"),
            "deny",
            Some("shell.unknown_directory"),
        ),
        (rooted("cat ~/x"), "deny", Some("shell.home")),
        (rooted("cp a.txt b.txt"), "deny", Some("not_in_root")),
        (rooted("cp a.txt out/b.txt"), "allow", None),
        (rooted("echo x > b.txt"), "deny", Some("not_in_root")),
        (rooted("echo x > out/b.txt 2>/dev/null"), "allow", None),
        (
            rooted("cd / && cat etc/hostname"),
            "deny",
            Some("not_in_root"),
        ),
        (
            rooted("cd out && echo x > ../b.txt"),
            "deny",
            Some("not_in_root"),
        ),
        (
            rooted("echo x > $name"),
            "deny",
            Some("shell.redirection_target"),
        ),
        (
            rooted("echo x > \"$name\""),
            "deny",
            Some("shell.redirection_target"),
        ),
    ];
    let mut input: String = cases.iter().map(|(line, ..)| format!("{line}\n")).collect();
    let judged = place.halter_with_stdin(["policy", "check", "--jsonl"], &input);
    judged.expect(0);
    let answers = judged.lines();
    assert_eq!(answers.len(), cases.len());
    for ((line, decision, rule), answer) in cases.iter().zip(&answers) {
        assert_eq!(answer["decision"], *decision, "{line} {answer}");
        assert_eq!(answer["rule"].as_str(), *rule, "{line} {answer}");
        assert_eq!(answer["message"].is_null(), rule.is_none(), "{answer}");
    }
    input.push_str("not json\n{\"command\":\"ls\",\"allow\":[\"ls\"]}\n");
    let judged = place.halter_with_stdin(["policy", "check", "--jsonl"], &input);
    judged.expect(2);
    let answers = judged.lines();
    assert_eq!(answers.len(), cases.len() + 2);
    assert_eq!(answers[cases.len()]["error"]["code"], "usage");
    assert_eq!(answers[cases.len() + 1]["decision"], "allow");
}
