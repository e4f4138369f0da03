//! Resource limits by control group, version 2 or 1, or by the limits of each
//! process, whichever is there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::cgroup::{Cgroup, direct_members, kind};
use super::pidfd::PidFd;
use crate::error::ExecError;
use crate::launch::{Resource, Rlimit};
use crate::limits::{KILL_WAIT, POLL_PAUSE};
use crate::sandbox::{LimitHits, LimitKind, LimitMechanism, LimitReport, ResourceLimits};
use crate::sys::Signal;

/// Microseconds of the window in which a share of the CPU is counted.
const CPU_PERIOD: u64 = 100_000;

/// The controllers that carry limits.
pub(super) const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// The file that says which controllers the groups below a group are under.
pub(super) const SUBTREE_CONTROL: &str = "cgroup.subtree_control";

/// The groups that carry the limits of one sandbox, and the limits that are
/// left to each process.
#[derive(Debug, Default)]
pub(crate) struct LimitGroups {
    version2: Option<PathBuf>,
    version1: Vec<PathBuf>,
    rlimits: Vec<Rlimit>,
    reports: Vec<LimitReport>,
}

/// A file of a group, what goes into it, and whether every kernel has it.
struct Setting {
    file: &'static str,
    value: String,
    optional: bool,
}

fn setting(file: &'static str, value: impl ToString) -> Setting {
    Setting {
        file,
        value: value.to_string(),
        optional: false,
    }
}

fn optional(file: &'static str, value: impl ToString) -> Setting {
    Setting {
        optional: true,
        ..setting(file, value)
    }
}

/// One limit in the terms of all mechanisms.
struct Wanted {
    kind: LimitKind,
    controller: &'static str,
    version2: Vec<Setting>,
    version1: Vec<Setting>,
    rlimit: Result<Rlimit, &'static str>,
}

fn wanted(limits: &ResourceLimits) -> Vec<Wanted> {
    let memory = limits.memory_bytes.map(|bytes| Wanted {
        kind: LimitKind::Memory,
        controller: "memory",
        // Without swap, which would be a way around the limit.
        version2: vec![setting("memory.max", bytes), optional("memory.swap.max", 0)],
        version1: vec![
            setting("memory.limit_in_bytes", bytes),
            optional("memory.memsw.limit_in_bytes", bytes),
        ],
        rlimit: Ok(Rlimit {
            resource: Resource::AddressSpace,
            value: bytes,
        }),
    });
    let processes = limits.processes.map(|count| Wanted {
        kind: LimitKind::Processes,
        controller: "pids",
        version2: vec![setting("pids.max", count)],
        version1: vec![setting("pids.max", count)],
        rlimit: if rustix::process::geteuid().is_root() {
            Err("the limit of each user's processes does not bind root")
        } else {
            Ok(Rlimit {
                resource: Resource::Processes,
                value: count.into(),
            })
        },
    });
    let cpu = limits.cpu_millis.map(|millis| {
        let quota = u64::from(millis) * CPU_PERIOD / 1000;
        Wanted {
            kind: LimitKind::Cpu,
            controller: "cpu",
            version2: vec![setting("cpu.max", format!("{quota} {CPU_PERIOD}"))],
            version1: vec![
                setting("cpu.cfs_period_us", CPU_PERIOD),
                setting("cpu.cfs_quota_us", quota),
            ],
            rlimit: Err("only a control group keeps a share of the CPU"),
        }
    });
    [memory, processes, cpu].into_iter().flatten().collect()
}

impl LimitGroups {
    /// Puts the limits in place, or leaves nothing.
    pub(crate) fn establish(limits: &ResourceLimits, name: &str) -> Result<Self, ExecError> {
        let mut groups = Self::default();
        for wanted in wanted(limits) {
            if let Err(error) = groups.add(wanted, name) {
                let _ = groups.remove();
                return Err(error);
            }
        }
        if let Some(rlimit) = limits.cpu_time_rlimit() {
            groups.rlimits.push(rlimit);
            groups.report(LimitKind::CpuTime, LimitMechanism::Rlimit);
        }
        Ok(groups)
    }

