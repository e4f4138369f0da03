//! Reading through the door.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use halter_policy::limits::MAX_SECRET_NAMES;
use halter_policy::limits::{MAX_LINKS_FOLLOWED, MAX_OPEN_DIRECTORIES, MAX_PATH_BYTES};
use halter_policy::{PolicyError, PolicySettings};
use rustix::fs::Mode;

use crate::support::{Session, code};

#[test]
fn a_file_is_read_by_relative_and_absolute_path() {
    let session = Session::new();
    fs::create_dir(session.work("src")).unwrap();
    fs::write(session.work("src/lib.rs"), "text").unwrap();
    assert_eq!(session.read("src/lib.rs").unwrap(), "text");
    assert_eq!(session.read("./src//lib.rs").unwrap(), "text");
    assert_eq!(session.read(session.work("src/lib.rs")).unwrap(), "text");
    let handle = session.door().open_read(Path::new("src/lib.rs")).unwrap();
    assert_eq!(handle.resolved(), session.work("src/lib.rs"));
    assert_eq!(handle.metadata().len(), 4);
}

#[test]
fn a_path_outside_the_roots_is_refused_and_named() {
    let session = Session::new();
    let error = session.read(session.outside("secret")).unwrap_err();
    assert_eq!(error.code(), "not_in_root");
    assert!(error.is_denial());
    let text = error.to_string();
    assert!(text.contains("outside/secret"), "{text}");
    assert!(text.contains("policy.allowed_read_roots"), "{text}");
    // Whether the file exists does not show.
    assert_eq!(
        code(session.read(session.outside("missing"))),
        "not_in_root"
    );
}

#[test]
fn a_root_is_no_prefix_of_its_neighbours() {
    let session = Session::new();
    fs::create_dir(session.root().join("work-other")).unwrap();
    fs::write(session.root().join("work-other/x"), "x").unwrap();
    assert_eq!(
        code(session.read(session.root().join("work-other/x"))),
        "not_in_root"
    );
}

#[test]
fn parents_are_taken_lexically_inside_a_root_and_refused_beyond() {
    let session = Session::new();
    fs::create_dir_all(session.work("a/b")).unwrap();
    fs::write(session.work("file"), "text").unwrap();
    assert_eq!(session.read("a/../file").unwrap(), "text");
    assert_eq!(session.read("a/b/../../file").unwrap(), "text");
    assert_eq!(session.read("missing/../file").unwrap(), "text");
    for path in [
        "../outside/secret",
        "a/../../outside/secret",
        "../work/file",
        "..",
    ] {
        assert_eq!(code(session.read(path)), "parent_traversal", "{path}");
    }
}

#[test]
fn links_are_followed_inside_the_roots_only() {
    let session = Session::new();
    fs::create_dir_all(session.work("dir/deep")).unwrap();
    fs::write(session.work("dir/file"), "text").unwrap();
    symlink("dir/file", session.work("relative")).unwrap();
    symlink("../file", session.work("dir/deep/up")).unwrap();
    symlink(session.work("dir"), session.work("absolute")).unwrap();
    symlink("absolute/deep/../deep/up", session.work("chain")).unwrap();
    for path in ["relative", "dir/deep/up", "absolute/file", "chain"] {
        let mut handle = session.door().open_read(Path::new(path)).unwrap();
        assert_eq!(handle.read_bounded(10).unwrap(), b"text");
        assert_eq!(handle.resolved(), session.work("dir/file"), "{path}");
    }

    symlink("../outside/secret", session.work("out-file")).unwrap();
    symlink("../outside", session.work("out-dir")).unwrap();
    symlink(session.outside("secret"), session.work("out-absolute")).unwrap();
    symlink("../../outside/secret", session.work("dir/out-up")).unwrap();
    symlink("/etc", session.work("etc")).unwrap();
    symlink("/", session.work("fs")).unwrap();
    for path in [
        "out-file",
        "out-dir/secret",
        "out-absolute",
        "dir/out-up",
        "etc/passwd",
        "fs/etc/passwd",
    ] {
        let error = session.read(path).unwrap_err();
        assert_eq!(error.code(), "symlink_escape", "{path}: {error}");
    }
    // And back in again through the outside is still inside.
    symlink("../work/dir/file", session.work("around")).unwrap();
    assert_eq!(session.read("around").unwrap(), "text");
}

