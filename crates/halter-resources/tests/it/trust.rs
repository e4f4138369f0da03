//! What a project could run is withheld until its content is trusted.

use crate::support::{Root, codes};
use halter_protocol::ResourceOrigin;
use halter_resources::limits::{MAX_TRUSTED_BYTES, MAX_TRUSTED_FILES};
use halter_resources::{
    CompiledResources, ContentTrust, ResourceCompiler, ResourcePlaces, ResourceRoot,
    TrustedContent, UsualPlaces,
};
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
