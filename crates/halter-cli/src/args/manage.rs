//! The arguments of commands that manage sessions, tools and settings.

use super::{JsonArg, PermissionArgs, RunOptions};
use crate::limits::LISTED_SESSIONS;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What to do with stored sessions.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List sessions, the most recently used first
    List {
        /// How many
        #[arg(long, value_name = "N", default_value_t = LISTED_SESSIONS, env = "HALTER_LIMIT")]
        limit: usize,
        /// Go on where the page before ended
        #[arg(long, value_name = "CURSOR", env = "HALTER_CURSOR")]
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
    /// Show what fills the context of a session
    Context {
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
        #[arg(long, short = 'y', env = "HALTER_YES")]
        yes: bool,
        /// Only say what would be deleted
        #[arg(long, env = "HALTER_DRY_RUN")]
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
        #[command(flatten)]
        permissions: PermissionArgs,
    },
}

/// What to do with plugins.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Install a plugin from a folder or a git repository, pinned to a commit
    #[command(after_help = "Examples:\n  halter plugin install ./my-plugin\n  \
        halter plugin install https://example.com/team/plugin.git --revision v1.2.0")]
    Install {
        /// A folder, or the address of a repository
        source: String,
        /// The commit, tag or branch of the repository; without one, what its HEAD is now
        #[arg(long, value_name = "REVISION", env = "HALTER_PLUGIN_REVISION")]
        revision: Option<String>,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Remove an installed plugin
    Remove {
        /// Its name
        name: String,
    },
    /// List installed plugins
    List(JsonArg),
    /// Put an installed plugin in force
    Enable {
        /// Its name
        name: String,
    },
    /// Put an installed plugin out of force
    Disable {
        /// Its name
        name: String,
    },
}

/// The arguments of `models`.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// The service: anthropic, openai, openrouter, gemini, ollama, or one with a table; the one
    /// of the default model if none is named
    pub provider: Option<String>,
    #[command(flatten)]
    pub json: JsonArg,
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
    /// The file or folder; without one, the halter.toml found here or above
    pub path: Option<PathBuf>,
    /// Stop trusting it
    #[arg(long, env = "HALTER_REVOKE")]
    pub revoke: bool,
    /// Do not ask
    #[arg(long, short = 'y', env = "HALTER_YES")]
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
        #[arg(long, env = "HALTER_ORIGIN")]
        origin: bool,
        #[command(flatten)]
        json: JsonArg,
    },
}
