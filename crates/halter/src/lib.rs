//! Halter, the agent harness for Rust.
//!
//! A language model decides what to do; the harness decides whether to allow
//! it, does it, and keeps what must survive. This crate puts the parts
//! together: configuration, providers, tools, policy, hooks, resources, session
//! stores and the runtime.
//!
//! ```standalone_crate
//! use futures::StreamExt;
//! use halter::prelude::*;
//!
//! # // Run against a service that refuses the key: the loop must fail.
//! # #[tokio::main]
//! # async fn main() -> anyhow::Result<()> {
//! #     let mut options = halter_mock::ServeOptions::default();
//! #     options.default_scenario = Some("unauthorized".to_owned());
//! #     let service = halter_mock::serve(options).await?;
//! #     let directory = tempfile::tempdir()?;
//! #     std::env::set_current_dir(&directory)?;
//! #     let config = format!(
//! #         "version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n\
//! #          [providers.openai]\nbase_url = \"{}/openai\"\napi_key = \"refused\"\n",
//! #         service.base_url()
//! #     );
//! #     std::fs::write("halter.toml", config)?;
//! #     let refused = ask().await.unwrap_err();
//! #     assert!(format!("{refused:#}").contains("key"), "{refused:#}");
//! #     Ok(())
//! # }
//! # async fn ask() -> anyhow::Result<()> {
//! let harness = Halter::from_config_file("halter.toml").await?;
//! let session = harness.new_session(SessionInit::default()).await?;
//! let mut events = session.submit_turn(Turn::user("Summarize this repository")).await?;
//! while let Some(event) = events.next().await {
//!     match event?.payload {
//!         SessionEventPayload::DeltaItem { delta } => print!("{}", delta.text),
//!         SessionEventPayload::TurnFailed { error, .. } => anyhow::bail!(error),
//!         _ => {}
//!     }
//! }
//! println!();
//! session.shutdown("complete").await?;
//! # Ok(()) }
//! ```
//!
//! | tier | start with |
//! |---|---|
//! | a config file | [`Halter::from_config_file`] |
//! | custom tools, hooks, stores, providers | [`HalterBuilder`] |
//! | generated configuration | [`Halter::from_config`] |
//! | replaced core services | [`RuntimeServices`](halter_runtime::RuntimeServices) |
//!
//! No tool can read or change the files of the harness itself: configuration,
//! session store, traces, recordings, the user's state.
//!
//! The facade is a face: [`HalterBuilder::build`] reads credentials, addresses
//! of services, proxies, `SSL_CERT_FILE`, `HALTER_MODEL` and where the user's
//! instruction files are from the environment, unless it is given one with
//! [`HalterBuilder::with_environment`]. The crates below it read none.

mod builder;
mod error;
mod explain;
mod harness;
mod hook_files;
mod hook_outside;
mod hook_trial;
mod local;
#[cfg(feature = "mcp")]
mod mcp;
mod models;
mod permissions;
mod place;
pub mod prelude;
pub mod prompts;
pub mod providers;
mod recording;
mod resources;
mod services;
pub mod session;
mod watch;
mod web;

pub use builder::HalterBuilder;
pub use error::config_failure;
pub use explain::{CallExplanation, SandboxPlan};
pub use halter_resources::instructions::{
    FoundInstructions, InstructionOrigin, LoadedInstructions,
};
pub use halter_resources::skill::SKILL_FILE;
pub use halter_resources::{
    InstalledPlugin, InstalledPlugins, LoadedAgent, LoadedCommand, LoadedHooksFile,
    LoadedLspServer, LoadedMcpServer, LoadedOutputStyle, LoadedPlugin, LoadedSkill, PluginLoader,
    PluginSource, PluginSwitch, ResourceError, ResourcePlaces, ResourceRoot, ResourceWarning,
    SkillLoader, TrustedContent, UsualPlaces,
};
pub use halter_runtime::{
    ApprovalHandler, Approvals, HalterError, HalterSession, SessionInit, SessionStream,
    ShutdownReport, TurnStream,
};
pub use halter_tools::exec::{AttachedProgram, RungStatus, SandboxStatus};
pub use harness::Halter;
pub use hook_files::{
    HookFiles, PROJECT_HOOK_FILES, files_named_in, hooks_are_trusted, named_scripts, project_of,
    trust_hooks,
};
pub use hook_trial::HookTrial;
pub use local::LocalServer;
#[cfg(feature = "mcp")]
pub use mcp::{
    DescribedServer, DescribedServers, ProbedServer, ProjectServers, ServerSource,
    mcp_server_settings, probe_mcp_servers,
};
pub use permissions::ConfigRules;
pub use resources::{CompiledResources, ResourceCompiler};
pub use watch::{ResourceWatch, UserResources, WATCH_INTERVAL, WatchedResources};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

/// The program in the README of the repository.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct RepositoryReadmeDoctests;
