//! Instruction files: found, read once, with what they import, and never
//! beyond the door.

use crate::support::Root;
use halter_protocol::limits::INSTRUCTION_FILES;
use halter_resources::instructions::{
    ClosedInstructions, FoundInstructions, InstructionDoor, InstructionOrigin, InstructionPlaces,
    OpenInstructions, directory_of, is_instruction_file, load_instructions,
};
use halter_resources::limits::{MAX_IMPORT_HOPS, MAX_INSTRUCTION_BYTES, MAX_INSTRUCTIONS_BYTES};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Opens what lies in a directory and is not called `secret.md`.
struct Within(PathBuf);

impl InstructionDoor for Within {
    fn open_named(&self, path: &Path) -> Result<OpenInstructions, ClosedInstructions> {
        let resolved = fs::canonicalize(path).map_err(|_| ClosedInstructions::Missing)?;
        if !resolved.starts_with(&self.0) || resolved.ends_with("secret.md") {
            return Err(ClosedInstructions::Refused("it is closed".to_owned()));
        }
        if !resolved.is_file() {
            return Err(ClosedInstructions::Refused(
                "it is not a regular file".to_owned(),
            ));
        }
        let file = File::open(&resolved)
            .map_err(|error| ClosedInstructions::Refused(error.to_string()))?;
        Ok(OpenInstructions {
            file: Box::new(file),
            resolved,
        })
    }

    fn open_import(&self, path: &Path) -> Result<OpenInstructions, ClosedInstructions> {
        self.open_named(path)
    }
}

fn load(root: &Root, directories: &[&str]) -> FoundInstructions {
    load_with_user(root, directories, Vec::new())
}

fn load_with_user(
    root: &Root,
    directories: &[&str],
    user_files: Vec<PathBuf>,
) -> FoundInstructions {
    let places = InstructionPlaces {
        user_files,
        directories: directories.iter().map(|it| root.path().join(it)).collect(),
        home: Some(root.path().join("home")),
    };
    load_instructions(&places, &Within(root.path()))
}

/// The paths below the root.
fn paths(root: &Root, found: &FoundInstructions) -> Vec<String> {
    let paths = found.files.iter().map(|file| {
        let below = file.path.strip_prefix(root.path()).unwrap_or(&file.path);
        below.to_str().unwrap().to_owned()
    });
    paths.collect()
}

