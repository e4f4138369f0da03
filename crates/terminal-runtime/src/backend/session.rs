//! A session of tools at a runtime.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use async_trait::async_trait;
use halter_exec::Utf8Decoder;
use halter_tools::PolicyError;
use halter_tools::exec::{
    BackgroundCommand, ExecCommand, ExecPlace, ExecSession, ExecSessionSpec, ExitStatus,
    FinishedCommand, FinishedOutput, KillOutcome, NamedSandbox, ProcessInfo, SandboxWatch,
    SessionProcesses, SignalResult, StartedCommand, TextListener,
};
use halter_tools::policy::SandboxMode;
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::background::BackgroundCommands;
use super::kept_stream::KeptStream;
use super::lease::LeaseRenewal;
use super::started::{CALL_TIME, variables};
use crate::client::{ClientError, Ending, Follower, OutputEvent};
use crate::lock::lock;
use crate::protocol::{
    CancelParams, DestroyParams, ErrorCode, ExecParams, ProcessListParams, ProcessSignalParams,
    SignalOutcome, SignalSpec, StreamName,
};

/// How long after its deadline a command may be stopped before it counts as
/// lost.
const STOP_TIME: Duration = Duration::from_secs(60);

/// Shells, the better first.
const SHELLS: [&str; 2] = ["bash", "sh"];

/// What the runtime calls the session.
#[derive(Debug, Clone)]
pub(super) struct OpenedSession {
    pub id: String,
    /// What there is to say about its sandbox.
    pub note: Option<String>,
    /// The sandbox of the kernel that holds its commands, by its name.
    pub sandbox: Option<&'static str>,
    /// Keeps it there.
    pub _lease: LeaseRenewal,
}

pub(super) struct RuntimeSession {
    pub shared: Arc<Shared>,
    pub spec: ExecSessionSpec,
    /// Held while a command runs in the shell: one at a time.
    turn: AsyncMutex<()>,
    pub opened: AsyncMutex<Option<OpenedSession>>,
    /// Which of the shells it has.
    pub shell: AtomicUsize,
    /// Where the shell was after the last command.
    directory: Mutex<PathBuf>,
    /// The shell has lost its state, and nobody was told.
    pub restarted: AtomicBool,
    pub closing: CancellationToken,
    /// Files of kept output, oldest first.
    kept: Mutex<VecDeque<PathBuf>>,
    pub background: BackgroundCommands,
    /// What commands change of what nobody keeps from them; absent where the
    /// files are not this machine's, and while somebody looks.
    pub watch: AsyncMutex<Option<SandboxWatch>>,
    /// What is protected since the session began, besides what its bounds name.
    pub protected: Mutex<BTreeSet<PathBuf>>,
}

impl RuntimeSession {
    pub(super) fn new(shared: Arc<Shared>, spec: ExecSessionSpec) -> Self {
        Self {
            shared,
            directory: Mutex::new(spec.working_dir.clone()),
            spec,
            turn: AsyncMutex::default(),
            opened: AsyncMutex::default(),
            shell: AtomicUsize::new(0),
            restarted: AtomicBool::new(false),
            closing: CancellationToken::new(),
            kept: Mutex::default(),
            background: BackgroundCommands::default(),
            watch: AsyncMutex::default(),
            protected: Mutex::default(),
        }
    }

    pub(super) fn shells(&self) -> Vec<String> {
        let given = self.shared.settings.shells.iter();
        let given: Vec<String> = given
            .map(|shell| shell.to_string_lossy().into_owned())
            .collect();
        match given.is_empty() {
            true => SHELLS.map(str::to_owned).to_vec(),
            false => given,
        }
    }

    /// The shell to try.
    pub(super) fn shell_name(&self) -> String {
        let shells = self.shells();
        let chosen = shells.get(self.shell.load(Ordering::Relaxed));
        chosen.cloned().unwrap_or_default()
    }

