//! The lowest level: one process, exactly as planned, without a runtime.
//!
//! Owns: the plan of a process as plain data, and the call that carries it
//! out. Never: searches a program, makes pipes or control groups,
//! waits for what it started, or needs tokio. Everything in this crate that
//! starts a process starts it here.

mod failure;

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use failure::{LaunchFailure, LaunchStep};

use crate::environment::Environment;
use crate::error::ExecError;
use crate::host::os_bytes;
use crate::sandbox::FileRule;
use crate::sys::{self, ChildPlan, PidFd};

/// The highest descriptor number a plan may ask for in the child.
pub const MAX_TARGET_FD: RawFd = 15;

/// A process to be made: all that happens between its creation and its
/// program. It always leads a session of its own.
///
/// Descriptors are named by *slot*, the position in the list that is given to
/// [`launch`], so that a plan can be made in one program and carried out in
/// another.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// The file to execute, as the child sees it; no search takes place.
    #[serde(with = "os_bytes::path")]
    pub program: PathBuf,
    /// All arguments, the program's own name first.
    pub arguments: Vec<OsString>,
    /// All the variables it sees.
    pub environment: Environment,
    /// The directory it starts in, below [`root`](Self::root) if there is one.
    #[serde(with = "os_bytes::path")]
    pub cwd: PathBuf,
    /// Which slot becomes which descriptor. Everything else is closed.
    pub descriptors: Vec<DescriptorMapping>,
    /// The slot of the terminal that controls its session.
    pub terminal: Option<u16>,
    /// The directory of the version 2 control group it is born in.
    #[serde(with = "os_bytes::optional_path")]
    pub cgroup: Option<PathBuf>,
    /// The directories of further (version 1) control groups it enters.
    #[serde(with = "os_bytes::paths")]
    pub limit_groups: Vec<PathBuf>,
    /// Limits it and its children are under, in the order they are set.
    pub rlimits: Vec<Rlimit>,
    /// The directory that becomes its `/`.
    #[serde(with = "os_bytes::optional_path")]
    pub root: Option<PathBuf>,
    /// Whether it and its children can never gain privileges by executing a
    /// file.
    pub no_new_privileges: bool,
    /// The only files it may touch by name, if restricted; paths are as the
    /// child sees them. Implies [`no_new_privileges`](Self::no_new_privileges).
    pub file_rules: Option<Vec<FileRule>>,
    /// What else contains it. The name spaces are not sent to other programs:
    /// they are this one's.
    pub containment: LaunchContainment,
}

/// What contains a process besides its file rules.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LaunchContainment {
    /// The slot of a handle of the process whose name spaces it is born in,
    /// and which these are, as `setns` takes them.
    #[serde(skip)]
    pub namespaces: Option<(u16, i32)>,
    /// Further [file rules](LaunchPlan::file_rules), about files that may be
    /// gone by then.
    pub optional_file_rules: Vec<FileRule>,
    /// The system calls it is left with; `None` for all. Implies
    /// [`no_new_privileges`](LaunchPlan::no_new_privileges) and no
    /// capabilities.
    pub system_calls: Option<SystemCalls>,
    /// The only files, or files below directories, that it may execute.
    #[serde(with = "os_bytes::optional_paths")]
    pub executables: Option<Vec<PathBuf>>,
    /// Whether abstract sockets and signals reach only processes that are
    /// contained with it, where the kernel can do that.
    pub scoped: bool,
}

/// What a process may ask of the kernel beyond ordinary work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SystemCalls {
    /// Whether it may make internet sockets.
    pub internet: bool,
    /// Whether it is kept from executing what is in memory only.
    pub no_memory_programs: bool,
}

impl Default for SystemCalls {
    fn default() -> Self {
        Self {
            internet: true,
            no_memory_programs: false,
        }
    }
}

impl LaunchPlan {
    /// A program, started in `cwd` with its own name as the only argument.
    pub fn new(program: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        let program = program.into();
        Self {
            arguments: vec![program.clone().into_os_string()],
            program,
            cwd: cwd.into(),
            ..Self::default()
        }
    }

