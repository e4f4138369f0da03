//! Why a process could not be made.

use std::io;

use serde::{Deserialize, Serialize};

use super::LaunchPlan;
use crate::error::ExecError;

/// What was being done when a launch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum LaunchStep {
    /// Turning the plan into what the system takes.
    Input = 0,
    /// Creating the process.
    Clone = 1,
    /// Entering a control group.
    ControlGroup = 2,
    /// Making its session.
    Session = 3,
    /// Taking its controlling terminal.
    Terminal = 4,
    /// Changing its root directory.
    Root = 5,
    /// Entering its working directory.
    WorkingDirectory = 6,
    /// Arranging its descriptors.
    Descriptors = 7,
    /// Setting a resource limit.
    Limits = 8,
    /// Giving up the way to new privileges.
    NoNewPrivileges = 9,
    /// Restricting its access to files.
    FileRules = 10,
    /// Executing the program.
    Exec = 11,
    /// Entering the sandbox's name spaces.
    Namespaces = 12,
    /// Giving up capabilities.
    Capabilities = 13,
    /// Restricting its system calls.
    SystemCalls = 14,
}

impl LaunchStep {
    /// The step in words that follow "while".
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Input => "reading the plan",
            Self::Clone => "creating the process",
            Self::ControlGroup => "entering its control group",
            Self::Session => "making its session",
            Self::Terminal => "taking its terminal",
            Self::Root => "changing its root directory",
            Self::WorkingDirectory => "entering the working directory",
            Self::Descriptors => "arranging its descriptors",
            Self::Limits => "setting a resource limit",
            Self::NoNewPrivileges => "giving up new privileges",
            Self::FileRules => "restricting its access to files",
            Self::Exec => "executing the program",
            Self::Namespaces => "entering the sandbox's name spaces",
            Self::Capabilities => "giving up capabilities",
            Self::SystemCalls => "restricting its system calls",
        }
    }
}

/// The step of a launch that failed, and what the system said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("launch failed while {}: {}", step.describe(), io::Error::from_raw_os_error(*errno))]
pub struct LaunchFailure {
    /// The step.
    pub step: LaunchStep,
    /// The system's error number.
    pub errno: i32,
    /// Which of several control groups, descriptors, limits or rules it was,
    /// counted from 0.
    pub entry: u32,
}

impl LaunchFailure {
    pub(crate) fn new(step: LaunchStep, errno: i32) -> Self {
        Self {
            step,
            errno,
            entry: 0,
        }
    }

    pub(crate) fn of(step: LaunchStep, entry: usize, error: &io::Error) -> Self {
        Self {
            step,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
            entry: u32::try_from(entry).unwrap_or(u32::MAX),
        }
    }

    /// The failure of this plan in words for the one who wanted `program` to
    /// run: which thing was missing, and what to do about it.
    #[must_use]
    pub fn explain(self, plan: &LaunchPlan, program: &str) -> ExecError {
        let source = io::Error::from_raw_os_error(self.errno);
        let program = program.to_owned();
        let entry = usize::try_from(self.entry).unwrap_or(usize::MAX);
        match (self.step, self.errno) {
            (LaunchStep::WorkingDirectory, libc::ENOENT) => ExecError::WorkingDirectoryGone {
                path: plan.cwd.clone(),
            },
            (LaunchStep::WorkingDirectory, _) => ExecError::WorkingDirectoryUnusable {
                path: plan.cwd.clone(),
                source,
            },
            (LaunchStep::Exec, libc::ENOENT | libc::ENOTDIR)
                if !plan.seen_from_here(&plan.program).exists() =>
            {
                ExecError::ProgramNotFound {
                    program,
                    searched: plan.program.display().to_string(),
                }
            }
            (LaunchStep::Exec, libc::E2BIG) => ExecError::ArgumentsTooLong { program },
            (LaunchStep::Exec, libc::EACCES | libc::EPERM) => ExecError::ProgramDenied {
                path: plan.program.clone(),
            },
            (LaunchStep::Exec, _) => ExecError::ProgramUnusable {
                path: plan.program.clone(),
                source,
            },
            (LaunchStep::Root, _) => ExecError::SandboxUnavailable {
                level: "chroot",
                reason: format!(
                    "`{}` cannot become the root directory: {source}",
                    plan.root.clone().unwrap_or_default().display()
                ),
            },
            (LaunchStep::Limits, _) => ExecError::SandboxUnavailable {
                level: "limits",
                reason: match plan.rlimits.get(entry) {
                    Some(limit) => format!("{limit:?} cannot be set: {source}"),
                    None => source.to_string(),
                },
            },
            (LaunchStep::NoNewPrivileges, _) => ExecError::SandboxUnavailable {
                level: "no_new_privileges",
                reason: source.to_string(),
            },
            (LaunchStep::Namespaces, _) => ExecError::SandboxUnavailable {
                level: "namespaces",
                reason: format!("its first process cannot be joined: {source}"),
            },
            (LaunchStep::Capabilities | LaunchStep::SystemCalls, _) => {
                ExecError::SandboxUnavailable {
                    level: "seccomp",
                    reason: format!("{} failed: {source}", self.step.describe()),
                }
            }
            (LaunchStep::FileRules, _) => ExecError::SandboxUnavailable {
                level: "landlock",
                reason: file_rule_reason(plan, entry, &source),
            },
            _ => ExecError::Spawn {
                program,
                step: self.step.describe(),
                source,
            },
        }
    }
}

/// Entry 0 is the restriction as a whole, the rules follow.
fn file_rule_reason(plan: &LaunchPlan, entry: usize, source: &io::Error) -> String {
    let rules = plan.file_rules.as_deref().unwrap_or_default();
    match entry.checked_sub(1).and_then(|index| rules.get(index)) {
        Some(rule) => format!(
            "no rule can be made for `{}`: {source}",
            rule.path.display()
        ),
        None => format!("this kernel does not restrict files (needs Landlock ABI 3): {source}"),
    }
}
