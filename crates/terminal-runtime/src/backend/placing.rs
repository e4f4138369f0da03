//! Where a session of the runtime is and what holds its commands: on this
//! machine in a sandbox, in a container, or on another machine.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::bail;
use halter_exec::ContainmentRung;
use halter_policy::environment::{command_environment, name_fits};
use halter_tools::exec::{Environment, ExecPlace, containment, own_temporary};
use halter_tools::policy::{SandboxBounds, SandboxMode};

use super::FilesAt;
use super::held::{
    RUNGS, RungReasons, SearchedBounds, SessionLocation, does_not_hold, not_held_there,
};
use super::lease::LeaseRenewal;
use super::session::{OpenedSession, RuntimeSession, text};
use super::started::variables;
use crate::client::{ClientError, Target};
use crate::lock::lock;
use crate::protocol::{CreateParams, EnvFilterParams, SandboxParams};

/// Variables that mean the same on another machine.
fn travels(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    matches!(&*name, "LANG" | "TERM" | "TZ" | "CI" | "NO_COLOR")
        || ["LC_", "GIT_"].iter().any(|start| name.starts_with(start))
}

impl RuntimeSession {
    /// Whether tools use the runtime's own files.
    pub(super) fn has_files_there(&self) -> bool {
        self.spec.sandbox.elsewhere.is_some()
            || self.shared.files_at(&self.spec.working_dir) == Some(FilesAt::Runtime)
    }

    fn location(&self) -> SessionLocation {
        match self.shared.location(&self.spec.working_dir) {
            SessionLocation::Here if self.has_files_there() => SessionLocation::Elsewhere,
            location => location,
        }
    }

    /// Makes the session of the runtime.
    async fn create(&self) -> anyhow::Result<OpenedSession> {
        self.create_in(self.spec.sandbox.clone()).await
    }

    /// Makes a session with other bounds than the session's own.
    async fn create_in(&self, mut bounds: SandboxBounds) -> anyhow::Result<OpenedSession> {
        bounds
            .protected
            .extend(lock(&self.protected).iter().cloned());
        self.shared.check().await?;
        self.shared.look_at(&self.spec.working_dir).await?;
        let searched = self.shared.searched(self.with_scratch(bounds)).await?;
        let bounds = &searched.bounds;
        let mut params = self.basic_params()?;
        let knows_files = bounds.mode == SandboxMode::Off || bounds.elsewhere.is_some();
        match self.location() {
            SessionLocation::Here => {
                let mut environment = self.spec.environment.clone();
                let scratch = &self.spec.scratch;
                if let Some((variable, path)) = own_temporary(bounds, &environment, scratch) {
                    tokio::fs::create_dir_all(&path).await?;
                    environment.set(variable, path);
                }
                params.clean_env = true;
                params.env = variables(&environment);
                return self.create_held(params, &searched, &environment).await;
            }
            SessionLocation::Elsewhere if self.has_files_there() && knows_files => {
                params.filter_env = Some(self.env_filter());
                let environment = &self.spec.environment;
                return self.create_held(params, &searched, environment).await;
            }
            SessionLocation::Elsewhere => params.filter_env = Some(self.env_filter()),
            SessionLocation::Container => {
                params.docker = Some(self.container_params(bounds).await?);
            }
        }
        let missing = match bounds.mode {
            SandboxMode::Off => Vec::new(),
            _ => self.shared.not_held(self.location(), bounds).await?,
        };
        if bounds.mode == SandboxMode::Require && !missing.is_empty() {
            bail!(self.shared.required(&does_not_hold(&missing)));
        }
        let note = match self.location() {
            SessionLocation::Elsewhere if bounds.mode != SandboxMode::Off => {
                Some(self.no_sandbox(""))
            }
            _ => note_of(&missing),
        };
        let is_contained = params.docker.is_some() && bounds.mode != SandboxMode::Off;
        let sandbox = is_contained.then_some("container");
        let session = self.created(&params, note, sandbox).await?;
        let is_unknown = self.shared.files_at(&self.spec.working_dir).is_none();
        let is_local = matches!(self.shared.client.target(), Target::Socket(_));
        if is_unknown
            && !is_local
            && let Err(error) = self.check_files(&session).await
        {
            self.destroy_session(&session).await;
            return Err(error);
        }
        Ok(session)
    }

