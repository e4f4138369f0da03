//! Background commands as children of this process.

use super::LocalSession;
use super::side::CommandNetwork;
use crate::exec::{
    BackgroundCommand, BackgroundEnd, BackgroundProgress, Environment, KeptOutput, NamedSandbox,
    OutputPiece, RunningCommand, StartedCommand, TerminalSize,
};
use crate::network::ProxyRefusals;
use anyhow::{Context as _, anyhow, bail};
use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::{Fuse, FusedFuture as _};
use halter_exec::host::InputSpool;
use halter_exec::limits::DEFAULT_GRACE;
use halter_exec::{
    Command, ExecError, OutputPipe, Process, ProcessStreams, Signal, Stdin, find_program,
};
use halter_policy::HostRefusal;
use std::ffi::OsStr;
use std::future::Future;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// How long output is still awaited once everything a command started is gone:
/// what could hold a stream open then is beyond our reach.
const LAST_OUTPUT_TIME: Duration = Duration::from_secs(5);

/// Requests to one command that may wait.
const WAITING_REQUESTS: usize = 8;

/// The background commands of a session that still run.
#[derive(Debug, Default)]
pub(super) struct BackgroundCommands(Mutex<Vec<Weak<CommandState>>>);

impl BackgroundCommands {
    fn add(&self, state: &Arc<CommandState>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(state));
    }

    fn running(&self) -> Vec<Arc<CommandState>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().filter_map(Weak::upgrade);
        known.filter(|state| !state.has_ended()).collect()
    }

    pub(super) fn pids(&self) -> Vec<i32> {
        self.running().iter().map(|state| state.pid).collect()
    }

    /// Waits until all have ended, after they were told to.
    pub(super) async fn ended(&self) {
        for state in self.running() {
            state.wait(|progress| progress.end.is_some()).await;
        }
    }
}

/// What is known of one command, by whoever looks at it and by the task that
/// runs it.
#[derive(Debug)]
struct CommandState {
    pid: i32,
    output: Mutex<KeptOutput>,
    /// Gone once the input has ended.
    input: Mutex<Option<Arc<InputSpool>>>,
    progress: watch::Sender<BackgroundProgress>,
    refusals: ProxyRefusals,
    /// There before the end is.
    refusal_note: OnceLock<String>,
}

impl CommandState {
    fn has_ended(&self) -> bool {
        self.progress.borrow().end.is_some()
    }

    async fn wait(&self, fits: impl Fn(&BackgroundProgress) -> bool) -> BackgroundProgress {
        let mut progress = self.progress.subscribe();
        // The sender is ours, so the channel cannot be closed.
        match progress.wait_for(|progress| fits(progress)).await {
            Ok(found) => *found,
            Err(_) => BackgroundProgress::default(),
        }
    }

    fn take_output(&self, bytes: &[u8]) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.push(bytes);
        let printed = output.total();
        drop(output);
        self.progress.send_modify(|it| it.printed = printed);
    }

    fn text(&self) -> String {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.text()
    }

    fn take_input(&self) -> Option<Arc<InputSpool>> {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        input.take()
    }

    fn open_input(&self) -> Option<Arc<InputSpool>> {
        let input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        input.clone()
    }
}

impl LocalSession {
    pub(super) async fn start_command(
        &self,
        command: BackgroundCommand,
    ) -> anyhow::Result<StartedCommand> {
        self.make_scratch().await?;
        let mut shell = self.shell.lock().await;
        let Some(session) = shell.as_mut() else {
            bail!(crate::ToolSessionClosed);
        };
        let cwd = command.cwd.clone();
        let around = session.surroundings(&command.place, cwd, &self.scratch);
        let around = around.await?;
        let spec = planned(&command, around.environment, around.directory)?;
        let (process, streams) = match around.sandbox {
            Some(sandbox) => Process::spawn_in(&spec, sandbox)?,
            None => Process::spawn(&spec)?,
        };
        drop(around.pinned);
        let running = self.watch(process, streams, &command, around.network, around.named)?;
        Ok(StartedCommand {
            command: Arc::new(running),
            sandbox_note: around.note,
        })
    }

