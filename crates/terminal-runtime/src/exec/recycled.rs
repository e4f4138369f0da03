//! Output streams of commands that are processes of their own, used again by
//! the next such command of the same session.
//!
//! Making pipes and files costs more than a short command. They pass on once
//! nobody can tell: the command has ended by itself and nobody can ask for it,
//! nobody writes to its pipes, nobody reads its files. They never pass to
//! another session, whose output a process that still has them must not see.
//! The holder keeps no end to write to; each process is given a new one.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock};

use halter_exec::{LaunchStep, Spool};
use tokio::sync::Notify;

use super::core::CoreInner;
use super::error::CoreError;
use super::handle::{Exec, ExecInner};
use super::lock;
use super::order::{ExecOrder, ExecStdin};
use super::output::Flows;
use super::start::{Streams, internal, part};
use crate::holder::{Key, ProcessEnd, Request, Source};
use crate::limits::{LARGE_PIPE_BYTES, LATER_REQUEST_WAIT, MAX_KEPT_PAIRS, MAX_LATER_REQUESTS};
use crate::session::SessionId;
use crate::sys;

/// What becomes of a command's streams.
#[derive(Debug, Default)]
pub(super) enum Reuse {
    /// They go with it.
    #[default]
    Never,
    /// They pass on, unless something happens: their names with the holder.
    Possible([u64; 2]),
    /// Nobody writes to them any more.
    Ended(Pipes),
    /// Nobody can ask for the command any more. The holder is told as soon as
    /// it is clear whether somebody still reads.
    Left,
}

/// The pipes of two outputs, and the names those have with the holder.
#[derive(Debug)]
pub(super) struct Pipes {
    units: [u64; 2],
    pipes: [OwnedFd; 2],
}

/// The two output streams of the next command.
struct Pair {
    pipes: Pipes,
    /// Emptied by the holder before the next command begins.
    memory: [File; 2],
}

/// A command that nobody can ask for any more. Whoever delivered its result
/// still has it, for a moment.
struct Left {
    exec: Exec,
    pipes: Pipes,
}

/// The streams that are on their way from one command to the next.
#[derive(Default)]
pub(super) struct Recycling {
    state: Mutex<State>,
    left: Arc<Notify>,
    works: OnceLock<bool>,
}

#[derive(Default)]
struct State {
    left: Vec<Left>,
    kept: Shelf<Pair>,
    /// Sessions whose streams could not be opened again.
    refused: HashSet<SessionId>,
}

/// What sessions keep, the oldest first.
struct Shelf<Item> {
    items: VecDeque<(SessionId, Item)>,
}

impl<Item> Default for Shelf<Item> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
        }
    }
}

impl<Item> Shelf<Item> {
    fn has(&self, session: SessionId) -> bool {
        self.items.iter().any(|(owner, _)| *owner == session)
    }

    fn take(&mut self, session: SessionId) -> Option<Item> {
        let place = self.items.iter().position(|(owner, _)| *owner == session)?;
        self.items.remove(place).map(|(_, item)| item)
    }

    /// Keeps something for a session that has nothing here; what has to go
    /// for it.
    fn put(&mut self, session: SessionId, item: Item) -> Option<Item> {
        self.items.push_back((session, item));
        let too_many = self.items.len() > MAX_KEPT_PAIRS;
        let oldest = self.items.pop_front_if(|_| too_many)?;
        Some(oldest.1)
    }
}

impl Recycling {
    /// Whether an end to write to can be opened from the one that is read.
    fn works(&self) -> bool {
        *self.works.get_or_init(|| {
            let read = std::io::pipe().map(|(read, _)| read);
            read.and_then(|read| sys::new_write_end(read.as_fd()))
                .is_ok()
        })
    }

    /// Sees to it that the holder soon hears of every command that was left.
    pub(super) fn attend(&self, core: &Arc<CoreInner>) {
        let (left, core) = (Arc::clone(&self.left), Arc::downgrade(core));
        tokio::spawn(async move {
            loop {
                left.notified().await;
                tokio::time::sleep(LATER_REQUEST_WAIT).await;
                match core.upgrade() {
                    Some(core) => core.retire_all(),
                    None => return,
                }
            }
        });
    }

