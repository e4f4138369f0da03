//! Another process swaps links while the door works. Nothing outside the roots
//! is ever read or written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::Session;

const ROUNDS: usize = 3000;

/// Runs `body` while another thread keeps exchanging two names, an even number
/// of times: afterwards each is what it was, so a test can see that the door
/// opens what it should. Whether it did so in between is up to the scheduler.
fn while_swapping(left: PathBuf, right: PathBuf, body: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap(&left, &right);
                swap(&left, &right);
            }
        });
        let guard = StopOnDrop(&stop);
        body();
        drop(guard);
    });
}

fn swap(left: &Path, right: &Path) {
    let flags = rustix::fs::RenameFlags::EXCHANGE;
    let at = rustix::fs::CWD;
    rustix::fs::renameat_with(at, left, at, right, flags).unwrap();
}

/// Ends the swapping also when an assertion fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_file_swapped_for_a_link_is_never_read_through() {
    let session = Session::new();
    fs::write(session.work("file"), "inside").unwrap();
    symlink(session.outside("secret"), session.work("link")).unwrap();
    while_swapping(session.work("file"), session.work("link"), || {
        for _ in 0..ROUNDS {
            for text in session.read_each_way("file").into_iter().flatten() {
                assert_eq!(text, "inside");
            }
        }
    });
    assert_eq!(session.read("file").unwrap(), "inside");
}

#[test]
fn a_directory_swapped_for_a_link_is_never_read_through() {
    let session = Session::new();
    fs::create_dir(session.work("dir")).unwrap();
    fs::create_dir(session.work("dir/sub")).unwrap();
    fs::write(session.work("dir/sub/secret"), "inside").unwrap();
    fs::create_dir(session.outside("sub")).unwrap();
    fs::write(session.outside("sub/secret"), "outside").unwrap();
    symlink("../outside", session.work("link")).unwrap();
    while_swapping(session.work("dir"), session.work("link"), || {
        for _ in 0..ROUNDS {
            for text in session
                .read_each_way("dir/sub/secret")
                .into_iter()
                .flatten()
            {
                assert_eq!(text, "inside");
            }
            if let Ok(handle) = session.door().open_dir(Path::new("dir/sub")) {
                assert_eq!(handle.path(), session.work("dir/sub"));
                assert_eq!(handle.entries(9).unwrap().entries.len(), 1);
            }
        }
    });
    assert_eq!(session.read("dir/sub/secret").unwrap(), "inside");
}

#[test]
fn a_link_swapped_between_inside_and_outside_is_never_followed_out() {
    let session = Session::new();
    fs::create_dir(session.work("dir")).unwrap();
    fs::write(session.work("dir/secret"), "inside").unwrap();
    symlink("dir", session.work("good")).unwrap();
    symlink("../outside", session.work("bad")).unwrap();
    while_swapping(session.work("good"), session.work("bad"), || {
        for _ in 0..ROUNDS {
            for text in session.read_each_way("good/secret").into_iter().flatten() {
                assert_eq!(text, "inside");
            }
        }
    });
    assert_eq!(session.read("good/secret").unwrap(), "inside");
}

#[test]
fn writes_never_leave_the_root_while_directories_are_swapped() {
    let session = Session::new();
    fs::create_dir(session.work("dir")).unwrap();
    symlink("../outside", session.work("link")).unwrap();
    while_swapping(session.work("dir"), session.work("link"), || {
        for round in 0..ROUNDS / 10 {
            let _ = session.write("dir/file", "inside");
            let _ = session.write(format!("dir/new{round}/file"), "inside");
        }
    });
    session.write("dir/file", "inside").unwrap();
    let outside: Vec<_> = session
        .tree()
        .into_iter()
        .filter(|name| name.starts_with("outside"))
        .collect();
    assert_eq!(outside, ["outside", "outside/secret"]);
    assert!(
        !session
            .tree()
            .iter()
            .any(|name| name.contains("halter-tmp"))
    );
}

#[test]
fn writes_never_go_through_a_link_swapped_for_the_file() {
    let session = Session::new();
    fs::write(session.work("file"), "inside").unwrap();
    symlink(session.outside("secret"), session.work("link")).unwrap();
    while_swapping(session.work("file"), session.work("link"), || {
        for _ in 0..ROUNDS / 10 {
            let _ = session.write("file", "changed");
        }
    });
    assert_eq!(
        fs::read_to_string(session.outside("secret")).unwrap(),
        "secret"
    );
    assert!(
        !session
            .tree()
            .iter()
            .any(|name| name.contains("halter-tmp"))
    );
}

#[test]
fn concurrent_creations_have_one_winner() {
    use halter_policy::Precondition;
    let session = Session::new();
    let winners = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let session = &session;
                scope.spawn(move || {
                    let ticket = session.door().prepare_write(Path::new("a/b/file")).unwrap();
                    let text = number.to_string();
                    ticket
                        .commit(text.as_bytes(), Precondition::MustNotExist)
                        .is_ok()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .filter(|won| *won)
            .count()
    });
    assert_eq!(winners, 1);
    assert_eq!(
        session.tree(),
        [
            "outside",
            "outside/secret",
            "work",
            "work/a",
            "work/a/b",
            "work/a/b/file"
        ]
    );
}

#[test]
fn deletes_and_renames_never_leave_the_root_while_directories_are_swapped() {
    let session = Session::new();
    fs::create_dir(session.work("dir")).unwrap();
    symlink("../outside", session.work("link")).unwrap();
    while_swapping(session.work("dir"), session.work("link"), || {
        for round in 0..ROUNDS / 10 {
            let _ = session.write("dir/secret", "inside");
            let rename = session
                .door()
                .prepare_rename(Path::new("dir/secret"), Path::new("dir/moved"));
            let _ = rename.map(|ticket| ticket.commit_over().is_ok());
            for name in ["dir/moved", "dir/secret"] {
                let delete = session.door().prepare_delete(Path::new(name));
                let _ = delete.map(|ticket| ticket.commit().is_ok());
            }
            let made = format!("dir/made{round}");
            let _ = session.door().create_dir(Path::new(&made));
        }
    });
    session.door().create_dir(Path::new("dir/made")).unwrap();
    let outside: Vec<_> = fs::read_dir(session.outside("")).unwrap().collect();
    assert_eq!(outside.len(), 1);
    let kept = fs::read_to_string(session.outside("secret")).unwrap();
    assert_eq!(kept, "secret");
}

#[test]
fn a_file_swapped_for_a_link_that_leads_out_is_deleted_or_left_but_never_followed() {
    let session = Session::new();
    symlink(session.outside("secret"), session.work("link")).unwrap();
    for _ in 0..ROUNDS / 30 {
        fs::write(session.work("file"), "inside").unwrap();
        let ticket = session.door().prepare_delete(Path::new("file")).unwrap();
        swap(&session.work("file"), &session.work("link"));
        assert_eq!(ticket.commit().unwrap_err().code(), "changed");
        fs::remove_file(session.work("file")).unwrap();
        fs::rename(session.work("link"), session.work("file")).unwrap();
        symlink(session.outside("secret"), session.work("link")).unwrap();
    }
    assert!(session.outside("secret").exists());
}
