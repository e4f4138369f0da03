//! What several built-in tools need.

use halter_policy::FileDoor;
use halter_protocol::ToolCapabilities;
use halter_protocol::encoding::escape_path;
pub(crate) use halter_protocol::encoding::spelled_path as spelled;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Of a tool that only looks, and stops when it is told to.
pub(crate) const LOOKS: ToolCapabilities = ToolCapabilities {
    mutating: false,
    requires_approval: false,
    cancellable: true,
    long_running: false,
};

/// Of a tool that changes something in one quick step, and stops while it waits
/// for its turn.
pub(crate) const CHANGES: ToolCapabilities = ToolCapabilities {
    mutating: true,
    requires_approval: false,
    cancellable: true,
    long_running: false,
};

/// Runs blocking work on a thread for it. A panic there is a panic here.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(error.into()),
        },
    }
}

/// The path in a field of a call's input, if there is one.
pub(crate) fn path_in(input: &Value, field: &str) -> Option<PathBuf> {
    input.get(field)?.as_str().map(spelled)
}

/// A path as results show it: relative inside the session's directory,
/// absolute elsewhere, always text.
pub(crate) fn shown(door: &FileDoor, path: &Path) -> String {
    let inside = match path.strip_prefix(door.working_dir()) {
        Ok(inside) => Some(inside.to_owned()),
        // The session's directory may be spelled through a link.
        Err(_) => door.open_dir(Path::new(".")).ok().and_then(|directory| {
            let inside = path.strip_prefix(directory.path()).ok()?;
            Some(inside.to_owned())
        }),
    };
    match inside {
        Some(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Some(inside) => escape_path(&inside),
        None => escape_path(path),
    }
}

/// The longest start of `text` that has at most `max` bytes and ends between
/// characters.
pub(crate) fn text_head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(text_head("aé", 3), "aé");
        assert_eq!(text_head("aé", 2), "a");
    }
}
