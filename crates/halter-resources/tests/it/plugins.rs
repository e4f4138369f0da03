//! Plugins are found, checked and loaded with all their parts.

use crate::support::{Root, codes, names, plugins_of, skill};
use halter_resources::PluginLoader;
use halter_resources::limits::{MAX_MANIFEST_BYTES, MAX_PLUGIN_SERVERS, MAX_PLUGINS};
use halter_resources::plugin::MANIFEST_PLACES;
use serde_json::json;

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
    assert_eq!(compiled.warnings, []);
    let first = &compiled.snapshot.plugins["p0"];
    assert_eq!(
        (first.name.as_str(), first.version.as_deref()),
        ("p0", Some("1.2.0"))
    );
    assert_eq!(first.root, root.path().join("p0"));
}

#[tokio::test]
async fn every_part_in_its_usual_place_is_loaded() {
    let root = Root::with(&[
        (
            "tools/.claude-plugin/plugin.json",
            r#"{"name": "tools", "version": "1"}"#,
        ),
        ("tools/skills/x/SKILL.md", &skill("x", "X.")),
        (
            "tools/agents/deep/reviewer.md",
            "---\nname: reviewer\ndescription: Reviews.\n---\nYou review.",
        ),
        ("tools/agents/README.md", "About the agents."),
        ("tools/commands/git/fix.md", "Fix $ARGUMENTS."),
        ("tools/output-styles/terse.md", "Be brief."),
        ("tools/hooks/hooks.json", r#"{"hooks": {}}"#),
        (
            "tools/.mcp.json",
            r#"{"mcpServers": {"db": {"command": "db"}}}"#,
        ),
        (
            "tools/.lsp.json",
            r#"{"rust": {"command": "rust-analyzer"}}"#,
        ),
    ]);
    let compiled = plugins_of(&root).await;
    assert_eq!(compiled.warnings, []);
    let snapshot = &compiled.snapshot;
    assert_eq!(snapshot.skill("x").unwrap().name.as_str(), "tools:x");
    assert_eq!(
        snapshot.agent("reviewer").unwrap().name.as_str(),
        "tools:reviewer"
    );
    assert_eq!(snapshot.command("fix").unwrap().name, "tools:git:fix");
    assert_eq!(snapshot.output_style("terse").unwrap().name, "tools:terse");
    let plugin = &root.path().join("tools");
    let hooks = &compiled.hook_files[0];
    assert_eq!(hooks.path, plugin.join("hooks/hooks.json"));
    assert_eq!(
        (hooks.plugin_id.as_str(), &hooks.plugin_root),
        ("tools", plugin)
    );
    assert_eq!(hooks.text, r#"{"hooks": {}}"#);
    let servers = (&compiled.mcp_servers[0], &compiled.lsp_servers[0]);
    assert_eq!(
        (servers.0.name.as_str(), &servers.0.config["command"]),
        ("db", &"db".into())
    );
    assert_eq!(servers.1.name, "rust");
    assert!(snapshot.plugins["tools"].content.is_some());
}

#[tokio::test]
async fn parts_are_where_the_manifest_says() {
    let root = Root::with(&[
        (
            "a/plugin.json",
            r#"{"name": "a", "version": "1", "hooks": "./my.json", "skills": ["./extra", "./one"],
                "agents": ["./people/ann.md"], "commands": "./cmds", "outputStyles": "./styles",
                "mcpServers": {"inline": {"url": "https://example.com"}},
                "lspServers": "./lsp.json",
                "allowedEnvVars": ["TOKEN"], "allowedHttpHosts": ["example.com"]}"#,
        ),
        ("a/my.json", "{}"),
        ("a/lsp.json", r#"{"named": {}}"#),
        ("a/hooks/hooks.json", r#"{"hooks": {"Stop": []}}"#),
        (
            "a/.mcp.json",
            r#"{"mcpServers": {"inline": {"url": "https://other.example"}, "usual": {}}}"#,
        ),
        ("a/.lsp.json", r#"{"usual": {}}"#),
        ("a/skills/usual/SKILL.md", &skill("usual", "Usual.")),
        ("a/extra/more/SKILL.md", &skill("more", "More.")),
        ("a/one/SKILL.md", &skill("one", "One.")),
        (
            "a/people/ann.md",
            "---\nname: ann\ndescription: Ann.\n---\nYou are Ann.",
        ),
        (
            "a/people/bob.md",
            "---\nname: bob\ndescription: Bob.\n---\nYou are Bob.",
        ),
        (
            "a/agents/unseen.md",
            "---\nname: unseen\ndescription: U.\n---\nU.",
        ),
        ("a/cmds/go.md", "Go."),
        ("a/styles/s.md", "S."),
        (
            "b/plugin.json",
            r#"{"name": "b", "version": "1", "hooks": [{"Stop": []}, "./hooks/hooks.json"],
                "agents": "./agents/only.md"}"#,
        ),
        ("b/hooks/hooks.json", "{}"),
        (
            "b/agents/only.md",
            "---\nname: only\ndescription: O.\n---\nO.",
        ),
        (
            "b/agents/not.md",
            "---\nname: not\ndescription: N.\n---\nN.",
        ),
    ]);
    let compiled = plugins_of(&root).await;
    // Nothing that is there is left out in silence.
    let said: Vec<_> = compiled.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("a/agents: skipped: the manifest's `agents` names other places"));
    assert_eq!(names(&compiled), ["a:more", "a:one", "a:usual"]);
    let snapshot = &compiled.snapshot;
    let agents: Vec<_> = snapshot
        .agents
        .values()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(agents, ["a:ann", "b:only"]);
    assert!(snapshot.commands.contains_key("a:go"));
    assert!(snapshot.output_styles.contains_key("a:s"));
    let hooks: Vec<_> = compiled
        .hook_files
        .iter()
        .map(|it| (it.path.clone(), it.text.as_str()))
        .collect();
    let path = root.path();
    assert_eq!(
        hooks,
        [
            (
                path.join("a/hooks/hooks.json"),
                r#"{"hooks": {"Stop": []}}"#
            ),
            (path.join("a/my.json"), "{}"),
            (path.join("b/hooks/hooks.json"), "{}"),
            (path.join("b/plugin.json"), r#"{"Stop":[]}"#)
        ]
    );
    assert_eq!(compiled.hook_files[0].allowed_env_vars, ["TOKEN"]);
    assert_eq!(compiled.hook_files[0].allowed_http_hosts, ["example.com"]);
    let mcp = compiled
        .mcp_servers
        .iter()
        .map(|it| (it.name.as_str(), &it.config));
    let (inline, usual) = (json!({"url": "https://example.com"}), json!({}));
    assert!(mcp.eq([("inline", &inline), ("usual", &usual)]));
    let lsp = compiled.lsp_servers.iter().map(|it| it.name.as_str());
    assert!(lsp.eq(["usual", "named"]));
}

#[tokio::test]
async fn a_manifest_is_optional_where_the_usual_folders_are() {
    let root = Root::with(&[
        ("bare/skills/x/SKILL.md", &skill("x", "X.")),
        (
            "alone/SKILL.md",
            &skill("alone", "A plugin that is one skill."),
        ),
        ("unversioned/plugin.json", r#"{"name": "unversioned"}"#),
    ]);
    let compiled = plugins_of(&root).await;
    assert_eq!(names(&compiled), ["alone:alone", "bare:x"]);
    assert_eq!(codes(&compiled), ["plugin_version_missing"]);
    assert_eq!(compiled.snapshot.plugins.len(), 3);
    // A root may be such a plugin itself.
    let root = halter_resources::PluginLoader::new(root.path().join("bare")).load();
    assert_eq!(root.plugins[0].id.as_str(), "bare");
}

#[tokio::test]
async fn a_broken_part_costs_itself() {
    let outside = Root::with(&[("SKILL.md", &skill("far", "Far.")), ("h.json", "{}")]);
    let root = Root::with(&[
        (
            "p/plugin.json",
            r#"{"name": "p", "version": "1", "agents": "./absent", "skills": "./linked"}"#,
        ),
        ("p/skills/good/SKILL.md", &skill("good", "Good.")),
        ("p/skills/bad/SKILL.md", "---\nname: [\n---\n"),
        ("p/commands/bad name.md", "x"),
        ("p/output-styles/empty.md", "---\nname: e\n---\n"),
        (
            "p/.mcp.json",
            r#"{"mcpServers": {"ok": {}, "a/b": {}, "text": "x"}}"#,
        ),
        ("p/.lsp.json", "["),
    ]);
    root.link("p/linked", outside.path());
    root.link("p/hooks/hooks.json", outside.path().join("h.json"));
    let compiled = plugins_of(&root).await;
    assert_eq!(names(&compiled), ["p:good"]);
    assert!(compiled.hook_files.is_empty());
    assert_eq!(compiled.mcp_servers.len(), 1);
    let said: Vec<_> = compiled.warnings.iter().map(ToString::to_string).collect();
    for part in [
        "skills/bad/SKILL.md:2: skipped",
        "linked: skipped: it leads out of the plugin",
        "absent: skipped: it does not exist",
        "bad name.md: skipped: a command is typed",
        "empty.md: skipped",
        "hooks.json: skipped: it is a link that leads out",
        "the name `a/b`",
        "the server `text` is not a JSON object",
        "its language servers are not a JSON object",
    ] {
        assert!(said.iter().any(|it| it.contains(part)), "{part}: {said:#?}");
    }
    assert_eq!(said.len(), 9);
}

#[tokio::test]
async fn servers_of_a_plugin_are_bounded() {
    let servers = |count: usize| {
        let all: Vec<_> = (0..count)
            .map(|number| format!(r#""s{number}": {{}}"#))
            .collect();
        format!("{{{}}}", all.join(","))
    };
    for (count, warned) in [(MAX_PLUGIN_SERVERS, 0), (MAX_PLUGIN_SERVERS + 1, 1)] {
        let root = Root::with(&[
            ("p/plugin.json", &manifest("p")),
            ("p/.mcp.json", &servers(count)),
        ]);
        let compiled = plugins_of(&root).await;
        assert_eq!(compiled.mcp_servers.len(), MAX_PLUGIN_SERVERS);
        assert_eq!(compiled.warnings.len(), warned);
    }
}

#[tokio::test]
async fn an_invalid_plugin_is_named_and_costs_only_itself() {
    let root = Root::with(&[
        ("a/plugin.json", "{\n  \"name\": \"a\",,\n}"),
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
    assert!(said[1].contains("leads out"));
    assert!(said[2].contains("/d: skipped: it has no manifest"));
    assert_eq!(compiled.warnings.len(), 3);
}

#[tokio::test]
async fn a_root_may_be_a_plugin_itself() {
    let root = Root::with(&[
        (".claude-plugin/plugin.json", &manifest("alone")),
        ("skills/x/SKILL.md", &skill("x", "X.")),
    ]);
    let compiled = plugins_of(&root).await;
    assert_eq!(compiled.snapshot.plugins.len(), 1);
    assert_eq!(names(&compiled), ["alone:x"]);
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
    assert_eq!(codes(&compiled), ["plugin_shadowed"]);
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
            "plugin_skipped"
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
    assert_eq!(codes(&plugins_of(&fits).await), [""; 0]);
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

#[tokio::test]
async fn an_agent_says_which_skills_it_works_without() {
    let root = Root::new();
    for (plugin, skills) in [("a", &["style", "own"][..]), ("b", &["style"])] {
        root.write(
            &format!("{plugin}/plugin.json"),
            format!(r#"{{"name": "{plugin}", "version": "1"}}"#),
        );
        for name in skills {
            root.write(
                &format!("{plugin}/skills/{name}/SKILL.md"),
                skill(name, "Says how."),
            );
        }
    }
    let agent = root.write(
        "a/agents/writer.md",
        "---\nname: writer\ndescription: Writes.\nskills: own, b:style, style, absent\n---\nWrite.",
    );
    let compiled = plugins_of(&root).await;
    let said: Vec<String> = compiled.warnings.iter().map(ToString::to_string).collect();
    let without = |skill: &str, why: &str| {
        format!(
            "agent {}: it works without the skill `{skill}`: {why}",
            agent.canonicalize().unwrap().display()
        )
    };
    assert_eq!(
        said,
        [
            without(
                "style",
                "'style' is the name of more than one skill; say which: a:style, b:style"
            ),
            without(
                "absent",
                "there is no skill 'absent'; `halter resources` lists what is loaded"
            ),
        ]
    );
    assert!(compiled.warnings.iter().all(|warning| !warning.is_note()));
}
