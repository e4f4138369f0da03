//! The one object tools ask before they touch anything.

use std::fmt::Debug;
use std::sync::Arc;

use crate::door::FileDoor;
use crate::error::PolicyError;
use crate::judge;
use crate::permission::{Decision, PermissionTree};
use crate::settings::{PolicySettings, SessionScope};
use crate::shell::{self, ShellDecision, ShellJudge};
use crate::shell_files;
use halter_protocol::{Action, CallToJudge, Objection, PolicyVerdict};

/// What a session's tools may do. Every method that fails denies.
///
/// Paths have no verdict method on purpose: a path that was checked and opened
/// later is a race. [`ToolPolicy::door`] checks and opens in one step.
pub trait ToolPolicy: Send + Sync + Debug {
    /// Decides about a call before it starts, from what its tool says it would
    /// touch. The door and the shell check again when they are used.
    fn judge(&self, call: &CallToJudge) -> PolicyVerdict {
        judge::judge(self, call)
    }
    /// The permission tree, if the policy has one.
    fn permissions(&self) -> Option<&PermissionTree> {
        None
    }
    /// The only way to files.
    fn door(&self) -> &FileDoor;
    /// The most that may be read of one file, in bytes.
    fn max_read_bytes(&self) -> u64;
    /// Fails if there is no shell.
    ///
    /// # Errors
    /// [`PolicyError::ShellDisabled`].
    fn check_shell_enabled(&self) -> Result<(), PolicyError>;
    /// Fails unless every program the command line would run is allowed, or
    /// could be by asking: whoever runs it has asked.
    ///
    /// # Errors
    /// [`PolicyError::ShellCommandRejected`], or
    /// [`PolicyError::ShellDisabled`].
    fn check_shell_command_strict(&self, command: &str) -> Result<(), PolicyError>;
    /// Fails if setting this environment variable for a command could decide
    /// which program or code runs, as `PATH` or `LD_PRELOAD` do.
    ///
    /// # Errors
    /// [`PolicyError::ShellCommandRejected`].
    fn check_shell_variable(&self, name: &str) -> Result<(), PolicyError> {
        shell::check_variable(name)
    }
    /// Fails unless the host may be reached.
    ///
    /// # Errors
    /// [`PolicyError::HostDenied`].
    fn check_host(&self, host: &str) -> Result<(), PolicyError> {
        Err(PolicyError::HostDenied {
            host: host.to_owned(),
            allowed: Vec::new(),
        })
    }
    /// The most time one shell command may get, in seconds.
    fn shell_timeout_secs(&self) -> u64;
}

/// The policy that [`PolicySettings`] describe, bound to one session.
#[derive(Debug)]
pub struct StandardPolicy {
    door: FileDoor,
    judge: ShellJudge,
    tree: PermissionTree,
    shell_enabled: bool,
    shell_timeout_secs: u64,
    max_read_bytes: u64,
    allowed_hosts: Vec<String>,
}

impl StandardPolicy {
    /// Binds the settings to a session: roots are resolved and pinned here,
    /// once, and never again from anything a model says.
    ///
    /// # Errors
    /// The session's directory is missing or not absolute, a root is not a
    /// directory, or a sensitive pattern or a rule is malformed. A root that
    /// does not exist is no error: a write root is created by the first write
    /// into it.
    pub fn bind(settings: PolicySettings, scope: SessionScope) -> Result<Self, PolicyError> {
        let door = FileDoor::bind(&settings, &scope)?;
        let programs = settings.allowed_shell_commands.clone();
        Ok(Self {
            tree: PermissionTree::bind(&settings.permissions, programs, door.working_dir())?,
            door,
            judge: ShellJudge::new(settings.allowed_shell_commands),
            shell_enabled: settings.shell_enabled,
            shell_timeout_secs: settings.shell_timeout_secs,
            max_read_bytes: settings.max_read_bytes,
            allowed_hosts: settings.allowed_hosts,
        })
    }
}

impl StandardPolicy {
    /// Decides about a command line: what it would run, and which files it
    /// names.
    #[must_use]
    pub fn decide_shell_command(&self, command: &str) -> ShellDecision {
        self.judge
            .examine(command, |parts| shell_files::check(&self.door, parts))
    }

