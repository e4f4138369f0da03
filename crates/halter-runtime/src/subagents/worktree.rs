//! Git worktrees of subagents that work apart from their parent's files.
//!
//! They lie in the parent's directory, so that a child writes nowhere its
//! parent could not. Git runs at the place where commands run, as the harness
//! does it and not as a call of a model: no policy opens git's own files, so it
//! runs outside every sandbox, and nothing that a repository names runs with it.

use crate::error::HalterError;
use crate::limits::{WORKTREE_DEADLINE, WORKTREE_SETTINGS_BYTES};
use crate::services::RuntimeServices;
use anyhow::ensure;
use halter_protocol::SessionId;
use halter_tools::ScratchDir;
use halter_tools::exec::{Environment, ExecCommand, ExecSession, ExecSessionSpec, FinishedCommand};
use halter_tools::policy::shell::{git_environment, git_environment_without};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Where worktrees lie, in the parent's directory.
const DIRECTORY: &str = ".halter/worktrees";

/// Lists the settings of the repository and of the worktree, if it is there.
const SETTINGS: &str = "git config --list --show-scope --name-only && \
    { ! test -d \"$HALTER_WORKTREE\" || \
      git -C \"$HALTER_WORKTREE\" config --list --show-scope --name-only; }";

/// Succeeds if the worktree is as it was made, and prints what is not. A
/// repository in it, which git would look at by its settings and not by ours, is
/// a change.
const LOOK: &str = "! find \"$HALTER_WORKTREE\" -mindepth 2 -name .git | grep -q . && \
    git -C \"$HALTER_WORKTREE\" status --porcelain --ignore-submodules=dirty && \
    test \"$(git -C \"$HALTER_WORKTREE\" rev-parse HEAD)\" = \"$(git rev-parse HEAD)\"";

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
    let unchanged = match run(services, parent, path, LOOK).await {
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

/// Runs a command line in a shell of its own, outside every sandbox: no program
/// that a repository names runs with it.
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
    environment.extend(git_environment());
    // What git lacks of a partial clone it would ask a remote for, by the
    // helpers that the repository names.
    environment.set("GIT_ALLOW_PROTOCOL", "");
    environment.set("HALTER_WORKTREE", worktree);
    let scratch = Arc::new(ScratchDir::new(services.scratch_root.clone()));
    let mut spec = ExecSessionSpec::new(directory, environment, scratch.clone());
    spec.output.result_bytes = WORKTREE_SETTINGS_BYTES;
    let session = services.exec.open(spec);
    let done = run_in(session.as_ref(), command).await;
    session.close().await;
    let _ = tokio::task::spawn_blocking(move || scratch.remove()).await;
    done
}

async fn run_in(session: &dyn ExecSession, command: &str) -> anyhow::Result<FinishedCommand> {
    let nobody = CancellationToken::new();
    let list = ExecCommand::new(SETTINGS, WORKTREE_DEADLINE);
    let listed = session.run(list, &nobody, &|_| {}).await?;
    if !listed.status.success() {
        return Ok(listed);
    }
    ensure!(
        listed.stdout.omitted_bytes == 0,
        "the names of the settings in its configuration are more than {WORKTREE_SETTINGS_BYTES} \
         bytes, too many to turn off all that name a program"
    );
    let names = listed.stdout.text.lines().filter_map(|line| {
        let (scope, name) = line.split_once('\t')?;
        matches!(scope, "local" | "worktree").then_some(name)
    });
    let mut command = ExecCommand::new(command, WORKTREE_DEADLINE);
    command.environment.extend(git_environment_without(names));
    session.run(command, &nobody, &|_| {}).await
}

fn refused(directory: &Path, why: &str) -> HalterError {
    let message = format!(
        "no git worktree can be made in '{}': {why}",
        directory.display()
    );
    HalterError::new("worktree_failed", message)
        .with_hint("use an agent type that works in this directory, or start in a git checkout")
}
