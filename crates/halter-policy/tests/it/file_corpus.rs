//! The file policy held against many paths, for every operation: what is right
//! for each is written down.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use halter_policy::limits::MAX_DELETE_DEPTH;
use halter_policy::permission::Permissions;
use halter_policy::{PolicyError, PolicySettings, SourcedRule};
use halter_protocol::{RuleEffect, RuleSource};

use crate::support::Session;

/// A session with a root of every kind, links of every kind and odd names.
fn session() -> Session {
    let deny = |rule: &str| SourcedRule::new(RuleEffect::Deny, rule, RuleSource::User).unwrap();
    let session = Session::with(
        |root| {
            for directory in ["readonly/sub", "second"] {
                fs::create_dir_all(root.join(directory)).unwrap();
            }
            fs::write(root.join("readonly/r.txt"), "r").unwrap();
            fs::write(root.join("second/s.txt"), "s").unwrap();
            PolicySettings {
                allowed_write_roots: vec![".".into(), root.join("second"), root.join("later/root")],
                allowed_read_roots: vec![".".into(), root.join("readonly")],
                permissions: Permissions {
                    rules: vec![deny("Read(./private/**)"), deny("Edit(*.lock)")],
                    ..Permissions::default()
                },
                ..PolicySettings::default()
            }
        },
        |scope| {
            scope.protected = ["state", "state/db"]
                .map(|it| scope.working_dir.join(it))
                .to_vec()
        },
    );
    fill(&session);
    session
}

fn fill(session: &Session) {
    for directory in [
        "dir/deep",
        "empty",
        ".ssh",
        ".git/hooks",
        "state",
        "private",
        ".config/gh",
    ] {
        fs::create_dir_all(session.work(directory)).unwrap();
    }
    for file in [
        "a.txt",
        "dir/b.txt",
        "dir/deep/c.txt",
        ".env",
        ".env.example",
        ".ENV.local",
        ".ssh/config",
        "id_rsa",
        "id_rsa.pub",
        ".git/config",
        "state/db",
        "private/p.txt",
        "Cargo.lock",
        "sp ace.txt",
        "-dash",
        "ünï.txt",
        "*star*",
        "quote'\"",
        "new\nline",
        ".netrc",
        ".config/gh/hosts.yml",
        "$(x)",
        "~",
        "tab\t",
    ] {
        fs::write(session.work(file), file).unwrap();
    }
    fs::write(
        session.work("").join(OsStr::from_bytes(b"not-\xff-utf8")),
        "x",
    )
    .unwrap();
    fs::write(session.work(&"n".repeat(255)), "long").unwrap();
    let outside = session.root().join("outside");
    for (name, target) in [
        ("link-in", PathBuf::from("a.txt")),
        ("link-in-absolute", session.work("a.txt")),
        ("link-dir", "dir".into()),
        ("link-out", "../outside/secret".into()),
        ("link-out-dir", "../outside".into()),
        ("link-out-absolute", outside.join("secret")),
        ("link-second", session.root().join("second/s.txt")),
        ("link-second-up", "../second/s.txt".into()),
        ("link-readonly", session.root().join("readonly/r.txt")),
        ("link-readonly-dir", "../readonly".into()),
        ("dangling", "nowhere".into()),
        ("dangling-deep", "no/where".into()),
        ("dangling-out", "../outside/new".into()),
        ("loop-a", "loop-b".into()),
        ("loop-b", "loop-a".into()),
        ("chain", "chain-2".into()),
        ("chain-2", "link-in".into()),
        ("chain-out", "link-out".into()),
        ("link-env", ".env".into()),
        ("link-ssh", ".ssh".into()),
        ("link-state", "state".into()),
        ("link-private", "private".into()),
        ("link-here", ".".into()),
        ("link-up", "..".into()),
        ("link-round", "../work/a.txt".into()),
        ("link-root", "/".into()),
        ("link-proc", "/proc/self".into()),
        ("link-null", "/dev/null".into()),
        ("link-fifo", "fifo".into()),
        ("link-slash", "dir/".into()),
        ("link-dots", "dir/../a.txt".into()),
        ("link-via", "link-dir/b.txt".into()),
        ("dir/link-up-in", "../a.txt".into()),
        ("dir/link-up-out", "../../outside/secret".into()),
        ("link-git", ".git/config".into()),
        ("link-lock", "Cargo.lock".into()),
    ] {
        symlink(target, session.work(name)).unwrap();
    }
    fs::hard_link(session.work("state/db"), session.work("hard-state")).unwrap();
    fs::hard_link(session.outside("secret"), session.work("hard-outside")).unwrap();
    fs::hard_link(session.work("a.txt"), session.work("hard-a")).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        session.work("fifo"),
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    drop(UnixListener::bind(session.work("socket")).unwrap());
}

