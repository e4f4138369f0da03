//! The one object tools ask before they touch anything.

use std::cell::RefCell;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::door::{FileDoor, without_dots};
use crate::error::{Access, PolicyError, SubagentLimitKind};
use crate::judge;
use crate::limits::{CONCURRENT_SUBAGENTS, MAX_HOST_BYTES, MAX_JOINED_PROGRAMS, SUBAGENT_DEPTH};
use crate::network::{Destination, HostRefusal, NetworkPolicy};
use crate::permission::{Decision, LEAVES_SANDBOX, PermissionTree, PlacedCall, SoftLimits};
use crate::sandbox::{self, ElsewhereBounds, SandboxBounds, SandboxMode};
use crate::settings::{PolicySettings, ProgramList, SessionScope, SoftRoots};
use crate::shell::{self, ShellDecision, ShellJudge, ShellRefusal, UNLISTED};
use crate::shell_files::{ChangedBeyond, NamedFiles};
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
    /// Has these allow rules, and no others, hold because a person approved
    /// them for the session. Returns, once, what is wrong with those that
    /// cannot be used.
    fn hold_session_rules(&self, _rules: &[String]) -> Vec<String> {
        Vec::new()
    }
    /// The permission tree, if the policy has one.
    fn permissions(&self) -> Option<&PermissionTree> {
        None
    }
    /// The only way to files.
    fn door(&self) -> &FileDoor;
    /// The most that may be read of one file, in bytes.
    fn max_read_bytes(&self) -> u64;
    /// The policy for a call that was judged and is now to run: where it was
    /// let through to files beyond roots that nobody has set, or to hosts, one
    /// that opens them. Blocking.
    fn for_judged_call(&self, _actions: &[Action]) -> Option<Arc<dyn ToolPolicy>> {
        None
    }
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
    /// As [`Self::check_shell_command_strict`], for a shell that is in this
    /// directory: files that the line names are looked for there.
    ///
    /// # Errors
    /// As [`Self::check_shell_command_strict`].
    fn check_shell_command_in(
        &self,
        command: &str,
        _directory: Option<&Path>,
    ) -> Result<(), PolicyError> {
        self.check_shell_command_strict(command)
    }
    /// Fails if setting this environment variable for a command could decide
    /// which program or code runs, as `PATH` or `LD_PRELOAD` do.
    ///
    /// # Errors
    /// [`PolicyError::ShellCommandRejected`].
    fn check_shell_variable(&self, name: &str) -> Result<(), PolicyError> {
        shell::check_variable(name)
    }
    /// Fails unless the host, with or without a port, may be reached, as far as
    /// that can be said without looking it up.
    ///
    /// # Errors
    /// [`PolicyError::HostDenied`].
    fn check_host(&self, host: &str) -> Result<(), PolicyError> {
        let destination = destination(host)?;
        Ok(self.network().check(&destination)?)
    }
    /// What may be reached, for whoever connects: it checks the addresses that
    /// a host leads to as well.
    fn network(&self) -> NetworkPolicy {
        NetworkPolicy::closed()
    }
    /// The most time one shell command may get, in seconds.
    fn shell_timeout_secs(&self) -> u64;

    /// Fails if a session at this depth, 0 for one that no other started, may
    /// not start a subagent while `running` of the whole tree run.
    ///
    /// # Errors
    /// [`PolicyError::SubagentLimit`].
    fn check_subagent_spawn(&self, depth: u32, running: u32) -> Result<(), PolicyError> {
        check_subagents(depth, running, SUBAGENT_DEPTH, CONCURRENT_SUBAGENTS)
    }

    /// What the kernel should enforce for the command of this one call, where
    /// it was let through to more than the session's commands are. Looks at
    /// the disk.
    fn sandbox_for_call(&self, _home: Option<&Path>) -> Option<SandboxBounds> {
        None
    }

    /// Whether commands run in a sandbox.
    fn sandbox_mode(&self) -> SandboxMode {
        SandboxMode::Off
    }

    /// What the kernel should enforce for the session's commands, of a user with
    /// this home directory. Looks at the disk. Of a policy that does not say,
    /// nothing.
    fn sandbox(&self, _home: Option<&Path>) -> SandboxBounds {
        SandboxBounds::default()
    }
}

