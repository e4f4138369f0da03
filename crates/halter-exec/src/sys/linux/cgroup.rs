//! One cgroup per process tree: membership that `setsid` and double forks do
//! not escape, and a kill that hits all members at once.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::statfs;

/// Where a version 2 hierarchy may be mounted: alone, or beside version 1.
const MOUNT_POINTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const CGROUP2_MAGIC: u64 = 0x6367_7270;

/// How long a freeze may take before the kill goes on without it.
const FREEZE_WAIT: Duration = Duration::from_millis(100);

/// A cgroup of ours, removed when this is dropped (if it is empty by then).
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    directory: File,
    removed: bool,
}

impl Cgroup {
    /// A new cgroup below our own, if this host lets us.
    pub(crate) fn create() -> io::Result<Self> {
        let path = create_numbered(&own_directory()?)?;
        let directory = File::open(&path);
        let cgroup = match directory {
            Ok(directory) => Self {
                path,
                directory,
                removed: false,
            },
            Err(error) => {
                let _ = fs::remove_dir(&path);
                return Err(error);
            }
        };
        // A kernel without the kill file gives no better grip than a walk.
        fs::metadata(cgroup.path.join("cgroup.kill"))?;
        Ok(cgroup)
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Living members, those of cgroups made below this one included.
    pub(crate) fn members(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        collect_members(&self.path, &mut pids);
        pids
    }

    /// Whether this process is (still) a member.
    pub(crate) fn contains(&self, pid: i32) -> bool {
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else {
            return false;
        };
        let Some(name) = self.path.file_name().and_then(|name| name.to_str()) else {
            return false;
        };
        text.lines()
            .filter_map(|line| line.strip_prefix("0::"))
            .any(|path| path.split('/').any(|part| part == name))
    }

    /// Kills every member, whatever it is doing.
    pub(crate) fn kill(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.kill"), "1")
    }

    /// Runs `act` while no member can run, so that none can fork away from
    /// under it.
    pub(crate) fn while_frozen<Outcome>(&self, act: impl FnOnce() -> Outcome) -> Outcome {
        let switch = self.path.join("cgroup.freeze");
        if fs::write(&switch, "1").is_ok() {
            let until = Instant::now() + FREEZE_WAIT;
            while !self.event("frozen 1") && Instant::now() < until {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        let outcome = act();
        let _ = fs::write(&switch, "0");
        outcome
    }

    fn event(&self, line: &str) -> bool {
        fs::read_to_string(self.path.join("cgroup.events"))
            .is_ok_and(|text| text.lines().any(|found| found == line))
    }

    /// Removes the cgroup; it must have no members any more.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        if self.removed {
            return Ok(());
        }
        remove_recursively(&self.path)?;
        self.removed = true;
        Ok(())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::debug!(path = %self.path.display(), %error, "cgroup not removed");
        }
    }
}

/// A directory no one has; names left behind by a crashed program that had
/// our number before are stepped over.
fn create_numbered(parent: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("halter-{}-{number}", std::process::id()));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(path),
        }
    }
}

/// The directory of the cgroup this process is in, on a version 2 hierarchy.
/// The magic number is checked because making a directory "works" on the
/// tmpfs that carries version 1.
fn own_directory() -> io::Result<PathBuf> {
    let mount = MOUNT_POINTS
        .iter()
        .map(Path::new)
        .find(|path| statfs(*path).is_ok_and(|found| found.f_type as u64 == CGROUP2_MAGIC))
        .ok_or(io::ErrorKind::Unsupported)?;
    let text = fs::read_to_string("/proc/self/cgroup")?;
    let own = text
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .ok_or(io::ErrorKind::Unsupported)?;
    Ok(mount.join(own))
}

fn collect_members(path: &Path, pids: &mut Vec<i32>) {
    if let Ok(text) = fs::read_to_string(path.join("cgroup.procs")) {
        pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
    }
    for below in directories_in(path) {
        collect_members(&below, pids);
    }
}

fn remove_recursively(path: &Path) -> io::Result<()> {
    for below in directories_in(path) {
        remove_recursively(&below)?;
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn directories_in(path: &Path) -> Vec<PathBuf> {
    // A directory's link count is two and one for each directory in it.
    if fs::metadata(path).is_ok_and(|found| found.nlink() == 2) {
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
