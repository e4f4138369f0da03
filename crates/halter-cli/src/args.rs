//! The command line: what can be asked, and how.

use crate::limits::LISTED_SESSIONS;
use crate::terminal::ColorChoice;
use clap::builder::FalseyValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  halter run \"Summarize this repository\"
  halter chat
  git diff | halter run --text -

Without a configuration halter uses its built-in offline model and keeps
sessions in ~/.local/share/halter/sessions.db. `halter init` writes a first
halter.toml. Settings come from, later ones winning: defaults, the user's
~/.config/halter/halter.toml, the project's halter.toml once it is trusted,
--config, HALTER_* variables, flags.

See also: halter help exit-codes, halter help environment";

/// An agent harness: a language model decides what to do, halter decides
/// whether to allow it, does it, and keeps what must survive.
#[derive(Debug, Parser)]
#[command(
    name = "halter",
    version,
    about = "An agent harness for the command line",
    after_long_help = EXAMPLES,
    after_help = "See `halter --help` for examples and `halter help <COMMAND>` for a command.",
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Command,
}

/// Options every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Use this configuration file; it is trusted
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "HALTER_CONFIG",
        hide_env_values = true
    )]
    pub config: Option<PathBuf>,
    /// Work in this directory; other paths on the command line start there too
    #[arg(
        short = 'C',
        long,
        global = true,
        value_name = "DIR",
        env = "HALTER_CWD",
        hide_env_values = true
    )]
    pub cwd: Option<PathBuf>,
    /// Write data to this file instead of standard output, and logs as JSON
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "HALTER_OUTPUT_FILE",
        hide_env_values = true
    )]
    pub output_file: Option<PathBuf>,
    /// When to use colour
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        env = "HALTER_COLOR",
        hide_env_values = true
    )]
    pub color: ColorChoice,
    /// Show no progress line
    #[arg(
        long,
        global = true,
        env = "HALTER_NO_PROGRESS",
        hide_env_values = true,
        action = ArgAction::SetTrue,
        value_parser = FalseyValueParser::new()
    )]
    pub no_progress: bool,
    /// Say nothing but errors
    #[arg(
        short,
        long,
        global = true,
        env = "HALTER_QUIET",
        hide_env_values = true,
        action = ArgAction::SetTrue,
        value_parser = FalseyValueParser::new()
    )]
    pub quiet: bool,
    /// Show thinking and tool output too; twice for debugging logs
    #[arg(
        short,
        long,
        global = true,
        env = "HALTER_VERBOSE",
        hide_env_values = true,
        action = ArgAction::Count
    )]
    pub verbose: u8,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Give the model one task and print its answer
    Run(RunArgs),
    /// Talk with the model
    Chat(ChatArgs),
    /// List, show, resume and delete stored sessions
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// List tools, or call one without a model
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Write a first halter.toml and trust it
    Init(InitArgs),
    /// Let a project's halter.toml count in full
    Trust(TrustArgs),
    /// Check the configuration and everything it names
    Validate(JsonArg),
    /// Show skills and plugins
    Resources(JsonArg),
    /// Show the configuration or its schema
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write all of them to a directory
    Man {
        /// The directory
        directory: Option<PathBuf>,
    },
    /// Explain a command or a topic: exit-codes, environment
    Help {
        /// A command or a topic
        topic: Vec<String>,
    },
}

/// `--json`, on every command that prints data.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct JsonArg {
    /// Print data as JSON
    #[arg(
        long,
        env = "HALTER_JSON",
        hide_env_values = true,
        action = ArgAction::SetTrue,
        value_parser = FalseyValueParser::new()
    )]
    pub json: bool,
}

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
  git diff | halter run --text -
  halter run --session ses_… \"Now fix the first one\"

Text is the default on a terminal, --json-result when the output is piped.
Ctrl-C cancels the turn; a second one leaves at once.";

