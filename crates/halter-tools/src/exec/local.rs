//! Commands as children of this process, by `halter-exec`.

mod background;
mod hand_over;
mod pinned;
#[cfg(feature = "profiling")]
mod sampling;
mod side;

use super::{
    BackgroundCommand, Environment, ExecBackend, ExecCommand, ExecSession, ExecSessionSpec,
    FinishedCommand, FinishedOutput, OutputBounds, SessionProcesses, SessionSandbox,
    StartedCommand, TextListener,
};
use crate::builtin::blocking;
use crate::context::cancelled;
use crate::network::{FilteringProxy, HostResolver};
use crate::scratch::ScratchDir;
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use background::BackgroundCommands;
use halter_exec::{
    CapturedOutput, ExecError, KillOutcome, OutputChunk, OutputLimits, OutputStream,
    PersistentShell, ProcessInfo, ShellCommand, ShellConfig, Signal, SpoolSettings, Utf8Decoder,
    builds_in_temporary, kill_tree, list_descendants,
};
use halter_policy::{NetworkPolicy, PolicyError, SandboxBounds, SandboxMode};
use hand_over::WrittenVariables;
use side::{PlacedShell, SideShell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

/// Runs commands on this machine, as children of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalExec;

impl ExecBackend for LocalExec {
    fn samples_processes(&self) -> bool {
        true
    }

    fn open(&self, spec: ExecSessionSpec) -> Arc<dyn ExecSession> {
        let directory = Mutex::new(spec.working_dir.clone());
        Arc::new(LocalSession {
            #[cfg(feature = "profiling")]
            environment: spec.environment.clone(),
            directory,
            shell: AsyncMutex::new(Some(SessionShell {
                main: None,
                side: None,
                environment: spec.environment,
                working_dir: spec.working_dir.clone(),
                bounds: spec.sandbox,
                network: spec.network,
                resolver: spec.resolver,
                written: WrittenVariables::default(),
            })),
            working_dir: spec.working_dir,
            closing: CancellationToken::new(),
            scratch: spec.scratch,
            bounds: spec.output,
            kept: Mutex::default(),
            background: BackgroundCommands::default(),
        })
    }
}

struct LocalSession {
    /// What programs of our own beside the session's are found by.
    #[cfg(feature = "profiling")]
    environment: Environment,
    working_dir: PathBuf,
    /// Where the shell was when it was last looked at.
    directory: Mutex<PathBuf>,
    /// `None` once the session is closed.
    shell: AsyncMutex<Option<SessionShell>>,
    closing: CancellationToken,
    scratch: Arc<ScratchDir>,
    bounds: OutputBounds,
    /// Files of kept output, oldest first.
    kept: Mutex<VecDeque<PathBuf>>,
    background: BackgroundCommands,
}

impl Drop for LocalSession {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// The session's shell, made with its sandbox by the first command, and the
/// second one, made by the first that runs elsewhere.
struct SessionShell {
    main: Option<PlacedShell>,
    side: Option<SideShell>,
    environment: Environment,
    working_dir: PathBuf,
    bounds: SandboxBounds,
    network: NetworkPolicy,
    resolver: Arc<dyn HostResolver>,
    /// What its commands have set in plain text.
    written: WrittenVariables,
}

impl SessionShell {
    async fn open(&mut self, scratch: &ScratchDir) -> anyhow::Result<OpenShell<'_>> {
        if self.main.is_none() {
            self.bounds = with_scratch(std::mem::take(&mut self.bounds), scratch);
            self.main = Some(self.make(self.bounds.clone(), scratch).await?);
        }
        Ok(OpenShell::of(
            self.main.as_mut().context("the shell is gone")?,
        ))
    }

    /// A shell in a sandbox of these bounds.
    async fn make(
        &self,
        bounds: SandboxBounds,
        scratch: &ScratchDir,
    ) -> anyhow::Result<PlacedShell> {
        let mut environment = self.environment.clone();
        let name = format!("halter-{}", scratch_name(scratch));
        let temporary = own_temporary(&bounds, &environment, scratch);
        let mut known = environment.clone();
        if let Some((variable, directory)) = &temporary {
            known.set(variable, directory);
            tokio::fs::create_dir_all(directory).await?;
        }
        let sandbox = blocking(move || Ok(SessionSandbox::establish(&bounds, &known, &name)?));
        let sandbox = sandbox.await?;
        let served = sandbox.serve_network(self.network.clone(), Arc::clone(&self.resolver))?;
        let (proxy, mut variables) = match served {
            Some(served) => (Some(served.proxy), served.variables),
            None => (None, Vec::new()),
        };
        variables.extend(temporary.filter(|_| sandbox.sandbox().is_some()));
        environment.extend(variables.iter().cloned());
        let config = ShellConfig::new(environment, self.working_dir.clone());
        let shell = match sandbox.sandbox() {
            Some(inside) => PersistentShell::in_sandbox(config, Arc::clone(inside))?,
            None => PersistentShell::new(config),
        };
        Ok(PlacedShell {
            shell,
            sandbox,
            proxy,
            variables,
        })
    }
}

/// The variable for a temporary directory in the scratch directory, where the
/// sandbox has not got the usual one, or programs that are built there could not
/// execute, and listed ones do that.
#[must_use]
pub fn own_temporary(
    bounds: &SandboxBounds,
    environment: &Environment,
    scratch: &ScratchDir,
) -> Option<(String, String)> {
    const VARIABLE: &str = "TMPDIR";
    let given = environment.get(VARIABLE).map(Path::new);
    let is_inside = |given: &Path| bounds.writable.iter().any(|root| given.starts_with(root));
    let programs = bounds.programs.as_deref();
    let needed = match given {
        Some(given) if is_inside(given) => false,
        Some(given) => given != Path::new("/tmp") || programs.is_some_and(builds_in_temporary),
        None => programs.is_some_and(builds_in_temporary),
    };
    let directory = scratch.path().join("tmp");
    let is_wanted = needed && bounds.mode != SandboxMode::Off;
    let directory = is_wanted.then(|| directory.to_str().map(str::to_owned))??;
    Some((VARIABLE.to_owned(), directory))
}

/// A shell that was made, and what it lies in.
struct OpenShell<'a> {
    shell: &'a mut PersistentShell,
    sandbox: &'a mut SessionSandbox,
    proxy: Option<&'a FilteringProxy>,
}