/// `ok`, or the code of the refusal. Paths start at the session's directory; `@/` stands for
/// the directory around it.
const CASES: &str = r#"
read a.txt ok
read ./a.txt ok
read dir/b.txt ok
read dir//b.txt ok
read dir/./b.txt ok
read dir/../a.txt ok
read dir/deep/../../a.txt ok
read empty/../a.txt ok
read missing/../a.txt ok
read @/work/a.txt ok
read @/readonly/r.txt ok
read @/second/s.txt ok
read .env.example ok
read id_rsa.pub ok
read .git/config ok
read Cargo.lock ok
read sp%20ace.txt ok
read -dash ok
read ünï.txt ok
read *star* ok
read $(x) ok
read ~ ok
read link-in ok
read link-in-absolute ok
read link-dir/b.txt ok
read link-second ok
read link-second-up ok
read link-readonly ok
read link-readonly-dir/r.txt ok
read chain ok
read link-round ok
read link-dots ok
read link-via ok
read link-slash/b.txt ok
read link-here/link-here/a.txt ok
read dir/link-up-in ok
read hard-a ok
read hard-outside ok
read link-git ok
read link-lock ok
read missing not_found
read missing/deep not_found
read dangling not_found
read dangling-deep not_found
read a.txt/x not_a_directory
read dir not_a_file
read . not_a_file
read link-dir not_a_file
read link-here not_a_file
read loop-a invalid_path
read .env sensitive_path
read .ENV.local sensitive_path
read dir/.env sensitive_path
read .ssh/config sensitive_path
read .SSH/config sensitive_path
read id_rsa sensitive_path
read .netrc sensitive_path
read .config/gh/hosts.yml sensitive_path
read link-env sensitive_path
read link-ssh/config sensitive_path
read link-here/.env sensitive_path
read state/db protected_path
read state protected_path
read STATE/db protected_path
read link-state/db protected_path
read hard-state protected_path
read private/p.txt deny_rule
read Private/p.txt deny_rule
read link-private/p.txt deny_rule
read ../outside/secret parent_traversal
read ../work/a.txt parent_traversal
read ../../etc/passwd parent_traversal
read dir/../../outside/secret parent_traversal
read @/outside/secret not_in_root
read @/workx not_in_root
read @/work/../outside/secret parent_traversal
read /etc/passwd not_in_root
read /proc/self/environ sensitive_path
read /dev/null not_in_root
read / not_in_root
read link-out symlink_escape
read link-out-dir/secret symlink_escape
read link-out-absolute symlink_escape
read chain-out symlink_escape
read dir/link-up-out symlink_escape
read link-up/outside/secret symlink_escape
read link-root/etc/passwd symlink_escape
read link-proc/environ symlink_escape
read link-null symlink_escape
read dangling-out symlink_escape
read fifo special_file
read socket special_file
read link-fifo special_file
read %00 invalid_path
read a%00b invalid_path
list . ok
list dir ok
list dir/ ok
list empty ok
list link-dir ok
list link-here ok
list @/readonly ok
list @/second ok
list .git ok
list link-readonly-dir ok
list a.txt not_a_directory
list link-in not_a_directory
list fifo not_a_directory
list missing not_found
list dangling not_found
list .ssh sensitive_path
list link-ssh sensitive_path
list state protected_path
list link-state protected_path
list private/sub deny_rule
list link-out-dir symlink_escape
list link-up symlink_escape
list link-root symlink_escape
list .. parent_traversal
list @/outside not_in_root
list /proc not_in_root
list @/later/root not_found
write new.txt ok
write a.txt ok
write new/deep/er.txt ok
write dir/new.txt ok
write link-in ok
write dangling ok
write dangling-deep ok
write link-dir/new.txt ok
write link-second ok
write @/second/new.txt ok
write @/later/root/new.txt ok
write .env.example ok
write sp%20ace.txt ok
write -new-dash ok
write hard-a ok
write dir/../up.txt ok
write dir not_a_file
write . not_a_file
write a.txt/x not_a_directory
write fifo special_file
write socket special_file
write link-fifo special_file
write .env sensitive_path
write new/.env sensitive_path
write .git/config sensitive_path
write .git/hooks/pre-commit sensitive_path
write .GIT/hooks/x sensitive_path
write link-git sensitive_path
write link-env sensitive_path
write state/db protected_path
write state/new protected_path
write private/new deny_rule
write Cargo.lock deny_rule
write dir/new.lock deny_rule
write link-lock deny_rule
write @/readonly/new not_in_root
write link-readonly symlink_escape
write link-readonly-dir/new symlink_escape
write link-out symlink_escape
write dangling-out symlink_escape
write link-out-dir/new symlink_escape
write link-up/new symlink_escape
write ../outside/new parent_traversal
write @/outside/new not_in_root
write @/later/other not_in_root
write /tmp/halter-file-corpus not_in_root
write /proc/self/comm not_in_root
write loop-a invalid_path
write %00 invalid_path
delete a.txt ok
delete dir/b.txt ok
delete empty ok
delete link-in ok
delete link-dir ok
delete link-dir/b.txt ok
delete chain ok
delete dangling ok
delete hard-a ok
delete sp%20ace.txt ok
delete -dash ok
delete *star* ok
delete @/second/s.txt ok
delete missing not_found
delete missing/deep not_found
delete a.txt/x not_a_directory
delete . invalid_path
delete @/second invalid_path
delete fifo special_file
delete socket special_file
delete .env sensitive_path
delete .git/config sensitive_path
delete .git sensitive_path
delete link-env sensitive_path
delete state/db protected_path
delete state protected_path
delete private/p.txt deny_rule
delete Cargo.lock deny_rule
delete link-out symlink_escape
delete link-out-dir symlink_escape
delete link-out-dir/secret symlink_escape
delete dangling-out symlink_escape
delete link-readonly symlink_escape
delete @/readonly/r.txt not_in_root
delete @/outside/secret not_in_root
delete ../outside/secret parent_traversal
delete / not_in_root
delete %00 invalid_path
mkdir new ok
mkdir new/deep/er ok
mkdir dir ok
mkdir link-dir/new ok
mkdir @/later/root/sub ok
mkdir a.txt not_a_directory
mkdir fifo not_a_directory
mkdir .ssh/new sensitive_path
mkdir .git/new sensitive_path
mkdir state/new protected_path
mkdir link-out-dir/new symlink_escape
mkdir dangling-out symlink_escape
mkdir ../new parent_traversal
mkdir @/new not_in_root
mkdir @/readonly/new not_in_root
rename a.txt>z.txt ok
rename a.txt>new/deep/z.txt ok
rename a.txt>@/second/z.txt ok
rename link-in>moved-link ok
rename dir/b.txt>link-dir/z.txt ok
rename a.txt>dir/b.txt already_exists
rename a.txt>dir not_a_file
rename dir>dir2 not_a_file
rename missing>z not_found
rename a.txt>.env sensitive_path
rename .env>z sensitive_path
rename link-env>z sensitive_path
rename a.txt>.git/hooks/post-checkout sensitive_path
rename state/db>z protected_path
rename a.txt>state/z protected_path
rename private/p.txt>z deny_rule
rename a.txt>z.lock deny_rule
rename a.txt>../outside/z parent_traversal
rename a.txt>@/outside/z not_in_root
rename a.txt>@/readonly/z not_in_root
rename @/readonly/r.txt>z not_in_root
rename a.txt>link-out-dir/z symlink_escape
rename a.txt>dangling-out symlink_escape
rename link-out>z symlink_escape
rename fifo>z special_file
rename a.txt>fifo special_file
"#;

