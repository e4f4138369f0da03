//! Git worktrees of subagents that work apart from their parent's files.
//!
//! They lie in the parent's directory, so that a child writes nowhere its
//! parent could not. Git runs at the place where commands run, as the harness
//! does it and not as a call of a model: no policy opens git's own files.

use crate::error::HalterError;
use crate::limits::WORKTREE_DEADLINE;
use crate::services::RuntimeServices;
use halter_protocol::SessionId;
use halter_tools::ScratchDir;
use halter_tools::exec::{Environment, ExecCommand, ExecSessionSpec, FinishedCommand};
use halter_tools::policy::shell::git_environment;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Where worktrees lie, in the parent's directory.
const DIRECTORY: &str = ".halter/worktrees";

/// Makes a worktree of the commit that is checked out.
pub(super) async fn make(
    services: &RuntimeServices,
    parent: &Path,
    child: &SessionId,
) -> Result<PathBuf, HalterError> {
    match services.exec.files(parent).await {
        Ok(None) => {}
        Ok(Some(_)) => {
            let reason = "worktrees are made on this machine, and the files are elsewhere; start \
                          it without one";
            return Err(refused(parent, reason));
        }
        Err(error) => return Err(refused(parent, &format!("{error:#}"))),
    }
    let place = parent.join(DIRECTORY);
    let made = tokio::fs::create_dir_all(&place).await;
    let ignored = place.join(".gitignore");
    let made = match made {
        Ok(()) => tokio::fs::write(ignored, "*\n").await,
        failed => failed,
    };
    made.map_err(|error| refused(parent, &error.to_string()))?;
    let path = place.join(child.as_str());
    let command = "git worktree add --quiet --detach -- \"$HALTER_WORKTREE\" HEAD";
    let finished = run(services, parent, &path, command).await;
    match finished {
        Ok(done) if done.status.success() => Ok(path),
        Ok(done) => Err(refused(parent, done.stderr.text.trim())),
        Err(error) => Err(refused(parent, &error.to_string())),
    }
}

/// Removes a worktree in which nothing has changed. False if something has, or
/// if it cannot be removed: then it stays.
pub(super) async fn remove_unchanged(
    services: &RuntimeServices,
    parent: &Path,
    path: &Path,
) -> bool {
    let look = "git -C \"$HALTER_WORKTREE\" status --porcelain && \
                test \"$(git -C \"$HALTER_WORKTREE\" rev-parse HEAD)\" = \"$(git rev-parse HEAD)\"";
    let unchanged = match run(services, parent, path, look).await {
        Ok(done) => done.status.success() && done.stdout.text.trim().is_empty(),
        Err(_) => false,
    };
    if !unchanged {
        return false;
    }
    let remove = "git worktree remove --force -- \"$HALTER_WORKTREE\"";
    let removed = run(services, parent, path, remove).await;
    let removed = removed.is_ok_and(|done| done.status.success());
    if removed {
        // Only if no other is left there.
        for directory in path.ancestors().skip(1).take(2) {
            let _ = tokio::fs::remove_file(directory.join(".gitignore")).await;
            if tokio::fs::remove_dir(directory).await.is_err() {
                let ignored = directory.join(".gitignore");
                let _ = tokio::fs::write(ignored, "*\n").await;
                break;
            }
        }
    }
    removed
}

async fn run(
    services: &RuntimeServices,
    directory: &Path,
    worktree: &Path,
    command: &str,
) -> anyhow::Result<FinishedCommand> {
    let base = services.base_environment.iter();
    let mut environment: Environment = base
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    // A repository must not make git run programs.
    environment.extend(git_environment());
    environment.set("HALTER_WORKTREE", worktree);
    let scratch = Arc::new(ScratchDir::new(services.scratch_root.clone()));
    let spec = ExecSessionSpec::new(directory, environment, scratch.clone());
    let session = services.exec.open(spec);
    let command = ExecCommand::new(command, WORKTREE_DEADLINE);
    let done = session
        .run(command, &CancellationToken::new(), &|_| {})
        .await;
    session.close().await;
    let _ = tokio::task::spawn_blocking(move || scratch.remove()).await;
    done
}

fn refused(directory: &Path, why: &str) -> HalterError {
    let message = format!(
        "no git worktree can be made in '{}': {why}",
        directory.display()
    );
    HalterError::new("worktree_failed", message)
        .with_hint("use an agent type that works in this directory, or start in a git checkout")
}