    /// Decides about a call: first the policy, which nothing passes, then the
    /// permission tree.
    ///
    /// # Errors
    /// What the policy denies.
    pub fn decide_call(&self, call: &CallToJudge) -> Result<Decision, Box<Objection>> {
        let mut shell = None;
        for action in &call.actions {
            match action {
                Action::Run { command } => {
                    self.check_shell_enabled()
                        .map_err(|it| Box::new(it.objection()))?;
                    match self.decide_shell_command(command) {
                        ShellDecision::Deny(refusal) => return Err(Box::new(refusal.objection())),
                        ShellDecision::Ask(refusal) => {
                            shell.get_or_insert(ShellDecision::Ask(refusal));
                        }
                        ShellDecision::Allow => {}
                    }
                }
                action => {
                    judge::check(self, action).map_err(|it| Box::new(it.objection()))?;
                }
            }
        }
        Ok(self.tree.decide(call, shell.as_ref()))
    }
}

/// The commands that the lines of a call would run, for a person to read.
fn commands_of(actions: &[Action]) -> Vec<String> {
    let lines = actions.iter().filter_map(|action| match action {
        Action::Run { command } => shell::parts(command).ok(),
        _ => None,
    });
    let parts = lines.flat_map(|line| line.parts);
    parts.map(|part| part.to_string()).collect()
}

/// Makes the policies of sessions.
pub trait PolicyBinder: Send + Sync {
    /// The policy of a session. Blocking: roots are opened here.
    ///
    /// # Errors
    /// The session's directory or a root cannot be used, or a pattern is
    /// malformed.
    fn bind(
        &self,
        settings: PolicySettings,
        scope: SessionScope,
    ) -> Result<Arc<dyn ToolPolicy>, PolicyError>;
}

/// Makes [`StandardPolicy`]s.
#[derive(Debug, Clone, Copy, Default)]
pub struct StandardPolicies;

impl PolicyBinder for StandardPolicies {
    fn bind(
        &self,
        settings: PolicySettings,
        scope: SessionScope,
    ) -> Result<Arc<dyn ToolPolicy>, PolicyError> {
        Ok(Arc::new(StandardPolicy::bind(settings, scope)?))
    }
}

impl ToolPolicy for StandardPolicy {
    fn judge(&self, call: &CallToJudge) -> PolicyVerdict {
        self.tree.hold_session_rules(&call.session_rules);
        let verdict = match self.decide_call(call) {
            Ok(decision) => decision.into_verdict(),
            Err(objection) => PolicyVerdict::Deny(*objection),
        };
        match verdict {
            PolicyVerdict::Ask(objection) => PolicyVerdict::Ask(Objection {
                parts: commands_of(&call.actions),
                ..objection
            }),
            other => other,
        }
    }

    fn permissions(&self) -> Option<&PermissionTree> {
        Some(&self.tree)
    }

    fn door(&self) -> &FileDoor {
        &self.door
    }

    fn max_read_bytes(&self) -> u64 {
        self.max_read_bytes
    }

    fn check_shell_enabled(&self) -> Result<(), PolicyError> {
        if self.shell_enabled {
            Ok(())
        } else {
            Err(PolicyError::ShellDisabled)
        }
    }

    fn check_shell_command_strict(&self, command: &str) -> Result<(), PolicyError> {
        self.check_shell_enabled()?;
        match self.decide_shell_command(command) {
            ShellDecision::Deny(refusal) => Err(refusal.into_error()),
            // Whether a person has been asked is the pipeline's to know.
            ShellDecision::Ask(_) | ShellDecision::Allow => Ok(()),
        }
    }

    fn check_host(&self, host: &str) -> Result<(), PolicyError> {
        let allows = |allowed: &String| allowed == "*" || allowed.eq_ignore_ascii_case(host);
        if self.allowed_hosts.iter().any(allows) {
            return Ok(());
        }
        Err(PolicyError::HostDenied {
            host: host.to_owned(),
            allowed: self.allowed_hosts.clone(),
        })
    }

    fn shell_timeout_secs(&self) -> u64 {
        self.shell_timeout_secs
    }
}
