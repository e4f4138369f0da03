//! `[permissions]`: layers, projects, and rules that are saved.

use halter_config::limits::MAX_RULES;
use halter_config::{SavedRule, save_allow_rule};
use halter_protocol::{PermissionMode, RuleEffect, RuleSource};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::{World, load_text};

const START: &str = "version = 1\n";

#[tokio::test]
async fn rules_of_the_layers_add_up_and_know_who_wrote_them() {
    let world = World::new()
        .user("version = 1\n[permissions]\nmode = \"full_access\"\nallow = [\"Bash(make)\"]\ndeny = [\"Read(x)\"]\n")
        .project("version = 1\n[permissions]\nmode = \"prompt\"\nask = [\"Edit\"]\ndeny = [\"Bash\"]\n")
        .explicit("version = 1\n[permissions]\ndeny = [\"Edit(y)\"]\n");
    let loaded = world.loaded().await;
    let permissions = &loaded.config.permissions;
    assert_eq!(permissions.mode, PermissionMode::Prompt);
    let deny: Vec<_> = permissions
        .rules(RuleEffect::Deny)
        .iter()
        .map(|rule| (rule.rule.as_str(), rule.source))
        .collect();
    let expected = [
        ("Read(x)", RuleSource::User),
        ("Bash", RuleSource::Project),
        ("Edit(y)", RuleSource::User),
    ];
    assert_eq!(deny, expected);
    assert_eq!(permissions.ask[0].source, RuleSource::Project);
    assert!(
        permissions.deny[1]
            .place
            .as_ref()
            .is_some_and(|place| place.line == 5)
    );
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[tokio::test]
async fn a_project_never_widens_trusted_or_not() {
    let text =
        "version = 1\n[permissions]\nmode = \"allow\"\nallow = [\"Bash\"]\nask = [\"Read\"]\n";
    for trusted in [false, true] {
        let world = World::new().project(text);
        if trusted {
            world.trust_project().await;
        }
        let loaded = world.loaded().await;
        let permissions = &loaded.config.permissions;
        assert_eq!(permissions.mode, PermissionMode::WorkspaceWrite);
        assert!(permissions.allow.is_empty());
        assert_eq!(permissions.ask.len(), 1);
        let codes: Vec<_> = loaded.warnings.iter().map(|it| it.code()).collect();
        assert_eq!(codes, ["config_project_widens"; 2]);
    }
}

#[tokio::test]
async fn a_list_of_programs_that_nobody_set_is_known_as_such() {
    let default = load_text(START).await.unwrap().config;
    assert!(default.policy.shell.allow_is_default());
    let same = "[policy.shell]\nallow = [\"git\", \"cargo\", \"rg\", \"ls\", \"find\", \"true\", \"cd\"]\n";
    let set = load_text(format!("{START}{same}")).await.unwrap().config;
    assert_eq!(set.policy.shell.allow, default.policy.shell.allow);
    assert!(!set.policy.shell.allow_is_default());
}

#[tokio::test]
async fn a_bad_rule_has_its_place() {
    for (text, line, column, hint) in [
        ("deny = [\"Read\", \"Bash(a:* b)\"]", 3, 24, "Bash(a * b)"),
        ("allow = ['*']", 3, 11, "write a rule such as"),
        (
            "ask = [{ rule = \"git\\u0020push\" }]",
            3,
            8,
            "Bash(git push:*)",
        ),
        ("deny = [\"\"\"\nBash(\"\"\"]", 3, 9, "write a rule such as"),
    ] {
        let error = load_text(format!("{START}[permissions]\n{text}\n"))
            .await
            .unwrap_err();
        let place = error.location().unwrap().clone();
        assert_eq!((place.line, place.column), (line, column), "{error}");
        assert!(error.hint().is_some_and(|it| it.contains(hint)), "{error}");
    }
    let error = load_text(format!("{START}[permissions]\nmode = \"ask\"\n"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("permissions.mode"), "{error}");
}

#[tokio::test]
async fn a_file_has_so_many_rules_and_no_more() {
    let text = |count: usize| {
        let rules = vec!["\"Bash(ls)\""; count].join(", ");
        format!("{START}[permissions]\ndeny = [{rules}]\n")
    };
    assert!(load_text(text(MAX_RULES)).await.is_ok());
    let error = load_text(text(MAX_RULES + 1)).await.unwrap_err();
    assert!(error.to_string().contains("more than 1000"), "{error}");
}

#[tokio::test]
async fn a_saved_rule_is_loaded_and_saved_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("new/halter.toml");
    assert_eq!(
        save_allow_rule(&file, "Bash(make:*)").unwrap(),
        SavedRule::Added
    );
    assert_eq!(
        save_allow_rule(&file, "Bash(make:*)").unwrap(),
        SavedRule::WasThere
    );
    let text = fs::read_to_string(&file).unwrap();
    let loaded = load_text(&text).await.unwrap().config;
    assert_eq!(loaded.permissions.allow[0].rule, "Bash(make:*)");
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_saved_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("halter.toml");
    fs::write(&file, "version = 1\nnonsense = 2\n").unwrap();
    for rule in ["Bash(make)", "*", "git push"] {
        assert!(save_allow_rule(&file, rule).is_err());
    }
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "version = 1\nnonsense = 2\n"
    );
}

#[test]
fn a_file_behind_a_link_keeps_its_place_and_mode() {
    let directory = tempfile::tempdir().unwrap();
    let (real, link) = (directory.path().join("real"), directory.path().join("link"));
    fs::write(&real, START).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real", &link).unwrap();
    save_allow_rule(&link, "Read").unwrap();
    assert!(link.is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("\"Read\""));
    assert_eq!(
        fs::metadata(&real).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("halter.toml");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let file = &file;
            scope.spawn(move || save_allow_rule(file, &format!("Bash(make {number})")).unwrap());
        }
    });
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.matches("Bash(make ").count(), 8, "{text}");
}
