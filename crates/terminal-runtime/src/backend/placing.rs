//! Where a session of the runtime is and what holds its commands: on this
//! machine in a sandbox, in a container, or on another machine.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use halter_exec::ContainmentRung;
use halter_tools::exec::{Environment, ExecPlace, containment, not_held};
use halter_tools::policy::{SandboxBounds, SandboxMode};

use super::Shared;
use super::session::{OpenedSession, RuntimeSession, text};
use super::started::variables;
use crate::client::{ClientError, Target};
use crate::protocol::{CreateParams, DockerParams, MountParams, SandboxParams};

/// What a session of the runtime is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionLocation {
    /// On this machine, in a sandbox by Landlock where one is wanted.
    Here,
    /// In a container.
    Container,
    /// Behind an address: another machine, or what counts as one.
    Elsewhere,
}

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

    /// What of these bounds is not held there, in words.
    fn not_held(&self, bounds: &SandboxBounds) -> Vec<String> {
        match self.location() {
            SessionLocation::Here => not_held(ContainmentRung::Landlock, bounds),
            SessionLocation::Elsewhere => vec!["anything: there is no sandbox".to_owned()],
            SessionLocation::Container => {
                let mut missing = Vec::new();
                if bounds.network {
                    missing.push("the list of hosts, for programs".to_owned());
                }
                if bounds.programs.is_some() {
                    missing.push("the list of programs, beyond the judge".to_owned());
                }
                if bounds.protected.iter().any(|path| !path.exists()) {
                    missing.push("protected paths that do not exist yet".to_owned());
                }
                missing
            }
        }
    }

    /// What there is to say about commands there.
    ///
    /// # Errors
    /// If the policy requires a sandbox that the place does not give.
    pub(super) fn lacks(&self, bounds: &SandboxBounds) -> anyhow::Result<Vec<String>> {
        let target = self.client.target();
        let mut lacks = Vec::new();
        let missing = match bounds.mode {
            SandboxMode::Off => Vec::new(),
            _ => self.not_held(bounds),
        };
        if bounds.mode == SandboxMode::Require && !missing.is_empty() {
            bail!(
                "policy.sandbox = \"require\", and the runtime at {target} does not hold: {}; set \
                 exec.backend to \"local\", or policy.sandbox to \"prefer\"",
                missing.join(", ")
            );
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
        lacks.push("hosts that commands do not reach are not named".to_owned());
        if self.location() == SessionLocation::Elsewhere {
            lacks.push(
                "files of tools are this machine's: the session's directory must be the same \
                 there, by a shared file system"
                    .to_owned(),
            );
        }
        Ok(lacks)
    }
}

impl RuntimeSession {
    /// Makes the session of the runtime.
    async fn create(&self) -> anyhow::Result<OpenedSession> {
        self.create_in(self.spec.sandbox.clone()).await
    }

    /// Makes a session with other bounds than the session's own.
    async fn create_in(&self, bounds: SandboxBounds) -> anyhow::Result<OpenedSession> {
        let bounds = self.with_scratch(bounds);
        self.shared.lacks(&bounds)?;
        let mut params = self.basic_params()?;
        let missing = match bounds.mode {
            SandboxMode::Off => Vec::new(),
            _ => self.shared.not_held(&bounds),
        };
        let mut note = (!missing.is_empty()).then(|| {
            format!(
                "the sandbox of the runtime does not hold: {}",
                missing.join(", ")
            )
        });
        match self.shared.location() {
            SessionLocation::Here => {
                params.clean_env = true;
                params.env = variables(&self.spec.environment);
                params.sandbox = self.sandbox_params(&bounds)?;
            }
            SessionLocation::Container => params.docker = Some(self.container_params(&bounds)?),
            SessionLocation::Elsewhere => {
                note = (bounds.mode != SandboxMode::Off).then(|| self.no_sandbox(""));
            }
        }
        let in_container = params.docker.is_some() && bounds.mode != SandboxMode::Off;
        let mut is_contained = params.sandbox.is_some() || in_container;
        let client = &self.shared.client;
        let mut created = self.called(client.create_session(&params)).await;
        if let Some(reason) = created.as_ref().err().and_then(missing_sandbox)
            && params.sandbox.take().is_some()
        {
            is_contained = false;
            note = Some(self.no_sandbox(&reason));
            created = self.called(client.create_session(&params)).await;
        }
        let session = OpenedSession {
            id: created?.session_id,
            note,
            is_contained,
        };
        if matches!(client.target(), Target::Http { .. } | Target::Remote(_))
            && let Err(error) = self.check_files(&session).await
        {
            self.destroy_session(&session).await;
            return Err(error);
        }
        Ok(session)
    }

