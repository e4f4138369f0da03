//! Files that are not this machine's, with this machine in their place.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halter_policy::limits::FILE_PIECE_BYTES;
use halter_policy::permission::{Permissions, Verdict};
use halter_policy::{
    Access, FileDoor, FilePiece, FilePlace, FileRules, Listing, PlacedEntry, PlacedFiles,
    PlacedWalk, PlacedWalkPlan, PolicyError, PolicySettings, Precondition, RenameOver,
    SessionFiles, SessionScope, SourcedRule, StandardPolicy, Written,
};
use halter_protocol::{Action, CallToJudge, RuleEffect, RuleSource, ToolCall};

use crate::support::{Session, code};

/// A place that is this machine, reached as another one would be.
#[derive(Debug)]
struct InProcess;

impl FilePlace for InProcess {
    fn open(&self, rules: FileRules) -> Result<Arc<dyn PlacedFiles>, PolicyError> {
        Ok(Arc::new(FileDoor::for_rules(&rules)?))
    }
}

fn session() -> Session {
    Session::with(
        |_| PolicySettings::default(),
        |scope| scope.files = Some(SessionFiles(Arc::new(InProcess))),
    )
}

#[test]
fn files_elsewhere_are_read_written_and_removed_as_here() {
    let session = session();
    assert!(session.door().is_elsewhere());
    assert!(session.write("new/dir/file", "one").unwrap().created);
    assert_eq!(session.read("new/dir/file").unwrap(), "one");
    assert!(!session.write("new/dir/file", "two").unwrap().created);
    let ticket = session.door().prepare_write(Path::new("a/b/c")).unwrap();
    assert_eq!(
        ticket.new_directories(),
        [session.work("a"), session.work("a/b")]
    );
    drop(ticket);
    let door = session.door();
    let renamed = door.prepare_rename(Path::new("new/dir/file"), Path::new("moved"));
    renamed.unwrap().commit_new().unwrap();
    let listing = door.list(Path::new("."), 9).unwrap();
    let names: Vec<_> = listing
        .entries
        .iter()
        .map(|it| (&*it.name, it.kind))
        .collect();
    assert_eq!(
        names,
        [("moved".as_ref(), "file"), ("new".as_ref(), "directory")]
    );
    // Set aside, a file comes back unless it is discarded.
    let aside = door.prepare_delete(Path::new("moved")).unwrap().set_aside();
    let aside = aside.unwrap();
    assert!(!session.work("moved").exists());
    drop(aside);
    assert_eq!(session.read("moved").unwrap(), "two");
    door.prepare_delete(Path::new("moved"))
        .unwrap()
        .commit()
        .unwrap();
    // A directory goes with what was counted in it, and no more.
    let ticket = door.prepare_delete(Path::new("new")).unwrap();
    assert_eq!(code(ticket.check_tree(0)), "tree_too_large");
    assert_eq!(ticket.check_tree(1).unwrap(), 1);
    fs::write(session.work("new/late"), "").unwrap();
    let refused = ticket.set_aside().unwrap().discard();
    assert_eq!(code(refused), "tree_too_large");
    let ticket = door.prepare_delete(Path::new("new")).unwrap();
    assert_eq!(ticket.check_tree(9).unwrap(), 2);
    ticket.set_aside().unwrap().discard().unwrap();
    assert_eq!(session.tree(), ["outside", "outside/secret", "work"]);
}

#[test]
fn nothing_beyond_the_roots_is_reached_elsewhere() {
    let session = session();
    symlink(session.outside(""), session.work("out")).unwrap();
    fs::write(session.work(".env"), "key").unwrap();
    symlink(".env", session.work("plain")).unwrap();
    assert_eq!(code(session.read(session.outside("secret"))), "not_in_root");
    assert_eq!(code(session.read("out/secret")), "symlink_escape");
    assert_eq!(code(session.write("out/new", "x")), "symlink_escape");
    assert_eq!(code(session.read(".env")), "sensitive_path");
    assert_eq!(code(session.read("plain")), "sensitive_path");
    fs::hard_link(session.work(".env"), session.work("second")).unwrap();
    assert_eq!(code(session.read("second")), "sensitive_path");
    let deleted = session.door().prepare_delete(Path::new("out"));
    assert_eq!(code(deleted), "symlink_escape");
    // A link that is planted after a place was judged is not followed.
    fs::create_dir(session.work("dir")).unwrap();
    let ticket = session.door().prepare_write(Path::new("dir/file")).unwrap();
    fs::remove_dir(session.work("dir")).unwrap();
    fs::create_dir(session.work("other")).unwrap();
    symlink("other", session.work("dir")).unwrap();
    assert_eq!(code(ticket.commit(b"x", Precondition::None)), "changed");
    assert!(!session.work("other/file").exists());
}

