//! `pty`: programs that want a terminal.

mod keys;
mod line_drawing;
mod screen;
mod terminals;

use super::jobs::add_state;
use super::refused::add_sandbox_note;
use super::shell::{CommandToJudge, command_actions};
use crate::availability::{HarnessFacts, denied};
use crate::context::{ToolContext, cancelled};
use crate::exec::{BackgroundCommand, TerminalSize};
use crate::limits::{
    PTY_COLUMNS, PTY_DEFAULT_WAIT_MS, PTY_FIRST_OUTPUT_TIME, PTY_KEYS, PTY_MAX_WAIT_MS,
    PTY_RAW_BYTES, PTY_READ_BYTES, PTY_ROWS, PTY_SETTLE_TIME, SHELL_COMMAND_CHARS, SHELL_ENV_VARS,
};
use crate::typed::TypedTool;
use anyhow::bail;
use async_trait::async_trait;
use halter_protocol::{Action, ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use terminals::{AwaitedScreen, OpenTerminal, Terminals};

/// Run a program that wants a terminal (an editor, a pager, a prompt, a menu)
/// and see its screen. `start` runs `command` in a new terminal; `write` types
/// `input`, then presses `keys`; `read` looks; each answers with the screen
/// once it is at rest or shows `wait_for`. `kill` ends the program. For other
/// commands use `shell`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct PtyInput {
    /// `start` needs `command`, `resize` needs `cols` and `rows`.
    action: PtyAction,
    /// The terminal, as `start` names it; may be left out if there is one.
    terminal_id: Option<String>,
    /// The command line, as for `shell`.
    #[schemars(length(min = 1, max = SHELL_COMMAND_CHARS))]
    command: Option<String>,
    /// A directory to start in, relative to the working directory.
    #[schemars(length(min = 1))]
    cwd: Option<String>,
    /// Variables for the command.
    #[schemars(extend("maxProperties" = SHELL_ENV_VARS))]
    env: Option<BTreeMap<String, String>>,
    /// Ask the user to let it run outside the sandbox, which refused it.
    #[serde(default)]
    outside_sandbox: bool,
    /// Width of the terminal; 120 for a new one.
    #[schemars(range(min = 1, max = PTY_COLUMNS))]
    cols: Option<u16>,
    /// The same as `cols`.
    #[schemars(range(min = 1, max = PTY_COLUMNS), extend("unsent" = true))]
    columns: Option<u16>,
    /// Height of the terminal; 40 for a new one.
    #[schemars(range(min = 1, max = PTY_ROWS))]
    rows: Option<u16>,
    /// Text to type.
    input: Option<String>,
    /// Keys to press, such as `Enter`, `Ctrl-C`, `Up`, `Escape`, `F1`.
    #[schemars(length(max = PTY_KEYS))]
    keys: Option<Vec<String>>,
    /// Wait until this is on the screen.
    #[schemars(length(min = 1))]
    wait_for: Option<String>,
    /// How long to wait at most; 5000 if left out.
    #[schemars(range(max = PTY_MAX_WAIT_MS))]
    timeout_ms: Option<u64>,
    /// For `read`: output with its control sequences from this byte on, in
    /// place of the screen.
    raw_offset: Option<u64>,
}

impl PtyInput {
    fn width(&self) -> Option<u16> {
        self.cols.or(self.columns)
    }
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum PtyAction {
    Start,
    Write,
    Read,
    Resize,
    Kill,
}

/// What programs are told about their terminal. A pager would hide output from
/// whoever does not turn its pages, and runs commands.
const TERMINAL_VARIABLES: [(&str, &str); 3] = [
    ("TERM", "xterm-256color"),
    ("PAGER", "cat"),
    ("LESSSECURE", "1"),
];

pub(crate) struct PtyTool;

#[async_trait]
impl TypedTool for PtyTool {
    type Input = PtyInput;
    const NAME: &'static str = "pty";
    const SUMMARY: Option<&'static str> = Some("drive a terminal program");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        ToolCapabilities {
            mutating: true,
            // What is started is judged as a command, by its name.
            requires_approval: false,
            cancellable: true,
            long_running: true,
        }
    }

    fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
        // Nothing can be started where no command is run.
        denied(harness, "shell")
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        match input.get("action").and_then(Value::as_str) {
            Some("start") => command_actions(input),
            Some("read") => vec![Action::Other { mutating: false }],
            _ => Vec::new(),
        }
    }

    fn is_polling(&self, input: &Value) -> bool {
        input.get("action").and_then(Value::as_str) == Some("read")
    }

    async fn run(&self, context: ToolContext, input: PtyInput) -> anyhow::Result<ToolResult> {
        let terminals = Terminals::of(&context)?;
        let at_most = Duration::from_millis(input.timeout_ms.unwrap_or(PTY_DEFAULT_WAIT_MS));
        let mut answer = Map::new();
        let mut awaited = AwaitedScreen {
            text: input.wait_for.as_deref(),
            after: 0,
            reaction: at_most,
            at_most,
        };
        let terminal = if let PtyAction::Start = input.action {
            let (terminal, note) = start(&context, &terminals, &input).await?;
            add_sandbox_note(&mut answer, note);
            terminal
        } else {
            let terminal = terminals.find(input.terminal_id.as_deref())?;
            act(&context, &terminal, &input, &mut awaited).await?;
            terminal
        };
        let found = terminal.wait(&context, &awaited).await?;
        answer.insert("terminal_id".into(), terminal.id.clone().into());
        add_state(&mut answer, terminal.command.progress());
        terminal
            .reported
            .tell(&context, &*terminal.command, &mut answer);
        if awaited.text.is_some() {
            answer.insert("found".into(), found.into());
        }
        match (input.action, input.raw_offset) {
            (PtyAction::Read, Some(offset)) => raw(&terminal, offset, &mut answer).await?,
            _ => terminal.screen().describe(&mut answer),
        }
        Ok(ToolResult::json(Value::Object(answer)))
    }
}