    /// Makes a session in a container, with a shell that the image has.
    pub(super) async fn create_with_shell(&self) -> anyhow::Result<OpenedSession> {
        let session = self.create().await?;
        let is_first = self.shell.load(Ordering::Relaxed) == 0;
        if self.shared.location() != SessionLocation::Container || !is_first {
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
            _ if self.shared.location() == SessionLocation::Container => {
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

    /// Bounds with the session's scratch directory, which exists by now.
    fn with_scratch(&self, mut bounds: SandboxBounds) -> SandboxBounds {
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
            ..CreateParams::default()
        })
    }

    fn sandbox_params(&self, bounds: &SandboxBounds) -> anyhow::Result<Option<SandboxParams>> {
        if bounds.mode == SandboxMode::Off {
            return Ok(None);
        }
        let held = containment(ContainmentRung::Landlock, bounds, &self.spec.environment);
        Ok(Some(SandboxParams {
            writable: texts(held.writable)?,
            hidden: texts(held.hidden)?,
            executables: held.executables.map(texts).transpose()?,
            network: bounds.network,
        }))
    }

    /// The session's directories under their own names, writable as the policy
    /// says; what is hidden is covered.
    fn container_params(&self, bounds: &SandboxBounds) -> anyhow::Result<DockerParams> {
        let image = self.shared.settings.container.clone();
        let mut writable = bounds.writable.clone();
        let directory = &self.spec.working_dir;
        let real = directory
            .canonicalize()
            .with_context(|| format!("'{}' cannot be mounted", directory.display()))?;
        let mut mounts = Vec::new();
        if bounds.mode == SandboxMode::Off {
            writable.push(real.clone());
        }
        let covers = |path: &PathBuf| writable.iter().any(|root| path.starts_with(root));
        if !covers(&real) {
            mounts.push(bind(&real, &real, true)?);
        }
        for root in &writable {
            mounts.push(bind(root, root, false)?);
        }
        if *directory != real {
            mounts.push(bind(&real, directory, !covers(&real))?);
        }
        let inside = |path: &&PathBuf| path.starts_with(&real) || covers(path);
        for path in bounds
            .protected
            .iter()
            .filter(inside)
            .filter(|it| it.exists())
        {
            mounts.push(bind(path, path, true)?);
        }
        for path in bounds.hidden.iter().filter(inside) {
            mounts.push(match path.is_dir() {
                true => MountParams {
                    source: None,
                    target: text(path.clone())?,
                    read_only: false,
                },
                false => bind(Path::new("/dev/null"), path, true)?,
            });
        }
        Ok(DockerParams {
            image: image.unwrap_or_default(),
            mounts,
            no_network: self.spec.network.is_closed(),
            own_user: true,
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

fn bind(source: &Path, target: &Path, read_only: bool) -> anyhow::Result<MountParams> {
    Ok(MountParams {
        source: Some(text(source.to_owned())?),
        target: text(target.to_owned())?,
        read_only,
    })
}

fn texts(paths: Vec<PathBuf>) -> anyhow::Result<Vec<String>> {
    paths.into_iter().map(text).collect()
}
