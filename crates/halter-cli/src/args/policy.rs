//! The arguments of `halter policy`.

use super::{JsonArg, PermissionArgs};
use clap::{Args, Subcommand};

/// What to ask the policy.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Judge a command line without running it
    #[command(
        after_help = "Says what a session here would do; with --allow, what that list alone says.\n\
                      Exits with 0 if it may run, with 3 if it is denied or has to be asked about."
    )]
    Check(CheckArgs),
    /// Judge paths without touching what they name
    #[command(after_long_help = CHECK_PATH_HELP)]
    CheckPath(CheckPathArgs),
    /// Show the way of one call through policy, rules and mode, without running it
    #[command(after_help = "Example: halter policy explain shell '{\"command\":\"git push\"}'")]
    Explain(ExplainArgs),
}

/// A call to explain.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The tool
    pub tool: String,
    /// Its input, a JSON object
    #[arg(default_value = "{}")]
    pub input: String,
    #[command(flatten)]
    pub permissions: PermissionArgs,
    #[command(flatten)]
    pub json: JsonArg,
}

/// The arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub permissions: PermissionArgs,
    #[command(flatten)]
    pub json: JsonArg,
}

/// A command to run in the sandbox, or a question about it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SandboxArgs {
    #[command(subcommand)]
    pub command: Option<SandboxCommand>,
    /// The command and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub words: Vec<std::ffi::OsString>,
}

/// What to show of the sandbox.
#[derive(Debug, Subcommand)]
pub enum SandboxCommand {
    /// Try every kind of sandbox out, and say what would help where one is missing
    Status(JsonArg),
}

const CHECK_PATH_HELP: &str = "\
A line of standard input is an object with op (read, write, delete, list), path, cwd,
and where wanted session_cwd, read_roots, write_roots, max_read_bytes. Relative roots
start at session_cwd, which is cwd if absent; the roots given are all there are, and
[] is none, as is the other kind of roots if only one is given. A line of output is
{\"decision\":\"allow\"} or {\"decision\":\"deny\",\"rule\",\"fragment\",\"message\"}, in the
same order.";

/// Paths to judge.
#[derive(Debug, Args)]
pub struct CheckPathArgs {
    /// Read one path per line from standard input, print one decision per line
    #[arg(long, env = "HALTER_JSONL", required = true)]
    pub jsonl: bool,
}

/// A command line to judge, or many.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The programs that are allowed, separated by commas, instead of those of the
    /// configuration; `*` allows all
    #[arg(
        long,
        value_name = "PROGRAMS",
        value_delimiter = ',',
        env = "HALTER_POLICY_ALLOW"
    )]
    pub allow: Option<Vec<String>>,
    /// Read one {"command","allow"} per line from standard input, print one
    /// decision per line
    #[arg(long, env = "HALTER_JSONL", conflicts_with = "command")]
    pub jsonl: bool,
    /// The command line
    #[arg(required_unless_present = "jsonl")]
    pub command: Option<String>,
}
