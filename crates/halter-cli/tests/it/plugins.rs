//! Plugins, commands and trust through the binary.

use crate::place::Place;
use std::path::Path;
use std::process::Command;

const SKILL: &str = "---\nname: greet\ndescription: How to greet.\n---\nSay hello to $0.\n";

fn plugin(place: &Place, folder: &str) {
    let write = |path: &str, text: &str| place.write(&format!("{folder}/{path}"), text);
    write(
        ".claude-plugin/plugin.json",
        r#"{"name": "demo", "version": "1.0.0"}"#,
    );
    write("skills/greet/SKILL.md", SKILL);
    write(
        "commands/fix.md",
        "---\ndescription: Fixes.\n---\nFix issue $0.\n",
    );
    write(
        "agents/reviewer.md",
        "---\nname: reviewer\ndescription: Reviews.\n---\nYou review.\n",
    );
    write("hooks/hooks.json", r#"{"hooks": {}}"#);
}

fn git(directory: &Path, words: &[&str]) -> String {
    let ran = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
        .args(words)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_plugin_is_installed_from_a_folder_and_used() {
    let place = Place::new();
    plugin(&place, "source");
    let ran = place.halter(["plugin", "install", "source"]);
    ran.expect(0);
    assert_eq!(
        ran.stdout,
        "installed demo: 1 skills, 1 agents, 1 commands, 1 hook files\n"
    );
    assert!(
        ran.stderr.contains("its hooks run programs as you"),
        "{}",
        ran.stderr
    );
    std::fs::remove_dir_all(place.work().join("source")).unwrap();
    let shown = place.halter(["resources", "--json"]);
    let data = shown.expect(0).json();
    assert_eq!(data["skills"][0]["name"], "demo:greet");
    assert_eq!(data["skills"][0]["origin"], "plugin demo");
    assert_eq!(data["agents"][0]["name"], "demo:reviewer");
    assert_eq!(data["commands"][0]["name"], "demo:fix");
    let text = place.halter(["resources"]);
    text.expect(0);
    assert!(
        text.stdout.contains("\nplugins  1\n  demo 1.0.0  (user: "),
        "{}",
        text.stdout
    );

    let ran = place.halter(["run", "--streaming-json", "/fix 12"]);
    ran.expect(0);
    assert!(ran.stdout.contains("Fix issue 12."), "{}", ran.stdout);
    let ran = place.halter(["run", "--streaming-json", "/greet Ada"]);
    ran.expect(0);
    assert!(ran.stdout.contains("Say hello to Ada."), "{}", ran.stdout);

    let again = place.halter(["plugin", "install", "--json", "."]);
    assert_eq!(again.code, Some(1));
    assert_eq!(again.json()["error"]["code"], "plugin_invalid");
    place.halter(["plugin", "disable", "demo"]).expect(0);
    let listed = place.halter(["plugin", "list"]);
    assert!(
        listed
            .expect(0)
            .stdout
            .starts_with("demo 1.0.0  disabled  ")
    );
    let data = place.halter(["resources", "--json"]).expect(0).json();
    assert_eq!(data["skills"].as_array().unwrap().len(), 0);
    place.halter(["plugin", "enable", "demo"]).expect(0);
    place.halter(["plugin", "remove", "demo"]).expect(0);
    let missing = place.halter(["plugin", "remove", "demo"]);
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.stderr.contains("no plugin 'demo' is installed"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_plugin_of_a_repository_is_pinned_to_a_commit() {
    let place = Place::new();
    plugin(&place, "repository");
    let repository = place.work().join("repository");
    git(&repository, &["init", "--quiet", "--initial-branch=main"]);
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "--quiet", "-m", "first"]);
    let first = git(&repository, &["rev-parse", "HEAD"]);
    git(&repository, &["tag", "v1"]);
    place.write("repository/skills/later/SKILL.md", SKILL);
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "--quiet", "-m", "second"]);
    let second = git(&repository, &["rev-parse", "HEAD"]);
    let address = format!("file://{}", repository.display());
    let installed = place.halter(["plugin", "install", "--json", "--revision", "v1", &address]);
    let data = installed.expect(0).json();
    assert_eq!(
        (&data["commit"], &data["parts"]["skills"]),
        (&first.into(), &1.into())
    );
    place.halter(["plugin", "remove", "demo"]).expect(0);
    let installed = place.halter(["plugin", "install", &address]);
    let line = &installed.expect(0).stdout;
    assert!(
        line.starts_with(&format!("installed demo at {second}: 2 skills")),
        "{line}"
    );
    place.halter(["plugin", "remove", "demo"]).expect(0);
    for (source, revision) in [(address.as_str(), "absent"), ("file:///nowhere", "v1")] {
        let failed = place.halter(["plugin", "install", source, "--revision", revision]);
        assert_eq!(failed.code, Some(1));
        assert!(
            failed.stderr.contains("git could not fetch"),
            "{}",
            failed.stderr
        );
    }
}

#[test]
fn what_a_project_could_run_needs_trust_and_its_words_do_not() {
    let place = Place::new();
    plugin(&place, ".halter/plugins/demo");
    place.write(
        ".claude/agents/cook.md",
        "---\nname: cook\ndescription: Cooks.\n---\nYou cook.\n",
    );
    place.write(".claude/agents/bad.md", "---\nname: bad\n");
    let shown = place.halter(["resources", "--json"]);
    let data = shown.expect(0).json();
    assert_eq!(data["agents"].as_array().unwrap().len(), 2);
    let warnings = data["warnings"].to_string();
    assert!(warnings.contains("bad.md:1: skipped"), "{warnings}");
    assert!(warnings.contains("hooks can run programs"), "{warnings}");
    let folder = ".halter/plugins/demo";
    let refused = place.halter(["trust", folder]);
    assert_eq!(refused.code, Some(2));
    place.halter(["trust", "--yes", folder]).expect(0);
    let trusted = place.halter(["resources", "--json"]).expect(0).json();
    assert!(!trusted["warnings"].to_string().contains("can run programs"));
    assert!(trusted["plugins"][0]["content"].is_string());
    place.write(".halter/plugins/demo/hooks/more.sh", "echo");
    let changed = place.halter(["resources", "--json"]).expect(0).json();
    assert!(changed["warnings"].to_string().contains("can run programs"));
}
