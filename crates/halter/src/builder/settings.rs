//! A configuration in the words of the crates below.

use halter_config::{
    DeferralWord, DeferredTools, Environment, HarnessConfig, SandboxChoice, SystemPromptPreset,
};
use halter_protocol::{OutputStyleDef, ResourceSnapshot, SessionBudget};
use halter_runtime::prompt::{CODING_GUIDANCE, GENERAL_GUIDANCE};
use halter_runtime::{
    HalterError, HarnessBudget, InstructionSettings, PromptSettings, ToolDeferral,
};
use halter_tools::policy::{
    FixedLists, NetworkSwitch, Permissions, PolicySettings, ProgramList, SandboxMode, SoftRoots,
};
use jiff::tz::TimeZone;

/// Which tools models are not sent until they ask.
pub(super) fn deferral(config: &HarnessConfig) -> ToolDeferral {
    match &config.tools.deferred {
        DeferredTools::Word(DeferralWord::Auto) => ToolDeferral::Auto,
        DeferredTools::Word(DeferralWord::Off) => ToolDeferral::Off,
        DeferredTools::Names(names) => {
            ToolDeferral::Only(names.iter().map(|name| name.as_str().into()).collect())
        }
    }
}

/// The user's time zone. Read from `/etc/localtime` where nothing names
/// another: asking the library for the system's zone would have it look through
/// the whole database of zones at every start.
pub(super) fn local_time_zone(environment: &Environment) -> TimeZone {
    if environment.text("TZ").is_some_and(|name| !name.is_empty()) {
        return TimeZone::system();
    }
    std::fs::read("/etc/localtime")
        .ok()
        .and_then(|data| TimeZone::tzif("local", &data).ok())
        .unwrap_or(TimeZone::UTC)
}

pub(crate) fn policy(config: &HarnessConfig, permissions: Permissions) -> PolicySettings {
    let policy = &config.policy;
    PolicySettings {
        allowed_write_roots: policy.allowed_write_roots.clone(),
        allowed_read_roots: policy.allowed_read_roots.clone(),
        soft_roots: SoftRoots {
            read: policy.read_roots_are_default(),
            write: policy.write_roots_are_default(),
        },
        sensitive_path_patterns: policy.sensitive_path_patterns.clone(),
        max_read_bytes: policy.max_read_bytes,
        shell_enabled: policy.shell.enabled,
        allowed_shell_commands: match policy.shell.allow_is_default() {
            true => ProgramList::Default,
            false => ProgramList::Set(policy.shell.allow.clone()),
        },
        shell_timeout_secs: policy.shell.timeout_secs,
        max_subagent_depth: policy.max_subagent_depth,
        max_concurrent_subagents: policy.max_concurrent_subagents,
        sandbox: match policy.sandbox {
            SandboxChoice::Prefer => SandboxMode::Prefer,
            SandboxChoice::Require => SandboxMode::Require,
            _ => SandboxMode::Off,
        },
        network: match policy.network.enabled {
            true => NetworkSwitch::On,
            false if policy.network.is_default() => NetworkSwitch::Unset,
            false => NetworkSwitch::Off,
        },
        allowed_hosts: policy.network.allowed_hosts.clone(),
        allowed_loopback: policy
            .network
            .allowed_loopback
            .iter()
            .map(|it| (it.host.clone(), it.port))
            .collect(),
        fixed_lists: FixedLists::default(),
        permissions,
    }
}

pub(super) fn budget(config: &HarnessConfig) -> HarnessBudget {
    HarnessBudget {
        session: SessionBudget {
            session: config.budget.session().into(),
            turn: config.budget.turn.into(),
        },
        harness: config.budget.harness.into(),
    }
}

pub(super) fn instructions(
    config: &HarnessConfig,
    environment: &Environment,
) -> Option<InstructionSettings> {
    let user_files = environment.user_instruction_files();
    let settings = InstructionSettings {
        user_files,
        nested_skills: config.resources.discover,
    };
    config.resources.instructions.then_some(settings)
}

pub(super) fn prompts(config: &HarnessConfig) -> PromptSettings {
    let configured = &config.prompts;
    PromptSettings {
        system_prompt: configured.system_prompt.clone(),
        guidance: match configured.preset {
            SystemPromptPreset::Coding => CODING_GUIDANCE,
            _ => GENERAL_GUIDANCE,
        },
        append_system_prompt: configured.append_system_prompt.clone(),
    }
}

/// The output style that the configuration names.
///
/// # Errors
/// If there is none of its name, or more than one.
pub(crate) fn configured_style(
    config: &HarnessConfig,
    resources: &ResourceSnapshot,
) -> Result<Option<OutputStyleDef>, HalterError> {
    let Some(name) = &config.prompts.output_style else {
        return Ok(None);
    };
    let style = resources.output_style(name).map_err(|error| {
        HalterError::new(error.code(), format!("prompts.output_style: {error}"))
            .with_hint("`halter resources` lists the output styles that are loaded")
    })?;
    Ok(Some(style.clone()))
}
