//! What a process may reach and use: as data, and as it is established.
//!
//! A level that was asked for and cannot be had is an error before anything
//! is started; nothing is weakened in silence.

mod contained;
mod container;
mod containment;
mod features;
mod file_rules;
mod ladder;
mod placeholder;
mod probe;
mod resources;

use std::net::TcpListener;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

pub use container::{KeptMount, make_placeholder, mount_missing, remove_placeholder};
pub use containment::{Containment, ContainmentRung, MissingRung, NetworkAccess};
pub use features::{landlock_lists_programs, landlock_scopes};
pub use file_rules::{FileAccess, FileRule};
pub use ladder::{IsolationLevel, LevelState, isolation_ladder};
pub use placeholder::is_placeholder;
pub(crate) use placeholder::placeholder_content;
pub use probe::probe_containment;
pub use resources::{LimitHits, LimitKind, LimitMechanism, LimitReport, ResourceLimits};

use self::contained::Contained;
use crate::error::ExecError;
use crate::launch::{LaunchFailure, LaunchPlan, Launched, launch};
use crate::sys::LimitGroups;

/// A sandbox as data. The default confines nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxSpec {
    /// The directory that becomes the process's `/`.
    pub root: Option<PathBuf>,
    /// The directory to start in, as the process sees it; `None` for the
    /// command's own.
    pub working_directory: Option<PathBuf>,
    /// What it and everything it starts may use together.
    pub limits: ResourceLimits,
    /// The only files it may touch by name, as the process sees them; `None`
    /// for no restriction.
    pub file_rules: Option<Vec<FileRule>>,
    /// Whether it can never gain privileges by executing a file. File rules
    /// imply it.
    pub no_new_privileges: bool,
    /// What it is kept from reaching; `None` for nothing.
    pub containment: Option<Containment>,
}

/// A sandbox whose limits are in place, ready for processes.
#[derive(Debug)]
pub struct Sandbox {
    spec: SandboxSpec,
    groups: LimitGroups,
    contained: Option<Contained>,
}