    /// Whether a command of this place runs elsewhere than the session's
    /// others: it was let out of a sandbox which holds.
    pub(super) async fn is_aside(&self, place: &ExecPlace) -> anyhow::Result<bool> {
        if *place == ExecPlace::Session {
            return Ok(false);
        }
        let (session, _) = self.opened().await?;
        Ok(session.sandbox.is_some())
    }

    /// Runs a command in a session of its own, which ends with it.
    async fn run_aside(
        &self,
        place: &ExecPlace,
        mut params: ExecParams,
        deadline: Duration,
        cancel: &CancellationToken,
        output: &TextListener<'_>,
    ) -> anyhow::Result<FinishedCommand> {
        let session = self.create_aside(place).await?;
        params.session_id.clone_from(&session.id);
        if params.cwd.is_none() {
            params.cwd = Some(text(self.place())?);
        }
        let finished = async {
            let mut follower = self.follow(params, false).await?;
            self.finish(&mut follower, deadline, cancel, output).await
        };
        let finished = finished.await;
        self.destroy_session(&session).await;
        // It was let through to what it changed.
        self.changes().await;
        let (ending, streams) = finished?;
        self.finished(ending, streams, Some(&session))
    }

    /// The result of a command.
    fn finished(
        &self,
        ending: Ending,
        streams: [KeptStream; 2],
        session: Option<&OpenedSession>,
    ) -> anyhow::Result<FinishedCommand> {
        let status = status(&ending);
        if let Some(error) = ending.error {
            return Err(ClientError::Refused(error).into());
        }
        let [mut stdout, mut stderr] = streams.map(KeptStream::finish);
        if self.has_files_there() {
            for output in [&mut stdout, &mut stderr] {
                say_where_kept(output);
            }
        }
        for file in [&stdout.kept_file, &stderr.kept_file].into_iter().flatten() {
            self.record_kept(file);
        }
        let mut finished = FinishedCommand {
            status,
            stdout,
            stderr,
            timed_out: ending.timed_out,
            cancelled: ending.cancelled,
            shell_restarted: ending.shell_restarted | self.restarted.swap(false, Ordering::Relaxed),
            sandbox_note: None,
            refused_hosts: Vec::new(),
        };
        finished.sandbox_note = match ending.limit {
            Some(limit) => Some(limit),
            None => session.and_then(|session| self.note_after(session, &finished)),
        };
        Ok(finished)
    }

