//! Launching from plans, without a runtime.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use halter_exec::host::{
    DescriptorMapping, LaunchPlan, LaunchStep, Launched, Resource, Rlimit, launch,
};
use halter_exec::{Exit, Signal};

use crate::support::PATH;

const LONG: Duration = Duration::from_secs(60);

/// A shell one-liner with all streams on the slots 0 to 2.
pub fn sh_plan(text: &str) -> LaunchPlan {
    let mut plan = LaunchPlan::new("/bin/sh", "/").standard_streams();
    plan.arguments.extend(["-c".into(), text.into()]);
    plan.environment.set("PATH", PATH);
    plan
}

pub fn end_of(child: &Launched) -> Exit {
    assert!(child.pidfd.has_ended(LONG), "it goes on");
    child.pidfd.reap().unwrap().unwrap()
}

/// Runs a plan, and returns how it ended and what it printed on both streams.
pub fn carried_out(plan: &LaunchPlan) -> (Exit, String) {
    let null = File::open("/dev/null").unwrap();
    let (mut read, write) = std::io::pipe().unwrap();
    let child = launch(plan, &[null.as_fd(), write.as_fd(), write.as_fd()]).unwrap();
    drop(write);
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    (end_of(&child), text)
}

pub fn on_null<Outcome>(act: impl FnOnce(&[BorrowedFd<'_>]) -> Outcome) -> Outcome {
    let null = File::open("/dev/null").unwrap();
    let null = null.as_fd();
    act(&[null, null, null])
}

#[test]
fn a_plan_is_carried_out_without_a_runtime_also_after_its_encoding() {
    let mut plan = sh_plan("echo $0 $A; pwd; exit 7");
    plan.arguments.push("name".into());
    plan.environment.set("A", "x y");
    plan.cwd = "/usr".into();
    let bytes = postcard::to_stdvec(&plan).unwrap();
    let plan: LaunchPlan = postcard::from_bytes(&bytes).unwrap();
    let (exit, text) = carried_out(&plan);
    assert_eq!(exit.status.code, Some(7));
    assert!(exit.usage.max_resident_bytes > 0);
    assert_eq!(text, "name x y\n/usr\n");
}

#[test]
fn slots_may_have_any_number_here_and_swap_there() {
    // The sources' numbers lie among the targets, crossed.
    let files: Vec<OwnedFd> = (0..14)
        .map(|_| File::open("/dev/null").unwrap().into())
        .collect();
    let (mut read, write) = std::io::pipe().unwrap();
    let mut slots: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
    slots.push(write.as_fd());
    let mut plan = sh_plan("echo hello >&9; echo /proc/self/fd/*");
    let last = u16::try_from(slots.len() - 1).unwrap();
    plan.descriptors = (0..=8_u16)
        .map(|target| (if target == 1 { last } else { 13 - target }, target))
        .chain([(last, 9)])
        .map(|(slot, target)| DescriptorMapping {
            slot,
            target: i32::from(target),
        })
        .collect();
    let child = launch(&plan, &slots).unwrap();
    drop(slots);
    drop(write);
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    end_of(&child);
    let numbers: Vec<String> = (0..=10).map(|fd| format!("/proc/self/fd/{fd}")).collect();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("hello"));
    let mut listed: Vec<&str> = lines.next().unwrap().split(' ').collect();
    listed.sort_by_key(|path| path.len());
    assert_eq!(listed, numbers);
}

#[test]
fn ended_is_seen_before_it_is_collected_and_only_once() {
    let child = on_null(|slots| launch(&sh_plan("exit 3"), slots)).unwrap();
    assert!(child.pidfd.has_ended(LONG));
    assert_eq!(child.pidfd.peek().unwrap().unwrap().status.code, Some(3));
    assert_eq!(child.pidfd.peek().unwrap().unwrap().status.code, Some(3));
    assert_eq!(child.pidfd.reap().unwrap().unwrap().status.code, Some(3));
    assert!(child.pidfd.reap().is_err());
}

#[test]
fn a_running_process_has_not_ended_and_can_be_signalled_through_a_copy_of_its_handle() {
    let child = on_null(|slots| launch(&sh_plan("exec sleep 300"), slots)).unwrap();
    assert!(!child.pidfd.has_ended(Duration::ZERO));
    assert_eq!(child.pidfd.peek().unwrap(), None);
    let copy = child.pidfd.try_clone().unwrap();
    #[cfg(all(target_os = "linux", not(halter_portable)))]
    let copy = halter_exec::host::PidFd::from(OwnedFd::from(copy));
    copy.send(Signal::KILL).unwrap();
    assert_eq!(end_of(&child).status.signal, Some(9));
}

#[test]
fn rlimits_are_in_force_and_one_that_cannot_be_set_names_itself() {
    let mut plan = sh_plan("ulimit -n; ulimit -c; ulimit -t; ulimit -f");
    plan.rlimits = [
        (Resource::OpenFiles, 77),
        (Resource::CoreBytes, 0),
        (Resource::CpuSeconds, 55),
        (Resource::FileBytes, 512 * 9),
    ]
    .map(|(resource, value)| Rlimit { resource, value })
    .to_vec();
    let (_, text) = carried_out(&plan);
    assert_eq!(text, "77\n0\n55\n9\n");

    plan.rlimits = vec![
        Rlimit {
            resource: Resource::CoreBytes,
            value: 0,
        },
        Rlimit {
            resource: Resource::OpenFiles,
            value: u64::MAX / 2,
        },
    ];
    let failure = on_null(|slots| launch(&plan, slots)).unwrap_err();
    assert_eq!((failure.step, failure.entry), (LaunchStep::Limits, 1));
    let error = failure.explain(&plan, "sh");
    assert_eq!(error.code(), "sandbox_unavailable");
    assert!(error.to_string().contains("OpenFiles"), "{error}");
}

#[test]
fn failures_name_their_step() {
    let fail = |change: &dyn Fn(&mut LaunchPlan)| {
        let mut plan = sh_plan(":");
        change(&mut plan);
        on_null(|slots| launch(&plan, slots)).unwrap_err()
    };
    let failure = fail(&|plan| plan.program = "/no/such/program".into());
    assert_eq!((failure.step, failure.errno), (LaunchStep::Exec, 2));
    let failure = fail(&|plan| plan.cwd = "/no/such/place".into());
    assert_eq!(
        (failure.step, failure.errno),
        (LaunchStep::WorkingDirectory, 2)
    );
    let failure = fail(&|plan| plan.cgroup = Some("/no/such/group".into()));
    assert_eq!(failure.step, LaunchStep::ControlGroup);
    let failure = fail(&|plan| plan.limit_groups = vec!["/no/such/group".into()]);
    assert_eq!((failure.step, failure.entry), (LaunchStep::ControlGroup, 1));
    let failure = fail(&|plan| plan.terminal = Some(0));
    assert_eq!(failure.step, LaunchStep::Terminal);
    let failure = fail(&|plan| plan.root = Some("/no/such/root".into()));
    assert_eq!(failure.step, LaunchStep::Root);
    let failure = fail(&|plan| plan.arguments.push("a\0b".into()));
    assert_eq!(failure.step, LaunchStep::Input);
}
