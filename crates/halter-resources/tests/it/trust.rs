//! What a project could run is withheld until its content is trusted.

use crate::support::{Root, codes};
use halter_protocol::ResourceOrigin;
use halter_resources::limits::{MAX_TRUSTED_BYTES, MAX_TRUSTED_FILES};
use halter_resources::{
    CompiledResources, ContentTrust, ResourceCompiler, ResourcePlaces, ResourceRoot,
    ResourceWarning, TrustedContent, UsualPlaces, hooks_in, project_holding,
};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

struct Trusts(Vec<TrustedContent>);

impl ContentTrust for Trusts {
    fn is_trusted(&self, path: &Path, digest: &str) -> bool {
        let mut known = self.0.iter();
        known.any(|content| content.path == path && content.digest == digest)
    }

    /// Those that name anything are trusted with a file of its name.
    fn trusts_files_of(&self, hooks: &Value, content: &Path) -> bool {
        let named = hooks.get("names").and_then(Value::as_str);
        let known = |name| self.0.iter().any(|it| it.path.ends_with(name));
        assert!(content.is_absolute());
        named.is_none_or(known)
    }
}

const HOOKED: &str = "name: a\ndescription: d\nhooks: {Stop: []}";

fn project() -> Root {
    Root::with(&[
        (".git/HEAD", "ref: refs/heads/main"),
        (
            ".halter/plugins/p/plugin.json",
            r#"{"name": "p", "version": "1"}"#,
        ),
        (".halter/plugins/p/hooks/hooks.json", r#"{"hooks": {}}"#),
        (".halter/plugins/p/commands/go.md", "Go."),
        (
            ".claude/agents/a.md",
            &format!("---\n{HOOKED}\n---\nYou work."),
        ),
        (
            ".claude/skills/a/SKILL.md",
            &format!("---\n{HOOKED}\n---\nWork."),
        ),
    ])
}

async fn compile(places: ResourcePlaces, trusted: Vec<TrustedContent>) -> CompiledResources {
    ResourceCompiler::new()
        .with_places(places)
        .with_trust(Arc::new(Trusts(trusted)))
        .compile()
        .await
        .unwrap()
}

/// Hooks of the plugin, of the agent and of the skill.
fn armed(compiled: &CompiledResources) -> (bool, bool, bool) {
    let snapshot = &compiled.snapshot;
    (
        !compiled.hook_files.is_empty(),
        snapshot.agents["a"].hooks.is_some(),
        snapshot.skills["a"].hooks.is_some(),
    )
}

#[tokio::test]
async fn words_of_a_project_load_and_what_could_run_is_withheld() {
    let project = project();
    let below = project.path().join("src/deep");
    fs::create_dir_all(&below).unwrap();
    let places = UsualPlaces::of(&below, None, None).find();
    let compiled = compile(places.clone(), Vec::new()).await;
    assert_eq!(armed(&compiled), (false, false, false));
    assert_eq!(codes(&compiled), ["resource_untrusted"; 3]);
    assert!(compiled.snapshot.commands.contains_key("p:go"));
    assert_eq!(compiled.snapshot.plugins["p"].content, None);
    let said = compiled.warnings[0].to_string();
    let plugin = project.path().join(".halter/plugins/p");
    assert!(
        said.contains(&format!("run `halter trust {}`", plugin.display())),
        "{said}"
    );
    assert!(said.contains("hooks can run programs"), "{said}");

    let trusted = || {
        [
            ".halter/plugins/p",
            ".claude/agents/a.md",
            ".claude/skills/a",
        ]
        .map(|it| TrustedContent::of(&project.path().join(it)).unwrap())
        .to_vec()
    };
    let before = trusted();
    let compiled = compile(places.clone(), before.clone()).await;
    assert_eq!(armed(&compiled), (true, true, true));
    assert_eq!(compiled.warnings, []);
    project.write(".halter/plugins/p/scripts/run.sh", "echo changed");
    project.write(".claude/skills/a/notes.md", "new");
    let compiled = compile(places, before).await;
    assert_eq!(armed(&compiled), (false, true, false));
}

#[tokio::test]
async fn what_hooks_of_a_project_name_is_trusted_with_them() {
    let named = HOOKED.replace("Stop: []", "names: check.sh");
    let project = Root::with(&[
        (".git/HEAD", "ref: refs/heads/main"),
        (
            ".halter/plugins/p/plugin.json",
            r#"{"name": "p", "version": "1"}"#,
        ),
        (
            ".halter/plugins/p/hooks/hooks.json",
            r#"{"names": "check.sh"}"#,
        ),
        (
            ".claude/agents/a.md",
            &format!("---\n{named}\n---\nYou work."),
        ),
        (
            ".claude/skills/a/SKILL.md",
            &format!("---\n{named}\n---\nWork."),
        ),
        ("check.sh", "exit 2"),
    ]);
    let content = |path: &str| TrustedContent::of(&project.path().join(path)).unwrap();
    let mut trusted: Vec<TrustedContent> = [
        ".halter/plugins/p",
        ".claude/agents/a.md",
        ".claude/skills/a",
    ]
    .map(content)
    .to_vec();
    let places = UsualPlaces::of(&project.path(), None, None).find();
    let compiled = compile(places.clone(), trusted.clone()).await;
    assert_eq!(armed(&compiled), (false, false, false));
    assert_eq!(codes(&compiled), ["resource_untrusted"; 3]);
    trusted.push(content("check.sh"));
    assert_eq!(armed(&compile(places, trusted).await), (true, true, true));
    for path in [
        ".halter/plugins/p",
        ".claude/agents/a.md",
        ".claude/skills/a",
    ] {
        let hooks = hooks_in(&project.path().join(path));
        assert_eq!(hooks, [json!({"names": "check.sh"})], "{path}");
    }
    assert_eq!(hooks_in(&project.path().join("check.sh")), [Value::Null; 0]);
}

#[test]
fn a_file_belongs_to_the_project_whose_folder_it_lies_in() {
    for (path, project) in [
        ("/p/.claude/agents/deep/a.md", "/p"),
        ("/p/.agents/skills/a", "/p"),
        ("/p/.claude/trees/t/.halter/plugins/x", "/p/.claude/trees/t"),
        ("/nowhere/tools/a.md", "/nowhere/tools"),
    ] {
        assert_eq!(project_holding(Path::new(path)), Path::new(project));
    }
}

#[tokio::test]
async fn roots_that_the_user_names_are_trusted() {
    let project = project();
    let root = |path: &str| vec![ResourceRoot::named(project.path().join(path))];
    let places = ResourcePlaces {
        skills: root(".claude/skills"),
        agents: root(".claude/agents"),
        plugins: root(".halter/plugins"),
        ..ResourcePlaces::default()
    };
    let compiled = compile(places, Vec::new()).await;
    assert_eq!(armed(&compiled), (true, true, true));
    assert_eq!(compiled.warnings, []);
}

#[tokio::test]
async fn what_lies_in_the_home_directory_is_the_users() {
    let home = project();
    let home = home.path();
    let places = UsualPlaces::of(&home, Some(&home), Some(&home.join(".config/halter"))).find();
    assert_eq!(places.agents[0].origin, ResourceOrigin::User);
    assert_eq!(places.agents.len(), 1);
    assert_eq!(places.plugins, []);
}

#[test]
fn content_is_named_by_all_that_matters() {
    let root = Root::with(&[("a/x", "1"), ("a/y", "2"), ("a/.git/HEAD", "main")]);
    let folder = root.path().join("a");
    let digest = || TrustedContent::of(&folder).unwrap().digest;
    let first = digest();
    assert_eq!(first.len(), 64);
    root.write("a/.git/HEAD", "other");
    assert_eq!(digest(), first);
    let mut seen = vec![first];
    let mut changed = || {
        let now = digest();
        assert!(!seen.contains(&now));
        seen.push(now);
    };
    root.write("a/x", "2");
    changed();
    fs::set_permissions(folder.join("x"), fs::Permissions::from_mode(0o755)).unwrap();
    changed();
    fs::rename(folder.join("x"), folder.join("z")).unwrap();
    changed();
    root.link("a/l", "y");
    changed();
    root.link("a/out", "/etc/passwd");
    let refused = TrustedContent::of(&folder).unwrap_err();
    assert!(refused.to_string().contains("leads out"), "{refused}");
}

#[test]
fn what_is_too_much_to_look_at_is_not_trusted() {
    let root = Root::new();
    for number in 0..MAX_TRUSTED_FILES {
        root.write(&format!("f/{}/{number}", number % 7), "");
    }
    let folder = root.path().join("f");
    assert_eq!(
        TrustedContent::of(&folder).unwrap().files,
        MAX_TRUSTED_FILES
    );
    root.write("f/more", "");
    assert!(TrustedContent::of(&folder).is_err());
    let large = root.write("large", "");
    let file = fs::File::create(&large).unwrap();
    file.set_len(MAX_TRUSTED_BYTES).unwrap();
    assert!(TrustedContent::of(&large).is_ok());
    file.set_len(MAX_TRUSTED_BYTES + 1).unwrap();
    assert!(TrustedContent::of(&large).is_err());
}

/// A home and a project that hold one thing of each kind under the same name.
fn same_names() -> (Root, Root) {
    let whose = |words: &str| {
        let file = |words: &str| format!("---\nname: a\ndescription: d\n---\n{words}");
        [
            (".claude/skills/a/SKILL.md", file(words)),
            (".claude/agents/a.md", file(words)),
            (".claude/output-styles/a.md", file(words)),
            (".claude/commands/a.md", words.to_owned()),
        ]
    };
    let (home, project) = (Root::new(), Root::with(&[(".git/HEAD", "x")]));
    for (root, words) in [(&home, "The user's."), (&project, "The project's.")] {
        for (path, text) in whose(words) {
            root.write(path, text);
        }
    }
    (home, project)
}

/// Those that were refused a name, as `kind name`.
fn refused(compiled: &CompiledResources) -> Vec<String> {
    let refused = compiled
        .warnings
        .iter()
        .filter_map(|warning| match warning {
            ResourceWarning::NameIsTheUsers { kind, name, .. } => Some(format!("{kind} {name}")),
            _ => None,
        });
    refused.collect()
}

#[tokio::test]
async fn what_a_project_holds_never_takes_the_name_of_what_is_the_users() {
    let (home, project) = same_names();
    let places = UsualPlaces::of(&project.path(), Some(&home.path()), None).find();
    let compiled = compile(places, Vec::new()).await;
    let snapshot = &compiled.snapshot;
    assert!(snapshot.skills["a"].body.contains("The user's."));
    assert_eq!(snapshot.agents["a"].prompt, "The user's.");
    assert_eq!(snapshot.commands["a"].prompt, "The user's.");
    assert_eq!(snapshot.output_styles["a"].prompt, "The user's.");
    assert_eq!(
        refused(&compiled),
        ["skill a", "agent a", "command a", "output style a"]
    );
    let said = compiled.warnings[0].to_string();
    let [dropped, kept] =
        [&project, &home].map(|root| root.path().join(".claude/skills/a/SKILL.md"));
    assert_eq!(
        said,
        format!(
            "skill `a`: {} is not used: it is the project's, and {}, which is yours, has the same \
             name; rename one",
            dropped.display(),
            kept.display()
        )
    );
}

#[tokio::test]
async fn a_project_takes_no_name_from_a_plugin_of_the_user() {
    let manifest = r#"{"name": "p", "version": "1"}"#;
    let installed = Root::with(&[
        ("p/plugin.json", manifest),
        ("p/commands/go.md", "The user's."),
    ]);
    let project = Root::with(&[
        (".git/HEAD", "x"),
        (".halter/plugins/p/plugin.json", manifest),
        (".halter/plugins/p/commands/go.md", "The project's plugin."),
        (".claude/commands/p/go.md", "The project's command."),
        (".claude/commands/p/own.md", "The project's other command."),
    ]);
    let mut places = UsualPlaces::of(&project.path(), None, None).find();
    places.plugins.push(ResourceRoot {
        path: installed.path(),
        origin: ResourceOrigin::User,
    });
    let compiled = compile(places, Vec::new()).await;
    let snapshot = &compiled.snapshot;
    assert_eq!(snapshot.plugins["p"].origin, ResourceOrigin::User);
    assert_eq!(snapshot.commands["p:go"].prompt, "The user's.");
    assert!(snapshot.commands.contains_key("p:own"));
    assert_eq!(refused(&compiled), ["plugin p", "command p:go"]);
}

#[tokio::test]
async fn a_skill_of_a_project_takes_no_name_from_a_command_of_the_user() {
    let home = Root::with(&[(".claude/commands/deploy.md", "The user's.")]);
    let file = "---\ndescription: d\n---\nThe project's.";
    let project = Root::with(&[
        (".git/HEAD", "x"),
        (".claude/skills/deploy/SKILL.md", file),
        (".claude/skills/own/SKILL.md", file),
        (".claude/commands/own.md", "The project's."),
    ]);
    let places = UsualPlaces::of(&project.path(), Some(&home.path()), None).find();
    let compiled = compile(places, Vec::new()).await;
    let names: Vec<&str> = compiled
        .snapshot
        .skills
        .keys()
        .map(|it| it.as_str())
        .collect();
    assert_eq!(names, ["own"]);
    assert_eq!(compiled.snapshot.commands["deploy"].prompt, "The user's.");
    assert_eq!(refused(&compiled), ["skill deploy"]);
}
