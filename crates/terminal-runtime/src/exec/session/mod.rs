//! A session as the core knows it.

pub(in crate::exec) mod container;
pub(in crate::exec) mod isolation;
pub(in crate::exec) mod shared;
pub(in crate::exec) mod tree;
pub(in crate::exec) mod trees;

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halter_exec::host::{LaunchPlan, ShellDriver};
use halter_exec::{Environment, ShellConfig};
use halter_policy::environment::command_environment;
use tokio_util::sync::CancellationToken;

use crate::exec::error::{CoreError, StartFailure};
use crate::exec::open::OpenSession;
use crate::exec::record::{CountRecord, Record, TreeId};
use crate::exec::session::container::{ALIVE, Container, SHARED_INSIDE};
use crate::exec::session::shared::SharedDirectory;
use crate::exec::session::tree::Tree;
use crate::exec::session::trees::{SessionTrees, with_shared};
use crate::exec::shell::HolderHost;
use crate::exec::types::{CoreSettings, SessionSpec};
use crate::holder::{HolderLink, HolderRequest, Key, UnitKind};
use crate::session::SessionId;
use crate::sys;

/// A session's shell, once it has one.
pub(in crate::exec) type SessionShell = Option<ShellDriver<HolderHost>>;

/// A session that has been given a command, and so has a holder.
pub(in crate::exec) struct Session {
    pub id: SessionId,
    /// Its holder. It ends with this one.
    pub link: HolderLink,
    /// The slot of its record.
    pub key: Key,
    /// The slot of its counter.
    pub count_key: Key,
    pub spec: SessionSpec,
    pub trees: SessionTrees,
    pub shell: Arc<tokio::sync::Mutex<SessionShell>>,
    pub closed: CancellationToken,
    pub commands: AtomicU64,
    /// The container its commands run in.
    pub container: Option<Container>,
    /// Where its shell finds what it is given, if not by our descriptors.
    pub shared: Option<SharedDirectory>,
}

/// What the names of a session's groups and directories follow from.
pub(in crate::exec) struct RuntimeNames<'a> {
    pub settings: &'a CoreSettings,
    /// The beginning of all names this runtime gives.
    pub prefix: &'a str,
}

impl Session {
    pub(in crate::exec) fn new(
        names: &RuntimeNames<'_>,
        link: HolderLink,
        open: &OpenSession,
        keys: (Key, Key),
        trees: SessionTrees,
    ) -> Self {
        let (id, spec) = (open.id, open.spec.clone());
        let name = format!("{}{id}", names.prefix);
        let shared = shared_directory(names.settings, &name, &spec);
        let container = spec.container_image.clone().map(|image| {
            let ours = shared.as_ref().map(SharedDirectory::ours);
            Container::new(name, image, ours.unwrap_or_default(), &spec)
        });
        Self {
            container,
            shared,
            id,
            link,
            key: keys.0,
            count_key: keys.1,
            spec,
            trees,
            shell: Arc::default(),
            closed: open.closed.clone(),
            commands: AtomicU64::new(0),
        }
    }

    /// The tree of one of its processes.
    pub(in crate::exec) fn tree(&self, pid: i32, id: &TreeId) -> Tree {
        match (&self.container, id) {
            (Some(container), TreeId::Marker(marker)) => {
                let tree = container.tree(marker);
                let leader = tree.leader().unwrap_or(0);
                Tree::Contained(tree, leader)
            }
            _ => Tree::Held(Box::new(self.trees.tree(pid, id))),
        }
    }

    /// Confines the process of a plan and says how its tree is found again.
    pub(in crate::exec) fn place(
        &self,
        settings: &CoreSettings,
        plan: &mut LaunchPlan,
        terminal: bool,
    ) -> Result<TreeId, CoreError> {
        let Some(container) = &self.container else {
            let shared = match &self.spec.sandbox {
                Some(_) => self.made_shared()?,
                None => None,
            };
            return self.trees.place(&self.spec, shared.as_deref(), plan);
        };
        let marker = self.trees.new_mark();
        container.enter(settings, plan, &marker, terminal)?;
        Ok(TreeId::Marker(marker.into()))
    }

    /// The directory it shares with its shell, if it has one, made by now.
    fn made_shared(&self) -> Result<Option<PathBuf>, CoreError> {
        let Some(shared) = &self.shared else {
            return Ok(None);
        };
        shared.make().map_err(|error| CoreError::Internal {
            message: format!("making `{}` failed: {error}", shared.ours().display()),
        })?;
        Ok(Some(shared.ours()))
    }

    /// Has its holder keep open what tells its container that it lives.
    fn keep_alive(&self) -> Result<(), CoreError> {
        let Some(shared) = &self.shared else {
            return Ok(());
        };
        let pipe = shared.fifo(ALIVE).map_err(|error| CoreError::Internal {
            message: format!("making a pipe for the container failed: {error}"),
        })?;
        let parts = [pipe.write.as_fd(), pipe.read.as_fd()];
        let unit = self.link.give(UnitKind::Input, &parts);
        self.link.send(&[HolderRequest::Store {
            key: self.key,
            record: Record::Session(Box::new(self.spec.clone())).encode(),
            units: vec![unit],
        }]);
        Ok(())
    }

    /// Has its holder put all its processes into name spaces, if it is to.
    ///
    /// # Errors
    /// Why that cannot be.
    pub(in crate::exec) async fn contain(&self) -> Result<(), CoreError> {
        let Some(rules) = self.spec.sandbox.as_ref().filter(|rules| rules.namespaces) else {
            return Ok(());
        };
        let shared = self.made_shared()?;
        let containment = with_shared(rules, shared.as_deref());
        let contained = self.link.contain(containment).await;
        contained.map_err(|message| CoreError::StartFailed {
            reason: StartFailure::IsolationUnavailable,
            message,
        })
    }

