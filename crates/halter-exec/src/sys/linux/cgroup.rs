//! One cgroup per process tree: membership that `setsid` and double forks do
//! not escape, and a kill that hits all members at once.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::{Access, Mode, OFlags, access, open, openat, statfs};

use super::pidfd::PidFd;
use crate::limits::KILL_WAIT;
use crate::sys::Signal;
use crate::sys::readiness::poll_one;

/// Where a version 2 hierarchy may be mounted: alone, or beside version 1.
const MOUNT_POINTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const CGROUP2_MAGIC: u64 = 0x6367_7270;
const KILL: &str = "cgroup.kill";
const EVENTS: &str = "cgroup.events";
const PROCS: &str = "cgroup.procs";
/// The threads in a group of version 1.
const TASKS: &str = "tasks";

/// How long a freeze may take before the kill goes on without it.
const FREEZE_WAIT: Duration = Duration::from_millis(100);

/// How long the announcement of a change is waited for before looking anyway.
const EVENT_WAIT: Duration = Duration::from_millis(50);

/// More than any kernel has to say about a group's events, which are a few
/// names with a digit each.
const MAX_EVENTS_BYTES: usize = 512;

/// A version 2 control group that holds one tree of processes, known by its
/// directory. It stays when this is dropped; [`remove`](Self::remove) ends it.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    directory: File,
    /// Says what happens in it; opened when that is first asked.
    events: OnceLock<File>,
    /// Says who is in it; the same.
    procs: OnceLock<File>,
}

impl Cgroup {
    /// The directory of the group this program was started in, below which it
    /// may be able to make others.
    ///
    /// # Errors
    /// If there is no version 2 hierarchy.
    pub fn own() -> io::Result<PathBuf> {
        match super::own_group::claimed() {
            Some(path) => Ok(path.to_owned()),
            None => Self::current(),
        }
    }

    /// The directory of the group this program is in now.
    pub(super) fn current() -> io::Result<PathBuf> {
        let text = fs::read_to_string("/proc/self/cgroup")?;
        let own = text
            .lines()
            .find_map(|line| line.strip_prefix("0::/"))
            .ok_or(io::ErrorKind::Unsupported)?;
        Ok(mount_point()?.join(own))
    }

    /// Makes a group of this name in the directory of another.
    ///
    /// # Errors
    /// If it exists, the directory is not writable or not of a version 2
    /// hierarchy, no process can be started in it, or the kernel is too old to
    /// kill a group as a whole.
    pub fn create(parent: &Path, name: impl AsRef<Path>) -> io::Result<Self> {
        let path = parent.join(name);
        // To enter a group takes the right to write this file of the group
        // that it shares with the process's own.
        access(parent.join(PROCS), Access::WRITE_OK)?;
        fs::create_dir(&path)?;
        let checked = Self::open(&path).and_then(|group| {
            expect_domain(&path)?;
            Ok(group)
        });
        checked.inspect_err(|_| {
            let _ = fs::remove_dir(&path);
        })
    }

