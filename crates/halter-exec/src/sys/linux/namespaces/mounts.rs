//! The files of a contained tree, as a list of steps that its first process
//! takes in a mount namespace of its own.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, c_ulong};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::sandbox::{Containment, KeptMount, MissingRung};

/// Where the tree finds what this program hands over.
pub(crate) const EXCHANGE: &str = "/dev/.halter/exchange";
pub(super) const BLANK_DIRECTORY: &str = "/dev/.halter/blank-directory";
pub(super) const BLANK_FILE: &str = "/dev/.halter/blank-file";

/// Places that start empty. `/run` is full of other programs' sockets, and a
/// mount that cannot be written to does not keep anybody from connecting.
const FRESH: [&str; 3] = ["/tmp", "/var/tmp", "/run"];

/// Whether this place starts empty inside.
pub(super) fn is_fresh(place: &Path) -> bool {
    let fresh = FRESH.iter().chain(&["/dev", "/dev/shm"]);
    fresh.map(Path::new).any(|one| one == place)
}

/// Parts of `/run` that hold no sockets and that programs look for.
const KEPT_OF_RUN: [&str; 3] = [
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/current-system",
];
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
];

/// Where libraries are, which programs map as code: what is listed could not be
/// executed without them. The programs that lie there can be, by the loader.
const LIBRARIES: [&str; 10] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/nix/store",
    "/gnu/store",
];

pub(super) const READ_ONLY: u64 = 0x1;
pub(super) const NO_SETUID: u64 = 0x2;
pub(super) const NO_DEVICES: u64 = 0x4;
pub(super) const NO_EXECUTE: u64 = 0x8;

/// One step of the first process.
#[derive(Debug)]
pub(super) enum MountStep {
    /// Opens a copy of a tree of mounts, for a later [`Attach`](Self::Attach).
    Copy { from: CString, into: usize },
    /// Attaches a copy.
    Attach {
        from: usize,
        at: CString,
        attributes: u64,
    },
    /// Mounts a new file system.
    New {
        kind: CString,
        at: CString,
        flags: c_ulong,
        options: CString,
    },
    /// Sets attributes of one mount, or of all below it as well.
    Restrict {
        at: CString,
        attributes: u64,
        recursive: bool,
    },
    /// Makes a directory, unless it is there.
    Directory { at: CString, mode: libc::mode_t },
    /// Makes an empty file, unless it is there.
    File { at: CString, mode: libc::mode_t },
    /// Makes a symbolic link.
    Link { to: CString, at: CString },
}

impl MountStep {
    /// What it does and to what, in words that follow "while".
    pub(super) fn describe(&self) -> String {
        let shown = |path: &CString| path.to_string_lossy().into_owned();
        match self {
            Self::Copy { from, .. } => format!("opening the mount of `{}`", shown(from)),
            Self::Attach { at, .. } => format!("mounting `{}`", shown(at)),
            Self::New { kind, at, .. } => {
                format!("mounting a new {} at `{}`", shown(kind), shown(at))
            }
            Self::Restrict { at, .. } => format!("restricting the mount of `{}`", shown(at)),
            Self::Directory { at, .. } | Self::File { at, .. } | Self::Link { at, .. } => {
                format!("making `{}`", shown(at))
            }
        }
    }
}

/// The steps, and how many copies they have open at a time.
#[derive(Debug, Default)]
pub(super) struct MountPlan {
    pub steps: Vec<MountStep>,
    pub copies: usize,
}

fn text(path: impl AsRef<OsStr>) -> Result<CString, MissingRung> {
    CString::new(path.as_ref().as_bytes())
        .map_err(|_| MissingRung::new("a path of the sandbox contains a NUL byte"))
}

/// A path as the kernel finds it, without links.
fn resolved(path: &Path) -> Result<PathBuf, MissingRung> {
    path.canonicalize()
        .map_err(|error| MissingRung::new(format!("`{}`: {error}", path.display())))
}

/// The same for a list in which what does not exist does not matter.
fn existing(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    paths
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect()
}

