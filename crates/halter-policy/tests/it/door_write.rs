//! Writing through the door.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use halter_policy::{PolicySettings, Precondition, SessionScope, StandardPolicy, ToolPolicy};
use halter_protocol::ContentHash;

use crate::support::{Session, code, skipped};

#[test]
fn a_new_file_comes_with_its_parents() {
    let session = Session::new();
    assert!(session.write("a/b/c.txt", "text").unwrap().created);
    assert_eq!(
        fs::read_to_string(session.work("a/b/c.txt")).unwrap(),
        "text"
    );
    assert!(!session.write("a/b/c.txt", "more").unwrap().created);
    assert_eq!(
        fs::read_to_string(session.work("a/b/c.txt")).unwrap(),
        "more"
    );
    let mode = fs::metadata(session.work("a/b/c.txt")).unwrap().mode();
    assert_eq!(mode & 0o133, 0, "{mode:o}");
}

#[test]
fn preparing_changes_nothing() {
    let session = Session::new();
    let before = session.tree();
    let ticket = session
        .door()
        .prepare_write(Path::new("new/dir/file"))
        .unwrap();
    assert_eq!(ticket.resolved(), session.work("new/dir/file"));
    assert!(ticket.existing().unwrap().is_none());
    drop(ticket);
    assert_eq!(session.tree(), before);
}

#[test]
fn what_is_read_only_is_read_and_stays_as_it_is() {
    let session = Session::with(
        |_| PolicySettings::default(),
        |scope| {
            fs::write(scope.working_dir.join("guard.sh"), "exit 2").unwrap();
            symlink("guard.sh", scope.working_dir.join("link")).unwrap();
            fs::hard_link(
                scope.working_dir.join("guard.sh"),
                scope.working_dir.join("hard"),
            )
            .unwrap();
            scope.read_only = vec![scope.working_dir.join("guard.sh")];
        },
    );
    for path in ["guard.sh", "./guard.sh", "GUARD.sh", "link"] {
        let refused = session.write(path, "exit 0").unwrap_err();
        assert_eq!(refused.code(), "read_only_path", "{path}");
        assert!(refused.is_denial());
    }
    // Another name for it becomes another file.
    session.write("hard", "exit 0").unwrap();
    for path in ["guard.sh", "link"] {
        assert_eq!(session.read(path).unwrap(), "exit 2");
    }
    let door = session.door();
    let name = Path::new("guard.sh");
    assert_eq!(
        door.prepare_delete(name).unwrap_err().code(),
        "read_only_path"
    );
    let moved = door.prepare_rename(name, Path::new("other"));
    assert_eq!(moved.unwrap_err().code(), "read_only_path");
    session.write("guard.sh.bak", "free").unwrap();
}

#[test]
fn the_mode_of_a_file_is_kept_but_not_its_set_id_bits() {
    let session = Session::new();
    for (mode, kept) in [
        (0o755, 0o755),
        (0o600, 0o600),
        (0o444, 0o444),
        (0o4755, 0o755),
    ] {
        fs::write(session.work("file"), "old").unwrap();
        fs::set_permissions(session.work("file"), fs::Permissions::from_mode(mode)).unwrap();
        session.write("file", "new").unwrap();
        let found = fs::metadata(session.work("file")).unwrap().mode() & 0o7777;
        assert_eq!(found, kept, "{mode:o} became {found:o}");
        fs::remove_file(session.work("file")).unwrap();
    }
}

#[test]
fn the_owner_of_a_file_is_kept_where_possible() {
    if !rustix::process::geteuid().is_root() {
        return skipped("root, to give a file to somebody");
    }
    let session = Session::new();
    fs::write(session.work("file"), "old").unwrap();
    std::os::unix::fs::chown(session.work("file"), Some(1234), Some(5678)).unwrap();
    session.write("file", "new").unwrap();
    let metadata = fs::metadata(session.work("file")).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (1234, 5678));
}

#[test]
fn another_hard_link_keeps_the_old_content() {
    let session = Session::new();
    fs::write(session.work("file"), "old").unwrap();
    fs::hard_link(session.work("file"), session.outside("other")).unwrap();
    session.write("file", "new").unwrap();
    assert_eq!(fs::read_to_string(session.work("file")).unwrap(), "new");
    assert_eq!(fs::read_to_string(session.outside("other")).unwrap(), "old");
}

