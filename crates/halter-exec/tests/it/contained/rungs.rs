//! What holds on which rung, and what is said where one is missing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use halter_exec::host::{Sandbox, run_in};
use halter_exec::{
    Containment, ContainmentRung, NetworkAccess, landlock_scopes, probe_containment,
};

use super::{Place, available, base, bash, outcome, spec};
use crate::own_network;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_missing_or_unwritable_workspace_is_refused_or_stays_as_it_is() {
    if !available() {
        return;
    }
    let mut containment = Containment::new(ContainmentRung::Namespaces);
    containment.writable = vec![PathBuf::from("/no/such/workspace")];
    let error = outcome(containment, Path::new("/"), ":").await.unwrap_err();
    assert_eq!(error.code(), "sandbox_unavailable");
    assert!(error.to_string().contains("/no/such/workspace"), "{error}");
    let nothing = Containment::new(ContainmentRung::Namespaces);
    let place = Place::new();
    let text = "echo x 2>&- > new || echo refused";
    let done = outcome(nothing, Path::new("/usr"), text).await.unwrap();
    assert_eq!(done.stdout.to_text(), "refused\n");
    drop(place);
}

#[tokio::test]
async fn ten_thousand_protected_paths_are_protected() {
    if !available() {
        return;
    }
    let place = Place::new();
    let mut containment = place.containment();
    let work = place.path("work");
    containment.protected = (0..10_000)
        .map(|number| {
            let path = work.join(format!("f{number}"));
            std::fs::write(&path, "").unwrap();
            path
        })
        .collect();
    let started = Instant::now();
    let text = "for n in 0 77 9999; do echo x 2>&- >> f$n || echo refused; done; echo y > other";
    let done = outcome(containment, &work, text).await.unwrap();
    println!("10,000 protected paths: {:?}", started.elapsed());
    assert_eq!(done.stdout.to_text(), "refused\n".repeat(3));
    assert!(work.join("other").exists());
}

/// Each holds what is missing until the last one ends.
#[tokio::test]
async fn two_sandboxes_of_one_workspace_share_what_takes_the_place_of_absent_paths() {
    if !available() {
        return;
    }
    let place = Place::new();
    let work = place.path("work");
    let mut containment = place.containment();
    containment.protected = [".editor", ".git/commondir"]
        .map(|it| work.join(it))
        .to_vec();
    let sandbox = |name: &str| {
        let name = format!("halter-{name}-{}", std::process::id());
        Arc::new(Sandbox::establish(spec(containment.clone()), &name).unwrap())
    };
    // What an end that was none left behind is taken over.
    std::fs::create_dir(work.join(".editor")).unwrap();
    let sticky = std::os::unix::fs::PermissionsExt::from_mode(0o1755);
    std::fs::set_permissions(work.join(".editor"), sticky).unwrap();
    let (first, second) = (sandbox("first"), sandbox("second"));
    drop(first);
    let text =
        "mkdir -p .editor/x || echo kept; echo x > .git/commondir || echo kept; cat .git/commondir";
    let cancel = CancellationToken::new();
    let done = run_in(bash(&work, text), Arc::clone(&second), &cancel, &());
    assert_eq!(done.await.unwrap().stdout.to_text(), "kept\nkept\n.\n");
    drop(second);
    for name in [".editor", ".git/commondir"] {
        assert!(!work.join(name).exists(), "{name}");
    }
    // What belongs to somebody stays.
    std::fs::create_dir(work.join(".editor")).unwrap();
    drop(sandbox("third"));
    assert!(work.join(".editor").exists());
}