    fn add(&mut self, wanted: Wanted, name: &str) -> Result<(), ExecError> {
        let second = match self.by_version2(&wanted, name) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let first = match self.by_version1(&wanted, name) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        match wanted.rlimit {
            Ok(rlimit) => {
                self.rlimits.push(rlimit);
                self.report(wanted.kind, LimitMechanism::Rlimit);
                Ok(())
            }
            Err(weak) => Err(ExecError::SandboxUnavailable {
                level: wanted.kind.level(),
                reason: format!("cgroup v2: {second}; cgroup v1: {first}; rlimit: {weak}"),
            }),
        }
    }

    fn report(&mut self, kind: LimitKind, mechanism: LimitMechanism) {
        self.reports.push(LimitReport::new(kind, mechanism));
    }

    fn by_version2(&mut self, wanted: &Wanted, name: &str) -> io::Result<()> {
        let own = Cgroup::own()?;
        enable(&own, wanted.controller)?;
        let group = own.join(name);
        apply(&group, &wanted.version2)?;
        self.version2 = Some(group);
        self.report(wanted.kind, LimitMechanism::CgroupV2);
        Ok(())
    }

    fn by_version1(&mut self, wanted: &Wanted, name: &str) -> io::Result<()> {
        let group = own_version1(wanted.controller)?.join(name);
        apply(&group, &wanted.version1)?;
        if !self.version1.contains(&group) {
            self.version1.push(group);
        }
        self.report(wanted.kind, LimitMechanism::CgroupV1);
        Ok(())
    }

    pub(crate) fn tree_parent(&self) -> Option<&Path> {
        self.version2.as_deref()
    }

    pub(crate) fn entered(&self) -> impl Iterator<Item = &PathBuf> {
        self.version1.iter()
    }

    pub(crate) fn rlimits(&self) -> impl Iterator<Item = Rlimit> {
        self.rlimits.iter().copied()
    }

    pub(crate) fn reports(&self) -> &[LimitReport] {
        &self.reports
    }

    pub(crate) fn hits(&self) -> LimitHits {
        let groups = || self.version2.iter().chain(&self.version1);
        let count = |files: &[&str], name: &str| {
            let texts = groups().flat_map(|group| {
                files
                    .iter()
                    .filter_map(|file| fs::read_to_string(group.join(file)).ok())
            });
            texts.map(|text| event_count(&text, name)).sum()
        };
        LimitHits {
            // Groups of version 1 count it in the other file.
            memory: count(&["memory.events", "memory.oom_control"], "oom_kill"),
            processes: count(&["pids.events"], "max"),
        }
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        let mut result = Ok(());
        for group in self.version2.iter().chain(&self.version1) {
            if let Err(error) = super::cgroup::remove_recursively(group) {
                result = Err(error);
            }
        }
        result
    }

    pub(crate) fn sweep(prefix: &str, mut keep: impl FnMut(&str) -> bool) -> Vec<PathBuf> {
        let mut left = Vec::new();
        if let Ok(own) = Cgroup::own() {
            left.extend(Cgroup::sweep(&own, prefix, &mut keep).unwrap_or_default());
        }
        let mut parents: Vec<PathBuf> = CONTROLLERS
            .iter()
            .filter_map(|controller| own_version1(controller).ok())
            .collect();
        parents.dedup();
        for entry in parents
            .iter()
            .filter_map(|parent| fs::read_dir(parent).ok())
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let stale = entry.file_type().is_ok_and(|kind| kind.is_dir())
                && name
                    .to_str()
                    .is_some_and(|name| name.starts_with(prefix) && !keep(name));
            if stale && !clear_version1(&entry.path()) {
                left.push(entry.path());
            }
        }
        left
    }
}

/// Puts the groups below `parent` under a controller, unless that would change
/// what the processes in `parent` itself are under.
fn enable(parent: &Path, controller: &str) -> io::Result<()> {
    let refuse = |reason: String| Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    if lists(parent, SUBTREE_CONTROL, controller)? {
        return Ok(());
    }
    if !lists(parent, "cgroup.controllers", controller)? {
        return refuse(format!(
            "the controller `{controller}` is not there in the group {}",
            parent.display()
        ));
    }
    // The kernel refuses `memory` for a group with processes of its own, and
    // takes the others by making the group threaded: no process can be
    // started below it from then on.
    if !direct_members(parent)?.is_empty() {
        return refuse(format!(
            "processes are in the group {} itself; start this program in a group of its own, \
             such as by `systemd-run --user --scope -p Delegate=yes`",
            parent.display()
        ));
    }
    let control = parent.join(SUBTREE_CONTROL);
    fs::write(&control, format!("+{controller}"))?;
    if kind(parent)? != "domain" {
        // A process has come into it meanwhile.
        let _ = fs::write(&control, format!("-{controller}"));
        return refuse(format!("the group {} is in use", parent.display()));
    }
    Ok(())
}