/// The only places from which code is mapped where programs are listed: those
/// and the libraries. What lies within another of them is left out.
fn executable_places(executables: &[PathBuf]) -> BTreeSet<PathBuf> {
    let listed = existing(executables);
    let installed = listed.iter().filter_map(|path| path.parent()?.parent());
    let beside = installed.flat_map(|prefix| [prefix.join("lib"), prefix.join("lib64")]);
    let libraries = LIBRARIES.iter().map(PathBuf::from).chain(beside);
    let libraries = existing(&libraries.chain(configured_libraries()).collect::<Vec<_>>());
    let mut places = listed;
    places.extend(libraries);
    let all = places.clone();
    places.retain(|path| {
        let mut around = path.ancestors().skip(1);
        !around.any(|parent| all.contains(parent))
    });
    places
}

/// The directories that the loader is told of.
fn configured_libraries() -> Vec<PathBuf> {
    let files = std::fs::read_dir("/etc/ld.so.conf.d");
    let files = files.into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let lines = texts.flat_map(|text| {
        let lines = text.lines().filter(|line| line.starts_with('/'));
        lines.map(PathBuf::from).collect::<Vec<_>>()
    });
    lines.collect()
}

/// A directory that is a mount cannot be moved away, so those between a
/// writable path and a protected one become mounts, too. In the order of their
/// paths.
fn between(protected: &BTreeSet<PathBuf>, writable: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut between = BTreeSet::new();
    for path in protected {
        for parent in path.ancestors().skip(1) {
            if writable.contains(parent) {
                break;
            }
            if writable.iter().any(|root| parent.starts_with(root)) {
                between.insert(parent.to_owned());
            }
        }
    }
    between
}

impl MountPlan {
    pub(super) fn new(containment: &Containment) -> Result<Self, MissingRung> {
        let mut plan = Self::default();
        let writable: BTreeSet<PathBuf> = containment
            .writable
            .iter()
            .map(|path| resolved(path))
            .collect::<Result<_, _>>()?;
        let listed = containment.executables.is_some();
        // Kept while they can still be reached and written to. In the order of
        // their paths, so that what lies within another is attached later.
        let mut kept: Vec<(PathBuf, u64)> = Vec::new();
        let no_execute = if listed { NO_EXECUTE } else { 0 };
        kept.extend(writable.iter().map(|path| (path.clone(), no_execute)));
        if let Some(executables) = &containment.executables {
            let is_writable = |path: &PathBuf| writable.iter().any(|root| path.starts_with(root));
            kept.extend(executable_places(executables).into_iter().map(|path| {
                let attributes = if is_writable(&path) { 0 } else { READ_ONLY };
                (path, attributes)
            }));
        }
        for part in KEPT_OF_RUN {
            if let Ok(path) = Path::new(part).canonicalize()
                && path.starts_with("/run")
            {
                kept.push((path, READ_ONLY));
            }
        }
        // The later of two entries for one path is the one that counts.
        kept.sort_by(|left, right| left.0.cmp(&right.0));
        let first_kept = plan.copies;
        for (path, _) in &kept {
            plan.copy(path)?;
        }
        let first_device = plan.copies;
        for device in DEVICES {
            plan.copy(Path::new("/dev").join(device))?;
        }
        // A loader that is given a program maps it, which no other rule is
        // about.
        plan.restrict("/", READ_ONLY | NO_SETUID | NO_DEVICES | no_execute, true)?;
        plan.fresh_places(listed)?;
        plan.devices(first_device)?;
        plan.new_file_system("proc", "/proc", libc::MS_NOEXEC | libc::MS_RDONLY, "")?;
        for (index, (path, attributes)) in kept.iter().enumerate() {
            plan.make_place(path)?;
            plan.attach(
                first_kept + index,
                path,
                attributes | NO_SETUID | NO_DEVICES,
            )?;
        }
        plan.protect(&containment.protected, &writable)?;
        plan.hide(&containment.hidden)?;
        for at in ["/run", "/dev"] {
            if Path::new(at).is_dir() {
                plan.restrict(at, READ_ONLY, false)?;
            }
        }
        Ok(plan)
    }

