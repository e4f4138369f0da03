//! `shell`: commands in a shell that lives as long as the session.

mod report;
mod variables;

use super::support::{blocking, spelled};
use crate::context::{ToolContext, cancelled};
use crate::limits::{
    SHELL_COMMAND_CHARS, SHELL_ENV_VARS, SHELL_KEPT_FILE_BYTES, SHELL_KEPT_FILES,
    SHELL_RESULT_BYTES,
};
use crate::session::ToolSessionState;
use crate::typed::TypedTool;
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use halter_exec::{
    CommandOutcome, Environment, OutputChunk, OutputLimits, OutputStream, PersistentShell,
    ShellCommand, ShellConfig, SpoolSettings, Utf8Decoder,
};
use halter_protocol::{ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

/// Run a command in a shell that is kept for the session: `cd`, `export` and
/// functions last from call to call. Use it to build, test and run git; to look
/// at or change files use `read`, `grep`, `glob`, `write` and `edit`. A command
/// cannot ask for input. Output beyond a bound is kept in the file the result
/// names; read it from there.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ShellInput {
    /// The command line.
    #[schemars(length(min = 1, max = SHELL_COMMAND_CHARS))]
    command: String,
    /// A directory to run this command in, relative to the working directory.
    #[schemars(length(min = 1))]
    cwd: Option<String>,
    /// Variables for this command only.
    #[schemars(extend("maxProperties" = SHELL_ENV_VARS))]
    env: Option<BTreeMap<String, String>>,
    /// Stop the command after this time. There is an upper bound that cannot
    /// be raised.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
}

pub(crate) struct ShellTool;

#[async_trait]
impl TypedTool for ShellTool {
    type Input = ShellInput;
    const NAME: &'static str = "shell";

    fn capabilities(&self) -> ToolCapabilities {
        ToolCapabilities {
            mutating: true,
            requires_approval: true,
            cancellable: true,
            long_running: true,
        }
    }

    async fn run(&self, context: ToolContext, input: ShellInput) -> anyhow::Result<ToolResult> {
        context.policy.check_shell_enabled()?;
        context.policy.check_shell_command_strict(&input.command)?;
        let environment = variables::checked(&*context.policy, input.env.unwrap_or_default())?;
        let session = context
            .tool_sessions
            .get_or_insert_with(|| ShellSession::new(&context))?;
        let (cwd, output) = prepare(&context, input.cwd).await?;
        let mut command = ShellCommand::new(input.command);
        command.cwd = cwd;
        command.environment = environment;
        command.output = output;
        command.deadline = Some(deadline(&context, input.timeout_ms));
        let outcome = session.run(command, &context).await?;
        Ok(report::result(outcome, &session))
    }
}

/// Checks the directory, and makes room for output that does not fit.
async fn prepare(
    context: &ToolContext,
    cwd: Option<String>,
) -> anyhow::Result<(Option<PathBuf>, OutputLimits)> {
    let policy = Arc::clone(&context.policy);
    let scratch = Arc::clone(context.tool_sessions.scratch());
    blocking(move || {
        let cwd = match cwd {
            Some(cwd) => Some(policy.door().open_dir(&spelled(&cwd))?.path().to_owned()),
            None => None,
        };
        let directory = scratch.create().with_context(|| {
            let path = scratch.path().display();
            format!("cannot make the session's scratch directory '{path}'")
        })?;
        let output = OutputLimits {
            memory_bytes: SHELL_RESULT_BYTES,
            spool: Some(SpoolSettings {
                directory: directory.to_owned(),
                quota_bytes: SHELL_KEPT_FILE_BYTES,
            }),
        };
        Ok((cwd, output))
    })
    .await
}

/// What the model asked for, within what the policy allows.
fn deadline(context: &ToolContext, timeout_ms: Option<u64>) -> Duration {
    let allowed = context
        .policy
        .shell_timeout_secs()
        .min(context.shell_timeout_secs);
    let allowed = Duration::from_secs(allowed);
    timeout_ms.map_or(allowed, |asked| allowed.min(Duration::from_millis(asked)))
}

/// The shell of a session, and the files that hold what its commands printed.
pub(crate) struct ShellSession {
    shell: AsyncMutex<Option<PersistentShell>>,
    closing: CancellationToken,
    kept: Mutex<VecDeque<PathBuf>>,
}

impl ShellSession {
    fn new(context: &ToolContext) -> Self {
        let environment: Environment = context
            .tool_sessions
            .base_environment()
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let config = ShellConfig::new(environment, context.working_dir.clone());
        Self {
            shell: AsyncMutex::new(Some(PersistentShell::new(config))),
            closing: CancellationToken::new(),
            kept: Mutex::default(),
        }
    }

    /// The number of the shell's process, if there is one and no command is
    /// running in it.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.shell.try_lock().ok()?.as_ref()?.pid()
    }

    async fn run(
        &self,
        command: ShellCommand,
        context: &ToolContext,
    ) -> anyhow::Result<CommandOutcome> {
        let mut shell = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(cancelled().into()),
            shell = self.shell.lock() => shell,
        };
        let Some(shell) = shell.as_mut() else {
            bail!(crate::ToolSessionClosed);
        };
        let live = LiveOutput::new(context);
        let sink = |chunk: OutputChunk| live.take(&chunk);
        let stop = context.cancel.child_token();
        let running = shell.run(command, &stop, &sink);
        tokio::pin!(running);
        let outcome = tokio::select! {
            biased;
            outcome = &mut running => outcome,
            () = self.closing.cancelled() => {
                stop.cancel();
                running.await
            }
        };
        live.finish();
        Ok(outcome?)
    }

    /// Keeps a file for later reading; the oldest makes room.
    fn keep(&self, file: PathBuf) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(file);
        if kept.len() > SHELL_KEPT_FILES
            && let Some(oldest) = kept.pop_front()
            && let Err(error) = std::fs::remove_file(&oldest)
        {
            tracing::debug!(path = %oldest.display(), %error, "old output not removed");
        }
    }
}

#[async_trait]
impl ToolSessionState for ShellSession {
    async fn close(&self) {
        self.closing.cancel();
        if let Some(shell) = self.shell.lock().await.take() {
            shell.close().await;
        }
    }
}

/// Passes output on as text while the command runs.
struct LiveOutput<'a> {
    context: &'a ToolContext,
    decoders: Mutex<[Utf8Decoder; 2]>,
}

impl<'a> LiveOutput<'a> {
    fn new(context: &'a ToolContext) -> Self {
        Self {
            context,
            decoders: Mutex::default(),
        }
    }

    fn take(&self, chunk: &OutputChunk) {
        let mut decoders = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        let [stdout, stderr] = &mut *decoders;
        let text = match chunk.stream {
            OutputStream::Stdout => stdout.push(&chunk.bytes),
            OutputStream::Stderr => stderr.push(&chunk.bytes),
        };
        self.emit(text);
    }

    fn finish(&self) {
        let mut decoders = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        for decoder in decoders.iter_mut() {
            self.emit(decoder.finish());
        }
    }

    fn emit(&self, text: String) {
        if !text.is_empty() {
            self.context.emit_output(ShellTool::NAME, text);
        }
    }
}
