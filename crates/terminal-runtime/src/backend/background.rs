//! Commands that run beside the session's shell.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use anyhow::{anyhow, bail};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halter_tools::exec::{
    BackgroundCommand, BackgroundEnd, BackgroundProgress, KeptOutput, NamedSandbox, OutputPiece,
    RunningCommand, StartedCommand, TerminalSize,
};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::session::{RuntimeSession, status, text};
use super::started::{CALL_TIME, variables};
use crate::client::{Client, ClientError, Follower, OutputEvent};
use crate::lock::lock;
use crate::protocol::{
    CancelParams, Encoding, ExecParams, ProcessListParams, PtyParams, ResizeParams, SignalParams,
    SignalScope, SignalSpec, WriteParams,
};

/// How long a command may take to take its input before that counts as unread.
const INPUT_TIME: Duration = Duration::from_secs(2);

/// The most input in one request: it grows in base64, and a request has its
/// own limit.
const INPUT_PART_BYTES: usize = 256 * 1024;

/// The pause between two looks for the number of a process.
const PID_PAUSE: Duration = Duration::from_millis(20);

/// Joins the streams of a command as they are written.
const JOINED: &str = "exec \"$@\" 2>&1";

/// The background commands of a session that still run.
#[derive(Debug, Default)]
pub(super) struct BackgroundCommands(Mutex<Vec<Weak<CommandState>>>);

impl BackgroundCommands {
    fn add(&self, state: &Arc<CommandState>) {
        let mut all = lock(&self.0);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(state));
    }

    /// Waits until all have ended, after they were told to.
    pub(super) async fn ended(&self) {
        let known: Vec<Arc<CommandState>> =
            lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        for state in known {
            state.wait(|progress| progress.end.is_some()).await;
        }
    }
}

#[derive(Debug)]
struct CommandState {
    exec_id: String,
    /// 0 while it is not known.
    pid: AtomicI32,
    output: Mutex<KeptOutput>,
    progress: watch::Sender<BackgroundProgress>,
    sandbox: Option<NamedSandbox>,
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

    fn take(&self, bytes: &[u8]) {
        let mut output = lock(&self.output);
        output.push(bytes);
        let printed = output.total();
        drop(output);
        self.progress.send_modify(|it| it.printed = printed);
    }

    /// Follows the command to its end, and ends it when it is told to.
    async fn follow(
        self: Arc<Self>,
        mut follower: Follower,
        client: Client,
        stop: CancellationToken,
    ) {
        let mut stopped = false;
        let end = loop {
            let event = tokio::select! {
                biased;
                event = follower.next() => event,
                () = stop.cancelled(), if !stopped => {
                    stopped = true;
                    self.cancel(&client).await;
                    continue;
                }
            };
            match event {
                Ok(OutputEvent::Data { bytes, .. }) => self.take(&bytes),
                Ok(OutputEvent::Gap { from, to, .. }) => {
                    let note = format!(
                        "\n[... {} bytes were not kept by the runtime ...]\n",
                        to - from
                    );
                    self.take(note.as_bytes());
                }
                Ok(OutputEvent::Away { left }) => {
                    tracing::info!(?left, "the runtime of a background command is away");
                }
                Ok(OutputEvent::Exit(ending)) => {
                    if let Some(error) = &ending.error {
                        self.take(format!("{error}\n").as_bytes());
                    }
                    break BackgroundEnd {
                        status: ending.error.is_none().then(|| status(&ending)),
                        timed_out: ending.timed_out,
                    };
                }
                Err(error) => {
                    self.take(
                        format!("\n[{error}: what became of the command is unknown]\n").as_bytes(),
                    );
                    break BackgroundEnd {
                        status: None,
                        timed_out: false,
                    };
                }
            }
        };
        if let (Some(sandbox), Some(status)) = (self.sandbox, end.status)
            && let Some(note) = sandbox.refusal_note(status, &[&lock(&self.output).text()])
        {
            let _ = self.refusal_note.set(note);
        }
        self.progress.send_modify(|it| it.end = Some(end));
    }

