//! The command line: what can be asked, and how.

mod budget;
mod hooks;
mod manage;
mod mcp;
mod mock;
mod permissions;
mod policy;
mod run;

pub use budget::BudgetArgs;
pub use hooks::{HooksCommand, HooksTestArgs};
pub use manage::{
    ConfigCommand, InitArgs, ModelsArgs, PluginCommand, SessionsCommand, ToolsCommand, TrustArgs,
};
pub use mcp::{McpAddArgs, McpCommand, McpServeArgs, TransportArg};
pub use mock::{MockCommand, MockServeArgs};
pub use permissions::PermissionArgs;
pub use policy::{CheckArgs, DoctorArgs, ExplainArgs, PolicyCommand, SandboxArgs, SandboxCommand};
pub use run::{ApprovalSource, ChatArgs, Force, OutputMode, Recording, RunArgs, RunOptions};

use crate::terminal::ColorChoice;
use clap::builder::FalseyValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  halter run \"Summarize this repository\"
  halter chat
  git diff | halter run \"Review this change\"

Without a configuration halter asks the model service whose key is set, first of
ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY, GEMINI_API_KEY, else its
built-in offline model, and keeps sessions in ~/.local/share/halter/sessions.db.
`halter init` writes a first halter.toml.

Settings come from, later ones winning: defaults, the user's
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
    pub command: CliCommand,
}

/// Options every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Use this configuration file; it is trusted
    #[arg(long, global = true, value_name = "FILE", env = "HALTER_CONFIG")]
    pub config: Option<PathBuf>,
    /// Work in this directory; other paths on the command line start there too
    #[arg(
        short = 'C',
        long,
        global = true,
        value_name = "DIR",
        env = "HALTER_CWD"
    )]
    pub cwd: Option<PathBuf>,
    /// Write data to this file instead of standard output, and logs as JSON
    #[arg(long, global = true, value_name = "FILE", env = "HALTER_OUTPUT_FILE")]
    pub output_file: Option<PathBuf>,
    /// When to use colour
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        env = "HALTER_COLOR"
    )]
    pub color: ColorChoice,
    /// Show no progress line
    #[arg(long, global = true, env = "HALTER_NO_PROGRESS")]
    pub no_progress: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true, env = "HALTER_QUIET")]
    pub quiet: bool,
    /// Show thinking and tool output too; twice for debugging logs
    #[arg(short, long, global = true, env = "HALTER_VERBOSE", action = ArgAction::Count)]
    pub verbose: u8,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
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
    /// Use tools of servers of the Model Context Protocol, or serve the agent by it
    #[command(subcommand)]
    Mcp(McpCommand),
    /// List the models of a service and what is known of them
    Models(ModelsArgs),
    /// Write a first halter.toml and trust it
    Init(InitArgs),
    /// Let a project's halter.toml count in full, or a folder run programs
    Trust(TrustArgs),
    /// Check the configuration and everything it names
    Validate(JsonArg),
    /// Show what an agent may do here, and what it would ask about
    Doctor(DoctorArgs),
    /// Run a command in the sandbox that an agent's commands get, or show which that is
    Sandbox(SandboxArgs),
    /// Show instruction files, skills, agents, commands, output styles and plugins
    Resources(JsonArg),
    /// List hooks, or try those of an event without a session
    #[command(subcommand)]
    Hooks(HooksCommand),
    /// Install, list, switch and remove plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Show the configuration or its schema
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Ask what the policy allows, without doing it
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Serve scripted model answers on loopback, for tests and trials
    #[command(subcommand)]
    Mock(MockCommand),
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
    #[arg(long, env = "HALTER_JSON")]
    pub json: bool,
}

/// The command line, with what all variables of flags have in common.
pub fn command() -> clap::Command {
    with_variables(Cli::command())
}

fn with_variables(command: clap::Command) -> clap::Command {
    let adjusted = command.mut_args(|argument| {
        let argument = argument.hide_env_values(true);
        match argument.get_action() {
            ArgAction::SetTrue => argument.value_parser(FalseyValueParser::new()),
            _ => argument,
        }
    });
    adjusted.mut_subcommands(with_variables)
}

/// Reads the command line and the variables of its flags.
pub fn parse() -> Result<Cli, clap::Error> {
    let mut command = command().color(help_color());
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
    variables_of(&command())
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
        command().debug_assert();
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
        check(&command());
        assert!(variables().contains(&"HALTER_TIMEOUT".to_owned()));
    }
}