impl<'a> OpenShell<'a> {
    fn of(placed: &'a mut PlacedShell) -> Self {
        Self {
            shell: &mut placed.shell,
            sandbox: &mut placed.sandbox,
            proxy: placed.proxy.as_ref(),
        }
    }
}

/// The directory was made by now; the policy may have been asked before.
fn with_scratch(mut bounds: SandboxBounds, scratch: &ScratchDir) -> SandboxBounds {
    if !bounds.writable.iter().any(|path| path == scratch.path()) {
        bounds.writable.push(scratch.path().to_owned());
    }
    bounds
}

fn scratch_name(scratch: &ScratchDir) -> String {
    let name = scratch.path().file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[async_trait]
impl ExecSession for LocalSession {
    async fn run(
        &self,
        command: ExecCommand,
        cancel: &CancellationToken,
        output: &TextListener<'_>,
    ) -> anyhow::Result<FinishedCommand> {
        let limits = self.output_limits().await?;
        let mut shell = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancelled().into()),
            shell = self.shell.lock() => shell,
        };
        let Some(session_shell) = shell.as_mut() else {
            bail!(crate::ToolSessionClosed);
        };
        session_shell.written.note(&command.text);
        let opened = session_shell.open_at(&command.place, command.cwd, &self.scratch);
        let (
            OpenShell {
                shell,
                sandbox,
                proxy,
            },
            cwd,
        ) = opened.await?;
        let mut request = ShellCommand::new(command.text);
        request.cwd = cwd;
        request.environment = command.environment;
        request.deadline = Some(command.deadline);
        request.output = limits;
        let _asking = command.hosts.map(|hosts| {
            request.pause = hosts.pause().clone();
            proxy.map(|proxy| proxy.ask_for(hosts))
        });
        let live = LiveText::new(output);
        let sink = |chunk: OutputChunk| live.push(&chunk);
        let stop = cancel.child_token();
        let outcome = {
            let running = shell.run(request, &stop, &sink);
            tokio::pin!(running);
            tokio::select! {
                biased;
                outcome = &mut running => outcome,
                () = self.closing.cancelled() => {
                    stop.cancel();
                    running.await
                }
            }?
        };
        live.finish();
        let mut finished = FinishedCommand {
            status: outcome.status,
            stdout: self.keep(outcome.stdout),
            stderr: self.keep(outcome.stderr),
            timed_out: outcome.timed_out,
            cancelled: outcome.cancelled,
            shell_restarted: outcome.shell_restarted,
            sandbox_note: None,
            refused_hosts: proxy.map_or_else(Vec::new, |it| it.refusals().take()),
        };
        finished.sandbox_note = sandbox.note(&finished).await;
        if session_shell.is_aside(&command.place) {
            let notes = [session_shell.side_note(), finished.sandbox_note.take()];
            let notes: Vec<String> = notes.into_iter().flatten().collect();
            finished.sandbox_note = (!notes.is_empty()).then(|| notes.join("; "));
            // The command has run: its result must not be lost.
            if let Err(error) = session_shell.return_state().await {
                tracing::warn!(%error, "the state of the second shell is lost");
                finished.shell_restarted = true;
            }
        }
        Ok(finished)
    }

    async fn start(&self, command: BackgroundCommand) -> anyhow::Result<StartedCommand> {
        self.start_command(command).await
    }

    fn directory(&self) -> Option<PathBuf> {
        let mut last = self
            .directory
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let shell = self.shell.try_lock();
        let shell = shell.as_ref().ok().and_then(|shell| shell.as_ref());
        if let Some(shell) = shell.and_then(|session| session.main.as_ref()) {
            shell.shell.cwd().clone_into(&mut last);
        }
        let same = |left: &Path, right: &Path| {
            left == right || left.canonicalize().ok() == right.canonicalize().ok()
        };
        (!same(&last, &self.working_dir)).then(|| last.clone())
    }

    async fn processes(&self, root: Option<i32>) -> anyhow::Result<SessionProcesses> {
        let shells = self.shell_pids();
        let commands = self.background.pids();
        blocking(move || match root {
            Some(root) => {
                check_member(root, shells.into_iter().chain(commands))?;
                Ok(SessionProcesses {
                    root: Some(root),
                    descendants: list_descendants(root)?,
                })
            }
            None => Ok(SessionProcesses {
                root: shells.first().copied(),
                descendants: all_processes(&shells, &commands)?,
            }),
        })
        .await
    }

    async fn signal_tree(&self, root: i32, signal: i32) -> anyhow::Result<Vec<KillOutcome>> {
        let signal = Signal::new(signal)?;
        let roots = self.shell_pids().into_iter().chain(self.background.pids());
        let roots: Vec<i32> = roots.collect();
        blocking(move || {
            check_member(root, roots)?;
            Ok(kill_tree(root, signal)?)
        })
        .await
    }

    #[cfg(feature = "profiling")]
    async fn sample(
        &self,
        root: i32,
        hertz: u32,
    ) -> anyhow::Result<Box<dyn crate::exec::RunningSampling>> {
        self.start_sampling(root, hertz).await
    }

    async fn close(&self) {
        self.closing.cancel();
        self.background.ended().await;
        let Some(session) = self.shell.lock().await.take() else {
            return;
        };
        if let Some(side) = session.side {
            side.close().await;
        }
        if let Some(main) = session.main {
            main.shell.close().await;
        }
    }
}

