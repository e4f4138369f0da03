//! Commands in the sandbox that the policy asks for.

#[path = "../../../halter-exec/tests/it/own_network.rs"]
mod own_network;

use crate::support::Workspace;
use halter_exec::Environment;
use halter_tools::exec::{SessionSandbox, probe_sandbox};
use halter_tools::network::HostResolver;
use halter_tools::policy::{
    FileDoor, NetworkPolicy, NetworkSwitch, PolicyError, SandboxBounds, SandboxMode,
};
use halter_tools::{PolicySettings, StandardPolicy, ToolPolicy};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

pub fn settings(mode: SandboxMode, programs: &[&str]) -> PolicySettings {
    let programs: Vec<String> = programs.iter().map(|name| (*name).to_owned()).collect();
    PolicySettings {
        sandbox: mode,
        allowed_shell_commands: programs.into(),
        ..PolicySettings::default()
    }
}

pub fn works(rung: &str) -> bool {
    if !crate::place::has_rungs() {
        crate::support::skipped(&format!("a place that has {rung}"));
        return false;
    }
    let bounds = SandboxBounds::default();
    let status = probe_sandbox(&bounds, &Environment::new());
    let found = status.rungs.iter().find(|one| one.name == rung).unwrap();
    if !found.supported {
        crate::support::skipped(&format!("{rung}: {:?}", found.reason));
    }
    found.supported
}

/// A session in a sandbox whose shell runs anything, if this machine has one.
pub fn open_shell() -> Option<Workspace> {
    let is_there = works("namespaces");
    is_there.then(|| Workspace::with_settings(settings(SandboxMode::Prefer, &["*"])))
}

pub async fn sh(workspace: &Workspace, command: &str) -> Value {
    workspace.ok("shell", json!({"command": command})).await
}

#[tokio::test]
async fn a_command_changes_its_workspace_and_nothing_else() {
    let test = "a_command_changes_its_workspace_and_nothing_else";
    if !own_network::entered(module_path!(), test) {
        return;
    }
    let Some(workspace) = open_shell() else {
        return;
    };
    workspace.put(".git/config", "[core]\n");
    workspace.put("plain", "text");
    workspace.put(".env", "KEY=secret");
    // Names that the judge cannot read, so that the kernel has to refuse.
    let run = async |command: &str| sh(&workspace, command).await;
    let wrote = run("echo x > new && cat new plain").await;
    assert_eq!(wrote["stdout"], "x\ntext", "{wrote}");
    assert_eq!(wrote.get("sandbox_note"), None);
    let away = run("python3 -c 'open(\"/etc/halter-escaped\", \"w\")'; echo $?").await;
    assert_ne!(away["stdout"], "0\n", "{away}");
    for escape in [
        "python3 -c 'open(\".git/con\" + \"fig\", \"a\").write(\"x\")'",
        "python3 -c 'import os; os.mkdir(\".vsc\" + \"ode/x\")'",
        "python3 -c 'import os; os.makedirs(\".age\" + \"nts/skills/x\")'",
        "python3 -c 'print(open(\".e\" + \"nv\").read())'",
        "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 60)'",
    ] {
        let refused = run(escape).await;
        assert_ne!(refused["exit_code"], 0, "{escape}: {refused}");
        assert!(!refused["stdout"].as_str().unwrap().contains("secret"));
        let note = refused["sandbox_note"].as_str().unwrap_or_default();
        assert!(note.contains("sandbox (namespaces)"), "{escape}: {refused}");
    }
    let kept = std::fs::read_to_string(workspace.dir().join(".git/config"));
    assert_eq!(kept.unwrap(), "[core]\n");
    workspace.store.close().await;
    for placeholder in [".vscode", ".agents"] {
        assert!(!workspace.dir().join(placeholder).exists());
    }
}

#[tokio::test]
async fn only_listed_programs_and_their_sets_execute() {
    if !works("namespaces") || !works("landlock_and_seccomp") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let policy = StandardPolicy::bind(
        settings(SandboxMode::Prefer, &["cp", "cat"]),
        halter_tools::SessionScope {
            working_dir: directory.path().to_owned(),
            ..halter_tools::SessionScope::default()
        },
    );
    let bounds = policy.unwrap().sandbox(None);
    // Past the judge: only the kernel is asked.
    let script = "cp /bin/ls own; cat /dev/null && echo listed; /bin/ls; ./own; ls; \
                  perl -e 'print 1'; true";
    let said = run_directly(&bounds, &["bash", "-c", script], directory.path());
    assert_eq!(said, (0, "listed\n".to_owned()));
    let loaded = "for loader in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do \
                  $loader /usr/bin/perl -e 'print 1'; done; true";
    let said = run_directly(&bounds, &["bash", "-c", loaded], directory.path());
    assert_eq!(said, (0, String::new()));
}

