//! Control groups by path. Where none can be made there is nothing to test:
//! the rest of the suite runs without them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use halter_exec::Signal;
use halter_exec::host::{Cgroup, EarlierProcesses, HeldTree, launch};

use crate::launch::{end_of, on_null, sh_plan};
use crate::support::eventually;

const LONG: Duration = Duration::from_secs(20);

/// A directory of this test's own to make groups in.
struct Place(PathBuf);

impl Place {
    fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("halter-test-{}-{number}", std::process::id());
        let cgroup = Cgroup::create(&Cgroup::own().ok()?, name).ok()?;
        Some(Self(cgroup.path().to_owned()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Ok(cgroup) = Cgroup::open(&self.0) {
            let _ = cgroup.kill();
            let _ = cgroup.gone_within(LONG);
            cgroup.remove().unwrap();
        }
    }
}

#[test]
fn a_group_is_joined_at_birth_found_by_path_and_killed_whole() {
    let Some(place) = Place::new() else { return };
    let made = Cgroup::create(&place.0, "one").unwrap();
    assert!(made.is_gone());
    let mut plan = sh_plan("setsid sleep 300 & (setsid sleep 300 &) ; wait");
    plan.cgroup = Some(made.path().to_owned());
    let child = on_null(|slots| launch(&plan, slots)).unwrap();
    drop(made);

    let found = Cgroup::open(place.0.join("one")).unwrap();
    assert!(eventually(|| found.members().len() == 3));
    assert!(found.contains(child.pid));
    assert!(!found.contains(i32::try_from(std::process::id()).unwrap()));
    assert!(!found.is_gone());
    assert!(!found.gone_within(Duration::ZERO));
    assert!(found.remove().is_err());

    found.kill().unwrap();
    assert!(found.gone_within(LONG));
    assert_eq!(end_of(&child).status.signal, Some(9));
    assert_eq!(found.members(), []);
    found.remove().unwrap();
    found.remove().unwrap();
    assert!(found.is_gone());
    assert!(Cgroup::open(place.0.join("one")).is_err());
}

#[test]
fn a_signal_reaches_every_member() {
    let Some(place) = Place::new() else { return };
    let group = Cgroup::create(&place.0, "one").unwrap();
    let mut plan = sh_plan("setsid sleep 300 & exec sleep 300");
    plan.cgroup = Some(group.path().to_owned());
    let child = on_null(|slots| launch(&plan, slots)).unwrap();
    assert!(eventually(|| group.members().len() == 2));
    assert_eq!(group.signal(Signal::TERM), 2);
    assert!(group.gone_within(LONG));
    assert_eq!(end_of(&child).status.signal, Some(15));
}

#[test]
fn who_follows_a_leader_is_seen_time_and_again_also_in_a_group_below() {
    let Some(place) = Place::new() else { return };
    let group = Cgroup::create(&place.0, "one").unwrap();
    let sleeper = |group: &Cgroup| {
        let mut plan = sh_plan("exec sleep 300");
        plan.cgroup = Some(group.path().to_owned());
        on_null(|slots| launch(&plan, slots)).unwrap()
    };
    let end = |child: &halter_exec::host::Launched| {
        child.pidfd.send(Signal::KILL).unwrap();
        end_of(child);
    };
    let leader = sleeper(&group);
    let tree = HeldTree::in_cgroup(leader.pid, Cgroup::open(group.path()).unwrap());
    let nobody = EarlierProcesses::default();
    for _ in 0..2 {
        assert_eq!(tree.followers(), nobody);
        let beside = sleeper(&group);
        assert_ne!(tree.followers(), nobody);
        end(&beside);
        assert_eq!(tree.followers(), nobody);
        let inner = Cgroup::create(group.path(), "inner").unwrap();
        let below = sleeper(&inner);
        assert_ne!(tree.followers(), nobody);
        end(&below);
        assert_eq!(tree.followers(), nobody);
        assert!(inner.gone_within(LONG));
        inner.remove().unwrap();
    }
    end(&leader);
    assert_eq!(tree.followers(), nobody);
}

#[test]
fn a_sweep_takes_what_nobody_keeps_with_all_that_lives_in_it() {
    let Some(place) = Place::new() else { return };
    for name in ["run-1", "run-2", "other"] {
        Cgroup::create(&place.0, name).unwrap();
    }
    let inner = Cgroup::create(&place.0.join("run-1"), "inner").unwrap();
    let mut plan = sh_plan("exec sleep 300");
    plan.cgroup = Some(inner.path().to_owned());
    let child = on_null(|slots| launch(&plan, slots)).unwrap();

    let left = Cgroup::sweep(&place.0, "run-", |name| name == "run-2").unwrap();
    assert_eq!(left, Vec::<PathBuf>::new());
    assert_eq!(end_of(&child).status.signal, Some(9));
    let exists = |name| place.0.join(name).exists();
    assert!(!exists("run-1") && exists("run-2") && exists("other"));
}

#[test]
fn a_directory_that_is_no_group_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    assert!(Cgroup::open(directory.path()).is_err());
    assert!(Cgroup::create(directory.path(), "one").is_err());
    assert!(!directory.path().join("one").exists());
}