#[tokio::test]
async fn a_sandbox_of_many_repositories_has_few_descriptors() {
    if !available() {
        return;
    }
    let place = Place::new();
    let work = place.path("work");
    let mut containment = place.containment();
    for number in 0..400 {
        let git = work.join(format!("r{number}/.git"));
        std::fs::create_dir_all(&git).unwrap();
        containment
            .protected
            .extend([git.join("hooks"), git.join("commondir")]);
    }
    let count = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open = open.filter_map(|it| std::fs::read_link(it.path()).ok());
        open.filter(|it| it.starts_with(place.directory.path()))
            .count()
    };
    let sandbox = |name: &str| {
        let name = format!("halter-many-{name}-{}", std::process::id());
        Arc::new(Sandbox::establish(spec(containment.clone()), &name).unwrap())
    };
    let (first, second) = (sandbox("first"), sandbox("second"));
    // One each, for the workspace.
    assert_eq!(count(), 2);
    drop(first);
    assert_eq!(count(), 1);
    let text = "exec 2>&-; for n in 0 77 399; do echo x > r$n/.git/hooks/x || echo kept; done";
    let cancel = CancellationToken::new();
    let done = run_in(bash(&work, text), Arc::clone(&second), &cancel, &());
    assert_eq!(done.await.unwrap().stdout.to_text(), "kept\n".repeat(3));
    drop(second);
    let left = containment.protected.iter().find(|path| path.exists());
    assert_eq!(left, None);
}

/// Whether root made this file, and runs the test.
fn is_root(own: &Path) -> bool {
    std::os::unix::fs::MetadataExt::uid(&own.metadata().unwrap()) == 0
}

#[tokio::test]
async fn a_workspace_of_somebody_else_needs_nothing_in_place_of_absent_paths() {
    if !available() {
        return;
    }
    let place = Place::new();
    let work = place.path("work");
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    let mut containment = place.containment();
    // One directory is root's; the other is of this user, who may open it.
    if !is_root(&work) {
        containment.writable.push("/etc".into());
        containment.protected = vec!["/etc/.editor".into()];
        let text = "mkdir /etc/.editor || echo kept";
        let etc = outcome(containment.clone(), &work, text).await;
        assert_eq!(etc.unwrap().stdout.to_text(), "kept\n");
    }
    std::fs::set_permissions(&work, mode(0o555)).unwrap();
    containment.protected = vec![work.join(".editor")];
    let done = outcome(containment, &work, "mkdir .editor || echo kept").await;
    std::fs::set_permissions(&work, mode(0o755)).unwrap();
    match done {
        Ok(done) => assert_eq!(done.stdout.to_text(), "kept\n"),
        Err(error) => assert!(error.to_string().contains("chmod u+w"), "{error}"),
    }
}

#[tokio::test]
async fn only_listed_programs_execute() {
    if !available() {
        return;
    }
    let place = Place::new();
    let work = place.path("work");
    std::fs::create_dir(work.join("target")).unwrap();
    let listed = [
        "/bin/bash",
        "/bin/cp",
        "/bin/chmod",
        "/bin/cat",
        "/bin/mkdir",
        "/bin/rm",
        "/bin/mv",
        "/bin/ln",
        "/usr/bin/perl",
        "/lib64/ld-linux-x86-64.so.2",
    ];
    if !listed.iter().all(|path| Path::new(path).exists()) {
        return println!("skipped: needs the programs of an x86_64 GNU system");
    }
    for rung in [ContainmentRung::Namespaces, ContainmentRung::Landlock] {
        if probe_containment(&Containment::new(rung)).is_err() {
            println!("skipped: needs {}", rung.name());
            continue;
        }
        let mut containment = place.containment();
        containment.rung = rung;
        let mut executables: Vec<PathBuf> = listed.map(PathBuf::from).to_vec();
        executables.push(work.join("target"));
        containment.executables = Some(executables);
        let text = "cat /dev/null && echo listed; /bin/ls 2>&- || echo unlisted; \
                    cp /bin/ls own; ./own 2>&- || echo written; \
                    cp /bin/true target/built && target/built && echo built; \
                    rm -rf target/[ab]; mkdir target/a target/b; : > target/a/f; mv target/a/f target/b/f && \
                    ln target/b/f target/a/f && echo moved; \
                    perl -e '$f = syscall(319, \"m\", 0); open(M, \">&=$f\") && exec \"true\"' \
                    || echo unmade; exec 2>&-; /lib64/ld-linux-x86-64.so.2 ./own >/dev/null || echo loaded; \
                    /lib64/ld-linux-x86-64.so.2 /bin/ls >/dev/null || echo unloaded";
        let done = outcome(containment, &work, text).await.unwrap();
        let expected = match rung {
            ContainmentRung::Namespaces => {
                "listed\nunlisted\nwritten\nbuilt\nmoved\nunmade\nloaded\nunloaded\n"
            }
            // A loader that is given a program reads it; no rule is about that.
            _ => "listed\nunlisted\nwritten\nbuilt\nmoved\nunmade\n",
        };
        let errors = done.stderr.to_text();
        assert_eq!(done.stdout.to_text(), expected, "{rung:?}: {errors}");
    }
}

