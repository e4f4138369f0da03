//! File rules as a Landlock ruleset, made by the parent, so that the child
//! has one system call left to do.

use std::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};

use crate::launch::{LaunchFailure, LaunchStep};
use crate::sandbox::{FileAccess, FileRule};

/// The first version under which nothing can be written without a right to:
/// earlier ones let files be truncated.
const NEEDED: ABI = ABI::V3;

/// A ruleset that allows what the rules say and nothing else. Paths are those
/// of a process with this root and working directory; of the optional ones some
/// may be gone.
pub(crate) fn file_ruleset(
    rules: &[FileRule],
    optional: &[FileRule],
    root: Option<&Path>,
    cwd: &Path,
) -> Result<OwnedFd, LaunchFailure> {
    let failed = |entry, error: &io::Error| LaunchFailure::of(LaunchStep::FileRules, entry, error);
    let mut ruleset = empty_ruleset().map_err(|error| failed(0, &io_error(&error)))?;
    for (index, rule) in rules.iter().chain(optional).enumerate() {
        let entry = index + 1;
        let place = match open_place(root, &cwd.join(&rule.path)) {
            Err(_) if index >= rules.len() => continue,
            place => place.map_err(|error| failed(entry, &error))?,
        };
        let mut access = rights(rule.access);
        let found = fstat(&place).map_err(|error| failed(entry, &error.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            access &= AccessFs::from_file(NEEDED);
        }
        ruleset = ruleset
            .add_rule(PathBeneath::new(place, access))
            .map_err(|error| failed(entry, &io_error(&error)))?;
    }
    let fd: Option<OwnedFd> = ruleset.into();
    fd.ok_or(LaunchFailure::new(LaunchStep::FileRules, libc::ENOSYS))
}

/// A ruleset that allows these files, and those below these directories, to be
/// executed and no others, and keeps abstract sockets and signals inside where
/// the kernel knows how. What does not exist is left out.
pub(crate) fn execute_ruleset(
    executables: Option<&[PathBuf]>,
    scoped: bool,
) -> Result<OwnedFd, LaunchFailure> {
    let failed =
        |error: &RulesetError| LaunchFailure::of(LaunchStep::FileRules, 0, &io_error(error));
    // A ruleset that does not speak of moving files between directories forbids
    // it.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::Refer)
        .map_err(|error| failed(&error))?;
    if executables.is_some() {
        ruleset = ruleset
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::Execute)
            .map_err(|error| failed(&error))?;
    }
    if scoped {
        ruleset = ruleset
            .set_compatibility(CompatLevel::BestEffort)
            .scope(Scope::AbstractUnixSocket | Scope::Signal)
            .map_err(|error| failed(&error))?;
    }
    let root = open_place(None, Path::new("/"))
        .map_err(|error| LaunchFailure::of(LaunchStep::FileRules, 0, &error))?;
    let mut ruleset = ruleset
        .set_compatibility(CompatLevel::BestEffort)
        .create()
        .and_then(|ruleset| ruleset.add_rule(PathBeneath::new(root, AccessFs::Refer)))
        .map_err(|error| failed(&error))?;
    for path in executables.unwrap_or_default() {
        let Ok(place) = open_place(None, path) else {
            continue;
        };
        ruleset = ruleset
            .add_rule(PathBeneath::new(place, AccessFs::Execute))
            .map_err(|error| failed(&error))?;
    }
    let fd: Option<OwnedFd> = ruleset.into();
    fd.ok_or(LaunchFailure::new(LaunchStep::FileRules, libc::ENOSYS))
}

/// Whether the kernel knows how to keep abstract sockets and signals inside.
pub(crate) fn landlock_scopes() -> bool {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::AbstractUnixSocket | Scope::Signal);
    ruleset.and_then(Ruleset::create).is_ok()
}

fn empty_ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .create()
}

fn rights(access: FileAccess) -> BitFlags<AccessFs> {
    let all = AccessFs::from_all(NEEDED);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    match access {
        FileAccess::Read => read,
        FileAccess::Execute => read | AccessFs::Execute,
        FileAccess::Write => all & !BitFlags::from(AccessFs::Execute),
        FileAccess::All => all,
        FileAccess::List => AccessFs::ReadDir.into(),
    }
}

/// The place itself, found as the child will find it.
pub(crate) fn open_place(root: Option<&Path>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Some(root) = root else {
        return Ok(openat(CWD, path, flags, Mode::empty())?);
    };
    let root = openat(CWD, root, flags | OFlags::DIRECTORY, Mode::empty())?;
    Ok(openat2(
        root,
        path,
        flags,
        Mode::empty(),
        ResolveFlags::IN_ROOT,
    )?)
}

/// What the system said, somewhere below; a refusal without a system call is
/// one for lack of support.
fn io_error(error: &RulesetError) -> io::Error {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(one) = cause {
        if let Some(number) = one
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return io::Error::from_raw_os_error(number);
        }
        cause = one.source();
    }
    io::Error::from_raw_os_error(libc::ENOSYS)
}
