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

#[test]
fn a_broken_record_puts_no_plugin_in_force() {
    let place = Place::new();
    plugin(&place, "source");
    place.halter(["plugin", "install", "source"]).expect(0);
    place.halter(["plugin", "disable", "demo"]).expect(0);
    let record = place.home().join(".config/halter/plugins.json");
    std::fs::write(&record, "{").unwrap();
    let shown = place.halter(["resources", "--json"]);
    let data = shown.expect(0).json();
    assert_eq!(data["skills"], serde_json::json!([]), "{data}");
    assert!(
        data.to_string().contains("no installed plugin is in force"),
        "{data}"
    );
}

#[test]
fn a_plugin_that_is_off_by_default_waits_to_be_enabled() {
    let place = Place::new();
    plugin(&place, ".halter/plugins/demo");
    let manifest = ".halter/plugins/demo/.claude-plugin/plugin.json";
    let off = r#"{"name": "demo", "version": "1.0.0", "defaultEnabled": false}"#;
    place.write(manifest, off);
    let skills = || {
        let shown = place.halter(["resources", "--json"]);
        let data = shown.expect(0).json();
        let off = data.to_string().contains("defaultEnabled");
        (data["skills"].as_array().unwrap().len(), off)
    };
    assert_eq!(skills(), (0, true));
    let folder = place.work().join(".halter/plugins/demo");
    let folder = folder.to_str().unwrap();
    place.halter(["plugin", "install", folder]).expect(0);
    assert_eq!(skills().0, 0);
    place.halter(["plugin", "enable", "demo"]).expect(0);
    assert_eq!(skills(), (1, false));
}

#[test]
fn a_repository_is_named_by_its_path_from_here() {
    let place = Place::new();
    plugin(&place, "sources/demo");
    let repository = place.work().join("sources/demo");
    git(&repository, &["init", "--quiet", "--initial-branch=main"]);
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "--quiet", "-m", "first"]);
    let first = git(&repository, &["rev-parse", "HEAD"]);
    git(
        &repository,
        &["clone", "--quiet", "--bare", ".", "../demo.git"],
    );
    let bare = "./sources/demo.git";
    for (words, commit) in [
        (vec!["./sources/demo"], None),
        (vec!["--revision", "main", "./sources/demo"], Some(&first)),
        (vec![bare], Some(&first)),
        (vec!["--revision", &first, bare], Some(&first)),
    ] {
        let ran = place.halter([&["plugin", "install", "--json"], words.as_slice()].concat());
        let data = ran.expect(0).json();
        assert_eq!(
            data["commit"].as_str(),
            commit.map(String::as_str),
            "{data}"
        );
        assert_eq!(data["parts"]["skills"], 1, "{data}");
        let listed = place.halter(["plugin", "list", "--json"]).expect(0).json();
        let source = listed["plugins"]["demo"]["source"].as_str().unwrap();
        assert!(Path::new(source).is_absolute(), "{listed}");
        place.halter(["plugin", "remove", "demo"]).expect(0);
    }
    let absent = place.halter(["plugin", "install", "./sources/none"]);
    assert_ne!(absent.code, Some(0));
}