    /// What there is to say about the sandbox after a command.
    fn note_after(&self, session: &OpenedSession, finished: &FinishedCommand) -> Option<String> {
        let may_leave = self.spec.sandbox.mode != SandboxMode::Require
            && self.shared.settings.container.is_none();
        let output = [finished.stderr.text.as_str(), &finished.stdout.text];
        let refused = session.sandbox.and_then(|name| {
            NamedSandbox { name, may_leave }.refusal_note(finished.status, &output)
        });
        let parts: Vec<String> = refused.into_iter().chain(session.note.clone()).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// What there is to say about the sandbox of the commands.
    pub(super) async fn sandbox_note(&self) -> Option<String> {
        let opened = self.opened.lock().await;
        opened.as_ref().and_then(|session| session.note.clone())
    }

    /// Where the shell is.
    pub(super) fn place(&self) -> PathBuf {
        lock(&self.directory).clone()
    }

    pub(super) async fn scratch(&self) -> anyhow::Result<PathBuf> {
        let scratch = Arc::clone(&self.spec.scratch);
        let made = tokio::task::spawn_blocking(move || scratch.create().map(Path::to_owned));
        let path = self.spec.scratch.path().display();
        made.await?
            .with_context(|| format!("cannot make the session's scratch directory '{path}'"))
    }

    /// Follows a command to its end.
    async fn finish(
        &self,
        follower: &mut Follower,
        deadline: Duration,
        cancel: &CancellationToken,
        output: &TextListener<'_>,
    ) -> anyhow::Result<(Ending, [KeptStream; 2])> {
        let directory = self.scratch().await?;
        let id = follower.exec_id().to_owned();
        let kept =
            |name: &str| KeptStream::new(self.spec.output, &directory, &format!("{id}-{name}"));
        let mut streams = [kept("out"), kept("err")];
        let mut decoders = [Utf8Decoder::new(), Utf8Decoder::new()];
        let emit = |text: String| {
            if !text.is_empty() {
                output(&text);
            }
        };
        let late = tokio::time::sleep(deadline.saturating_add(STOP_TIME));
        tokio::pin!(late);
        let mut cancelled = false;
        let ending = loop {
            let event = tokio::select! {
                biased;
                event = follower.next() => event.map_err(|error| self.unknown(error))?,
                () = wanted(cancel, &self.closing), if !cancelled => {
                    cancelled = true;
                    self.cancel(&id, None).await;
                    continue;
                }
                () = &mut late => bail!(self.unknown("it has said nothing of its end")),
            };
            let [stdout, stderr] = &mut streams;
            let [first, second] = &mut decoders;
            match event {
                OutputEvent::Data { stream, bytes, .. } => {
                    let (kept, decoder) = match stream {
                        StreamName::Stdout => (stdout, first),
                        StreamName::Stderr => (stderr, second),
                    };
                    emit(decoder.push(&bytes));
                    kept.push(bytes).await;
                }
                OutputEvent::Gap { stream, from, to } => match stream {
                    StreamName::Stdout => stdout.skip(from, to),
                    StreamName::Stderr => stderr.skip(from, to),
                },
                OutputEvent::Away { left } => emit(format!(
                    "\n[the runtime at {} is away: trying to reach it for {} s more]\n",
                    self.shared.client.target(),
                    left.as_secs()
                )),
                OutputEvent::Exit(ending) => break ending,
            }
        };
        for decoder in &mut decoders {
            emit(decoder.finish());
        }
        Ok((ending, streams))
    }

    /// A command was started, and what became of it cannot be learned.
    fn unknown(&self, reason: impl std::fmt::Display) -> anyhow::Error {
        self.restarted.store(true, Ordering::Relaxed);
        anyhow!(
            "the runtime at {} was lost while it ran the command ({reason}): whether and how far \
             it ran is unknown; look before you run it again",
            self.shared.client.target()
        )
    }

    /// Ends a command; whether that worked is seen by its end.
    pub(super) async fn cancel(&self, exec_id: &str, signal: Option<SignalSpec>) {
        let params = CancelParams {
            exec_id: Some(exec_id.to_owned()),
            signal,
            ..CancelParams::default()
        };
        if let Err(error) = self.called(self.shared.client.cancel(&params)).await {
            tracing::debug!(%error, exec_id, "a command could not be cancelled");
        }
    }

    fn record_kept(&self, file: &Path) {
        let mut kept = lock(&self.kept);
        kept.push_back(file.to_owned());
        if kept.len() > self.spec.output.kept_files
            && let Some(oldest) = kept.pop_front()
            && let Err(error) = std::fs::remove_file(&oldest)
        {
            tracing::debug!(path = %oldest.display(), %error, "old output not removed");
        }
    }

    /// Whether another shell may do where this one could not be started.
    async fn next_shell(&self, ending: &Ending) -> bool {
        let next = self.shell.load(Ordering::Relaxed) + 1;
        let is_start = ending.error.as_ref().is_some_and(|error| {
            matches!(
                error.reason.as_deref(),
                Some("program_not_found" | "program_unusable" | "system")
            )
        });
        if !is_start || next >= self.shells().len() {
            return false;
        }
        self.shell.store(next, Ordering::Relaxed);
        self.destroy().await;
        true
    }

    /// Whether nothing ran since a file that is new could not be covered. The next
    /// session of the runtime covers it.
    async fn is_left_uncovered(&self, ending: &Ending) -> bool {
        let reason = ending.error.as_ref().and_then(|it| it.reason.as_deref());
        if reason != Some("not_covered") {
            return false;
        }
        self.restarted.store(true, Ordering::Relaxed);
        self.destroy().await;
        true
    }

    /// Has the next command begin where the session did, if a new shell could not
    /// be started where the one before it was.
    async fn leave_missing_directory(&self, ending: &Ending) {
        let reason = ending.error.as_ref().and_then(|it| it.reason.as_deref());
        if reason == Some("working_directory_gone") && self.place() != self.spec.working_dir {
            lock(&self.directory).clone_from(&self.spec.working_dir);
            self.destroy().await;
        }
    }

    /// Ends the session of the runtime with all it runs.
    async fn destroy(&self) {
        let session = self.opened.lock().await.take();
        if let Some(session) = session {
            self.destroy_session(&session).await;
        }
    }

    pub(super) async fn destroy_session(&self, session: &OpenedSession) {
        let params = DestroyParams {
            session_id: session.id.clone(),
            force: true,
        };
        let client = &self.shared.client;
        let ended = self.called(client.destroy_session(&params)).await;
        // A runtime that was restarted has ended it.
        if let Err(error) = ended
            && !is_gone(&error)
        {
            tracing::warn!(%error, session = params.session_id, "a session of the runtime stays");
        }
    }

    async fn session_id(&self) -> Option<String> {
        let opened = self.opened.lock().await;
        opened.as_ref().map(|session| session.id.clone())
    }
}

impl Drop for RuntimeSession {
    fn drop(&mut self) {
        self.closing.cancel();
        let opened = self.opened.get_mut().take();
        if let (Some(session), Ok(runtime)) = (opened, tokio::runtime::Handle::try_current()) {
            let client = self.shared.client.clone();
            let params = DestroyParams {
                session_id: session.id,
                force: true,
            };
            runtime.spawn(async move {
                let ended = tokio::time::timeout(CALL_TIME, client.destroy_session(&params)).await;
                tracing::debug!(
                    ?ended,
                    "session of a runtime destroyed without being closed"
                );
            });
        }
    }
}

#[async_trait]
impl ExecSession for RuntimeSession {
    async fn run(
        &self,
        command: ExecCommand,
        cancel: &CancellationToken,
        output: &TextListener<'_>,
    ) -> anyhow::Result<FinishedCommand> {
        let _turn = tokio::select! {
            biased;
            () = cancel.cancelled() => bail!("the call was cancelled"),
            turn = self.turn.lock() => turn,
        };
        // Making the session may take long, and nothing of the command runs before.
        tokio::select! {
            biased;
            () = wanted(cancel, &self.closing) => bail!("the call was cancelled"),
            opened = self.opened() => opened?,
        };
        let is_aside = self.is_aside(&command.place).await?;
        let params = ExecParams {
            command: Some(command.text),
            cwd: command.cwd.map(text).transpose()?,
            env: variables(&command.environment),
            timeout_s: Some(command.deadline.as_secs_f64()),
            queue: true,
            ..ExecParams::default()
        };
        let deadline = command.deadline;
        if is_aside {
            let place = &command.place;
            return self
                .run_aside(place, params, deadline, cancel, output)
                .await;
        }
        let mut is_renewed = false;
        let (ending, streams) = loop {
            let mut follower = self.begin(params.clone()).await?;
            let finished = self.finish(&mut follower, deadline, cancel, output).await?;
            if params.cwd.is_none() {
                self.leave_missing_directory(&finished.0).await;
            }
            let is_again = self.next_shell(&finished.0).await
                || (!is_renewed && self.is_left_uncovered(&finished.0).await);
            if !is_again {
                break finished;
            }
            is_renewed = true;
        };
        if let Some(directory) = &ending.cwd {
            *lock(&self.directory) = PathBuf::from(directory);
        }
        let session = self.opened.lock().await.clone();
        let mut finished = self.finished(ending, streams, session.as_ref())?;
        let notes = finished
            .sandbox_note
            .into_iter()
            .chain(self.changes().await);
        let notes: Vec<String> = notes.collect();
        finished.sandbox_note = (!notes.is_empty()).then(|| notes.join("; "));
        Ok(finished)
    }

