//! Files that are not this machine's, with this machine in their place.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use halter_policy::limits::FILE_PIECE_BYTES;
use halter_policy::{
    FileDoor, FilePlace, FileRules, PlacedFiles, PolicyError, PolicySettings, Precondition,
    SessionFiles,
};

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
