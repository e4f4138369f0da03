//! What a sandbox of this machine is to hold for a session on another one.

use std::path::{Path, PathBuf};

use halter_exec::{Environment, ToolScope, make_tool_places, tool_files};
use halter_policy::{SandboxBounds, SandboxMode, is_searched_by_sandbox};
use halter_protocol::encoding::escape_path;

use super::{read_rules, refused};
use crate::protocol::{FileBounds, FileBoundsParams, WireError};

/// `fs.bounds`. Searches directories: blocking.
pub fn bounds(
    params: &FileBoundsParams,
    environment: &Environment,
) -> Result<FileBounds, WireError> {
    let mode = match params.required {
        true => SandboxMode::Require,
        false => SandboxMode::Prefer,
    };
    let home = environment.get("HOME").map(Path::new);
    let rules = read_rules(&params.rules)?;
    let bounds = SandboxBounds::for_rules(&rules, mode, home).map_err(|error| refused(&error))?;
    let scope = ToolScope {
        programs: params.programs.as_deref(),
        writable: &bounds.writable,
        is_searched: is_searched_by_sandbox,
    };
    make_tool_places(scope, environment);
    let tools = tool_files(scope, environment);
    Ok(FileBounds {
        writable: escaped(&bounds.writable),
        caches: escaped(&tools.caches),
        hidden: escaped(&bounds.hidden),
        protected: escaped(&bounds.protected),
        more_repositories: bounds.more_repositories as u64,
        partly_searched: escaped(&bounds.partly_searched),
        executables: tools.executables.as_deref().map(escaped),
    })
}

fn escaped(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| escape_path(path)).collect()
}