/// The policy that [`PolicySettings`] describe, bound to one session.
#[derive(Debug)]
pub struct StandardPolicy {
    settings: PolicySettings,
    scope: SessionScope,
    /// Files beyond the roots that calls were judged about, and where they led
    /// then.
    beyond: Mutex<Vec<BeyondRoots>>,
    /// A person let programs join the list, for the call that this is for.
    list_is_widened: bool,
    door: FileDoor,
    judge: ShellJudge,
    tree: PermissionTree,
    network: NetworkPolicy,
}

impl StandardPolicy {
    /// Binds the settings to a session: roots are resolved and pinned here,
    /// once, and never again from anything a model says.
    ///
    /// # Errors
    /// The session's directory is missing or not absolute, a root is not a
    /// directory, or a sensitive pattern, a host or a rule is malformed. A root that
    /// does not exist is no error: a write root is created by the first write
    /// into it.
    pub fn bind(mut settings: PolicySettings, scope: SessionScope) -> Result<Self, PolicyError> {
        if scope.files.is_some() {
            // Where a path beyond the roots leads there is not known before it
            // is opened, so nobody could be asked about it.
            settings.soft_roots = SoftRoots::default();
        }
        let door = FileDoor::bind(&settings, &scope)?;
        let programs = settings.allowed_shell_commands.clone();
        Ok(Self {
            tree: PermissionTree::bind(
                &settings.permissions,
                programs.clone(),
                door.working_dir(),
            )?,
            judge: ShellJudge::new(programs),
            network: NetworkPolicy::bind(&settings)?,
            door,
            settings,
            scope,
            beyond: Mutex::default(),
            list_is_widened: false,
        })
    }
}

/// A file beyond roots that nobody has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BeyondRoots {
    /// Absolute, as spelled.
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
    /// Where it leads.
    pub(crate) real: PathBuf,
    /// Why it is asked about.
    pub(crate) message: String,
}

/// Why a file beyond roots that nobody has set is asked about.
pub(crate) fn beyond_message(path: &Path, access: Access) -> String {
    let mut message = format!(
        "'{}' is outside the allowed directories; permissions.allow or {} can name it",
        path.display(),
        access.setting()
    );
    if access == Access::Write
        && let Some(settings) = sandbox::settings_at(path)
    {
        message.push_str("; ");
        message.push_str(&settings);
    }
    message
}

/// Files beyond the roots that are remembered between a judgement and its call.
const MAX_BEYOND: usize = 256;

impl StandardPolicy {
    /// Decides about a command line: what it would run, and which files it
    /// names, for a shell in this directory; absent, in the session's.
    #[must_use]
    pub fn decide_shell_command(&self, command: &str, directory: Option<&Path>) -> ShellDecision {
        self.examine_shell_command(command, directory).0
    }

    /// The decision, and the files beyond soft roots that the line changes.
    fn examine_shell_command(
        &self,
        command: &str,
        directory: Option<&Path>,
    ) -> (ShellDecision, Vec<ChangedBeyond>) {
        self.examine_by(&self.judge, command, directory)
    }

    fn examine_by(
        &self,
        judge: &ShellJudge,
        command: &str,
        directory: Option<&Path>,
    ) -> (ShellDecision, Vec<ChangedBeyond>) {
        let files = NamedFiles {
            door: &self.door,
            home: self.settings.permissions.home.as_deref(),
            start: directory.unwrap_or(Path::new("")),
            soft_roots: self.settings.soft_roots,
            changed_beyond: RefCell::default(),
        };
        let decision = judge.examine(command, |parts| files.check(parts));
        (decision, files.changed_beyond.into_inner())
    }

