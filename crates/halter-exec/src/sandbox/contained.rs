//! Containment that is in place: name spaces that wait for processes, or rules
//! that each process is given.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{
    Containment, ContainmentRung, FileAccess, FileRule, MissingRung, NetworkAccess,
    landlock_lists_programs,
};
use crate::launch::{LaunchPlan, SystemCalls};
use crate::limits::MAX_LISTED_ENTRIES;
use crate::sys::{self, Namespaces};

/// Where a directory in memory can be made outside.
const MEMORY: [&str; 2] = ["/dev/shm", "/tmp"];
/// Devices that everybody may use.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];
/// Not fresh on this rung, and still what programs write to.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

#[derive(Debug)]
enum Mechanism {
    Namespaces(Box<Namespaces>),
    Landlock {
        rules: Vec<FileRule>,
        /// What lies beside hidden paths.
        beside: Vec<FileRule>,
        exchange: PrivateDirectory,
    },
}

/// What keeps a [`Containment`], for as long as this lives.
#[derive(Debug)]
pub(crate) struct Contained {
    containment: Containment,
    mechanism: Mechanism,
}

impl Contained {
    pub(crate) fn establish(containment: &Containment) -> Result<Self, MissingRung> {
        let mechanism = match containment.rung {
            ContainmentRung::Namespaces => {
                Mechanism::Namespaces(Box::new(Namespaces::make(containment)?))
            }
            ContainmentRung::Landlock => {
                if let NetworkAccess::Proxy { .. } = containment.network {
                    return Err(MissingRung::new(
                        "connections to single hosts take a network namespace",
                    ));
                }
                if let Err(reason) = sys::file_rules_mechanism() {
                    let mut missing = MissingRung::new(reason);
                    missing.fix = Some(
                        "Linux 6.2 or newer, with `landlock` in the list of the kernel's `lsm=` \
                         option"
                            .to_owned(),
                    );
                    return Err(missing);
                }
                let exchange = PrivateDirectory::make()
                    .map_err(|error| MissingRung::of("making a private directory", &error))?;
                let failed = |error: io::Error| MissingRung::of("listing what may be read", &error);
                Mechanism::Landlock {
                    rules: file_rules(containment, &exchange.path).map_err(failed)?,
                    beside: rules_beside(&containment.hidden).map_err(failed)?,
                    exchange,
                }
            }
        };
        Ok(Self {
            containment: containment.clone(),
            mechanism,
        })
    }

    pub(crate) fn containment(&self) -> &Containment {
        &self.containment
    }

    /// Has the process of this plan be contained. The slot is of the handle
    /// that [`handle`](Self::handle) returns.
    pub(crate) fn confine(&self, plan: &mut LaunchPlan, slot: u16) {
        let listed = self.containment.executables.is_some();
        plan.containment.system_calls = Some(SystemCalls {
            internet: matches!(self.mechanism, Mechanism::Namespaces(_))
                || self.containment.network != NetworkAccess::None,
            no_memory_programs: listed,
        });
        plan.containment
            .executables
            .clone_from(&self.containment.executables);
        match &self.mechanism {
            Mechanism::Namespaces(namespaces) => {
                // Mounts hold most of the list where Landlock does not.
                if !landlock_lists_programs() {
                    plan.containment.executables = None;
                }
                let (_, kinds) = namespaces.handle();
                plan.containment.namespaces = Some((slot, kinds));
                plan.containment.scoped = self.containment.network == NetworkAccess::Host;
            }
            Mechanism::Landlock { rules, beside, .. } => {
                plan.file_rules = Some(rules.clone());
                plan.containment.optional_file_rules.clone_from(beside);
                plan.containment.scoped = true;
            }
        }
    }

    /// What the plan's slot is for.
    pub(crate) fn handle(&self) -> Option<BorrowedFd<'_>> {
        match &self.mechanism {
            Mechanism::Namespaces(namespaces) => Some(namespaces.handle().0),
            Mechanism::Landlock { .. } => None,
        }
    }

    /// The directory that this program and the processes inside both reach:
    /// a handle of it, and its name inside.
    pub(crate) fn exchange(&self) -> (BorrowedFd<'_>, &Path) {
        match &self.mechanism {
            Mechanism::Namespaces(namespaces) => namespaces.exchange(),
            Mechanism::Landlock { exchange, .. } => (exchange.handle.as_fd(), &exchange.path),
        }
    }

    pub(crate) fn protect_more(&self, paths: &[PathBuf]) {
        match &self.mechanism {
            Mechanism::Namespaces(namespaces) => namespaces.protect_more(paths),
            Mechanism::Landlock { .. } => {}
        }
    }

    pub(crate) fn cover_again(&self) -> Result<Vec<PathBuf>, MissingRung> {
        match &self.mechanism {
            Mechanism::Namespaces(namespaces) => namespaces.cover_again(),
            // Its rules are about what is allowed, by names that are looked up
            // for each process.
            Mechanism::Landlock { .. } => Ok(Vec::new()),
        }
    }

    pub(crate) fn listener(&self) -> Option<&TcpListener> {
        match &self.mechanism {
            Mechanism::Namespaces(namespaces) => namespaces.listener(),
            Mechanism::Landlock { .. } => None,
        }
    }
}

