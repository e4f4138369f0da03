//! Where the commands of these tests run. `terminal-runtime` runs a part of the
//! tests in places of its own.

use halter_tools::{ExecBackend, LocalExec};
use std::sync::Arc;

/// As children of this program.
pub fn here() -> Arc<dyn ExecBackend> {
    Arc::new(LocalExec)
}
