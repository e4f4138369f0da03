//! Commands at a runtime that `halter.toml` names, with the real programs.

use crate::place::{Place, eventually, skipped};
use crate::tool_turn::tool_turn;
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const TOKEN: &str = "t0ken-of-the-tests";

/// The runtime that was built with this program; there is none where only this
/// crate was built.
fn program() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_halter")).with_file_name("terminal-runtime");
    if !program.exists() {
        skipped("terminal-runtime beside halter: build the workspace");
        return None;
    }
    Some(program)
}

/// A runtime that ends with this.
struct Runtime {
    child: Child,
    directory: tempfile::TempDir,
}

impl Runtime {
    /// Behind a socket and behind HTTP with TLS.
    fn start(program: &Path, variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let child = Command::new(program)
            .arg("--socket")
            .arg(at("trl.sock"))
            .args(["--http", "127.0.0.1:0"])
            .current_dir(directory.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("TRL_DISCOVERY_DIR", at("found"))
            .env("TRL_STATE_DIR", at("state"))
            .env("TRL_AUTH_TOKEN", TOKEN)
            .env("TRL_TLS_CERT", fixture("server.pem"))
            .env("TRL_TLS_KEY", fixture("server.key"))
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(at("log")).unwrap())
            .spawn()
            .unwrap();
        let runtime = Self { child, directory };
        eventually("it listens", || runtime.http_port());
        runtime
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("trl.sock")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// As it says when it listens.
    fn http_port(&self) -> Option<u16> {
        let log = self.log();
        let (_, rest) = log.split_once("http=\"127.0.0.1:")?;
        rest.split_once('"')?.0.parse().ok()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn fixture(name: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    crates
        .join("halter-providers/tests/fixtures/tls")
        .join(name)
}

/// Settings that name the runtime.
fn settings(exec: &str) -> String {
    format!(
        "[policy]\nsandbox = \"prefer\"\n[permissions]\nallow = [\"Bash(*)\"]\n\
         [exec]\nbackend = \"terminal-runtime\"\n{exec}"
    )
}

/// A command of a model runs there, without the runtime's own variables.
#[track_caller]
fn runs_there(runtime: &Runtime, exec: &str) -> (Place, String) {
    let place = Place::new();
    place.write("where.sh", "echo here; env | grep -c ^TRL_\n");
    let command = json!({"command": "sh where.sh"});
    let turn = tool_turn(&place, &settings(exec), "shell", &command);
    turn.ran.expect(0);
    assert!(turn.told.contains("here"), "{}", turn.told);
    assert!(turn.told.contains(r"\n0\\n"), "{}", turn.told);
    assert!(
        runtime.log().contains("session created"),
        "it ran elsewhere"
    );
    (place, turn.ran.stderr)
}

fn doctor(place: &Place) -> serde_json::Value {
    let file = place.root().join("turn.toml");
    let words = ["--config", file.to_str().unwrap(), "doctor", "--json"];
    place.halter(words).expect(0).json()
}

#[test]
fn a_runtime_behind_a_socket_is_started_from_the_configuration() {
    let Some(program) = program() else { return };
    let runtime = Runtime::start(&program, &[]);
    let exec = format!("socket = {:?}\n", runtime.socket());
    let (place, notes) = runs_there(&runtime, &exec);
    let lack = "hosts that commands do not reach are not named";
    assert!(notes.contains(lack), "{notes}");
    let found = doctor(&place);
    let at = found["exec"]["place"].as_str().unwrap();
    assert!(at.contains("trl.sock"), "{at}");
    assert_eq!(found["exec"]["problem"], serde_json::Value::Null);
    assert!(found["exec"]["lacks"].to_string().contains(lack));
    // This machine's sandbox holds nothing there.
    assert_eq!(found["sandbox"], serde_json::Value::Null);
    let file = place.root().join("turn.toml");
    let told = place.halter(["--config", file.to_str().unwrap(), "doctor"]);
    let line = format!(
        "commands     terminal-runtime at {}",
        runtime.socket().display()
    );
    assert!(told.expect(0).stdout.contains(&line), "{}", told.stdout);
    // One that is gone is said to be.
    drop(runtime);
    let problem = doctor(&place)["exec"]["problem"].to_string();
    assert!(problem.contains("no runtime at"), "{problem}");
}

#[test]
fn a_runtime_behind_an_address_is_reached_with_authority_and_token() {
    let Some(program) = program() else { return };
    let runtime = Runtime::start(&program, &[]);
    let port = runtime.http_port().unwrap();
    let exec = format!(
        "url = \"https://localhost:{port}\"\ntoken = \"{TOKEN}\"\nca_file = {:?}\n",
        fixture("ca.pem")
    );
    let (place, notes) = runs_there(&runtime, &exec);
    assert!(!notes.contains("there is no sandbox"), "{notes}");
    assert_eq!(doctor(&place)["exec"]["problem"], serde_json::Value::Null);
    // Another token is refused, and shown nowhere.
    let file = place.root().join("turn.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(TOKEN, "an-older-token-of-the-tests")).unwrap();
    let problem = doctor(&place)["exec"]["problem"].to_string();
    assert!(problem.contains("token"), "{problem}");
    let words = ["--config", file.to_str().unwrap(), "run", "--text", "go on"];
    let ran = place.halter(words);
    assert_ne!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("commands cannot run"), "{}", ran.stderr);
    let shown = problem + &ran.stderr + &ran.stdout;
    assert!(!shown.contains("an-older-token"), "{shown}");
}

/// What is required and cannot be had is said before a session starts, as the
/// first command would be told.
#[test]
fn a_sandbox_that_the_runtime_cannot_give_is_named_by_the_doctor() {
    let Some(program) = program() else { return };
    let runtime = Runtime::start(&program, &[]);
    let place = Place::new();
    let exec = format!(
        "[policy]\nsandbox = \"require\"\n[policy.network]\nenabled = true\n\
         allowed_hosts = [\"files.test\"]\n[permissions]\nallow = [\"Bash(*)\"]\n\
         [exec]\nbackend = \"terminal-runtime\"\nsocket = {:?}\n",
        runtime.socket()
    );
    let command = json!({"command": "touch ran"});
    let turn = tool_turn(&place, &exec, "shell", &command);
    assert!(turn.told.contains("the list of hosts"), "{}", turn.told);
    let problem = doctor(&place)["exec"]["problem"].to_string();
    assert!(problem.contains("the list of hosts"), "{problem}");
    assert!(!place.work().join("ran").exists());
}

#[test]
fn a_container_that_the_configuration_names_is_made() {
    let Some(program) = program() else { return };
    let directory = tempfile::tempdir().unwrap();
    let Some(engine) = engine(directory.path()) else {
        return;
    };
    let runtime = Runtime::start(
        &program,
        &[("TRL_DOCKER_PROGRAM", engine.to_str().unwrap())],
    );
    let exec = format!(
        "socket = {:?}\ncontainer = \"halter-test:1\"\n",
        runtime.socket()
    );
    let (place, _) = runs_there(&runtime, &exec);
    let found = doctor(&place);
    let at = found["exec"]["place"].as_str().unwrap();
    assert!(at.contains("in containers of halter-test:1"), "{at}");
    assert_eq!(found["exec"]["problem"], serde_json::Value::Null);
    let listed = Command::new(&engine).args(["ps", "-aq"]).output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), "");
}

/// A program that makes containers in a directory of its own, of an image with
/// busybox.
fn engine(directory: &Path) -> Option<PathBuf> {
    let found = |paths: [&'static str; 2]| paths.into_iter().find(|path| Path::new(path).exists());
    let podman = found(["/usr/bin/podman", "/usr/local/bin/podman"]);
    let busybox = found(["/bin/busybox", "/usr/bin/busybox"]);
    let (Some(podman), Some(busybox), true) =
        (podman, busybox, rustix::process::geteuid().is_root())
    else {
        skipped("root, podman and busybox");
        return None;
    };
    let image = directory.join("image");
    for name in ["bin", "tmp", "etc", "proc", "dev"] {
        std::fs::create_dir_all(image.join(name)).unwrap();
    }
    std::fs::copy(busybox, image.join("bin/busybox")).unwrap();
    for name in ["sh", "env", "grep", "sleep", "echo"] {
        std::os::unix::fs::symlink("busybox", image.join("bin").join(name)).unwrap();
    }
    let settings = directory.join("containers.conf");
    let text = "[containers]\nnetns = \"host\"\n\
                default_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
                [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\n\
                events_logger = \"none\"\n";
    std::fs::write(&settings, text).unwrap();
    let program = directory.join("podman");
    let script = format!(
        "#!/bin/sh\nexport CONTAINERS_CONF={}\n\
         exec {podman} --root {place}/root --runroot {place}/run --storage-driver vfs \"$@\"\n",
        settings.display(),
        place = directory.display(),
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let pack = format!(
        "tar -C {} -c . | {} import - halter-test:1",
        image.display(),
        program.display()
    );
    let packed = Command::new("sh").args(["-c", &pack]).output().unwrap();
    let run = ["run", "--rm", "halter-test:1", "/bin/sh", "-c", ":"];
    let ran = Command::new(&program).args(run).output().unwrap();
    if !packed.status.success() || !ran.status.success() {
        skipped("podman that can run a container");
        return None;
    }
    Some(program)
}
