//! Where the sessions of a harness are kept.

use halter_config::{Environment, HarnessConfig, SessionBackend, SessionDurability};
use halter_runtime::HalterError;
use halter_session::{DurabilityPolicy, InMemorySessionStore, SessionStore};
use std::sync::Arc;

pub(super) async fn open_store(
    config: &HarnessConfig,
    environment: &Environment,
) -> anyhow::Result<Arc<dyn SessionStore>> {
    match config.sessions.backend {
        SessionBackend::Sqlite => open_sqlite(config, environment).await,
        _ => Ok(Arc::new(InMemorySessionStore::new())),
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(
    config: &HarnessConfig,
    environment: &Environment,
) -> anyhow::Result<Arc<dyn SessionStore>> {
    let configured = config.sessions.sqlite_path.clone();
    let path = configured
        .or_else(|| environment.default_sqlite_path())
        .ok_or_else(|| {
            HalterError::new(
                "sqlite_path_missing",
                "there is no place for the session database",
            )
            .with_hint("set sessions.sqlite_path, or HOME")
        })?;
    let store = halter_session::SqliteSessionStore::open(path)
        .await
        .map_err(halter_runtime::store_failure)?;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "sqlite"))]
async fn open_sqlite(_: &HarnessConfig, _: &Environment) -> anyhow::Result<Arc<dyn SessionStore>> {
    Err(HalterError::new(
        "config_backend_feature_disabled",
        "sessions.backend: 'sqlite' is not compiled in",
    )
    .with_hint("build with the cargo feature `sqlite`, or use backend = \"memory\"")
    .into())
}

pub(super) fn durability(config: &HarnessConfig) -> DurabilityPolicy {
    match config.sessions.durability {
        SessionDurability::Power => DurabilityPolicy::Power,
        _ => DurabilityPolicy::Process,
    }
}
