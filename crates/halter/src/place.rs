//! Where commands run, from the configuration.

use halter_config::{ExecBackendChoice, HarnessConfig};
use halter_tools::ExecBackend;
use std::sync::Arc;

/// The place that a configuration names; none if it is this program.
pub(crate) fn configured_exec(
    config: &HarnessConfig,
) -> anyhow::Result<Option<Arc<dyn ExecBackend>>> {
    match config.exec.backend {
        ExecBackendChoice::TerminalRuntime => runtime(config).map(Some),
        _ => Ok(None),
    }
}

#[cfg(feature = "terminal-runtime")]
fn runtime(config: &HarnessConfig) -> anyhow::Result<Arc<dyn ExecBackend>> {
    use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};
    use terminal_runtime::client::Target;
    use terminal_runtime::settings::DEFAULT_SOCKET;

    let socket = config.exec.socket.clone();
    let socket = socket.unwrap_or_else(|| DEFAULT_SOCKET.into());
    let settings = RuntimeExecSettings::default();
    Ok(Arc::new(RuntimeExec::new(Target::Socket(socket), settings)))
}

#[cfg(not(feature = "terminal-runtime"))]
fn runtime(_: &HarnessConfig) -> anyhow::Result<Arc<dyn ExecBackend>> {
    Err(halter_runtime::HalterError::new(
        "config_backend_feature_disabled",
        "exec.backend: 'terminal-runtime' is not compiled in",
    )
    .with_hint("build with the cargo feature `terminal-runtime`, or use backend = \"local\"")
    .into())
}
