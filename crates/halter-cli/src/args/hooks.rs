//! The arguments of `hooks`.

use super::JsonArg;
use clap::{Args, Subcommand};

/// What to do with hooks.
#[derive(Debug, Subcommand)]
pub enum HooksCommand {
    /// List the hooks in force, and the files whose hooks are not
    List(JsonArg),
    /// Run the hooks of an event as a session here would, without one
    #[command(
        after_help = "Exits with 0 if the hooks let it pass, 3 if they block, ask or stop.",
        after_long_help = "Examples:\n  halter hooks test PreToolUse \
            '{\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"rm -rf /\"}}'\n  \
            halter hooks test UserPromptSubmit '{\"prompt\":\"hello\"}'\n\n\
            Names of tools and fields may be those of public hook files or Halter's own.\n\n\
            Exits with 0 if the hooks let it pass, 3 if they block, ask or stop."
    )]
    Test(HooksTestArgs),
}

/// What is tried.
#[derive(Debug, Args)]
pub struct HooksTestArgs {
    /// The event, such as PreToolUse
    pub event: String,
    /// The fields of its payload, a JSON object; `-` reads it from standard input
    #[arg(default_value = "{}")]
    pub payload: String,
    #[command(flatten)]
    pub json: JsonArg,
}