/// Opens a terminal for a command that the policy lets through.
async fn start(
    context: &ToolContext,
    terminals: &Terminals,
    input: &PtyInput,
) -> anyhow::Result<(Arc<OpenTerminal>, Option<String>)> {
    let Some(text) = &input.command else {
        bail!("`start` needs `command`: the program to run in the terminal");
    };
    let judged = CommandToJudge {
        text,
        cwd: input.cwd.clone(),
        variables: input.env.clone(),
        outside_sandbox: input.outside_sandbox,
    };
    let judged = judged.judged(context).await?;
    let size = TerminalSize {
        columns: input.width().unwrap_or(120),
        rows: input.rows.unwrap_or(40),
    };
    let mut command = BackgroundCommand::new(text.clone(), PTY_RAW_BYTES);
    command.cwd = judged.cwd;
    command.place = judged.place;
    command.environment = TERMINAL_VARIABLES.into_iter().collect();
    command.environment.extend(judged.environment.iter());
    command.terminal = Some(size);
    terminals.start(context, command, size).await
}

/// Does what a call asks of a terminal, and says from where on to look at it.
async fn act(
    context: &ToolContext,
    terminal: &OpenTerminal,
    input: &PtyInput,
    awaited: &mut AwaitedScreen<'_>,
) -> anyhow::Result<()> {
    let before = terminal.shown_bytes();
    match input.action {
        PtyAction::Start => {}
        PtyAction::Read => {
            awaited.reaction = PTY_SETTLE_TIME;
            awaited.after = match awaited.text {
                Some(_) => 0,
                None => before,
            };
        }
        PtyAction::Write => {
            write(terminal, input).await?;
            (awaited.after, awaited.reaction) = (before, PTY_FIRST_OUTPUT_TIME);
        }
        PtyAction::Resize => {
            resize(terminal, input).await?;
            (awaited.after, awaited.reaction) = (before, PTY_FIRST_OUTPUT_TIME);
        }
        PtyAction::Kill => tokio::select! {
            biased;
            () = terminal.command.stop() => {}
            () = context.cancel.cancelled() => bail!(cancelled()),
        },
    }
    Ok(())
}

/// Types text, then presses keys.
async fn write(terminal: &OpenTerminal, input: &PtyInput) -> anyhow::Result<()> {
    // The end of a line is typed by the key for it.
    let text = input.input.as_deref().unwrap_or_default();
    let mut typed = text.replace("\r\n", "\n").replace('\n', "\r").into_bytes();
    let application_mode = terminal.screen().application_cursor();
    for key in input.keys.iter().flatten() {
        typed.extend(keys::encode(key, application_mode)?);
    }
    if typed.is_empty() {
        bail!("`write` needs `input` or `keys`: what to type");
    }
    terminal.command.write(&typed).await
}

async fn resize(terminal: &OpenTerminal, input: &PtyInput) -> anyhow::Result<()> {
    let (Some(columns), Some(rows)) = (input.width(), input.rows) else {
        bail!("`resize` needs `cols` and `rows`");
    };
    terminal.resize(TerminalSize { columns, rows }).await
}

/// Output as it came, with what controls the terminal.
async fn raw(
    terminal: &OpenTerminal,
    asked: u64,
    answer: &mut Map<String, Value>,
) -> anyhow::Result<()> {
    let piece = terminal.command.read(asked, PTY_READ_BYTES).await?;
    let next = piece.offset + piece.bytes.len() as u64;
    answer.insert("offset".into(), piece.offset.into());
    answer.insert("next_offset".into(), next.into());
    answer.insert("raw".into(), String::from_utf8_lossy(&piece.bytes).into());
    if piece.offset > asked {
        let note = format!(
            "{} bytes before `offset` are no longer kept",
            piece.offset - asked
        );
        answer.insert("note".into(), note.into());
    }
    Ok(())
}
