//! Starting a command: its streams, its plan, its record, and the one message
//! that makes it so.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use halter_exec::Terminal;
use halter_exec::host::{CommandStreams, CommandText, InputSpool, InputTarget, ShellDriver, Spool};
use tokio::sync::SetOnce;

use crate::exec::command::flow::{Flow, Flows};
use crate::exec::command::run::holder_lost;
use crate::exec::command::{Exec, ExecInner, Orders, terminal_size};
use crate::exec::core::{Core, CoreInner};
use crate::exec::error::CoreError;
use crate::exec::record::{ExecRecord, Place, Record};
use crate::exec::session::Session;
use crate::exec::shell::HolderHost;
use crate::exec::types::{ExecOrder, ExecStdin, TerminalSize};
use crate::holder::{
    GivenUnit, HolderLink, HolderRequest, Key, NewCommand, NewProcess, Role, Source, UnitKind,
};
use crate::session::SessionId;

/// The streams of a command, as the holder keeps them and as we do.
pub(in crate::exec) struct Streams {
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
}

fn internal(action: &'static str) -> impl Fn(io::Error) -> CoreError {
    move |error| CoreError::Internal {
        message: format!("{action} failed: {error}"),
    }
}

fn missing() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

fn part(unit: usize, part: u8) -> Source {
    let unit = u8::try_from(unit).unwrap_or(u8::MAX);
    Source::Part { unit, part }
}

/// The file a stream overflows to. Keys are the session's own.
pub(in crate::exec) fn spool_path(
    spool_dir: &Path,
    session: SessionId,
    key: Key,
    stream: &str,
) -> PathBuf {
    spool_dir.join(format!("{session}.{key}.{stream}"))
}

impl CoreInner {
    async fn output(
        &self,
        session: &Session,
        key: Key,
        stream: &str,
    ) -> io::Result<(GivenUnit, OwnedFd, Spool)> {
        let mut unit = session.link.unit(UnitKind::Output).await?;
        let pipe = unit.take(0).ok_or_else(missing)?;
        let head = unit.take(2).ok_or_else(missing)?;
        let path = spool_path(&self.spool_dir, session.id, key, stream);
        let spool = Spool::begin(File::from(head), path, self.settings.spool_quota_bytes);
        Ok((unit, pipe, spool))
    }

    /// Pipes for a command.
    async fn pipes(&self, session: &Session, key: Key, stdin: &ExecStdin) -> io::Result<Streams> {
        let link = &session.link;
        let owner = link.descriptor_owner();
        let (out, out_pipe, stdout) = self.output(session, key, "out").await?;
        let (err, err_pipe, stderr) = self.output(session, key, "err").await?;
        let mut streams = Streams {
            units: vec![out.unit.id, err.unit.id],
            slots: [Source::Null, part(0, 1), part(1, 1)],
            paths: ["/dev/null".into(), out.path(owner, 1), err.path(owner, 1)],
            flows: Flows {
                stdout: Flow::of_pipe(out_pipe, stdout.clone()),
                stderr: Some(Flow::of_pipe(err_pipe, stderr.clone())),
            },
            stdout,
            stderr: Some(stderr),
            input: None,
            terminal: None,
        };
        add_input(link, &mut streams, stdin).await?;
        Ok(streams)
    }

    /// A terminal for a command.
    async fn terminal(
        &self,
        session: &Session,
        key: Key,
        size: TerminalSize,
    ) -> io::Result<Streams> {
        let link = &session.link;
        let (out, pipe, stdout) = self.output(session, key, "out").await?;
        let mut log = link.unit(UnitKind::File).await?;
        let (terminal, slave) = Terminal::open(terminal_size(size))?;
        let parts = [terminal.as_fd(), slave.as_fd()];
        let given = link.give(UnitKind::Terminal, &parts);
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
        })
    }

    async fn streams(
        &self,
        session: &Session,
        key: Key,
        order: &ExecOrder,
    ) -> Result<Streams, CoreError> {
        let made = match order.pty {
            Some(size) => self.terminal(session, key, size).await,
            None => self.pipes(session, key, &order.stdin).await,
        };
        made.map_err(internal("making the command's streams"))
    }
}

/// Gives a command with outputs its input.
async fn add_input(link: &HolderLink, streams: &mut Streams, stdin: &ExecStdin) -> io::Result<()> {
    let owner = link.descriptor_owner();
    let [source, _, _] = &mut streams.slots;
    let [path, _, _] = &mut streams.paths;
    match stdin {
        ExecStdin::Null => {}
        ExecStdin::Bytes(bytes) => {
            let mut file = link.unit(UnitKind::File).await?;
            let content = File::from(file.take(0).ok_or_else(missing)?);
            content.write_all_at(bytes, 0)?;
            *source = part(streams.units.len(), 0);
            *path = file.path(owner, 0);
            streams.units.push(file.unit.id);
        }
        ExecStdin::Open => {
            let mut log = link.unit(UnitKind::File).await?;
            let mut pipe = link.unit(UnitKind::Input).await?;
            let ours = pipe.take(0).ok_or_else(missing)?;
            let file = log.take(0).ok_or_else(missing)?;
            let target = InputTarget::Pipe(ours);
            streams.input = Some(InputSpool::new(file.into(), target)?);
            *source = part(streams.units.len() + 1, 1);
            *path = pipe.path(owner, 1);
            streams.units.extend([log.unit.id, pipe.unit.id]);
        }
    }
    Ok(())
}