    /// Makes a session in the strongest sandbox that the runtime can give it.
    async fn create_held(
        &self,
        mut params: CreateParams,
        searched: &SearchedBounds,
        environment: &Environment,
    ) -> anyhow::Result<OpenedSession> {
        let bounds = &searched.bounds;
        if bounds.mode == SandboxMode::Off {
            return self.created(&params, None, None).await;
        }
        let mut reasons = RungReasons::default();
        for rung in RUNGS {
            let missing = not_held_there(rung, bounds);
            if bounds.mode == SandboxMode::Require && !missing.is_empty() {
                reasons.add(rung, &does_not_hold(&missing));
                continue;
            }
            params.sandbox = Some(self.sandbox_params(rung, searched, environment)?);
            let name = Some(rung.name());
            let created = self.created(&params, note_of(&missing), name).await;
            match created.as_ref().err().and_then(missing_sandbox) {
                Some(reason) => reasons.add(rung, &reason),
                None => return created,
            }
        }
        let reasons = reasons.0.join("; ");
        if bounds.mode == SandboxMode::Require {
            bail!(self.shared.required(&reasons));
        }
        params.sandbox = None;
        let note = Some(self.no_sandbox(&reasons));
        self.created(&params, note, None).await
    }

    /// The session that the runtime makes of these parameters.
    async fn created(
        &self,
        params: &CreateParams,
        note: Option<String>,
        sandbox: Option<&'static str>,
    ) -> anyhow::Result<OpenedSession> {
        let client = &self.shared.client;
        let created = self.called(client.create_session(params)).await?;
        let lease = self.shared.settings.lease;
        Ok(OpenedSession {
            _lease: LeaseRenewal::begin(client, &created.session_id, lease),
            id: created.session_id,
            note,
            sandbox,
        })
    }

    /// Makes a session in a container, with a shell that the image has.
    pub(super) async fn create_with_shell(&self) -> anyhow::Result<OpenedSession> {
        let session = self.create().await?;
        let is_first = self.shell.load(Ordering::Relaxed) == 0;
        if self.location() != SessionLocation::Container || !is_first {
            return Ok(session);
        }
        let look = ["sh", "-c", "command -v \"$1\"", "sh", &self.shell_name()];
        let found = self.probed(&session, &look).await;
        match found {
            Ok(found) if found.exit_code == 0 => Ok(session),
            Ok(_) if self.shells().len() > 1 => {
                self.destroy_session(&session).await;
                self.shell.store(1, Ordering::Relaxed);
                self.create().await
            }
            Ok(_) => Ok(session),
            Err(error) => {
                self.destroy_session(&session).await;
                Err(error)
            }
        }
    }