fn warnings(found: &FoundInstructions) -> Vec<String> {
    found.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn files_come_from_the_outermost_directory_down() {
    let user = Root::with(&[("AGENTS.md", "mine")]);
    let root = Root::with(&[
        ("AGENTS.md", "one"),
        ("AGENTS.local.md", "two"),
        ("CLAUDE.md", "three"),
        (".claude/CLAUDE.md", "four"),
        ("CLAUDE.local.md", "five"),
        ("sub/AGENTS.md", "six"),
        ("sub/deep/CLAUDE.md", "not asked for"),
        ("README.md", "no instructions"),
    ]);
    let found = load_with_user(&root, &["", "sub"], vec![user.path().join("AGENTS.md")]);
    let texts: Vec<&str> = found.files.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(
        texts,
        ["mine", "one", "two", "three", "four", "five", "six"]
    );
    let origins: Vec<&str> = found.files.iter().map(|it| it.origin.as_str()).collect();
    assert_eq!(origins[..2], ["user", "project"]);
    assert_eq!(warnings(&found), [""; 0]);
}

#[test]
fn one_text_of_a_directory_is_loaded_once() {
    let root = Root::with(&[
        ("AGENTS.md", "same\n"),
        ("CLAUDE.md", "\nsame"),
        ("sub/AGENTS.md", "same"),
        ("linked/AGENTS.md", "other"),
        ("blank/AGENTS.md", " \n<!-- nothing -->\n"),
    ]);
    root.link("linked/CLAUDE.md", "AGENTS.md");
    let found = load(&root, &["", "sub", "linked", "blank"]);
    assert_eq!(
        paths(&root, &found),
        ["AGENTS.md", "sub/AGENTS.md", "linked/AGENTS.md"]
    );
}

#[test]
fn imports_follow_the_file_that_names_them() {
    let root = Root::with(&[
        (
            "AGENTS.md",
            "See @docs/a.md and @home/../docs/c.md, @~/mine.md",
        ),
        ("docs/a.md", "@b.md\n@../AGENTS.md"),
        ("docs/b.md", "@a.md"),
        ("docs/c.md", "see"),
        ("home/mine.md", "mine"),
        ("CLAUDE.md", "@AGENTS.md"),
    ]);
    let found = load(&root, &[""]);
    assert_eq!(
        paths(&root, &found),
        [
            "AGENTS.md",
            "docs/a.md",
            "docs/b.md",
            "docs/c.md",
            "home/mine.md",
            "CLAUDE.md"
        ]
    );
    let by = root.path().join("docs/a.md");
    assert_eq!(found.files[2].origin, InstructionOrigin::Import { by });
    assert_eq!(warnings(&found), [""; 0]);
}

#[test]
fn what_the_door_refuses_is_said_and_not_loaded() {
    let outside = Root::with(&[("id_rsa", "PRIVATE")]);
    let root = Root::with(&[("secret.md", "PRIVATE"), ("sub/CLAUDE.md", "fine")]);
    root.write(
        "AGENTS.md",
        format!(
            "@secret.md @{}/id_rsa @link.md @none.md @scope/package @sub",
            outside.path().display()
        ),
    );
    root.link("link.md", outside.path().join("id_rsa"));
    root.link("CLAUDE.md", outside.path().join("id_rsa"));
    root.link("sub/AGENTS.md", "../secret.md");
    root.link("sub/AGENTS.local.md", "nowhere");
    fs::create_dir(root.path().join("CLAUDE.local.md")).unwrap();
    let found = load(&root, &["", "sub"]);
    assert_eq!(paths(&root, &found), ["AGENTS.md", "sub/CLAUDE.md"]);
    assert!(!format!("{found:?}").contains("PRIVATE"));
    let said = warnings(&found);
    let top = root.path();
    let top = top.display();
    for part in [
        format!("instructions {top}/AGENTS.md: `@secret.md` is not loaded: it is closed"),
        format!("instructions {top}/AGENTS.md: `@link.md` is not loaded: it is closed"),
        format!("instructions {top}/AGENTS.md: `@none.md` is not loaded: there is no such file"),
        format!("instructions {top}/CLAUDE.md: skipped: it is closed"),
        format!("instructions {top}/CLAUDE.local.md: skipped: it is not a regular file"),
        format!("instructions {top}/sub/AGENTS.md: skipped: it is closed"),
    ] {
        assert!(
            said.iter().any(|it| it.starts_with(&part)),
            "{part}: {said:#?}"
        );
    }
    assert_eq!(said.len(), 7, "{said:#?}");
}

#[test]
fn user_wide_files_import_texts_beside_them_and_nothing_else() {
    let user = Root::with(&[
        (
            "claude/CLAUDE.md",
            "@notes/style.md @credentials.json @../other.md @link.md @gone.md",
        ),
        ("claude/notes/style.md", "style"),
        ("claude/credentials.json", "PRIVATE"),
        ("other.md", "PRIVATE"),
        ("dotfiles/AGENTS.md", "dots"),
    ]);
    user.link("claude/link.md", "../other.md");
    user.link("AGENTS.md", "dotfiles/AGENTS.md");
    let files = ["claude/CLAUDE.md", "AGENTS.md", "none.md"];
    let files = files.map(|it| user.path().join(it)).to_vec();
    let found = load_with_user(&Root::new(), &[], files);
    assert_eq!(
        paths(&user, &found),
        ["claude/CLAUDE.md", "claude/notes/style.md", "AGENTS.md"]
    );
    assert!(!format!("{found:?}").contains("PRIVATE"));
    let refused = |it: &&String| it.contains("only .md files of their own directory");
    assert_eq!(warnings(&found).iter().filter(refused).count(), 3);
    assert_eq!(found.warnings.len(), 4);
}

#[test]
fn what_is_not_text_is_skipped_with_its_line() {
    let root = Root::with(&[("CLAUDE.md", "fine")]);
    root.write("AGENTS.md", b"one\n\xff\xfe");
    let found = load(&root, &[""]);
    assert_eq!(paths(&root, &found), ["CLAUDE.md"]);
    let said = warnings(&found);
    assert!(
        said[0].contains("AGENTS.md:2: skipped: it is not UTF-8"),
        "{said:?}"
    );
}

#[test]
fn a_file_is_cut_at_its_limit() {
    let bytes = usize::try_from(MAX_INSTRUCTION_BYTES).unwrap();
    let root = Root::with(&[("AGENTS.md", &"x".repeat(bytes))]);
    let found = load(&root, &[""]);
    assert_eq!(found.files[0].text.len(), bytes);
    assert_eq!(warnings(&found), [""; 0]);
    root.write("AGENTS.md", "é\n".repeat(bytes / 3 + 1));
    let found = load(&root, &[""]);
    assert_eq!(found.warnings[0].code(), "instructions_cut");
    let text = &found.files[0].text;
    assert!(text.ends_with("é\n\n[the rest of this file is left out]"));
    assert!(text.len() < bytes + 100);
    root.write("AGENTS.md", "é".repeat(bytes));
    let found = load(&root, &[""]);
    assert!(found.files[0].text.starts_with("éé"));
}

#[test]
fn all_files_together_have_a_limit() {
    let part = "y".repeat(MAX_INSTRUCTIONS_BYTES / 2);
    let root = Root::with(&[("a/AGENTS.md", &part), ("b/AGENTS.md", &part)]);
    assert_eq!(load(&root, &["a", "b"]).files.len(), 2);
    root.write("c/AGENTS.md", "z");
    let found = load(&root, &["a", "b", "c"]);
    assert_eq!(found.files.len(), 2);
    assert_eq!(found.warnings[0].code(), "resource_limit_reached");
}

#[test]
fn so_many_files_are_loaded_and_no_more() {
    let root = Root::new();
    let names = (0..INSTRUCTION_FILES).map(|number| format!("@{number}.md\n"));
    let imports: Vec<String> = names.collect();
    for number in 0..INSTRUCTION_FILES {
        root.write(&format!("{number}.md"), number.to_string());
    }
    root.write("AGENTS.md", imports[1..].concat());
    let found = load(&root, &[""]);
    assert_eq!(found.files.len(), INSTRUCTION_FILES);
    assert_eq!(warnings(&found), [""; 0]);
    root.write("AGENTS.md", imports.concat());
    let found = load(&root, &[""]);
    assert_eq!(found.files.len(), INSTRUCTION_FILES);
    assert_eq!(found.warnings.len(), 1);
    assert_eq!(found.warnings[0].code(), "resource_limit_reached");
}

#[test]
fn imports_lead_so_far_and_no_further() {
    let root = Root::with(&[("AGENTS.md", "@1.md")]);
    for hop in 1..=MAX_IMPORT_HOPS + 1 {
        root.write(&format!("{hop}.md"), format!("@{}.md", hop + 1));
    }
    let found = load(&root, &[""]);
    assert_eq!(found.files.len(), 1 + MAX_IMPORT_HOPS);
    let said = warnings(&found);
    assert!(
        said[0].contains("`@5.md` is not loaded: more than 4 imports lead to it"),
        "{said:?}"
    );
    fs::remove_file(root.path().join(format!("{}.md", MAX_IMPORT_HOPS + 1))).unwrap();
    root.write(&format!("{MAX_IMPORT_HOPS}.md"), "the end");
    assert_eq!(warnings(&load(&root, &[""])), [""; 0]);
}

#[test]
fn a_path_that_no_model_could_spell_is_left_out() {
    let root = Root::with(&[("a\nb/AGENTS.md", "x")]);
    let found = load(&root, &["a\nb"]);
    assert_eq!(found.files.len(), 0);
    assert_eq!(found.warnings[0].code(), "resource_path_not_text");
}

#[test]
fn the_directory_of_a_file_is_the_one_it_instructs_for() {
    let of = |path| {
        directory_of(Path::new(path))
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(of("/r/AGENTS.md"), "/r");
    assert_eq!(of("/r/.claude/CLAUDE.md"), "/r");
    assert_eq!(of("/r/.claude/AGENTS.md"), "/r/.claude");
    assert!(is_instruction_file(Path::new("/r/.claude/CLAUDE.md")));
    assert!(!is_instruction_file(Path::new("/r/MYAGENTS.md")));
}