    /// Takes away all that a session has that is closed.
    pub(super) fn clear(&self, session: SessionId) -> Vec<Request> {
        let mut state = lock(&self.state);
        let is_its = |left: &mut Left| left.exec.inner.session.id == session;
        let left = state.left.extract_if(.., is_its);
        let mut requests: Vec<Request> = left.map(|left| left.forget_request()).collect();
        requests.extend(state.kept.take(session).map(Pair::drop_request));
        state.refused.remove(&session);
        requests
    }
}

impl Drop for Recycling {
    fn drop(&mut self) {
        // Ends the task that waits for what is left.
        self.left.notify_one();
    }
}

impl CoreInner {
    fn may_reuse(&self, order: &ExecOrder) -> bool {
        !order.kept && order.pty.is_none() && self.recycling.works()
    }

    /// The streams of a command that is a process of its own.
    pub(super) async fn process_streams(
        &self,
        session: SessionId,
        key: Key,
        order: &ExecOrder,
    ) -> Result<Streams, CoreError> {
        if !self.may_reuse(order) {
            return Box::pin(self.streams(key, order)).await;
        }
        let Some(pair) = self.take_pair(session) else {
            let mut streams = Box::pin(self.streams(key, order)).await?;
            streams.flows.keep_pipes();
            return Ok(streams);
        };
        let mut streams = pair.lend(self, key);
        if !matches!(order.stdin, ExecStdin::Null) {
            let fed = Box::pin(self.add_input(&mut streams, &order.stdin)).await;
            fed.inspect_err(|_| self.drop_units(&streams.units))
                .map_err(internal("making the command's streams"))?;
        }
        Ok(streams)
    }

    /// What becomes of the streams of a command that is about to start.
    pub(super) fn reuse_of(&self, order: &ExecOrder, streams: &Streams) -> Reuse {
        match streams.units.first_chunk() {
            Some(units) if self.may_reuse(order) => Reuse::Possible(*units),
            _ => Reuse::Never,
        }
    }

    /// Has the holder drop the units of a command that is not started.
    pub(super) fn drop_units(&self, units: &[u64]) {
        let units = units.to_vec();
        self.link.send_later(Request::Drop { units });
    }

    /// The streams of an earlier command of this session, if it has some that
    /// nobody else has.
    fn take_pair(&self, session: SessionId) -> Option<Pair> {
        let mut state = lock(&self.recycling.state);
        if state.refused.contains(&session) {
            return None;
        }
        let is_free = |left: &Left| {
            left.exec.inner.session.id == session && Arc::strong_count(&left.exec.inner) == 1
        };
        let Some(place) = state.left.iter().position(is_free) else {
            return state.kept.take(session);
        };
        let left = state.left.swap_remove(place);
        drop(state);
        let retired = left.retire();
        self.link.send_later(retired.request);
        retired.pair
    }

    /// Keeps the streams of all commands that were left for their sessions,
    /// or has the holder drop them.
    fn retire_all(&self) {
        let left = std::mem::take(&mut lock(&self.recycling.state).left);
        if left.is_empty() {
            return;
        }
        for left in left {
            self.retire(left);
        }
        // They have waited already.
        self.link.send(&[]);
    }

    fn retire(&self, left: Left) {
        let (key, session) = (left.exec.inner.key, Arc::clone(&left.exec.inner.session));
        let Retired { request, pair } = left.retire();
        let mut state = lock(&self.recycling.state);
        let is_wanted = !session.closed.is_cancelled()
            && !state.kept.has(session.id)
            && !state.refused.contains(&session.id);
        // Told first, so that nobody names the units before the holder has
        // them to give.
        match pair.filter(|_| is_wanted) {
            Some(pair) => {
                self.link.send_later(request);
                let oldest = state.kept.put(session.id, pair);
                if let Some(oldest) = oldest {
                    self.link.send_later(oldest.drop_request());
                }
            }
            None => self.link.send_later(Request::Forget { key }),
        }
    }
}

/// What was found out about a command that was left.
struct Retired {
    /// What the holder has to hear.
    request: Request,
    pair: Option<Pair>,
}

impl Left {
    fn forget_request(self) -> Request {
        Request::Forget {
            key: self.exec.inner.key,
        }
    }

