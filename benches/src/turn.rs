//! A session with one turn.

use std::path::Path;

use futures::StreamExt;
use halter::prelude::*;

/// Opens a session, takes the turn to its end, and closes it.
pub async fn one_turn(harness: &Halter, workspace: &Path, turn: Turn) -> anyhow::Result<()> {
    let init = SessionInit::default().with_working_dir(workspace);
    let session = harness.new_session(init).await?;
    let mut events = session.submit_turn(turn).await?;
    while let Some(event) = events.next().await {
        if let SessionEventPayload::TurnFailed { error, .. } = event?.payload {
            anyhow::bail!(error);
        }
    }
    session.shutdown("done").await?;
    Ok(())
}