/// The arguments of `run`.
#[derive(Debug, Args)]
#[command(after_long_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// What to do; `-` or nothing reads it from standard input
    pub task: Option<String>,
    /// Read the task from this file
    #[arg(
        long,
        value_name = "FILE",
        env = "HALTER_PROMPT_FILE",
        hide_env_values = true
    )]
    pub prompt_file: Option<PathBuf>,
    /// Continue this session
    #[arg(
        long,
        value_name = "ID",
        env = "HALTER_SESSION",
        hide_env_values = true
    )]
    pub session: Option<String>,
    #[command(flatten)]
    pub options: RunOptions,
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
    #[arg(
        long,
        value_name = "MODE",
        env = "HALTER_OUTPUT",
        hide_env_values = true
    )]
    pub output: Option<OutputMode>,
    /// Use this configured model: default, small or subagent
    #[arg(
        long,
        value_name = "ID",
        env = "HALTER_RUN_MODEL",
        hide_env_values = true
    )]
    pub model: Option<String>,
    /// Make at most this many model calls
    #[arg(
        long,
        value_name = "N",
        env = "HALTER_MAX_TURNS",
        hide_env_values = true
    )]
    pub max_turns: Option<NonZeroU32>,
    /// Cancel the turn after this many seconds
    #[arg(
        long,
        value_name = "SECONDS",
        env = "HALTER_TIMEOUT",
        hide_env_values = true
    )]
    pub timeout: Option<NonZeroU64>,
}

impl RunOptions {
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
    /// Use this configured model: default, small or subagent
    #[arg(
        long,
        value_name = "ID",
        env = "HALTER_RUN_MODEL",
        hide_env_values = true
    )]
    pub model: Option<String>,
    /// Make at most this many model calls for one message
    #[arg(
        long,
        value_name = "N",
        env = "HALTER_MAX_TURNS",
        hide_env_values = true
    )]
    pub max_turns: Option<NonZeroU32>,
    /// Continue this session
    #[arg(
        long,
        value_name = "ID",
        env = "HALTER_SESSION",
        hide_env_values = true
    )]
    pub session: Option<String>,
}

/// What to do with stored sessions.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List sessions, the most recently used first
    List {
        /// How many
        #[arg(
            long,
            value_name = "N",
            default_value_t = LISTED_SESSIONS,
            env = "HALTER_LIMIT",
            hide_env_values = true
        )]
        limit: usize,
        /// Go on where the page before ended
        #[arg(
            long,
            value_name = "CURSOR",
            env = "HALTER_CURSOR",
            hide_env_values = true
        )]
        cursor: Option<String>,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Show what happened in a session; with --json, one event per line
    Show {
        /// The session
        id: String,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Go on with a session: a task to run, or a chat without one
    Resume {
        /// The session
        id: String,
        /// What to do; `-` reads it from standard input
        task: Option<String>,
        #[command(flatten)]
        options: Box<RunOptions>,
    },
    /// Delete sessions for good
    Delete {
        /// The sessions
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Do not ask
        #[arg(
            long,
            short = 'y',
            env = "HALTER_YES",
            hide_env_values = true,
            action = ArgAction::SetTrue,
            value_parser = FalseyValueParser::new()
        )]
        yes: bool,
        /// Only say what would be deleted
        #[arg(
            long,
            env = "HALTER_DRY_RUN",
            hide_env_values = true,
            action = ArgAction::SetTrue,
            value_parser = FalseyValueParser::new()
        )]
        dry_run: bool,
        #[command(flatten)]
        json: JsonArg,
    },
}

/// What to do with tools.
#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// List the tools the model is offered
    List(JsonArg),
    /// Run one tool under policy, without a model; prints its result as JSON
    #[command(
        after_help = "Exits with 0 if the tool succeeded, 1 if it failed, 3 if policy refused it.",
        after_long_help = "Examples:\n  halter tools call read '{\"path\":\"Cargo.toml\"}'\n  \
            halter tools call glob '{\"pattern\":\"**/*.rs\"}' --cwd crates\n  \
            halter tools call shell '{\"command\":\"git status\"}'\n\n\
            Exits with 0 if the tool succeeded, 1 if it failed, 3 if policy refused it."
    )]
    Call {
        /// The tool
        name: String,
        /// Its input, a JSON object; `-` reads it from standard input
        #[arg(default_value = "{}")]
        input: String,
    },
}

