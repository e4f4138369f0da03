//! Roots, limits and containers as clients ask for them.

use serde_json::{Value, json};

use crate::confinement::{ENGINE_TURN, add_null, engine, small_root};
use crate::plain::Plain;
use crate::runtime::{Plan, Runtime};

/// Whether a level of the ladder is there, in full or in part.
fn is_there(client: &mut Plain, name: &str) -> bool {
    let described = client.ok("runtime.describe", json!({}));
    let levels = described["isolation"].as_array().unwrap();
    let level = levels.iter().find(|level| level["name"] == name).unwrap();
    level["state"] != "unavailable"
}

fn session_with(client: &mut Plain, params: Value) -> String {
    let created = client.ok("session.create", params);
    created["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_client_chooses_the_root_of_its_session() {
    let Some(root) = small_root() else { return };
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let create = json!({"shell": "/bin/sh", "working_dir": "/etc", "chroot": root.path()});
    if !is_there(&mut client, "chroot") {
        let reply = client.call("session.create", create);
        assert_eq!(reply["error"]["reason"], "isolation_unavailable", "{reply}");
        return;
    }
    let created = client.ok("session.create", create);
    let session = created["session_id"].as_str().unwrap();
    // Who is root can leave it.
    let weaker = created["weaker"].to_string();
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(weaker.contains("not a boundary"), is_root, "{weaker}");
    add_null(root.path());
    for more in [
        json!({"argv": ["cat", "/etc/inside"]}),
        json!({"command": "cat inside"}),
        json!({"command": "cat inside", "fresh": true}),
    ] {
        let mut params = more;
        params["session_id"] = json!(session);
        params["env"] = json!({"PATH": "/bin"});
        assert_eq!(client.ok("exec.run", params)["stdout"], "inside\n");
    }
    let relative = json!({"chroot": "relative"});
    assert_eq!(client.refused("session.create", relative), "INVALID_PARAMS");
}

/// Whether twelve processes may run beside each other.
fn can_run_twelve(client: &mut Plain, session: &str) -> bool {
    let command = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 5 & done; kill $(jobs -p)";
    let params = json!({"session_id": session, "command": command, "fresh": true});
    let result = client.ok("exec.run", params);
    result["stderr"] == "" && result["exit_code"] == 0
}

#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "processes of root are not limited here"
)]
#[test]
fn limits_come_from_the_client_or_else_from_the_runtime() {
    let runtime = Runtime::with(&Plan {
        flags: &["--child-nproc", "8", "--child-cpu-sec", "1"],
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let described = client.ok("runtime.describe", json!({}));
    assert_eq!(
        (
            &described["limits"]["child_processes"],
            &described["limits"]["child_cpu_s"],
            &described["limits"]["child_memory_bytes"]
        ),
        (&json!(8), &json!(1), &json!(0))
    );
    if !is_there(&mut client, "limit_processes") {
        // Somebody asked for it: nothing runs without it.
        let reply = client.call("session.create", json!({"shell": "/bin/bash"}));
        assert_eq!(reply["error"]["reason"], "isolation_unavailable", "{reply}");
        return;
    }
    let usual = session_with(&mut client, json!({"shell": "/bin/bash"}));
    assert!(!can_run_twelve(&mut client, &usual));
    // Where the limit is the user's, whatever else the user runs counts.
    for processes in [0, 2000] {
        let create = json!({"shell": "/bin/bash", "limits": {"processes": processes}});
        let more = session_with(&mut client, create);
        assert!(can_run_twelve(&mut client, &more), "{processes}");
    }
    let seconds = |client: &mut Plain, session: &str| {
        let params = json!({"session_id": session, "argv": ["sh", "-c", "ulimit -t"]});
        client.ok("exec.run", params)["stdout"].clone()
    };
    assert_eq!(seconds(&mut client, &usual), "1\n");
    let longer = session_with(&mut client, json!({"limits": {"cpu_seconds": 7}}));
    assert_eq!(seconds(&mut client, &longer), "7\n");
    let memory = json!({"shell": "/bin/bash", "limits": {"memory_bytes": 64 * 1024 * 1024}});
    let little = session_with(&mut client, memory);
    if is_there(&mut client, "limit_memory") {
        let command = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}";
        let params = json!({"session_id": little, "command": command, "fresh": true});
        assert_ne!(client.ok("exec.run", params)["stdout"], "200000000\n");
    } else {
        println!("skipped: needs a limit on memory");
    }
}

#[test]
fn a_command_that_dies_of_a_limit_says_which_and_its_setting() {
    let runtime = Runtime::with(&Plan {
        flags: &["--child-cpu-sec", "1"],
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let busy = "while :; do :; done";
    for fresh in [true, false] {
        let params = json!({"session_id": session, "command": busy, "fresh": fresh});
        let result = client.ok("exec.run", params);
        let limit = result["limit"].as_str().unwrap();
        assert!(
            limit.contains("TRL_CHILD_CPU_SEC") && limit.contains(": 1 "),
            "{limit}"
        );
    }
    let quiet = client.run(&session, "exit 3");
    assert_eq!(
        (&quiet["exit_code"], &quiet["limit"]),
        (&json!(3), &Value::Null)
    );
    let shown = crate::runtime::command(runtime.directory.path())
        .arg("--socket")
        .arg(runtime.socket())
        .args(["exec", busy])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stderr).unwrap();
    assert!(shown.contains("TRL_CHILD_CPU_SEC"), "{shown}");

    let memory = json!({"limits": {"memory_bytes": 64 * 1024 * 1024, "cpu_seconds": 0}});
    let described = client.ok("runtime.describe", json!({}));
    let levels = described["isolation"].as_array().unwrap();
    let level = levels.iter().find(|level| level["name"] == "limit_memory");
    if level.unwrap()["state"] != "enforced" {
        return println!("skipped: needs a limit on memory by groups");
    }
    let little = session_with(&mut client, memory);
    let hungry = "head -c 150000000 /dev/zero | tail -n 1 | wc -c";
    let params = json!({"session_id": little, "command": hungry, "fresh": true});
    let result = client.ok("exec.run", params);
    let limit = result["limit"].as_str().unwrap();
    assert!(
        limit.contains("limits.memory_bytes") && limit.contains("67108864"),
        "{limit}"
    );
}

#[test]
fn nothing_is_limited_unless_somebody_asks() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let limits = &client.ok("runtime.describe", json!({}))["limits"];
    for name in ["child_memory_bytes", "child_processes", "child_cpu_s"] {
        assert_eq!(limits[name], 0, "{name}");
    }
    let session = client.session();
    let limit = |which: &str| {
        let output = std::process::Command::new("bash")
            .args(["-c", which])
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    for which in ["ulimit -v", "ulimit -u", "ulimit -t"] {
        assert_eq!(
            client.run(&session, which)["stdout"],
            limit(which),
            "{which}"
        );
    }
}

#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "the processes of containers cannot be seen here"
)]
#[test]
fn a_client_chooses_the_image_of_its_session_or_the_runtime_does() {
    let _turn = ENGINE_TURN.blocking_lock();
    let place = tempfile::tempdir().unwrap();
    let Some(program) = engine(place.path()) else {
        return;
    };
    let program = program.to_str().unwrap();
    let create =
        json!({"shell": "/bin/sh", "working_dir": "/etc", "env": {"KEY": "of the session"}});
    let mut chosen = create.clone();
    chosen["docker"] = json!({"image": "trl-test:1"});
    let for_all = ["--docker-program", program, "--docker-image", "trl-test:1"];
    for (flags, create) in [(&for_all[..2], chosen), (&for_all[..], create)] {
        let runtime = Runtime::with(&Plan {
            flags,
            ..Plan::default()
        });
        let mut client = Plain::socket(&runtime.socket());
        let session = session_with(&mut client, create);
        let result = client.run(&session, "cat inside; echo $KEY; cd /tmp; exit 3");
        assert_eq!(
            (&result["stdout"], &result["exit_code"]),
            (&json!("inside\nof the session\n"), &json!(3))
        );
        assert_eq!(client.run(&session, "pwd")["stdout"], "/tmp\n");
        // Its processes are limited as those of other sessions are.
        assert_eq!(client.run(&session, "ulimit -t")["stdout"], "unlimited\n");
        client.ok("session.destroy", json!({"session_id": session}));
        let left = std::process::Command::new(program)
            .args(["ps", "-aq"])
            .output()
            .unwrap();
        assert!(left.stdout.is_empty(), "{left:?}");
    }
}

