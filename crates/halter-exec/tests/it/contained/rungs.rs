//! What holds on which rung, and what is said where one is missing.

use std::path::{Path, PathBuf};
use std::time::Instant;

use halter_exec::{Containment, ContainmentRung, NetworkAccess, probe_containment};

use super::{Place, available, base, outcome};

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

#[tokio::test]
async fn only_listed_programs_execute() {
    if !available() || probe_containment(&Containment::new(ContainmentRung::Landlock)).is_err() {
        return println!("skipped: needs name spaces and Landlock");
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
        "/lib64/ld-linux-x86-64.so.2",
    ];
    if !listed.iter().all(|path| Path::new(path).exists()) {
        return println!("skipped: needs the programs of an x86_64 GNU system");
    }
    for rung in [ContainmentRung::Namespaces, ContainmentRung::Landlock] {
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
                    exec 2>&-; /lib64/ld-linux-x86-64.so.2 ./own >/dev/null || echo loaded";
        let done = outcome(containment, &work, text).await.unwrap();
        let expected = match rung {
            ContainmentRung::Namespaces => "listed\nunlisted\nwritten\nbuilt\nmoved\nloaded\n",
            // A loader that is given a program reads it; no rule is about that.
            _ => "listed\nunlisted\nwritten\nbuilt\nmoved\n",
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