    /// Hands a process to a task of its own.
    fn watch(
        &self,
        process: Process,
        streams: ProcessStreams,
        command: &BackgroundCommand,
        network: CommandNetwork,
        sandbox: Option<NamedSandbox>,
    ) -> anyhow::Result<LocalCommand> {
        let input = streams.stdin.context("a command without input")?;
        let state = Arc::new(CommandState {
            pid: process.pid(),
            output: Mutex::new(KeptOutput::new(command.kept_bytes)),
            input: Mutex::new(Some(Arc::new(input))),
            progress: watch::Sender::default(),
            refusals: network.refusals.clone(),
            refusal_note: OnceLock::new(),
        });
        self.background.add(&state);
        let (requests, inbox) = mpsc::channel(WAITING_REQUESTS);
        let stop = self.closing.child_token();
        let supervisor = Supervisor {
            state: Arc::clone(&state),
            inbox,
            stop: stop.clone(),
            deadline: command.deadline,
            sandbox,
            _network: network,
        };
        tokio::spawn(supervisor.run(process, streams.stdout));
        Ok(LocalCommand {
            state,
            requests,
            stop,
        })
    }
}

/// The command for a shell that reads no files when it starts: the language
/// that the policy has judged.
fn planned(
    command: &BackgroundCommand,
    mut environment: Environment,
    directory: PathBuf,
) -> Result<Command, ExecError> {
    environment.extend(command.environment.iter());
    let find = |name: &str| find_program(OsStr::new(name), &environment, &directory);
    let (shell, options): (_, &[&str]) = match find("bash") {
        Ok(bash) => (bash, &["--noprofile", "--norc", "-c"]),
        Err(_) => (find("sh")?, &["-c"]),
    };
    let mut spec = Command::new(shell, directory)
        .args(options.iter().copied())
        .args([command.text.as_str()])
        .environment(environment)
        .joined_output();
    spec.stdin = Stdin::Streamed;
    spec.terminal = command.terminal;
    Ok(spec)
}

/// A background command. Dropping it ends it.
struct LocalCommand {
    state: Arc<CommandState>,
    requests: mpsc::Sender<Request>,
    stop: CancellationToken,
}

impl Drop for LocalCommand {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What only the owner of the process can do.
enum Request {
    Signal(Signal),
    Resize(TerminalSize, oneshot::Sender<Result<(), ExecError>>),
}

#[async_trait]
impl RunningCommand for LocalCommand {
    fn pid(&self) -> Option<i32> {
        (!self.state.has_ended()).then_some(self.state.pid)
    }

    fn progress(&self) -> BackgroundProgress {
        *self.state.progress.borrow()
    }

    fn refusal_note(&self) -> Option<String> {
        self.state.refusal_note.get().cloned()
    }

    fn refused_hosts(&self) -> Vec<HostRefusal> {
        self.state.refusals.all()
    }

    async fn printed_more_than(&self, bytes: u64) -> BackgroundProgress {
        let more = |it: &BackgroundProgress| it.printed > bytes || it.end.is_some();
        self.state.wait(more).await
    }

    async fn read(&self, offset: u64, most: usize) -> anyhow::Result<OutputPiece> {
        let output = self.state.output.lock();
        let output = output.unwrap_or_else(PoisonError::into_inner);
        Ok(output.piece(offset, most))
    }

    async fn write(&self, input: &[u8]) -> anyhow::Result<()> {
        let Some(open) = self.state.open_input() else {
            bail!(no_more_input());
        };
        open.accept(None, input)?;
        Ok(())
    }

    async fn end_input(&self) {
        if let Some(open) = self.state.take_input() {
            open.end();
        }
    }

