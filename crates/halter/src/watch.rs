//! Resources that are taken up while sessions run.

use crate::harness::Halter;
use crate::hook_files::HookFiles;
use crate::resources::{CompiledResources, ResourceCompiler};
use halter_config::{Environment, LoadedConfig, TrustStore};
use halter_hooks::HookWarning;
use halter_protocol::Revision;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::AbortHandle;

/// How often resources are looked at for changes.
pub const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// Takes up resources that change, until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct ResourceWatch(AbortHandle);

impl Drop for ResourceWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Where a watch looks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WatchedResources {
    /// In places that stay the same, and at no hook file.
    Places(Box<ResourceCompiler>),
    /// Wherever a user has resources and hook files in a directory, found anew
    /// with each look: a first skill or a plugin that is switched off counts.
    User(Box<UserResources>),
}

impl From<ResourceCompiler> for WatchedResources {
    fn from(compiler: ResourceCompiler) -> Self {
        Self::Places(Box::new(compiler))
    }
}

/// What a user has in a directory: see [`ResourceCompiler::of_user`] and
/// [`HookFiles::find`].
#[derive(Debug, Clone)]
pub struct UserResources {
    loaded: LoadedConfig,
    environment: Environment,
    directory: PathBuf,
}

impl UserResources {
    /// What there is by a configuration in a directory.
    pub fn new(
        loaded: &LoadedConfig,
        environment: &Environment,
        directory: impl AsRef<Path>,
    ) -> Self {
        Self {
            loaded: loaded.clone(),
            environment: environment.clone(),
            directory: directory.as_ref().to_owned(),
        }
    }
}

impl From<UserResources> for WatchedResources {
    fn from(resources: UserResources) -> Self {
        Self::User(Box::new(resources))
    }
}

impl WatchedResources {
    async fn look(&self) -> anyhow::Result<(CompiledResources, Option<HookFiles>)> {
        match self {
            Self::Places(compiler) => Ok((compiler.compile().await?, None)),
            Self::User(user) => {
                let UserResources {
                    loaded,
                    environment,
                    directory,
                } = user.as_ref();
                let compiler = ResourceCompiler::of_user(loaded, environment, directory);
                let compiled = compiler.compile().await?;
                let trust = TrustStore::of(environment);
                let files = HookFiles::find(loaded, environment, directory, &trust).await;
                Ok((compiled, Some(files)))
            }
        }
    }
}

/// What a look found, as far as it can differ from the one before.
#[derive(PartialEq)]
struct Found {
    resources: Revision,
    hook_files: Option<String>,
    /// What is trusted shows in what is refused.
    refused: Vec<String>,
}

impl Found {
    fn of(compiled: &CompiledResources, files: Option<&HookFiles>) -> Self {
        let mut refused = compiled.messages();
        refused.extend(
            files
                .into_iter()
                .flat_map(|files| files.warnings.iter().map(ToString::to_string)),
        );
        Self {
            resources: compiled.snapshot.revision.clone(),
            hook_files: files.map(|files| files.revision.clone()),
            refused,
        }
    }
}

impl Halter {
    /// Looks at resources again every [`WATCH_INTERVAL`] and replaces those in
    /// force where they differ: sessions see them with their next turn, which
    /// announces the cut. Servers of plugins stay as they were when the harness
    /// was built. Hook files: see [`replace_hook_files`](Self::replace_hook_files).
    pub fn watch_resources(&self, watched: impl Into<WatchedResources>) -> ResourceWatch {
        self.watch_resources_every(WATCH_INTERVAL, watched)
    }

    /// The same at another interval.
    pub fn watch_resources_every(
        &self,
        interval: Duration,
        watched: impl Into<WatchedResources>,
    ) -> ResourceWatch {
        let (harness, watched) = (self.clone(), watched.into());
        let task = tokio::spawn(async move {
            let mut last = None;
            loop {
                tokio::time::sleep(interval).await;
                // What cannot be compiled or replaced now may be with the next look.
                let Ok((compiled, files)) = watched.look().await else {
                    continue;
                };
                let found = Found::of(&compiled, files.as_ref());
                let is_new = match &last {
                    Some(last) => found != *last,
                    None => harness.differs(&found),
                };
                let is_taken = !is_new || harness.take_up(compiled, files);
                last = is_taken.then_some(found);
            }
        });
        ResourceWatch(task.abort_handle())
    }

    fn differs(&self, found: &Found) -> bool {
        let current = self.runtime.services().resources.get();
        let files = found.hook_files.as_ref();
        current.snapshot.revision != found.resources
            || files.is_some_and(|revision| *revision != self.file_hooks().revision)
    }

    /// Whether they are in force now, hook files if they are of use.
    fn take_up(&self, mut compiled: CompiledResources, files: Option<HookFiles>) -> bool {
        let Some(files) = files else {
            return self.replace_resources(compiled).is_ok();
        };
        let unchanged = compiled.clone();
        let Err(error) = self.replace_hook_files(files, compiled) else {
            return true;
        };
        compiled = unchanged;
        compiled.hook_warnings.push(HookWarning::FileRefused {
            place: "hook files".to_owned(),
            reason: format!("{error:#}"),
        });
        self.replace_resources(compiled).is_ok()
    }
}
