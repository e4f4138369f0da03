//! Puts a harness together.

use super::HalterBuilder;
use super::servers::Servers;
use super::settings::{
    budget, configured_style, deferral, instructions, local_time_zone, policy, prompts,
};
use super::store::{durability, open_store};
use super::tools::{HarnessTools, language_servers, tools};
use crate::error::{config_failure, invalid};
use crate::harness::{FileHooks, Halter, StoreOwner};
use crate::hook_files::HookFiles;
use crate::hook_outside::{HarnessOutside, Judges};
use crate::models::registry;
use crate::permissions::permissions;
use crate::place::configured_exec;
use crate::recording;
use crate::resources::{CompiledResources, ResourceCompiler};
use crate::services::Services;
use crate::web::web_settings;
use halter_config::{Environment, HarnessConfig, ModelChoice};
use halter_hooks::{Hook, Hooks, RegisteredHookPriority};
use halter_lsp::{DiagnosticsAfterChanges, language_tools};
use halter_protocol::{PluginId, ResourceSnapshot};
use halter_resources::{LoadedPlugin, LoadedSkill};
use halter_runtime::{
    Approvals, ContextSettings, EnvironmentProbe, ResourceCell, RuntimeServices, SessionRuntime,
    SharedLedger, StandardContext,
};
use halter_session::TraceRecorder;
use halter_tools::{HarnessFacts, command_environment};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

impl HalterBuilder {
    /// Puts the harness together.
    ///
    /// # Errors
    /// If there are no resources, or a snapshot is mixed with loaded ones; if
    /// the configuration is invalid, names no model, an unknown tool, or a
    /// backend or provider that is not available; if a key is missing.
    pub async fn build(mut self) -> anyhow::Result<Halter> {
        let given = self.environment.take();
        let environment = given.unwrap_or_else(Environment::capture);
        let (config, model_choice) = self.settled_config(&environment)?;
        let mut resources = compile(
            self.snapshot,
            self.compiled,
            self.loaded_skills,
            self.loaded_plugins,
        )
        .await?;
        let sdk_hooks = registered(self.hooks)?;
        let mut protected = own_files(&config, &environment);
        let hook_files = match self.hook_files {
            Some(files) => files,
            None => HookFiles::of_config(&config).await,
        };
        protected.extend(hook_files.read.iter().cloned());
        let hook_revision = hook_files.revision.clone();
        let (file_hooks, warnings) = hook_files.hooks();
        resources.hook_warnings.extend(warnings);
        protected.extend(self.protected_paths);
        protected.extend(self.services.cassette.as_ref().and_then(recording::file));
        let config = Arc::new(config);
        let catalog = self.services.catalog.clone();
        let model_services = Arc::new(Services::new(
            config.clone(),
            environment.clone(),
            self.providers.named,
            self.services,
        )?);
        let models = registry(&config, self.providers.all, &model_services)?;
        let (store, store_owner) = match self.store {
            Some(store) => (store, StoreOwner::Program),
            None => (
                open_store(&config, &environment).await?,
                StoreOwner::Harness,
            ),
        };
        protected.extend(store.files());
        let scratch_root = self.scratch_root.unwrap_or_else(std::env::temp_dir);
        let mut services = RuntimeServices::new(models, store, scratch_root.clone());
        let permissions = permissions(&config, &environment)?;
        let mut web = web_settings(&config, &environment);
        if let Some(service) = self.web_search {
            web = web.with_search(service);
        }
        let shell_env = &config.policy.shell.env;
        services.base_environment = Arc::new(command_environment(
            environment.variables(),
            &shell_env.add,
            &shell_env.remove,
        ));
        services.policy = policy(&config, permissions);
        services.protected_paths = absolute(protected)?;
        #[cfg(feature = "mcp")]
        let (servers, late_tools) = {
            use crate::mcp::{DescribedServers, HarnessServers, ServerEnvironment};
            let plugins = &resources.mcp_servers;
            let described = DescribedServers::of(&config, &self.project_servers, plugins);
            let visible = &services.base_environment;
            let (policy, own_files) = (&services.policy, &services.protected_paths);
            let around = ServerEnvironment::new(&config, &environment, visible, policy, own_files);
            let mut late = self.late_tools;
            let servers = HarnessServers::start(described, &around, &mut late).await?;
            (Servers(servers), late)
        };
        #[cfg(not(feature = "mcp"))]
        let (servers, late_tools) = (Servers::none(&config)?, self.late_tools);
        let (language_servers, lsp_problems) = language_servers(&resources.lsp_servers);
        let language_tools = language_tools(&language_servers);
        let HarnessTools {
            runtime: mut tools,
            known: known_tools,
        } = tools(&config, &web, language_tools, self.tools)?;
        if let Some(observer) = DiagnosticsAfterChanges::new(&language_servers) {
            tools.set_change_observer(Arc::new(observer));
        }
        services.durability = durability(&config);
        services.prompts = prompts(&config);
        let style = configured_style(&config, &resources.snapshot)?;
        let mut skills = resources.snapshot.skills.values();
        let has_skills = skills.any(|skill| !skill.user_only);
        services.instructions = instructions(&config, &environment);
        services.probe = EnvironmentProbe::new(local_time_zone(&environment));
        services.traces = match &config.runtime.traces_dir {
            Some(directory) => Some(TraceRecorder::start(directory)?),
            None => None,
        };
        let mut resources = resources.with_hooks(&sdk_hooks.merged(&file_hooks)?)?;
        resources.style = style;
        resources.warnings.extend(lsp_problems);
        services.resources = ResourceCell::new(resources);
        services.approvals = self.approvals;
        let exec = match self.exec {
            Some(exec) => Some(exec),
            None => configured_exec(&config, &environment)?,
        };
        if let Some(exec) = exec {
            services.exec = exec;
        }
        let unavailable_tools = tools.take_unavailable(&HarnessFacts {
            policy: &services.policy,
            environment: &services.base_environment,
            attended: !matches!(services.approvals, Approvals::Unattended),
            skills: has_skills || config.resources.watch,
            samples_processes: services.exec.samples_processes(),
        });
        services.tools = tools;
        services.deferral = deferral(&config);
        services.late_tools = late_tools;
        services.subagent_event_forwarding = config.runtime.subagent_event_forwarding;
        services.subagent_event_forwarding_cap = config.runtime.subagent_event_forwarding_cap;
        services.rule_store = self.rule_store;
        if let Some(assembler) = self.prompt_assembler {
            services.prompt_assembler = assembler;
        }
        services.ledger = self
            .ledger
            .unwrap_or_else(|| SharedLedger::new(budget(&config)));
        let judges = Judges {
            models: services.models.clone(),
            ledger: services.ledger.clone(),
            policy: services.policy.clone(),
            protected_paths: services.protected_paths.clone(),
            tools: services.tools.clone(),
            scratch_root,
        };
        let base = services.base_environment.clone();
        let hosts = config.hooks.allowed_http_hosts.clone();
        let outside = HarnessOutside::new(environment, base, &web, hosts, judges);
        services.hook_outside = Arc::new(outside);
        let context = ContextSettings {
            threshold: config.context.compaction_threshold,
            target: config.context.pre_compaction_target,
        };
        services.context_manager = self
            .context_manager
            .unwrap_or_else(|| Arc::new(StandardContext::new(context)));
        Ok(Halter {
            runtime: SessionRuntime::new(Arc::new(services)),
            config,
            model_choice,
            model_services,
            catalog,
            unavailable_tools: unavailable_tools.into(),
            known_tools: Arc::new(known_tools),
            sdk_hooks: Arc::new(sdk_hooks),
            file_hooks: Arc::new(Mutex::new(FileHooks {
                hooks: Arc::new(file_hooks),
                revision: hook_revision,
                protected: Vec::new(),
            })),
            store_owner,
            servers: Arc::new(servers),
        })
    }