#[test]
fn a_link_inside_is_written_through_and_stays_a_link() {
    let session = Session::new();
    fs::create_dir(session.work("dir")).unwrap();
    fs::write(session.work("dir/file"), "old").unwrap();
    symlink("dir/file", session.work("link")).unwrap();
    symlink("dir/new", session.work("dangling")).unwrap();
    session.write("link", "new").unwrap();
    session.write("dangling", "fresh").unwrap();
    assert!(session.work("link").is_symlink() && session.work("dangling").is_symlink());
    assert_eq!(fs::read_to_string(session.work("dir/file")).unwrap(), "new");
    assert_eq!(
        fs::read_to_string(session.work("dir/new")).unwrap(),
        "fresh"
    );
}

#[test]
fn denied_writes_change_nothing() {
    let session = Session::new();
    fs::create_dir_all(session.work("dir/.git/hooks")).unwrap();
    fs::create_dir(session.work(".ssh")).unwrap();
    symlink("../outside/new", session.work("out-dangling")).unwrap();
    symlink("../outside/secret", session.work("out-file")).unwrap();
    symlink("../outside", session.work("out-dir")).unwrap();
    symlink(session.outside("absolute"), session.work("out-absolute")).unwrap();
    symlink(".env", session.work("hidden")).unwrap();
    let before = session.tree();
    for (path, expected) in [
        ("../outside/x", "parent_traversal"),
        ("/etc/halter-test", "not_in_root"),
        ("out-dangling", "symlink_escape"),
        ("out-file", "symlink_escape"),
        ("out-dir/secret", "symlink_escape"),
        ("out-dir/new/file", "symlink_escape"),
        ("out-absolute", "symlink_escape"),
        (".env", "sensitive_path"),
        ("new/.ENV", "sensitive_path"),
        ("hidden", "sensitive_path"),
        (".ssh/authorized_keys", "sensitive_path"),
        ("dir/.git/hooks/pre-commit", "sensitive_path"),
        (".git/config", "sensitive_path"),
        (".GIT", "sensitive_path"),
        ("dir", "not_a_file"),
        (".", "not_a_file"),
        ("", "invalid_path"),
    ] {
        let error = session.write(path, "x").unwrap_err();
        assert_eq!(error.code(), expected, "{path}: {error}");
    }
    assert_eq!(session.tree(), before);
    assert_eq!(
        fs::read_to_string(session.outside("secret")).unwrap(),
        "secret"
    );
}

#[test]
fn gits_own_files_can_be_read() {
    let session = Session::new();
    fs::create_dir(session.work(".git")).unwrap();
    fs::write(session.work(".git/HEAD"), "ref").unwrap();
    assert_eq!(session.read(".git/HEAD").unwrap(), "ref");
    session.write(".gitignore", "target\n").unwrap();
}

#[test]
fn a_stale_write_is_refused() {
    let session = Session::new();
    fs::write(session.work("file"), "old").unwrap();
    let commit = |hash: String, text: &str| {
        let ticket = session.door().prepare_write(Path::new("file")).unwrap();
        ticket.commit(text.as_bytes(), Precondition::Unchanged(hash))
    };
    commit(ContentHash::hex_of(b"old"), "new").unwrap();
    commit(ContentHash::hex_of(b"new").to_uppercase(), "newer").unwrap();
    assert_eq!(code(commit(ContentHash::hex_of(b"old"), "lost")), "changed");
    assert_eq!(fs::read_to_string(session.work("file")).unwrap(), "newer");
    fs::remove_file(session.work("file")).unwrap();
    assert_eq!(code(commit(ContentHash::hex_of(b"newer"), "x")), "changed");
    assert_eq!(session.tree(), ["outside", "outside/secret", "work"]);
}

#[test]
fn a_file_that_must_be_new_is_never_replaced() {
    let session = Session::new();
    let commit = |path: &str, text: &str| {
        let ticket = session.door().prepare_write(Path::new(path)).unwrap();
        ticket.commit(text.as_bytes(), Precondition::MustNotExist)
    };
    assert!(commit("a/file", "first").unwrap().created);
    assert_eq!(code(commit("a/file", "second")), "already_exists");
    assert_eq!(fs::read_to_string(session.work("a/file")).unwrap(), "first");
    assert_eq!(
        session.tree(),
        ["outside", "outside/secret", "work", "work/a", "work/a/file"]
    );
}

