//! From a program's name and settings to a process: search path, plan, tracking,
//! and errors that name the thing that was missing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::environment::Environment;
use crate::error::ExecError;
use crate::launch::{DescriptorMapping, LaunchPlan, LaunchStep, Launched, launch};
use crate::sandbox::Sandbox;
use crate::sys;
use crate::tree::TreeTracking;

/// Where programs are looked for when the child has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// One process to be made.
#[derive(Debug)]
pub(crate) struct SpawnRequest<'a> {
    pub program: &'a OsStr,
    pub args: &'a [OsString],
    pub environment: &'a Environment,
    pub cwd: &'a Path,
    /// What becomes which descriptor of the child; 0, 1 and 2 among them.
    pub fds: Vec<(BorrowedFd<'a>, RawFd)>,
    /// The terminal that controls its session.
    pub terminal: Option<BorrowedFd<'a>>,
}

/// Starts the process in the strongest tree tracking this host really grants, in
/// the sandbox if there is one.
pub(crate) fn spawn<'a>(
    request: &SpawnRequest<'a>,
    sandbox: Option<&'a Sandbox>,
) -> Result<(Launched, TreeTracking), ExecError> {
    let (mut plan, mut slots) = plan(request);
    if let Some(sandbox) = sandbox {
        sandbox.contain(&mut plan, &mut slots);
    }
    let root = plan.root.as_deref();
    plan.program = find_program_in(root, request.program, request.environment, &plan.cwd)?;
    let parent = sandbox.and_then(Sandbox::cgroup_parent);
    let mut tracking = TreeTracking::strongest(parent)?;
    tracking.hold(&mut plan);
    plan.check()?;
    let mut launched = launch(&plan, &slots);
    // A cgroup can exist and yet refuse members (delegation rules). One that
    // carries limits must not be done without.
    let refused = matches!(&launched, Err(failure)
        if failure.step == LaunchStep::ControlGroup && failure.entry == 0);
    if refused && tracking.cgroup().is_some() && parent.is_none() {
        tracking = TreeTracking::walking()?;
        tracking.hold(&mut plan);
        launched = launch(&plan, &slots);
    }
    match launched {
        Ok(launched) => Ok((launched, tracking)),
        Err(failure) => Err(failure.explain(&plan, &request.program.to_string_lossy())),
    }
}

fn plan<'a>(request: &SpawnRequest<'a>) -> (LaunchPlan, Vec<BorrowedFd<'a>>) {
    let name = request.program.to_owned();
    let descriptors = request.fds.iter().zip(0..);
    let mut plan = LaunchPlan {
        arguments: [name]
            .into_iter()
            .chain(request.args.iter().cloned())
            .collect(),
        environment: request.environment.clone(),
        cwd: request.cwd.to_owned(),
        descriptors: descriptors
            .map(|((_, target), slot)| DescriptorMapping {
                slot,
                target: *target,
            })
            .collect(),
        ..LaunchPlan::default()
    };
    let mut slots: Vec<BorrowedFd<'a>> = request.fds.iter().map(|(fd, _)| *fd).collect();
    if let Some(terminal) = request.terminal {
        plan.terminal = u16::try_from(slots.len()).ok();
        slots.push(terminal);
    }
    (plan, slots)
}

/// Looks for a program as the process will see it: a name with a slash is a
/// path, seen from the working directory; any other is searched in the
/// environment's `PATH`, never in this program's own.
///
/// # Errors
/// If there is none, or none that may be executed.
pub fn find_program(
    program: &OsStr,
    environment: &Environment,
    cwd: &Path,
) -> Result<PathBuf, ExecError> {
    find_program_in(None, program, environment, cwd)
}

/// The same below another root directory.
///
/// # Errors
/// If there is none, or none that may be executed.
pub fn find_program_in(
    root: Option<&Path>,
    program: &OsStr,
    environment: &Environment,
    cwd: &Path,
) -> Result<PathBuf, ExecError> {
    if program.is_empty() {
        return Err(ExecError::invalid("the program's name", "it is empty"));
    }
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let path = environment
        .get("PATH")
        .unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    let mut denied = None;
    for directory in std::env::split_paths(path) {
        let candidate = cwd.join(directory).join(program);
        match executable(root, &candidate) {
            Ok(true) => return Ok(candidate),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                denied.get_or_insert(candidate);
            }
            Ok(false) | Err(_) => {}
        }
    }
    Err(match denied {
        Some(path) => ExecError::ProgramDenied { path },
        None => ExecError::ProgramNotFound {
            program: program.to_string_lossy().into_owned(),
            searched: path.to_string_lossy().into_owned(),
        },
    })
}

fn executable(root: Option<&Path>, path: &Path) -> io::Result<bool> {
    let Some(root) = root else {
        if !path.metadata()?.is_file() {
            return Ok(false);
        }
        access(path, Access::EXEC_OK)?;
        return Ok(true);
    };
    // Links inside lead where they lead for the process, not for us.
    let found = File::from(sys::open_place(Some(root), path)?).metadata()?;
    Ok(found.is_file() && found.permissions().mode() & 0o111 != 0)
}