#[test]
fn a_chain_of_links_is_followed_up_to_the_limit() {
    let session = Session::new();
    fs::write(session.work("0"), "end").unwrap();
    for number in 1..=MAX_LINKS_FOLLOWED + 1 {
        symlink(format!("{}", number - 1), session.work(&number.to_string())).unwrap();
    }
    assert_eq!(session.read(MAX_LINKS_FOLLOWED.to_string()).unwrap(), "end");
    assert_eq!(
        code(session.read((MAX_LINKS_FOLLOWED + 1).to_string())),
        "invalid_path"
    );
    symlink("loop", session.work("loop")).unwrap();
    assert_eq!(code(session.read("loop")), "invalid_path");
}

#[test]
fn depth_is_bounded_only_where_links_are() {
    let session = Session::new();
    let deep = |levels: usize| vec!["d"; levels].join("/");
    fs::create_dir_all(session.work(&deep(MAX_OPEN_DIRECTORIES + 1))).unwrap();
    for levels in [MAX_OPEN_DIRECTORIES - 1, MAX_OPEN_DIRECTORIES] {
        fs::write(session.work(&format!("{}/f", deep(levels))), "x").unwrap();
        symlink("f", session.work(&format!("{}/l", deep(levels)))).unwrap();
    }
    let last = deep(MAX_OPEN_DIRECTORIES + 1);
    fs::write(session.work(&format!("{last}/f")), "x").unwrap();
    symlink("f", session.work(&format!("{last}/l"))).unwrap();
    assert_eq!(session.read(format!("{last}/f")).unwrap(), "x");
    assert_eq!(
        session
            .read(format!("{}/l", deep(MAX_OPEN_DIRECTORIES)))
            .unwrap(),
        "x"
    );
    assert_eq!(code(session.read(format!("{last}/l"))), "invalid_path");
}

#[test]
fn sensitive_files_are_closed_by_name_and_through_links() {
    let session = Session::new();
    fs::create_dir_all(session.work(".ssh")).unwrap();
    for name in [
        ".env",
        ".ENV.local",
        "id_rsa",
        ".ssh/config",
        ".netrc",
        ".env.example",
    ] {
        fs::write(session.work(name), "x").unwrap();
    }
    symlink(".env", session.work("innocent")).unwrap();
    symlink(".ssh", session.work("dir")).unwrap();
    for path in [
        ".env",
        "./.env",
        ".ENV.local",
        "id_rsa",
        ".ssh/config",
        ".netrc",
        "innocent",
        "dir/config",
    ] {
        let error = session.read(path).unwrap_err();
        assert_eq!(error.code(), "sensitive_path", "{path}: {error}");
    }
    let text = session.read(".env").unwrap_err().to_string();
    assert!(
        text.contains("'.env'") && text.contains("policy.sensitive_path_patterns"),
        "{text}"
    );
    assert_eq!(session.read(".env.example").unwrap(), "x");
    // A link by a sensitive name is closed wherever it leads.
    symlink("../.env.example", session.work(".ssh/fine")).unwrap();
    assert_eq!(code(session.read(".ssh/fine")), "sensitive_path");
    assert_eq!(
        code(session.door().open_dir(Path::new(".ssh"))),
        "sensitive_path"
    );
    assert_eq!(
        code(session.door().open_dir(Path::new("dir"))),
        "sensitive_path"
    );
}

#[test]
fn the_sensitive_list_can_be_replaced_or_turned_off() {
    let patterns = |patterns: &[&str]| PolicySettings {
        sensitive_path_patterns: Some(patterns.iter().map(|&text| text.to_owned()).collect()),
        ..PolicySettings::default()
    };
    let off = Session::with(|_| patterns(&[]), |_| {});
    fs::write(off.work(".env"), "x").unwrap();
    assert_eq!(off.read(".env").unwrap(), "x");
    let own = Session::with(|_| patterns(&["private/"]), |_| {});
    fs::create_dir(own.work("Private")).unwrap();
    fs::write(own.work("Private/x"), "x").unwrap();
    assert_eq!(code(own.read("Private/x")), "sensitive_path");
}