#[test]
fn what_is_planted_between_check_and_write_is_not_followed() {
    let session = Session::new();
    let plant = |path: &str| session.door().prepare_write(Path::new(path)).unwrap();

    let ticket = plant("file");
    symlink(session.outside("secret"), session.work("file")).unwrap();
    assert_eq!(
        code(ticket.commit(b"x", Precondition::None)),
        "special_file"
    );

    let ticket = plant("new/file");
    symlink(session.outside(""), session.work("new")).unwrap();
    assert_eq!(code(ticket.commit(b"x", Precondition::None)), "io");

    let ticket = plant("dir");
    fs::create_dir(session.work("dir")).unwrap();
    assert_eq!(code(ticket.commit(b"x", Precondition::None)), "not_a_file");

    fs::create_dir(session.work("moved")).unwrap();
    let ticket = plant("moved/file");
    fs::rename(session.work("moved"), session.work("elsewhere")).unwrap();
    symlink(session.outside(""), session.work("moved")).unwrap();
    ticket.commit(b"x", Precondition::None).unwrap();
    assert_eq!(
        fs::read_to_string(session.work("elsewhere/file")).unwrap(),
        "x"
    );

    assert_eq!(
        fs::read_to_string(session.outside("secret")).unwrap(),
        "secret"
    );
    let left: Vec<_> = session
        .tree()
        .into_iter()
        .filter(|name| name.contains("halter-tmp"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    assert!(!session.outside("file").exists());
}

#[test]
fn a_ticket_shows_the_file_it_will_replace() {
    let session = Session::new();
    fs::write(session.work("file"), "old").unwrap();
    let ticket = session.door().prepare_write(Path::new("file")).unwrap();
    let mut existing = ticket.existing().unwrap().unwrap();
    assert_eq!(existing.read_bounded(10).unwrap(), b"old");
    ticket.commit(b"new", Precondition::None).unwrap();
    // The handle is of the old file.
    assert_eq!(existing.read_bounded(10).unwrap(), b"old");
}

#[test]
fn no_write_root_means_no_write() {
    let session = Session::with(
        |_| PolicySettings {
            allowed_write_roots: Vec::new(),
            ..PolicySettings::default()
        },
        |_| {},
    );
    let error = session.write("file", "x").unwrap_err();
    assert_eq!(error.code(), "not_in_root");
    assert!(error.to_string().contains("there are none"), "{error}");
    assert!(
        error.to_string().contains("policy.allowed_write_roots"),
        "{error}"
    );
}

#[test]
fn a_name_of_the_longest_length_can_be_written() {
    let session = Session::new();
    let name = "n".repeat(255);
    session.write(&name, "x").unwrap();
    assert_eq!(session.read(&name).unwrap(), "x");
    assert_eq!(code(session.write("n".repeat(256), "x")), "io");
}

const BOUNDED_WRITE_IN: &str = "HALTER_POLICY_TEST_BOUNDED_WRITE_IN";

/// The half of the next test that runs in a process of its own, where no file
/// may grow beyond a few blocks.
#[test]
fn writing_more_than_the_system_takes() {
    let Some(base) = std::env::var_os(BOUNDED_WRITE_IN) else {
        return;
    };
    let scope = SessionScope {
        working_dir: base.into(),
        ..SessionScope::default()
    };
    let policy = StandardPolicy::bind(PolicySettings::default(), scope).unwrap();
    for path in ["file", "new/dir/file"] {
        let ticket = policy.door().prepare_write(Path::new(path)).unwrap();
        let error = ticket
            .commit(&vec![b'x'; 1 << 20], Precondition::None)
            .unwrap_err();
        assert_eq!(error.code(), "io");
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[test]
fn a_write_that_fails_half_way_leaves_everything_as_it_was() {
    let session = Session::new();
    fs::write(session.work("file"), "old").unwrap();
    let before = session.tree();
    // Refused growth is reported like a full disk: by the write itself.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "door_write::writing_more_than_the_system_takes"])
        .env(BOUNDED_WRITE_IN, session.root().join("work"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(session.tree(), before);
    assert_eq!(fs::read_to_string(session.work("file")).unwrap(), "old");
}
