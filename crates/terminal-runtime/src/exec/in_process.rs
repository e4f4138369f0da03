//! Commands as children of this very process, with their output in memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use halter_exec::{
    CommandOutcome, CommandSpec, Environment, ExecError, OutputChunk, OutputStream,
    PersistentShell, ShellCommand, ShellConfig, Signal, Stdin,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::error::CoreError;
use super::order::{
    AdoptedSession, Chunk, CoreSettings, CoreStats, ExecEnd, ExecId, ExecInfo, ExecOrder,
    ExecState, ExecStdin, ExecWhat, Isolation, IsolationLevel, IsolationState, Scope, SessionSpec,
    Stream, TerminalSize, Usage,
};
use crate::session::SessionId;

fn lock<Value>(mutex: &Mutex<Value>) -> MutexGuard<'_, Value> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All sessions and commands of one runtime. Cheap to clone.
#[derive(Clone)]
pub struct Core {
    inner: Arc<Inner>,
}

struct Inner {
    settings: CoreSettings,
    sessions: Mutex<HashMap<SessionId, Arc<Slot>>>,
    execs: Mutex<HashMap<ExecId, Exec>>,
    total: AtomicU64,
}

struct Slot {
    spec: SessionSpec,
    shell: tokio::sync::Mutex<Option<PersistentShell>>,
    closed: CancellationToken,
}

impl Core {
    /// Starts, and finds the sessions an earlier runtime left in the same
    /// state directory.
    ///
    /// # Errors
    /// If the state directory cannot be used.
    #[allow(clippy::unused_async)]
    pub async fn start(settings: CoreSettings) -> Result<(Self, Vec<AdoptedSession>), CoreError> {
        let inner = Inner {
            settings,
            sessions: Mutex::default(),
            execs: Mutex::default(),
            total: AtomicU64::new(0),
        };
        let core = Self {
            inner: Arc::new(inner),
        };
        Ok((core, Vec::new()))
    }

    /// What holds sessions together here.
    #[must_use]
    pub fn describe(&self) -> Isolation {
        let unavailable = |name| IsolationLevel {
            name,
            state: IsolationState::Unavailable {
                reason: "not built in".to_owned(),
            },
        };
        Isolation {
            levels: ["chroot", "container"]
                .into_iter()
                .map(unavailable)
                .collect(),
        }
    }

    /// Numbers about the runtime.
    #[must_use]
    pub fn stats(&self) -> CoreStats {
        let running = |exec: &&Exec| exec.info().state == ExecState::Running;
        CoreStats {
            running: lock(&self.inner.execs).values().filter(running).count() as u64,
            total_commands: self.inner.total.load(Ordering::Relaxed),
            memory_rss_bytes: resident_bytes(),
            open_fds: std::fs::read_dir("/proc/self/fd")
                .map_or(0, |entries| entries.count() as u64),
        }
    }

    /// Opens a session. No process is started yet.
    ///
    /// # Errors
    /// If something that was asked for is not available.
    #[allow(clippy::unused_async)]
    pub async fn open(&self, id: &SessionId, spec: SessionSpec) -> Result<(), CoreError> {
        let slot = Slot {
            spec,
            shell: tokio::sync::Mutex::new(None),
            closed: CancellationToken::new(),
        };
        lock(&self.inner.sessions).insert(*id, Arc::new(slot));
        Ok(())
    }

