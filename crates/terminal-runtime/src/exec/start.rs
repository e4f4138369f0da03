//! Starting a command: its streams, its plan, its record, and the one message
//! that makes it so.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use halter_exec::{
    CommandStreams, CommandText, InputSpool, InputTarget, ShellDriver, Spool, Terminal,
};
use tokio::sync::{Notify, SetOnce};

use super::core::{Core, CoreInner};
use super::drive::Drive;
use super::error::CoreError;
use super::handle::{Exec, ExecInner, Wishes, terminal_size};
use super::order::{ExecOrder, ExecStdin, TerminalSize};
use super::output::{Flow, Flows};
use super::record::{ExecRecord, Place};
use super::session::Session;
use super::sets::{Loan, StreamSet};
use super::shell::HolderHost;
use crate::holder::{Birth, GivenUnit, Key, Request, Role, Source, Start, UnitKind};

/// The streams of a command, as the holder keeps them and as we do.
pub(super) struct Streams {
    pub units: Vec<u64>,
    /// Where its descriptors 0, 1 and 2 come from.
    pub slots: [Source; 3],
    /// Where a shell opens them.
    pub paths: [PathBuf; 3],
    pub stdout: Spool,
    pub stderr: Option<Spool>,
    pub flows: Flows,
    pub input: Option<InputSpool>,
    pub terminal: Option<Terminal>,
    /// Where they are from, if they are used again.
    pub loan: Option<Loan>,
}

impl Streams {
    /// The outputs of one command, from pipes and empty memory files that
    /// another had before it. Nobody has them open to write yet.
    pub(super) fn used(
        core: &CoreInner,
        key: Key,
        [out, err]: [OwnedFd; 2],
        [out_memory, err_memory]: [File; 2],
    ) -> Self {
        let spool = |memory: File, stream: &str| {
            let path = spool_path(&core.spool_dir, key, stream);
            Spool::begin(memory, path, core.settings.spool_quota_bytes)
        };
        let (stdout, stderr) = (spool(out_memory, "out"), spool(err_memory, "err"));
        Self {
            units: Vec::new(),
            slots: [Source::Null; 3],
            paths: Default::default(),
            flows: Flows {
                stdout: Flow::lent(out, stdout.clone()),
                stderr: Some(Flow::lent(err, stderr.clone())),
            },
            stdout,
            stderr: Some(stderr),
            input: None,
            terminal: None,
            loan: None,
        }
    }
}

pub(super) fn internal(action: &'static str) -> impl Fn(io::Error) -> CoreError {
    move |error| CoreError::Internal {
        message: format!("{action} failed: {error}"),
    }
}

fn missing() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

pub(super) fn part(unit: usize, part: u8) -> Source {
    let unit = u8::try_from(unit).unwrap_or(u8::MAX);
    Source::Part { unit, part }
}

/// The file a stream overflows to.
pub(super) fn spool_path(spool_dir: &Path, key: Key, stream: &str) -> PathBuf {
    let directory = spool_dir.as_os_str();
    // One for every stream of every command: made in one piece.
    let mut path = OsString::with_capacity(directory.len() + stream.len() + 22);
    path.push(directory);
    // Writing to memory does not fail.
    let _ = write!(path, "/{key}.{stream}");
    path.into()
}

impl CoreInner {
    async fn output(&self, key: Key, stream: &str) -> io::Result<(GivenUnit, OwnedFd, Spool)> {
        let mut unit = self.link.unit(UnitKind::Output).await?;
        let pipe = unit.take(0).ok_or_else(missing)?;
        let head = unit.take(2).ok_or_else(missing)?;
        let path = spool_path(&self.spool_dir, key, stream);
        let spool = Spool::begin(File::from(head), path, self.settings.spool_quota_bytes);
        Ok((unit, pipe, spool))
    }

    /// Pipes for a command.
    async fn pipes(&self, key: Key, stdin: &ExecStdin) -> io::Result<Streams> {
        let holder = self.link.holder();
        let (out, out_pipe, stdout) = self.output(key, "out").await?;
        let (err, err_pipe, stderr) = self.output(key, "err").await?;
        let mut streams = Streams {
            units: vec![out.unit.id, err.unit.id],
            slots: [Source::Null, part(0, 1), part(1, 1)],
            paths: ["/dev/null".into(), out.path(holder, 1), err.path(holder, 1)],
            flows: Flows {
                stdout: Flow::of_pipe(out_pipe, stdout.clone()),
                stderr: Some(Flow::of_pipe(err_pipe, stderr.clone())),
            },
            stdout,
            stderr: Some(stderr),
            input: None,
            terminal: None,
            loan: None,
        };
        self.add_input(&mut streams, stdin).await?;
        Ok(streams)
    }

