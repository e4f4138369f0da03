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
use halter_exec::limits::BIRTH_WAIT;
use halter_exec::{
    Command, CommandOutcome, Containment, ContainmentRung, Environment, ExecError, SandboxSpec,
    probe_containment, run,
};
use tokio_util::sync::CancellationToken;

use crate::own_network;
use crate::support::environment;

/// A workspace that may be written to, and things outside of it.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir_in(base()).unwrap();
        for name in [
            "work/.git/modules/m",
            "work/.git/worktrees/w",
            "outside/secret",
        ] {
            std::fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        let place = Self { directory };
        for (name, text) in [
            ("outside/secret/key", "s3cret\n"),
            ("outside/file", "text\n"),
            ("work/.git/config", "[core]\n"),
            ("work/.git/modules/m/config", "[core]\n"),
            ("work/.git/worktrees/w/commondir", "../..\n"),
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
        .deadline(Duration::from_secs(600))
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

/// Adds a file to a directory of hooks.
const HOOK_PATCH: &str = "diff --git a/hooks/post-checkout b/hooks/post-checkout\n\
                          new file mode 100755\n--- /dev/null\n+++ b/hooks/post-checkout\n\
                          @@ -0,0 +1 @@\n+x\n";

/// What git runs programs from, and what is not there.
const PROTECTED: [&str; 11] = [
    ".git/config",
    ".git/hooks",
    ".git/commondir",
    ".git/config.worktree",
    ".git/modules/m/config",
    ".git/modules/m/hooks",
    ".git/worktrees/w/commondir",
    ".absent/file",
    ".agents",
    ".devcontainer",
    ".editor",
];

/// Somebody outside, whom nobody inside may reach.
fn outsider(address: &str) -> std::net::TcpListener {
    let listener = std::net::TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// The attempts of `escapes.sh` that work in this containment, which is given
/// what they are about, with what they said.
async fn escapes(place: &Place, mut containment: Containment) -> Vec<(&'static str, String)> {
    let work = place.path("work");
    containment.hidden = vec![place.path("outside/secret")];
    containment.protected = PROTECTED.map(|name| work.join(name)).to_vec();
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
        .with("HOOK_PATCH", HOOK_PATCH)
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
    let left = Path::new("/dev/shm").join(&name);
    if std::fs::remove_file(left).is_ok() {
        escaped.push(("leave-shared-memory", String::new()));
    }
    escaped
}

/// Whether the attempts can be made here.
fn can_try() -> bool {
    let can = Path::new("/usr/bin/perl").exists() && cfg!(target_arch = "x86_64");
    if !can {
        println!("skipped: needs perl and x86_64");
    }
    can
}

#[tokio::test]
async fn no_attempt_to_escape_succeeds() {
    if !own_network::entered(module_path!(), "no_attempt_to_escape_succeeds") {
        return;
    }
    if !available() || !can_try() {
        return;
    }
    let place = Place::new();
    let work = place.path("work");
    let outsiders = ["169.254.169.254:80", "192.0.2.1:9418"].map(outsider);
    let escaped = escapes(&place, place.containment()).await;
    assert!(escaped.is_empty(), "{escaped:#?}");
    for outsider in outsiders {
        assert!(outsider.accept().is_err(), "{outsider:?}");
    }
    let outside = |name: &str| std::fs::read_to_string(place.path(name)).unwrap();
    assert_eq!(outside("outside/file"), "text\n");
    for config in ["work/.git/config", "work/.git/modules/m/config"] {
        assert_eq!(outside(config), "[core]\n");
    }
    assert_eq!(outside("work/.git/worktrees/w/commondir"), "../..\n");
    // What took the place of absent paths is gone with the sandbox.
    for name in [
        ".git/hooks",
        ".git/commondir",
        ".git/config.worktree",
        ".absent",
        ".agents",
        ".devcontainer",
        ".editor",
    ] {
        assert!(!work.join(name).exists(), "{name}");
    }
}

/// Looks until it is told to stop at every process for what only this test has:
/// its program, its descriptors, its memory.
const LOOK_AT_NEW_PROCESSES: &str = r#"
    my $own = qr{/it-[0-9a-f]+$};
    until (-e "$ENV{WORK}/stop") {
        opendir(my $all, "/proc") or die;
        for my $pid (grep { /^\d+$/ && $_ != $$ } readdir $all) {
            my $program = readlink "/proc/$pid/exe";
            next unless defined $program && $program =~ $own;
            print "ESCAPED: the program of $pid is $program\n";
            open(my $memory, "<", "/proc/$pid/mem") and print "ESCAPED: its memory too\n";
        }
    }"#;

/// A process is born on the memory and with the descriptors of this program,
/// until it executes its own.
#[tokio::test]
async fn a_new_process_is_out_of_reach_until_it_is_one_of_those_inside() {
    if !available() || !Path::new("/usr/bin/perl").exists() {
        return println!("skipped: needs name spaces and perl");
    }
    let place = Place::new();
    let work = place.path("work");
    let name = format!("halter-new-{}", std::process::id());
    let sandbox = Sandbox::establish(spec(place.containment()), &name).unwrap();
    let sandbox = std::sync::Arc::new(sandbox);
    let cancel = CancellationToken::new();
    let inside = |command: Command| {
        let sandbox = std::sync::Arc::clone(&sandbox);
        run_in(command, sandbox, &cancel, &())
    };
    let look = Command::new("perl", &work)
        .args(["-e", LOOK_AT_NEW_PROCESSES])
        .environment(environment().with("WORK", &work))
        .deadline(Duration::from_secs(600));
    let births = async {
        for _ in 0..100 {
            inside(Command::new("true", "/").environment(environment()))
                .await
                .unwrap();
        }
        std::fs::write(work.join("stop"), "").unwrap();
    };
    let (looked, ()) = tokio::join!(inside(look), births);
    let looked = looked.unwrap();
    assert!(looked.status.success(), "{looked:?}");
    assert_eq!(looked.stdout.to_text(), "");
}

/// Whoever is inside may stop a process before it has executed its program.
#[tokio::test]
async fn a_process_that_is_stopped_at_its_start_holds_nobody_up() {
    if !available() || !Path::new("/usr/bin/perl").exists() {
        return println!("skipped: needs name spaces and perl");
    }
    let place = Place::new();
    let name = format!("halter-stop-{}", std::process::id());
    let sandbox = Sandbox::establish(spec(place.containment()), &name).unwrap();
    let sandbox = std::sync::Arc::new(sandbox);
    let cancel = CancellationToken::new();
    let inside = |command: Command| {
        let command = command.environment(environment());
        run_in(command, std::sync::Arc::clone(&sandbox), &cancel, &())
    };
    let stopper = Command::new("perl", "/").args(["-e", "kill 'STOP', -1 while 1"]);
    let births = async {
        loop {
            let deadline = Duration::from_millis(100);
            let began = std::time::Instant::now();
            let born = inside(Command::new("true", "/").deadline(deadline)).await;
            if began.elapsed() >= BIRTH_WAIT {
                return born;
            }
        }
    };
    let (stopped, born) = tokio::join!(inside(stopper.deadline(BIRTH_WAIT * 60)), births);
    assert!(!stopped.unwrap().status.success());
    assert!(born.is_err() || !born.unwrap().status.success());
}
