//! From what a policy asks for to a sandbox that holds it, and what to say
//! about it.

mod attached;
mod note;
mod repositories;
mod tool_sets;
mod watch;

use crate::builtin::blocking;
use crate::limits::WATCHED_DIRECTORIES;
use crate::network::{Connector, FilteringProxy, HostResolver, proxy_environment};
pub use attached::AttachedProgram;
use halter_exec::host::Sandbox;
use halter_exec::{
    Containment, ContainmentRung, Environment, ExecError, NetworkAccess, SandboxSpec,
    probe_containment,
};
use halter_policy::limits::SANDBOX_WALK_ENTRIES;
use halter_policy::{NetworkPolicy, SandboxBounds, SandboxMode};
pub use note::refusal_note;
use repositories::RepositoriesBelow;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use watch::ProtectedPaths;

/// The port of the proxy on the loopback interface of a sandbox, which has no
/// other services.
const PROXY_PORT: u16 = 3128;

/// The rungs, strongest first.
const RUNGS: [ContainmentRung; 2] = [ContainmentRung::Namespaces, ContainmentRung::Landlock];

/// Whether a session's commands are in a sandbox, which, and why not a better
/// one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SandboxStatus {
    /// What the setting `policy.sandbox` asks for.
    pub requested: &'static str,
    /// The rung that is in use; absent: none.
    pub active: Option<&'static str>,
    /// What that rung does not hold of what was asked.
    pub not_held: Vec<String>,
    /// What is kept only as far as can be said, whatever the rung.
    pub limits: Vec<String>,
    /// Each rung that was tried, strongest first.
    pub rungs: Vec<RungStatus>,
}

/// Whether one rung can hold what was asked here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RungStatus {
    /// Its name.
    pub name: &'static str,
    /// What keeps it.
    pub mechanism: &'static str,
    /// Whether it was tried and works.
    pub supported: bool,
    /// Why not.
    pub reason: Option<String>,
    /// What would help: a setting, a package, a version of the kernel.
    pub fix: Option<String>,
}

/// No sandbox holds what the policy requires, so nothing runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "policy.sandbox = \"require\", and no sandbox of this machine holds what is asked: {reasons}; \
     see `halter sandbox status`, or set policy.sandbox to \"prefer\""
)]
pub struct SandboxRequired {
    reasons: String,
}

impl SandboxRequired {
    /// The stable name of this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "sandbox_required"
    }
}

/// A session's sandbox, or the knowledge that it has none.
#[derive(Debug)]
pub struct SessionSandbox {
    sandbox: Option<Arc<Sandbox>>,
    status: SandboxStatus,
    /// Absent where there is to be no sandbox, and while somebody looks.
    watched: Option<WatchedPaths>,
}

/// What the kernel does not keep from commands, and what of it they change.
#[derive(Debug)]
struct WatchedPaths {
    protected: ProtectedPaths,
    repositories: RepositoriesBelow,
}

/// What a command changed of that.
#[derive(Debug, Default)]
struct WatchedChanges {
    /// Protected paths, those of repositories included that were made earlier.
    changed: Vec<PathBuf>,
    /// The `.git` of new repositories.
    made: Vec<PathBuf>,
}

impl WatchedPaths {
    fn look(rung: Option<ContainmentRung>, bounds: &SandboxBounds) -> Self {
        let repositories = RepositoriesBelow::look(&bounds.writable);
        let mut protected = repositories::protected_in(repositories.known());
        protected.retain(|path| !bounds.protected.contains(path));
        if rung != Some(ContainmentRung::Namespaces) {
            protected.extend(bounds.protected.iter().cloned());
        }
        Self {
            protected: ProtectedPaths::look(protected),
            repositories,
        }
    }

    fn changes(&mut self) -> WatchedChanges {
        let changed = self.protected.changed();
        let made = self.repositories.made();
        let new = repositories::protected_in(&made).into_iter();
        let new: Vec<PathBuf> = new.filter(|path| !self.protected.has(path)).collect();
        self.protected.add(new);
        WatchedChanges { changed, made }
    }
}

/// The way of the processes in a sandbox to the hosts they may reach.
#[derive(Debug)]
pub struct ServedNetwork {
    /// Serves them until it is dropped.
    pub proxy: FilteringProxy,
    /// The variables that have programs use it.
    pub variables: Vec<(String, String)>,
}