/// A repository whose settings name a program, which git runs by a shell: the
/// shell is there, and nothing that is not listed.
#[tokio::test]
async fn a_program_that_a_repository_names_does_not_execute() {
    if !works("namespaces") || !has("git") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let policy = StandardPolicy::bind(
        settings(SandboxMode::Prefer, &["git"]),
        halter_tools::SessionScope {
            working_dir: directory.path().to_owned(),
            ..halter_tools::SessionScope::default()
        },
    );
    let bounds = policy.unwrap().sandbox(None);
    let script = "git init -q fake && cd fake && echo x > file && git add file && \
                  git config core.fsmonitor '/usr/bin/touch ../ran; echo x > /etc/halter-ran' && \
                  git status >/dev/null; git --version >/dev/null && echo done";
    let said = run_directly(&bounds, &["bash", "-c", script], directory.path());
    assert_eq!(said, (0, "done\n".to_owned()));
    assert!(directory.path().join("fake/.git/index").exists());
    assert!(!directory.path().join("ran").exists());
    assert!(!Path::new("/etc/halter-ran").exists());
}

/// The exit code of a program in a sandbox for these bounds, and what it said.
fn run_directly(bounds: &SandboxBounds, words: &[&str], cwd: &Path) -> (i32, String) {
    let path = "/usr/local/bin:/usr/bin:/bin";
    let environment = Environment::new().with("PATH", path);
    let name = format!("halter-direct-{}", std::process::id());
    let sandbox = SessionSandbox::establish(bounds, &environment, &name).unwrap();
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let output = tempfile::tempfile().unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let errors = tempfile::tempfile().unwrap();
    let streams = [&null, &output, &errors].map(std::os::fd::AsFd::as_fd);
    let program =
        sandbox.start_attached(&words, &environment, cwd, streams, NetworkPolicy::closed());
    let status = program.unwrap().wait().unwrap();
    let mut said = String::new();
    let mut output = output;
    std::io::Seek::rewind(&mut output).unwrap();
    std::io::Read::read_to_string(&mut output, &mut said).unwrap();
    (status.shell_code(), said)
}

#[tokio::test]
async fn a_sandbox_that_cannot_hold_what_is_required_refuses() {
    let bounds = SandboxBounds {
        mode: SandboxMode::Require,
        writable: vec!["/no/such/workspace".into()],
        ..SandboxBounds::default()
    };
    let refused = SessionSandbox::establish(&bounds, &Environment::new(), "halter-required");
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), "sandbox_required");
    assert!(refused.to_string().contains("namespaces: "), "{refused}");

    let gone = SandboxBounds {
        mode: SandboxMode::Prefer,
        writable: vec!["/no/such/workspace".into()],
        ..SandboxBounds::default()
    };
    let none = SessionSandbox::establish(&gone, &Environment::new(), "halter-gone").unwrap();
    assert!(none.sandbox().is_none());
    let status = none.status();
    assert_eq!((status.requested, status.active), ("prefer", None));
    assert!(
        status.rungs.iter().all(|rung| rung.reason.is_some()),
        "{status:?}"
    );
}