    async fn start(&self, command: BackgroundCommand) -> anyhow::Result<StartedCommand> {
        self.start_command(command).await
    }

    fn directory(&self) -> Option<PathBuf> {
        let directory = lock(&self.directory);
        (*directory != self.spec.working_dir).then(|| directory.clone())
    }

    async fn processes(&self, root: Option<i32>) -> anyhow::Result<SessionProcesses> {
        let Some(session_id) = self.session_id().await else {
            return match root {
                None => Ok(SessionProcesses::default()),
                Some(pid) => bail!(PolicyError::ProcessOutsideTree { pid }),
            };
        };
        let params = ProcessListParams { session_id, root };
        let listed = self.called(self.shared.client.processes(&params)).await;
        let listed = listed.map_err(|error| outside(error, root.unwrap_or(0)))?;
        let processes = listed.processes.into_iter().map(|process| ProcessInfo {
            pid: process.pid,
            ppid: process.ppid,
            command: process.command,
            state: process.state,
            start_time: process.start_time,
        });
        Ok(SessionProcesses {
            root: listed.root,
            descendants: processes.collect(),
        })
    }

    async fn signal_tree(&self, root: i32, signal: i32) -> anyhow::Result<Vec<KillOutcome>> {
        let Some(session_id) = self.session_id().await else {
            bail!(PolicyError::ProcessOutsideTree { pid: root });
        };
        let params = ProcessSignalParams {
            session_id,
            pid: root,
            signal: SignalSpec::Number(signal),
        };
        let answer = self
            .called(self.shared.client.signal_process(&params))
            .await;
        let answer = answer.map_err(|error| outside(error, root))?;
        let outcomes = answer.outcomes.into_iter().map(|outcome| KillOutcome {
            pid: outcome.pid,
            result: match outcome.result {
                SignalOutcome::Signalled => SignalResult::Signalled,
                SignalOutcome::AlreadyGone => SignalResult::AlreadyGone,
                SignalOutcome::Refused => SignalResult::Refused {
                    reason: outcome.reason.unwrap_or_default(),
                },
            },
        });
        Ok(outcomes.collect())
    }

