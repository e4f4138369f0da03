//! From a program's name and settings to a process: search path, plan, grip,
//! and errors that name the thing that was missing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::environment::Environment;
use crate::error::ExecError;
use crate::launch::{DescriptorMapping, LaunchPlan, LaunchStep, Launched, launch};
use crate::tree::TreeGrip;

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
}

/// Starts the process in the strongest tree grip this host really grants.
pub(crate) fn spawn(request: &SpawnRequest<'_>) -> Result<(Launched, TreeGrip), ExecError> {
    let (mut plan, slots) = plan(request)?;
    let mut grip = TreeGrip::strongest()?;
    grip.hold(&mut plan);
    plan.check()?;
    let mut launched = launch(&plan, &slots);
    // A cgroup can exist and yet refuse members (delegation rules).
    if grip.cgroup().is_some()
        && matches!(&launched, Err(failure) if failure.step == LaunchStep::ControlGroup)
    {
        grip = TreeGrip::walking()?;
        grip.hold(&mut plan);
        launched = launch(&plan, &slots);
    }
    match launched {
        Ok(launched) => Ok((launched, grip)),
        Err(failure) => Err(failure.explain(&plan, &request.program.to_string_lossy())),
    }
}

fn plan<'a>(request: &SpawnRequest<'a>) -> Result<(LaunchPlan, Vec<BorrowedFd<'a>>), ExecError> {
    let program = find_program(request.program, request.environment, request.cwd)?;
    let name = request.program.to_owned();
    let descriptors = request.fds.iter().zip(0..);
    let plan = LaunchPlan {
        program,
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
    Ok((plan, request.fds.iter().map(|(fd, _)| *fd).collect()))
}

/// The file to execute. A name with a slash is a path, seen from the child's
/// working directory; any other is searched in the child's `PATH`, not ours.
pub(crate) fn find_program(
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
        match executable(&candidate) {
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

fn executable(path: &Path) -> io::Result<bool> {
    if !path.metadata()?.is_file() {
        return Ok(false);
    }
    access(path, Access::EXEC_OK)?;
    Ok(true)
}
