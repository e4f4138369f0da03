//! Control groups of version 2 as hosts have them: shared with other
//! processes, or the runtime's own.

use std::fs;
use std::path::{Path, PathBuf};

use halter_exec::host::Cgroup;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::plain::Plain;
use crate::runtime::{Plan, Runtime};

const MIB: u64 = 1024 * 1024;

fn read(group: &Path, file: &str) -> String {
    fs::read_to_string(group.join(file)).unwrap_or_default()
}

/// What must not change in a group that is not the runtime's.
fn shape(group: &Path) -> [String; 2] {
    ["cgroup.type", "cgroup.subtree_control"].map(|file| read(group, file))
}

/// A group beside that of this test, as a service manager makes one for a
/// service; removed in the end, which the runtime must have left empty.
struct ServiceGroup(PathBuf);

impl ServiceGroup {
    /// `None` where such a group cannot be had, with the controllers.
    fn new(name: &str) -> Option<Self> {
        let own = Cgroup::own().ok()?;
        let name = format!("trl-test-{name}-{}", std::process::id());
        let group = Self(own.parent()?.join(name));
        fs::create_dir(&group.0).ok()?;
        let controllers = read(&group.0, "cgroup.controllers");
        let has = |one: &str| controllers.split_whitespace().any(|found| found == one);
        if has("memory") && has("pids") && read(&group.0, "cgroup.type") == "domain\n" {
            return Some(group);
        }
        println!("skipped: needs the controllers `memory` and `pids` of version 2");
        None
    }

    fn runtime(&self, flags: &[&str]) -> Runtime {
        let enter = format!("echo $$ >{}/cgroup.procs", self.0.display());
        Runtime::with(&Plan {
            flags,
            before: Some(&enter),
            ..Plan::default()
        })
    }