    /// Has what a program outside has replaced be protected and hidden again, and
    /// these paths be protected, before something more is started. Returns where
    /// something was mounted: who is within has to enter it anew.
    ///
    /// # Errors
    /// If some of it stays open: nothing is to be started then.
    pub(in crate::exec) async fn cover(
        &self,
        settings: &CoreSettings,
        protect: &[PathBuf],
    ) -> Result<Vec<PathBuf>, CoreError> {
        let has_namespaces = self.spec.sandbox.as_ref().is_some_and(|it| it.namespaces);
        let covered = match &self.container {
            Some(container) => Box::pin(container.cover(settings, protect)).await,
            None if has_namespaces => self.link.cover(protect.to_vec()).await,
            None => return Ok(Vec::new()),
        };
        covered.map_err(|reason| CoreError::StartFailed {
            reason: StartFailure::NotCovered,
            message: format!(
                "a protected or sensitive file is new, and cannot be covered for the commands of \
                 this session, so nothing runs in it: {reason}; a new session covers it"
            ),
        })
    }

    /// Makes sure that there is a place to run something in.
    pub(in crate::exec) async fn ready(&self, settings: &CoreSettings) -> Result<(), CoreError> {
        if let Some(container) = &self.container {
            self.made_shared()?;
            // Rare and large: not a part of every command.
            Box::pin(container.ready(settings, || self.keep_alive())).await?;
        }
        Ok(())
    }

    /// Removes the names of a command's streams, if they have names.
    pub(in crate::exec) fn forget_names(&self, key: Key) {
        if let Some(shared) = &self.shared {
            shared.forget(key);
        }
    }

    /// Removes all that was made for it.
    pub(in crate::exec) async fn clear(&self, settings: &CoreSettings) {
        if let Some(container) = &self.container {
            Box::pin(container.remove(settings)).await;
        }
        self.trees.end().await;
        if let Some(shared) = &self.shared {
            shared.remove();
        }
    }

    /// The variables its commands see.
    pub(in crate::exec) fn environment(&self, settings: &CoreSettings) -> Environment {
        let own = || {
            let own = settings.environment.iter();
            own.map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        let mut environment = match (self.spec.clean_environment, &self.spec.environment_filter) {
            (true, _) => Environment::new(),
            (false, Some(remove)) => command_environment(own(), &[], remove)
                .into_iter()
                .collect(),
            (false, None) => settings.environment.clone(),
        };
        environment.extend(self.spec.environment.iter());
        environment
    }

    pub(in crate::exec) fn shell_config(&self, settings: &CoreSettings) -> ShellConfig {
        let environment = match self.container {
            Some(_) => self.spec.environment.clone(),
            None => self.environment(settings),
        };
        let mut config = ShellConfig::new(environment, &self.spec.working_dir);
        config.program = Some(self.spec.shell.clone());
        config
    }

    pub(in crate::exec) fn store_request(&self) -> HolderRequest {
        HolderRequest::Store {
            key: self.key,
            record: Record::Session(Box::new(self.spec.clone())).encode(),
            units: Vec::new(),
        }
    }

    /// Counts one more command, for the holder.
    pub(in crate::exec) fn count_request(&self) -> HolderRequest {
        let record = CountRecord {
            commands: self.commands.fetch_add(1, Ordering::Relaxed) + 1,
            group: self.trees.group(),
        };
        HolderRequest::Store {
            key: self.count_key,
            record: Record::Count(record).encode(),
            units: Vec::new(),
        }
    }
}

/// Where the commands of a session see a `/proc` that its holder is to make
/// anew, for a PID namespace of their own; nowhere if they are to have none.
/// What runs in a container or in name spaces has one already.
pub(in crate::exec) fn own_procs(settings: &CoreSettings, spec: &SessionSpec) -> Vec<PathBuf> {
    let has_namespaces = spec.sandbox.as_ref().is_some_and(|rules| rules.namespaces);
    if !settings.pid_namespace || spec.container_image.is_some() || has_namespaces {
        return Vec::new();
    }
    let mut procs = vec![PathBuf::from("/proc")];
    procs.extend(spec.chroot.as_deref().and_then(proc_below));
    procs
}

/// The `/proc` below another root, if it has one.
fn proc_below(root: &Path) -> Option<PathBuf> {
    let proc = root.join("proc");
    proc.join("self/fd").exists().then_some(proc)
}

/// A directory to hand things over in, where the descriptors of this machine's
/// processes are not to be seen.
fn shared_directory(
    settings: &CoreSettings,
    name: &str,
    spec: &SessionSpec,
) -> Option<SharedDirectory> {
    let parent = settings.state_dir.join("shared");
    let name = name.to_owned();
    if spec.container_image.is_some() {
        return Some(SharedDirectory::new(parent, name, SHARED_INSIDE.into()));
    }
    if spec.sandbox.is_some() {
        let theirs = parent.join(&name);
        return Some(SharedDirectory::new(parent, name, theirs));
    }
    let shown = sys::descriptor_path(0, 0).is_some();
    match &spec.chroot {
        Some(root) if shown && proc_below(root).is_some() => None,
        None if shown => None,
        None => {
            let theirs = parent.join(&name);
            Some(SharedDirectory::new(parent, name, theirs))
        }
        Some(root) => {
            let name = format!(".{name}");
            let theirs = Path::new("/").join(&name);
            Some(SharedDirectory::new(root.clone(), name, theirs))
        }
    }
}