    /// Its streams, if nobody else has a part of them.
    fn retire(self) -> Retired {
        let Self { exec, pipes } = self;
        let key = exec.inner.key;
        let memory = Arc::into_inner(exec.inner).and_then(|inner| {
            let stderr = inner.stderr?.into_memory();
            inner.stdout.into_memory().zip(stderr)
        });
        match memory {
            Some(((out, out_written), (err, err_written))) => Retired {
                request: Request::Recycle {
                    key,
                    written: out_written || err_written,
                },
                pair: Some(Pair {
                    pipes,
                    memory: [out, err],
                }),
            },
            None => Retired {
                request: Request::Forget { key },
                pair: None,
            },
        }
    }
}

impl Pair {
    fn drop_request(self) -> Request {
        let units = self.pipes.units.to_vec();
        Request::Drop { units }
    }

    /// The streams of one command, without input.
    fn lend(self, core: &CoreInner, key: Key) -> Streams {
        let Pipes { units, pipes } = self.pipes;
        Streams {
            units: units.to_vec(),
            slots: [Source::Null, part(0, 1), part(1, 1)],
            ..Streams::used(core, key, pipes, self.memory)
        }
    }
}

impl Exec {
    /// It did not end by itself: its streams go with it. If they could not be
    /// arranged, no command of the session is given used ones again.
    pub(super) fn keep_streams(&self, ended: ProcessEnd) {
        let reuse = std::mem::take(&mut *lock(&self.inner.reuse));
        if let (Reuse::Possible(_), ProcessEnd::Failed(failure)) = (reuse, ended)
            && failure.step == LaunchStep::Descriptors
            && let Some(core) = self.inner.core.upgrade()
        {
            let mut state = lock(&core.recycling.state);
            state.refused.insert(self.inner.session.id);
        }
    }

    /// Leaves its streams to the next command; `false` if they go with it.
    pub(super) fn leave_streams(&self, core: &CoreInner) -> bool {
        let mut reuse = lock(&self.inner.reuse);
        match std::mem::take(&mut *reuse) {
            Reuse::Never | Reuse::Possible(_) => false,
            Reuse::Ended(_) if self.inner.session.closed.is_cancelled() => false,
            Reuse::Ended(pipes) => {
                *reuse = Reuse::Left;
                drop(reuse);
                core.leave(Left {
                    exec: self.clone(),
                    pipes,
                });
                true
            }
            Reuse::Left => {
                *reuse = Reuse::Left;
                true
            }
        }
    }
}

impl CoreInner {
    fn leave(&self, left: Left) {
        let full = lock(&self.recycling.state).left.len() >= MAX_LATER_REQUESTS;
        if full {
            self.retire_all();
        }
        lock(&self.recycling.state).left.push(left);
        self.recycling.left.notify_one();
    }
}

impl ExecInner {
    /// Takes the pipes back that are at their end.
    pub(super) fn return_pipes(&self, flows: Flows) {
        // A larger one has a larger pipe, which counts against its user.
        let small = |spool: &Spool| spool.total() <= LARGE_PIPE_BYTES as u64;
        let is_small = small(&self.stdout) && self.stderr.as_ref().is_none_or(small);
        let mut reuse = lock(&self.reuse);
        if let Reuse::Possible(units) = *reuse
            && is_small
            && !flows.is_open()
            && let Some(pipes) = flows.into_pipes()
        {
            *reuse = Reuse::Ended(Pipes { units, pipes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sessions_together_keep_so_much_and_the_oldest_goes() {
        assert_eq!(MAX_KEPT_PAIRS, 16);
        let session = SessionId::from_number;
        let mut shelf = Shelf::default();
        for number in 0..16 {
            assert_eq!(shelf.put(session(number), number), None);
        }
        assert_eq!(shelf.put(session(16), 16), Some(0));
        assert!(!shelf.has(session(0)) && shelf.has(session(1)));
        assert_eq!(shelf.take(session(0)), None);
        assert_eq!(shelf.take(session(2)), Some(2));
        assert_eq!(shelf.take(session(2)), None);
        assert_eq!(shelf.put(session(17), 17), None);
        assert_eq!(shelf.put(session(18), 18), Some(1));
    }
}