impl Core {
    /// Starts a command that is a process of its own.
    pub(in crate::exec) async fn start_process(
        &self,
        session: &Arc<Session>,
        order: ExecOrder,
    ) -> Result<Exec, CoreError> {
        let core = &self.inner;
        session.cover(&core.settings, &order.protect).await?;
        let key = session.link.new_key();
        let mut plan = core.plan(session, &order)?;
        let streams = core.streams(session, key, &order).await?;
        let placed = session.place(&core.settings, &mut plan, order.pty.is_some());
        let tree = placed.inspect_err(|_| drop_units(session, &streams.units))?;
        let record = new_record(&order, Place::Process(tree.clone()));
        let end = session.link.exit_of(key);
        session.link.send(&[
            session.count_request(),
            HolderRequest::Spawn(Box::new(NewProcess {
                key,
                record: Record::Exec(Box::new(record.clone())).encode(),
                units: streams.units.clone(),
                role: Role::Command,
                slots: streams.slots.to_vec(),
                plan,
            })),
        ]);
        let (exec, flows) = self.new_exec(session, key, record, streams);
        core.register(&exec);
        tokio::spawn(exec.clone().run_process(flows, end, tree));
        Ok(exec)
    }

    /// Gives a command to the session's shell.
    pub(in crate::exec) async fn start_in_shell(
        &self,
        session: &Arc<Session>,
        mut order: ExecOrder,
        text: &str,
    ) -> Result<Exec, CoreError> {
        let core = &self.inner;
        let mut shell = Arc::clone(&session.shell).lock_owned().await;
        if session.closed.is_cancelled() {
            return Err(CoreError::SessionUnknown { id: session.id });
        }
        let driver = shell.get_or_insert_with(|| {
            let key = session.link.new_key();
            let host = core.shell_host(session, key);
            ShellDriver::new(host, session.shell_config(&core.settings))
        });
        let covered = session.cover(&core.settings, &order.protect).await?;
        let here = driver.cwd();
        if order.cwd.is_none() && covered.iter().any(|place| here.starts_with(place)) {
            // It is within what was there before.
            order.cwd = Some(here.to_owned());
        }
        let key = session.link.new_key();
        let streams = match &session.shared {
            None => core.streams(session, key, &order).await?,
            Some(shared) => shared
                .make()
                .and_then(|_| core.named_streams(session, key, &order.stdin, shared))
                .map_err(internal("making the command's streams"))?,
        };
        let updates = Arc::clone(driver.host().updates());
        let record = new_record(&order, Place::Shell(updates.key()));
        updates.announce(NewCommand {
            key,
            record: Record::Exec(Box::new(record.clone())).encode(),
            units: streams.units.clone(),
        });
        let [stdin, stdout, stderr] = &streams.paths;
        let command = CommandText {
            text,
            cwd: order.cwd.as_deref(),
            environment: &order.environment,
        };
        let paths = CommandStreams {
            stdin,
            stdout,
            stderr,
        };
        if let Err(error) = driver.start(&command, &paths).await {
            updates.retract();
            session.link.send(&[HolderRequest::Remove { key }]);
            drop_units(session, &streams.units);
            return Err(match session.link.is_lost() {
                true => holder_lost(),
                false => error.into(),
            });
        }
        let (exec, flows) = self.new_exec(session, key, record, streams);
        core.register(&exec);
        tokio::spawn(exec.clone().run_in_shell(flows, shell));
        Ok(exec)
    }

    /// The handle of a command that has been started.
    pub(in crate::exec) fn new_exec(
        &self,
        session: &Arc<Session>,
        key: Key,
        record: ExecRecord,
        streams: Streams,
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
            has_terminal: streams.terminal.is_some(),
            terminal: Mutex::new(streams.terminal),
            pid: AtomicI32::new(0),
            orders: Orders::default(),
            end: SetOnce::new(),
            forgotten: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            flowing: AtomicBool::new(true),
        };
        let exec = Exec {
            inner: Arc::new(inner),
        };
        if let Some(input) = crate::exec::lock(&exec.inner.input).clone() {
            tokio::spawn(exec.clone().feed(input));
        }
        (exec, streams.flows)
    }
}

impl CoreInner {
    /// Where the shell of a session runs.
    pub(in crate::exec) fn shell_host(&self, session: &Arc<Session>, key: Key) -> HolderHost {
        let settings = Arc::clone(&self.settings);
        HolderHost::new(settings, Arc::clone(session), key)
    }
}

/// Has the holder drop the units of a command that is not started.
fn drop_units(session: &Session, units: &[u64]) {
    let units = units.to_vec();
    session.link.send_later(HolderRequest::DropUnits { units });
}

fn new_record(order: &ExecOrder, place: Place) -> ExecRecord {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or(Duration::ZERO).as_millis();
    ExecRecord {
        id: order.id.clone(),
        what: order.what.clone(),
        cwd: order.cwd.clone(),
        note: order.note.clone(),
        started_ms: u64::try_from(now).unwrap_or(u64::MAX),
        started_us: crate::clock::now_us(),
        timeout: order.timeout,
        place,
        stop: None,
        input_ended: false,
        forgotten: false,
        end: None,
        closed: None,
    }
}
