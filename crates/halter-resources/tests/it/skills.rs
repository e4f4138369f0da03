//! What counts as a skill, and what is said about what does not.

use crate::support::{Root, codes, names, skill, skills_of};
use halter_resources::{ResourceCompiler, ResourceWarning, UsualPlaces};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

#[tokio::test]
async fn a_link_to_a_skill_that_is_loaded_from_its_own_place_is_no_problem() {
    let project = Root::with(&[
        (".git/HEAD", "ref: refs/heads/main"),
        (".agents/skills/shared/SKILL.md", &skill("shared", "S.")),
    ]);
    project.link(".claude/skills/shared", "../../.agents/skills/shared");
    let elsewhere = Root::with(&[("own/SKILL.md", &skill("own", "O."))]);
    let link = project.link(".claude/skills/own", elsewhere.path().join("own"));
    let places = UsualPlaces::of(&project.path(), None, None).find();
    let compiler = ResourceCompiler::new().with_places(places);
    let compiled = compiler.compile().await.unwrap();
    assert_eq!(compiled.snapshot.skills.len(), 1);
    assert_eq!(
        compiled.warnings,
        [ResourceWarning::LinkNotFollowed { path: link }]
    );
}

#[tokio::test]
async fn skills_are_found_at_any_depth_and_sorted_by_name() {
    let root = Root::with(&[
        ("zeta/SKILL.md", &skill("alpha", "First.")),
        ("git/commit/SKILL.md", &skill("commit", "Commit.")),
        ("git/README.md", "not a skill"),
        ("notes.md", "not a skill"),
        (".hidden/SKILL.md", &skill("hidden", "Found too.")),
    ]);
    let compiled = skills_of(&[&root]).await;
    assert_eq!(names(&compiled), ["alpha", "commit", "hidden"]);
    assert_eq!(compiled.warnings, []);
    let commit = &compiled.snapshot.skills["commit"];
    assert_eq!(commit.path, root.path().join("git/commit/SKILL.md"));
    assert_eq!(commit.description, "Commit.");
    assert_eq!(commit.body, skill("commit", "Commit."));
    assert!(commit.id.as_str().starts_with("skl_"));
}

#[tokio::test]
async fn what_lies_inside_a_skill_belongs_to_it() {
    let root = Root::with(&[
        ("outer/SKILL.md", &skill("outer", "Outer.")),
        ("outer/examples/inner/SKILL.md", &skill("inner", "Inner.")),
        (".git/x/SKILL.md", &skill("git", "No.")),
        ("node_modules/x/SKILL.md", &skill("modules", "No.")),
    ]);
    assert_eq!(names(&skills_of(&[&root]).await), ["outer"]);
}

#[tokio::test]
async fn a_root_is_never_a_skill_and_says_so() {
    let root = Root::with(&[
        ("SKILL.md", &skill("root", "Root.")),
        ("a/SKILL.md", &skill("a", "A.")),
    ]);
    let compiled = skills_of(&[&root]).await;
    assert_eq!(names(&compiled), ["a"]);
    assert_eq!(codes(&compiled), ["resource_root_unusable"]);
}

#[tokio::test]
async fn a_missing_root_is_a_warning() {
    let root = Root::with(&[("file", "")]);
    let missing = root.path().join("absent");
    let file = root.path().join("file");
    let compiled = halter_resources::ResourceCompiler::new()
        .with_skill_roots(vec![missing.clone(), file])
        .with_plugin_roots(vec![missing.clone()])
        .compile()
        .await
        .unwrap();
    assert_eq!(codes(&compiled), ["resource_root_unusable"; 3]);
    let text = compiled.warnings[0].to_string();
    assert!(text.contains(missing.to_str().unwrap()) && text.contains("does not exist"));
}