/// The arguments of `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Where to write it
    #[arg(default_value = "halter.toml")]
    pub path: PathBuf,
    #[command(flatten)]
    pub json: JsonArg,
}

/// The arguments of `trust`.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// The file; without one, the halter.toml found here or above
    pub path: Option<PathBuf>,
    /// Stop trusting it
    #[arg(
        long,
        env = "HALTER_REVOKE",
        hide_env_values = true,
        action = ArgAction::SetTrue,
        value_parser = FalseyValueParser::new()
    )]
    pub revoke: bool,
    /// Do not ask
    #[arg(
        long,
        short = 'y',
        env = "HALTER_YES",
        hide_env_values = true,
        action = ArgAction::SetTrue,
        value_parser = FalseyValueParser::new()
    )]
    pub yes: bool,
    #[command(flatten)]
    pub json: JsonArg,
}

/// What to show of the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the JSON Schema of halter.toml
    Schema,
    /// Print every setting in force
    Show {
        /// Say where each value comes from
        #[arg(
            long,
            env = "HALTER_ORIGIN",
            hide_env_values = true,
            action = ArgAction::SetTrue,
            value_parser = FalseyValueParser::new()
        )]
        origin: bool,
        #[command(flatten)]
        json: JsonArg,
    },
}

/// Reads the command line and the variables of its flags.
pub fn parse() -> Result<Cli, clap::Error> {
    let mut command = Cli::command().color(help_color());
    let matches = command.clone().try_get_matches()?;
    // A variable gives way to an argument; two things on one line do not.
    if let Some(run) = matches.subcommand_matches("run")
        && run.contains_id("task")
        && run.value_source("prompt_file") == Some(ValueSource::CommandLine)
    {
        return Err(command.error(
            ErrorKind::ArgumentConflict,
            "there are two tasks, an argument and --prompt-file; give only one of them",
        ));
    }
    Cli::from_arg_matches(&matches)
}

/// The colour of help and usage errors, which are printed before the arguments
/// are known.
fn help_color() -> clap::ColorChoice {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let given = arguments
        .iter()
        .position(|argument| argument == "--color")
        .and_then(|place| arguments.get(place + 1).cloned());
    let joined = arguments.iter().find_map(|argument| {
        argument
            .to_str()?
            .strip_prefix("--color=")
            .map(OsString::from)
    });
    let chosen = given
        .or(joined)
        .or_else(|| std::env::var_os("HALTER_COLOR"));
    match chosen.as_ref().and_then(|chosen| chosen.to_str()) {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    }
}

/// The environment variables of all flags, for the configuration to leave
/// alone.
pub fn variables() -> Vec<String> {
    variables_of(&Cli::command())
}

fn variables_of(command: &clap::Command) -> Vec<String> {
    let own = command
        .get_arguments()
        .filter_map(|argument| argument.get_env()?.to_str().map(str::to_owned));
    let below = command.get_subcommands().flat_map(variables_of);
    own.chain(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_a_variable() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                let positional = argument.is_positional();
                // Three flags share HALTER_OUTPUT.
                let shared = ["json_result", "streaming_json", "text", "help", "version"];
                if positional || shared.contains(&argument.get_id().as_str()) {
                    continue;
                }
                assert!(argument.get_env().is_some(), "{argument:?}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
        assert!(variables().contains(&"HALTER_TIMEOUT".to_owned()));
    }

    #[test]
    fn a_flag_wins_over_the_variable_of_its_group() {
        let options = RunOptions {
            json_result: false,
            streaming_json: true,
            text: false,
            output: Some(OutputMode::Text),
            model: None,
            max_turns: None,
            timeout: None,
        };
        assert_eq!(options.mode(), Some(OutputMode::StreamingJson));
    }
}
