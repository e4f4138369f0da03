//! Where a session of the runtime is and what holds its commands: on this
//! machine in a sandbox, in a container, or on another machine.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::bail;
use halter_exec::ContainmentRung;
use halter_tools::exec::{Environment, ExecPlace, containment, not_held};
use halter_tools::policy::{SandboxBounds, SandboxMode};

use super::Shared;
use super::container::{not_held_in_a_container, not_held_of_other_files};
use super::lease::LeaseRenewal;
use super::session::{OpenedSession, RuntimeSession, text};
use super::started::variables;
use crate::client::{ClientError, Target};
use crate::protocol::{CreateParams, DescribedLevel, SandboxParams};

/// What a session of the runtime is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionLocation {
    /// On this machine, in a sandbox where one is wanted.
    Here,
    /// In a container.
    Container,
    /// Behind an address: another machine, or what counts as one.
    Elsewhere,
}

/// What holds sessions on this machine, strongest first.
const RUNGS: [ContainmentRung; 2] = [ContainmentRung::Namespaces, ContainmentRung::Landlock];

/// Variables that mean the same on another machine.
fn travels(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    matches!(&*name, "LANG" | "TERM" | "TZ" | "CI" | "NO_COLOR")
        || ["LC_", "GIT_"].iter().any(|start| name.starts_with(start))
}

impl Shared {
    pub(super) fn location(&self) -> SessionLocation {
        match (self.client.target(), &self.settings.container) {
            (_, Some(_)) => SessionLocation::Container,
            (Target::Socket(_), None) => SessionLocation::Here,
            _ => SessionLocation::Elsewhere,
        }
    }

    /// What the runtime says it can hold commands with.
    pub(super) async fn levels(&self) -> anyhow::Result<&[DescribedLevel]> {
        let asked = self.levels.get_or_try_init(async || {
            let described = self.called(self.client.describe());
            Ok::<_, anyhow::Error>(described.await?.isolation)
        });
        Ok(asked.await?)
    }

    /// What of these bounds is not held in such a place, in words.
    ///
    /// # Errors
    /// If the policy requires what no rung of a runtime on this machine holds.
    async fn not_held(
        &self,
        location: SessionLocation,
        bounds: &SandboxBounds,
    ) -> anyhow::Result<Vec<String>> {
        match location {
            SessionLocation::Elsewhere => Ok(vec!["anything: there is no sandbox".to_owned()]),
            SessionLocation::Container => Ok(not_held_in_a_container(bounds)),
            SessionLocation::Here => {
                let levels = self.levels().await?;
                let mut reasons = RungReasons::default();
                for rung in RUNGS {
                    let missing = not_held_there(rung, bounds);
                    if let Some(reason) = unavailable(levels, rung) {
                        reasons.add(rung, &reason);
                    } else if bounds.mode == SandboxMode::Require && !missing.is_empty() {
                        reasons.add(rung, &does_not_hold(&missing));
                    } else {
                        return Ok(missing);
                    }
                }
                match bounds.mode {
                    SandboxMode::Require => bail!(self.required(&reasons.0.join("; "))),
                    _ => Ok(vec![format!(
                        "anything: there is no sandbox ({})",
                        reasons.0.join("; ")
                    )]),
                }
            }
        }
    }

    fn required(&self, reasons: &str) -> String {
        format!(
            "policy.sandbox = \"require\", and the runtime at {} does not hold what is asked: \
             {reasons}; set exec.backend to \"local\", or policy.sandbox to \"prefer\"",
            self.client.target()
        )
    }

    /// What there is to say about commands there.
    ///
    /// # Errors
    /// If the policy requires a sandbox that the place does not give.
    pub(super) async fn lacks(&self, bounds: &SandboxBounds) -> anyhow::Result<Vec<String>> {
        let mut lacks = Vec::new();
        let missing = match bounds.mode {
            SandboxMode::Off => Vec::new(),
            _ => self.not_held(self.location(), bounds).await?,
        };
        if bounds.mode == SandboxMode::Require && !missing.is_empty() {
            bail!(self.required(&does_not_hold(&missing)));
        }
        if !missing.is_empty() {
            lacks.push(format!(
                "the sandbox there does not hold: {}",
                missing.join(", ")
            ));
        }
        if bounds.mode != SandboxMode::Off {
            lacks.push(
                "a command that is let out of the sandbox has a shell of its own there, whose state \
                 is not kept, and cannot run in the background"
                    .to_owned(),
            );
        }
        let is_local = matches!(self.client.target(), Target::Socket(_));
        let location = self.location();
        if location == SessionLocation::Container && !is_local && bounds.mode != SandboxMode::Off {
            lacks.push(format!(
                "where the files are not this machine's, its containers do not hold: {}",
                not_held_of_other_files()
            ));
        }
        lacks.push("hosts that commands do not reach are not named".to_owned());
        if !self.has_file_methods() && !is_local {
            lacks.push(
                "it has no file methods, so files of tools are this machine's: the session's \
                 directory must be the same there, by a shared file system"
                    .to_owned(),
            );
        }
        Ok(lacks)
    }
}