impl SessionSandbox {
    /// Puts in place the strongest sandbox that this machine grants for these
    /// bounds. Blocks for some milliseconds.
    ///
    /// # Errors
    /// If the bounds require what cannot be had.
    pub fn establish(
        bounds: &SandboxBounds,
        environment: &Environment,
        name: &str,
    ) -> Result<Self, SandboxRequired> {
        let mut status = SandboxStatus {
            requested: mode_name(bounds.mode),
            active: None,
            not_held: Vec::new(),
            limits: Vec::new(),
            rungs: Vec::new(),
        };
        let mut session = Self {
            sandbox: None,
            watched: None,
            status: status.clone(),
        };
        if bounds.mode == SandboxMode::Off {
            return Ok(session);
        }
        let mut active = None;
        for rung in RUNGS {
            let missing = not_held(rung, bounds);
            if bounds.mode == SandboxMode::Require && !missing.is_empty() {
                let reason = format!("it does not hold: {}", missing.join(", "));
                status.rungs.push(RungStatus::missing(rung, reason));
                continue;
            }
            let spec = SandboxSpec {
                containment: Some(containment(rung, bounds, environment)),
                ..SandboxSpec::default()
            };
            match Sandbox::establish(spec, name) {
                Ok(sandbox) => {
                    status.rungs.push(RungStatus::supported(rung));
                    status.active = Some(rung.name());
                    status.not_held = missing;
                    session.sandbox = Some(Arc::new(sandbox));
                    active = Some(rung);
                    break;
                }
                Err(error) => status.rungs.push(RungStatus::failed(rung, &error)),
            }
        }
        if session.sandbox.is_none() && bounds.mode == SandboxMode::Require {
            let reasons = status.rungs.iter().filter_map(|rung| {
                let reason = rung.reason.as_ref()?;
                Some(format!("{}: {reason}", rung.name))
            });
            return Err(SandboxRequired {
                reasons: reasons.collect::<Vec<_>>().join("; "),
            });
        }
        let watched = WatchedPaths::look(active, bounds);
        status.limits = limits(&watched.repositories);
        session.watched = Some(watched);
        session.status = status;
        Ok(session)
    }

    /// What commands are started in.
    #[must_use]
    pub fn sandbox(&self) -> Option<&Arc<Sandbox>> {
        self.sandbox.as_ref()
    }

    /// What there is to say about it.
    #[must_use]
    pub fn status(&self) -> &SandboxStatus {
        &self.status
    }

    /// Connects the processes inside to the hosts that may be reached, as long
    /// as what is returned is kept; absent where there is nothing to connect.
    /// Takes a tokio runtime.
    ///
    /// # Errors
    /// If the socket inside cannot be used.
    pub fn serve_network(
        &self,
        policy: NetworkPolicy,
        resolver: Arc<dyn HostResolver>,
    ) -> anyhow::Result<Option<ServedNetwork>> {
        let listener = match &self.sandbox {
            Some(sandbox) => sandbox.proxy_listener()?,
            None => None,
        };
        let Some(listener) = listener else {
            return Ok(None);
        };
        let variables = proxy_environment(PROXY_PORT, &policy);
        let connector = Connector::with_resolver(policy, resolver);
        Ok(Some(ServedNetwork {
            proxy: FilteringProxy::start(listener, connector)?,
            variables,
        }))
    }

    /// What changed since the last look of what the kernel does not keep.
    async fn changes(&mut self) -> WatchedChanges {
        let Some(mut watched) = self.watched.take() else {
            return WatchedChanges::default();
        };
        let looked = blocking(move || {
            let changes = watched.changes();
            Ok((watched, changes))
        });
        match looked.await {
            Ok((watched, changes)) => {
                self.status.limits = limits(&watched.repositories);
                self.watched = Some(watched);
                changes
            }
            Err(error) => {
                tracing::warn!(%error, "protected paths are not looked at any more");
                WatchedChanges::default()
            }
        }
    }

    /// Lets what changed by now be known.
    pub(crate) async fn forget_changes(&mut self) {
        self.changes().await;
    }
}

impl RungStatus {
    fn supported(rung: ContainmentRung) -> Self {
        Self {
            name: rung.name(),
            mechanism: rung.mechanism(),
            supported: true,
            reason: None,
            fix: None,
        }
    }