    /// The steps that protect and hide paths of a containment in use, given
    /// whether something is mounted on a path already. At no time is less
    /// covered than before.
    pub(super) fn of_more(
        protected: &[PathBuf],
        hidden: &[PathBuf],
        writable: &[PathBuf],
        is_mount: impl Fn(&Path) -> bool,
    ) -> Result<Self, MissingRung> {
        let mut plan = Self::default();
        let protected = existing(protected);
        // Those first for whoever is within one of the directories between,
        // which their mounts do not reach.
        for path in &protected {
            plan.keep_as_it_is(path)?;
        }
        for path in existing(hidden) {
            plan.cover_by_nothing(&path)?;
        }
        for path in between(&protected, &existing(writable)) {
            if !is_mount(&path) {
                plan.bind_to_itself(&path)?;
            }
        }
        Ok(plan)
    }

    /// The steps that mount these in name spaces that somebody else made, given
    /// whether something is mounted on a path already. At no time is less
    /// covered than before: what can be written to comes last, with what lies
    /// on it.
    pub(super) fn of_container(
        mounts: &[KeptMount],
        is_mount: impl Fn(&Path) -> bool,
    ) -> Result<Self, MissingRung> {
        let mut plan = Self::default();
        let missing = |mount: &&KeptMount| !is_mount(&mount.target);
        let mut missing: Vec<&KeptMount> = mounts.iter().filter(missing).collect();
        missing.sort_by_key(|mount| mount.source.is_some() && !mount.read_only);
        for mount in missing {
            let attributes = if mount.read_only { READ_ONLY } else { 0 };
            match &mount.source {
                Some(source) => {
                    let copy = plan.copy(source)?;
                    plan.attach(copy, &mount.target, attributes)?;
                }
                None => {
                    let flags = libc::MS_NODEV | libc::MS_NOSUID;
                    plan.new_file_system("tmpfs", &mount.target, flags, "mode=755")?;
                }
            }
        }
        Ok(plan)
    }

