//! The command line.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use terminal_runtime::settings::{EnvFile, Settings, ignoring_empty_variables};

use super::failure::Failure;

const ABOUT: &str = "Runs commands for agents: sessions, output and exit codes over a Unix socket, HTTP or standard input.

Without a subcommand this is the daemon. The others talk to a daemon that runs.";

const EXAMPLES: &str = "Examples:
  terminal-runtime                          listen on /tmp/trl.sock
  terminal-runtime --socket /run/me.sock    listen elsewhere
  TRL_AUTH_TOKEN=... terminal-runtime --http 127.0.0.1:9100
  terminal-runtime --stdin                  requests on standard input
  terminal-runtime exec 'make test'         run a command there, see its output
  terminal-runtime attach                   watch the command that runs
  echo '{\"id\":\"1\",\"method\":\"system.ping\",\"params\":{}}' | socat - UNIX-CONNECT:/tmp/trl.sock

A setting comes from its flag, else its variable, else the file of --env-file, else its default.
SIGTERM ends the daemon when running commands have had their time, a second one at once.";

#[derive(Debug, Parser)]
#[command(name = "terminal-runtime", version, long_about = ABOUT, after_help = EXAMPLES)]
/// Runs commands for agents over a Unix socket, HTTP or standard input
pub struct Arguments {
    #[command(flatten)]
    pub settings: Settings,
    #[command(subcommand)]
    pub command: Option<ClientCommand>,
}

/// What a client does.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Run a command in a runtime and show its output as it comes
    ///
    /// One word is a line for the session's shell; several are a program and its arguments.
    /// The exit code is the command's; 124 after its timeout, 130 after Ctrl-C, which cancels
    /// it. If this program is ended otherwise, the command goes on: `attach` finds it again.
    Exec(Box<ExecArguments>),
    /// Show the output of a command from its beginning, and what comes
    ///
    /// Its exit code becomes this program's; Ctrl-C cancels it.
    Attach {
        /// The command; the one that runs if there is only one
        exec_id: Option<String>,
    },
    /// Show the commands that run or have ended lately
    Ps,
    /// Show the sessions
    Sessions,
    /// Show the runtimes of this user
    List,
    /// Show what a runtime is and holds to, as JSON
    Describe,
    /// Show whether a runtime answers
    Ping,
    /// Print the JSON Schema of the protocol
    Schema,
}

#[derive(Debug, Args)]
pub struct ExecArguments {
    /// A line for the shell, or a program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    #[arg(allow_hyphen_values = true)]
    pub words: Vec<String>,
    /// Run it in this session instead of a new one
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Where the new session starts, instead of here
    #[arg(long, value_name = "PATH")]
    pub cwd: Option<String>,
    /// The shell of the new session
    #[arg(long, value_name = "PATH")]
    pub shell: Option<String>,
    /// End it after this time
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// A name by which `attach` finds it
    #[arg(long, value_name = "NAME")]
    pub exec_id: Option<String>,
    /// A variable for it; may be given again
    #[arg(long, short = 'e', value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Wait for its turn in a busy session
    #[arg(long)]
    pub queue: bool,
    /// Give it the standard input of this program
    #[arg(long, short = 'i')]
    pub input: bool,
    /// Give it a terminal, and this one's keys
    #[arg(long, short = 't')]
    pub tty: bool,
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    let pair = text.split_once('=').ok_or("it must be NAME=VALUE")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// What was asked for; for the daemon also the file with variables, whose
/// settings are in already.
///
/// # Errors
/// Those of clap include requests for help.
pub fn parse(
    arguments: Vec<OsString>,
) -> Result<Result<(Arguments, EnvFile), Failure>, clap::Error> {
    let command = ignoring_empty_variables(Arguments::command());
    let matches = command.clone().try_get_matches_from(arguments.clone())?;
    let given = Arguments::from_arg_matches(&matches)?;
    if given.command.is_some() {
        // Clients read no such file: it could lead them to a stranger.
        return Ok(Ok((given, EnvFile::default())));
    }
    let file = match EnvFile::read(given.settings.env_file.as_deref()) {
        Ok(file) => file,
        Err(error) => return Ok(Err(error.into())),
    };
    let mut with_file = arguments;
    for arg in command.get_arguments() {
        let is_chosen = matches!(
            matches.value_source(arg.get_id().as_str()),
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        );
        let value = arg.get_env().and_then(|name| file.setting(name.to_str()?));
        if let (Some(long), Some(value), false) = (arg.get_long(), value, is_chosen) {
            with_file.push(format!("--{long}={value}").into());
        }
    }
    let parsed = command.try_get_matches_from(with_file);
    match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(given) => Ok(Ok((given, file))),
        Err(error) => {
            let problem = error.to_string();
            let problem = problem.lines().next().unwrap_or_default();
            let problem = problem.trim_start_matches("error: ");
            Ok(Err(Failure::usage(format!(
                "{}: {problem}",
                file.path().display()
            ))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_setting_has_a_flag_and_a_variable_and_both_are_in_the_help() {
        let help = Arguments::command().render_long_help().to_string();
        let command = Settings::augment_args(clap::Command::new("x"));
        for arg in command.get_arguments() {
            let flag = arg.get_long().unwrap();
            assert!(help.contains(&format!("--{flag}")), "{flag}");
            let variable = arg.get_env().unwrap().to_str().unwrap();
            assert!(
                variable.starts_with("TRL_") && help.contains(variable),
                "{flag}"
            );
        }
        assert!(help.contains("--socket-path"));
    }

    #[test]
    fn both_spellings_of_the_socket_are_understood_before_and_after_a_subcommand() {
        for words in [
            &["x", "--socket", "/s"][..],
            &["x", "--socket-path", "/s"],
            &["x", "exec", "--socket", "/s", "true"],
            &["x", "--socket-path", "/s", "exec", "true"],
        ] {
            let given = Arguments::try_parse_from(words).unwrap();
            assert_eq!(
                given.settings.socket.unwrap().to_str(),
                Some("/s"),
                "{words:?}"
            );
        }
    }
}