    async fn cancel(&self, client: &Client) {
        let params = CancelParams {
            exec_id: Some(self.exec_id.clone()),
            signal: Some(SignalSpec::Name("TERM".to_owned())),
            ..CancelParams::default()
        };
        let cancelled = tokio::time::timeout(CALL_TIME, client.cancel(&params)).await;
        if !matches!(cancelled, Ok(Ok(_))) {
            tracing::debug!(?cancelled, "a background command could not be cancelled");
        }
    }
}

impl RuntimeSession {
    pub(super) async fn start_command(
        &self,
        command: BackgroundCommand,
    ) -> anyhow::Result<StartedCommand> {
        let directory = command.cwd.clone().unwrap_or_else(|| self.place());
        if self.is_aside(&command.place).await? {
            bail!(
                "a command that was let out of the sandbox cannot run in the background at a \
                 runtime; run it without"
            );
        }
        // Which shell an image has is known only then.
        let (session, _) = self.opened().await?;
        let shell = self.shell_name();
        let mut words: Vec<String> = Vec::new();
        if command.terminal.is_none() {
            words.extend(["/bin/sh", "-c", JOINED, "sh"].map(str::to_owned));
        }
        let is_bash = shell.rsplit('/').next() == Some("bash");
        words.push(shell);
        if is_bash {
            words.extend(["--noprofile", "--norc"].map(str::to_owned));
        }
        words.extend(["-c".to_owned(), command.text.clone()]);
        let params = ExecParams {
            argv: Some(words),
            cwd: Some(text(directory)?),
            env: variables(&command.environment),
            timeout_s: Some(
                command
                    .deadline
                    .map_or(0.0, |deadline| deadline.as_secs_f64()),
            ),
            open_stdin: command.terminal.is_none(),
            pty: command.terminal.map(|size| PtyParams {
                cols: size.columns,
                rows: size.rows,
            }),
            beside: true,
            ..ExecParams::default()
        };
        let follower = self.begin(params).await?;
        let state = Arc::new(CommandState {
            exec_id: follower.exec_id().to_owned(),
            pid: AtomicI32::new(0),
            output: Mutex::new(KeptOutput::new(command.kept_bytes)),
            progress: watch::Sender::default(),
            // Beside the session's shell it is not let out.
            sandbox: session.sandbox.map(|name| NamedSandbox {
                name,
                may_leave: false,
            }),
            refusal_note: OnceLock::new(),
        });
        self.background.add(&state);
        let stop = self.closing.child_token();
        let client = self.shared.client.clone();
        tokio::spawn(Arc::clone(&state).follow(follower, client, stop.clone()));
        self.learn_pid(&state).await;
        Ok(StartedCommand {
            command: Arc::new(RemoteCommand {
                shared: Arc::clone(&self.shared),
                state,
                stop,
                input: AsyncMutex::new(Some(0)),
            }),
            sandbox_note: self.sandbox_note().await,
        })
    }

    /// Asks for the number of a command's process. One that has ended has none;
    /// one in a container is there after the engine's client.
    async fn learn_pid(&self, state: &CommandState) {
        let Ok((session, _)) = self.opened().await else {
            return;
        };
        let params = ProcessListParams {
            session_id: session.id,
            root: None,
        };
        let in_container = self.shared.settings.container.is_some();
        let until = Instant::now() + CALL_TIME;
        loop {
            match self.called(self.shared.client.processes(&params)).await {
                Ok(listed) => {
                    let own = |it: &&crate::protocol::CommandProcess| it.exec_id == state.exec_id;
                    if let Some(found) = listed.commands.iter().find(own) {
                        state.pid.store(found.pid, Ordering::Relaxed);
                        return;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "the number of a process is not known");
                    return;
                }
            }
            if !in_container || state.has_ended() || Instant::now() >= until {
                return;
            }
            tokio::time::sleep(PID_PAUSE).await;
        }
    }
}

