//! Roots: bound once, to the session's directory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use halter_policy::{PolicySettings, SessionScope, StandardPolicy};

use crate::support::{Session, code, skipped};

fn settings(read: &[&str], write: &[&str]) -> PolicySettings {
    PolicySettings {
        allowed_read_roots: read.iter().map(PathBuf::from).collect(),
        allowed_write_roots: write.iter().map(PathBuf::from).collect(),
        ..PolicySettings::default()
    }
}

#[test]
fn relative_roots_start_at_the_sessions_directory() {
    let session = Session::with(|_| settings(&["../outside"], &["out"]), |_| {});
    assert_eq!(session.read(session.outside("secret")).unwrap(), "secret");
    assert_eq!(
        code(session.write(session.outside("secret"), "x")),
        "not_in_root"
    );
    // The session's directory itself is in no root here.
    fs::write(session.work("file"), "x").unwrap();
    assert_eq!(code(session.read("file")), "not_in_root");
}

#[test]
fn write_roots_are_readable_and_read_roots_are_not_writable() {
    let session = Session::with(|_| settings(&["docs"], &["src"]), |_| {});
    fs::create_dir_all(session.work("docs")).unwrap();
    fs::write(session.work("docs/a"), "a").unwrap();
    session.write("src/b", "b").unwrap();
    assert_eq!(session.read("src/b").unwrap(), "b");
    assert_eq!(session.read("docs/a").unwrap(), "a");
    assert_eq!(code(session.write("docs/a", "x")), "not_in_root");
    // A link from a write root into a read root does not make it writable.
    symlink("../docs/a", session.work("src/link")).unwrap();
    assert_eq!(session.read("src/link").unwrap(), "a");
    assert_eq!(code(session.write("src/link", "x")), "symlink_escape");
    assert_eq!(fs::read_to_string(session.work("docs/a")).unwrap(), "a");
}

#[test]
fn an_absolute_link_may_lead_into_another_root() {
    let session = Session::with(
        |base| settings(&[".", base.join("outside").to_str().unwrap()], &["."]),
        |_| {},
    );
    symlink(session.outside(""), session.work("link")).unwrap();
    assert_eq!(session.read("link/secret").unwrap(), "secret");
    assert_eq!(code(session.write("link/secret", "x")), "symlink_escape");
    assert_eq!(
        fs::read_to_string(session.outside("secret")).unwrap(),
        "secret"
    );
}

#[test]
fn scratch_is_writable_and_extra_roots_are_readable() {
    let session = Session::with(
        |_| PolicySettings::default(),
        |scope| {
            let base = scope.working_dir.parent().unwrap().to_path_buf();
            fs::create_dir(base.join("scratch")).unwrap();
            scope.scratch_dir = Some(base.join("scratch"));
            scope.extra_read_roots = vec![base.join("outside")];
        },
    );
    let scratch = session.root().join("scratch/x");
    session.write(&scratch, "x").unwrap();
    assert_eq!(session.read(&scratch).unwrap(), "x");
    assert_eq!(session.read(session.outside("secret")).unwrap(), "secret");
    assert_eq!(
        code(session.write(session.outside("secret"), "x")),
        "not_in_root"
    );
}

#[test]
fn a_missing_write_root_is_created_by_the_first_write() {
    let session = Session::with(
        |base| settings(&[], &[base.join("new/deep").to_str().unwrap()]),
        |_| {},
    );
    let file = session.root().join("new/deep/sub/file");
    assert_eq!(code(session.read(&file)), "not_found");
    assert_eq!(
        code(session.door().open_dir(&session.root().join("new/deep"))),
        "not_found"
    );
    assert!(!session.root().join("new").exists());
    session.write(&file, "x").unwrap();
    assert_eq!(session.read(&file).unwrap(), "x");
    // Removed and written again: still the root.
    fs::remove_dir_all(session.root().join("new")).unwrap();
    session.write(&file, "y").unwrap();
    assert_eq!(session.read(&file).unwrap(), "y");
    // What lies beside it is no root.
    assert_eq!(
        code(session.write(session.root().join("new/file"), "x")),
        "not_in_root"
    );
}

#[test]
fn a_link_planted_in_place_of_a_missing_root_is_no_root() {
    let session = Session::with(|_| settings(&["src"], &["build"]), |_| {});
    symlink(session.outside(""), session.work("build")).unwrap();
    assert_eq!(code(session.write("build/x", "x")), "nonexistent_root");
    assert_eq!(code(session.read("build/secret")), "nonexistent_root");
    assert!(!session.outside("x").exists());
}

#[test]
fn an_inner_root_may_be_removed_and_created_again() {
    let session = Session::with(
        |base| {
            fs::create_dir(base.join("work/target")).unwrap();
            settings(&[], &[".", "target"])
        },
        |_| {},
    );
    fs::remove_dir(session.work("target")).unwrap();
    session.write("target/x", "x").unwrap();
    assert_eq!(session.read("target/x").unwrap(), "x");
}

#[test]
fn a_root_that_is_a_link_is_pinned_to_what_it_led_to() {
    let session = Session::with(
        |base| {
            fs::create_dir(base.join("real")).unwrap();
            symlink(base.join("real"), base.join("work/data")).unwrap();
            settings(&["."], &["data"])
        },
        |_| {},
    );
    session.write("data/x", "x").unwrap();
    assert_eq!(
        fs::read_to_string(session.root().join("real/x")).unwrap(),
        "x"
    );
    // The real path is as good a spelling as the configured one.
    assert_eq!(session.read(session.root().join("real/x")).unwrap(), "x");
    // Turned elsewhere later, the link leads outside.
    fs::remove_file(session.work("data")).unwrap();
    symlink(session.outside(""), session.work("data")).unwrap();
    assert_eq!(code(session.read("data/secret")), "symlink_escape");
    session.write("data/y", "y").unwrap();
    assert!(!session.outside("y").exists());
}

