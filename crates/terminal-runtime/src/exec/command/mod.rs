//! One command, for whoever asks about it.

pub(in crate::exec) mod flow;
pub(in crate::exec) mod limit;
pub(in crate::exec) mod plan;
pub(in crate::exec) mod run;
pub(in crate::exec) mod start;
pub(in crate::exec) mod stop;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use halter_exec::host::{InputError, InputSpool, Spool, SpoolChunk};
use halter_exec::{Signal, Terminal};
use tokio::sync::{Notify, SetOnce};

use crate::exec::core::CoreInner;
use crate::exec::error::CoreError;
use crate::exec::lock;
use crate::exec::record::{ClosedStreams, ExecRecord, Record, StopReason, StreamSize};
use crate::exec::session::Session;
use crate::exec::types::{
    Chunk, ExecEnd, ExecId, ExecInfo, ExecState, Scope, Stream, TerminalSize,
};
use crate::holder::{HolderLink, HolderRequest, Key};

/// One command. Cheap to clone; the command does not notice a handle going.
#[derive(Clone)]
pub struct Exec {
    pub(in crate::exec) inner: Arc<ExecInner>,
}

/// What a client wants of a running command.
#[derive(Debug, Clone, Copy)]
pub(in crate::exec) enum Order {
    Cancel(Option<Signal>),
    Signal(Signal, Scope),
}

/// What clients want of one command, in order. The task that runs it takes
/// them.
#[derive(Debug, Default)]
pub(in crate::exec) struct Orders {
    waiting: Mutex<VecDeque<Order>>,
    came: Notify,
}

impl Orders {
    fn add(&self, order: Order) {
        lock(&self.waiting).push_back(order);
        self.came.notify_one();
    }

    /// The next one. It is not lost if the future is dropped.
    pub(in crate::exec) async fn next(&self) -> Order {
        loop {
            let next = lock(&self.waiting).pop_front();
            if let Some(order) = next {
                return order;
            }
            self.came.notified().await;
        }
    }
}

pub(in crate::exec) struct ExecInner {
    pub core: Weak<CoreInner>,
    pub session: Arc<Session>,
    pub key: Key,
    pub id: ExecId,
    pub record: Mutex<ExecRecord>,
    pub stdout: Spool,
    pub stderr: Option<Spool>,
    /// `None` once it takes no more.
    pub input: Mutex<Option<Arc<InputSpool>>>,
    pub has_terminal: bool,
    /// Our end of its terminal, until its streams are closed.
    pub terminal: Mutex<Option<Terminal>>,
    /// Its first process; 0 while that is not known.
    pub pid: AtomicI32,
    pub orders: Orders,
    pub end: SetOnce<Result<ExecEnd, CoreError>>,
    pub forgotten: AtomicBool,
    /// Whether its result is kept after its end.
    pub kept: AtomicBool,
    /// Whether somebody may still write to its streams.
    pub flowing: AtomicBool,
}

impl ExecInner {
    pub(in crate::exec) fn has_ended(&self) -> bool {
        self.end.initialized()
    }
}

impl std::fmt::Debug for Exec {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Exec").field(&self.inner.id).finish()
    }
}

impl Exec {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> &ExecId {
        &self.inner.id
    }

    /// What is known about it.
    #[must_use]
    pub fn info(&self) -> ExecInfo {
        let record = lock(&self.inner.record);
        let pid = self.inner.pid.load(Ordering::Relaxed);
        let ended = self.inner.has_ended();
        ExecInfo {
            id: record.id.clone(),
            session: self.inner.session.id,
            what: record.what.clone(),
            state: if ended {
                ExecState::Ended
            } else {
                ExecState::Running
            },
            started: SystemTime::UNIX_EPOCH + Duration::from_millis(record.started_ms),
            pid: (pid != 0).then_some(pid),
            pty: self.inner.has_terminal,
            note: record.note.clone(),
        }
    }

    /// How it ended, once it has; at once if it has already.
    ///
    /// # Errors
    /// If it could not be started.
    pub async fn ended(&self) -> Result<ExecEnd, CoreError> {
        self.inner.end.wait().await.clone()
    }

    /// The holder that keeps it.
    pub(in crate::exec) fn link(&self) -> &HolderLink {
        &self.inner.session.link
    }