    fn no_sandbox(&self, reason: &str) -> String {
        let reason = match reason {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        format!(
            "no sandbox: commands run with the rights of the runtime at {}{reason}",
            self.shared.client.target()
        )
    }

    /// Makes a session for one command that was let out of the sandbox, or into
    /// a wider one.
    pub(super) async fn create_aside(&self, place: &ExecPlace) -> anyhow::Result<OpenedSession> {
        let bounds = match place {
            ExecPlace::Opened(bounds) => (**bounds).clone(),
            _ if self.spec.sandbox.mode == SandboxMode::Require => {
                bail!("policy.sandbox = \"require\": no command runs outside the sandbox")
            }
            _ if self.location() == SessionLocation::Container => {
                bail!("commands run in a container, and none runs outside of it")
            }
            _ => SandboxBounds::default(),
        };
        let mut session = self.create_in(bounds).await?;
        session.note = Some(match place {
            ExecPlace::Opened(_) => "this ran in a wider sandbox, in a shell of its own: what it \
                                     set there is not kept"
                .to_owned(),
            _ => "this ran outside the sandbox, with the runtime's rights, as was approved, in a \
                  shell of its own: what it set there is not kept"
                .to_owned(),
        });
        Ok(session)
    }

    /// Bounds with the session's scratch directory, which exists by now; on
    /// this machine only.
    fn with_scratch(&self, mut bounds: SandboxBounds) -> SandboxBounds {
        if self.has_files_there() {
            return bounds;
        }
        let scratch = self.spec.scratch.path().to_owned();
        if !bounds.writable.contains(&scratch) {
            bounds.writable.push(scratch);
        }
        bounds
    }

    fn basic_params(&self) -> anyhow::Result<CreateParams> {
        Ok(CreateParams {
            shell: Some(self.shell_name()),
            env: variables(&self.sent_variables()),
            // Where commands were judged for, also if the session is made anew.
            working_dir: Some(text(self.place())?),
            name: Some("halter".to_owned()),
            lease_s: Some(self.shared.settings.lease.as_secs_f64()),
            ..CreateParams::default()
        })
    }

    /// The variables that go to another machine or into a container: those that
    /// mean the same there, and those that the user added. A name with a `*`
    /// adds what would be withheld, not what belongs to this machine.
    fn sent_variables(&self) -> Environment {
        let own = self.spec.environment.iter();
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let usual = command_environment(own, &[], &[]);
        let added = &self.shared.settings.added_variables;
        let is_added = |name: &OsStr| {
            let shown = name.to_string_lossy();
            added.iter().any(|pattern| {
                let is_name = !pattern.ends_with('*') || !usual.contains_key(name);
                is_name && name_fits(&shown, pattern)
            })
        };
        let variables = self.spec.environment.iter();
        variables
            .filter(|(name, _)| travels(name) || is_added(name))
            .collect()
    }

    fn env_filter(&self) -> EnvFilterParams {
        EnvFilterParams {
            remove: self.shared.settings.removed_variables.clone(),
        }
    }

    fn sandbox_params(
        &self,
        rung: ContainmentRung,
        searched: &SearchedBounds,
        environment: &Environment,
    ) -> anyhow::Result<SandboxParams> {
        let bounds = &searched.bounds;
        let (writable, hidden, executables) = match &searched.tools {
            Some(tools) => {
                let writable = bounds.writable.iter().chain(&tools.caches);
                let hidden = bounds.hidden.clone();
                (
                    writable.cloned().collect(),
                    hidden,
                    tools.executables.clone(),
                )
            }
            None => {
                let held = containment(rung, bounds, environment);
                (held.writable, held.hidden, held.executables)
            }
        };
        let namespaces = rung == ContainmentRung::Namespaces;
        Ok(SandboxParams {
            writable: texts(writable)?,
            hidden: texts(hidden)?,
            protected: match namespaces {
                true => texts(bounds.protected.clone())?,
                false => Vec::new(),
            },
            executables: executables.map(texts).transpose()?,
            network: bounds.network,
            namespaces,
        })
    }

    /// Fails if the runtime has other files than this program: tools would
    /// read and change those of this machine, and commands those over there.
    async fn check_files(&self, session: &OpenedSession) -> anyhow::Result<()> {
        let directory = text(self.spec.working_dir.clone())?;
        let words = ["stat", "-L", "-c", "%i %Y", &directory];
        let there = self.probed(session, &words).await?;
        let here = std::fs::metadata(&self.spec.working_dir)?;
        let here = format!("{} {}", here.ino(), here.mtime());
        if there.stdout.trim() == here {
            return Ok(());
        }
        bail!(
            "the runtime at {} does not have the files of '{directory}': tools would work on \
             those of this machine and commands on others; share the directory under the same \
             name, or run halter there",
            self.shared.client.target()
        )
    }
}

/// What is said after each command in a sandbox that lacks this.
fn note_of(missing: &[String]) -> Option<String> {
    (!missing.is_empty()).then(|| {
        format!(
            "the sandbox of the runtime does not hold: {}",
            missing.join(", ")
        )
    })
}

/// Why the runtime gives no sandbox, if that is what it refused.
fn missing_sandbox(error: &anyhow::Error) -> Option<String> {
    match error.downcast_ref::<ClientError>() {
        Some(ClientError::Refused(refused))
            if refused.reason.as_deref() == Some("isolation_unavailable") =>
        {
            Some(refused.message.clone())
        }
        _ => None,
    }
}

fn texts(paths: Vec<PathBuf>) -> anyhow::Result<Vec<String>> {
    paths.into_iter().map(text).collect()
}
