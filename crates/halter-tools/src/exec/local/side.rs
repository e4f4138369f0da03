//! A second shell, for commands that were let out of the session's sandbox or
//! into a wider one. It goes on from the state of the first, which then goes
//! on from its.

use super::{OpenShell, SessionShell, with_scratch};
use crate::exec::{Environment, ExecPlace, SessionSandbox};
use crate::network::FilteringProxy;
use crate::scratch::ScratchDir;
use anyhow::{Context as _, bail};
use halter_exec::host::Sandbox;
use halter_exec::{PersistentShell, SavedShell};
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
    /// The shell for a command of this place: the first, unless that lies in a
    /// sandbox which the command was let out of.
    pub(super) async fn open_at(
        &mut self,
        place: &ExecPlace,
        scratch: &ScratchDir,
    ) -> anyhow::Result<OpenShell<'_>> {
        self.open(scratch).await?;
        if !self.is_aside(place) {
            return self.open(scratch).await;
        }
        let main = self.main.as_mut().context("the shell is gone")?;
        check_place(place, &self.bounds)?;
        check_directory(main.shell.cwd(), &self.bounds)?;
        let state = main.shell.save().await?;
        let (known, other) = match self.side.take() {
            Some(side) if side.place == *place => (Some(side), None),
            other => (None, other),
        };
        if let Some(other) = other {
            other.close().await;
        }
        let side = match known {
            Some(side) => side,
            None => SideShell {
                placed: self.make(bounds_of(place, scratch), scratch).await?,
                place: place.clone(),
            },
        };
        let side = &mut self.side.insert(side).placed;
        let main = self.main.as_ref().context("the shell is gone")?;
        if let Some(mut state) = state {
            moved(&mut state, main, side, &self.environment)?;
            side.shell.restore(state).await?;
        }
        Ok(OpenShell::of(side))
    }

    /// Whether a command of this place runs in the second shell.
    pub(super) fn is_aside(&self, place: &ExecPlace) -> bool {
        let main = self.main.as_ref();
        let is_inside = main.is_some_and(|main| main.sandbox.sandbox().is_some());
        is_inside && *place != ExecPlace::Session
    }

    /// Takes the state of the second shell back after a command there.
    pub(super) async fn return_state(&mut self) -> anyhow::Result<()> {
        let (Some(main), Some(side)) = (&mut self.main, &mut self.side) else {
            return Ok(());
        };
        // What it changed is known and was approved.
        main.sandbox.changed_paths();
        if let Some(mut state) = side.placed.shell.save().await? {
            moved(&mut state, &side.placed, main, &self.environment)?;
            main.shell.restore(state).await?;
        }
        Ok(())
    }
}

/// What a command beside the shells is in. Kept until it has ended.
pub(super) struct Surroundings {
    pub(super) directory: PathBuf,
    pub(super) environment: Environment,
    pub(super) sandbox: Option<Arc<Sandbox>>,
    pub(super) proxy: Option<FilteringProxy>,
    pub(super) note: Option<String>,
}

impl SessionShell {
    /// What a command of this place is in that has no shell of the session.
    pub(super) async fn surroundings(
        &mut self,
        place: &ExecPlace,
        scratch: &ScratchDir,
    ) -> anyhow::Result<Surroundings> {
        self.open(scratch).await?;
        let is_aside = self.is_aside(place);
        let main = self.main.as_mut().context("the shell is gone")?;
        let directory = main.shell.cwd().to_owned();
        let mut environment = self.environment.clone();
        if !is_aside {
            environment.extend(main.variables.iter().cloned());
            return Ok(Surroundings {
                directory,
                environment,
                sandbox: main.sandbox.sandbox().cloned(),
                proxy: None,
                note: main.sandbox.standing_note(),
            });
        }
        check_place(place, &self.bounds)?;
        check_directory(&directory, &self.bounds)?;
        let placed = self.make(bounds_of(place, scratch), scratch).await?;
        environment.extend(placed.variables);
        let outside = *place == ExecPlace::Outside;
        Ok(Surroundings {
            directory,
            environment,
            sandbox: placed.sandbox.sandbox().cloned(),
            proxy: placed.proxy,
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

/// Fails if the shell is where another place has another directory.
fn check_directory(directory: &Path, bounds: &SandboxBounds) -> anyhow::Result<()> {
    let real = directory.canonicalize();
    let shared = |path: &PathBuf| {
        let real = real.as_deref().unwrap_or(directory);
        real.starts_with(path) || directory.starts_with(path)
    };
    let own = OWN_DIRECTORIES.iter().any(|it| directory.starts_with(it));
    if real.is_err() || (own && !bounds.writable.iter().any(shared)) {
        bail!(
            "the shell is in '{}', which only its sandbox has; `cd` to a directory of the \
             workspace first",
            escape_path(directory)
        );
    }
    Ok(())
}

/// Fits a state to the environment of another place.
fn moved(
    state: &mut SavedShell,
    from: &PlacedShell,
    to: &PlacedShell,
    session: &Environment,
) -> anyhow::Result<()> {
    for (name, _) in &from.variables {
        match session.get(name) {
            Some(value) => state.export(name.as_ref(), value)?,
            None => state.unset(name.as_ref())?,
        }
    }
    for (name, value) in &to.variables {
        state.export(name.as_ref(), value.as_ref())?;
    }
    Ok(())
}
