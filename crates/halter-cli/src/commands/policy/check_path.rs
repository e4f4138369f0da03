//! `halter policy check-path`: judges paths, doing all that a tool would do
//! short of the operation itself.

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use halter_policy::{PolicyError, PolicySettings, SessionScope, StandardPolicy, ToolPolicy};
use halter_protocol::encoding::unescape_path;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// One line of standard input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathLine {
    op: PathOperation,
    path: String,
    /// Where a relative path starts.
    cwd: PathBuf,
    /// Where relative roots start; `cwd` if absent.
    session_cwd: Option<PathBuf>,
    read_roots: Option<Vec<PathBuf>>,
    write_roots: Option<Vec<PathBuf>>,
    max_read_bytes: Option<u64>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum PathOperation {
    Read,
    Write,
    Delete,
    List,
}

/// Judges each line of standard input, and prints a decision for each.
pub fn check_path(context: &mut Context) -> Result<Exit, Failure> {
    super::each_line(context, answer)
}

fn answer(line: &[u8]) -> Result<Value, String> {
    let line: PathLine = serde_json::from_slice(line).map_err(|error| {
        format!(
            "the line is not {{\"op\":\"read\",\"path\":\"…\",\"cwd\":\"…\",…}}: {error}; \
             op is read, write, delete or list"
        )
    })?;
    Ok(match judge(&line) {
        Ok(()) => json!({"decision": "allow"}),
        Err(error) => json!({
            "decision": "deny",
            "rule": error.code(),
            "fragment": line.path,
            "message": error.to_string(),
        }),
    })
}

fn judge(line: &PathLine) -> Result<(), PolicyError> {
    let defaults = PolicySettings::default();
    // The roots given are all there are: of one kind only, there is none of
    // the other.
    let given = line.read_roots.is_some() || line.write_roots.is_some();
    let write_roots = match given {
        true => line.write_roots.clone().unwrap_or_default(),
        false => defaults.allowed_write_roots.clone(),
    };
    let settings = PolicySettings {
        allowed_read_roots: line.read_roots.clone().unwrap_or_default(),
        allowed_write_roots: write_roots,
        max_read_bytes: line.max_read_bytes.unwrap_or(defaults.max_read_bytes),
        ..defaults
    };
    let max_read_bytes = settings.max_read_bytes;
    let scope = SessionScope {
        working_dir: line.session_cwd.clone().unwrap_or_else(|| line.cwd.clone()),
        only_given_roots: given,
        ..SessionScope::default()
    };
    let policy = StandardPolicy::bind(settings, scope)?;
    let door = policy.door();
    let path = unescape_path(&line.path).unwrap_or_else(|_| line.path.clone().into());
    // An empty path stays empty: joined, it would name the directory.
    let path = match path.as_os_str().is_empty() {
        true => path,
        false => line.cwd.join(path),
    };
    let path: &Path = &path;
    match line.op {
        PathOperation::Read => {
            let file = door.open_read(path)?;
            let bytes = file.metadata().len();
            match bytes > max_read_bytes {
                true => Err(PolicyError::ReadTooLarge {
                    path: path.to_path_buf(),
                    bytes,
                    max: max_read_bytes,
                }),
                false => Ok(()),
            }
        }
        PathOperation::Write => door.prepare_write(path).map(drop),
        PathOperation::Delete => door.prepare_delete(path).map(drop),
        PathOperation::List => door.open_dir(path).map(drop),
    }
}
