//! Each limit at its edge.

use crate::support::{Root, codes, names, skill, skills_of};
use halter_resources::limits::{
    MAX_DEFINITIONS, MAX_DEPTH, MAX_ENTRIES, MAX_SKILL_BYTES, MAX_SKILLS, MAX_WARNINGS,
};
use halter_resources::{
    ResourceCompiler, ResourcePlaces, ResourceRoot, ResourceWarning, SkillLoader,
};
use std::fs;

#[tokio::test]
async fn a_skill_file_is_bounded() {
    let text = |bytes: u64| {
        let head = skill("big", "Big.");
        let rest = usize::try_from(bytes).unwrap() - head.len();
        head + &"x".repeat(rest)
    };
    let fits = Root::with(&[("big/SKILL.md", &text(MAX_SKILL_BYTES))]);
    assert_eq!(names(&skills_of(&[&fits]).await), ["big"]);
    let not = Root::with(&[("big/SKILL.md", &text(MAX_SKILL_BYTES + 1))]);
    let compiled = skills_of(&[&not]).await;
    assert_eq!(codes(&compiled), ["skill_skipped"]);
    let text = compiled.warnings[0].to_string();
    assert!(text.contains(&MAX_SKILL_BYTES.to_string()));
}

#[tokio::test]
async fn the_depth_is_bounded() {
    let below = |dirs: usize| format!("{}SKILL.md", "d/".repeat(dirs));
    let fits = Root::with(&[(&below(MAX_DEPTH), &skill("deep", "Deep."))]);
    let compiled = skills_of(&[&fits]).await;
    assert_eq!(names(&compiled), ["deep"]);
    assert_eq!(compiled.warnings, []);
    let not = Root::with(&[(&below(MAX_DEPTH + 1), &skill("deep", "Deep."))]);
    let compiled = skills_of(&[&not]).await;
    assert_eq!(names(&compiled), [""; 0]);
    assert_eq!(codes(&compiled), ["resource_limit_reached"]);
}

#[tokio::test]
async fn the_number_of_skills_is_bounded() {
    let root = Root::new();
    for number in 0..MAX_SKILLS {
        let name = format!("s{number:04}");
        root.write(&format!("{name}/SKILL.md"), skill(&name, "One of many."));
    }
    let compiled = skills_of(&[&root]).await;
    assert_eq!(compiled.snapshot.skills.len(), MAX_SKILLS);
    assert_eq!(compiled.warnings, []);
    root.write("t/SKILL.md", skill("t", "One too many."));
    let compiled = skills_of(&[&root]).await;
    assert_eq!(compiled.snapshot.skills.len(), MAX_SKILLS);
    assert_eq!(codes(&compiled), ["resource_limit_reached"]);
}

#[test]
fn the_search_is_bounded() {
    let root = Root::with(&[("a/SKILL.md", &skill("a", "A."))]);
    for number in 1..MAX_ENTRIES {
        fs::File::create(root.path().join(number.to_string())).unwrap();
    }
    let found = SkillLoader::new(root.path()).load();
    assert_eq!((found.skills.len(), found.warnings.len()), (1, 0));
    fs::File::create(root.path().join("one-more")).unwrap();
    let found = SkillLoader::new(root.path()).load();
    assert_eq!(found.warnings.len(), 1);
    assert_eq!(found.warnings[0].code(), "resource_limit_reached");
}

#[tokio::test]
async fn warnings_are_bounded() {
    let skills = Root::new();
    for number in 0..=MAX_WARNINGS {
        skills.write(&format!("{number}/SKILL.md"), "---\n");
    }
    let compiled = skills_of(&[&skills]).await;
    assert_eq!(compiled.warnings.len(), MAX_WARNINGS + 1);
    assert_eq!(
        compiled.warnings[MAX_WARNINGS],
        ResourceWarning::More { count: 1 }
    );
}

#[tokio::test]
async fn definitions_of_a_folder_are_bounded() {
    let root = Root::new();
    for number in 0..MAX_DEFINITIONS {
        root.write(&format!("c{number}.md"), "Go.");
    }
    let compile = async || {
        let root = ResourceRoot::named(root.path());
        let places = ResourcePlaces {
            commands: vec![root],
            ..ResourcePlaces::default()
        };
        let compiler = ResourceCompiler::new().with_places(places);
        compiler.compile().await.unwrap()
    };
    let compiled = compile().await;
    assert_eq!(compiled.snapshot.commands.len(), MAX_DEFINITIONS);
    assert_eq!(compiled.warnings, []);
    root.write("d.md", "One too many.");
    let compiled = compile().await;
    assert_eq!(compiled.snapshot.commands.len(), MAX_DEFINITIONS);
    assert_eq!(codes(&compiled), ["resource_limit_reached"]);
}