    /// Ends a session: everything it runs is killed, everything it kept goes.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn close(&self, id: &SessionId) -> Result<(), CoreError> {
        let slot = lock(&self.inner.sessions).remove(id);
        let Some(slot) = slot else {
            return Err(CoreError::SessionUnknown { id: *id });
        };
        slot.closed.cancel();
        drop(slot.shell.lock().await.take());
        lock(&self.inner.execs).retain(|_, exec| exec.inner.info.session != *id);
        Ok(())
    }

    /// Starts a command.
    ///
    /// # Errors
    /// If the session is not open, the name is taken or the command cannot
    /// be started.
    #[allow(clippy::unused_async)]
    pub async fn exec(&self, id: &SessionId, order: ExecOrder) -> Result<Exec, CoreError> {
        let slot = lock(&self.inner.sessions).get(id).cloned();
        let slot = slot.ok_or(CoreError::SessionUnknown { id: *id })?;
        let mut execs = lock(&self.inner.execs);
        if execs.contains_key(&order.id) {
            return Err(CoreError::ExecExists { id: order.id });
        }
        let exec = Exec::new(*id, &order, Arc::downgrade(&self.inner));
        execs.insert(order.id.clone(), exec.clone());
        drop(execs);
        self.inner.total.fetch_add(1, Ordering::Relaxed);
        let core = self.clone();
        let running = exec.clone();
        tokio::spawn(async move { core.drive(&slot, order, &running).await });
        Ok(exec)
    }

    async fn drive(&self, slot: &Slot, order: ExecOrder, exec: &Exec) {
        let outcome = tokio::select! {
            outcome = self.run(slot, order, exec) => outcome.map_err(CoreError::from),
            () = slot.closed.cancelled() => Err(CoreError::Ended),
        };
        let started = exec.inner.begun;
        let end = match outcome {
            Ok(outcome) => Ok(end_of(&outcome)),
            Err(CoreError::Ended) => Ok(ExecEnd {
                exit_code: None,
                signal: Some(Signal::KILL.number()),
                timed_out: false,
                cancelled: true,
                duration: started.elapsed(),
                usage: None,
                cwd: None,
            }),
            Err(error) => Err(error),
        };
        exec.inner.end.send_replace(Some(end));
        for spool in [&exec.inner.stdout, &exec.inner.stderr] {
            spool.send_modify(|spool| spool.ended = true);
        }
    }

    async fn run(
        &self,
        slot: &Slot,
        order: ExecOrder,
        exec: &Exec,
    ) -> Result<CommandOutcome, ExecError> {
        let quota = self.inner.settings.spool_quota_bytes;
        let sink = |chunk: OutputChunk| exec.keep(&chunk, quota);
        let stdin = match order.stdin {
            ExecStdin::Bytes(bytes) => Stdin::Bytes(bytes),
            ExecStdin::Null | ExecStdin::Open => Stdin::Null,
        };
        let mut base = self.inner.settings.environment.clone();
        base.extend(slot.spec.environment.iter());
        let words = match order.what {
            ExecWhat::Command(text) => {
                let mut shell = slot.shell.lock().await;
                let shell = shell.get_or_insert_with(|| {
                    let mut config = ShellConfig::new(base, &slot.spec.working_dir);
                    config.program = Some(slot.spec.shell.clone());
                    PersistentShell::new(config)
                });
                let mut command = ShellCommand::new(text);
                command.environment = order.environment;
                command.stdin = stdin;
                command.deadline = order.timeout;
                command.grace = self.inner.settings.grace;
                return shell.run(command, &exec.inner.cancel, &sink).await;
            }
            ExecWhat::Fresh(text) => {
                let shell = slot.spec.shell.to_string_lossy().into_owned();
                vec![shell, "-c".to_owned(), text]
            }
            ExecWhat::Argv(words) => words,
        };
        let mut words = words.into_iter();
        let mut spec = CommandSpec::new(words.next().unwrap_or_default(), &slot.spec.working_dir)
            .args(words)
            .environment(with(base, &order.environment))
            .grace(self.inner.settings.grace);
        spec.stdin = stdin;
        spec.deadline = order.timeout;
        halter_exec::run(spec, &exec.inner.cancel, &sink).await
    }

    /// The command of that name, until it is forgotten.
    #[must_use]
    pub fn find(&self, id: &ExecId) -> Option<Exec> {
        lock(&self.inner.execs).get(id).cloned()
    }

    /// All commands that are not forgotten.
    #[must_use]
    pub fn list(&self) -> Vec<ExecInfo> {
        lock(&self.inner.execs).values().map(Exec::info).collect()
    }

    /// Waits until nothing runs, at most this long.
    pub async fn drain(&self, grace: Duration) {
        let running: Vec<Exec> = lock(&self.inner.execs).values().cloned().collect();
        let all = async {
            for exec in running {
                let _ = exec.ended().await;
            }
        };
        let _ = tokio::time::timeout(grace, all).await;
    }

    /// Kills what is left and removes everything this runtime made.
    pub async fn shutdown(self) {
        let ids: Vec<SessionId> = lock(&self.inner.sessions).keys().copied().collect();
        for id in ids {
            let _ = self.close(&id).await;
        }
    }
}

