//! Where a runtime is, who may come there, and how it is found.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::plain::Plain;
use crate::runtime::{PROGRAM, Plan, Runtime, command, until};

#[test]
fn a_socket_left_by_a_killed_runtime_is_replaced() {
    let mut runtime = Runtime::start();
    runtime.signal(Signal::KILL);
    runtime.wait();
    assert!(runtime.socket().exists());
    let directory = std::mem::replace(&mut runtime.directory, tempfile::tempdir().unwrap());
    let runtime = Runtime::within(directory, &Plan::default());
    Plain::socket(&runtime.socket()).ok("system.ping", json!({}));
}

#[test]
fn the_socket_is_for_its_user_only() {
    let runtime = Runtime::start();
    let mode = fs::metadata(runtime.socket()).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let state = fs::metadata(runtime.path("state")).unwrap().mode() & 0o777;
    assert_eq!(state, 0o700);
    if !rustix::process::geteuid().is_root() || Command::new("setpriv").arg("-V").output().is_err()
    {
        println!("skipped: needs root and setpriv to become another user");
        return;
    }
    // Even where the file system lets someone in, the runtime does not.
    for path in [runtime.directory.path(), &runtime.socket()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let as_nobody = |arguments: &[&str]| {
        let program = runtime.path("program");
        if !program.exists() {
            fs::copy(PROGRAM, &program).unwrap();
        }
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(program)
            .arg("--socket")
            .arg(runtime.socket())
            .args(arguments)
            .env("TRL_DISCOVERY_DIR", "none")
            .current_dir("/")
            .output()
            .unwrap()
    };
    if as_nobody(&["--version"]).status.code() != Some(0) {
        println!("skipped: needs the right to become another user");
        return;
    }
    let output = as_nobody(&["ping"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains("this socket belongs to another user"),
        "{said}"
    );
    let output = as_nobody(&["exec", "true"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("this socket belongs to another user"),
        "{said}"
    );
    assert!(
        runtime.log().contains("another user was refused"),
        "{}",
        runtime.log()
    );
    fs::set_permissions(runtime.socket(), fs::Permissions::from_mode(0o600)).unwrap();
    let output = as_nobody(&["ping"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("belongs to another user"), "{said}");
    // Nor does anyone take the place of a runtime of another user.
    fs::set_permissions(runtime.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let output = as_nobody(&[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("this user may not listen on") && said.contains("--socket"),
        "{said}"
    );
    Plain::socket(&runtime.socket()).ok("system.ping", json!({}));
}

#[test]
fn a_runtime_on_a_relative_path_is_found_from_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = command(directory.path())
        .args(["--socket", "near.sock", "--log-level", "off"])
        .spawn()
        .unwrap();
    let from = |place: &Path, argument: &str| {
        let output = command(directory.path())
            .arg(argument)
            .current_dir(place)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let socket = directory.path().join("near.sock");
    let socket = socket.to_str().unwrap();
    until("the start of the runtime", || {
        from(Path::new("/"), "list").contains(socket)
    });
    let pinged = from(Path::new("/"), "ping");
    assert!(
        pinged.starts_with(&format!("{socket}: version")),
        "{pinged}"
    );
    assert!(from(directory.path(), "describe").contains(socket));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn runtimes_are_found_and_described() {
    let runtime = Runtime::start();
    let list = |what: &str| {
        let output = command(runtime.directory.path())
            .arg(what)
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = list("list");
    assert!(listed.contains(&runtime.pid().to_string()), "{listed}");
    assert!(
        listed.contains(runtime.socket().to_str().unwrap()),
        "{listed}"
    );
    let described: serde_json::Value = serde_json::from_str(&list("describe")).unwrap();
    assert_eq!(described["pid"], runtime.pid());
    assert_eq!(described["limits"]["max_sessions"], 64);
    assert!(
        described["isolation"]
            .as_array()
            .unwrap()
            .iter()
            .all(|level| match level["state"].as_str().unwrap() {
                "enforced" => level["by"].is_string() && level["reason"].is_null(),
                "weaker" => level["by"].is_string() && level["reason"].is_string(),
                _ => level["by"].is_null() && level["reason"].is_string(),
            })
    );
    assert_eq!(described["transports"][0]["kind"], "unix");
    let schema: serde_json::Value = serde_json::from_str(&list("schema")).unwrap();
    assert!(schema["methods"]["exec.run"].is_object());
}

/// Whether this was built for the system's own mechanisms, or for any Unix.
const ON_LINUX: bool = cfg!(all(target_os = "linux", not(halter_portable)));

#[test]
fn a_runtime_says_what_is_weaker_here() {
    let runtime = Runtime::start();
    let output = command(runtime.directory.path())
        .args(["--socket", runtime.socket().to_str().unwrap(), "describe"])
        .output()
        .unwrap();
    let described: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let level = |name: &str| {
        let levels = described["isolation"].as_array().unwrap();
        let found = levels.iter().find(|level| level["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is missing"))
    };
    let only_on_linux = [
        ("orphans_collected", "subreaper"),
        ("input_survives_kill", "sendfile"),
        ("state_in_memory", "memory files"),
    ];
    for (name, by) in only_on_linux {
        let level = level(name);
        match ON_LINUX {
            true => assert_eq!(
                (&level["state"], &level["by"]),
                (&"enforced".into(), &by.into())
            ),
            false => assert_eq!(level["state"], "unavailable"),
        }
    }
    let mover = if ON_LINUX {
        "splice"
    } else {
        "shared mappings"
    };
    assert_eq!(level("output_survives_kill")["by"], mover);
    if !ON_LINUX {
        for name in [
            "process_tree",
            "no_new_privileges",
            "landlock",
            "limit_cpu",
            "container",
        ] {
            assert_eq!(level(name)["state"], "unavailable", "{name}");
        }
        for name in ["limit_memory", "limit_cpu_time"] {
            assert_eq!(level(name)["by"], "rlimit", "{name}");
        }
        // A default that would count what others run does not hold.
        assert_eq!(described["limits"]["child_processes"], 0);
    }
}

#[test]
fn a_runtime_that_died_is_no_longer_listed() {
    let mut runtime = Runtime::start();
    runtime.signal(Signal::KILL);
    runtime.wait();
    assert_eq!(fs::read_dir(runtime.path("found")).unwrap().count(), 1);
    let output = command(runtime.directory.path())
        .arg("list")
        .output()
        .unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert_eq!(fs::read_dir(runtime.path("found")).unwrap().count(), 0);
}
