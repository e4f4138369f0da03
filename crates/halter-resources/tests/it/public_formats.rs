//! Folders laid out as the public formats say load unchanged.

use halter_protocol::{AgentIsolation, PermissionMode, ReasoningEffort, SkillDef};
use halter_resources::render::{SkillScope, skill_text};
use halter_resources::{CompiledResources, ResourceCompiler, ResourcePlaces, ResourceRoot};
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

async fn load(places: ResourcePlaces) -> CompiledResources {
    let compiler = ResourceCompiler::new().with_places(places);
    compiler.compile().await.unwrap()
}

fn root(name: &str) -> Vec<ResourceRoot> {
    vec![ResourceRoot::named(fixtures().join(name))]
}

/// What is said besides notes: nothing, where all is as the formats want it.
fn said(compiled: &CompiledResources) -> Vec<String> {
    let told = compiled.warnings.iter().filter(|it| !it.is_note());
    told.map(ToString::to_string).collect()
}

#[tokio::test]
async fn skills_load_by_the_public_rules() {
    let compiled = load(ResourcePlaces {
        skills: root("skills"),
        ..ResourcePlaces::default()
    })
    .await;
    assert_eq!(said(&compiled), [""; 0]);
    let skills = &compiled.snapshot.skills;
    assert!(skills.len() >= 5);
    for skill in skills.values() {
        let name = skill.name.as_str();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(
            (1..=64).contains(&name.len()) && name.chars().all(plain),
            "{name}"
        );
        assert!(!name.starts_with('-') && !name.ends_with('-') && !name.contains("--"));
        let directory = skill.root().unwrap().file_name().unwrap();
        assert_eq!(directory, name, "the name is that of the directory");
        assert!((1..=1536).contains(&skill.description.chars().count()));
        assert!(!skill.description.contains('\n'));
    }
    let by_user: Vec<&str> = names(skills.values().filter(|it| it.user_only));
    assert_eq!(by_user, ["fix-issue"]);
    assert_eq!(
        names(skills.values().filter(|it| it.model_only)),
        ["api-review"]
    );
    assert_eq!(
        names(skills.values().filter(|it| it.always)),
        ["house-rules"]
    );
    let fix = skill_text(&skills["fix-issue"], "42 high", SkillScope::Any).text;
    assert!(fix.starts_with("Fix issue 42 with priority high."), "{fix}");
    assert!(fix.contains("`git status --short` (not run yet"), "{fix}");
    assert!(skills["fix-issue"].description.ends_with("by its number."));
    assert_eq!(skills["api-review"].paths, ["src/**/*.rs", "Cargo.toml"]);
    assert!(
        skills["csv-report"]
            .root()
            .unwrap()
            .join("scripts/summary.py")
            .exists()
    );
}

fn names<'a>(skills: impl Iterator<Item = &'a SkillDef>) -> Vec<&'a str> {
    skills.map(|it| it.name.as_str()).collect()
}