#[tokio::test]
async fn toolchains_work_inside() {
    if !works("namespaces") {
        return;
    }
    let project = [
        (
            "dep/Cargo.toml",
            "[package]\nname='dep'\nversion='0.1.0'\nedition='2021'\n",
        ),
        (
            "dep/src/lib.rs",
            "/// ```\n/// assert_eq!(dep::one(), 1);\n/// ```\npub fn one() -> u8 { 1 }\n",
        ),
        (
            "Cargo.toml",
            "[package]\nname='top'\nversion='0.1.0'\nedition='2021'\n\
             [dependencies]\ndep={path='dep'}\nmac={path='mac'}\n",
        ),
        (
            "build.rs",
            "fn main() { println!(\"cargo:rustc-env=BUILT=1\") }\n",
        ),
        (
            "mac/Cargo.toml",
            "[package]\nname='mac'\nversion='0.1.0'\nedition='2021'\n[lib]\nproc-macro=true\n",
        ),
        (
            "mac/src/lib.rs",
            "#[proc_macro]\npub fn two(_: proc_macro::TokenStream) -> proc_macro::TokenStream { \
             \"2\".parse().unwrap() }\n",
        ),
        (
            "src/main.rs",
            "fn main() { println!(\"{}{}{}\", dep::one(), mac::two!(), env!(\"BUILT\")) }\n\
             #[test]\nfn t() {}\n",
        ),
        (
            "sub/Cargo.toml",
            "[package]\nname='sub'\nversion='0.1.0'\nedition='2021'\n[workspace]\n",
        ),
        ("sub/src/main.rs", "fn main() {}\n#[test]\nfn t() {}\n"),
        ("sub/target/.keep", ""),
        ("q/package.json", "{\"name\":\"q\",\"version\":\"1.0.0\"}"),
        (
            "p/package.json",
            "{\"name\":\"p\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"node -e 1\"}}",
        ),
        ("Makefile", "all:\n\t@echo made\n"),
        ("test_it.py", "def test_it(): assert True\n"),
        ("g/go.mod", "module g\n"),
        (
            "g/main.go",
            "package main\nimport \"fmt\"\nfunc main() { fmt.Println(1) }\n",
        ),
    ];
    for programs in [
        &["*"][..],
        &[
            "cargo", "npm", "git", "make", "python3", "pytest", "go", "cd", "echo",
        ],
    ] {
        let workspace = Workspace::with_user_environment(settings(SandboxMode::Prefer, programs));
        for (name, text) in project {
            workspace.put(name, text);
        }
        for (program, command) in [
            ("cargo", "cargo run --offline -q"),
            ("cargo", "cargo test --offline -q"),
            // Tests in documentation are built in the temporary directory.
            ("cargo", "cargo test --offline -q -p dep --doc"),
            ("cargo", "cd sub && cargo test --offline -q && cd .."),
            (
                "npm",
                "cd p && npm install --offline --no-audit --no-fund ../q && npm test && cd ..",
            ),
            (
                "git",
                "git init -q . && git add q && git -c user.name=n -c user.email=e commit -qm x",
            ),
            ("make", "make"),
            ("python3", "python3 test_it.py"),
            ("pytest", "pytest -q test_it.py"),
            ("go", "cd g && go build && go vet && cd .."),
        ] {
            if !has(program) {
                crate::support::skipped(program);
                continue;
            }
            let call = json!({"command": command, "timeout_ms": 600_000});
            let done = workspace.ok("shell", call).await;
            assert_eq!(done["exit_code"], 0, "{programs:?} {command}: {done}");
        }
        if has("cargo") {
            let ran = sh(&workspace, "cargo run --offline -q").await;
            assert_eq!(ran["stdout"], "121\n", "{ran}");
        }
        workspace.store.close().await;
    }
}

/// Whether the first program of this name is itself, not a script that looks
/// for it with programs of its own.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(program));
    let found = places.find(|place| place.exists());
    found.is_some_and(|place| !place.to_string_lossy().contains("shims"))
}

#[tokio::test]
async fn a_workspace_that_is_deleted_under_its_sandbox_opens_nothing() {
    let Some(workspace) = open_shell() else {
        return;
    };
    assert_eq!(sh(&workspace, "echo x > file").await["exit_code"], 0);
    let root = workspace.dir();
    let write = json!({"command": "echo x > new"});
    std::fs::remove_dir_all(&root).unwrap();
    let gone = workspace.call("shell", write.clone()).await;
    assert!(
        gone.is_err() || gone.as_ref().unwrap()["exit_code"] != 0,
        "{gone:?}"
    );
    assert!(!root.exists(), "{gone:?}");
    // Another one of its name is not what the sandbox is for.
    std::fs::create_dir(&root).unwrap();
    let _ = workspace.call("shell", write).await;
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
    workspace.store.close().await;
}

/// Answers for one name.
#[derive(Debug)]
pub struct OneName(pub &'static str);

#[async_trait::async_trait]
impl HostResolver for OneName {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        match name == self.0 {
            true => Ok(vec![Ipv4Addr::LOCALHOST.into()]),
            false => Err(std::io::Error::other("no such name")),
        }
    }
}

/// A server on the loopback interface outside, which greets everybody.
fn greeter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\ngreeted");
        }
    });
    port
}

pub const FETCH: &str = "python3 -c 'import sys, urllib.request as r; \
                     print(r.urlopen(sys.argv[1], timeout=100).read().decode())'";

