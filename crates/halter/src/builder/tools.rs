//! The tools of a harness.

use crate::error::config_failure;
use halter_config::{HarnessConfig, KnownTools, check_tool_names};
use halter_lsp::ServerSettings;
use halter_resources::LoadedLspServer;
use halter_runtime::AgentTypes;
use halter_tools::{
    TOOL_SEARCH, Tool, ToolRuntime, WebSettings, builtin_tools_with, left_out_tools, subagent_tools,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The tools of a harness, and the names of all that there could be.
pub(super) struct HarnessTools {
    pub runtime: ToolRuntime,
    pub known: BTreeSet<String>,
}

/// Built-ins that are enabled, then the embedder's own, which are never
/// filtered and replace by name.
pub(super) fn tools(
    config: &HarnessConfig,
    web: &WebSettings,
    of_plugins: Vec<Arc<dyn Tool>>,
    custom: Vec<Arc<dyn Tool>>,
) -> anyhow::Result<HarnessTools> {
    let mut built_in = ToolRuntime::with_tools(builtin_tools_with(web));
    let of_harness = subagent_tools(&AgentTypes::built_in().lines());
    for tool in of_harness.into_iter().chain(of_plugins) {
        built_in.register(tool);
    }
    let custom_names: Vec<_> = custom.iter().map(|tool| tool.spec().name).collect();
    let available: Vec<&str> = built_in
        .names()
        .chain(&custom_names)
        .map(|name| name.as_str())
        // It is there wherever tools are deferred.
        .chain([TOOL_SEARCH])
        .collect();
    let left_out: Vec<_> = left_out_tools()
        .into_iter()
        .map(|tool| (tool.name, tool.feature))
        .collect();
    let known = KnownTools {
        available: &available,
        left_out: &left_out,
    };
    check_tool_names(config, known).map_err(config_failure)?;
    let left_out = left_out.iter().map(|(name, _)| *name);
    let known = available.iter().copied().chain(left_out);
    let known = known.map(str::to_owned).collect();
    let mut runtime = built_in.clone_filtered(&config.tools.enabled);
    for tool in custom {
        runtime.register(tool);
    }
    Ok(HarnessTools { runtime, known })
}

/// The language servers that plugins describe, and what is wrong with the
/// others.
pub(super) fn language_servers(loaded: &[LoadedLspServer]) -> (Arc<[ServerSettings]>, Vec<String>) {
    let (mut servers, mut problems) = (Vec::new(), Vec::new());
    for entry in loaded {
        let name = format!("{}:{}", entry.plugin_id, entry.name);
        match ServerSettings::parse(&name, &entry.config, &entry.plugin_root) {
            Ok(settings) => servers.push(settings),
            Err(error) => problems.push(error.to_string()),
        }
    }
    (servers.into(), problems)
}
