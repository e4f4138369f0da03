//! What a sandbox keeps only so far, whatever holds it, in words.

use super::repositories::RepositoriesBelow;
use super::tool_scope;
use crate::limits::{WATCHED_DEPTH, WATCHED_DIRECTORIES};
use halter_exec::Environment;
use halter_policy::limits::{SANDBOX_HOME_ENTRIES, SANDBOX_WALK_DEPTH, SANDBOX_WALK_ENTRIES};
use halter_policy::{SandboxBounds, searched_entries};
use halter_protocol::encoding::escape_path;
use std::path::PathBuf;

/// Paths of one line that are named.
const NAMED_PATHS: usize = 4;

/// The limits of a sandbox for these bounds.
pub(super) fn limits(
    bounds: &SandboxBounds,
    environment: &Environment,
    repositories: &RepositoriesBelow,
) -> Vec<String> {
    let mut made = "hooks and settings of repositories that commands make".to_owned();
    if !bounds.watched.is_empty() {
        made.push_str(&format!(", and {}", named(&bounds.watched)));
    }
    let mut limits = vec![format!(
        "{made}: protected like others for the next command, not from the one that makes them or \
         what runs meanwhile, and named in the result"
    )];
    let settings = bounds.protected.iter();
    let settings = settings.filter(|path| path.exists() && !halter_exec::is_placeholder(path));
    let settings: Vec<PathBuf> = settings.cloned().collect();
    if !settings.is_empty() {
        limits.push(format!(
            "the settings and hooks of git, editors and agents that are there cannot be changed: \
             {}",
            named(&settings)
        ));
    }
    if !repositories.is_complete() {
        limits.push(format!(
            "repositories that commands make are looked for in {WATCHED_DIRECTORIES} directories \
             and {SANDBOX_WALK_ENTRIES} files, {WATCHED_DEPTH} directories deep"
        ));
    }
    limits.push(
        "sensitive files are hidden that were there when the sandbox was made, and none below \
         `.git`, `node_modules`, `target` and `.venv`"
            .to_owned(),
    );
    limits.push(
        "protected and sensitive files that a program outside replaces, as editors and git do: \
         out of reach again for the next command, not for what runs meanwhile"
            .to_owned(),
    );
    if !bounds.partly_searched.is_empty() {
        limits.push(format!(
            "sensitive files are looked for in {} entries of a workspace and \
             {SANDBOX_HOME_ENTRIES} of the home directory, {SANDBOX_WALK_DEPTH} directories deep, \
             and there are more below: {}",
            searched_entries(bounds.mode),
            named(&bounds.partly_searched)
        ));
    }
    limits.push(
        "sockets of other programs are out of reach in `/run` and `/tmp`, and elsewhere outside \
         the workspace if they were there when the sandbox was made"
            .to_owned(),
    );
    if bounds.programs.is_some() {
        limits.push(
            "the loader of dynamic programs can run programs that are not listed and lie below \
             directories of libraries, such as /usr/lib"
                .to_owned(),
        );
    }
    let caches = halter_exec::tool_files(tool_scope(bounds), environment).caches;
    if !caches.is_empty() {
        limits.push(format!(
            "caches of toolchains are shared, and what commands leave there may be built or run \
             outside later: {}",
            named(&caches)
        ));
    }
    limits
}

/// That the workspace is too large for its sensitive files and repositories to
/// be found, as what is not held.
#[must_use]
pub fn partly_searched_workspace(bounds: &SandboxBounds) -> Option<String> {
    let mut partly = bounds.partly_searched.clone();
    partly.retain(|path| bounds.writable.iter().any(|root| path.starts_with(root)));
    let said = format!(
        "sensitive files and the settings of repositories in all of the workspace, which is too \
         large to be searched as a whole ({} entries, {SANDBOX_WALK_DEPTH} directories deep; \
         start in a directory below), in: {}",
        searched_entries(bounds.mode),
        named(&partly)
    );
    (!partly.is_empty()).then_some(said)
}

fn named(paths: &[PathBuf]) -> String {
    let first = paths.iter().take(NAMED_PATHS);
    let mut names: Vec<String> = first.map(|path| escape_path(path)).collect();
    if let Some(more @ 1..) = paths.len().checked_sub(NAMED_PATHS) {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}