fn with(mut base: Environment, more: &Environment) -> Environment {
    base.extend(more.iter());
    base
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

fn end_of(outcome: &CommandOutcome) -> ExecEnd {
    ExecEnd {
        exit_code: outcome.status.code,
        signal: outcome.status.signal,
        timed_out: outcome.timed_out,
        cancelled: outcome.cancelled,
        duration: outcome.duration,
        usage: outcome.usage.map(|usage| Usage {
            user_time: usage.user_time,
            system_time: usage.system_time,
            max_resident_bytes: usage.max_resident_bytes,
        }),
        cwd: Some(outcome.cwd.clone()),
    }
}

/// One command. Cheap to clone; the command does not notice a handle going.
#[derive(Clone)]
pub struct Exec {
    inner: Arc<ExecInner>,
}

struct ExecInner {
    info: ExecInfo,
    begun: Instant,
    cancel: CancellationToken,
    stdout: watch::Sender<Spool>,
    stderr: watch::Sender<Spool>,
    end: watch::Sender<Option<Result<ExecEnd, CoreError>>>,
    core: std::sync::Weak<Inner>,
}

#[derive(Default)]
struct Spool {
    kept: BytesMut,
    total: u64,
    ended: bool,
}

impl std::fmt::Debug for Exec {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("Exec")
            .field(&self.inner.info.id)
            .finish()
    }
}

impl Exec {
    fn new(session: SessionId, order: &ExecOrder, core: std::sync::Weak<Inner>) -> Self {
        let info = ExecInfo {
            id: order.id.clone(),
            session,
            what: order.what.clone(),
            state: ExecState::Running,
            started: SystemTime::now(),
            pid: None,
            pty: order.pty.is_some(),
            note: order.note.clone(),
        };
        Self {
            inner: Arc::new(ExecInner {
                info,
                begun: Instant::now(),
                cancel: CancellationToken::new(),
                stdout: watch::Sender::default(),
                stderr: watch::Sender::default(),
                end: watch::Sender::new(None),
                core,
            }),
        }
    }

    fn spool(&self, stream: Stream) -> &watch::Sender<Spool> {
        match stream {
            Stream::Stdout => &self.inner.stdout,
            Stream::Stderr => &self.inner.stderr,
        }
    }