#[test]
fn a_file_elsewhere_is_fetched_in_pieces_of_one_version() {
    for size in [FILE_PIECE_BYTES, FILE_PIECE_BYTES + 1, 3 * FILE_PIECE_BYTES] {
        let session = session();
        let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        fs::write(session.work("large"), &content).unwrap();
        let mut handle = session.door().open_read(Path::new("large")).unwrap();
        assert_eq!(handle.metadata().len(), size as u64);
        assert_eq!(handle.read_bounded(size as u64).unwrap(), content);
        assert_eq!(code(handle.read_bounded(size as u64 - 1)), "read_too_large");
        let hash = halter_protocol::ContentHash::hex_of(&content);
        assert_eq!(handle.sha256().unwrap(), hash);
        // What was fetched is of one version; what is missing is not mixed in.
        fs::write(session.work("large"), vec![0; size + 1]).unwrap();
        let mut read = Vec::new();
        let end = handle.into_reader().read_to_end(&mut read);
        assert!(content.starts_with(&read));
        assert_eq!(end.is_ok(), size <= FILE_PIECE_BYTES, "{end:?}");
    }
}

#[test]
fn what_changed_elsewhere_is_not_overwritten_unseen() {
    let session = session();
    fs::write(session.work("file"), "seen").unwrap();
    let door = session.door();
    let ticket = door.prepare_write(Path::new("file")).unwrap();
    let seen = ticket.existing().unwrap().unwrap().sha256().unwrap();
    fs::write(session.work("file"), "theirs").unwrap();
    let precondition = Precondition::Unchanged(seen);
    assert_eq!(code(ticket.commit(b"ours", precondition)), "changed");
    assert_eq!(session.read("file").unwrap(), "theirs");
    let ticket = door.prepare_write(Path::new("file")).unwrap();
    let refused = ticket.commit(b"ours", Precondition::MustNotExist);
    assert_eq!(code(refused), "already_exists");
    let delete = door.prepare_delete(Path::new("file")).unwrap();
    fs::remove_file(session.work("file")).unwrap();
    fs::create_dir(session.work("file")).unwrap();
    assert_eq!(code(delete.commit()), "changed");
    assert!(session.work("file").exists());
}

/// Where the session has its files, and what no file of this machine is called.
const THERE: &str = "/files-of-another-machine";

/// The files of a directory, as a machine would have them that calls it
/// [`THERE`].
#[derive(Debug)]
struct OtherNames {
    directory: PathBuf,
    files: FileDoor,
    /// Nothing is said of what is in a directory.
    is_mute: bool,
}

impl OtherNames {
    fn below(from: &Path, to: &Path, path: &Path) -> PathBuf {
        path.strip_prefix(from)
            .map_or_else(|_| path.to_path_buf(), |rest| to.join(rest))
    }

    fn inside(&self, path: &Path) -> PathBuf {
        Self::below(Path::new(THERE), &self.directory, path)
    }

    fn named(&self, mut entry: PlacedEntry) -> PlacedEntry {
        entry.path = Self::below(&self.directory, Path::new(THERE), &entry.path);
        entry
    }
}

#[derive(Debug)]
struct OtherMachine {
    directory: PathBuf,
    is_mute: bool,
}

impl FilePlace for OtherMachine {
    fn open(&self, _: FileRules) -> Result<Arc<dyn PlacedFiles>, PolicyError> {
        let rules = FileRules {
            working_dir: self.directory.clone(),
            write_roots: vec![self.directory.clone()],
            ..FileRules::default()
        };
        Ok(Arc::new(OtherNames {
            directory: self.directory.clone(),
            files: FileDoor::for_rules(&rules)?,
            is_mute: self.is_mute,
        }))
    }
}