#[tokio::test]
async fn a_command_reaches_what_is_allowed_by_the_proxy_and_nothing_else() {
    let test = "a_command_reaches_what_is_allowed_by_the_proxy_and_nothing_else";
    if !own_network::entered(module_path!(), test) {
        return;
    }
    if !works("namespaces") || !crate::place::filters_hosts() {
        return;
    }
    let (port, other) = (greeter(), greeter());
    let mut workspace = Workspace::with_settings(PolicySettings {
        network: NetworkSwitch::On,
        allowed_hosts: vec!["files.test".into()],
        allowed_loopback: vec![("127.0.0.1".into(), Some(port))],
        ..settings(SandboxMode::Require, &["*"])
    });
    workspace.resolve_by(Arc::new(OneName("files.test")));
    for host in ["files.test", "127.0.0.1"] {
        let reached = sh(&workspace, &format!("{FETCH} http://{host}:{port}/")).await;
        assert_eq!(reached["stdout"], "greeted\n", "{reached}");
        assert_eq!(reached.get("network_refused"), None, "{reached}");
    }
    for (host, rule) in [
        (format!("files.test:{other}"), "network.loopback"),
        (format!("127.0.0.1:{other}"), "network.loopback"),
        ("other.test:80".to_owned(), "network.host"),
        ("169.254.169.254:80".to_owned(), "network.metadata"),
    ] {
        let refused = sh(&workspace, &format!("{FETCH} http://{host}/")).await;
        assert_ne!(refused["exit_code"], 0, "{host}: {refused}");
        let told = refused["network_refused"][0].as_str().unwrap();
        assert!(told.contains(&host) && told.contains(rule), "{refused}");
    }
    // Around the proxy there is nothing.
    for around in [
        format!(
            "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 60)'"
        ),
        format!(
            "env -u http_proxy -u HTTP_PROXY -u all_proxy -u ALL_PROXY \
                 curl -s --noproxy \"*\" http://127.0.0.1:{port}/"
        ),
        "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 60)'".to_owned(),
        "git ls-remote https://other.test/x".to_owned(),
    ] {
        let refused = sh(&workspace, &around).await;
        assert_ne!(refused["exit_code"], 0, "{around}: {refused}");
    }
}

#[tokio::test]
async fn the_settings_of_a_repository_within_cannot_be_changed() {
    if !works("namespaces") {
        return;
    }
    let workspace = Workspace::with_settings(settings(SandboxMode::Require, &["*"]));
    workspace.put("sub/dir/.git/config", "[core]\n");
    workspace.put("sub/dir/.git/HEAD", "ref: refs/heads/main\n");
    // Paths that the judge cannot read, so that only the kernel is in the way.
    let python = |code: &str, arguments: &str| {
        format!(
            "python3 -c 'import os, sys; a = [it[1:] for it in sys.argv[1:]]; {code}' {arguments}"
        )
    };
    let append = r#"open(a[0], "a").write("x")"#;
    for command in [
        python(append, "@sub/dir/.git/config"),
        python(append, "@sub/dir/.git/hooks/pre-commit"),
        python("os.rename(a[0], a[1])", "@sub/dir/.git/config @sub/old"),
    ] {
        let refused = sh(&workspace, &command).await;
        assert_ne!(refused["exit_code"], 0, "{command}: {refused}");
    }
    assert_eq!(workspace.get("sub/dir/.git/config"), "[core]\n");
    let made = sh(&workspace, &python(append, "@sub/dir/.git/index")).await;
    assert_eq!(made["exit_code"], 0, "{made}");
}

/// Remembers which thread has searched directories for a sandbox.
#[derive(Debug)]
struct SearchedBy {
    standard: Arc<dyn ToolPolicy>,
    thread: Arc<OnceLock<ThreadId>>,
}

impl ToolPolicy for SearchedBy {
    fn door(&self) -> &FileDoor {
        self.standard.door()
    }

    fn max_read_bytes(&self) -> u64 {
        self.standard.max_read_bytes()
    }

    fn check_shell_enabled(&self) -> Result<(), PolicyError> {
        Ok(())
    }

    fn check_shell_command_strict(&self, _: &str) -> Result<(), PolicyError> {
        Ok(())
    }

    fn shell_timeout_secs(&self) -> u64 {
        self.standard.shell_timeout_secs()
    }

    fn sandbox(&self, home: Option<&Path>) -> SandboxBounds {
        self.thread.get_or_init(|| std::thread::current().id());
        self.standard.sandbox(home)
    }
}

#[tokio::test]
async fn directories_are_searched_for_a_sandbox_on_a_thread_that_may_block() {
    let mut workspace = Workspace::with_settings(settings(SandboxMode::Prefer, &["*"]));
    let thread = Arc::new(OnceLock::new());
    workspace.policy = Arc::new(SearchedBy {
        standard: Arc::clone(&workspace.policy),
        thread: Arc::clone(&thread),
    });
    assert_eq!(sh(&workspace, "true").await["exit_code"], 0);
    let searched = *thread.get().unwrap();
    assert_ne!(searched, std::thread::current().id());
    workspace.store.close().await;
}