    /// The group that has this directory already.
    ///
    /// # Errors
    /// If there is none, or the kernel is too old to kill a group as a whole.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let directory = File::open(&path)?;
        // A kernel without the kill file gives no better tracking than a walk,
        // and a directory that is no cgroup has none either.
        fs::metadata(path.join(KILL))?;
        Ok(Self {
            path,
            directory,
            events: OnceLock::new(),
            procs: OnceLock::new(),
        })
    }

    /// A new group below our own, with a name that nobody has; names left
    /// behind by a crashed program that had our number before are stepped
    /// over.
    pub(crate) fn create_numbered() -> io::Result<Self> {
        Self::create_numbered_in(&Self::own()?)
    }

    /// The same, below another group.
    pub(crate) fn create_numbered_in(parent: &Path) -> io::Result<Self> {
        loop {
            match Self::create(parent, numbered_name()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other,
            }
        }
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Living members, those of groups made below this one included.
    #[must_use]
    pub fn members(&self) -> Vec<i32> {
        members_of(&self.path)
    }

    /// Whether this process is the only member, as far as that can be seen at
    /// little cost, time and again.
    pub(crate) fn has_only(&self, pid: i32) -> bool {
        let only = format!("{pid}\n");
        let mut text = [0; 32];
        let read = self
            .file(&self.procs, PROCS)
            .and_then(|procs| procs.read_at(&mut text, 0));
        let read = read.ok().and_then(|length| text.get(..length));
        read == Some(only.as_bytes())
            && self
                .directory
                .metadata()
                .is_ok_and(|found| has_no_directories(&found))
    }

    /// One of its files, opened once.
    fn file<'a>(&self, place: &'a OnceLock<File>, name: &str) -> io::Result<&'a File> {
        if let Some(file) = place.get() {
            return Ok(file);
        }
        let opened = File::open(self.path.join(name))?;
        Ok(place.get_or_init(|| opened))
    }

    /// Whether this process is (still) a member.
    #[must_use]
    pub fn contains(&self, pid: i32) -> bool {
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else {
            return false;
        };
        let Ok(name) = self.name_in_hierarchy() else {
            return false;
        };
        text.lines()
            .filter_map(|line| line.strip_prefix("0::/"))
            .any(|path| Path::new(path).starts_with(&name))
    }

    fn name_in_hierarchy(&self) -> io::Result<PathBuf> {
        let below = self.path.strip_prefix(mount_point()?);
        below
            .map(Path::to_owned)
            .map_err(|_| io::ErrorKind::NotFound.into())
    }

    /// Sends a signal to every member, and says to how many. Those that are
    /// born meanwhile may be missed; [`kill`](Self::kill) misses none.
    pub fn signal(&self, signal: Signal) -> usize {
        let mut reached = 0;
        for pid in self.members() {
            // Looked at after the handle exists, so that it cannot be to a
            // stranger who was given the number meanwhile.
            if let Ok(pidfd) = PidFd::open(pid)
                && self.contains(pid)
                && pidfd.send(signal).is_ok()
            {
                reached += 1;
            }
        }
        reached
    }

    /// Kills every member, whatever it is doing.
    ///
    /// # Errors
    /// If the group is gone or not ours.
    pub fn kill(&self) -> io::Result<()> {
        fs::write(self.path.join(KILL), "1")
    }

    /// Whether nothing lives in it any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self.events_have("populated 0") {
            Ok(empty) => empty,
            Err(error) => is_of_removed(&error),
        }
    }

    /// Whether its events have this line now.
    fn events_have(&self, line: &str) -> io::Result<bool> {
        let events = self.file(&self.events, EVENTS)?;
        // Read from the start it shows what is so now.
        let mut text = [0; MAX_EVENTS_BYTES];
        let length = events.read_at(&mut text, 0)?;
        let text = text.get(..length).unwrap_or_default();
        let mut lines = text.split(|byte| *byte == b'\n');
        Ok(lines.any(|found| found == line.as_bytes()))
    }

    /// Waits until nothing lives in it, or the time is up; says which.
    #[must_use]
    pub fn gone_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let Ok(events) = File::open(self.path.join(EVENTS)) else {
            return self.is_gone();
        };
        while !self.is_gone() {
            let left = until.saturating_duration_since(Instant::now());
            // The file announces each change once; a short wait covers a
            // change between the look and the wait.
            wait_for_change(&events, left.min(EVENT_WAIT));
            if left.is_zero() {
                return self.is_gone();
            }
        }
        true
    }

    /// Runs `act` while no member can run, so that none can fork away from
    /// under it.
    pub(crate) fn while_frozen<Outcome>(&self, act: impl FnOnce() -> Outcome) -> Outcome {
        let switch = self.path.join("cgroup.freeze");
        if fs::write(&switch, "1").is_ok() {
            let until = Instant::now() + FREEZE_WAIT;
            while !self.is_frozen() && Instant::now() < until {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        let outcome = act();
        let _ = fs::write(&switch, "0");
        outcome
    }

    fn is_frozen(&self) -> bool {
        self.events_have("frozen 1").unwrap_or(false)
    }

    /// Removes the group; it must have no members any more. Nothing happens
    /// if it is gone.
    ///
    /// # Errors
    /// If something lives in it.
    pub fn remove(&self) -> io::Result<()> {
        remove_recursively(&self.path)
    }

    /// Kills and removes what an earlier run left in a directory: the groups
    /// whose name begins with `prefix`, unless `keep` wants the name. Returns
    /// those that could not be removed in time.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn sweep(
        parent: &Path,
        prefix: &str,
        mut keep: impl FnMut(&str) -> bool,
    ) -> io::Result<Vec<PathBuf>> {
        let mut left = Vec::new();
        for entry in fs::read_dir(parent)? {
            let entry = entry?;
            let name = entry.file_name();
            let stale = entry.file_type().is_ok_and(|kind| kind.is_dir())
                && name
                    .to_str()
                    .is_some_and(|name| name.starts_with(prefix) && !keep(name));
            if stale && let Ok(cgroup) = Self::open(entry.path()) {
                let _ = cgroup.kill();
                if !cgroup.gone_within(KILL_WAIT) || cgroup.remove().is_err() {
                    left.push(cgroup.path);
                }
            }
        }
        Ok(left)
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// A name that no other group made by a living program has.
pub(crate) fn numbered_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("halter-{}-{number}", std::process::id())
}

/// Whether a file of a group could not be opened or read because the group
/// has been removed.
fn is_of_removed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

/// Waits for the announcement of a change in `cgroup.events`.
fn wait_for_change(events: &File, limit: Duration) {
    let _ = poll_one(events, PollFlags::PRI, limit);
}

/// The magic number is checked because making a directory "works" on the
/// tmpfs that carries version 1.
fn mount_point() -> io::Result<&'static Path> {
    let mount = MOUNT_POINTS
        .iter()
        .map(Path::new)
        .find(|path| statfs(*path).is_ok_and(|found| found.f_type as u64 == CGROUP2_MAGIC));
    Ok(mount.ok_or(io::ErrorKind::Unsupported)?)
}