#[test]
fn a_session_needs_a_directory() {
    let base = tempfile::tempdir().unwrap();
    fs::write(base.path().join("file"), "x").unwrap();
    for path in [
        base.path().join("missing"),
        base.path().join("file"),
        PathBuf::from("relative"),
    ] {
        let scope = SessionScope {
            working_dir: path.clone(),
            ..SessionScope::default()
        };
        let error = StandardPolicy::bind(PolicySettings::default(), scope).unwrap_err();
        assert_eq!(error.code(), "nonexistent_root");
        let text = error.to_string();
        assert!(
            text.contains(path.to_str().unwrap()) && text.contains("create it"),
            "{text}"
        );
    }
}

#[test]
fn a_root_that_is_a_file_is_refused_at_the_start() {
    let base = tempfile::tempdir().unwrap();
    fs::write(base.path().join("file"), "x").unwrap();
    let scope = SessionScope {
        working_dir: base.path().to_path_buf(),
        ..SessionScope::default()
    };
    let error = StandardPolicy::bind(settings(&[], &["file"]), scope).unwrap_err();
    assert_eq!(error.code(), "not_a_directory");
}

#[test]
fn a_write_root_that_another_user_planted_is_ignored() {
    if !rustix::process::geteuid().is_root() {
        return skipped("root, to make a directory somebody else's");
    }
    let session = Session::with(
        |base| {
            let shared = base.join("tmp");
            fs::create_dir(&shared).unwrap();
            fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
            fs::create_dir(shared.join("halter")).unwrap();
            std::os::unix::fs::chown(shared.join("halter"), Some(12345), None).unwrap();
            settings(&[], &[".", shared.join("halter").to_str().unwrap()])
        },
        |_| {},
    );
    let file = session.root().join("tmp/halter/x");
    assert_eq!(code(session.write(&file, "x")), "not_in_root");
    session.write("x", "x").unwrap();
}

#[test]
fn a_directory_planted_in_place_of_a_missing_root_must_be_ours() {
    if !rustix::process::geteuid().is_root() {
        return skipped("root, to make a directory somebody else's");
    }
    let session = Session::with(
        |base| {
            let shared = base.join("tmp");
            fs::create_dir(&shared).unwrap();
            fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
            settings(&[], &[".", shared.join("halter").to_str().unwrap()])
        },
        |_| {},
    );
    let root = session.root().join("tmp/halter");
    session.write(root.join("x"), "x").unwrap();
    assert_eq!(fs::metadata(&root).unwrap().uid(), 0);
    std::os::unix::fs::chown(&root, Some(12345), None).unwrap();
    assert_eq!(code(session.write(root.join("y"), "y")), "nonexistent_root");
}

#[test]
fn the_directory_a_command_moves_to_changes_no_root() {
    let session = Session::new();
    // A path is relative to the session's directory, whatever a tool says its
    // directory is: there is no argument for it.
    fs::create_dir(session.work("sub")).unwrap();
    fs::write(session.work("sub/file"), "x").unwrap();
    assert_eq!(code(session.read("file")), "not_found");
    assert_eq!(session.read(Path::new("sub").join("file")).unwrap(), "x");
}

#[test]
fn another_directory_in_place_of_a_root_is_no_root() {
    let session = Session::new();
    session.write("x", "x").unwrap();
    fs::rename(session.work(""), session.root().join("moved")).unwrap();
    assert_eq!(code(session.read("x")), "nonexistent_root");
    fs::create_dir(session.work("")).unwrap();
    fs::write(session.work("x"), "other").unwrap();
    assert_eq!(code(session.read("x")), "nonexistent_root");
    assert_eq!(code(session.write("y", "y")), "nonexistent_root");
    // The directory itself, back in its place, is the root again.
    fs::remove_dir_all(session.work("")).unwrap();
    fs::rename(session.root().join("moved"), session.work("")).unwrap();
    assert_eq!(session.read("x").unwrap(), "x");
}

const ALONE: &str = "HALTER_POLICY_TEST_ALONE";

/// Runs in a process of its own: it takes all descriptors away.
#[test]
fn idle_sessions_hold_no_descriptor_and_a_lack_of_them_is_named() {
    let name = "door_roots::idle_sessions_hold_no_descriptor_and_a_lack_of_them_is_named";
    if std::env::var_os(ALONE).is_none() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        return;
    }
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    let sessions: Vec<Session> = (0..100).map(|_| Session::new()).collect();
    for session in &sessions {
        session.write("x", "x").unwrap();
        assert_eq!(session.read("x").unwrap(), "x");
    }
    assert_eq!(open(), before);
    // While a directory is walked, its root is opened once.
    let walk = sessions[0].door().open_dir(Path::new(".")).unwrap();
    let walking = open();
    let files: Vec<_> = (0..10)
        .map(|_| sessions[0].door().open_read(Path::new("x")).unwrap())
        .collect();
    assert_eq!(open(), walking + files.len());
    drop((walk, files));

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..limit
    };
    setrlimit(Resource::Nofile, none).unwrap();
    let read = sessions[1].read("x");
    let write = sessions[1].write("x", "y");
    setrlimit(Resource::Nofile, limit).unwrap();
    for error in [read.unwrap_err(), write.unwrap_err()] {
        assert_eq!(error.code(), "out_of_descriptors");
        assert!(!error.is_denial());
        assert!(error.to_string().contains("ulimit -n"), "{error}");
    }
}
