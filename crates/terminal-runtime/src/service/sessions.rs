//! `session.*`

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use halter_exec::{LevelState, LimitKind, probe_containment};
use serde::{Deserialize, Serialize};

use super::lease::read_lease;
use super::order::{core_error, pool_error};
use super::{Service, lock};
use crate::exec::{
    ContainerMount, ContainerOptions, CoreError, Limits, SandboxRules, SessionSpec, StartFailure,
};
use crate::protocol::{
    CreateParams, DestroyParams, DockerParams, ErrorCode, LimitParams, MountParams, RunningCommand,
    SandboxParams, SessionCreated, SessionDestroyed, SessionInfo, SessionListing, SessionParams,
    WireError,
};
use crate::session::{
    Moment, Session, SessionEvent, SessionParameters, SessionState, TransitionError,
    check_variables, read_timeout,
};

const DEFAULT_SHELL: &str = "/bin/sh";
const DEFAULT_DIRECTORY: &str = "/tmp";

/// What is needed of a session after a crash and the core does not know.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SessionNote {
    pub name: Option<String>,
    pub timeout_ms: Option<u64>,
    pub created_ms: u64,
}

impl SessionNote {
    fn of(parameters: &SessionParameters, created: Moment) -> Bytes {
        let note = Self {
            name: parameters.name.as_deref().map(str::to_owned),
            timeout_ms: parameters.timeout.map(millis),
            created_ms: created
                .wall
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, millis),
        };
        serde_json::to_vec(&note).unwrap_or_default().into()
    }
}

fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl Service {
    pub(super) async fn create(&self, params: CreateParams) -> Result<SessionCreated, WireError> {
        self.fail_if_draining()?;
        self.fail_without_descriptors()?;
        self.fail_under_pressure().await?;
        let environment = check_variables(&params.env.0).map_err(WireError::invalid)?;
        let timeout = match params.timeout_s {
            Some(seconds) => {
                read_timeout(seconds).map_err(|error| WireError::invalid(error.to_string()))?
            }
            None => self.inner.settings.default_timeout,
        };
        let (image, container) = match params.docker {
            Some(docker) => (Some(docker.image.clone()), container_options(&docker)?),
            None => (None, ContainerOptions::default()),
        };
        let sandbox = params.sandbox.map(sandbox_rules).transpose()?;
        let image = image.or_else(|| self.inner.settings.docker_image.clone());
        let mut spec = SessionSpec {
            shell: PathBuf::from(text("shell", params.shell, DEFAULT_SHELL)?),
            environment,
            clean_environment: params.clean_env,
            environment_filter: params.filter_env.map(|filter| filter.remove),
            working_dir: PathBuf::from(text("working_dir", params.working_dir, DEFAULT_DIRECTORY)?),
            chroot: params.chroot.map(PathBuf::from),
            limits: self.limits(params.limits),
            container_image: image,
            container,
            sandbox,
            lease: params.lease_s.map(read_lease).transpose()?,
            note: Bytes::new(),
        };
        check_paths(&spec)?;
        check_sandbox(&spec).await?;
        let weaker = self.kept_in_part(&spec).await?;
        let parameters = parameters(&spec, params.name, timeout);
        let session = self
            .inner
            .pool
            .create(parameters)
            .map_err(|error| pool_error(&error))?;
        spec.note = SessionNote::of(&session.parameters, session.created);
        if let Err(error) = self.inner.core.open(&session.id, spec).await {
            let _ = session.apply(SessionEvent::OpenFailed, self.inner.clock.now());
            self.inner.pool.remove(session.id);
            return Err(core_error(&error));
        }
        let _ = session.apply(SessionEvent::Opened, self.inner.clock.now());
        self.watch_lease(&session);
        tracing::info!(session = %session.id, "session created");
        Ok(SessionCreated {
            session_id: session.id.to_string(),
            shell: session.parameters.shell.to_string(),
            working_dir: session.parameters.working_dir.to_string(),
            state: session.state().name().to_owned(),
            created_at: session.created.shown(),
            weaker,
        })
    }

    /// Refuses what cannot be had here, and returns what can be had only in
    /// part. In a container both are the engine's business.
    async fn kept_in_part(&self, spec: &SessionSpec) -> Result<Vec<String>, WireError> {
        let asked = [
            (
                LimitKind::Memory.level(),
                spec.limits.memory_bytes.is_some(),
            ),
            (
                LimitKind::Processes.level(),
                spec.limits.processes.is_some(),
            ),
            (
                LimitKind::CpuTime.level(),
                spec.limits.cpu_seconds.is_some(),
            ),
            ("chroot", spec.chroot.is_some()),
        ];
        let mut weaker = Vec::new();
        if spec.container_image.is_some() || !asked.iter().any(|(_, asked)| *asked) {
            return Ok(weaker);
        }
        for level in self.inner.core.isolation().await {
            if !asked.contains(&(level.name, true)) {
                continue;
            }
            match &level.state {
                LevelState::Unavailable { reason } => {
                    return Err(core_error(&CoreError::StartFailed {
                        reason: StartFailure::IsolationUnavailable,
                        message: format!("`{}` cannot be had here: {reason}", level.name),
                    }));
                }
                LevelState::Weaker { by, reason } => {
                    tracing::warn!(level = level.name, by, reason, "kept only in part");
                    weaker.push(format!("{} (by {by}): {reason}", level.name));
                }
                _ => {}
            }
        }
        Ok(weaker)
    }

    fn limits(&self, given: Option<LimitParams>) -> Limits {
        let defaults = self.inner.settings.limits();
        let given = given.unwrap_or_default();
        let choose = |given: Option<u64>, default: Option<u64>| match given {
            Some(0) => None,
            Some(limit) => Some(limit),
            None => default,
        };
        Limits {
            memory_bytes: choose(given.memory_bytes, defaults.memory_bytes),
            processes: choose(given.processes, defaults.processes),
            cpu_seconds: choose(given.cpu_seconds, defaults.cpu_seconds),
        }
    }

    pub(super) fn list_sessions(&self) -> SessionListing {
        let sessions = self.inner.pool.list();
        SessionListing {
            sessions: sessions.iter().map(|session| info(session)).collect(),
        }
    }

    pub(super) fn session_info(&self, params: &SessionParams) -> Result<SessionInfo, WireError> {
        let session = self.find_session(&params.session_id)?;
        Ok(info(&session))
    }

    pub(super) async fn destroy(
        &self,
        params: &DestroyParams,
    ) -> Result<SessionDestroyed, WireError> {
        let session = self.find_session(&params.session_id)?;
        let event = if params.force {
            SessionEvent::DestroyByForce
        } else {
            SessionEvent::Destroy
        };
        self.end_session(&session, event).await?;
        tracing::info!(session = %session.id, "session destroyed");
        Ok(SessionDestroyed {
            session_id: session.id.to_string(),
            state: session.state().name().to_owned(),
        })
    }

    /// Ends a session and everything in it; returns when nothing is left.
    pub(super) async fn end_session(
        &self,
        session: &Arc<Session>,
        event: SessionEvent,
    ) -> Result<(), WireError> {
        session.apply(event, self.inner.clock.now()).map_err(|refusal| match refusal {
            TransitionError::Busy | TransitionError::InvalidState => WireError::new(
                ErrorCode::SessionBusy,
                format!("session {} is busy; wait for its command, cancel it, or send `force: true`", session.id),
            ),
            TransitionError::Gone => WireError::new(
                ErrorCode::SessionNotFound,
                format!("session {} does not exist any more", session.id),
            ),
        })?;
        let closed = self.inner.core.close(&session.id).await;
        self.inner.pool.remove(session.id);
        lock(&self.inner.jobs).retain(|_, job| {
            let kept = job.session.id != session.id || !job.is_over();
            if !kept && let Some(exec) = job.exec() {
                exec.forget();
            }
            kept
        });
        closed.map_err(|error| core_error(&error))
    }
}

fn text(name: &str, given: Option<String>, default: &str) -> Result<String, WireError> {
    match given {
        None => Ok(default.to_owned()),
        Some(text) if text.is_empty() || text.contains('\0') => Err(WireError::invalid(format!(
            "{name} must not be empty or contain a NUL byte"
        ))),
        Some(text) => Ok(text),
    }
}

