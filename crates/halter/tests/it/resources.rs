//! Skills and plugins, from their directories to the model.

use crate::support::{directory, no_keys, outcomes, run_turn, session_in};
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use serde_json::json;
use std::sync::Arc;

const SKILL: &str = "---\nname: release\ndescription: How to release this project.\n---\n\
                     Tag first, then publish.\n";

#[tokio::test]
async fn a_skill_is_read_where_there_is_no_tool_to_load_it() {
    let skills = directory(&[("release/SKILL.md", SKILL)]);
    let project = directory(&[]);
    let file = skills
        .path()
        .canonicalize()
        .unwrap()
        .join("release/SKILL.md");
    let model = Arc::new(FakeProvider::scripted([
        Reply::new().tool_call("read", json!({"path": file})),
        Reply::new().text("Tag first."),
    ]));
    let mut config = HarnessConfig::default();
    config.resources.skills.roots = vec![skills.path().to_owned()];
    config.tools.enabled = vec!["read".to_owned()];
    let resources = ResourceCompiler::from_config(&config)
        .compile()
        .await
        .unwrap();
    let harness = Halter::builder()
        .with_config(config)
        .with_compiled_resources(resources)
        .with_environment(no_keys())
        .with_provider(model.clone())
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, project.path()).await;
    let outcomes = outcomes(&run_turn(&session, "How do I release?").await);

    let prompt = model.requests()[0].prompt.text();
    let line = format!(
        "- release: How to release this project. ({})",
        file.display()
    );
    assert!(prompt.contains(&line), "{prompt}");
    assert!(!prompt.contains("Tag first"), "bodies are read on demand");
    let read = outcomes[0].result.as_ref().unwrap().to_model_text();
    assert!(read.contains("Tag first, then publish."), "{read}");
    session.shutdown("done").await.unwrap();
}

/// Skill roots are for reading: not for writing, and nothing beside them.
#[tokio::test]
async fn a_skill_root_opens_nothing_but_reading() {
    let outside = directory(&[("skills/release/SKILL.md", SKILL), ("diary.txt", "private")]);
    let project = directory(&[]);
    let skill = outside.path().join("skills/release/SKILL.md");
    let model = FakeProvider::scripted([
        Reply::new()
            .tool_call("write", json!({"path": skill, "content": "Publish first."}))
            .tool_call("read", json!({"path": outside.path().join("diary.txt")})),
        Reply::new().text("I may not."),
    ]);
    let resources = ResourceCompiler::default()
        .with_skill_roots(vec![outside.path().join("skills")])
        .compile()
        .await
        .unwrap();
    let harness = Halter::builder()
        .with_compiled_resources(resources)
        .with_environment(no_keys())
        .with_provider(Arc::new(model))
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, project.path()).await;
    for outcome in outcomes(&run_turn(&session, "go").await) {
        let error = outcome.result.unwrap_err();
        assert_eq!(error.code.as_str(), "policy_denied", "{}", error.message);
    }
    assert_eq!(std::fs::read_to_string(skill).unwrap(), SKILL);
    session.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn a_plugin_brings_its_skills_wherever_its_manifest_is() {
    let manifest = r#"{"name": "deploy", "version": "1.0.0"}"#;
    for place in [
        ".claude-plugin/plugin.json",
        ".agent-plugin/plugin.json",
        ".halter-plugin/plugin.json",
        ".codex-plugin/plugin.json",
        "plugin.json",
    ] {
        let model = Arc::new(FakeProvider::default());
        let files = [
            (&*format!("deploy/{place}"), manifest),
            ("deploy/skills/x/SKILL.md", SKILL),
            ("deploy/hooks/hooks.json", "{\"hooks\": {}}"),
        ];
        let plugins = directory(&files);
        let project = directory(&[]);
        let mut config = HarnessConfig::default();
        config.resources.plugins.roots = vec![plugins.path().to_owned()];
        let resources = ResourceCompiler::from_config(&config)
            .compile()
            .await
            .unwrap();
        assert_eq!(resources.warnings, [], "{place}");
        let harness = Halter::builder()
            .with_config(config)
            .with_compiled_resources(resources)
            .with_environment(no_keys())
            .with_provider(model.clone())
            .build()
            .await
            .unwrap();
        let session = session_in(&harness, project.path()).await;
        run_turn(&session, "go").await;
        let prompt = model.requests()[0].prompt.text();
        assert!(
            prompt.contains("- deploy:release: How to release"),
            "{place}: {prompt}"
        );
        session.shutdown("done").await.unwrap();
    }
}

#[tokio::test]
async fn replaced_skills_reach_a_live_session_with_an_announced_cut() {
    let project = directory(&[]);
    let model = Arc::new(FakeProvider::default());
    let harness = Halter::builder()
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_environment(no_keys())
        .with_provider(model.clone())
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, project.path()).await;
    run_turn(&session, "one").await;
    let skills = directory(&[("release/SKILL.md", SKILL)]);
    let compiled = ResourceCompiler::default()
        .with_skill_roots(vec![skills.path().to_owned()])
        .compile()
        .await
        .unwrap();
    harness.replace_resources(compiled).unwrap();
    let kinds: Vec<String> = run_turn(&session, "two")
        .await
        .iter()
        .map(|event| event.payload.kind().to_owned())
        .collect();
    assert_eq!(
        kinds.iter().filter(|kind| *kind == "cache_break").count(),
        1
    );
    let requests = model.requests();
    assert!(!requests[0].prompt.text().contains("release"));
    assert!(
        requests[1]
            .prompt
            .text()
            .contains("- release: How to release")
    );
    let again = run_turn(&session, "three").await;
    assert!(
        again
            .iter()
            .all(|event| event.payload.kind() != "cache_break")
    );
    session.shutdown("done").await.unwrap();
}
