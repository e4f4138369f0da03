//! A second shell, for commands that were let out of the session's sandbox or
//! into a wider one.
//!
//! Every program inside can speak for the first shell, so nothing it says is
//! evaluated elsewhere: the second one starts with the session's own
//! environment, in a directory that is checked, and with what
//! [`hand_over`](super::hand_over) lets through.

use super::hand_over::{HandOver, way_back};
use super::pinned::PinnedDirectory;
use super::{OpenShell, SessionShell, with_scratch};
use crate::exec::{Environment, ExecPlace, NamedSandbox, SessionSandbox};
use crate::network::{FilteringProxy, ProxyClient, ProxyRefusals};
use crate::scratch::ScratchDir;
use anyhow::{Context as _, bail};
use halter_exec::host::Sandbox;
use halter_exec::{PersistentShell, ShellConfig};
use halter_policy::{SandboxBounds, SandboxMode};
use halter_protocol::encoding::escape_path;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories of which every sandbox of name spaces has its own.
const OWN_DIRECTORIES: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// What is said of a command outside the sandbox.
pub(super) const OUTSIDE_NOTE: &str =
    "this ran outside the sandbox, with the user's rights, as was approved";

/// A shell with what it lies in.
pub(super) struct PlacedShell {
    // Dropped in this order: the shell lies within the sandbox.
    pub(super) shell: PersistentShell,
    pub(super) sandbox: SessionSandbox,
    pub(super) proxy: Option<FilteringProxy>,
    /// What its environment has besides the session's.
    pub(super) variables: Vec<(String, String)>,
}

/// The second shell of a session. What its commands leave running ends when it
/// is replaced by one for another place.
pub(super) struct SideShell {
    place: ExecPlace,
    placed: PlacedShell,
    /// What its shell was started with.
    given: Environment,
    /// Where that was.
    start: PathBuf,
    /// What of the first shell's state it was not given, in words.
    left_behind: Option<String>,
}

impl SideShell {
    pub(super) fn pid(&self) -> Option<i32> {
        self.placed.shell.pid()
    }

    pub(super) async fn close(self) {
        self.placed.shell.close().await;
    }
}

impl SessionShell {
    /// The shell for a command of this place, and where that runs if it is not
    /// where the shell is: the first, unless that lies in a sandbox which the
    /// command was let out of.
    pub(super) async fn open_at(
        &mut self,
        place: &ExecPlace,
        cwd: Option<PathBuf>,
        scratch: &ScratchDir,
    ) -> anyhow::Result<(OpenShell<'_>, Option<PathBuf>)> {
        self.open(scratch).await?;
        if !self.is_aside(place) {
            let open = self.open(scratch).await?;
            let here = open.shell.cwd().to_owned();
            let enters_anew = open.sandbox.cover_again(&here).await?;
            return Ok((open, cwd.or(enters_anew.then_some(here))));
        }
        check_place(place, &self.bounds)?;
        let main = self.main.as_mut().context("the shell is gone")?;
        let directory = checked_directory(cwd, main.shell.cwd(), &self.working_dir, &self.bounds)?;
        let report = main.shell.report().await?.unwrap_or_default();
        let mut inside = self.environment.clone();
        inside.extend(main.variables.iter().cloned());
        let going = HandOver::new(&report, &self.written, &inside);
        let side = match self.side.take() {
            Some(mut side) if side.place == *place => {
                // What was made elsewhere is protected here, too; its shell is
                // started anew.
                side.placed.sandbox.forget_changes().await;
                side.placed.sandbox.cover_again(&self.working_dir).await?;
                side
            }
            other => {
                if let Some(other) = other {
                    other.close().await;
                }
                SideShell {
                    placed: self.make(bounds_of(place, scratch), scratch).await?,
                    place: place.clone(),
                    given: Environment::new(),
                    start: PathBuf::new(),
                    left_behind: None,
                }
            }
        };
        let side = self.side.insert(side);
        side.given = self.environment.clone();
        side.given.extend(side.placed.variables.iter().cloned());
        side.given.extend(going.variables);
        side.left_behind = going.note;
        let mut config = ShellConfig::new(side.given.clone(), directory.path());
        config.options = report.options;
        let shell = &mut side.placed.shell;
        shell.begin_anew(config).await?;
        // The name may have got another meaning since it was looked at.
        if !matches!(shell.make_ready().await?, Some(found) if directory.is(found)?) {
            bail!(
                "'{}' was replaced while the command was about to start there",
                escape_path(directory.path())
            );
        }
        shell.cwd().clone_into(&mut side.start);
        Ok((OpenShell::of(&mut side.placed), None))
    }

    /// Whether a command of this place runs in the second shell.
    pub(super) fn is_aside(&self, place: &ExecPlace) -> bool {
        let main = self.main.as_ref();
        let is_inside = main.is_some_and(|main| main.sandbox.sandbox().is_some());
        is_inside && *place != ExecPlace::Session
    }