/// Whether a file of a group names this controller.
pub(super) fn lists(group: &Path, file: &str, controller: &str) -> io::Result<bool> {
    let text = fs::read_to_string(group.join(file))?;
    Ok(text.split_ascii_whitespace().any(|one| one == controller))
}

/// The number behind a name in a file of events.
fn event_count(text: &str, name: &str) -> u64 {
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    let found = pairs.find(|(found, _)| *found == name);
    found.and_then(|(_, count)| count.parse().ok()).unwrap_or(0)
}

/// Makes the group unless it is there, and sets it up; what was made is taken
/// back if that fails.
fn apply(group: &Path, settings: &[Setting]) -> io::Result<()> {
    let made = match fs::create_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        other => {
            other?;
            true
        }
    };
    let result = settings.iter().try_for_each(|setting| {
        let file = group.join(setting.file);
        if setting.optional && !file.exists() {
            return Ok(());
        }
        fs::OpenOptions::new()
            .write(true)
            .open(file)
            .and_then(|mut file| io::Write::write_all(&mut file, setting.value.as_bytes()))
    });
    if result.is_err() && made {
        let _ = fs::remove_dir(group);
    }
    result
}

/// The directory of the group this process is in, in the version 1 hierarchy
/// of a controller.
fn own_version1(controller: &str) -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    version1_directory(&mounts, &groups, controller).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            format!("no hierarchy of the controller `{controller}` is mounted"),
        )
    })
}

fn version1_directory(mounts: &str, groups: &str, controller: &str) -> Option<PathBuf> {
    let named = |list: &str| list.split(',').any(|one| one == controller);
    let (root, mount) = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        if kind.next()? != "cgroup" || !named(kind.nth(1)?) {
            return None;
        }
        let mut place = place.split(' ').skip(3);
        Some((place.next()?, place.next()?))
    })?;
    let own = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        named(parts.next()?).then(|| parts.next()).flatten()
    })?;
    // A container may see only its own part of the hierarchy.
    let below = Path::new(own).strip_prefix(root).unwrap_or(Path::new(""));
    Some(Path::new(mount).join(below.strip_prefix("/").unwrap_or(below)))
}

/// Kills what is left in a group, and removes it.
fn clear_version1(group: &Path) -> bool {
    let until = Instant::now() + KILL_WAIT;
    loop {
        let pids = super::cgroup::members_of(group);
        if pids.is_empty() && super::cgroup::remove_recursively(group).is_ok() {
            return true;
        }
        for pid in pids {
            // The handle first: the number may change hands meanwhile.
            if let Ok(pidfd) = PidFd::open(pid)
                && super::cgroup::members_of(group).contains(&pid)
            {
                let _ = pidfd.send(Signal::KILL);
            }
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(POLL_PAUSE.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
    const GROUPS: &str = "\
5:cpu,cpuacct:/a/b
4:memory:/docker/abc/x
0::/";

    #[test]
    fn events_are_counted_by_their_name() {
        let events = "low 0\nmax 12\noom 3\noom_kill 2\n";
        assert_eq!(event_count(events, "oom_kill"), 2);
        assert_eq!(event_count(events, "max"), 12);
        assert_eq!(event_count(events, "oom_group_kill"), 0);
    }

    #[test]
    fn a_version_1_hierarchy_is_found_by_its_controller() {
        let found = |controller| version1_directory(MOUNTS, GROUPS, controller);
        assert_eq!(
            found("cpu"),
            Some(PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/a/b"))
        );
        assert_eq!(
            found("memory"),
            Some(PathBuf::from("/sys/fs/cgroup/memory/x"))
        );
        assert_eq!(found("pids"), None);
        assert_eq!(found("cpuset"), None);
    }
}
