//! Starting a shell through the holder.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use halter_exec::ExecError;
use halter_exec::host::{DescriptorMapping, LaunchPlan, ShellLaunch, Spool};

use super::process::{HolderShell, Parts};
use super::{HolderHost, failed};
use crate::exec::record::TreeId;
use crate::exec::session::trees::TreeEnd;
use crate::holder::{
    ExitWatch, HolderRequest, Key, NewProcess, ProcessEnd, Role, Source, UnitKind,
};
use crate::limits::CONTAINER_DEADLINE;

/// Our side of the channel that a shell answers on.
struct Channel {
    unit: u64,
    pipe: OwnedFd,
    file: OwnedFd,
    /// Where it is opened, if it is not inherited, and an end to write to:
    /// until the shell has opened its own, nobody must take it for closed.
    named: Option<(PathBuf, OwnedFd)>,
}

fn missing() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl HolderHost {
    pub(super) async fn start(&self, launch: &ShellLaunch<'_>) -> Result<HolderShell, ExecError> {
        let failed = failed("making the shell's channels");
        let key = self.link.new_key();
        let mut lines = self.link.unit(UnitKind::Input).await.map_err(&failed)?;
        let records = self.records(key).await.map_err(&failed)?;
        let mut plan = plan(launch, &records);
        let placed = self.session.place(&self.settings, &mut plan, false);
        let tree = placed.map_err(|error| ExecError::Io {
            action: "giving the shell its place",
            source: io::Error::other(error),
        })?;
        let end = self.link.exit_of(key);
        self.link.send(&[HolderRequest::Spawn(Box::new(NewProcess {
            key,
            record: self.process_record(&tree, false),
            units: vec![lines.unit.id, records.unit],
            role: Role::Shell,
            slots: vec![
                Source::Part { unit: 0, part: 1 },
                Source::Null,
                Source::Part { unit: 1, part: 1 },
            ],
            plan: plan.clone(),
        }))]);
        let Some(pid) = self.begun(key, &tree, &end).await else {
            self.session.trees.release(None, &tree, TreeEnd::Killed);
            self.link.send(&[HolderRequest::Remove { key }]);
            return Err(match end.wait().await {
                ProcessEnd::Failed(failure) => {
                    failure.explain(&plan, &launch.program.to_string_lossy())
                }
                _ => ExecError::ShellStart {
                    program: launch.program.to_owned(),
                    reason: "it exited at once; it must be a POSIX shell".to_owned(),
                },
            });
        };
        let lines = lines.take(0).ok_or_else(|| failed(missing()))?;
        let parts = Parts {
            key,
            pid,
            tree,
            end,
            lines,
            records: records.pipe,
            record_file: records.file,
            held_open: records.named.map(|(_, write)| write),
        };
        HolderShell::new(self, parts).map_err(failed)
    }

    /// The channel that a shell answers on: a pipe that it inherits, or in a
    /// container one that it opens by name.
    async fn records(&self, key: Key) -> io::Result<Channel> {
        if let (Some(_), Some(shared)) = (&self.session.container, &self.session.shared) {
            let fifo = shared.fifo(&format!("{key}.records"))?;
            let file = OwnedFd::from(Spool::memory_file()?);
            let parts = [fifo.read.as_fd(), fifo.write.as_fd(), file.as_fd()];
            return Ok(Channel {
                unit: self.link.give(UnitKind::Output, &parts),
                pipe: fifo.read,
                file,
                named: Some((fifo.theirs, fifo.write)),
            });
        }
        let mut unit = self.link.unit(UnitKind::Output).await?;
        Ok(Channel {
            unit: unit.unit.id,
            pipe: unit.take(0).ok_or_else(missing)?,
            file: unit.take(2).ok_or_else(missing)?,
            named: None,
        })
    }

    /// The number of the shell's process, once it is there: in a container,
    /// the client's process comes first.
    async fn begun(&self, key: Key, tree: &TreeId, end: &ExitWatch) -> Option<i32> {
        let pid = self.link.pid_of(key).await?;
        if self.session.container.is_none() {
            return Some(pid);
        }
        let deadline = tokio::time::Instant::now() + CONTAINER_DEADLINE;
        while end.now().is_none() && tokio::time::Instant::now() < deadline {
            let found = self.session.tree(pid, tree);
            if found.contained_leader().is_some_and(|leader| leader != 0) {
                return Some(pid);
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        None
    }
}

/// The process of a shell that answers on that channel.
fn plan(launch: &ShellLaunch<'_>, records: &Channel) -> LaunchPlan {
    let mut plan = LaunchPlan::new(launch.program, launch.cwd);
    plan.arguments.extend(launch.arguments.iter().cloned());
    plan.environment = launch.environment.clone();
    let mut descriptors = vec![(0, 0), (1, 1), (1, 2)];
    match &records.named {
        None => descriptors.push((2, ShellLaunch::RECORD_FD)),
        Some((path, _)) => {
            let opened = format!("exec {}>\"$0\" && exec \"$@\"", ShellLaunch::RECORD_FD);
            let mut words: Vec<OsString> = vec!["/bin/sh".into(), "-c".into(), opened.into()];
            words.push(path.clone().into());
            words.append(&mut plan.arguments);
            plan.arguments = words;
        }
    }
    plan.descriptors = descriptors
        .into_iter()
        .map(|(slot, target)| DescriptorMapping { slot, target })
        .collect();
    plan
}