    /// The first slots as standard input, output and error.
    #[must_use]
    pub fn standard_streams(mut self) -> Self {
        let streams = [(0, 0), (1, 1), (2, 2)];
        self.descriptors
            .extend(streams.map(|(slot, target)| DescriptorMapping { slot, target }));
        self
    }

    /// Where this program finds what the child knows as `path`.
    pub(crate) fn seen_from_here(&self, path: &Path) -> PathBuf {
        let inside = self.cwd.join(path);
        match &self.root {
            Some(root) => root.join(inside.strip_prefix("/").unwrap_or(&inside)),
            None => inside,
        }
    }
}

/// One descriptor of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptorMapping {
    /// Its position in the list given to [`launch`].
    pub slot: u16,
    /// Its number in the child, at most [`MAX_TARGET_FD`].
    pub target: RawFd,
}

/// A limit the system keeps for each process by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// Of what.
    pub resource: Resource,
    /// How much; both the soft and the hard limit, except that a process whose
    /// CPU time is up gets `SIGXCPU` some seconds before it is killed.
    pub value: u64,
}

/// What an [`Rlimit`] bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Resource {
    /// Bytes of address space.
    AddressSpace,
    /// Bytes of a core dump.
    CoreBytes,
    /// Seconds of CPU time.
    CpuSeconds,
    /// Bytes of any file it writes.
    FileBytes,
    /// Open descriptors.
    OpenFiles,
    /// Processes of the same user; does not bind root.
    Processes,
}

/// A process that has executed its program.
#[derive(Debug)]
pub struct Launched {
    /// Its number; its own until it has been collected through the handle.
    pub pid: i32,
    /// The handle to wait for it, collect it and signal it.
    pub pidfd: PidFd,
}

/// Starts a process. Returns when it has executed its program. `slots` are the
/// descriptors the plan names by position.
///
/// The calling thread sleeps until then, under a millisecond as a rule. The
/// child is not waited for by anybody else: whoever has the handle must
/// [collect](PidFd::reap) it.
///
/// ```
/// use halter_exec::host::{LaunchPlan, launch};
/// use std::os::fd::AsFd;
/// use std::time::Duration;
///
/// let null = std::fs::File::open("/dev/null").unwrap();
/// let null = null.as_fd();
/// let plan = LaunchPlan::new("/bin/true", "/").standard_streams();
/// let child = launch(&plan, &[null, null, null]).unwrap();
/// assert!(child.pidfd.has_ended(Duration::from_secs(60)));
/// let exit = child.pidfd.reap().unwrap().unwrap();
/// assert!(exit.status.success());
/// ```
///
/// # Errors
/// The step that failed and what the system said about it; nothing is left of
/// the process then.
pub fn launch(plan: &LaunchPlan, slots: &[BorrowedFd<'_>]) -> Result<Launched, LaunchFailure> {
    sys::spawn(&child_plan(plan, slots)?)
}

fn unusable() -> LaunchFailure {
    LaunchFailure::new(LaunchStep::Input, libc::EINVAL)
}

fn text(value: &OsStr) -> Result<CString, LaunchFailure> {
    CString::new(value.as_bytes()).map_err(|_| unusable())
}

/// The plan in the system's terms.
fn child_plan<'a>(
    plan: &LaunchPlan,
    slots: &[BorrowedFd<'a>],
) -> Result<ChildPlan<'a>, LaunchFailure> {
    let slot = |slot: u16| slots.get(usize::from(slot)).copied().ok_or_else(unusable);
    let mut fds = Vec::with_capacity(plan.descriptors.len());
    for mapping in &plan.descriptors {
        if !(0..=MAX_TARGET_FD).contains(&mapping.target) {
            return Err(unusable());
        }
        fds.push((slot(mapping.slot)?, mapping.target));
    }
    let refused =
        |entry| move |error: io::Error| LaunchFailure::of(LaunchStep::ControlGroup, entry, &error);
    let cgroup = plan.cgroup.as_deref().map(sys::open_cgroup);
    let mut limit_groups = Vec::with_capacity(plan.limit_groups.len());
    for (path, entry) in plan.limit_groups.iter().zip(1..) {
        limit_groups.push(sys::open_limit_group(path).map_err(refused(entry))?);
    }
    let root = plan.root.as_ref().map(|root| text(root.as_os_str()));
    let rules = plan.file_rules.as_ref();
    let ruleset = rules.map(|rules| {
        let optional = &plan.containment.optional_file_rules;
        sys::file_ruleset(rules, optional, plan.root.as_deref(), &plan.cwd)
    });
    let contained = &plan.containment;
    let confined = contained.executables.is_some() || contained.scoped;
    let exec_ruleset =
        confined.then(|| sys::execute_ruleset(contained.executables.as_deref(), contained.scoped));
    let filters = match &contained.system_calls {
        Some(calls) => sys::system_call_filters(calls)
            .map_err(|error| LaunchFailure::of(LaunchStep::SystemCalls, 0, &error))?,
        None => Vec::new(),
    };
    let namespaces = match contained.namespaces {
        Some((handle, kinds)) => Some((slot(handle)?, kinds)),
        None => None,
    };
    let arguments = plan.arguments.iter().map(|word| text(word));
    Ok(ChildPlan {
        path: text(plan.program.as_os_str())?,
        argv: arguments.collect::<Result<_, _>>()?,
        envp: variables(&plan.environment)?,
        root: root.transpose()?,
        cwd: text(plan.cwd.as_os_str())?,
        fds,
        terminal: plan.terminal.map(slot).transpose()?,
        cgroup: cgroup.transpose().map_err(refused(0))?,
        limit_groups,
        rlimits: plan.rlimits.clone(),
        no_new_privileges: plan.no_new_privileges
            || plan.file_rules.is_some()
            || confined
            || contained.system_calls.is_some(),
        ruleset: ruleset.transpose()?,
        exec_ruleset: exec_ruleset.transpose()?,
        drop_capabilities: contained.system_calls.is_some(),
        filters,
        namespaces,
    })
}