    /// Decides about a call: first the policy, which nothing passes, then the
    /// permission tree.
    ///
    /// # Errors
    /// What the policy denies.
    pub fn decide_call(&self, call: &CallToJudge) -> Result<Decision, Box<Objection>> {
        let mut shell = None;
        let mut beyond = Vec::new();
        let mut unset_hosts = Vec::new();
        let mut changed_beyond = Vec::new();
        let mut leaves_sandbox = false;
        let mut joins = Vec::new();
        for action in &call.actions {
            match action {
                Action::Run { command, directory } => {
                    self.check_shell_enabled()
                        .map_err(|it| Box::new(it.objection()))?;
                    let (programs, examined) = self.examine_widened(command, directory.as_deref());
                    joins.extend(programs);
                    changed_beyond.extend(examined.1.into_iter().map(|it| it.file));
                    match examined.0 {
                        ShellDecision::Deny(refusal) => return Err(Box::new(refusal.objection())),
                        ShellDecision::Ask(refusal) => {
                            shell.get_or_insert(ShellDecision::Ask(refusal));
                        }
                        ShellDecision::Allow => {}
                    }
                }
                Action::LeaveSandbox => leaves_sandbox = self.may_leave_sandbox()?,
                // Rules about hosts are the tree's, which also asks.
                Action::Reach { host } => match self.judge_host(host) {
                    Ok(()) => {}
                    Err(refusal) if refusal.may_ask => unset_hosts.push(refusal),
                    Err(refusal) => {
                        return Err(Box::new(PolicyError::from(refusal).objection()));
                    }
                },
                action => {
                    let checked = judge::check(self, action).map(|()| None);
                    let checked = checked.or_else(|error| self.beyond_roots(error).map(Some));
                    beyond.extend(checked.map_err(|it| Box::new(it.objection()))?);
                }
            }
        }
        self.remember(&beyond);
        self.remember(&changed_beyond);
        let limits = SoftLimits {
            shell: shell.as_ref(),
            files: &beyond,
            hosts: &unset_hosts,
            leaves_sandbox,
            joins: &joins,
        };
        let placed = PlacedCall {
            call,
            elsewhere: self.door.is_elsewhere().then_some(&self.door),
        };
        Ok(self.tree.decide(placed, &limits))
    }

    /// As [`examine_shell_command`](Self::examine_shell_command), with the
    /// programs that would have to join a list which was set. A person may let
    /// them; whatever else is refused stays so.
    fn examine_widened(
        &self,
        command: &str,
        directory: Option<&Path>,
    ) -> (Vec<ShellRefusal>, (ShellDecision, Vec<ChangedBeyond>)) {
        let first = self.examine_shell_command(command, directory);
        let ProgramList::Set(listed) = &self.settings.allowed_shell_commands else {
            return (Vec::new(), first);
        };
        let may_join =
            !listed.is_empty() && !self.settings.fixed_lists.programs && self.tree.mode().asks();
        let (mut names, mut joins) = (listed.clone(), Vec::new());
        while let (true, Err(refusal)) =
            (may_join, ShellJudge::new(names.clone()).check_line(command))
        {
            let is_new = !names.contains(&refusal.fragment);
            if refusal.rule != UNLISTED || !is_new || joins.len() == MAX_JOINED_PROGRAMS {
                return (Vec::new(), first);
            }
            names.push(refusal.fragment.clone());
            joins.push(refusal);
        }
        if joins.is_empty() {
            return (joins, first);
        }
        let widened = self.examine_by(&ShellJudge::new(names), command, directory);
        (joins, widened)
    }

    /// The programs that a call was let through to run besides those of a list
    /// that was set.
    fn joined_by(&self, actions: &[Action]) -> Vec<String> {
        let lines = actions.iter().filter_map(|action| match action {
            Action::Run { command, directory } => Some((command, directory.as_deref())),
            _ => None,
        });
        let joins =
            lines.flat_map(|(command, directory)| self.examine_widened(command, directory).0);
        joins.map(|refusal| refusal.fragment).collect()
    }

    /// What is asked of a sandbox of the machine that has the session's files,
    /// which searches them for what to hide and protect.
    fn sandbox_elsewhere(&self) -> SandboxBounds {
        let mode = self.settings.sandbox;
        let network = !self.network.clone().for_session().is_closed();
        if mode == SandboxMode::Off {
            return SandboxBounds {
                network,
                ..SandboxBounds::default()
            };
        }
        SandboxBounds {
            mode,
            writable: self.door.writable_elsewhere(),
            programs: sandbox::listed_programs(&self.settings),
            network,
            elsewhere: Some(Box::new(ElsewhereBounds {
                rules: self.door.rules(&self.settings, &self.scope),
                deny_rules: self.settings.permissions.denied_to_read(),
            })),
            ..SandboxBounds::default()
        }
    }