    /// Gives a command with outputs its input.
    pub(super) async fn add_input(
        &self,
        streams: &mut Streams,
        stdin: &ExecStdin,
    ) -> io::Result<()> {
        let holder = self.link.holder();
        let [source, _, _] = &mut streams.slots;
        let [path, _, _] = &mut streams.paths;
        match stdin {
            ExecStdin::Null => {}
            ExecStdin::Bytes(bytes) => {
                let mut file = self.link.unit(UnitKind::File).await?;
                let content = File::from(file.take(0).ok_or_else(missing)?);
                content.write_all_at(bytes, 0)?;
                *source = part(streams.units.len(), 0);
                *path = file.path(holder, 0);
                streams.units.push(file.unit.id);
            }
            ExecStdin::Open => {
                let mut log = self.link.unit(UnitKind::File).await?;
                let mut pipe = self.link.unit(UnitKind::Input).await?;
                let ours = pipe.take(0).ok_or_else(missing)?;
                let file = log.take(0).ok_or_else(missing)?;
                let target = InputTarget::Pipe(ours);
                streams.input = Some(InputSpool::new(file.into(), target)?);
                *source = part(streams.units.len() + 1, 1);
                *path = pipe.path(holder, 1);
                streams.units.extend([log.unit.id, pipe.unit.id]);
            }
        }
        Ok(())
    }

    /// A terminal for a command.
    async fn terminal(&self, key: Key, size: TerminalSize) -> io::Result<Streams> {
        let (out, pipe, stdout) = self.output(key, "out").await?;
        let mut log = self.link.unit(UnitKind::File).await?;
        let (terminal, slave) = Terminal::open(terminal_size(size))?;
        let parts = [terminal.as_fd(), slave.as_fd()];
        let given = self.link.give(UnitKind::Terminal, &parts);
        let memory = log.take(0).ok_or_else(missing)?;
        let target = InputTarget::Terminal(terminal.try_clone()?);
        let slave = part(2, 1);
        Ok(Streams {
            units: vec![out.unit.id, log.unit.id, given],
            slots: [slave, slave, slave],
            paths: Default::default(),
            flows: Flows {
                stdout: Flow::of_terminal(&terminal, pipe, stdout.clone())?,
                stderr: None,
            },
            stdout,
            stderr: None,
            input: Some(InputSpool::new(memory.into(), target)?),
            terminal: Some(terminal),
            loan: None,
        })
    }

    pub(super) async fn streams(&self, key: Key, order: &ExecOrder) -> Result<Streams, CoreError> {
        let made = match order.pty {
            Some(size) => self.terminal(key, size).await,
            None => self.pipes(key, &order.stdin).await,
        };
        made.map_err(internal("making the command's streams"))
    }
}

impl Core {
    /// Starts a command that is a process of its own.
    pub(super) async fn start_process(
        &self,
        session: &Arc<Session>,
        order: ExecOrder,
    ) -> Result<(Exec, Drive), CoreError> {
        let core = &self.inner;
        let key = core.link.new_key();
        let planned = core.planned(session, &order)?;
        let streams = core.process_streams(session.id, key, &order).await?;
        let reuse = core.reuse_of(&order, &streams);
        let planted = core.planted(session, &order, planned);
        let (plan, grip) = planted.inspect_err(|_| core.drop_units(&streams.units))?;
        let record = new_record(session, &order, Place::Process(grip.clone()));
        let end = core.link.end_of(key);
        core.link.send(&[
            session.count_request(),
            Request::Spawn(Birth {
                key,
                record: record.encode(),
                units: streams.units.clone(),
                role: Role::Command,
                slots: streams.slots.to_vec(),
                plan,
            }),
        ]);
        let (exec, flows) = self.new_exec(session, key, record, streams, order.kept);
        *super::lock(&exec.inner.reuse) = reuse;
        core.introduce(&exec);
        let drive = exec.clone().drive_process(flows, end, grip);
        Ok((exec, Box::pin(drive)))
    }

