//! Containment by name spaces: what is inside cannot get out, and ordinary
//! work goes on. Each test holds for root, for root without capabilities and
//! for nobody.

mod rungs;
mod work;

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use halter_exec::host::{Sandbox, run_in};
use halter_exec::{
    Command, CommandOutcome, Containment, ContainmentRung, Environment, ExecError, SandboxSpec,
    probe_containment, run,
};
use tokio_util::sync::CancellationToken;

use crate::support::environment;

/// A workspace that may be written to, and things outside of it.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir_in(base()).unwrap();
        for name in ["work", "work/.git", "outside", "outside/secret"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let place = Self { directory };
        for (name, text) in [
            ("outside/secret/key", "s3cret\n"),
            ("outside/file", "text\n"),
            ("work/.git/config", "[core]\n"),
            ("seen-outside", ""),
        ] {
            std::fs::write(place.path(name), text).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn containment(&self) -> Containment {
        let mut containment = Containment::new(ContainmentRung::Namespaces);
        containment.writable = vec![self.path("work")];
        containment
    }
}

/// A place that is not below `/tmp`, which is fresh inside.
fn base() -> PathBuf {
    let given = std::env::var_os("HALTER_TEST_BASE");
    given.map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
}

/// Whether name spaces can be had; says so if not.
fn available() -> bool {
    let found = probe_containment(&Containment::new(ContainmentRung::Namespaces));
    if let Err(missing) = &found {
        println!("skipped: needs name spaces ({missing})");
    }
    found.is_ok()
}

fn spec(containment: Containment) -> SandboxSpec {
    SandboxSpec {
        containment: Some(containment),
        ..SandboxSpec::default()
    }
}

fn bash(cwd: &Path, text: &str) -> Command {
    Command::new("bash", cwd)
        .args(["--noprofile", "--norc", "-c", text])
        .environment(environment())
        .deadline(Duration::from_secs(60))
}

async fn outcome(
    containment: Containment,
    cwd: &Path,
    text: &str,
) -> Result<CommandOutcome, ExecError> {
    let command = bash(cwd, text).sandbox(spec(containment));
    run(command, &CancellationToken::new(), &()).await
}

/// Makes a system call and says whether it worked, or failed for another reason
/// than that it is refused: not permitted, no such process, no access,
/// read-only, no such call, no such family.
const CALL: &str = r#"call() { perl -e '
    my @n = map { /^-?\d/ ? (/^0x/ ? hex : 0 + $_) : $_ } @ARGV;
    my $r = syscall(shift @n, @n);
    if ($r == 0 && $n[0] =~ /0x|^268435473|^131089/) { exit 0 }
    my $error = $! + 0;
    print "ESCAPED $error\n" if $r >= 0 || !grep { $_ == $error } 1, 3, 13, 30, 38, 97' -- "$@"; }
"#;

#[tokio::test]
async fn no_attempt_to_escape_succeeds() {
    if !available() || !Path::new("/usr/bin/perl").exists() || cfg!(not(target_arch = "x86_64")) {
        return println!("skipped: needs name spaces, perl and x86_64");
    }
    let place = Place::new();
    let mut containment = place.containment();
    let work = place.path("work");
    containment.hidden = vec![place.path("outside/secret")];
    containment.protected = [".git/config", ".git/hooks", ".absent/file", ".editor"]
        .map(|name| work.join(name))
        .to_vec();
    let name = format!("halter-{}", std::process::id());
    let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&abstract_name).unwrap();
    let loopback = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = loopback.local_addr().unwrap().port();
    let seen = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    let variables = Environment::new()
        .with("PATH", crate::support::PATH)
        .with("WORK", &work)
        .with("OUT", place.path("outside"))
        .with("HOME", place.path("outside"))
        .with("OUTER_PID", std::process::id().to_string())
        .with("OUTER_PORT", port.to_string())
        .with(
            "OUTER_IPC",
            std::fs::read_link("/proc/self/ns/ipc").unwrap(),
        )
        .with("SEEN", seen.path())
        .with("ABSTRACT", &name);
    let sandbox = Sandbox::establish(spec(containment), &name).unwrap();
    let sandbox = std::sync::Arc::new(sandbox);
    let attempts = include_str!("escapes.sh").lines();
    let attempts: Vec<(&str, &str)> = attempts
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once('\t').unwrap())
        .collect();
    assert!(attempts.len() >= 60);
    let mut escaped = Vec::new();
    for (attempt, script) in attempts {
        let command = bash(&work, &format!("{CALL}{script}")).environment(variables.clone());
        let cancel = CancellationToken::new();
        let done = run_in(command, std::sync::Arc::clone(&sandbox), &cancel, &());
        let done = done.await.unwrap();
        let said = done.stdout.to_text() + &done.stderr.to_text();
        if said.contains("ESCAPED") {
            escaped.push((attempt, said));
        }
    }
    assert!(escaped.is_empty(), "{escaped:#?}");
    let outside = |name: &str| std::fs::read_to_string(place.path(name)).unwrap();
    assert!(!Path::new("/dev/shm").join(&name).exists());
    assert_eq!(outside("outside/file"), "text\n");
    assert_eq!(outside("work/.git/config"), "[core]\n");
    drop(sandbox);
    // What took the place of absent paths is gone with the sandbox.
    for name in [".git/hooks", ".absent", ".editor"] {
        assert!(!work.join(name).exists(), "{name}");
    }
}