impl RuntimeSession {
    /// Whether tools use the runtime's own files.
    pub(super) fn has_files_there(&self) -> bool {
        self.shared.is_elsewhere(&self.spec.working_dir)
    }

    /// What the session is in. One whose files are not this machine's is
    /// somewhere else, however it is reached.
    fn location(&self) -> SessionLocation {
        match self.shared.location() {
            SessionLocation::Here if self.has_files_there() => SessionLocation::Elsewhere,
            location => location,
        }
    }

    /// Makes the session of the runtime.
    async fn create(&self) -> anyhow::Result<OpenedSession> {
        self.create_in(self.spec.sandbox.clone()).await
    }

    /// Makes a session with other bounds than the session's own.
    async fn create_in(&self, bounds: SandboxBounds) -> anyhow::Result<OpenedSession> {
        let bounds = self.with_scratch(bounds);
        let mut params = self.basic_params()?;
        match self.location() {
            SessionLocation::Here => {
                params.clean_env = true;
                params.env = variables(&self.spec.environment);
                return self.create_here(params, &bounds).await;
            }
            SessionLocation::Container => {
                params.docker = Some(self.container_params(&bounds).await?);
            }
            SessionLocation::Elsewhere => {}
        }
        let mut missing = match bounds.mode {
            SandboxMode::Off => Vec::new(),
            _ => self.shared.not_held(self.location(), &bounds).await?,
        };
        if params.docker.is_some() && bounds.mode != SandboxMode::Off && self.has_files_there() {
            missing.push(not_held_of_other_files());
        }
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
        if matches!(
            self.shared.client.target(),
            Target::Http { .. } | Target::Remote(_)
        ) && !self.has_files_there()
            && let Err(error) = self.check_files(&session).await
        {
            self.destroy_session(&session).await;
            return Err(error);
        }
        Ok(session)
    }

    /// Makes a session on this machine, in the strongest sandbox that the
    /// runtime can give it.
    async fn create_here(
        &self,
        mut params: CreateParams,
        bounds: &SandboxBounds,
    ) -> anyhow::Result<OpenedSession> {
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
            params.sandbox = Some(self.sandbox_params(rung, bounds)?);
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
        let known: Environment = self
            .spec
            .environment
            .iter()
            .filter(|(name, _)| travels(name))
            .collect();
        Ok(CreateParams {
            shell: Some(self.shell_name()),
            env: variables(&known),
            working_dir: Some(text(self.spec.working_dir.clone())?),
            name: Some("halter".to_owned()),
            lease_s: Some(self.shared.settings.lease.as_secs_f64()),
            ..CreateParams::default()
        })
    }

    fn sandbox_params(
        &self,
        rung: ContainmentRung,
        bounds: &SandboxBounds,
    ) -> anyhow::Result<SandboxParams> {
        let held = containment(rung, bounds, &self.spec.environment);
        let namespaces = rung == ContainmentRung::Namespaces;
        Ok(SandboxParams {
            writable: texts(held.writable)?,
            hidden: texts(held.hidden)?,
            protected: match namespaces {
                true => texts(held.protected)?,
                false => Vec::new(),
            },
            executables: held.executables.map(texts).transpose()?,
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

/// Why each rung does not do.
#[derive(Debug, Default)]
struct RungReasons(Vec<String>);

impl RungReasons {
    fn add(&mut self, rung: ContainmentRung, reason: &str) {
        self.0.push(format!("{}: {reason}", rung.name()));
    }
}

/// What a rung of a runtime on this machine does not hold of these bounds.
fn not_held_there(rung: ContainmentRung, bounds: &SandboxBounds) -> Vec<String> {
    let mut missing = not_held(rung, bounds);
    if bounds.network && rung == ContainmentRung::Namespaces {
        missing.push("the list of hosts, for programs (the network is the host's)".to_owned());
    }
    missing
}

/// Why the runtime has not got a rung, if it has not.
fn unavailable(levels: &[DescribedLevel], rung: ContainmentRung) -> Option<String> {
    let level = levels.iter().find(|level| level.name == rung.name());
    match level {
        Some(level) if level.state == "enforced" => None,
        Some(level) => Some(level.reason.clone().unwrap_or_else(|| level.state.clone())),
        None => Some("the runtime does not know it".to_owned()),
    }
}

fn does_not_hold(missing: &[String]) -> String {
    format!("it does not hold: {}", missing.join(", "))
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