    fn groups(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap().flatten();
        entries
            .filter(|entry| entry.file_type().unwrap().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for ServiceGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn level(client: &mut Plain, name: &str) -> Value {
    let described = client.ok("runtime.describe", json!({}));
    let levels = described["isolation"].as_array().unwrap();
    let found = levels.iter().find(|level| level["name"] == name);
    found.unwrap().clone()
}

fn session(client: &mut Plain, limits: Value) -> Value {
    client.call(
        "session.create",
        json!({"shell": "/bin/bash", "limits": limits}),
    )
}

#[test]
fn commands_run_and_the_group_around_the_runtime_stays_as_it_was() {
    let Ok(own) = Cgroup::own() else {
        return println!("skipped: needs control groups of version 2");
    };
    let before = shape(&own);
    let mut runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let plain = client.session();
    assert_eq!(client.run(&plain, "echo fine")["stdout"], "fine\n");
    // What is said to be there is there, in full or in part.
    for (name, limits) in [
        ("limit_memory", json!({"memory_bytes": 512 * MIB})),
        ("limit_processes", json!({"processes": 500})),
        ("limit_cpu_time", json!({"cpu_seconds": 100})),
    ] {
        let level = level(&mut client, name);
        let created = session(&mut client, limits);
        if level["state"] == "unavailable" {
            assert_eq!(
                created["error"]["reason"], "isolation_unavailable",
                "{created}"
            );
            let message = created["error"]["message"].as_str().unwrap();
            assert!(
                message.contains(level["reason"].as_str().unwrap()),
                "{message}"
            );
            continue;
        }
        let weaker = created["data"]["weaker"].as_array();
        assert_eq!(
            level["state"] == "weaker",
            weaker.is_some(),
            "{created} {level}"
        );
        let limited = created["data"]["session_id"].as_str().unwrap();
        assert_eq!(
            client.run(limited, "echo fine")["stdout"],
            "fine\n",
            "{name}"
        );
    }
    assert_eq!(shape(&own), before);
    runtime.signal(Signal::TERM);
    assert!(runtime.wait().success(), "{}", runtime.log());
    assert_eq!(shape(&own), before);
}

#[test]
fn a_runtime_in_a_group_of_its_own_keeps_limits_by_groups_and_leaves_nothing() {
    let Some(group) = ServiceGroup::new("own") else {
        return;
    };
    let before = shape(&group.0);
    let mut runtime = group.runtime(&["--child-memory-bytes", "67108864", "--child-nproc", "20"]);
    let mut client = Plain::socket(&runtime.socket());
    for name in ["limit_memory", "limit_processes", "process_tree"] {
        let level = level(&mut client, name);
        assert_eq!(level["state"], "enforced", "{level}");
        assert_eq!(level["by"], "cgroup v2", "{level}");
    }
    let limited = client.session();
    assert_eq!(client.run(&limited, "echo fine")["stdout"], "fine\n");
    // The second program keeps all it reads, for want of a line's end.
    let hungry = "head -c 150000000 /dev/zero | tail -n 1 | wc -c";
    let fresh = json!({"session_id": limited, "command": hungry, "fresh": true});
    assert_ne!(client.ok("exec.run", fresh)["stdout"], "150000000\n");
    let many = "for i in $(seq 40); do sleep 9 & done 2>/dev/null; jobs -p | wc -l";
    let fresh = json!({"session_id": limited, "command": many, "fresh": true});
    let started: u32 = client.ok("exec.run", fresh)["stdout"]
        .as_str()
        .map_or(0, |text| text.trim().parse().unwrap_or(0));
    assert!(started < 20, "{started}");
    assert_eq!(read(&group.0, "cgroup.type"), "domain\n");
    assert_eq!(
        read(&group.0, "cgroup.procs"),
        "",
        "the runtime is in a leaf"
    );
    runtime.signal(Signal::TERM);
    assert!(runtime.wait().success(), "{}", runtime.log());
    assert_eq!(group.groups(), Vec::<String>::new());
    assert_eq!(shape(&group.0), before);
}

#[test]
fn a_runtime_without_limits_enables_no_controller() {
    let Some(group) = ServiceGroup::new("bare") else {
        return;
    };
    let runtime = group.runtime(&[]);
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    assert_eq!(client.run(&session, "echo fine")["stdout"], "fine\n");
    assert_eq!(read(&group.0, "cgroup.subtree_control").trim(), "");
    drop(runtime);
    assert_eq!(group.groups(), Vec::<String>::new());
}

/// As with `Delegate=yes` and `DelegateSubgroup=`.
#[test]
fn a_runtime_in_a_subgroup_of_a_delegated_group_can_be_restarted_there() {
    let Some(group) = ServiceGroup::new("sub") else {
        return;
    };
    let marked = rustix::fs::setxattr(
        &group.0,
        "user.delegate",
        b"1",
        rustix::fs::XattrFlags::empty(),
    );
    if marked.is_err() {
        return println!("skipped: needs attributes of groups");
    }
    let subgroup = ServiceGroup(group.0.join("runtime"));
    fs::create_dir(&subgroup.0).unwrap();
    let enter = format!("echo $$ >{}/cgroup.procs", subgroup.0.display());
    let plan = Plan {
        flags: &["--child-memory-bytes", "67108864"],
        before: Some(&enter),
        ..Plan::default()
    };
    let mut runtime = Runtime::with(&plan);
    let mut client = Plain::socket(&runtime.socket());
    assert_eq!(level(&mut client, "limit_memory")["by"], "cgroup v2");
    let session = client.session();
    assert_eq!(client.run(&session, "A=kept")["exit_code"], 0);
    runtime.signal(Signal::KILL);
    runtime.wait();
    let mut runtime = crate::restart::restarted_with(runtime, &plan);
    let mut client = Plain::socket(&runtime.socket());
    assert_eq!(client.run(&session, "echo $A")["stdout"], "kept\n");
    runtime.signal(Signal::TERM);
    assert!(runtime.wait().success(), "{}", runtime.log());
    assert_eq!(group.groups(), ["runtime"]);
    assert_eq!(read(&group.0, "cgroup.subtree_control").trim(), "");
    drop(subgroup);
}