    fn missing(rung: ContainmentRung, reason: String) -> Self {
        Self {
            supported: false,
            reason: Some(reason),
            ..Self::supported(rung)
        }
    }

    fn failed(rung: ContainmentRung, error: &ExecError) -> Self {
        Self::missing(rung, error.to_string())
    }
}

/// Every rung, tried out with what is asked of it.
#[must_use]
pub fn probe_sandbox(bounds: &SandboxBounds, environment: &Environment) -> SandboxStatus {
    let rungs: Vec<RungStatus> = RUNGS
        .into_iter()
        .map(
            |rung| match probe_containment(&containment(rung, bounds, environment)) {
                Ok(()) => RungStatus::supported(rung),
                Err(missing) => RungStatus {
                    fix: missing.fix,
                    ..RungStatus::missing(rung, missing.reason)
                },
            },
        )
        .collect();
    let holds = |rung: &ContainmentRung| {
        let works = rungs
            .iter()
            .any(|one| one.name == rung.name() && one.supported);
        works && (bounds.mode != SandboxMode::Require || not_held(*rung, bounds).is_empty())
    };
    let active = RUNGS.into_iter().find(holds);
    let active = active.filter(|_| bounds.mode != SandboxMode::Off);
    let limits = match active {
        Some(_) => limits(&RepositoriesBelow::look(&bounds.writable)),
        None => Vec::new(),
    };
    SandboxStatus {
        requested: mode_name(bounds.mode),
        active: active.map(ContainmentRung::name),
        not_held: active.map_or_else(Vec::new, |rung| not_held(rung, bounds)),
        limits,
        rungs,
    }
}

/// How far what commands make later is protected.
fn limits(repositories: &RepositoriesBelow) -> Vec<String> {
    let mut limits = vec![
        "hooks and settings of repositories that commands make: protected from the next session \
         on, and named in the result of the command"
            .to_owned(),
    ];
    if !repositories.is_complete() {
        limits.push(format!(
            "repositories are looked for in the first {WATCHED_DIRECTORIES} directories and \
             {SANDBOX_WALK_ENTRIES} files only"
        ));
    }
    limits
}

fn mode_name(mode: SandboxMode) -> &'static str {
    match mode {
        SandboxMode::Off => "off",
        SandboxMode::Prefer => "prefer",
        SandboxMode::Require => "require",
    }
}

/// The containment that holds these bounds on a rung, as far as that can.
#[must_use]
pub fn containment(
    rung: ContainmentRung,
    bounds: &SandboxBounds,
    environment: &Environment,
) -> Containment {
    let programs = bounds.programs.as_deref();
    let tools = tool_sets::tools(programs, environment, &bounds.writable);
    let mut containment = Containment::new(rung);
    containment.writable = bounds.writable.clone();
    containment.writable.extend(tools.caches);
    containment.hidden = bounds.hidden.clone();
    containment.protected = bounds.protected.clone();
    containment.executables = tools.executables;
    let by_proxy = bounds.network || bounds.asks_network;
    containment.network = match rung {
        ContainmentRung::Namespaces if by_proxy => NetworkAccess::Proxy { port: PROXY_PORT },
        ContainmentRung::Namespaces => NetworkAccess::None,
        _ if bounds.network => NetworkAccess::Host,
        _ => NetworkAccess::None,
    };
    containment
}

/// What a rung cannot hold of these bounds, in words.
#[must_use]
pub fn not_held(rung: ContainmentRung, bounds: &SandboxBounds) -> Vec<String> {
    let mut missing = Vec::new();
    if rung != ContainmentRung::Namespaces {
        if !bounds.protected.is_empty() {
            missing.push(
                "protected paths below writable directories (changes are reported after each \
                 command)"
                    .to_owned(),
            );
        }
        let inside = |path: &PathBuf| bounds.writable.iter().any(|root| path.starts_with(root));
        if bounds.hidden.iter().any(inside) {
            missing.push("unreadable files below writable directories".to_owned());
        }
        missing.push("a fresh `/tmp`".to_owned());
        missing.push("sockets of other programs in the file system".to_owned());
    }
    if bounds.more_repositories > 0 {
        missing.push(format!(
            "hooks and settings of {} more repositories below writable directories",
            bounds.more_repositories
        ));
    }
    if bounds.network && rung != ContainmentRung::Namespaces {
        missing.push("the list of hosts, for programs (the network is the host's)".to_owned());
    }
    missing
}