impl PlacedFiles for OtherNames {
    fn look(&self, path: &Path, access: Access) -> Result<PlacedEntry, PolicyError> {
        let found = PlacedFiles::look(&self.files, &self.inside(path), access)?;
        Ok(self.named(found))
    }

    fn list(&self, path: &Path, max: usize) -> Result<Listing, PolicyError> {
        if self.is_mute {
            return Err(PolicyError::Elsewhere {
                code: "unreachable",
                denies: false,
                message: "it does not answer".to_owned(),
            });
        }
        self.files.list(&self.inside(path), max)
    }

    fn look_name(&self, _: &Path) -> Result<PlacedEntry, PolicyError> {
        unreachable!()
    }

    fn read(&self, _: &Path, _: u64, _: usize, _: Option<&str>) -> Result<FilePiece, PolicyError> {
        unreachable!()
    }

    fn write(&self, _: &Path, _: &[u8], _: &Precondition) -> Result<Written, PolicyError> {
        unreachable!()
    }

    fn walk(&self, _: &Path, _: &PlacedWalkPlan) -> Result<PlacedWalk, PolicyError> {
        unreachable!()
    }

    fn check_tree(&self, _: &Path, _: usize) -> Result<usize, PolicyError> {
        unreachable!()
    }

    fn remove(&self, _: &PlacedEntry, _: Option<usize>) -> Result<(), PolicyError> {
        unreachable!()
    }

    fn rename(&self, _: &PlacedEntry, _: &Path, _: RenameOver) -> Result<(), PolicyError> {
        unreachable!()
    }

    fn create_dir(&self, _: &Path) -> Result<bool, PolicyError> {
        unreachable!()
    }
}

#[test]
fn a_rule_that_asks_about_a_file_elsewhere_looks_for_it_there() {
    let temp = tempfile::tempdir().unwrap();
    let directory = temp.path().canonicalize().unwrap();
    fs::create_dir_all(directory.join("src/deep")).unwrap();
    fs::write(directory.join("src/deep/kept"), "x").unwrap();
    fs::create_dir(directory.join("docs")).unwrap();
    fs::write(directory.join("docs/a.md"), "x").unwrap();
    symlink("../src/deep/kept", directory.join("docs/way")).unwrap();
    let policy = |is_mute| {
        let rule = SourcedRule::new(RuleEffect::Ask, "Edit(kept)", RuleSource::User);
        let settings = PolicySettings {
            permissions: Permissions {
                rules: vec![rule.unwrap()],
                ..Permissions::default()
            },
            ..PolicySettings::default()
        };
        let place = OtherMachine {
            directory: directory.clone(),
            is_mute,
        };
        let scope = SessionScope {
            working_dir: THERE.into(),
            files: Some(SessionFiles(Arc::new(place))),
            ..SessionScope::default()
        };
        StandardPolicy::bind(settings, scope).unwrap()
    };
    let decided = |policy: &StandardPolicy, path: &str| {
        let call = ToolCall {
            id: "call".into(),
            name: "delete".into(),
            arguments: serde_json::json!({}),
        };
        let path = path.into();
        let call = CallToJudge::new(call, vec![Action::Write { path }]);
        policy.decide_call(&call).unwrap()
    };
    let (answers, mute) = (policy(false), policy(true));
    for (path, expected) in [
        ("src", Verdict::Ask),
        (".", Verdict::Ask),
        ("src/deep/kept", Verdict::Ask),
        ("docs/way", Verdict::Ask),
        ("docs/a.md", Verdict::Allow),
        ("docs/new", Verdict::Allow),
    ] {
        assert_eq!(decided(&answers, path).verdict, expected, "{path}");
    }
    assert_eq!(
        decided(&answers, "src").fragment.unwrap(),
        "src/deep/kept",
        "the file is named"
    );
    // What is there cannot be told: a person decides.
    let asked = decided(&mute, "src");
    assert_eq!(asked.verdict, Verdict::Ask);
    assert!(asked.fragment.unwrap().contains("cannot be told now"));
}
