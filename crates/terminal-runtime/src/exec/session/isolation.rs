//! What holds sessions and commands together on this machine.

use halter_exec::{IsolationLevel, isolation_ladder};

use crate::exec::session::container;
use crate::exec::types::CoreSettings;
use crate::sys;

/// Tries out every level; that of containers by asking their engine.
pub(in crate::exec) async fn levels(settings: &CoreSettings) -> Vec<IsolationLevel> {
    // Makes and removes groups and reads files.
    let ladder = tokio::task::spawn_blocking(isolation_ladder).await;
    let mut levels = ladder.unwrap_or_default();
    levels.extend(sys::guarantees().map(|(name, found)| {
        let found = found.map(str::to_owned).map_err(str::to_owned);
        IsolationLevel::new(name, found)
    }));
    let container = container::probe(settings).await;
    levels.push(IsolationLevel::new("container", container));
    levels
}
