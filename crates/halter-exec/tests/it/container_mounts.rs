//! Mounts of name spaces that somebody else made, here by `unshare`.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use halter_exec::host::{KeptMount, PidFd, make_placeholder, mount_missing, remove_placeholder};
use halter_exec::is_placeholder;

/// A process in a mount namespace of its own; `None` where that cannot be.
fn container() -> Option<Child> {
    let mut unshare = Command::new("unshare");
    // It says so once it is there.
    unshare.args(["-m", "sh", "-c", "echo there; exec sleep 1000"]);
    let mut child = unshare.stdout(Stdio::piped()).spawn().ok()?;
    let mut said = String::new();
    let stdout = child.stdout.take().unwrap();
    let read = std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut said);
    if read.unwrap() == 0 {
        println!("skipped: needs mount namespaces");
        child.wait().unwrap();
        return None;
    }
    Some(child)
}

fn said(container: &Child, directory: &Path, script: &str) -> String {
    let pid = container.id().to_string();
    let done = Command::new("nsenter")
        .args(["-t", &pid, "-m", "sh", "-c"])
        .arg(format!("exec 2>&-; cd \"$0\"; {script}"))
        .arg(directory)
        .output()
        .unwrap();
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_container_gets_back_the_mounts_that_it_has_lost() {
    let Some(mut child) = container() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let work = directory.path().canonicalize().unwrap();
    for (name, text) in [
        (".git/config", "[core]\n"),
        (".env", "s3cret"),
        ("keys/one", "s3cret"),
    ] {
        std::fs::create_dir_all(work.join(name).parent().unwrap()).unwrap();
        std::fs::write(work.join(name), text).unwrap();
    }
    let mount = |source: Option<&Path>, name: &str, read_only: bool| KeptMount {
        source: source.map(Path::to_owned),
        target: work.join(name),
        read_only,
    };
    let own = |name: &str, read_only| mount(Some(&work.join(name)), name, read_only);
    let mounts = [
        own(".git", false),
        own(".git/config", true),
        mount(Some(Path::new("/dev/null")), ".env", true),
        mount(None, "keys", false),
    ];
    let number = i32::try_from(child.id()).unwrap();
    let process = PidFd::open(number).unwrap();
    let made = mount_missing(&process, number, &mounts).unwrap();
    assert_eq!(made.len(), mounts.len());
    let script = "echo x >> .git/config || echo kept; mv .git gone || echo stays; cat .env; \
                  ls keys; echo in > .git/new && echo wrote";
    assert_eq!(said(&child, &work, script), "kept\nstays\nwrote\n");
    assert_eq!(mount_missing(&process, number, &mounts), Ok(Vec::new()));
    // As git and editors do it.
    for name in [".git/config", ".env"] {
        std::fs::write(work.join("new"), "s3cret of late").unwrap();
        std::fs::rename(work.join("new"), work.join(name)).unwrap();
    }
    assert!(said(&child, &work, "cat .env").contains("s3cret"));
    let mut again = mount_missing(&process, number, &mounts).unwrap();
    again.sort();
    assert_eq!(again, [work.join(".env"), work.join(".git/config")]);
    assert_eq!(said(&child, &work, script), "kept\nstays\nwrote\n");
    // A directory around it, too.
    std::fs::rename(work.join(".git"), work.join("old")).unwrap();
    std::fs::create_dir(work.join(".git")).unwrap();
    std::fs::write(work.join(".git/config"), "").unwrap();
    mount_missing(&process, number, &mounts).unwrap();
    assert_eq!(said(&child, &work, script), "kept\nstays\nwrote\n");
    // Outside nothing is mounted.
    std::fs::write(work.join(".git/config"), "mine").unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn git_works_on_with_what_takes_the_place_of_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let work = directory.path().canonicalize().unwrap();
    let git = |words: &[&str]| {
        let done = Command::new("git")
            .arg("-C")
            .arg(&work)
            .args(words)
            .output();
        done.unwrap().status.success()
    };
    assert!(git(&["init", "-q"]));
    let places =
        ["commondir", "config.worktree", "absent"].map(|name| work.join(".git").join(name));
    for place in &places {
        make_placeholder(place).unwrap();
        make_placeholder(place).unwrap();
        assert!(is_placeholder(place));
    }
    assert!(git(&["status"]));
    std::fs::write(places[2].join("kept"), "").unwrap();
    for place in &places {
        remove_placeholder(place).unwrap();
    }
    assert!(!places[0].exists() && !places[1].exists() && places[2].join("kept").exists());
    // No link leads to another place.
    std::os::unix::fs::symlink(work.join(".git"), work.join("link")).unwrap();
    assert!(make_placeholder(&work.join("link/commondir")).is_err());
}