#[tokio::test]
async fn one_bad_skill_costs_only_itself() {
    let root = Root::with(&[
        (
            "a/SKILL.md",
            "---\nname: a\ndisallowed-tools: [Write\n---\nx",
        ),
        ("b/SKILL.md", &skill("b", "Fine.")),
        ("c/SKILL.md", "---\nname: c\n"),
    ]);
    let binary = root.write("d/SKILL.md", b"# D\n\nfine\nnot \xff fine\n");
    let compiled = skills_of(&[&root]).await;
    assert_eq!(names(&compiled), ["b"]);
    let lines: Vec<_> = compiled
        .warnings
        .iter()
        .map(|warning| match warning {
            ResourceWarning::Skipped { path, line, .. } => (path.clone(), *line),
            other => panic!("{other}"),
        })
        .collect();
    let at = |name: &str| root.path().join(name).join("SKILL.md");
    assert_eq!(
        lines,
        [(at("a"), Some(3)), (at("c"), Some(1)), (binary, Some(4))]
    );
}

#[tokio::test]
async fn the_first_root_wins_a_name() {
    let first = Root::with(&[
        ("x/SKILL.md", &skill("same", "First.")),
        ("y/SKILL.md", &skill("same", "Second.")),
    ]);
    let second = Root::with(&[("a/SKILL.md", &skill("same", "Third."))]);
    let compiled = skills_of(&[&first, &second]).await;
    assert_eq!(compiled.snapshot.skills["same"].description, "First.");
    assert_eq!(codes(&compiled), ["skill_shadowed"; 2]);
    let text = compiled.warnings[1].to_string();
    assert!(text.contains("`same`") && text.contains(second.path().to_str().unwrap()));
}

#[tokio::test]
async fn a_root_given_twice_is_no_conflict() {
    let root = Root::with(&[("x/SKILL.md", &skill("x", "X."))]);
    let compiled = skills_of(&[&root, &root]).await;
    assert_eq!(compiled.warnings, []);
}

#[tokio::test]
async fn links_do_not_lead_out_of_a_root() {
    let outside = Root::with(&[("far/SKILL.md", &skill("far", "Far."))]);
    let root = Root::with(&[("near/SKILL.md", &skill("near", "Near."))]);
    let away = root.link("away", outside.path().join("far"));
    let nowhere = root.link("nowhere", "absent");
    root.link("again", "near");
    root.link("loop", ".");
    root.link("file", "near/SKILL.md");
    let compiled = skills_of(&[&root]).await;
    assert_eq!(names(&compiled), ["near"]);
    assert_eq!(
        compiled.warnings,
        [
            ResourceWarning::LinkNotFollowed { path: away },
            ResourceWarning::LinkNotFollowed { path: nowhere },
        ]
    );
}

#[tokio::test]
async fn a_linked_skill_file_must_stay_inside_too() {
    let outside = Root::with(&[("secret.txt", &skill("secret", "Secret."))]);
    let root = Root::with(&[("shared/text.md", &skill("inside", "Inside."))]);
    root.link("a/SKILL.md", "../shared/text.md");
    root.link("b/SKILL.md", outside.path().join("secret.txt"));
    root.link("c/SKILL.md", "absent");
    let compiled = skills_of(&[&root]).await;
    assert_eq!(names(&compiled), ["inside"]);
    assert_eq!(codes(&compiled), ["skill_skipped"; 2]);
}

#[tokio::test]
async fn what_is_not_a_file_is_not_waited_for() {
    let root = Root::new();
    fs::create_dir_all(root.path().join("dir/SKILL.md")).unwrap();
    fs::create_dir_all(root.path().join("pipe")).unwrap();
    let pipe = root.path().join("pipe/SKILL.md");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let compiled = skills_of(&[&root]).await;
    assert_eq!(codes(&compiled), ["skill_skipped"; 2]);
}

#[tokio::test]
async fn names_a_model_could_not_spell_are_reported() {
    let root = Root::with(&[("fine/SKILL.md", &skill("fine", "Fine."))]);
    for name in [b"caf\xe9".as_slice(), b"line\nbreak"] {
        let dir = root.path().join(OsStr::from_bytes(name));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("SKILL.md"), skill("x", "X.")).unwrap();
    }
    let compiled = skills_of(&[&root]).await;
    assert_eq!(names(&compiled), ["fine"]);
    assert_eq!(codes(&compiled), ["resource_path_not_text"; 2]);
    assert!(compiled.warnings[0].to_string().contains(r"caf\xe9"));
}