    /// The configuration that counts, and how its model was found.
    fn settled_config(
        &mut self,
        environment: &Environment,
    ) -> anyhow::Result<(HarnessConfig, ModelChoice)> {
        let mut config = self.config.take().unwrap_or_default();
        let has_provider = self.providers.all.is_some();
        if !has_provider {
            config
                .apply_model_override(environment)
                .map_err(config_failure)?;
        }
        if let Some(cassette) = &self.services.cassette {
            recording::use_recorded(&mut config, cassette)?;
        }
        let mut model_choice = ModelChoice::Named;
        if self.chooses_model && !has_provider {
            model_choice = config.choose_model(environment);
        }
        config.validate().map_err(config_failure)?;
        if config.models.default.is_none() && !has_provider {
            return Err(invalid("[models.default] is required")
                .with_hint("name a provider and a model under [models.default], or set HALTER_MODEL=offline")
                .into());
        }
        Ok((config, model_choice))
    }
}

/// The harness's own files, which no tool may touch: configuration, which may
/// hold keys and says where they are sent, traces, and the user's state, where
/// trust is recorded.
pub(crate) fn own_files(config: &HarnessConfig, environment: &Environment) -> Vec<PathBuf> {
    let mut paths = config.sources.clone();
    paths.extend(config.runtime.traces_dir.clone());
    paths.extend(environment.user_config_path());
    paths.extend(environment.state_dir());
    paths.extend(environment.data_dir());
    paths
}

/// A relative path starts where the program is now, not where a session works.
fn absolute(paths: Vec<PathBuf>) -> anyhow::Result<Vec<PathBuf>> {
    let absolute = paths.iter().map(std::path::absolute);
    Ok(absolute.collect::<Result<_, _>>()?)
}

async fn compile(
    snapshot: Option<ResourceSnapshot>,
    compiled: Option<CompiledResources>,
    skills: Vec<LoadedSkill>,
    plugins: Vec<LoadedPlugin>,
) -> anyhow::Result<CompiledResources> {
    let loaded = !skills.is_empty() || !plugins.is_empty();
    let given = compiled.or_else(|| snapshot.map(CompiledResources::from_snapshot));
    match given {
        Some(_) if loaded => Err(invalid(
            "cannot combine a prebuilt resource snapshot with loaded skills/plugins",
        )
        .with_hint("pass either a snapshot or loaded resources to the builder")
        .into()),
        Some(resources) => Ok(resources),
        None if loaded => {
            ResourceCompiler::default()
                .with_loaded_skills(skills)
                .with_loaded_plugins(plugins)
                .compile()
                .await
        }
        None => Err(invalid(
            "missing resource snapshot; use Halter::from_config_file or HalterBuilder::with_resource_snapshot",
        )
        .into()),
    }
}

fn registered(hooks: Vec<(PluginId, RegisteredHookPriority, Hook)>) -> anyhow::Result<Hooks> {
    let mut registry = Hooks::new();
    for (owner, priority, hook) in hooks {
        registry.register(owner, priority, hook)?;
    }
    Ok(registry)
}