    fn spool(&self, stream: Stream) -> Option<&Spool> {
        match stream {
            Stream::Stdout => Some(&self.inner.stdout),
            Stream::Stderr => self.inner.stderr.as_ref(),
        }
    }

    /// Reads a stream from an offset on.
    #[must_use]
    pub fn reader(&self, stream: Stream, offset: u64) -> SpoolReader {
        SpoolReader {
            reader: self.spool(stream).map(|spool| spool.reader(offset)),
        }
    }

    /// Gives it input. `offset` is the number of the first byte of `data`:
    /// bytes accepted before are not given twice. Returns the number of the
    /// next byte.
    ///
    /// # Errors
    /// If its input is closed, or the offset leaves a gap.
    pub async fn write(
        &self,
        offset: Option<u64>,
        data: Bytes,
        eof: bool,
    ) -> Result<u64, CoreError> {
        let input = lock(&self.inner.input).clone();
        let input = input.ok_or(CoreError::StdinClosed)?;
        let accepted = input.write(offset, &data).await.map_err(refused)?;
        if eof {
            // Known before it is done: an adopted command's input ends too.
            lock(&self.inner.record).input_ended = true;
            self.store_record();
            input.end();
        }
        Ok(accepted)
    }

    /// Delivers input until the command takes no more, then closes it on all
    /// sides.
    pub(in crate::exec) async fn feed(self, input: Arc<InputSpool>) {
        tokio::select! {
            fed = input.pump() => if let Err(error) = fed {
                tracing::warn!(exec = %self.inner.id, %error, "input cannot be delivered");
            },
            _ = self.ended() => {}
        }
        lock(&self.inner.input).take();
        drop(input);
        let key = self.inner.key;
        self.link().send(&[HolderRequest::CloseInput { key }]);
        if let Some(shared) = &self.inner.session.shared {
            // Nobody can open a named pipe to read that nobody writes to.
            while !self.inner.has_ended() && shared.touch_input(key) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Gives its terminal another size.
    ///
    /// # Errors
    /// If it has no terminal or has ended.
    pub fn resize(&self, size: TerminalSize) -> Result<(), CoreError> {
        if !self.inner.has_terminal {
            return Err(CoreError::NoTerminal);
        }
        if self.inner.has_ended() {
            return Err(CoreError::Ended);
        }
        let terminal = lock(&self.inner.terminal);
        let terminal = terminal.as_ref().ok_or(CoreError::Ended)?;
        terminal
            .resize(terminal_size(size))
            .map_err(|error| CoreError::Internal {
                message: format!("the terminal does not take its new size: {error}"),
            })
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&self, signal: Signal, scope: Scope) -> Result<(), CoreError> {
        if self.inner.has_ended() {
            return Err(CoreError::Ended);
        }
        self.inner.orders.add(Order::Signal(signal, scope));
        Ok(())
    }

    /// Ends it: this signal (INT without one), then TERM, then KILL to
    /// everything it started. The session's shell stays. Returns when it has
    /// ended.
    pub async fn cancel(&self, signal: Option<Signal>) {
        // Nobody takes the orders of one that has ended.
        if !self.inner.has_ended() {
            self.inner.orders.add(Order::Cancel(signal));
        }
        let _ = self.ended().await;
    }

    /// Its result has been acknowledged: nobody will read it any more. A
    /// command that still runs is forgotten when it has ended.
    pub fn forget(&self) {
        self.inner.forgotten.store(true, Ordering::Release);
        if self.inner.has_ended() {
            self.remove();
        }
    }

    /// Its result may be asked for later. As soon as nobody writes to its
    /// streams any more, no descriptor is open for it, here or in its holder.
    pub fn keep(&self) {
        self.inner.kept.store(true, Ordering::SeqCst);
        if !self.inner.flowing.load(Ordering::SeqCst) {
            self.close_streams();
        }
    }

    /// Has its output in files and closes everything else.
    pub(in crate::exec) fn close_streams(&self) {
        let inner = &self.inner;
        if lock(&inner.record).closed.is_some() {
            return;
        }
        let closed = inner.stdout.close();
        let closed = closed.and_then(|()| inner.stderr.as_ref().map_or(Ok(()), Spool::close));
        if let Err(error) = closed {
            tracing::warn!(exec = %inner.id, %error, "a command's output stays in memory");
            return;
        }
        lock(&inner.terminal).take();
        lock(&inner.record).closed = Some(ClosedStreams {
            stdout: StreamSize::of(&inner.stdout),
            stderr: inner.stderr.as_ref().map(StreamSize::of),
        });
        let close = HolderRequest::CloseStreams { key: inner.key };
        self.link().send(&[self.store_request(), close]);
    }

    /// Takes it out of the table and gives back what it holds.
    pub(in crate::exec) fn remove(&self) {
        if let Some(core) = self.inner.core.upgrade() {
            core.drop_exec(self);
        }
        for spool in [Some(&self.inner.stdout), self.inner.stderr.as_ref()] {
            if let Some(Err(error)) = spool.map(halter_exec::host::Spool::remove) {
                tracing::warn!(%error, "a spool stays");
            }
        }
        self.release_slot();
    }

    /// Has the holder drop its part, unless somebody may still write to the
    /// streams: whoever does must not meet a closed pipe.
    pub(in crate::exec) fn release_slot(&self) {
        if self.inner.flowing.load(Ordering::Acquire) {
            lock(&self.inner.record).forgotten = true;
            self.store_record();
            // Whoever moves its output looks at that once it has come to its
            // end, which may have been just now.
            if self.inner.flowing.load(Ordering::Acquire) {
                return;
            }
        }
        let key = self.inner.key;
        self.link().send_later(HolderRequest::Remove { key });
    }

    pub(in crate::exec) fn store_record(&self) {
        self.link().send(&[self.store_request()]);
    }

    /// Its newest record.
    pub(in crate::exec) fn store_request(&self) -> HolderRequest {
        let record = lock(&self.inner.record).clone();
        HolderRequest::Store {
            key: self.inner.key,
            record: Record::Exec(Box::new(record)).encode(),
            units: Vec::new(),
        }
    }

    /// Notes why it is brought to its end, before it is.
    pub(in crate::exec) fn note_stop(&self, reason: StopReason) {
        lock(&self.inner.record).stop.get_or_insert(reason);
        self.store_record();
    }
}

pub(in crate::exec) fn terminal_size(size: TerminalSize) -> halter_exec::TerminalSize {
    halter_exec::TerminalSize {
        columns: size.cols,
        rows: size.rows,
    }
}

fn refused(error: InputError) -> CoreError {
    match error {
        InputError::Gap { expected, found } => CoreError::StdinGap {
            offset: found,
            expected,
        },
        InputError::Closed => CoreError::StdinClosed,
        error => CoreError::Internal {
            message: error.to_string(),
        },
    }
}

/// Reads one stream of one command.
#[derive(Debug)]
pub struct SpoolReader {
    /// `None` for the second stream of a terminal, which has none.
    reader: Option<halter_exec::host::SpoolReader>,
}

impl SpoolReader {
    /// Where the next byte stands.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.reader.as_ref().map_or(0, |reader| reader.offset())
    }

    /// The next piece, of at most `max` bytes; waits for it.
    ///
    /// # Errors
    /// If the spool cannot be read.
    pub async fn next(&mut self, max: usize) -> Result<Chunk, CoreError> {
        match &mut self.reader {
            None => Ok(Chunk::End { offset: 0 }),
            Some(reader) => {
                let found = reader.next(max).await.map_err(unreadable)?;
                Ok(chunk(found, reader.offset()))
            }
        }
    }

    /// The next piece if there is one already.
    ///
    /// # Errors
    /// If the spool cannot be read.
    pub fn try_next(&mut self, max: usize) -> Result<Option<Chunk>, CoreError> {
        match &mut self.reader {
            None => Ok(Some(Chunk::End { offset: 0 })),
            Some(reader) => {
                let found = reader.try_next(max).map_err(unreadable)?;
                Ok(found.map(|found| chunk(found, reader.offset())))
            }
        }
    }
}

fn unreadable(error: std::io::Error) -> CoreError {
    CoreError::Internal {
        message: format!("the kept output cannot be read: {error}"),
    }
}

fn chunk(chunk: SpoolChunk, offset: u64) -> Chunk {
    match chunk {
        SpoolChunk::Data { offset, bytes } => Chunk::Data { offset, bytes },
        SpoolChunk::Gap { from, to } => Chunk::Gap { from, to },
        _ => Chunk::End { offset },
    }
}
