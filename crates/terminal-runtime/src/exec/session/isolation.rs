//! What holds sessions and commands together on this machine.

use halter_exec::host::PidNamespace;
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
    let reach = holder_out_of_reach(settings.pid_namespace).await;
    levels.push(IsolationLevel::new("holder_out_of_reach", reach));
    let container = container::probe(settings).await;
    levels.push(IsolationLevel::new("container", container));
    levels
}

/// Whether a command cannot signal the holder of its session.
async fn holder_out_of_reach(wanted: bool) -> Result<String, String> {
    let reason = if wanted {
        let probe = tokio::task::spawn_blocking(|| PidNamespace::probe(&["/proc"]));
        match probe.await.unwrap_or_else(|error| Err(error.into())) {
            Ok(()) => return Ok("PID namespace".to_owned()),
            Err(error) => error.to_string(),
        }
    } else {
        "--pid-namespace is off".to_owned()
    };
    Err(format!(
        "{reason}: a command that kills its holder ends its own session"
    ))
}