    /// Gives a command to the session's shell.
    pub(super) async fn start_in_shell(
        &self,
        session: &Arc<Session>,
        order: ExecOrder,
        text: &str,
    ) -> Result<(Exec, Drive), CoreError> {
        let core = &self.inner;
        let mut seat = Arc::clone(&session.shell).lock_owned().await;
        if session.closed.is_cancelled() {
            return Err(CoreError::SessionUnknown { id: session.id });
        }
        let driver = seat.get_or_insert_with(|| {
            let key = core.link.new_key();
            let host = core.shell_host(session, key);
            ShellDriver::new(host, session.shell_config(&core.settings))
        });
        let key = core.link.new_key();
        let set = match order.stdin {
            ExecStdin::Null => core.warm_set(driver).await,
            _ => None,
        };
        let direct = set.is_some();
        let units = set.as_ref().map(StreamSet::units);
        let mut streams = match (set, &session.shared) {
            (Some(set), _) => set.lend(core, driver.host().ledger(), key),
            (None, None) => Box::pin(core.streams(key, &order)).await?,
            (None, Some(shared)) => shared
                .make()
                .and_then(|()| core.named_streams(key, &order.stdin, shared))
                .map_err(internal("making the command's streams"))?,
        };
        let record = new_record(session, &order, Place::Shell(driver.host().key()));
        let start = Start {
            key,
            record: record.encode(),
            units: units.unwrap_or_else(|| streams.units.clone()),
        };
        driver.host().ledger().announce(start, direct);
        let [stdin, stdout, stderr] = &streams.paths;
        let command = CommandText {
            text,
            cwd: None,
            environment: &order.environment,
        };
        let paths = CommandStreams {
            stdin,
            stdout,
            stderr,
        };
        if let Err(error) = driver.start(&command, &paths).await {
            driver.host().ledger().retract(key);
            if direct {
                let set = streams.take_back();
                driver.host_mut().keep_set(set);
            } else {
                let units = streams.units;
                core.link
                    .send(&[Request::Forget { key }, Request::Drop { units }]);
            }
            return Err(error.into());
        }
        let lent = direct && driver.host().ledger().notes(key);
        if !lent {
            streams.loan = None;
        }
        let (exec, flows) = self.new_exec(session, key, record, streams, order.kept);
        if lent {
            driver.host_mut().lend_to(&exec);
        }
        core.introduce(&exec);
        let drive = exec.clone().drive_shell(flows, seat);
        Ok((exec, Box::pin(drive)))
    }

    /// The handle of a command that has been started.
    pub(super) fn new_exec(
        &self,
        session: &Arc<Session>,
        key: Key,
        record: ExecRecord,
        streams: Streams,
        kept: bool,
    ) -> (Exec, Flows) {
        let inner = ExecInner {
            core: Arc::downgrade(&self.inner),
            session: Arc::clone(session),
            key,
            id: record.id.clone(),
            record: Mutex::new(record),
            stdout: streams.stdout,
            stderr: streams.stderr,
            input: Mutex::new(streams.input.map(Arc::new)),
            terminal: streams.terminal,
            pid: AtomicI32::new(0),
            wishes: Wishes::default(),
            end: SetOnce::new(),
            forgotten: AtomicBool::new(false),
            read: Notify::new(),
            flowing: AtomicBool::new(true),
            removed: AtomicBool::new(false),
            kept,
            loan: Mutex::new(streams.loan),
            reuse: Mutex::default(),
        };
        let exec = Exec {
            inner: Arc::new(inner),
        };
        if let Some(input) = super::lock(&exec.inner.input).clone() {
            tokio::spawn(exec.clone().feed(input));
        }
        (exec, streams.flows)
    }
}

impl CoreInner {
    /// The streams of the session's shell, for the next command: if the shell
    /// is warm, and everything that was said to it has reached it.
    async fn warm_set(&self, driver: &mut ShellDriver<HolderHost>) -> Option<StreamSet> {
        let process = driver.process()?.key();
        let ledger = Arc::clone(driver.host().ledger());
        if !ledger.has_journal() {
            return None;
        }
        let set = match driver.host_mut().take_set() {
            Some(set) => set,
            None => {
                let made = StreamSet::make(&self.link, ledger.key());
                Box::pin(made).await.ok()?
            }
        };
        // What was to be told before must not be lost if we end after the
        // journal has been written; what was said must not be overtaken.
        if !ledger.is_direct() || !self.link.is_flushed() {
            Box::pin(self.link.pid_of(process)).await;
        }
        Some(set)
    }

    /// Where the shell of a session runs.
    pub(super) fn shell_host(&self, session: &Arc<Session>, key: Key) -> HolderHost {
        let settings = Arc::clone(&self.settings);
        HolderHost::new(self.link.clone(), settings, Arc::clone(session), key)
    }
}

fn new_record(session: &Session, order: &ExecOrder, place: Place) -> ExecRecord {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or(Duration::ZERO).as_millis();
    ExecRecord {
        id: order.id.clone(),
        session: session.id,
        what: order.what.clone(),
        note: order.note.clone(),
        started_ms: u64::try_from(now).unwrap_or(u64::MAX),
        started_us: crate::clock::now_us(),
        timeout: order.timeout,
        place,
        stop: None,
        input_ended: false,
        forgotten: false,
        end: None,
    }
}