impl LocalSession {
    /// The process numbers of the session's shells that are running, the first
    /// one first; none while a command runs.
    fn shell_pids(&self) -> Vec<i32> {
        let Ok(shell) = self.shell.try_lock() else {
            return Vec::new();
        };
        let Some(session) = shell.as_ref() else {
            return Vec::new();
        };
        let main = session.main.as_ref().and_then(|main| main.shell.pid());
        let side = session.side.as_ref().and_then(SideShell::pid);
        main.into_iter().chain(side).collect()
    }

    async fn make_scratch(&self) -> anyhow::Result<PathBuf> {
        let scratch = Arc::clone(&self.scratch);
        blocking(move || {
            let made = scratch.create().with_context(|| {
                let path = scratch.path().display();
                format!("cannot make the session's scratch directory '{path}'")
            })?;
            Ok(made.to_owned())
        })
        .await
    }

    async fn output_limits(&self) -> anyhow::Result<OutputLimits> {
        let directory = self.make_scratch().await?;
        Ok(OutputLimits {
            memory_bytes: self.bounds.result_bytes,
            spool: Some(SpoolSettings {
                directory,
                quota_bytes: self.bounds.kept_file_bytes,
            }),
        })
    }

    /// The result of one stream; its file, if there is one, stays for later
    /// reading.
    fn keep(&self, output: CapturedOutput) -> FinishedOutput {
        let mut finished = FinishedOutput {
            text: output.to_text(),
            omitted_bytes: output.dropped(),
            ..FinishedOutput::default()
        };
        if output.is_complete() {
            return finished;
        }
        let total = output.total;
        match output.spool {
            Some(file) => {
                if file.bytes() < total {
                    let reason = file.problem().unwrap_or("it reached its limit");
                    let held = file.bytes();
                    let note = format!("holds the first {held} of {total} bytes: {reason}");
                    finished.kept_note = Some(note);
                }
                let path = file.keep();
                self.record_kept(path.clone());
                finished.kept_file = Some(path);
            }
            None => finished.kept_note = output.spool_problem,
        }
        finished
    }