    /// Where something is mounted.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        let places = self.steps.iter().filter_map(|step| match step {
            MountStep::Attach { at, .. } | MountStep::New { at, .. } => {
                Some(OsStr::from_bytes(at.to_bytes()).into())
            }
            _ => None,
        });
        places.collect()
    }

    fn fresh_places(&mut self, listed: bool) -> Result<(), MissingRung> {
        let no_execute = if listed { libc::MS_NOEXEC } else { 0 };
        for at in FRESH {
            // A link leads to one of the others.
            let is_directory = |found: std::fs::Metadata| found.is_dir();
            if Path::new(at).symlink_metadata().is_ok_and(is_directory) {
                let options = if at == "/run" {
                    "mode=755"
                } else {
                    "mode=1777"
                };
                self.new_file_system("tmpfs", at, libc::MS_NODEV | no_execute, options)?;
            }
        }
        Ok(())
    }

    fn devices(&mut self, first: usize) -> Result<(), MissingRung> {
        self.new_file_system("tmpfs", "/dev", libc::MS_NOEXEC, "mode=755")?;
        for (index, device) in DEVICES.iter().enumerate() {
            let at = Path::new("/dev").join(device);
            self.file(&at, 0o666)?;
            self.attach(first + index, &at, NO_SETUID | NO_EXECUTE)?;
        }
        self.directory("/dev/pts", 0o755)?;
        let options = "newinstance,ptmxmode=0666,mode=0620";
        self.new_file_system("devpts", "/dev/pts", libc::MS_NOEXEC, options)?;
        self.directory("/dev/shm", 0o1777)?;
        let flags = libc::MS_NODEV | libc::MS_NOEXEC;
        self.new_file_system("tmpfs", "/dev/shm", flags, "mode=1777")?;
        self.directory("/dev/.halter", 0o755)?;
        self.directory(BLANK_DIRECTORY, 0)?;
        self.file(Path::new(BLANK_FILE), 0)?;
        self.directory(EXCHANGE, 0o700)?;
        self.new_file_system("tmpfs", EXCHANGE, flags, "mode=700")?;
        for (to, at) in DEVICE_LINKS {
            self.steps.push(MountStep::Link {
                to: text(to)?,
                at: text(at)?,
            });
        }
        Ok(())
    }

    /// Makes what a mount below a fresh place needs to lie on.
    fn make_place(&mut self, path: &Path) -> Result<(), MissingRung> {
        let fresh = FRESH.iter().chain(&["/dev/shm"]);
        let Some(base) = fresh.map(Path::new).find(|base| path.starts_with(base)) else {
            return Ok(());
        };
        if base == path {
            return Ok(());
        }
        let mut parents: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .take_while(|parent| *parent != base)
            .collect();
        parents.reverse();
        for parent in parents {
            self.directory(parent, 0o755)?;
        }
        if path.is_dir() {
            self.directory(path, 0o755)
        } else {
            self.file(path, 0o644)
        }
    }

    fn protect(
        &mut self,
        protected: &[PathBuf],
        writable: &BTreeSet<PathBuf>,
    ) -> Result<(), MissingRung> {
        let protected = existing(protected);
        for path in between(&protected, writable) {
            self.bind_to_itself(&path)?;
        }
        for path in protected {
            self.keep_as_it_is(&path)?;
        }
        Ok(())
    }

    /// With all that is mounted below, which keeps what it has.
    fn bind_to_itself(&mut self, path: &Path) -> Result<(), MissingRung> {
        let copy = self.copy(path)?;
        self.attach(copy, path, NO_SETUID | NO_DEVICES)
    }

    fn keep_as_it_is(&mut self, path: &Path) -> Result<(), MissingRung> {
        let copy = self.copy(path)?;
        self.attach(copy, path, READ_ONLY | NO_SETUID | NO_DEVICES)
    }

    fn hide(&mut self, hidden: &[PathBuf]) -> Result<(), MissingRung> {
        for path in existing(hidden) {
            // What is not there inside does not need hiding.
            if FRESH.iter().any(|base| path.starts_with(base)) && !self.is_attached(&path) {
                continue;
            }
            self.cover_by_nothing(&path)?;
        }
        Ok(())
    }

    fn cover_by_nothing(&mut self, path: &Path) -> Result<(), MissingRung> {
        let blank = if path.is_dir() {
            BLANK_DIRECTORY
        } else {
            BLANK_FILE
        };
        let copy = self.copy(blank)?;
        self.attach(copy, path, READ_ONLY | NO_SETUID | NO_DEVICES | NO_EXECUTE)
    }

    fn is_attached(&self, path: &Path) -> bool {
        self.steps.iter().any(|step| match step {
            MountStep::Attach { at, .. } => {
                path.starts_with(Path::new(OsStr::from_bytes(at.to_bytes())))
            }
            _ => false,
        })
    }

    fn copy(&mut self, from: impl AsRef<Path>) -> Result<usize, MissingRung> {
        let into = self.copies;
        self.copies += 1;
        let from = text(from.as_ref())?;
        self.steps.push(MountStep::Copy { from, into });
        Ok(into)
    }

    fn attach(
        &mut self,
        from: usize,
        at: impl AsRef<Path>,
        attributes: u64,
    ) -> Result<(), MissingRung> {
        self.steps.push(MountStep::Attach {
            from,
            at: text(at.as_ref())?,
            attributes,
        });
        Ok(())
    }

    fn new_file_system(
        &mut self,
        kind: &str,
        at: impl AsRef<OsStr>,
        flags: c_ulong,
        options: &str,
    ) -> Result<(), MissingRung> {
        self.steps.push(MountStep::New {
            kind: text(kind)?,
            at: text(at)?,
            flags: flags | libc::MS_NOSUID,
            options: text(options)?,
        });
        Ok(())
    }

    fn restrict(&mut self, at: &str, attributes: u64, recursive: bool) -> Result<(), MissingRung> {
        self.steps.push(MountStep::Restrict {
            at: text(at)?,
            attributes,
            recursive,
        });
        Ok(())
    }

    fn directory(&mut self, at: impl AsRef<Path>, mode: libc::mode_t) -> Result<(), MissingRung> {
        let at = text(at.as_ref())?;
        self.steps.push(MountStep::Directory { at, mode });
        Ok(())
    }

    fn file(&mut self, at: &Path, mode: libc::mode_t) -> Result<(), MissingRung> {
        let at = text(at)?;
        self.steps.push(MountStep::File { at, mode });
        Ok(())
    }
}