#[tokio::test]
async fn landlock_holds_what_it_can() {
    let mut containment = Containment::new(ContainmentRung::Landlock);
    if let Err(missing) = probe_containment(&containment) {
        assert!(missing.fix.is_some(), "{missing}");
        return println!("skipped: needs Landlock ({missing})");
    }
    // Not below `/tmp`, which is writable on this rung.
    let directory = tempfile::tempdir_in(base()).unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["work", "secret"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    std::fs::write(path("secret/key"), "s3cret").unwrap();
    std::fs::write(path("file"), "text\n").unwrap();
    containment.writable = vec![path("work")];
    containment.hidden = vec![path("secret")];
    let text = "exec 2>&-; echo x > new && echo wrote; cat ../file; echo x >> ../file || echo kept; \
                cat ../secret/key || echo hidden; cat /proc/$PPID/environ || echo private; \
                (exec 3<>/dev/udp/127.0.0.1/9) || echo offline; \
                kill -0 $PPID || echo apart; dd if=/dev/vda count=1 || echo nodisk";
    let done = outcome(containment.clone(), &path("work"), text)
        .await
        .unwrap();
    let said = done.stdout.to_text();
    let scoped = said.contains("apart\n");
    let expected = "wrote\ntext\nkept\nhidden\nprivate\noffline\nnodisk\n";
    assert_eq!(said.replace("apart\n", ""), expected, "scoped: {scoped}");
    containment.network = NetworkAccess::Proxy { port: 1 };
    let error = outcome(containment, &path("work"), ":").await.unwrap_err();
    assert!(error.to_string().contains("network namespace"), "{error}");
}

/// To replace a file takes every mount off it, in other name spaces too.
#[tokio::test]
async fn what_is_replaced_from_outside_is_protected_and_hidden_again() {
    if !available() {
        return;
    }
    let place = Place::new();
    let work = place.path("work");
    let mut containment = place.containment();
    let config = work.join(".git/config");
    let secret = work.join(".env");
    let absent = work.join(".editor");
    std::fs::write(&secret, "s3cret").unwrap();
    let within = work.join("lib/.git/config");
    std::fs::create_dir_all(work.join("lib/.git")).unwrap();
    std::fs::write(&within, "[core]\n").unwrap();
    containment.protected = vec![config.clone(), absent.clone(), within.clone()];
    containment.hidden = vec![secret.clone()];
    let name = format!("halter-replaced-{}", std::process::id());
    let sandbox = Arc::new(Sandbox::establish(spec(containment), &name).unwrap());
    let text = "exec 2>&-; echo x >> .git/config || echo kept; cat .env || echo hidden; \
                mkdir -p .editor/x || echo kept";
    let cancel = CancellationToken::new();
    let said = async || {
        let done = run_in(bash(&work, text), Arc::clone(&sandbox), &cancel, &());
        done.await.unwrap().stdout.to_text()
    };
    assert_eq!(said().await, "kept\nhidden\nkept\n");
    // As git and editors do, and as one who cleans up does.
    for path in [&config, &secret] {
        let new = path.with_extension("new");
        std::fs::write(&new, "s3cret of late").unwrap();
        std::fs::rename(&new, path).unwrap();
    }
    std::fs::remove_dir(&absent).unwrap();
    std::fs::remove_dir_all(work.join("lib")).unwrap();
    let mut covered = sandbox.cover_again().unwrap();
    covered.sort();
    let mut expected = vec![config.clone(), secret.clone(), absent.clone()];
    expected.sort();
    assert_eq!(covered, expected);
    assert_eq!(said().await, "kept\nhidden\nkept\n");
    // The number of a file is given to the next one at once.
    for _ in 0..3 {
        for path in [&config, &secret] {
            std::fs::remove_file(path).unwrap();
            std::fs::write(path, "s3cret of late").unwrap();
        }
        assert_eq!(sandbox.cover_again().unwrap().len(), 2);
        assert_eq!(said().await, "kept\nhidden\nkept\n");
    }
    // What is the same file is covered by the same mount.
    std::fs::write(&config, "s3cret after all").unwrap();
    assert_eq!(sandbox.cover_again().unwrap(), [""; 0].map(PathBuf::from));
    let text = std::fs::read_to_string(config).unwrap();
    assert_eq!(text, "s3cret after all");
    assert!(!work.join("lib").exists());
    // Nor is a new directory around it moved away.
    std::fs::rename(work.join(".git"), place.path("old")).unwrap();
    std::fs::create_dir(work.join(".git")).unwrap();
    std::fs::write(work.join(".git/config"), "").unwrap();
    sandbox.cover_again().unwrap();
    let text = "exec 2>&-; mv .git moved || echo kept; echo x >> .git/config || echo kept";
    let done = run_in(bash(&work, text), Arc::clone(&sandbox), &cancel, &());
    assert_eq!(done.await.unwrap().stdout.to_text(), "kept\nkept\n");
    drop(sandbox);
    assert!(!absent.exists());
}

/// The attempts that Landlock does not stop. The status of a session's sandbox
/// has words for each, which are to be changed with this list.
const NOT_HELD_BY_LANDLOCK: &[&str] = &[
    // Protected paths below writable directories.
    "change-git-config",
    "replace-git-config",
    "remove-git-config",
    "move-git-away",
    "add-hook",
    "remove-hooks",
    "replace-hooks-by-link",
    "make-commondir",
    "replace-commondir",
    "remove-commondir",
    "make-worktree-config",
    "change-submodule-config",
    "add-submodule-hook",
    "move-submodule-away",
    "redirect-linked-work-tree",
    "apply-a-hook",
    "make-absent-file",
    "make-absent-directory",
    "make-absent-skill",
    "link-in-place-of-absent",
    "move-onto-absent",
    // Modes, times and attributes of all files.
    "change-mode",
    "change-times",
    "change-attributes",
    // The names of files that cannot be read.
    "list-hidden",
    // Fresh directories of temporary files.
    "outer-temporary-files",
    "leave-shared-memory",
    // System V objects, and the sight of terminals.
    "same-ipc-namespace",
    "outer-terminals",
];
/// Those that it stops since version 6.
const HELD_BY_SCOPES: &[&str] = &["abstract-socket", "see-outer-process"];

#[tokio::test]
async fn by_landlock_nothing_gets_out_but_what_is_said() {
    let test = "by_landlock_nothing_gets_out_but_what_is_said";
    if !own_network::entered(module_path!(), test) {
        return;
    }
    if let Err(missing) = probe_containment(&Containment::new(ContainmentRung::Landlock)) {
        return println!("skipped: needs Landlock ({missing})");
    }
    if !super::can_try() {
        return;
    }
    let place = Place::new();
    let mut containment = place.containment();
    containment.rung = ContainmentRung::Landlock;
    let mut escaped = super::escapes(&place, containment).await;
    let is_said = |attempt: &str| {
        NOT_HELD_BY_LANDLOCK.contains(&attempt)
            || (!landlock_scopes() && HELD_BY_SCOPES.contains(&attempt))
    };
    escaped.retain(|(attempt, _)| !is_said(attempt));
    assert!(escaped.is_empty(), "{escaped:#?}");
}
