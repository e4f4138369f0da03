//! Loaded resources, searched roots, and nothing at all.

use crate::support::{Root, names, skill};
use halter_protocol::ResourceSnapshot;
use halter_resources::{LoadedSkill, PluginLoader, ResourceCompiler, SkillLoader};

#[tokio::test]
async fn nothing_compiles_to_the_empty_snapshot() {
    let root = Root::new();
    for compiler in [
        ResourceCompiler::new(),
        ResourceCompiler::new().with_skill_roots(vec![root.path()]),
    ] {
        let compiled = compiler.compile().await.unwrap();
        assert_eq!(compiled.snapshot, ResourceSnapshot::empty());
        assert_eq!(compiled.warnings, []);
    }
}

#[tokio::test]
async fn loaded_skills_replace_the_search_of_roots() {
    let root = Root::with(&[("a/SKILL.md", &skill("a", "A."))]);
    let made =
        LoadedSkill::new("made", "Made in code.", "/skills/made/SKILL.md", "# Made").unwrap();
    let compiled = ResourceCompiler::new()
        .with_skill_roots(vec![root.path()])
        .with_loaded_skills(vec![made])
        .compile()
        .await
        .unwrap();
    assert_eq!(names(&compiled), ["made"]);
    let without = ResourceCompiler::new()
        .with_skill_roots(vec![root.path()])
        .with_loaded_skills(Vec::new())
        .compile()
        .await
        .unwrap();
    assert_eq!(names(&without), ["a"]);
}

#[tokio::test]
async fn loading_first_gives_the_same_snapshot() {
    let skills = Root::with(&[("a/SKILL.md", &skill("a", "A."))]);
    let plugins = Root::with(&[("p/plugin.json", r#"{"name": "p", "version": "1"}"#)]);
    let searched = ResourceCompiler::new()
        .with_skill_roots(vec![skills.path()])
        .with_plugin_roots(vec![plugins.path()])
        .compile()
        .await
        .unwrap();
    let loaded = ResourceCompiler::new()
        .with_loaded_skills(SkillLoader::new(skills.path()).load().skills)
        .with_loaded_plugins(PluginLoader::new(plugins.path()).load().plugins)
        .compile()
        .await
        .unwrap();
    assert_eq!(searched, loaded);
}
