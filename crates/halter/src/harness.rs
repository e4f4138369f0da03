//! A harness: one configuration, any number of sessions.

use crate::builder::HalterBuilder;
use crate::error::config_failure;
use crate::resources::{CompiledResources, ResourceCompiler};
use halter_config::{HarnessConfig, load_path};
use halter_hooks::Hooks;
use halter_protocol::ResourceSnapshot;
use halter_runtime::{HalterSession, SessionInit, SessionRuntime, ShutdownReport};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A configured harness. Clones share everything.
#[derive(Clone)]
pub struct Halter {
    pub(crate) runtime: SessionRuntime,
    pub(crate) config: Arc<HarnessConfig>,
    /// Hooks of the embedding program, which outlive replaced resources.
    pub(crate) sdk_hooks: Arc<Hooks>,
}

impl Halter {
    /// Starts building a harness with parts of one's own.
    pub fn builder() -> HalterBuilder {
        HalterBuilder::new()
    }

    /// A harness from a configuration file, its resource roots compiled.
    pub async fn from_config_file(path: impl AsRef<Path>) -> anyhow::Result<Self> {
        let config = load_path(path.as_ref()).await.map_err(config_failure)?;
        let resources = ResourceCompiler::from_config(&config).compile().await?;
        Self::from_compiled_resources(config, resources).await
    }

    /// A harness from a configuration and a snapshot of resources.
    pub async fn from_config(
        config: HarnessConfig,
        resources: ResourceSnapshot,
    ) -> anyhow::Result<Self> {
        Self::builder()
            .with_config(config)
            .with_resource_snapshot(resources)
            .build()
            .await
    }

    /// A harness from a configuration and compiled resources.
    pub async fn from_compiled_resources(
        config: HarnessConfig,
        resources: CompiledResources,
    ) -> anyhow::Result<Self> {
        Self::builder()
            .with_config(config)
            .with_compiled_resources(resources)
            .build()
            .await
    }

    /// Starts a session. One that names no directory works in
    /// `runtime.working_dir`, or in the process's own.
    pub async fn new_session(&self, mut init: SessionInit) -> anyhow::Result<HalterSession> {
        if init.working_dir.as_os_str().is_empty()
            && let Some(directory) = &self.config.runtime.working_dir
        {
            init.working_dir.clone_from(directory);
        }
        self.runtime.new_session(init).await
    }

    /// Puts other resources in force: future turns see their skills and hooks.
    /// Hooks registered with the builder stay.
    pub fn replace_resources(&self, resources: CompiledResources) -> anyhow::Result<()> {
        self.runtime
            .replace_resources(resources.with_hooks(&self.sdk_hooks)?);
        Ok(())
    }

    /// The runtime, to resume, list and delete sessions.
    pub fn runtime(&self) -> &SessionRuntime {
        &self.runtime
    }

    /// The configuration it was built from.
    pub fn config(&self) -> &HarnessConfig {
        &self.config
    }

    /// Ends all sessions: takes no new turns, lets running ones finish for at
    /// most `drain`, cancels the rest.
    pub async fn shutdown(&self, drain: Duration) -> ShutdownReport {
        self.runtime.shutdown(drain).await
    }
}

impl std::fmt::Debug for Halter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Halter")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
