//! The servers of tools of a harness.

/// The servers of tools of a harness.
#[cfg(feature = "mcp")]
#[derive(Default)]
pub(crate) struct Servers(pub Option<crate::mcp::HarnessServers>);

#[cfg(feature = "mcp")]
impl Servers {
    /// Ends them.
    pub(crate) async fn shutdown(&self) {
        if let Some(servers) = &self.0 {
            servers.servers.shutdown().await;
        }
    }
}

/// This build has no servers of tools.
#[cfg(not(feature = "mcp"))]
pub(crate) struct Servers;

#[cfg(not(feature = "mcp"))]
impl Servers {
    /// None, if a configuration names none.
    pub(super) fn none(config: &halter_config::HarnessConfig) -> anyhow::Result<Self> {
        match config.mcp.servers.values().any(|table| table.enabled) {
            false => Ok(Self),
            true => Err(halter_runtime::HalterError::new(
                "config_mcp_feature_disabled",
                "[mcp.servers]: servers of tools are not compiled in",
            )
            .with_hint("build with the cargo feature `mcp`, or take the tables out")
            .into()),
        }
    }

    pub(crate) async fn shutdown(&self) {}
}