    /// What is said of a command in the second shell.
    pub(super) fn side_note(&self) -> Option<String> {
        let side = self.side.as_ref()?;
        let outside = (side.place == ExecPlace::Outside).then(|| OUTSIDE_NOTE.to_owned());
        let parts: Vec<String> = outside
            .into_iter()
            .chain(side.left_behind.clone())
            .collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Has the first shell go where a command in the second went, and take the
    /// variables that it has exported.
    pub(super) async fn return_state(&mut self) -> anyhow::Result<()> {
        let (Some(main), Some(side)) = (&mut self.main, &mut self.side) else {
            return Ok(());
        };
        // What it changed is known and was approved.
        main.sandbox.forget_changes().await;
        let shell = &mut side.placed.shell;
        let Some(report) = shell.report().await? else {
            return Ok(());
        };
        let local = side.placed.variables.iter().chain(&main.variables);
        let local = local.map(|(name, _)| name.into()).collect();
        let mut change = way_back(&report, &side.given, &local);
        if shell.cwd() != side.start {
            change.cwd = Some(shell.cwd().to_owned());
        }
        Ok(main.shell.take_over(&change).await?)
    }
}

/// What a command beside the shells is in. Kept until it has ended.
pub(super) struct CommandSurroundings {
    pub(super) directory: PathBuf,
    /// Held until the command has started there.
    pub(super) pinned: Option<PinnedDirectory>,
    pub(super) environment: Environment,
    pub(super) sandbox: Option<Arc<Sandbox>>,
    pub(super) named: Option<NamedSandbox>,
    pub(super) network: CommandNetwork,
    pub(super) note: Option<String>,
}

/// The way of a command to hosts. Kept until it has ended.
#[derive(Debug, Default)]
pub(super) struct CommandNetwork {
    _proxy: Option<FilteringProxy>,
    _client: Option<ProxyClient>,
    /// What it is refused.
    pub(super) refusals: ProxyRefusals,
}

impl CommandNetwork {
    /// By a proxy of its own, if there is one.
    fn own(proxy: Option<FilteringProxy>) -> Self {
        let refusals = proxy.as_ref().map(|it| it.refusals().clone());
        Self {
            refusals: refusals.unwrap_or_default(),
            _proxy: proxy,
            _client: None,
        }
    }

    /// By the proxy of others.
    fn shared(client: ProxyClient) -> Self {
        Self {
            refusals: client.refusals().clone(),
            _proxy: None,
            _client: Some(client),
        }
    }
}

impl SessionShell {
    /// What a command of this place is in that has no shell of the session.
    pub(super) async fn surroundings(
        &mut self,
        place: &ExecPlace,
        cwd: Option<PathBuf>,
        scratch: &ScratchDir,
    ) -> anyhow::Result<CommandSurroundings> {
        self.open(scratch).await?;
        let is_aside = self.is_aside(place);
        let main = self.main.as_mut().context("the shell is gone")?;
        let mut environment = self.environment.clone();
        if !is_aside {
            let directory = cwd.unwrap_or_else(|| main.shell.cwd().to_owned());
            main.sandbox.cover_again(&directory).await?;
            environment.extend(main.variables.iter().cloned());
            let client = main.proxy.as_ref().map(FilteringProxy::client);
            let network = client.map_or_else(CommandNetwork::default, |client| {
                environment.extend(SessionSandbox::variables_of(&client, &self.network));
                CommandNetwork::shared(client)
            });
            return Ok(CommandSurroundings {
                directory,
                pinned: None,
                environment,
                sandbox: main.sandbox.sandbox().cloned(),
                named: main.sandbox.named(),
                network,
                note: main.sandbox.standing_note(),
            });
        }
        check_place(place, &self.bounds)?;
        let pinned = checked_directory(cwd, main.shell.cwd(), &self.working_dir, &self.bounds)?;
        let placed = self.make(bounds_of(place, scratch), scratch).await?;
        environment.extend(placed.variables);
        let outside = *place == ExecPlace::Outside;
        let directory = match outside {
            true => pinned.held_path(),
            // A sandbox finds nothing by our descriptors; what another
            // directory could cost there is within what was opened.
            false => pinned.path().to_owned(),
        };
        Ok(CommandSurroundings {
            directory,
            pinned: Some(pinned),
            environment,
            sandbox: placed.sandbox.sandbox().cloned(),
            named: placed.sandbox.named(),
            network: CommandNetwork::own(placed.proxy),
            note: outside.then(|| OUTSIDE_NOTE.to_owned()),
        })
    }
}

/// What the sandbox of another place holds.
fn bounds_of(place: &ExecPlace, scratch: &ScratchDir) -> SandboxBounds {
    match place {
        ExecPlace::Opened(bounds) => with_scratch((**bounds).clone(), scratch),
        ExecPlace::Session | ExecPlace::Outside => SandboxBounds::default(),
    }
}

fn check_place(place: &ExecPlace, bounds: &SandboxBounds) -> anyhow::Result<()> {
    if *place == ExecPlace::Outside && bounds.mode == SandboxMode::Require {
        bail!("policy.sandbox = \"require\": no command runs outside the sandbox");
    }
    Ok(())
}

/// Where a command runs that leaves the sandbox: in the directory it names, or
/// where the shell says it is, if that is one of the session's. Fails if
/// another place has another directory of this name.
fn checked_directory(
    named: Option<PathBuf>,
    said: &Path,
    working_dir: &Path,
    bounds: &SandboxBounds,
) -> anyhow::Result<PinnedDirectory> {
    let directory = named.as_deref().unwrap_or(said);
    let shown = escape_path(directory);
    let real = directory.canonicalize();
    let of_the_session = bounds.writable.iter().any(|path| {
        let real = real.as_deref().unwrap_or(directory);
        real.starts_with(path) || directory.starts_with(path)
    });
    let own = OWN_DIRECTORIES.iter().any(|it| directory.starts_with(it));
    if real.is_err() || (own && !of_the_session) {
        bail!(
            "the shell is in '{shown}', which only its sandbox has; `cd` to a directory of the \
             workspace first"
        );
    }
    if named.is_none() && !of_the_session {
        bail!(
            "the shell is in '{shown}', outside the workspace; a command that leaves the sandbox \
             has to name such a directory as `cwd`"
        );
    }
    PinnedDirectory::open(directory, working_dir)
}