/// Below a threaded group the kernel makes groups that take no process.
fn expect_domain(path: &Path) -> io::Result<()> {
    match kind(path)?.as_str() {
        "domain" => Ok(()),
        other => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "a new group is `{other}` and takes no process: the group above it is in \
                 threaded mode"
            ),
        )),
    }
}

/// The kind of a group, as `cgroup.type` says it.
pub(super) fn kind(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path.join("cgroup.type"))?
        .trim()
        .to_owned())
}

/// The processes in the group itself, not in those below it.
pub(super) fn direct_members(path: &Path) -> io::Result<Vec<i32>> {
    let text = fs::read_to_string(path.join(PROCS))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Moves this program into a group.
pub(super) fn enter(path: &Path) -> io::Result<()> {
    fs::write(path.join(PROCS), "0")
}

/// What a child is born into a group by, given the group's directory.
pub(crate) fn open_cgroup(path: &Path) -> io::Result<OwnedFd> {
    File::open(path).map(OwnedFd::from)
}

/// What a child enters a group of version 1 by: alone, since it has but one
/// thread. To move a process with all its threads is to stop every fork and
/// exit on the system.
pub(crate) fn open_limit_group(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(open(path.join(TASKS), flags, Mode::empty())?)
}

/// The file whose writer moves itself into the group.
pub(crate) fn open_procs(directory: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(openat(directory, PROCS, flags, Mode::empty())?)
}

/// Living members of the group with this directory, of either version.
pub(super) fn members_of(path: &Path) -> Vec<i32> {
    let mut pids = Vec::new();
    collect_members(path, &mut pids);
    pids
}

fn collect_members(path: &Path, pids: &mut Vec<i32>) {
    pids.extend(direct_members(path).unwrap_or_default());
    for below in directories_in(path) {
        collect_members(&below, pids);
    }
}

pub(super) fn remove_recursively(path: &Path) -> io::Result<()> {
    for below in directories_in(path) {
        remove_recursively(&below)?;
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A directory's link count is two and one for each directory in it.
fn has_no_directories(directory: &fs::Metadata) -> bool {
    directory.nlink() == 2
}

pub(super) fn directories_in(path: &Path) -> Vec<PathBuf> {
    if fs::metadata(path).is_ok_and(|found| has_no_directories(&found)) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
