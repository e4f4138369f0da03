//! The arguments of `run` and `chat`.

use super::{BudgetArgs, PermissionArgs};
use clap::{Args, ValueEnum};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

/// What `run` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputMode {
    /// The answer as it is written
    Text,
    /// One line: the last assistant message
    JsonResult,
    /// One line per event of the session
    StreamingJson,
}

const RUN_EXAMPLES: &str = "\
Examples:
  halter run \"Summarize this repository\"
  halter run --prompt-file task.md --streaming-json > events.jsonl
  git diff | halter run \"Review this change\"
  halter run --output-schema answer.json \"How many tests are there?\"
  halter run --attach screen.png \"What is wrong on this page?\"
  halter run --session ses_… \"Now fix the first one\"
  halter run --budget-usd 2 \"Fix the failing tests\"
  halter run --model ollama/qwen3 --record run.jsonl \"Say hello\"

What is piped in follows the task in the message; without a task it is the task.
Text is the default on a terminal, --json-result when the output is piped.
Ctrl-C cancels the turn; a second one leaves at once.";

/// The arguments of `run`.
#[derive(Debug, Args)]
#[command(after_long_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// What to do; `-` or nothing reads it from standard input
    pub task: Option<String>,
    /// Read the task from this file
    #[arg(long, value_name = "FILE", env = "HALTER_PROMPT_FILE")]
    pub prompt_file: Option<PathBuf>,
    /// Continue this session
    #[arg(long, value_name = "ID", env = "HALTER_SESSION")]
    pub session: Option<String>,
    #[command(flatten)]
    pub options: RunOptions,
}

/// How turns are answered, whoever asks for them.
#[derive(Debug, Args)]
pub struct TurnOptions {
    /// Send this image, PDF or text with the message; may be given many times
    #[arg(long, value_name = "FILE", env = "HALTER_ATTACH")]
    pub attach: Vec<PathBuf>,
    /// Use this model: default, small or subagent, or any as provider/model
    #[arg(long, value_name = "MODEL", env = "HALTER_RUN_MODEL")]
    pub model: Option<String>,
    /// Make at most this many model calls for one message
    #[arg(long, value_name = "N", env = "HALTER_MAX_TURNS")]
    pub max_turns: Option<NonZeroU32>,
    /// Record the model traffic into this file, without keys; one that is
    /// there is kept unless --force is given and the work succeeds
    #[arg(
        long,
        value_name = "FILE",
        env = "HALTER_RECORD",
        conflicts_with = "replay"
    )]
    pub record: Option<PathBuf>,
    /// Let --record replace a recording
    #[arg(long, env = "HALTER_FORCE")]
    pub force: bool,
    /// Answer from a recording, as the model that was recorded; no service is
    /// reached and no key is needed
    #[arg(long, value_name = "FILE", env = "HALTER_REPLAY")]
    pub replay: Option<PathBuf>,
    #[command(flatten)]
    pub budget: BudgetArgs,
    #[command(flatten)]
    pub permissions: PermissionArgs,
}

impl TurnOptions {
    /// The recording to make or to answer from.
    pub fn recording(&self) -> Option<Recording> {
        let force = match self.force {
            true => Force::Yes,
            false => Force::No,
        };
        let make = |file| Recording::Make { file, force };
        let record = self.record.clone().map(make);
        record.or_else(|| self.replay.clone().map(Recording::Play))
    }
}

/// What is done with a recording of model traffic.
#[derive(Debug, Clone)]
pub enum Recording {
    /// One is made.
    Make { file: PathBuf, force: Force },
    /// It answers.
    Play(PathBuf),
}

/// Whether a file that is there may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    Yes,
    No,
}

/// Who decides about calls that need approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ApprovalSource {
    /// Whoever sits at the terminal, if there is one
    #[default]
    Auto,
    /// Lines of JSON on standard input
    Stdin,
    /// Nobody: such calls are denied
    Deny,
}

/// What `run` and `sessions resume` share.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Print one line of JSON: the last assistant message
    #[arg(long, group = "mode")]
    pub json_result: bool,
    /// Print every event of the session as a line of JSON
    #[arg(long, group = "mode")]
    pub streaming_json: bool,
    /// Print the answer as it is written
    #[arg(long, group = "mode")]
    pub text: bool,
    /// The same as the three flags, which win over it
    #[arg(long, value_name = "MODE", env = "HALTER_OUTPUT")]
    pub output: Option<OutputMode>,
    #[command(flatten)]
    pub turns: TurnOptions,
    /// Who decides about calls that need approval; `stdin` takes lines of
    /// {"approval_id", "choice": "once|session|always|deny", "rule"?, "reason"?}
    #[arg(
        long,
        value_name = "WHO",
        help_heading = "Permissions",
        env = "HALTER_APPROVALS"
    )]
    pub approvals: Option<ApprovalSource>,
    /// Ask for an answer that fits the JSON Schema in this file
    #[arg(long, value_name = "FILE", env = "HALTER_OUTPUT_SCHEMA")]
    pub output_schema: Option<PathBuf>,
    /// Cancel the turn after this many seconds
    #[arg(long, value_name = "SECONDS", env = "HALTER_TIMEOUT")]
    pub timeout: Option<NonZeroU64>,
}

impl RunOptions {
    /// Who decides about calls that need approval.
    pub fn approvals(&self) -> ApprovalSource {
        self.approvals.unwrap_or_default()
    }

    /// What to print, if the user said so.
    pub fn mode(&self) -> Option<OutputMode> {
        match self {
            Self { text: true, .. } => Some(OutputMode::Text),
            Self {
                json_result: true, ..
            } => Some(OutputMode::JsonResult),
            Self {
                streaming_json: true,
                ..
            } => Some(OutputMode::StreamingJson),
            _ => self.output,
        }
    }
}

/// The arguments of `chat`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    #[command(flatten)]
    pub turns: TurnOptions,
    /// Continue this session
    #[arg(long, value_name = "ID", env = "HALTER_SESSION")]
    pub session: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_wins_over_the_variable_of_its_group() {
        let options = RunOptions {
            json_result: false,
            streaming_json: true,
            text: false,
            output: Some(OutputMode::Text),
            turns: TurnOptions {
                attach: Vec::new(),
                model: None,
                max_turns: None,
                record: None,
                force: false,
                replay: None,
                budget: BudgetArgs::default(),
                permissions: PermissionArgs::default(),
            },
            approvals: None,
            output_schema: None,
            timeout: None,
        };
        assert_eq!(options.mode(), Some(OutputMode::StreamingJson));
    }
}
