//! The two threads that own the connections: one writes, one reads.

use super::SqliteOptions;
use super::fault::{SqliteFault, io_failure};
use super::file::{open_reader, open_writer};
use crate::error::StoreError;
use crate::limits::{SQLITE_GROUP_REQUESTS, SQLITE_QUEUE_REQUESTS};
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use tokio::sync::{mpsc, oneshot, watch};

/// The ways to the threads. They end when the last sender is gone and the
/// queues are empty.
#[derive(Clone)]
pub(super) struct Workers {
    writes: mpsc::Sender<Box<dyn WriteJob>>,
    reads: mpsc::Sender<ReadJob>,
}

impl Workers {
    /// Opens the file on the threads that will own it. The receiver's sender
    /// is dropped when both connections are closed, and then the thread ends.
    pub async fn start(
        path: Arc<Path>,
        options: SqliteOptions,
    ) -> Result<(Self, watch::Receiver<()>, thread::JoinHandle<()>), StoreError> {
        let (writes, write_queue) = mpsc::channel(SQLITE_QUEUE_REQUESTS);
        let (reads, read_queue) = mpsc::channel(SQLITE_QUEUE_REQUESTS);
        let (ready, opened) = oneshot::channel();
        let (open, closed) = watch::channel(());
        let file = path.clone();
        let thread = thread::Builder::new()
            .name("halter-sqlite".into())
            .spawn(move || {
                let started = start_threads(&file, &options, read_queue);
                let (mut writer, reader) = match started {
                    Ok(threads) => threads,
                    Err(error) => return drop(ready.send(Err(error))),
                };
                if ready.send(Ok(())).is_ok() {
                    writer.run(write_queue);
                }
                // The writer closes last: only it may merge the log back.
                drop(reader.join());
                drop(writer);
                drop(open);
            })
            .map_err(|error| io_failure("start a thread for", &path, error))?;
        opened.await.map_err(|_| StoreError::Closed)??;
        Ok((Self { writes, reads }, closed, thread))
    }

    /// Runs `run` in a transaction, perhaps together with others. It may be
    /// run twice, when the first transaction came to nothing.
    pub async fn write<T: Send + 'static>(
        self,
        power_safe: bool,
        action: &'static str,
        run: impl FnMut(&Connection) -> Result<T, SqliteFault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Write {
            power_safe,
            action,
            run,
            value: None,
            reply,
        };
        let queued = self.writes.send(Box::new(job)).await;
        queued.map_err(|_| StoreError::Closed)?;
        drop(self);
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs `run` on what is committed.
    pub async fn read<T: Send + 'static>(
        self,
        action: &'static str,
        run: impl FnOnce(&Connection) -> Result<T, SqliteFault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job: ReadJob = Box::new(move |connection, path| {
            let outcome = run(connection).map_err(|fault| fault.at(action, path));
            drop(reply.send(outcome));
        });
        let queued = self.reads.send(job).await;
        queued.map_err(|_| StoreError::Closed)?;
        drop(self);
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

type ReadJob = Box<dyn FnOnce(&Connection, &Path) + Send>;

trait WriteJob: Send {
    fn power_safe(&self) -> bool;
    fn action(&self) -> &'static str;
    fn run(&mut self, connection: &Connection) -> Result<(), SqliteFault>;
    fn finish(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct Write<T, F> {
    power_safe: bool,
    action: &'static str,
    run: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&Connection) -> Result<T, SqliteFault> + Send> WriteJob for Write<T, F> {
    fn power_safe(&self) -> bool {
        self.power_safe
    }

    fn action(&self) -> &'static str {
        self.action
    }

    fn run(&mut self, connection: &Connection) -> Result<(), SqliteFault> {
        self.value = Some((self.run)(connection)?);
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<(), StoreError>) {
        let value = self.value.ok_or(StoreError::Closed);
        // The caller may have gone; what was stored stays stored.
        drop(self.reply.send(outcome.and(value)));
    }
}

fn start_threads(
    path: &Arc<Path>,
    options: &SqliteOptions,
    mut reads: mpsc::Receiver<ReadJob>,
) -> Result<(Writer, thread::JoinHandle<()>), StoreError> {
    let writer = Writer {
        connection: open_writer(path, options)?,
        path: path.clone(),
        syncs: false,
    };
    let connection = open_reader(path)?;
    let file = path.clone();
    let reader = thread::Builder::new()
        .name("halter-sqlite-read".into())
        .spawn(move || {
            while let Some(job) = reads.blocking_recv() {
                job(&connection, &file);
            }
        })
        .map_err(|error| io_failure("start a thread for", path, error))?;
    Ok((writer, reader))
}

struct Writer {
    connection: Connection,
    path: Arc<Path>,
    /// Whether commits reach the disk before they return.
    syncs: bool,
}

impl Writer {
    fn run(&mut self, mut queue: mpsc::Receiver<Box<dyn WriteJob>>) {
        let mut group = Vec::with_capacity(SQLITE_GROUP_REQUESTS);
        while next_group(&mut queue, &mut group) {
            self.settle(&mut group);
        }
    }

    /// Commits the group and answers everybody in it.
    fn settle(&mut self, group: &mut Vec<Box<dyn WriteJob>>) {
        match self.commit(group) {
            Ok(outcomes) => {
                for (job, outcome) in group.drain(..).zip(outcomes) {
                    job.finish(outcome);
                }
            }
            Err(fault) => match group.pop() {
                Some(only) if group.is_empty() => {
                    let error = fault.at(only.action(), &self.path);
                    only.finish(Err(error));
                }
                // One request spoilt it for all: let each stand alone.
                last => {
                    for job in std::mem::take(group).into_iter().chain(last) {
                        self.settle(&mut vec![job]);
                    }
                }
            },
        }
    }

    fn commit(
        &mut self,
        group: &mut [Box<dyn WriteJob>],
    ) -> Result<Vec<Result<(), StoreError>>, SqliteFault> {
        let sync = group.iter().any(|job| job.power_safe());
        if sync != self.syncs {
            let level = if sync { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.syncs = sync;
        }
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcomes = Vec::with_capacity(group.len());
        for job in group {
            outcomes.push(match job.run(&transaction) {
                Ok(()) => Ok(()),
                Err(SqliteFault::Refused(error)) => Err(error),
                Err(fault) => return Err(fault),
            });
        }
        transaction.commit()?;
        Ok(outcomes)
    }
}

/// Waits for a request and takes those that wait behind it along. False at the
/// end of the queue.
fn next_group<T>(queue: &mut mpsc::Receiver<T>, group: &mut Vec<T>) -> bool {
    queue.blocking_recv_many(group, SQLITE_GROUP_REQUESTS) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_requests_are_committed_together_and_no_more() {
        let (sender, mut queue) = mpsc::channel(SQLITE_QUEUE_REQUESTS);
        for request in 0..=SQLITE_GROUP_REQUESTS {
            sender.try_send(request).unwrap();
        }
        drop(sender);
        let mut next = || {
            let mut group = Vec::new();
            next_group(&mut queue, &mut group).then_some(group)
        };
        assert_eq!(next(), Some((0..SQLITE_GROUP_REQUESTS).collect()));
        assert_eq!(next(), Some(vec![SQLITE_GROUP_REQUESTS]));
        assert_eq!(next(), None);
    }
}