    fn keep(&self, chunk: &OutputChunk, quota: u64) {
        let stream = match chunk.stream {
            OutputStream::Stdout => Stream::Stdout,
            OutputStream::Stderr => Stream::Stderr,
        };
        self.spool(stream).send_modify(|spool| {
            let room = usize::try_from(quota).unwrap_or(usize::MAX) - spool.kept.len();
            spool.total += chunk.bytes.len() as u64;
            spool
                .kept
                .extend_from_slice(chunk.bytes.get(..room).unwrap_or(&chunk.bytes));
        });
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &ExecId {
        &self.inner.info.id
    }

    /// What is known about it.
    #[must_use]
    pub fn info(&self) -> ExecInfo {
        let mut info = self.inner.info.clone();
        if self.inner.end.borrow().is_some() {
            info.state = ExecState::Ended;
        }
        info
    }

    /// How it ended, once it has; at once if it has already.
    ///
    /// # Errors
    /// If it could not be started.
    pub async fn ended(&self) -> Result<ExecEnd, CoreError> {
        let mut receiver = self.inner.end.subscribe();
        let found = receiver.wait_for(Option::is_some).await;
        match found.as_deref() {
            Ok(Some(end)) => end.clone(),
            _ => Err(CoreError::Ended),
        }
    }

    /// Reads a stream from an offset on.
    #[must_use]
    pub fn reader(&self, stream: Stream, offset: u64) -> SpoolReader {
        SpoolReader {
            receiver: self.spool(stream).subscribe(),
            offset,
        }
    }

    /// Gives it input. `offset` is the number of the first byte of `data`:
    /// bytes accepted before are not given twice. Returns the number of the
    /// next byte.
    ///
    /// # Errors
    /// If its input is closed, or the offset leaves a gap.
    #[allow(clippy::unused_async)]
    pub async fn write(
        &self,
        _offset: Option<u64>,
        _data: Bytes,
        _eof: bool,
    ) -> Result<u64, CoreError> {
        Err(CoreError::StdinClosed)
    }

    /// Gives its terminal another size.
    ///
    /// # Errors
    /// If it has no terminal or has ended.
    pub fn resize(&self, _size: TerminalSize) -> Result<(), CoreError> {
        Err(CoreError::NoTerminal)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&self, _signal: Signal, _scope: Scope) -> Result<(), CoreError> {
        self.inner.cancel.cancel();
        Ok(())
    }

    /// Ends it: this signal (INT without one), then TERM, then KILL to
    /// everything it started. The session's shell stays. Returns when it has
    /// ended.
    pub async fn cancel(&self, _signal: Option<Signal>) {
        self.inner.cancel.cancel();
        let _ = self.ended().await;
    }

    /// Its result has been acknowledged: nobody will read it any more. A
    /// command that still runs is forgotten when it has ended.
    pub fn forget(&self) {
        if let Some(core) = self.inner.core.upgrade() {
            lock(&core.execs).remove(self.id());
        }
    }
}

/// Reads one stream of one command.
#[derive(Debug)]
pub struct SpoolReader {
    receiver: watch::Receiver<Spool>,
    offset: u64,
}

impl std::fmt::Debug for Spool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Spool({} of {} bytes)",
            self.kept.len(),
            self.total
        )
    }
}

impl SpoolReader {
    /// Where the next byte stands.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next piece, of at most `max` bytes; waits for it.
    ///
    /// # Errors
    /// If the spool cannot be read.
    pub async fn next(&mut self, max: usize) -> Result<Chunk, CoreError> {
        let offset = self.offset;
        let ready = |spool: &Spool| spool.ended || spool.total > offset;
        if self.receiver.wait_for(ready).await.is_err() {
            return Ok(Chunk::End { offset });
        }
        Ok(self.now(max))
    }

    /// The next piece if there is one already.
    ///
    /// # Errors
    /// If the spool cannot be read.
    pub fn try_next(&mut self, max: usize) -> Result<Option<Chunk>, CoreError> {
        let spool = self.receiver.borrow();
        let nothing = !spool.ended && spool.total <= self.offset;
        drop(spool);
        Ok((!nothing).then(|| self.now(max)))
    }

    fn now(&mut self, max: usize) -> Chunk {
        let spool = self.receiver.borrow();
        let from = self.offset;
        if from >= spool.total {
            return Chunk::End {
                offset: spool.total,
            };
        }
        let start = usize::try_from(from).unwrap_or(usize::MAX);
        let Some(kept) = spool.kept.get(start..).filter(|kept| !kept.is_empty()) else {
            self.offset = spool.total;
            return Chunk::Gap {
                from,
                to: spool.total,
            };
        };
        let bytes = Bytes::copy_from_slice(kept.get(..max).unwrap_or(kept));
        self.offset += bytes.len() as u64;
        Chunk::Data {
            offset: from,
            bytes,
        }
    }
}
