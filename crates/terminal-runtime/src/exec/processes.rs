//! The processes of a session, by the numbers they have here and those they
//! have for its commands.

use std::collections::HashMap;
use std::sync::Arc;

use halter_exec::{ExecError, KillOutcome, ProcessInfo, Signal, kill_tree, list_descendants};

use crate::exec::command::Exec;
use crate::exec::core::Core;
use crate::exec::error::CoreError;
use crate::exec::lock;
use crate::exec::record::Place;
use crate::exec::session::Session;
use crate::exec::types::ExecId;
use crate::session::SessionId;
use crate::sys;

/// What a session runs. Numbers are those that its commands see.
#[derive(Debug, Default)]
pub struct SessionProcesses {
    /// The process that was asked for, or the session's shell while that is
    /// idle.
    pub root: Option<i32>,
    /// The commands that are processes of their own.
    pub commands: Vec<(ExecId, i32)>,
    /// The processes, without the root.
    pub processes: Vec<ProcessInfo>,
}

/// The same by the numbers of this machine.
struct Found {
    shell: Option<i32>,
    commands: Vec<(ExecId, i32)>,
    /// The shell, the commands and all that is below them.
    members: Vec<ProcessInfo>,
}

impl Core {
    /// The processes of a session: those below `root`, or all.
    ///
    /// # Errors
    /// If there is no such session, or `root` is not in it.
    pub async fn processes(
        &self,
        id: &SessionId,
        root: Option<i32>,
    ) -> Result<SessionProcesses, CoreError> {
        let Some(found) = self.find_processes(id).await? else {
            return match root {
                None => Ok(SessionProcesses::default()),
                Some(pid) => Err(CoreError::ProcessUnknown { pid }),
            };
        };
        let inside = found.numbers();
        let number = |pid: i32| inside.get(&pid).copied().unwrap_or(0);
        let commands = found.commands.iter();
        let commands = commands.map(|(id, pid)| (id.clone(), number(*pid)));
        let commands = commands.filter(|(_, pid)| *pid != 0).collect();
        let here = match root {
            None => found.shell,
            Some(pid) => Some(found.by_number(pid)?),
        };
        let below = match root {
            None => None,
            Some(_) => Some(closure(&found.members, here.unwrap_or(0))),
        };
        let wanted = |process: &&ProcessInfo| {
            Some(process.pid) != here
                && below
                    .as_ref()
                    .is_none_or(|them| them.contains(&process.pid))
        };
        let processes = found
            .members
            .iter()
            .filter(wanted)
            .map(|process| ProcessInfo {
                pid: number(process.pid),
                ppid: number(process.ppid),
                ..process.clone()
            });
        Ok(SessionProcesses {
            root: here.map(number),
            processes: processes.collect(),
            commands,
        })
    }

    /// Signals a process of a session and all below it.
    ///
    /// # Errors
    /// If there is no such session, or no such process in it.
    pub async fn signal_process(
        &self,
        id: &SessionId,
        pid: i32,
        signal: Signal,
    ) -> Result<Vec<KillOutcome>, CoreError> {
        let found = self.find_processes(id).await?;
        let found = found.ok_or(CoreError::ProcessUnknown { pid })?;
        let here = found.by_number(pid)?;
        let inside = found.numbers();
        let outcomes = blocking(move || kill_tree(here, signal)).await?;
        let named = outcomes.into_iter().map(|outcome| KillOutcome {
            pid: inside.get(&outcome.pid).copied().unwrap_or(outcome.pid),
            ..outcome
        });
        Ok(named.collect())
    }

    /// `None` for a session in which nothing has run.
    async fn find_processes(&self, id: &SessionId) -> Result<Option<Found>, CoreError> {
        let open = lock(&self.inner.sessions).get(id).cloned();
        let open = open.ok_or(CoreError::SessionUnknown { id: *id })?;
        let Some(session) = open.live.get() else {
            return Ok(None);
        };
        let shell = session.shell.try_lock().ok().and_then(|shell| {
            let process = shell.as_ref()?.process()?;
            Some(process.number())
        });
        let mut commands = Vec::new();
        for exec in self.execs_of(*id) {
            if !exec.inner.has_ended()
                && let Some(pid) = own_process(&exec).await
            {
                commands.push((exec.id().clone(), pid));
            }
        }
        let session = Arc::clone(session);
        blocking(move || Ok(Some(Found::look(&session, shell, commands)?))).await
    }
}

/// The first process of a command that has one of its own.
async fn own_process(exec: &Exec) -> Option<i32> {
    let place = lock(&exec.inner.record).place.clone();
    let Place::Process(tree) = place else {
        return None;
    };
    match exec.tree(&tree).await.contained_leader() {
        Some(0) => None,
        Some(leader) => Some(leader),
        None => exec.learn_pid().await,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ExecError> + Send + 'static,
) -> Result<T, CoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| CoreError::Internal {
        message: error.to_string(),
    })?;
    Ok(done?)
}

impl Found {
    fn look(
        session: &Session,
        shell: Option<i32>,
        commands: Vec<(ExecId, i32)>,
    ) -> Result<Self, ExecError> {
        let all = everything()?;
        let members = match session.container.as_ref() {
            Some(container) => {
                let space = container.namespace();
                let inside = |process: &ProcessInfo| {
                    space.is_some() && sys::namespace_of(process.pid).ok() == space
                };
                all.into_iter()
                    .filter(|process| inside(process) && !container.is_idle_process(process))
                    .collect()
            }
            None => {
                let roots = shell.into_iter().chain(commands.iter().map(|it| it.1));
                let known: Vec<i32> = roots.flat_map(|root| closure(&all, root)).collect();
                let mut members = all;
                members.retain(|process| known.contains(&process.pid));
                members
            }
        };
        Ok(Self {
            shell: shell.filter(|pid| members.iter().any(|it| it.pid == *pid)),
            commands,
            members,
        })
    }

    /// The number of each for the commands of the session.
    fn numbers(&self) -> HashMap<i32, i32> {
        let number = |process: &ProcessInfo| (process.pid, sys::number_inside(process.pid));
        self.members.iter().map(number).collect()
    }

    fn by_number(&self, pid: i32) -> Result<i32, CoreError> {
        let mut members = self.members.iter();
        let found = members.find(|process| sys::number_inside(process.pid) == pid);
        found
            .map(|process| process.pid)
            .ok_or(CoreError::ProcessUnknown { pid })
    }
}

/// All processes but the first.
fn everything() -> Result<Vec<ProcessInfo>, ExecError> {
    list_descendants(1)
}

/// A process and all below it, by parent links.
fn closure(all: &[ProcessInfo], root: i32) -> Vec<i32> {
    let mut known = vec![root];
    let mut next = 0;
    while let Some(parent) = known.get(next).copied() {
        next += 1;
        let children = all.iter().filter(|process| process.ppid == parent);
        let children: Vec<i32> = children.map(|process| process.pid).collect();
        known.extend(children.into_iter().filter(|pid| *pid != root));
    }
    known
}