#[tokio::test]
async fn agent_files_load_by_the_public_rules() {
    let compiled = load(ResourcePlaces {
        agents: root("agents"),
        // One of them names some.
        skills: root("skills"),
        ..ResourcePlaces::default()
    })
    .await;
    // Servers that a file describes itself are not started, and a part of a
    // tool is not granted.
    let said = said(&compiled);
    assert_eq!(said.len(), 2, "{said:?}");
    let is_said = |part: &str| said.iter().any(|it| it.contains(part));
    assert!(is_said("(playwright) are not started"), "{said:?}");
    assert!(is_said("does not have Agent(code-reviewer)"), "{said:?}");
    let agents = &compiled.snapshot.agents;
    assert_eq!(agents.len(), 10);
    for agent in agents.values() {
        assert!(agent.prompt.starts_with("You are the "), "{}", agent.name);
        assert!(!agent.prompt.contains("---"));
        assert!(!agent.description.is_empty());
    }
    let reviewer = &agents["code-reviewer"];
    let tools = reviewer.tools.as_ref().unwrap();
    assert_eq!(tools, &["Read", "Grep", "Glob", "Bash"]);
    assert_eq!(reviewer.model, None);
    assert_eq!(agents["data-analyst"].tools.as_ref().unwrap().len(), 3);
    assert_eq!(agents["data-analyst"].model.as_deref(), Some("sonnet"));
    assert_eq!(agents["safe-explorer"].disallowed_tools, ["Write", "Edit"]);
    assert_eq!(
        agents["safe-explorer"].permission_mode,
        Some(PermissionMode::ReadOnly)
    );
    assert_eq!(
        agents["editor"].permission_mode,
        Some(PermissionMode::WorkspaceWrite)
    );
    assert_eq!(agents["test-writer"].max_turns, Some(30));
    assert_eq!(agents["test-writer"].skills.len(), 2);
    let migrator = &agents["migrator"];
    assert_eq!(migrator.isolation, Some(AgentIsolation::Worktree));
    assert_eq!(
        (migrator.background, migrator.effort),
        (true, Some(ReasoningEffort::High))
    );
    let servers = agents["browser-tester"].mcp_servers.as_ref().unwrap();
    assert_eq!(servers[0]["playwright"]["command"], "npx");
    let hooks = agents["db-reader"].hooks.as_ref().unwrap();
    assert_eq!(hooks["PreToolUse"][0]["matcher"], "Bash");
    let tools = agents["researcher"].tools.as_ref().unwrap();
    assert_eq!(tools[3], "Agent(code-reviewer)");
}

#[tokio::test]
async fn plugins_load_by_the_public_rules() {
    let compiled = load(ResourcePlaces {
        plugins: root("plugins"),
        ..ResourcePlaces::default()
    })
    .await;
    let told = said(&compiled);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].starts_with("plugin `db-tools`: no `version`"),
        "{told:?}"
    );
    let snapshot = &compiled.snapshot;
    let plugins: Vec<_> = snapshot.plugins.keys().map(|it| it.as_str()).collect();
    assert_eq!(plugins, ["db-tools", "just-folders", "review-kit"]);
    assert_eq!(
        names(snapshot.skills.values()),
        [
            "db-tools:schema",
            "db-tools:tuning",
            "just-folders:greet",
            "review-kit:review"
        ]
    );
    assert!(snapshot.agent("reviewer").is_ok() && snapshot.agent("review-kit:reviewer").is_ok());
    assert_eq!(snapshot.agent("dba").unwrap().permission_mode, None);
    assert_eq!(
        snapshot.command("standup").unwrap().name,
        "just-folders:team:standup"
    );
    let review = snapshot.command("review-pr").unwrap();
    assert_eq!(review.argument_hint.as_deref(), Some("[pr-number]"));
    assert!(snapshot.output_style("Tables").unwrap().keeps_guidance);
    assert_eq!(compiled.hook_files.len(), 1);
    assert_eq!(compiled.mcp_servers[0].name, "db");
    assert_eq!(compiled.lsp_servers[0].name, "sql");
    assert_eq!(
        snapshot.plugins["review-kit"].version.as_deref(),
        Some("2.1.0")
    );
}

/// The plugin that comes with Halter, for coding agents that build with it.
#[tokio::test]
async fn the_plugin_of_this_repository_is_valid_and_its_examples_are_compiled() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let compiled = load(ResourcePlaces {
        plugins: vec![ResourceRoot::named(repository.join("plugins/halter"))],
        ..ResourcePlaces::default()
    })
    .await;
    assert_eq!(compiled.warnings, []);
    let skill = compiled.snapshot.skill("build-with-halter").unwrap();
    assert_eq!(skill.name.as_str(), "halter:build-with-halter");
    assert!(skill.body.lines().count() < 500);
    let references = skill.root().unwrap().join("references");
    let mut count = 0;
    for entry in std::fs::read_dir(references).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(skill.body.contains(&format!("references/{name}")), "{name}");
        let example = repository.join("crates/halter/examples").join(name);
        let (shown, compiled) = (std::fs::read(&path), std::fs::read(example));
        assert_eq!(
            shown.unwrap(),
            compiled.unwrap(),
            "{name} is not the compiled example"
        );
        count += 1;
    }
    assert_eq!(count, 5);
}
