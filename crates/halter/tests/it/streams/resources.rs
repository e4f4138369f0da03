//! Resources of every kind that are new, other or gone when a session is taken
//! up again.

use super::Recorded;
use super::scenarios::{harness, recorded, say, session};
use halter_protocol::{
    AgentDef, CommandDef, OutputStyleDef, PluginManifest, ResourceSnapshot, SeededIds, SkillDef,
};
use halter_runtime::{InstructionSettings, Resources, RuntimeServices};
use halter_testkit::Harness;
use serde_json::{Value, json};
use std::sync::Arc;

fn snapshot(revision: &str) -> ResourceSnapshot {
    ResourceSnapshot {
        revision: revision.into(),
        ..ResourceSnapshot::empty()
    }
}

fn with_skill(mut snapshot: ResourceSnapshot, name: &str, body: &str) -> ResourceSnapshot {
    let path = format!("/skills/{name}/SKILL.md");
    let skill = SkillDef::new(format!("skl_{name}"), name, "How to.", path, body);
    snapshot.skills.insert(skill.name.clone(), skill);
    snapshot
}

fn of_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn first() -> ResourceSnapshot {
    let mut first = with_skill(snapshot("first"), "release", "Tag first.");
    first = with_skill(first, "review", "Read it.");
    let style: OutputStyleDef = of_json(json!({
        "name": "brief", "description": "Few words.", "prompt": "Be brief.",
        "path": "/styles/brief.md",
    }));
    first.output_styles.insert("brief".into(), style);
    let plugin: PluginManifest = of_json(json!({"name": "demo", "root": "/plugins/demo"}));
    first.plugins.insert("demo".into(), plugin);
    first
}

fn second() -> ResourceSnapshot {
    let mut second = with_skill(snapshot("second"), "release", "Test first.");
    let agent = AgentDef::new("reviewer", "Reviews.", "You review.");
    second.agents.insert(agent.name.clone(), agent);
    let command: CommandDef = of_json(json!({
        "name": "fix", "description": "Fixes.", "prompt": "Fix $1.", "path": "/commands/fix.md",
    }));
    second.commands.insert("fix".into(), command);
    let plugin = json!({"name": "demo", "root": "/plugins/demo", "version": "2"});
    second.plugins.insert("demo".into(), of_json(plugin));
    second
}

fn with(snapshot: ResourceSnapshot) -> impl FnOnce(&mut RuntimeServices) {
    move |services| {
        services.instructions = Some(InstructionSettings::default());
        services.resources.replace(Resources {
            snapshot: Arc::new(snapshot),
            ..Resources::default()
        });
    }
}

pub async fn resources_loaded() -> Recorded {
    let before = harness(Harness::scripted(["One."]).services(with(first())));
    let workspace = before.workspace();
    workspace.write("AGENTS.md", "Use tabs.");
    let session = session(&before, "resources_loaded").await;
    say(&before, &session, 1, "Begin").await;
    workspace.write("AGENTS.md", "Use spaces.");
    let after = before
        .another_process(["Two."])
        .services(with(second()))
        .services(|services| services.ids = Arc::new(SeededIds::new(2)))
        .start();
    let resumed = after.resume(&session).await;
    say(&after, &resumed, 2, "Go on").await;
    recorded(&after, &resumed).await
}