/// Variables as `name=value`.
fn variables(environment: &Environment) -> Result<Vec<CString>, LaunchFailure> {
    let pair = |(name, value): (&OsStr, &OsStr)| {
        let pair = [name.as_bytes(), b"=", value.as_bytes()].concat();
        CString::new(pair).map_err(|_| unusable())
    };
    environment.iter().map(pair).collect()
}

impl LaunchPlan {
    /// Whether every text can be handed to a process, said by name and never
    /// by value.
    pub(crate) fn check(&self) -> Result<(), ExecError> {
        for (name, value) in self.environment.iter() {
            let shown = || format!("environment variable `{}`", name.display());
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return Err(ExecError::invalid(
                    shown(),
                    "a name is not empty and has no `=`",
                ));
            }
            free_of_nul(shown, name)?;
            free_of_nul(shown, value)?;
        }
        for argument in &self.arguments {
            free_of_nul(|| "an argument".to_owned(), argument)?;
        }
        free_of_nul(|| "the program's path".to_owned(), self.program.as_os_str())?;
        free_of_nul(|| "the working directory".to_owned(), self.cwd.as_os_str())
    }
}

fn free_of_nul(what: impl Fn() -> String, value: &OsStr) -> Result<(), ExecError> {
    if value.as_bytes().contains(&0) {
        return Err(ExecError::invalid(
            what(),
            "it contains a NUL byte; remove it",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_with_impossible_names_or_values_are_refused_without_showing_the_value() {
        for (name, value) in [("", "x"), ("A=B", "x"), ("A", "s3cret\0")] {
            let mut plan = LaunchPlan::new("/bin/true", "/");
            plan.environment.set(name, value);
            let error = plan.check().unwrap_err();
            assert_eq!(error.code(), "invalid_input");
            assert!(!error.to_string().contains("s3cret"));
        }
    }

    #[test]
    fn a_missing_slot_and_an_impossible_number_are_input_errors() {
        let mut plan = LaunchPlan::new("/bin/true", "/").standard_streams();
        assert_eq!(launch(&plan, &[]).unwrap_err().step, LaunchStep::Input);
        let null = std::fs::File::open("/dev/null").unwrap();
        let slots = [std::os::fd::AsFd::as_fd(&null)];
        plan.descriptors = vec![DescriptorMapping {
            slot: 0,
            target: MAX_TARGET_FD + 1,
        }];
        assert_eq!(launch(&plan, &slots).unwrap_err().step, LaunchStep::Input);
    }
}
