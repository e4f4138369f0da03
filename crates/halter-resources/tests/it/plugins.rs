//! Plugins are found, checked, and said not to be loaded.

use crate::support::{Root, codes, plugins_of, skill};
use halter_resources::limits::{MAX_MANIFEST_BYTES, MAX_PLUGINS};
use halter_resources::plugin::MANIFEST_PLACES;
use halter_resources::{PluginLoader, PluginPart, ResourceWarning};

fn manifest(name: &str) -> String {
    format!(r#"{{"name": "{name}", "version": "1.2.0"}}"#)
}

#[tokio::test]
async fn every_place_of_a_manifest_is_known() {
    let root = Root::new();
    for (number, place) in MANIFEST_PLACES.iter().enumerate() {
        root.write(
            &format!("p{number}/{place}"),
            manifest(&format!("p{number}")),
        );
    }
    let compiled = plugins_of(&root).await;
    let ids: Vec<_> = compiled
        .snapshot
        .plugins
        .keys()
        .map(|id| id.as_str())
        .collect();
    assert_eq!(ids, ["p0", "p1", "p2", "p3", "p4"]);
    assert_eq!(codes(&compiled), ["plugin_not_loaded"; 5]);
    let first = &compiled.snapshot.plugins["p0"];
    assert_eq!(
        (first.name.as_str(), first.version.as_str()),
        ("p0", "1.2.0")
    );
    assert_eq!(first.root, root.path().join("p0"));
}

#[tokio::test]
async fn the_warning_says_what_has_no_effect() {
    let root = Root::with(&[
        (
            "tools/.claude-plugin/plugin.json",
            r#"{"name": "tools", "version": "1", "agents": "./a"}"#,
        ),
        ("tools/skills/x/SKILL.md", &skill("x", "X.")),
        ("tools/hooks/hooks.json", "{}"),
    ]);
    let compiled = plugins_of(&root).await;
    let hooks = root.path().join("tools/hooks/hooks.json");
    assert_eq!(
        compiled.warnings,
        [ResourceWarning::PluginNotLoaded {
            plugin_id: "tools".into(),
            root: root.path().join("tools"),
            parts: vec![PluginPart::Skills, PluginPart::Agents, PluginPart::Hooks],
            hook_files: vec![hooks.clone()],
        }]
    );
    let text = compiled.warnings[0].to_string();
    assert!(text.contains("not loaded yet; without effect: skills, agents, hooks"));
    let files: Vec<_> = compiled.hook_files().collect();
    assert_eq!(files, [(&"tools".into(), hooks.as_path())]);
    assert!(compiled.snapshot.skills.is_empty());
}

#[tokio::test]
async fn hooks_are_where_the_manifest_says() {
    let root = Root::with(&[
        (
            "a/plugin.json",
            r#"{"name": "a", "version": "1", "hooks": "./my.json"}"#,
        ),
        ("a/hooks/hooks.json", "{}"),
        (
            "b/plugin.json",
            r#"{"name": "b", "version": "1", "hooks": {"hooks": {}}}"#,
        ),
    ]);
    let compiled = plugins_of(&root).await;
    let files: Vec<_> = compiled.hook_files().map(|(_, path)| path).collect();
    assert_eq!(
        files,
        [
            root.path().join("a/my.json"),
            root.path().join("b/plugin.json")
        ]
    );
}

#[tokio::test]
async fn an_invalid_plugin_is_named_and_costs_only_itself() {
    let root = Root::with(&[
        ("a/plugin.json", "{\n  \"name\": \"a\",,\n}"),
        ("b/plugin.json", r#"{"name": "b"}"#),
        (
            "c/plugin.json",
            r#"{"name": "c", "version": "1", "skills": "./../x"}"#,
        ),
        ("d/readme.md", "no manifest"),
        ("e/plugin.json", &manifest("e")),
        (".cache/x", "hidden, not meant to be one"),
        ("file.txt", "not a directory"),
    ]);
    let compiled = plugins_of(&root).await;
    let ids: Vec<_> = compiled
        .snapshot
        .plugins
        .keys()
        .map(|id| id.as_str())
        .collect();
    assert_eq!(ids, ["e"]);
    let said: Vec<_> = compiled.warnings.iter().map(ToString::to_string).collect();
    let path = root.path();
    let path = path.to_str().unwrap();
    assert!(said[0].starts_with(&format!("plugin {path}/a/plugin.json:2: skipped")));
    assert!(said[1].contains("`version` is missing"));
    assert!(said[2].contains("leads out"));
    assert!(said[3].contains("/d: skipped: it has no manifest"));
    assert_eq!(compiled.warnings.len(), 5);
}

#[tokio::test]
async fn a_root_may_be_a_plugin_itself() {
    let root = Root::with(&[
        (".claude-plugin/plugin.json", &manifest("alone")),
        ("skills/x/SKILL.md", &skill("x", "X.")),
    ]);
    let compiled = plugins_of(&root).await;
    assert_eq!(compiled.snapshot.plugins.len(), 1);
    assert_eq!(codes(&compiled), ["plugin_not_loaded"]);
}

#[tokio::test]
async fn two_plugins_of_one_name_are_reported() {
    let root = Root::with(&[
        ("a/plugin.json", &manifest("same")),
        ("b/plugin.json", &manifest("same")),
    ]);
    let compiled = plugins_of(&root).await;
    assert_eq!(
        compiled.snapshot.plugins["same"].root,
        root.path().join("a")
    );
    assert_eq!(codes(&compiled), ["plugin_shadowed", "plugin_not_loaded"]);
}

#[tokio::test]
async fn links_do_not_lead_out_of_a_root() {
    let outside = Root::with(&[("far/plugin.json", &manifest("far"))]);
    let root = Root::with(&[("near/plugin.json", &manifest("near"))]);
    root.link("far", outside.path().join("far"));
    root.link("nowhere", "absent");
    root.link("odd/plugin.json", outside.path().join("far/plugin.json"));
    let compiled = plugins_of(&root).await;
    let ids: Vec<_> = compiled
        .snapshot
        .plugins
        .keys()
        .map(|id| id.as_str())
        .collect();
    assert_eq!(ids, ["near"]);
    assert_eq!(
        codes(&compiled),
        [
            "resource_link_not_followed",
            "resource_link_not_followed",
            "plugin_skipped",
            "plugin_not_loaded"
        ]
    );
}

#[tokio::test]
async fn a_manifest_is_bounded() {
    let padded = |bytes: u64| {
        let text = manifest("big");
        let rest = usize::try_from(bytes).unwrap() - text.len();
        text + &" ".repeat(rest)
    };
    let fits = Root::with(&[("big/plugin.json", &padded(MAX_MANIFEST_BYTES))]);
    assert_eq!(codes(&plugins_of(&fits).await), ["plugin_not_loaded"]);
    let not = Root::with(&[("big/plugin.json", &padded(MAX_MANIFEST_BYTES + 1))]);
    assert_eq!(codes(&plugins_of(&not).await), ["plugin_skipped"]);
}

#[test]
fn the_number_of_plugins_is_bounded() {
    let root = Root::new();
    for number in 0..MAX_PLUGINS {
        let name = format!("p{number:04}");
        root.write(&format!("{name}/plugin.json"), manifest(&name));
    }
    let found = PluginLoader::new(root.path()).load();
    assert_eq!(
        (found.plugins.len(), found.warnings.len()),
        (MAX_PLUGINS, 0)
    );
    root.write("q/plugin.json", manifest("q"));
    let found = PluginLoader::new(root.path()).load();
    assert_eq!(found.plugins.len(), MAX_PLUGINS);
    assert_eq!(found.warnings[0].code(), "resource_limit_reached");
}