    async fn close(&self) {
        self.closing.cancel();
        self.background.ended().await;
        let _turn = self.turn.lock().await;
        self.destroy().await;
    }
}

/// Says that a file of kept output is not where commands and other files are.
fn say_where_kept(output: &mut FinishedOutput) {
    if output.kept_file.is_none() {
        return;
    }
    let place = "the file is on this machine, where the harness runs, and not where commands run: \
                 the tool `read` finds it, a command does not";
    output.kept_note = Some(match output.kept_note.take() {
        Some(note) => format!("{note}; {place}"),
        None => place.to_owned(),
    });
}

async fn wanted(cancel: &CancellationToken, closing: &CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = closing.cancelled() => {}
    }
}

pub(super) fn status(ending: &Ending) -> ExitStatus {
    ExitStatus {
        code: (ending.exit_code >= 0).then_some(ending.exit_code),
        signal: ending.signal,
    }
}

/// A path as the wire has it.
pub(super) fn text(path: PathBuf) -> anyhow::Result<String> {
    let shown = path.display().to_string();
    let text = path.into_os_string().into_string();
    text.map_err(|_| anyhow!("'{shown}' is no text, which a runtime needs"))
}

/// Whether the runtime does not know the session.
fn is_gone(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref::<ClientError>(),
        Some(ClientError::Refused(refused)) if refused.code == ErrorCode::SessionNotFound
    )
}

/// What tools call a process that is not theirs.
fn outside(error: anyhow::Error, pid: i32) -> anyhow::Error {
    match error.downcast_ref::<ClientError>() {
        Some(ClientError::Refused(refused))
            if refused.reason.as_deref() == Some("process_unknown") =>
        {
            PolicyError::ProcessOutsideTree { pid }.into()
        }
        _ => error,
    }
}
