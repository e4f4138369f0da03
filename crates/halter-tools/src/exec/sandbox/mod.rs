//! From what a policy asks for to a sandbox that holds it, and what to say
//! about it.

mod attached;
mod changes;
mod limits;
mod note;
mod repositories;
mod sockets;
mod watch;

use crate::builtin::blocking;
use crate::network::{Connector, FilteringProxy, HostResolver, ProxyClient, proxy_environment};
use anyhow::Context as _;
pub use attached::AttachedProgram;
pub use changes::{SandboxWatch, SeenChanges};
use changes::{WatchedChanges, WatchedPaths};
use halter_exec::host::Sandbox;
use halter_exec::{
    Containment, ContainmentRung, Environment, ExecError, NetworkAccess, SandboxSpec, ToolScope,
    landlock_lists_programs, landlock_scopes, make_tool_places, probe_containment, tool_files,
};
use halter_policy::{NetworkPolicy, SandboxBounds, SandboxMode, is_searched_by_sandbox};
use limits::limits;
pub use limits::partly_searched_workspace;
pub use note::NamedSandbox;
use repositories::RepositoriesBelow;
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The port of the proxy on the loopback interface of a sandbox, which has no
/// other services.
const PROXY_PORT: u16 = 3128;

/// Where commands reach it, but for those that have an address of their own.
const PROXY_ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PROXY_PORT);

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
    /// What that rung does not hold of what was asked; where one is required
    /// and there is none, what the best that works here does not.
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
    /// What is said with the result of every command.
    standing_note: Option<String>,
    /// What is said once, with the result of the first command.
    first_note: Option<String>,
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
            standing_note: None,
            first_note: None,
            status: status.clone(),
        };
        if bounds.mode == SandboxMode::Off {
            return Ok(session);
        }
        let unsearched = partly_searched_workspace(bounds);
        if bounds.mode == SandboxMode::Require
            && let Some(unsearched) = unsearched
        {
            return Err(SandboxRequired {
                reasons: unsearched,
            });
        }
        for rung in RUNGS {
            let missing = not_held_by(rung, bounds);
            if bounds.mode == SandboxMode::Require && !missing.is_empty() {
                let reason = format!("it does not hold: {}", missing.join(", "));
                status.rungs.push(RungStatus::missing(rung, reason));
                continue;
            }
            let spec = SandboxSpec {
                containment: Some(containment(rung, bounds, environment)),
                ..SandboxSpec::default()
            };
            match established(spec, name) {
                Ok(sandbox) => {
                    status.rungs.push(RungStatus::supported(rung));
                    status.active = Some(rung.name());
                    status.not_held = missing;
                    session.sandbox = Some(Arc::new(sandbox));
                    break;
                }
                Err(reason) => status.rungs.push(RungStatus::missing(rung, reason)),
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
        let watched = WatchedPaths::look(bounds);
        session.standing_note = note::standing(&status);
        if let Some(rung) = status.active {
            session.first_note = unsearched.as_ref().map(|it| note::missing(rung, it));
            status.not_held.extend(unsearched);
            status.limits = limits(bounds, environment, &watched.repositories);
        }
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
        let variables = proxy_environment(PROXY_ADDRESS, &policy);
        let connector = Connector::with_resolver(policy, resolver);
        Ok(Some(ServedNetwork {
            proxy: FilteringProxy::start(listener, connector)?,
            variables,
        }))
    }

    /// The variables that have a program inside use the proxy as this client.
    pub(crate) fn variables_of(
        client: &ProxyClient,
        policy: &NetworkPolicy,
    ) -> Vec<(String, String)> {
        proxy_environment(SocketAddrV4::new(client.address(), PROXY_PORT), policy)
    }

    /// Has what a program outside has replaced be protected and hidden again,
    /// and what commands have made be protected, before something more is
    /// started inside. Whether that reaches a shell
    /// in this directory only if it enters it anew.
    ///
    /// # Errors
    /// If it stays open: nothing is to be started then.
    pub(crate) async fn cover_again(&self, directory: &Path) -> anyhow::Result<bool> {
        let Some(sandbox) = self.sandbox.clone() else {
            return Ok(false);
        };
        let covered = blocking(move || Ok(sandbox.cover_again()?)).await.context(
            "a protected or sensitive file is new, and the sandbox cannot cover it; a new session \
             has a new sandbox",
        )?;
        Ok(covered.iter().any(|place| directory.starts_with(place)))
    }

    /// What changed since the last look of what the kernel does not keep, which
    /// is kept from the next command as far as it can be.
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
                self.watched = Some(watched);
                if self.status.active != Some(ContainmentRung::Namespaces.name()) {
                    return changes.all_left_open();
                }
                if let Some(sandbox) = &self.sandbox {
                    sandbox.protect_more(&changes.to_protect);
                }
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
}

/// A sandbox in which a program has run, or what is in the way.
fn established(spec: SandboxSpec, name: &str) -> Result<Sandbox, String> {
    let sandbox = Sandbox::establish(spec, name).map_err(|error: ExecError| error.to_string())?;
    sandbox.try_out().map_err(|missing| missing.to_string())?;
    Ok(sandbox)
}

