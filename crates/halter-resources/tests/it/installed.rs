//! Plugins that a user has installed.

use crate::support::{Root, skill};
use halter_resources::limits::MAX_MANIFEST_BYTES;
use halter_resources::{InstalledPlugins, PluginSource, PluginSwitch};
use std::fs;
use std::sync::Barrier;

fn from(source: &str) -> PluginSource {
    PluginSource {
        source: source.to_owned(),
        commit: None,
    }
}

#[test]
fn a_plugin_is_copied_listed_switched_and_removed() {
    let source = Root::with(&[
        ("p/plugin.json", r#"{"name": "demo", "version": "1"}"#),
        ("p/skills/x/SKILL.md", &skill("x", "X.")),
        ("p/.git/HEAD", "not copied"),
    ]);
    let home = Root::new();
    let installed = InstalledPlugins::at(home.path().join("config"));
    assert!(installed.list().unwrap().is_empty());
    let folder = source.path().join("p");
    let (plugin, warnings) = installed.install(&folder, from("here")).unwrap();
    assert_eq!((plugin.manifest.name.as_str(), warnings.len()), ("demo", 0));
    let copy = installed.root().join("demo");
    assert!(copy.join("skills/x/SKILL.md").exists() && !copy.join(".git").exists());
    let again = installed.install(&folder, from("here")).unwrap_err();
    assert_eq!(again.code(), "plugin_installed");
    installed.set_enabled("demo", PluginSwitch::Off).unwrap();
    assert_eq!(installed.disabled().unwrap(), ["demo"]);
    installed.set_enabled("demo", PluginSwitch::On).unwrap();
    assert_eq!(installed.disabled().unwrap(), [""; 0]);
    let removed = installed.remove("demo").unwrap();
    assert_eq!(
        (removed.source.as_str(), removed.version.as_deref()),
        ("here", Some("1"))
    );
    assert!(!copy.exists() && installed.list().unwrap().is_empty());
    let left: Vec<_> = fs::read_dir(home.path().join("config")).unwrap().collect();
    assert_eq!(left.len(), 2, "the record and the empty folder: {left:?}");
}

#[test]
fn plugins_that_are_installed_and_switched_at_once_are_all_recorded() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let source = Root::new();
    for name in names {
        let manifest = format!(r#"{{"name": "{name}", "version": "1"}}"#);
        source.write(&format!("{name}/plugin.json"), manifest);
    }
    let home = Root::new();
    let together = Barrier::new(names.len());
    std::thread::scope(|scope| {
        for name in names {
            let (together, folder) = (&together, source.path().join(name));
            let installed = InstalledPlugins::at(home.path());
            scope.spawn(move || {
                together.wait();
                installed.install(&folder, from(name)).unwrap();
                together.wait();
                installed.set_enabled(name, PluginSwitch::Off).unwrap();
            });
        }
    });
    let installed = InstalledPlugins::at(home.path());
    assert_eq!(installed.disabled().unwrap(), names);
}

#[test]
fn what_is_no_plugin_is_not_installed() {
    let outside = Root::with(&[("secret", "s")]);
    let source = Root::with(&[
        ("two/a/plugin.json", r#"{"name": "a"}"#),
        ("two/b/plugin.json", r#"{"name": "b"}"#),
        ("none/readme.md", "x"),
        ("bad/plugin.json", r#"{"name": "../../evil"}"#),
        ("leak/plugin.json", r#"{"name": "leak"}"#),
    ]);
    source.link("leak/link", outside.path().join("secret"));
    let home = Root::new();
    let installed = InstalledPlugins::at(home.path());
    for (folder, reason) in [
        ("two", "name the folder of one: a, b"),
        ("none", "no manifest"),
        ("bad", "`name` may have"),
        ("leak", "leads out of it"),
        ("absent", "does not exist"),
    ] {
        let error = installed
            .install(&source.path().join(folder), from("x"))
            .unwrap_err();
        assert_eq!(error.code(), "plugin_invalid", "{error}");
        assert!(error.to_string().contains(reason), "{folder}: {error}");
    }
    assert!(installed.list().unwrap().is_empty());
    assert_eq!(
        installed.remove("../x").unwrap_err().code(),
        "plugin_unknown"
    );
    assert_eq!(
        installed
            .set_enabled("x", PluginSwitch::On)
            .unwrap_err()
            .code(),
        "plugin_unknown"
    );
    home.write("plugins.json", "not json");
    assert_eq!(installed.list().unwrap_err().code(), "plugin_store");
    home.write(
        "plugins.json",
        " ".repeat(MAX_MANIFEST_BYTES as usize + 1) + "{}",
    );
    assert_eq!(installed.list().unwrap_err().code(), "plugin_store");
}
