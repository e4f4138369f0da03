//! When to give up reading a page.

use crate::context::cancelled;
use halter_protocol::{ToolError, ToolErrorCode};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// When to give up reading a page.
pub(crate) struct ReadingDeadline {
    pub(crate) cancel: CancellationToken,
    pub(crate) at: Instant,
}

impl ReadingDeadline {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.cancel.is_cancelled() {
            return Err(cancelled().into());
        }
        if Instant::now() >= self.at {
            let message = "the page arrived, but making sense of it took too long; try a longer \
                           `timeout_secs`, or `raw`";
            return Err(ToolError::new(ToolErrorCode::TimedOut, message).into());
        }
        Ok(())
    }
}