#[test]
fn protected_paths_are_closed_under_every_name() {
    let session = Session::with(
        |_| PolicySettings::default(),
        |scope| {
            let work = scope.working_dir.clone();
            fs::create_dir(work.join("state")).unwrap();
            fs::write(work.join("state/log"), "x").unwrap();
            fs::write(work.join("credentials"), "key").unwrap();
            scope.protected = vec![
                work.join("state"),
                work.join("credentials"),
                work.join("later"),
            ];
        },
    );
    symlink("state", session.work("link")).unwrap();
    fs::hard_link(session.work("credentials"), session.work("hard")).unwrap();
    fs::hard_link(session.work("state/log"), session.work("harder")).unwrap();
    for path in [
        "harder",
        "state/log",
        "STATE/log",
        "credentials",
        "link/log",
        "hard",
        "later",
        "later/x",
    ] {
        let error = session.read(path).unwrap_err();
        assert_eq!(error.code(), "protected_path", "{path}: {error}");
    }
    // A hard link can be replaced, but not looked into first.
    let ticket = session.door().prepare_write(Path::new("hard")).unwrap();
    assert_eq!(code(ticket.existing()), "protected_path");
    assert_eq!(code(session.write("later/x", "x")), "protected_path");
    assert_eq!(code(session.write("link/new", "x")), "protected_path");
    assert_eq!(
        code(session.door().open_dir(Path::new("link"))),
        "protected_path"
    );
}

#[test]
fn a_secret_is_closed_under_a_second_name() {
    let session = Session::with(
        |root| PolicySettings {
            permissions: halter_policy::Permissions {
                home: Some(root.join("outside")),
                ..Default::default()
            },
            ..PolicySettings::default()
        },
        |_| {},
    );
    fs::create_dir_all(session.outside(".ssh")).unwrap();
    fs::create_dir_all(session.work("sub")).unwrap();
    for secret in [
        session.work(".env"),
        session.work("sub/id_rsa"),
        session.outside(".ssh/key"),
    ] {
        fs::write(&secret, "key").unwrap();
        fs::hard_link(&secret, session.work("sub/notes")).unwrap();
        assert_eq!(
            code(session.read("sub/notes")),
            "sensitive_path",
            "{secret:?}"
        );
        fs::remove_file(session.work("sub/notes")).unwrap();
    }
    fs::write(session.work("plain"), "text").unwrap();
    fs::hard_link(session.work("plain"), session.work("sub/notes")).unwrap();
    assert_eq!(session.read("sub/notes").unwrap(), "text");
    // Where there are more names than are compared, it is read all the same.
    for index in 0..=MAX_SECRET_NAMES {
        fs::write(session.work(&format!("{index}")), "").unwrap();
    }
    assert_eq!(session.read("sub/notes").unwrap(), "text");
}

#[test]
fn special_files_are_refused_without_waiting() {
    let session = Session::with(
        |_| PolicySettings {
            allowed_read_roots: vec![".".into(), "/dev".into()],
            allowed_write_roots: vec![".".into(), "/dev".into()],
            ..PolicySettings::default()
        },
        |_| {},
    );
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        session.work("fifo"),
        Mode::from_raw_mode(0o600),
    )
    .unwrap();
    let _socket = UnixListener::bind(session.work("socket")).unwrap();
    symlink("fifo", session.work("link")).unwrap();
    for path in ["fifo", "socket", "link", "/dev/null", "/dev/zero"] {
        // Opening the FIFO would wait for a writer that never comes.
        let error = session.read(path).unwrap_err();
        assert_eq!(error.code(), "special_file", "{path}: {error}");
        assert_eq!(
            code(session.door().prepare_write(Path::new(path))),
            "special_file",
            "{path}"
        );
    }
    assert_eq!(code(session.read(".")), "not_a_file");
}