/// A directory that only this user can open, removed with what is in it.
#[derive(Debug)]
struct PrivateDirectory {
    path: PathBuf,
    handle: OwnedFd,
}

impl PrivateDirectory {
    fn make() -> io::Result<Self> {
        let name = crate::nonce::random().map_err(io::Error::other)?;
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for parent in MEMORY {
            let path = Path::new(parent).join(format!("halter-{name}"));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let handle = fs::File::open(&path)?.into();
                    return Ok(Self { path, handle });
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "a private directory stays");
        }
    }
}

/// Nothing writable but what is listed.
fn file_rules(containment: &Containment, exchange: &Path) -> io::Result<Vec<FileRule>> {
    let mut rules = vec![FileRule::new("/", FileAccess::List)];
    for path in &containment.writable {
        rules.push(FileRule::new(path.canonicalize()?, FileAccess::All));
    }
    // Rules only allow: a directory that may be used as a whole hides nothing.
    let hidden = canonical(&containment.hidden);
    for path in SHARED.map(Path::new) {
        if path.is_dir() && !hidden.iter().any(|one| one.starts_with(path)) {
            rules.push(FileRule::new(path, FileAccess::All));
        }
    }
    for path in DEVICES {
        if Path::new(path).exists() {
            rules.push(FileRule::new(path, FileAccess::Write));
        }
    }
    rules.push(FileRule::new(exchange, FileAccess::Write));
    Ok(rules)
}

/// Everything readable but what is hidden. Rules only allow, so what lies beside
/// a hidden path is listed entry by entry.
fn rules_beside(hidden: &[PathBuf]) -> io::Result<Vec<FileRule>> {
    let mut hidden = canonical(hidden);
    hidden.insert(PathBuf::from("/dev"));
    let mut rules = Vec::new();
    allow_beside(Path::new("/"), &hidden, &mut rules)?;
    Ok(rules)
}

/// Those of the paths that exist, without links.
fn canonical(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    let found = paths.iter().filter_map(|path| path.canonicalize().ok());
    found.collect()
}

fn allow_beside(
    directory: &Path,
    hidden: &BTreeSet<PathBuf>,
    rules: &mut Vec<FileRule>,
) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        // What this program cannot list, its children cannot read.
        Err(_) => return Ok(()),
    };
    for entry in entries {
        let Ok(path) = entry.map(|entry| entry.path()) else {
            continue;
        };
        if hidden.contains(&path) || path.is_symlink() || !path.exists() {
            continue;
        }
        if hidden.iter().any(|one| one.starts_with(&path)) {
            allow_beside(&path, hidden, rules)?;
            continue;
        }
        if rules.len() >= MAX_LISTED_ENTRIES {
            return Err(io::Error::other(format!(
                "there are more than {MAX_LISTED_ENTRIES} files beside those to hide; hide fewer"
            )));
        }
        rules.push(FileRule::new(path, FileAccess::Execute));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_directory_with_something_hidden_is_not_allowed_as_a_whole() {
        let directory = tempfile::tempdir_in("/tmp").unwrap();
        let secret = directory.path().join("secret");
        fs::write(&secret, "").unwrap();
        let mut containment = Containment::new(ContainmentRung::Landlock);
        let shares = |containment: &Containment| {
            let rules = file_rules(containment, directory.path()).unwrap();
            rules.iter().any(|rule| rule.path == Path::new("/tmp"))
        };
        assert!(shares(&containment));
        containment.hidden = vec![secret];
        assert!(!shares(&containment));
    }

    #[test]
    fn no_more_entries_are_listed_than_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        fs::write(path.join("beside"), "").unwrap();
        fs::write(path.join("hidden"), "").unwrap();
        let hidden = BTreeSet::from([path.join("hidden")]);
        let mut rules = vec![FileRule::new("/", FileAccess::List); MAX_LISTED_ENTRIES - 1];
        allow_beside(&path, &hidden, &mut rules).unwrap();
        assert_eq!(rules.last().unwrap().path, path.join("beside"));
        let refused = allow_beside(&path, &hidden, &mut rules).unwrap_err();
        assert!(refused.to_string().contains("hide fewer"), "{refused}");
    }
}