    /// Whether there is a sandbox that a command could leave.
    fn may_leave_sandbox(&self) -> Result<bool, Box<Objection>> {
        match self.settings.sandbox {
            SandboxMode::Off => Ok(false),
            SandboxMode::Prefer => Ok(true),
            SandboxMode::Require => {
                let message = "policy.sandbox = \"require\": no command runs outside the sandbox";
                let mut objection = Objection::new(LEAVES_SANDBOX, message);
                objection.remedy = Some("policy.sandbox".to_owned());
                Err(Box::new(objection))
            }
        }
    }

    fn judge_host(&self, host: &str) -> Result<(), HostRefusal> {
        self.network.check_settings(&destination(host)?)
    }

    /// A path that only roots which nobody has set keep closed.
    fn beyond_roots(&self, error: PolicyError) -> Result<BeyondRoots, PolicyError> {
        match self.door.outside_roots(&error) {
            Some((path, access)) if self.settings.soft_roots.include(access) => Ok(BeyondRoots {
                real: self.door.beyond_roots(&path, access)?,
                message: beyond_message(&path, access),
                path,
                access,
            }),
            _ => Err(error),
        }
    }

    fn remember(&self, beyond: &[BeyondRoots]) {
        if beyond.is_empty() {
            return;
        }
        let mut known = self.beyond.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|it| !beyond.iter().any(|new| new.path == it.path));
        known.extend_from_slice(beyond);
        let excess = known.len().saturating_sub(MAX_BEYOND);
        known.drain(..excess);
    }

    /// The directories that a call needs opened, as they were when it was
    /// judged.
    fn opened_for(&self, actions: &[Action]) -> Vec<(PathBuf, Access)> {
        let known = self.beyond.lock().unwrap_or_else(PoisonError::into_inner);
        let named = actions.iter().filter_map(|action| match action {
            Action::Read { path } => Some((path, Access::Read)),
            Action::Write { path } => Some((path, Access::Write)),
            _ => None,
        });
        let mut opened = Vec::new();
        for (path, access) in named {
            let path = without_dots(&self.door.working_dir().join(path));
            let judged = known
                .iter()
                .find(|it| it.path == path && it.access == access);
            if let Some(judged) = judged
                && self.door.beyond_roots(&path, access).ok().as_ref() == Some(&judged.real)
            {
                let whole = path.is_dir();
                let around = path.parent().map(Path::to_path_buf);
                opened.extend(whole.then_some(path).or(around).map(|it| (it, access)));
            }
        }
        let commands = actions.iter().filter_map(|action| match action {
            // Without a file that was judged, a line is not taken apart again.
            Action::Run { command, directory } if !known.is_empty() => Some((command, directory)),
            _ => None,
        });
        for (command, directory) in commands {
            let (_, (_, changed)) = self.examine_widened(command, directory.as_deref());
            let judged = changed.iter().filter(|it| known.contains(&it.file));
            let directories = judged.filter_map(ChangedBeyond::directory);
            opened.extend(directories.map(|it| (it.to_owned(), Access::Write)));
        }
        opened
    }
}

/// Reads the host of an action.
fn destination(host: &str) -> Result<Destination, HostRefusal> {
    Destination::parse(host).map_err(|why| HostRefusal {
        host: host.chars().take(MAX_HOST_BYTES).collect(),
        rule: "network.invalid_host",
        reason: format!("{why}; give a host, and a port after it if that is known"),
        remedy: None,
        may_ask: false,
    })
}

/// The hosts that a call says it would reach.
fn hosts_of(actions: &[Action]) -> Vec<Destination> {
    let hosts = actions.iter().filter_map(|action| match action {
        Action::Reach { host } => Destination::parse(host).ok(),
        _ => None,
    });
    hosts.collect()
}

/// The commands that the lines of a call would run, for a person to read.
fn commands_of(actions: &[Action]) -> Vec<String> {
    let lines = actions.iter().filter_map(|action| match action {
        Action::Run { command, .. } => shell::parts(command).ok(),
        _ => None,
    });
    let parts = lines.flat_map(|line| line.parts);
    let commands = parts.filter(|part| !part.words.is_empty());
    commands.map(|part| part.to_string()).collect()
}