fn container_options(docker: &DockerParams) -> Result<ContainerOptions, WireError> {
    // The engine's program would take it for an option.
    if docker.image.is_empty() || docker.image.starts_with('-') {
        return Err(WireError::invalid(
            "docker: an image has a name that does not begin with `-`",
        ));
    }
    let mount = |mount: &MountParams| {
        let source = mount
            .source
            .clone()
            .map(|path| absolute_path("mounts", path));
        Ok(ContainerMount {
            source: source.transpose()?,
            target: absolute_path("mounts", mount.target.clone())?,
            read_only: mount.read_only,
        })
    };
    let placeholders = docker.placeholders.iter();
    let placeholders = placeholders.map(|path| absolute_path("placeholders", path.clone()));
    Ok(ContainerOptions {
        mounts: docker.mounts.iter().map(mount).collect::<Result<_, _>>()?,
        placeholders: placeholders.collect::<Result<_, _>>()?,
        no_network: docker.no_network,
        own_user: docker.own_user,
    })
}

fn sandbox_rules(params: SandboxParams) -> Result<SandboxRules, WireError> {
    let paths = |list: Vec<String>| -> Result<Vec<PathBuf>, WireError> {
        let path = |path| absolute_path("sandbox", path);
        list.into_iter().map(path).collect()
    };
    Ok(SandboxRules {
        writable: paths(params.writable)?,
        hidden: paths(params.hidden)?,
        protected: paths(params.protected)?,
        lists_executables: params.executables.is_some(),
        executables: paths(params.executables.unwrap_or_default())?,
        network: params.network,
        namespaces: params.namespaces,
    })
}

fn absolute_path(name: &str, path: String) -> Result<PathBuf, WireError> {
    let path = PathBuf::from(path);
    match path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&0) {
        true => Ok(path),
        false => Err(WireError::invalid(format!(
            "{name}: paths must be absolute"
        ))),
    }
}

/// Refuses a sandbox that cannot be had, before anything runs.
async fn check_sandbox(spec: &SessionSpec) -> Result<(), WireError> {
    let Some(rules) = &spec.sandbox else {
        return Ok(());
    };
    if spec.chroot.is_some() || spec.container_image.is_some() {
        return Err(WireError::invalid(
            "a sandbox is for sessions without a root or a container of their own",
        ));
    }
    if rules.namespaces {
        // Its holder makes them at once, or says why not.
        return Ok(());
    }
    let containment = rules.containment();
    let probed = tokio::task::spawn_blocking(move || probe_containment(&containment)).await;
    let missing = match probed {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(missing)) => missing.to_string(),
        Err(error) => error.to_string(),
    };
    Err(core_error(&CoreError::StartFailed {
        reason: StartFailure::IsolationUnavailable,
        message: format!("the sandbox cannot be had here: {missing}"),
    }))
}

fn check_paths(spec: &SessionSpec) -> Result<(), WireError> {
    let absolute = |name: &str, path: &std::path::Path| {
        if path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&0) {
            return Ok(());
        }
        Err(WireError::invalid(format!(
            "{name} must be an absolute path"
        )))
    };
    absolute("working_dir", &spec.working_dir)?;
    spec.chroot
        .as_deref()
        .map_or(Ok(()), |root| absolute("chroot", root))
}

pub(super) fn parameters(
    spec: &SessionSpec,
    name: Option<String>,
    timeout: Option<std::time::Duration>,
) -> SessionParameters {
    let keys = spec
        .environment
        .iter()
        .map(|(name, _)| name.to_string_lossy().into());
    SessionParameters {
        name: name.map(Into::into),
        shell: spec.shell.to_string_lossy().into(),
        working_dir: spec.working_dir.to_string_lossy().into(),
        env_keys: keys.collect(),
        timeout,
        lease: spec.lease,
    }
}

fn info(session: &Session) -> SessionInfo {
    let state = session.state();
    let running = match &state {
        SessionState::Running {
            exec,
            command,
            started,
        } => Some(RunningCommand {
            exec_id: exec.to_string(),
            command: command.to_string(),
            started_at: started.shown(),
        }),
        _ => None,
    };
    SessionInfo {
        session_id: session.id.to_string(),
        name: session.parameters.name.as_deref().map(str::to_owned),
        shell: session.parameters.shell.to_string(),
        working_dir: session.working_dir(),
        state: state.name().to_owned(),
        running,
        env_keys: session
            .parameters
            .env_keys
            .iter()
            .map(ToString::to_string)
            .collect(),
        created_at: session.created.shown(),
        last_activity: session.last_activity().shown(),
        command_count: session.commands(),
        timeout_s: session
            .parameters
            .timeout
            .map_or(0.0, |timeout| timeout.as_secs_f64()),
    }
}