/// A project with a configuration, hooks, servers, and resources that run
/// something or do not.
fn project(place: &Place) {
    let hooked = "name: careful\ndescription: d\nhooks: {Stop: []}";
    let file = format!("---\n{hooked}\n---\nBe careful.\n");
    for (path, text) in [
        ("app/.git/HEAD", "ref: refs/heads/main"),
        ("app/halter.toml", "version = 1\n"),
        ("app/.mcp.json", r#"{"mcpServers": {}}"#),
        (
            "app/.claude/settings.json",
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}"#,
        ),
        ("app/.claude/settings.local.json", r#"{"permissions": {}}"#),
        ("app/.claude/skills/careful/SKILL.md", &file),
        ("app/.claude/skills/plain/SKILL.md", SKILL),
        ("app/.claude/agents/careful.md", &file),
    ] {
        place.write(path, text);
    }
    plugin(place, "app/.halter/plugins/demo");
}

#[test]
fn what_a_folder_holds_is_trusted_and_said() {
    let place = Place::new();
    project(&place);
    let app = place.work().canonicalize().unwrap().join("app");
    let withheld = || {
        let mut command = place.command(["resources", "--json"]);
        let ran = crate::place::finish(command.current_dir(&app).spawn().unwrap());
        let said = ran.expect(0).json()["warnings"].to_string() + &ran.stderr;
        said.contains("not trusted")
    };
    assert!(withheld());
    let asked = place.halter(["trust", "app"]);
    let next = "run `halter trust --yes app`";
    assert!(asked.expect(2).stderr.contains(next), "{}", asked.stderr);
    let trusted = place.halter(["trust", "--yes", "--json", "app"]);
    let data = trusted.expect(0).json();
    let expected = [
        "halter.toml",
        ".mcp.json",
        ".claude/settings.json",
        ".halter/plugins/demo",
        ".claude/skills/careful",
        ".claude/agents/careful.md",
    ];
    let shown = |parts: &[&str]| -> Vec<serde_json::Value> {
        let paths = parts.iter().map(|part| app.join(part));
        paths
            .map(|path| path.display().to_string().into())
            .collect()
    };
    assert_eq!(data["contents"], serde_json::Value::Array(shown(&expected)));
    for part in ["these hooks", "its hooks and servers", "plugin demo"] {
        assert!(trusted.stderr.contains(part), "{}", trusted.stderr);
    }
    assert!(!withheld());
    let again = place.halter(["trust", "app"]).expect(0).stdout.clone();
    assert_eq!(again.lines().count(), expected.len(), "{again}");
    assert!(
        again.contains("settings.json is trusted already"),
        "{again}"
    );
    // Only what has changed is asked about again.
    place.write("app/.claude/skills/careful/more.md", "more");
    let only = place.halter(["trust", "--yes", "app/.claude/skills"]);
    let skill = app.join(".claude/skills/careful");
    assert_eq!(
        only.expect(0).stdout,
        format!("trusted {}\n", skill.display())
    );
    let revoked = place.halter(["trust", "--revoke", "--json", "app"]);
    assert_eq!(revoked.expect(0).json()["revoked"], true);
    assert!(withheld());
    place.write("plain/notes.txt", "nothing to trust");
    let nothing = place.halter(["trust", "--yes", "plain"]);
    nothing.expect(2);
    assert!(nothing.stderr.contains("nothing in plain that needs trust"));
}

#[test]
fn words_in_frontmatter_that_mean_nothing_here_are_named() {
    let place = Place::new();
    let own = |path: &str, text: &str| {
        let path = place.home().join(".claude").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let body = "description: d\n---\nWork.\n";
    own(
        "agents/a.md",
        &format!(
            "---\nname: a\ntools: Read, Reed, mcp__x__y\ndisallowedTools: Bsh\ncolour: blue\ndisallowed-tools: Bash\n{body}"
        ),
    );
    own(
        "agents/b.md",
        &format!("---\nname: b\npermissionMode: everything\n{body}"),
    );
    own(
        "skills/s/SKILL.md",
        &format!(
            "---\nname: s\nallowed-tools: Bash(ls), Rum\ndisallowed-tools: WebFetch, Fetsch\n{body}"
        ),
    );
    let shown = place.halter(["resources", "--json"]);
    let data = shown.expect(0).json();
    let (warnings, notes) = (data["warnings"].to_string(), data["notes"].to_string());
    for part in [
        "a.md: no tool here is called Bsh, Reed",
        "SKILL.md: no tool here is called Fetsch, Rum",
        "a.md: nothing reads `disallowed-tools`; write `disallowedTools`",
        "`permissionMode` is `everything`",
    ] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    assert!(notes.contains("without effect here: colour"), "{notes}");
}