fn path(session: &Session, written: &str) -> PathBuf {
    let written = written.replace("%20", " ").replace("%00", "\0");
    match written.strip_prefix("@/") {
        Some(rest) => session.root().join(rest),
        None => PathBuf::from(written),
    }
}

fn run(session: &Session, operation: &str, written: &str) -> Result<(), PolicyError> {
    let door = session.door();
    let target = path(session, written);
    match operation {
        "read" => session.read(&target).map(drop),
        "list" => door.list(&target, 1000).map(drop),
        "write" => session.write(&target, "written").map(drop),
        "delete" => door.prepare_delete(&target)?.commit(),
        "mkdir" => door.create_dir(&target).map(drop),
        "rename" => {
            let (from, to) = written.split_once('>').unwrap();
            let (from, to) = (path(session, from), path(session, to));
            door.prepare_rename(&from, &to)?.commit_new()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_path_gets_what_is_right_for_it() {
    let mut cases = 0;
    let mut wrong = Vec::new();
    for case in CASES.lines().filter(|line| !line.is_empty()) {
        let (operation, rest) = case.split_once(' ').unwrap();
        let (written, expected) = rest.rsplit_once(' ').unwrap();
        let session = session();
        let before = session.tree();
        let found = run(&session, operation, written);
        let code = found.as_ref().map_or_else(PolicyError::code, |()| "ok");
        if code != expected {
            wrong.push(format!("{case}: {code}: {found:?}"));
        }
        if code != "ok" && session.tree() != before {
            wrong.push(format!("{case}: something has changed"));
        }
        if !fs::read_to_string(session.outside("secret")).is_ok_and(|text| text == "secret") {
            wrong.push(format!("{case}: the secret has changed"));
        }
        cases += 1;
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(cases >= 150, "{cases}");
}

#[test]
fn odd_names_are_used_as_they_are() {
    let session = session();
    let odd = [
        OsStr::from_bytes(b"not-\xff-utf8").to_owned(),
        "new\nline".into(),
        "tab\t".into(),
        "quote'\"".into(),
        "n".repeat(255).into(),
    ];
    for name in odd {
        let name = Path::new(&name);
        assert!(session.read(name).is_ok(), "{name:?}");
        let listed = session.door().list(Path::new("."), 1000).unwrap();
        assert!(
            listed
                .entries
                .iter()
                .any(|entry| Path::new(&entry.name) == name)
        );
        session
            .door()
            .prepare_delete(name)
            .unwrap()
            .commit()
            .unwrap();
        assert_eq!(session.read(name).unwrap_err().code(), "not_found");
    }
    let too_long = "n".repeat(256);
    assert_eq!(session.write(&too_long, "x").unwrap_err().code(), "io");
}

#[test]
fn a_listing_is_in_order_and_cut_at_its_limit() {
    let session = Session::new();
    for name in ["b", "a", "c"] {
        fs::write(session.work(name), "").unwrap();
    }
    symlink("a", session.work("d")).unwrap();
    fs::create_dir(session.work("e")).unwrap();
    let all = session.door().list(Path::new("."), 5).unwrap();
    let shown: Vec<_> = all
        .entries
        .iter()
        .map(|entry| (entry.name.to_str().unwrap(), entry.kind))
        .collect();
    assert_eq!(
        shown,
        [
            ("a", "file"),
            ("b", "file"),
            ("c", "file"),
            ("d", "link"),
            ("e", "directory")
        ]
    );
    assert!(!all.truncated);
    let some = session.door().list(Path::new("."), 4).unwrap();
    assert!(some.truncated && some.entries.len() == 4);
}

#[test]
fn deleting_a_link_leaves_what_it_leads_to() {
    let session = session();
    for link in ["link-in", "link-dir", "dangling"] {
        let ticket = session.door().prepare_delete(Path::new(link)).unwrap();
        ticket.commit().unwrap();
        assert!(!session.work(link).is_symlink());
    }
    assert!(session.work("a.txt").exists() && session.work("dir/b.txt").exists());
    let full = session.door().prepare_delete(Path::new("dir")).unwrap();
    assert_eq!(full.commit().unwrap_err().code(), "io");
    assert!(session.work("dir/b.txt").exists());
}

#[test]
fn a_name_that_something_else_has_taken_is_left_alone() {
    let session = session();
    let delete = session.door().prepare_delete(Path::new("a.txt")).unwrap();
    let rename = session
        .door()
        .prepare_rename(Path::new("a.txt"), Path::new("new/z"))
        .unwrap();
    fs::write(session.work("fresh"), "fresh").unwrap();
    fs::rename(session.work("fresh"), session.work("a.txt")).unwrap();
    assert_eq!(delete.commit().unwrap_err().code(), "changed");
    assert_eq!(rename.commit_over().unwrap_err().code(), "changed");
    assert_eq!(fs::read_to_string(session.work("a.txt")).unwrap(), "fresh");
    assert!(!session.work("new").exists());
}

#[test]
fn a_rename_replaces_only_where_that_is_wanted() {
    let session = session();
    let rename = || {
        session
            .door()
            .prepare_rename(Path::new("a.txt"), Path::new("dir/b.txt"))
            .unwrap()
    };
    assert_eq!(rename().commit_new().unwrap_err().code(), "already_exists");
    assert!(session.work("a.txt").exists());
    rename().commit_over().unwrap();
    assert_eq!(
        fs::read_to_string(session.work("dir/b.txt")).unwrap(),
        "a.txt"
    );
    assert!(!session.work("a.txt").exists());
}

#[test]
fn what_is_set_aside_comes_back_unless_it_is_discarded() {
    let session = Session::new();
    fs::create_dir(session.work("dir")).unwrap();
    fs::write(session.work("dir/file"), "x").unwrap();
    fs::write(session.work("plain"), "y").unwrap();
    let before = session.tree();
    let aside = |name: &str| {
        let ticket = session.door().prepare_delete(Path::new(name)).unwrap();
        ticket.set_aside().unwrap()
    };
    for name in ["dir", "plain"] {
        let kept = aside(name);
        assert!(session.read("plain").is_err() || session.read("dir/file").is_err());
        kept.restore().unwrap();
        assert_eq!(session.tree(), before);
        drop(aside(name));
        assert_eq!(session.tree(), before);
    }
    // A name that is taken meanwhile is left to who took it.
    let kept = aside("plain");
    session.write("plain", "other").unwrap();
    assert_eq!(kept.restore().unwrap_err().code(), "io");
    assert_eq!(session.read("plain").unwrap(), "other");
    aside("dir").discard().unwrap();
    assert!(session.read("dir/file").is_err());
}

#[test]
fn directories_are_deleted_so_deep_and_no_deeper() {
    let session = Session::new();
    let check = |directories: usize| {
        let path = vec!["d"; directories].join("/");
        fs::create_dir_all(session.work(&path)).unwrap();
        let ticket = session.door().prepare_delete(Path::new("d")).unwrap();
        ticket.check_tree(1_000)
    };
    assert_eq!(check(MAX_DELETE_DEPTH).unwrap(), MAX_DELETE_DEPTH - 1);
    let too_deep = check(MAX_DELETE_DEPTH + 1).unwrap_err();
    assert_eq!(too_deep.code(), "tree_too_large");
}