/// Every rung, tried out with what is asked of it.
#[must_use]
pub fn probe_sandbox(bounds: &SandboxBounds, environment: &Environment) -> SandboxStatus {
    let rungs: Vec<RungStatus> = RUNGS
        .into_iter()
        .map(|rung| {
            match probe_containment(&containment_of_what_is_there(rung, bounds, environment)) {
                Ok(()) => RungStatus::supported(rung),
                Err(missing) => RungStatus {
                    fix: missing.fix,
                    ..RungStatus::missing(rung, missing.reason)
                },
            }
        })
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
        Some(_) => {
            let repositories = RepositoriesBelow::look(&bounds.writable);
            limits(bounds, environment, &repositories)
        }
        None => Vec::new(),
    };
    // Where none will do, what the best one lacks says why.
    let best = RUNGS.into_iter().find(|rung| {
        let works = |one: &RungStatus| one.name == rung.name() && one.supported;
        bounds.mode == SandboxMode::Require && rungs.iter().any(works)
    });
    let described = active.or(best);
    SandboxStatus {
        requested: mode_name(bounds.mode),
        active: active.map(ContainmentRung::name),
        not_held: described.map_or_else(Vec::new, |rung| not_held(rung, bounds)),
        limits,
        rungs,
    }
}

fn mode_name(mode: SandboxMode) -> &'static str {
    match mode {
        SandboxMode::Off => "off",
        SandboxMode::Prefer => "prefer",
        SandboxMode::Require => "require",
    }
}

/// The containment that holds these bounds on a rung, as far as that can, for a
/// sandbox that is made at once: makes the directories of toolchains.
#[must_use]
pub fn containment(
    rung: ContainmentRung,
    bounds: &SandboxBounds,
    environment: &Environment,
) -> Containment {
    make_tool_places(tool_scope(bounds), environment);
    containment_of_what_is_there(rung, bounds, environment)
}

/// The toolchains that these bounds are about.
fn tool_scope(bounds: &SandboxBounds) -> ToolScope<'_> {
    ToolScope {
        programs: bounds.programs.as_deref(),
        writable: &bounds.writable,
        is_searched: is_searched_by_sandbox,
    }
}

/// The same without what the toolchains have not made yet.
fn containment_of_what_is_there(
    rung: ContainmentRung,
    bounds: &SandboxBounds,
    environment: &Environment,
) -> Containment {
    let tools = tool_files(tool_scope(bounds), environment);
    let mut containment = Containment::new(rung);
    containment.writable = bounds.writable.clone();
    containment.writable.extend(tools.caches);
    containment.hidden = bounds.hidden.clone();
    if rung == ContainmentRung::Namespaces {
        let sockets = sockets::bound_sockets(&containment.writable);
        containment.hidden.extend(sockets);
        containment.hidden.extend(bounds.sockets.iter().cloned());
    }
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

/// What is added to what is not held where it is looked at.
pub const CHANGES_REPORTED: &str = " (changes are reported after each command)";

/// What a rung cannot hold of these bounds, in words.
#[must_use]
pub fn not_held(rung: ContainmentRung, bounds: &SandboxBounds) -> Vec<String> {
    let mut missing = not_held_by(rung, bounds);
    missing.extend(partly_searched_workspace(bounds));
    missing
}

/// The same without what no rung holds, as nobody knows where it is.
fn not_held_by(rung: ContainmentRung, bounds: &SandboxBounds) -> Vec<String> {
    let mut missing = Vec::new();
    if rung != ContainmentRung::Namespaces {
        if !bounds.protected.is_empty() || !bounds.watched.is_empty() {
            missing.push(format!(
                "protected paths below writable directories{CHANGES_REPORTED}"
            ));
        }
        let inside = |path: &PathBuf| bounds.writable.iter().any(|root| path.starts_with(root));
        if bounds.hidden.iter().any(inside) {
            missing.push("unreadable files below writable directories".to_owned());
        }
        missing.extend(
            [
                "modes, times and attributes of files outside the workspace",
                "the names of unreadable files",
                "a fresh `/tmp`, `/var/tmp` and `/dev/shm`",
                "sockets of other programs in the file system",
                "System V objects, and the sight of other programs and their terminals",
            ]
            .map(str::to_owned),
        );
        if !landlock_scopes() {
            missing.push(
                "abstract sockets of other programs, and signals to them (Linux 6.12 holds these)"
                    .to_owned(),
            );
        }
    }
    match rung {
        _ if bounds.programs.is_none() => {}
        ContainmentRung::Namespaces if landlock_lists_programs() => {}
        ContainmentRung::Namespaces => missing.push(
            "the list of programs, for those below directories of libraries (Landlock holds it: \
             Linux 5.13 or newer, with `landlock` in the list of the kernel's `lsm=` option)"
                .to_owned(),
        ),
        _ => missing.push(
            "the list of programs, for what the loader of dynamic programs is given to run"
                .to_owned(),
        ),
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
