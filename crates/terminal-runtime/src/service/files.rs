//! `fs.*`

use std::sync::Arc;

use super::Service;
use crate::fs::Files;
use crate::protocol::{ErrorCode, WireError};

impl Service {
    /// Does something with files, on a thread that may block. What has begun is
    /// done to its end, whether or not its client is still there.
    pub(super) async fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> Result<T, WireError> + Send + 'static,
    ) -> Result<T, WireError> {
        self.fail_if_draining()?;
        let files = Arc::clone(&self.inner.files);
        match tokio::task::spawn_blocking(move || work(&files)).await {
            Ok(done) => done,
            Err(_) => Err(WireError::new(
                ErrorCode::InternalError,
                "the runtime failed while it worked on a file; look at it before you go on",
            )),
        }
    }
}