#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "the processes of containers cannot be seen here"
)]
#[test]
fn an_image_that_cannot_be_used_is_named() {
    let runtime = Runtime::with(&Plan {
        flags: &["--docker-program", "/no/such/docker"],
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let described = client.ok("runtime.describe", json!({}));
    let levels = described["isolation"].as_array().unwrap();
    let container = levels.iter().find(|level| level["name"] == "container");
    assert_eq!(container.unwrap()["state"], "unavailable");
    let reply = client.call("session.create", json!({"docker": {"image": "some:1"}}));
    let reply = match reply["data"]["session_id"].as_str() {
        None => reply,
        Some(session) => client.call(
            "exec.run",
            json!({"session_id": session, "command": "true"}),
        ),
    };
    assert_eq!(reply["error"]["code"], "COMMAND_FAILED", "{reply}");
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("/no/such/docker"), "{message}");
    // No name of an image is an option of the engine's program.
    for image in ["", "--privileged"] {
        let reply = client.call("session.create", json!({"docker": {"image": image}}));
        assert_eq!(reply["error"]["code"], "INVALID_PARAMS", "{reply}");
    }
}

#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "the processes of containers cannot be seen here"
)]
#[test]
fn a_container_that_does_not_start_is_not_left_behind() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("docker");
    // Makes a container and fails to start it, as engines do.
    let script = "#!/bin/sh\ncd \"${0%/*}\"\necho $1 >>calls\n\
                  case $1 in image|--version|rm) exit 0;; esac\necho cannot be started >&2\nexit 125\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let runtime = Runtime::with(&Plan {
        flags: &["--docker-program", program.to_str().unwrap()],
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    // The program is there, and its engine does not answer.
    let described = client.ok("runtime.describe", json!({}));
    let levels = described["isolation"].as_array().unwrap();
    let container = levels.iter().find(|level| level["name"] == "container");
    let container = container.unwrap();
    assert_eq!(container["state"], "unavailable", "{container}");
    let reason = container["reason"].as_str().unwrap();
    assert!(reason.contains("cannot be started"), "{reason}");
    let session = session_with(&mut client, json!({"docker": {"image": "some:1"}}));
    let reply = client.call(
        "exec.run",
        json!({"session_id": session, "command": "true"}),
    );
    assert_eq!(reply["error"]["reason"], "isolation_unavailable", "{reply}");
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("cannot be started"), "{message}");
    let calls = std::fs::read_to_string(directory.path().join("calls")).unwrap();
    assert_eq!(calls, "ps\ninspect\nimage\n--version\nrun\nrm\n");
}
