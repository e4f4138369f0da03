//! From a program's name and settings to a process: search path, C strings,
//! and errors that name the thing that was missing.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::environment::Environment;
use crate::error::ExecError;
use crate::sys::{self, ChildPlan, SpawnFailure, SpawnStep, Spawned};
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
pub(crate) fn spawn(request: &SpawnRequest<'_>) -> Result<(Spawned, TreeGrip), ExecError> {
    let path = find_program(request.program, request.environment, request.cwd)?;
    let grip = TreeGrip::strongest()?;
    match spawn_in(request, &path, &grip) {
        // A cgroup can exist and yet refuse members (delegation rules).
        Err(failure) if failure.is_cgroup() => {
            drop(grip);
            let grip = TreeGrip::walking()?;
            spawn_in(request, &path, &grip).map(|spawned| (spawned, grip))
        }
        other => other.map(|spawned| (spawned, grip)),
    }
    .map_err(|failure| failure.explain(request, &path))
}

enum Failure {
    Input(ExecError),
    System(SpawnFailure),
}

impl Failure {
    fn is_cgroup(&self) -> bool {
        matches!(self, Self::System(failure) if failure.step == SpawnStep::Cgroup)
    }

    fn explain(self, request: &SpawnRequest<'_>, path: &Path) -> ExecError {
        let SpawnFailure { step, error } = match self {
            Self::Input(error) => return error,
            Self::System(failure) => failure,
        };
        let program = request.program.to_string_lossy().into_owned();
        let cwd = request.cwd.to_owned();
        match (step, error.raw_os_error()) {
            (SpawnStep::WorkingDirectory, Some(libc::ENOENT)) => {
                ExecError::WorkingDirectoryGone { path: cwd }
            }
            (SpawnStep::WorkingDirectory, _) => ExecError::WorkingDirectoryUnusable {
                path: cwd,
                source: error,
            },
            (SpawnStep::Exec, Some(libc::ENOENT | libc::ENOTDIR))
                if !request.cwd.join(path).exists() =>
            {
                ExecError::ProgramNotFound {
                    program,
                    searched: path.display().to_string(),
                }
            }
            (SpawnStep::Exec, Some(libc::E2BIG)) => ExecError::ArgumentsTooLong { program },
            (SpawnStep::Exec, Some(libc::EACCES | libc::EPERM)) => ExecError::ProgramDenied {
                path: path.to_owned(),
            },
            (SpawnStep::Exec, _) => ExecError::ProgramUnusable {
                path: path.to_owned(),
                source: error,
            },
            _ => ExecError::Spawn {
                program,
                step: step.describe(),
                source: error,
            },
        }
    }
}

fn spawn_in(request: &SpawnRequest<'_>, path: &Path, grip: &TreeGrip) -> Result<Spawned, Failure> {
    let plan = plan(request, path, grip).map_err(Failure::Input)?;
    sys::spawn(&plan).map_err(Failure::System)
}

fn plan<'a>(
    request: &SpawnRequest<'a>,
    path: &Path,
    grip: &'a TreeGrip,
) -> Result<ChildPlan<'a>, ExecError> {
    let mut environment = request.environment.clone();
    grip.mark(&mut environment);
    let mut argv = vec![c_string("the program's name", request.program)?];
    for arg in request.args {
        argv.push(c_string("an argument", arg)?);
    }
    Ok(ChildPlan {
        path: c_string("the program's path", path.as_os_str())?,
        argv,
        envp: environment
            .iter()
            .map(|(name, value)| variable(name, value))
            .collect::<Result<_, _>>()?,
        cwd: c_string("the working directory", request.cwd.as_os_str())?,
        fds: request.fds.clone(),
        cgroup: grip.cgroup().map(|cgroup| cgroup.directory()),
    })
}

fn c_string(what: &str, value: &OsStr) -> Result<CString, ExecError> {
    CString::new(value.as_bytes())
        .map_err(|_| ExecError::invalid(what, "it contains a NUL byte; remove it"))
}

fn variable(name: &OsStr, value: &OsStr) -> Result<CString, ExecError> {
    let shown = || format!("environment variable `{}`", name.display());
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(ExecError::invalid(
            shown(),
            "a name is not empty and has no `=`",
        ));
    }
    let mut pair = name.to_owned().into_vec();
    pair.push(b'=');
    pair.extend_from_slice(value.as_bytes());
    CString::new(pair).map_err(|_| ExecError::invalid(shown(), "it contains a NUL byte; remove it"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_with_impossible_names_or_values_are_refused_without_showing_the_value() {
        for (name, value) in [("", "x"), ("A=B", "x"), ("A", "s3cret\0")] {
            let error = variable(OsStr::new(name), OsStr::new(value)).unwrap_err();
            assert_eq!(error.code(), "invalid_input");
            assert!(!error.to_string().contains("s3cret"));
        }
    }
}