    async fn resize(&self, size: TerminalSize) -> anyhow::Result<()> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Resize(size, reply);
        self.requests.send(request).await.map_err(|_| has_ended())?;
        Ok(answer.await.map_err(|_| has_ended())??)
    }

    async fn signal(&self, signal: i32) -> anyhow::Result<()> {
        let request = Request::Signal(Signal::new(signal)?);
        self.requests.send(request).await.map_err(|_| has_ended())
    }

    async fn stop(&self) {
        self.stop.cancel();
        self.state.wait(|progress| progress.end.is_some()).await;
    }
}

fn has_ended() -> anyhow::Error {
    anyhow!("the command has ended")
}

fn no_more_input() -> anyhow::Error {
    anyhow!("the command's input has ended: it takes no more")
}

/// Runs one command to its end.
struct Supervisor {
    state: Arc<CommandState>,
    inbox: mpsc::Receiver<Request>,
    stop: CancellationToken,
    deadline: Option<Duration>,
    sandbox: Option<NamedSandbox>,
    _network: CommandNetwork,
}

impl Supervisor {
    async fn run(mut self, mut process: Process, stdout: OutputPipe) {
        let mut streams = pin!(streams(Arc::clone(&self.state), stdout).fuse());
        let timed_out = beside(streams.as_mut(), self.until_over(&process)).await;
        let waited = beside(streams.as_mut(), process.wait()).await;
        if !streams.is_terminated()
            && tokio::time::timeout(LAST_OUTPUT_TIME, streams)
                .await
                .is_err()
        {
            tracing::debug!(
                pid = self.state.pid,
                "output of an ended command stays open"
            );
        }
        drop(self.state.take_input());
        let end = BackgroundEnd {
            status: waited.ok().map(|(status, _)| status),
            timed_out,
        };
        if let (Some(sandbox), Some(status)) = (self.sandbox, end.status)
            && let Some(note) = sandbox.refusal_note(status, &[&self.state.text()])
        {
            let _ = self.state.refusal_note.set(note);
        }
        self.state.progress.send_modify(|it| it.end = Some(end));
    }

    /// Returns when the process has ended, by itself or because it had to; and
    /// whether that was for its deadline.
    async fn until_over(&mut self, process: &Process) -> bool {
        let deadline = self.deadline;
        let mut late = pin!(async move {
            match deadline {
                Some(deadline) => tokio::time::sleep(deadline).await,
                None => std::future::pending().await,
            }
        });
        let mut inbox_open = true;
        let timed_out = loop {
            tokio::select! {
                biased;
                () = process.exited() => return false,
                () = self.stop.cancelled() => break false,
                () = &mut late => break true,
                request = self.inbox.recv(), if inbox_open => match request {
                    Some(Request::Signal(signal)) => process.signal_tree(signal),
                    Some(Request::Resize(size, reply)) => {
                        let _ = reply.send(process.resize(size));
                    }
                    None => inbox_open = false,
                },
            }
        };
        process.terminate(DEFAULT_GRACE).await;
        timed_out
    }
}

/// Takes the output and gives the input, until nobody writes any more.
async fn streams(state: Arc<CommandState>, mut stdout: OutputPipe) {
    let input = state.open_input();
    let mut feeding = pin!(async move {
        if let Some(input) = input
            && let Err(error) = input.pump().await
        {
            tracing::debug!(%error, "input of a command not delivered");
        }
    });
    let mut fed = false;
    loop {
        tokio::select! {
            read = stdout.read() => match read {
                Ok(Some(bytes)) => state.take_output(&bytes),
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "output of a command not read");
                    return;
                }
            },
            () = &mut feeding, if !fed => fed = true,
        }
    }
}

/// Does the work while the streams go on.
async fn beside<T>(
    mut streams: Pin<&mut Fuse<impl Future<Output = ()>>>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            // Once over, it is pending for good.
            () = &mut streams => {}
        }
    }
}