    fn record_kept(&self, file: PathBuf) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(file);
        if kept.len() > self.bounds.kept_files
            && let Some(oldest) = kept.pop_front()
            && let Err(error) = std::fs::remove_file(&oldest)
        {
            tracing::debug!(path = %oldest.display(), %error, "old output not removed");
        }
    }
}

/// Refuses a process that is none of these and not below one.
fn check_member(pid: i32, roots: impl IntoIterator<Item = i32>) -> anyhow::Result<()> {
    for root in roots {
        if pid == root || below(root)?.iter().any(|process| process.pid == pid) {
            return Ok(());
        }
    }
    bail!(PolicyError::ProcessOutsideTree { pid })
}

/// What is below the shells, and the background commands with what is below
/// them.
fn all_processes(shells: &[i32], commands: &[i32]) -> Result<Vec<ProcessInfo>, ExecError> {
    let mut all = Vec::new();
    for shell in shells {
        all.extend(below(*shell)?);
    }
    if !commands.is_empty() {
        let own = below(i32::try_from(std::process::id()).unwrap_or_default())?;
        let leaders = own.into_iter().filter(|it| commands.contains(&it.pid));
        all.extend(leaders);
    }
    for command in commands {
        all.extend(below(*command)?);
    }
    Ok(all)
}

/// What is below a process; nothing, if that has ended.
fn below(root: i32) -> Result<Vec<ProcessInfo>, ExecError> {
    match list_descendants(root) {
        Err(ExecError::NoSuchProcess { .. }) => Ok(Vec::new()),
        listed => listed,
    }
}

/// Turns chunks of two streams into text, without cutting characters.
struct LiveText<'a> {
    output: &'a TextListener<'a>,
    decoders: Mutex<[Utf8Decoder; 2]>,
}

impl<'a> LiveText<'a> {
    fn new(output: &'a TextListener<'a>) -> Self {
        Self {
            output,
            decoders: Mutex::default(),
        }
    }

    fn push(&self, chunk: &OutputChunk) {
        let mut decoders = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        let [stdout, stderr] = &mut *decoders;
        let text = match chunk.stream {
            OutputStream::Stdout => stdout.push(&chunk.bytes),
            OutputStream::Stderr => stderr.push(&chunk.bytes),
        };
        self.emit(&text);
    }

    fn finish(&self) {
        let mut decoders = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        for decoder in decoders.iter_mut() {
            self.emit(&decoder.finish());
        }
    }

    fn emit(&self, text: &str) {
        if !text.is_empty() {
            (self.output)(text);
        }
    }
}