impl Sandbox {
    /// Puts the limits of `spec` in place under a name that is this sandbox's
    /// alone, of letters, digits, `-` and `_`. Groups of that name that are
    /// there already are taken over, so that a program finds its sandboxes
    /// again after a crash. Groups stay until they are
    /// [removed](Self::remove).
    ///
    /// # Errors
    /// If a limit cannot be kept here; the error names it and says why.
    pub fn establish(spec: SandboxSpec, name: &str) -> Result<Self, ExecError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(ExecError::invalid(
                "the sandbox's name",
                "it consists of letters, digits, `-` and `_`",
            ));
        }
        spec.limits.check()?;
        if spec.containment.is_some() && (spec.root.is_some() || spec.file_rules.is_some()) {
            return Err(ExecError::invalid(
                "the sandbox",
                "containment has a root and file rules of its own",
            ));
        }
        let contained = match &spec.containment {
            Some(containment) => {
                let made = Contained::establish(containment);
                Some(made.map_err(|missing| missing.at(containment.rung))?)
            }
            None => None,
        };
        let groups = LimitGroups::establish(&spec.limits, name)?;
        Ok(Self {
            spec,
            groups,
            contained,
        })
    }

    /// Runs a program in it, as any other would be, and says what is in the
    /// way. Takes a few milliseconds; what has worked once for a sandbox of
    /// this kind is not tried again.
    ///
    /// # Errors
    /// Why nothing can be run in it, and what would help.
    pub fn try_out(&self) -> Result<(), MissingRung> {
        match &self.contained {
            Some(contained) => probe::try_out(contained),
            None => Ok(()),
        }
    }

    /// Adds paths to those that are protected, where the rung can protect any,
    /// from the next time that it [covers](Self::cover_again) what is open.
    pub fn protect_more(&self, paths: &[PathBuf]) {
        if let Some(contained) = &self.contained {
            contained.protect_more(paths);
        }
    }

    /// Protects and hides what is open of that: what somebody outside has
    /// replaced, which takes what lies on it away for whatever runs inside, and
    /// what came in addition.
    /// Returns where something was mounted, which processes that are within
    /// have to enter anew to be kept from it. Blocks for a moment.
    ///
    /// # Errors
    /// What failed; some of it may be open to processes inside.
    pub fn cover_again(&self) -> Result<Vec<PathBuf>, MissingRung> {
        match &self.contained {
            Some(contained) => contained.cover_again(),
            None => Ok(Vec::new()),
        }
    }

    /// Has the process of this plan begin its life in the sandbox. Its own
    /// [control group](LaunchPlan::cgroup) must be below
    /// [`cgroup_parent`](Self::cgroup_parent).
    pub fn confine(&self, plan: &mut LaunchPlan) {
        if let Some(root) = &self.spec.root {
            plan.root = Some(root.clone());
        }
        if let Some(directory) = &self.spec.working_directory {
            plan.cwd.clone_from(directory);
        }
        if let Some(rules) = &self.spec.file_rules {
            plan.file_rules = Some(rules.clone());
        }
        plan.no_new_privileges |= self.spec.no_new_privileges;
        plan.limit_groups.extend(self.groups.entered().cloned());
        plan.rlimits.extend(self.groups.rlimits());
        if plan.cgroup.is_none() {
            plan.cgroup = self.groups.tree_parent().map(Path::to_owned);
        }
    }

    /// The same, and contains the process as far as data can: by Landlock and
    /// system calls. Name spaces are this program's, so a sandbox that has
    /// them only confines. For a plan that another program carries out.
    pub fn confine_planned(&self, plan: &mut LaunchPlan) {
        self.confine(plan);
        if let Some(contained) = &self.contained
            && contained.handle().is_none()
        {
            contained.confine(plan, 0);
        }
    }

    /// The same, and hands the plan what it takes to be contained: a handle
    /// for a slot of its own. A plan for another program cannot be contained.
    pub(crate) fn contain<'a>(&'a self, plan: &mut LaunchPlan, slots: &mut Vec<BorrowedFd<'a>>) {
        self.confine(plan);
        if let Some(contained) = &self.contained {
            let slot = u16::try_from(slots.len()).unwrap_or(u16::MAX);
            contained.confine(plan, slot);
            slots.extend(contained.handle());
        }
    }

    /// Starts the process of this plan in the sandbox, contained as well.
    ///
    /// # Errors
    /// What was missing, by name; nothing is left of the process then.
    pub fn launch(
        &self,
        plan: &LaunchPlan,
        slots: &[BorrowedFd<'_>],
    ) -> Result<Launched, ExecError> {
        let (plan, slots) = self.contained(plan, slots);
        let program = plan.program.display().to_string();
        launch(&plan, &slots).map_err(|failure| failure.explain(&plan, &program))
    }

    /// The same for a plan that another program made, which explains what
    /// fails.
    ///
    /// # Errors
    /// Which step failed; nothing is left of the process then.
    pub fn launch_planned(
        &self,
        plan: &LaunchPlan,
        slots: &[BorrowedFd<'_>],
    ) -> Result<Launched, LaunchFailure> {
        let (plan, slots) = self.contained(plan, slots);
        launch(&plan, &slots)
    }

    fn contained<'a>(
        &'a self,
        plan: &LaunchPlan,
        slots: &[BorrowedFd<'a>],
    ) -> (LaunchPlan, Vec<BorrowedFd<'a>>) {
        let (mut plan, mut slots) = (plan.clone(), slots.to_vec());
        self.contain(&mut plan, &mut slots);
        (plan, slots)
    }

    /// The socket that listens on the loopback interface of
    /// [`NetworkAccess::Proxy`], for whoever serves the processes inside. Each
    /// call returns a handle of the same socket.
    ///
    /// # Errors
    /// If there are no more descriptors to be had.
    pub fn proxy_listener(&self) -> Result<Option<TcpListener>, ExecError> {
        let listener = self.contained.as_ref().and_then(Contained::listener);
        listener
            .map(TcpListener::try_clone)
            .transpose()
            .map_err(|source| ExecError::io("taking the proxy's socket", source))
    }

    pub(crate) fn exchange(&self) -> Option<(BorrowedFd<'_>, &Path)> {
        self.contained.as_ref().map(Contained::exchange)
    }

    /// What it was made from.
    #[must_use]
    pub fn spec(&self) -> &SandboxSpec {
        &self.spec
    }

    /// Which mechanism keeps each limit that was asked for.
    #[must_use]
    pub fn limits(&self) -> &[LimitReport] {
        self.groups.reports()
    }

    /// How often the limits were in the way so far.
    #[must_use]
    pub fn hits(&self) -> LimitHits {
        self.groups.hits()
    }

    /// The version 2 control group that carries limits: the groups of the
    /// processes inside must be made in it. `None` for anywhere.
    #[must_use]
    pub fn cgroup_parent(&self) -> Option<&Path> {
        self.groups.tree_parent()
    }

    /// Removes the groups that carry the limits. Nothing happens if they are
    /// gone.
    ///
    /// # Errors
    /// If something still lives in one.
    pub fn remove(&self) -> Result<(), ExecError> {
        self.groups
            .remove()
            .map_err(|source| ExecError::io("removing the sandbox's groups", source))
    }

    /// Kills what lives in, and removes, groups that an earlier run left
    /// behind: those whose name begins with `prefix`, unless `keep` wants the
    /// name. Returns those that could not be removed in time.
    pub fn sweep(prefix: &str, keep: impl FnMut(&str) -> bool) -> Vec<PathBuf> {
        LimitGroups::sweep(prefix, keep)
    }
}
