//! The files of a contained tree, as a list of steps that its first process
//! takes in a mount namespace of its own.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, c_ulong};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::sandbox::{Containment, MissingRung};

/// Where the tree finds what this program hands over.
pub(crate) const EXCHANGE: &str = "/dev/.halter/exchange";
const BLANK_DIRECTORY: &str = "/dev/.halter/blank-directory";
const BLANK_FILE: &str = "/dev/.halter/blank-file";

/// Places that start empty. `/run` is full of other programs' sockets, and a
/// mount that cannot be written to does not keep anybody from connecting.
const FRESH: [&str; 3] = ["/tmp", "/var/tmp", "/run"];
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

impl MountPlan {
    pub(super) fn new(containment: &Containment) -> Result<Self, MissingRung> {
        let mut plan = Self::default();
        let writable: BTreeSet<PathBuf> = containment
            .writable
            .iter()
            .map(|path| resolved(path))
            .collect::<Result<_, _>>()?;
        let executables = existing(containment.executables.as_deref().unwrap_or_default());
        let executables: Vec<PathBuf> = executables
            .into_iter()
            .filter(|path| writable.iter().any(|root| path.starts_with(root)))
            .collect();
        let listed = containment.executables.is_some();
        // Kept while they can still be reached and written to. In the order of
        // their paths, so that what lies within another is attached later.
        let mut kept: Vec<(PathBuf, u64)> = Vec::new();
        let no_execute = if listed { NO_EXECUTE } else { 0 };
        kept.extend(writable.iter().map(|path| (path.clone(), no_execute)));
        if listed {
            kept.extend(executables.into_iter().map(|path| (path, 0)));
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
        plan.restrict("/", READ_ONLY | NO_SETUID | NO_DEVICES, true)?;
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
        plan.protect(&containment.protected, &writable, no_execute)?;
        plan.hide(&containment.hidden)?;
        for at in ["/run", "/dev"] {
            if Path::new(at).is_dir() {
                plan.restrict(at, READ_ONLY, false)?;
            }
        }
        Ok(plan)
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

    /// A directory that is a mount cannot be moved away, so those between a
    /// writable path and a protected one become mounts, too.
    fn protect(
        &mut self,
        protected: &[PathBuf],
        writable: &BTreeSet<PathBuf>,
        no_execute: u64,
    ) -> Result<(), MissingRung> {
        let protected = existing(protected);
        let mut between = BTreeSet::new();
        for path in &protected {
            for parent in path.ancestors().skip(1) {
                if writable.contains(parent) {
                    break;
                }
                if writable.iter().any(|root| parent.starts_with(root)) {
                    between.insert(parent.to_owned());
                }
            }
        }
        for path in between {
            let copy = self.copy(&path)?;
            self.attach(copy, &path, no_execute | NO_SETUID | NO_DEVICES)?;
        }
        for path in protected {
            let copy = self.copy(&path)?;
            self.attach(copy, &path, READ_ONLY | NO_SETUID | NO_DEVICES)?;
        }
        Ok(())
    }

    fn hide(&mut self, hidden: &[PathBuf]) -> Result<(), MissingRung> {
        for path in existing(hidden) {
            // What is not there inside does not need hiding.
            if FRESH.iter().any(|base| path.starts_with(base)) && !self.is_attached(&path) {
                continue;
            }
            let blank = if path.is_dir() {
                BLANK_DIRECTORY
            } else {
                BLANK_FILE
            };
            let copy = self.copy(blank)?;
            self.attach(copy, &path, READ_ONLY | NO_SETUID | NO_DEVICES | NO_EXECUTE)?;
        }
        Ok(())
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
        at: &str,
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

/// Empty directories where protected paths are missing, so that something can
/// be mounted there. Removed when this is dropped, if they are still empty.
#[derive(Debug, Default)]
pub(super) struct Placeholders(Vec<PathBuf>);

impl Placeholders {
    /// Makes one for each path that is not there, at its first missing part.
    /// Returns the places too.
    pub(super) fn make(protected: &[PathBuf]) -> io::Result<Self> {
        let mut made = Self::default();
        for path in protected {
            if path.symlink_metadata().is_ok() {
                continue;
            }
            let missing = path
                .ancestors()
                .take_while(|part| part.symlink_metadata().is_err())
                .last();
            let Some(missing) = missing else { continue };
            match std::fs::create_dir(missing) {
                Ok(()) => made.0.push(missing.to_owned()),
                // Nobody can make there what this program cannot, unless the
                // system refuses only this program.
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }

    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.0
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            if let Err(error) = std::fs::remove_dir(path) {
                tracing::debug!(path = %path.display(), %error, "a placeholder stays");
            }
        }
    }
}
