//! A revision follows from content and from nothing else.

use crate::support::{Root, skill};
use halter_protocol::ResourceSnapshot;
use halter_resources::{LoadedSkill, ResourceCompiler};
use proptest::prelude::*;

fn compile(compiler: &ResourceCompiler) -> ResourceSnapshot {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(compiler.compile()).unwrap().snapshot
}

fn of_root(root: &Root) -> ResourceSnapshot {
    compile(&ResourceCompiler::new().with_skill_roots(vec![root.path()]))
}

#[test]
fn a_copied_root_has_the_same_revision_and_ids() {
    let files = [
        ("x/SKILL.md", skill("x", "X.")),
        ("deep/y/SKILL.md", skill("y", "Y.")),
    ];
    let (one, other) = (Root::new(), Root::new());
    for (path, text) in &files {
        one.write(path, text);
    }
    for (path, text) in files.iter().rev() {
        other.write(path, text);
    }
    let (one, other) = (of_root(&one), of_root(&other));
    assert_eq!(one.revision, other.revision);
    for (a, b) in one.skills.values().zip(other.skills.values()) {
        assert_eq!(a.id, b.id);
        assert_ne!(a.path, b.path);
    }
}

#[test]
fn whatever_a_model_could_notice_changes_the_revision() {
    let base = ("x/SKILL.md", skill("x", "X."));
    let variants = [
        (base.0, base.1.clone()),
        (base.0, base.1.clone() + "more\n"),
        (base.0, skill("x", "Y.")),
        (base.0, skill("y", "X.")),
        ("deep/x/SKILL.md", base.1.clone()),
    ];
    let revisions: Vec<_> = variants
        .iter()
        .map(|(path, text)| of_root(&Root::with(&[(path, text)])).revision)
        .collect();
    for (index, revision) in revisions.iter().enumerate() {
        assert!(revision.as_str().starts_with("rev_"));
        assert!(
            !revisions[..index].contains(revision),
            "{:?}",
            variants[index]
        );
    }
}

#[test]
fn files_that_are_no_resources_do_not_change_it() {
    let root = Root::with(&[("x/SKILL.md", &skill("x", "X."))]);
    let before = of_root(&root).revision;
    root.write("x/reference.md", "details");
    root.write("readme.md", "words");
    assert_eq!(of_root(&root).revision, before);
}

type Text = (String, String, String);

fn skills() -> impl Strategy<Value = Vec<Text>> {
    proptest::collection::btree_map("[a-z]{1,6}", ("[a-z]{1,9}", "[a-z \n]{0,20}"), 1..6)
        .prop_map(|map| map.into_iter().map(|(n, (d, b))| (n, d, b)).collect())
}

fn revision(skills: &[Text], root: &str) -> String {
    let loaded = skills.iter().map(|(name, description, body)| {
        let path = format!("{root}/{name}/SKILL.md");
        LoadedSkill::new(name.as_str(), description, path, body.as_str()).unwrap()
    });
    let compiler = ResourceCompiler::new().with_loaded_skills(loaded.collect());
    compile(&compiler).revision.0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_and_place_do_not_matter(
        (skills, shuffled) in skills().prop_flat_map(|s| (Just(s.clone()), Just(s).prop_shuffle())),
    ) {
        prop_assert_eq!(revision(&skills, "/here"), revision(&shuffled, "/there"));
    }

    #[test]
    fn different_content_has_a_different_revision(one in skills(), other in skills()) {
        let same = one == other;
        prop_assert_eq!(revision(&one, "/r") == revision(&other, "/r"), same);
    }
}
