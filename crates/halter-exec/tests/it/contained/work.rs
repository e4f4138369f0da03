//! Ordinary work inside.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use halter_exec::host::Sandbox;
use halter_exec::{NetworkAccess, PersistentShell, ShellCommand, ShellConfig, TerminalSize, run};
use tokio_util::sync::CancellationToken;

use super::{Place, available, bash, outcome, spec};
use crate::support::environment;

#[tokio::test]
async fn a_program_sees_its_workspace_a_fresh_tmp_and_its_own_processes() {
    if !available() {
        return;
    }
    let place = Place::new();
    let text = "pwd; echo x > new; cat ../outside/file; ls ..; echo y > /tmp/y; cat /tmp/y; \
                ls /proc | grep -c '^[0-9]'; cat <(echo z) < /dev/stdin";
    let work = place.path("work");
    let done = outcome(place.containment(), &work, text).await.unwrap();
    let text = done.stdout.to_text();
    let lines: Vec<&str> = text.lines().collect();
    let expected: &[&str] = &["text", "outside", "seen-outside", "work", "y"];
    assert_eq!(lines.first(), Some(&work.to_str().unwrap()));
    assert_eq!(lines.get(1..1 + expected.len()), Some(expected), "{text}");
    let processes: usize = lines[1 + expected.len()].parse().unwrap();
    assert!(processes < 8, "{text}");
    assert_eq!(lines.last(), Some(&"z"));
    assert!(place.path("work/new").exists());
}

#[tokio::test]
async fn a_shell_and_what_it_starts_share_one_sandbox_over_restarts() {
    if !available() {
        return;
    }
    let place = Place::new();
    let name = format!("halter-shell-{}", std::process::id());
    let sandbox = Sandbox::establish(spec(place.containment()), &name).unwrap();
    let config = ShellConfig::new(environment(), place.path("work"));
    let mut shell = PersistentShell::in_sandbox(config, Arc::new(sandbox)).unwrap();
    let mut said = String::new();
    for text in [
        "export A=1; mkdir -p /tmp/a/b && cd /tmp/a/b; sleep 300 & echo $! > /tmp/pid",
        "pwd; echo long-$(printf %0200d 7) | wc -c; exit 3",
        "echo $?; pwd; echo $A; kill -0 $(cat /tmp/pid) && echo runs; cat",
        "kill -9 $$",
        "echo $A",
    ] {
        let mut command = ShellCommand::new(text);
        command.stdin = halter_exec::Stdin::Bytes("given\n".into());
        command.deadline = Some(Duration::from_secs(600));
        let cancel = CancellationToken::new();
        let done = shell.run(command, &cancel, &()).await.unwrap();
        said += &done.stdout.to_text();
    }
    shell.close().await;
    assert_eq!(said, "/tmp/a/b\n206\n3\n/tmp/a/b\n1\nruns\ngiven\n1\n");
}

#[tokio::test]
async fn a_terminal_works_inside() {
    if !available() {
        return;
    }
    let place = Place::new();
    let size = TerminalSize {
        columns: 80,
        rows: 24,
    };
    let command = bash(
        &place.path("work"),
        "test -t 0 && stty size && echo > /dev/tty",
    )
    .terminal(size)
    .sandbox(spec(place.containment()));
    let done = run(command, &CancellationToken::new(), &()).await.unwrap();
    assert_eq!(done.stdout.to_text().trim(), "24 80");
}

#[tokio::test]
async fn a_proxy_outside_serves_what_is_inside() {
    if !available() {
        return;
    }
    let place = Place::new();
    let mut containment = place.containment();
    containment.network = NetworkAccess::Proxy { port: 3128 };
    let name = format!("halter-proxy-{}", std::process::id());
    let sandbox = Arc::new(Sandbox::establish(spec(containment), &name).unwrap());
    let listener = sandbox.proxy_listener().unwrap().unwrap();
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut asked = [0; 4];
        connection.read_exact(&mut asked).unwrap();
        connection.write_all(b"pong\n").unwrap();
        asked
    });
    let text = "exec 3<>/dev/tcp/127.0.0.1/3128 && printf ping >&3 && head -n 1 <&3";
    let command = bash(&place.path("work"), text);
    let cancel = CancellationToken::new();
    let done = halter_exec::host::run_in(command, Arc::clone(&sandbox), &cancel, &()).await;
    let done = done.unwrap();
    assert_eq!(done.stdout.to_text(), "pong\n", "{}", done.stderr.to_text());
    assert_eq!(server.join().unwrap(), *b"ping");
}

#[tokio::test]
async fn real_tools_work() {
    if !available() {
        return;
    }
    let place = Place::new();
    std::fs::remove_dir_all(place.path("work/.git")).unwrap();
    for (tool, text) in [
        (
            "/usr/bin/git",
            "git init -q . && git config user.email a@b && git config user.name n && \
             echo x > f && git add f && git commit -qm first && git log --oneline | wc -l",
        ),
        (
            "/usr/bin/make",
            "printf 'all:\\n\\t@echo 1\\n' > Makefile && make",
        ),
        (
            "/usr/bin/gcc",
            "echo 'int main(void){return 0;}' > m.c && gcc m.c -o m && ./m && echo 1",
        ),
        (
            "/usr/bin/python3",
            "python3 -c 'import subprocess, multiprocessing as m; \
             print(len(m.Pool(1).map(abs, [1])))'",
        ),
        (
            "/usr/bin/node",
            "node -e 'console.log(require(\"os\").cpus().length > 0 ? 1 : 0)'",
        ),
    ] {
        if !Path::new(tool).exists() {
            println!("skipped: needs {tool}");
            continue;
        }
        let mut containment = place.containment();
        containment.protected.clear();
        let done = outcome(containment, &place.path("work"), text)
            .await
            .unwrap();
        let (said, errors) = (done.stdout.to_text(), done.stderr.to_text());
        assert_eq!(said.trim(), "1", "{tool}: {errors}");
    }
}