/// A background command. Dropping it ends it.
struct RemoteCommand {
    shared: Arc<Shared>,
    state: Arc<CommandState>,
    stop: CancellationToken,
    /// The number of the next byte of its input; `None` once that has ended.
    input: AsyncMutex<Option<u64>>,
}

impl Drop for RemoteCommand {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl RemoteCommand {
    fn running(&self) -> anyhow::Result<&str> {
        match self.state.has_ended() {
            true => bail!("the command has ended"),
            false => Ok(&self.state.exec_id),
        }
    }

    /// Sends input from an offset on: what was accepted before is not given
    /// twice, however often it is sent.
    async fn send(&self, offset: u64, bytes: &[u8], eof: bool) -> anyhow::Result<u64> {
        let params = WriteParams {
            exec_id: self.running()?.to_owned(),
            data: STANDARD.encode(bytes),
            encoding: Some(Encoding::Base64),
            offset: Some(offset),
            eof,
        };
        let client = &self.shared.client;
        let mut away = None;
        let written = tokio::time::timeout(INPUT_TIME, async {
            loop {
                match client.write(&params).await {
                    Err(error) if error.is_passing() => {
                        let is_lost = matches!(error, ClientError::Lost { .. });
                        away = Some(error);
                        if !is_lost {
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                    }
                    answer => break answer,
                }
            }
        });
        match written.await {
            Ok(answer) => Ok(answer?.offset),
            Err(_) => match away {
                Some(error) => Err(error.into()),
                None => bail!("the command has not read what it was given before"),
            },
        }
    }
}

#[async_trait]
impl RunningCommand for RemoteCommand {
    fn pid(&self) -> Option<i32> {
        let pid = self.state.pid.load(Ordering::Relaxed);
        (pid != 0 && !self.state.has_ended()).then_some(pid)
    }

    fn progress(&self) -> BackgroundProgress {
        *self.state.progress.borrow()
    }

    fn refusal_note(&self) -> Option<String> {
        self.state.refusal_note.get().cloned()
    }

    async fn printed_more_than(&self, bytes: u64) -> BackgroundProgress {
        let more = |it: &BackgroundProgress| it.printed > bytes || it.end.is_some();
        self.state.wait(more).await
    }

    async fn read(&self, offset: u64, most: usize) -> anyhow::Result<OutputPiece> {
        Ok(lock(&self.state.output).piece(offset, most))
    }

    async fn write(&self, input: &[u8]) -> anyhow::Result<()> {
        let mut place = self.input.lock().await;
        if self.state.has_ended() {
            *place = None;
        }
        for part in input.chunks(INPUT_PART_BYTES) {
            let Some(offset) = *place else {
                bail!("the command's input has ended: it takes no more");
            };
            *place = Some(self.send(offset, part, false).await?);
        }
        Ok(())
    }

    async fn end_input(&self) {
        let mut place = self.input.lock().await;
        if let Some(offset) = place.take()
            && let Err(error) = self.send(offset, &[], true).await
        {
            tracing::debug!(%error, "the end of a command's input was not told");
        }
    }

    async fn resize(&self, size: TerminalSize) -> anyhow::Result<()> {
        let params = ResizeParams {
            exec_id: Some(self.running()?.to_owned()),
            session_id: None,
            cols: size.columns,
            rows: size.rows,
        };
        let resized = tokio::time::timeout(CALL_TIME, self.shared.client.resize(&params)).await;
        resized.map_err(|_| anyhow!("the runtime does not answer"))??;
        Ok(())
    }

    async fn signal(&self, signal: i32) -> anyhow::Result<()> {
        let params = SignalParams {
            exec_id: Some(self.running()?.to_owned()),
            session_id: None,
            signal: SignalSpec::Number(signal),
            scope: SignalScope::Tree,
        };
        let sent = tokio::time::timeout(CALL_TIME, self.shared.client.signal(&params)).await;
        sent.map_err(|_| anyhow!("the runtime does not answer"))??;
        Ok(())
    }

    async fn stop(&self) {
        self.stop.cancel();
        self.state.wait(|progress| progress.end.is_some()).await;
    }
}