fn check_subagents(
    depth: u32,
    running: u32,
    max_depth: u32,
    max_running: u32,
) -> Result<(), PolicyError> {
    let limits = [
        (SubagentLimitKind::Depth, depth, max_depth),
        (SubagentLimitKind::Concurrent, running, max_running),
    ];
    match limits
        .into_iter()
        .find(|(_, current, limit)| current >= limit)
    {
        Some((kind, current, limit)) => Err(PolicyError::SubagentLimit {
            kind,
            current,
            limit,
        }),
        None => Ok(()),
    }
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

    fn hold_session_rules(&self, rules: &[String]) -> Vec<String> {
        self.tree.hold_session_rules(rules)
    }

    fn permissions(&self) -> Option<&PermissionTree> {
        Some(&self.tree)
    }

    fn for_judged_call(&self, actions: &[Action]) -> Option<Arc<dyn ToolPolicy>> {
        let opened = self.opened_for(actions);
        let hosts = hosts_of(actions);
        let network = self.network();
        let closed = |it: &Destination| network.check(it).is_err();
        let joined = self.joined_by(actions);
        if opened.is_empty() && joined.is_empty() && !hosts.iter().any(closed) {
            return None;
        }
        let mut scope = self.scope.clone();
        scope.parents_judged = true;
        for (directory, access) in opened {
            match access {
                Access::Read => scope.extra_read_roots.push(directory),
                Access::Write => scope.extra_write_roots.push(directory),
            }
        }
        let mut settings = self.settings.clone();
        let widened = !joined.is_empty();
        if let (true, ProgramList::Set(names)) = (widened, &mut settings.allowed_shell_commands) {
            names.extend(joined);
        }
        let mut policy = Self::bind(settings, scope).ok()?;
        policy.list_is_widened = widened;
        policy.tree.hold_session_rules(&self.tree.session_rules());
        policy.network = policy.network.opened_for(hosts);
        Some(Arc::new(policy))
    }

    fn network(&self) -> NetworkPolicy {
        let approved = self.tree.approved_hosts();
        self.network.clone().with_approved(approved)
    }

    fn sandbox_for_call(&self, home: Option<&Path>) -> Option<SandboxBounds> {
        let more = &self.scope.extra_write_roots;
        let same = more.is_empty() && !self.list_is_widened;
        if self.settings.sandbox == SandboxMode::Off || same {
            return None;
        }
        let mut bounds = self.sandbox(home);
        sandbox::open(&mut bounds, &self.scope, &self.door);
        Some(bounds)
    }

    fn sandbox_mode(&self) -> SandboxMode {
        self.settings.sandbox
    }

    fn sandbox(&self, home: Option<&Path>) -> SandboxBounds {
        if self.door.is_elsewhere() {
            return self.sandbox_elsewhere();
        }
        let mut bounds = sandbox::bounds(&self.settings, &self.scope, &self.door, home);
        // What rules open counts, and an empty list opens nothing. What one call
        // may reach is not for the commands of the whole session.
        bounds.network = !self.network.clone().for_session().is_closed();
        bounds.asks_network =
            bounds.mode != SandboxMode::Off && self.network.is_unset() && self.tree.mode().asks();
        bounds
    }

    fn door(&self) -> &FileDoor {
        &self.door
    }

    fn max_read_bytes(&self) -> u64 {
        self.settings.max_read_bytes
    }

    fn check_shell_enabled(&self) -> Result<(), PolicyError> {
        if self.settings.shell_enabled {
            Ok(())
        } else {
            Err(PolicyError::ShellDisabled)
        }
    }

    fn check_shell_command_strict(&self, command: &str) -> Result<(), PolicyError> {
        self.check_shell_command_in(command, None)
    }

    fn check_shell_command_in(
        &self,
        command: &str,
        directory: Option<&Path>,
    ) -> Result<(), PolicyError> {
        self.check_shell_enabled()?;
        match self.decide_shell_command(command, directory) {
            ShellDecision::Deny(refusal) => Err(refusal.into_error()),
            // Whether a person has been asked is the pipeline's to know.
            ShellDecision::Ask(_) | ShellDecision::Allow => Ok(()),
        }
    }

    fn shell_timeout_secs(&self) -> u64 {
        self.settings.shell_timeout_secs
    }

    fn check_subagent_spawn(&self, depth: u32, running: u32) -> Result<(), PolicyError> {
        let settings = &self.settings;
        let (max_depth, max_running) = (
            settings.max_subagent_depth,
            settings.max_concurrent_subagents,
        );
        check_subagents(depth, running, max_depth, max_running)
    }
}