#[test]
fn proc_is_refused_even_inside_a_root() {
    let session = Session::with(
        |_| PolicySettings {
            allowed_read_roots: vec!["/".into()],
            ..PolicySettings::default()
        },
        |_| {},
    );
    symlink("/proc/self", session.work("me")).unwrap();
    for path in [
        "/proc/version",
        "/proc/self/status",
        "/proc/self/root/etc/hostname",
        "me/status",
    ] {
        let error = session.read(path).unwrap_err();
        assert!(
            ["special_file", "sensitive_path"].contains(&error.code()),
            "{path}: {error}"
        );
    }
    assert_eq!(code(session.read("/proc/self/environ")), "sensitive_path");
    assert_eq!(
        code(session.door().open_dir(Path::new("/proc"))),
        "special_file"
    );
}

#[test]
fn names_need_not_be_utf8() {
    let session = Session::new();
    let name = Path::new(OsStr::from_bytes(b"caf\xe9 \xff.txt"));
    session.write(name, "text").unwrap();
    assert_eq!(session.read(name).unwrap(), "text");
    assert_eq!(
        session
            .read(session.root().join("work").join(name))
            .unwrap(),
        "text"
    );
    assert!(session.door().may_read(name).is_ok());
}

#[test]
fn paths_that_name_nothing_are_refused() {
    let session = Session::new();
    let nul = Path::new(OsStr::from_bytes(b"a\0b"));
    assert_eq!(code(session.read("")), "invalid_path");
    assert_eq!(code(session.read(nul)), "invalid_path");
    let longest = "a/".repeat(MAX_PATH_BYTES / 2);
    assert_eq!(code(session.read(&longest)), "not_found");
    assert_eq!(code(session.read(format!("{longest}b"))), "invalid_path");
    assert_eq!(code(session.read("missing")), "not_found");
    assert_eq!(code(session.read("missing/below")), "not_found");
    fs::write(session.work("file"), "x").unwrap();
    assert_eq!(code(session.read("file/below")), "not_a_directory");
    assert!(!session.read("missing").unwrap_err().is_denial());
}

#[test]
fn reading_is_bounded_at_the_limit() {
    let session = Session::new();
    fs::write(session.work("file"), "12345").unwrap();
    let mut handle = session.door().open_read(Path::new("file")).unwrap();
    assert_eq!(handle.read_bounded(5).unwrap(), b"12345");
    assert_eq!(handle.read_bounded(5).unwrap(), b"12345");
    match handle.read_bounded(4).unwrap_err() {
        PolicyError::ReadTooLarge { bytes, max, .. } => assert_eq!((bytes, max), (5, 4)),
        other => panic!("unexpected {other:?}"),
    }
    // A file that grows after it was opened is still bounded.
    fs::write(session.work("file"), "123456").unwrap();
    assert_eq!(code(handle.read_bounded(5)), "read_too_large");
}

#[test]
fn a_directory_handle_knows_both_its_paths() {
    let session = Session::new();
    fs::create_dir_all(session.work("a/b")).unwrap();
    symlink("a/b", session.work("link")).unwrap();
    let handle = session.door().open_dir(Path::new("link")).unwrap();
    assert_eq!(handle.path(), session.work("a/b"));
    assert_eq!(handle.spelled(), Path::new("link"));
    let root = session.door().open_dir(Path::new(".")).unwrap();
    assert_eq!(root.path(), session.root().join("work"));
    fs::write(session.work("file"), "x").unwrap();
    assert_eq!(
        code(session.door().open_dir(Path::new("file"))),
        "not_a_directory"
    );
    assert_eq!(
        code(session.door().open_dir(Path::new("missing"))),
        "not_found"
    );
}

#[test]
fn may_read_filters_without_opening() {
    let session = Session::new();
    let door = session.door();
    assert!(door.may_read(&session.work("missing/file")).is_ok());
    assert_eq!(code(door.may_read(&session.work(".env"))), "sensitive_path");
    assert_eq!(
        code(door.may_read(&session.outside("secret"))),
        "not_in_root"
    );
    assert_eq!(door.working_dir(), session.root().join("work"));
}
