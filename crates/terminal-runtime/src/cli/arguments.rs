//! The command line, made from the table of settings.

use clap::{Arg, ArgAction, Command};
use terminal_runtime::settings::{Kind, SETTINGS, Setting};

/// Settings that say which runtime is meant, also for subcommands.
const EVERYWHERE: [&str; 5] = [
    "socket",
    "http",
    "auth-token-file",
    "discovery-dir",
    "env-file",
];

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

A setting comes from its flag, else its variable, else the .env file, else its default.
SIGTERM ends the daemon when running commands have had their time, a second one at once.";

pub fn command() -> Command {
    let commands = [
        exec_command(),
        attach_command(),
        plain("ps", "Show the commands that run or have ended lately"),
        plain("sessions", "Show the sessions"),
        plain("list", "Show the runtimes of this user"),
        plain("describe", "Show what a runtime is and holds to, as JSON"),
        plain("ping", "Show whether a runtime answers"),
        plain("schema", "Print the JSON Schema of the protocol"),
    ];
    Command::new("terminal-runtime")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs commands for agents over a Unix socket, HTTP or standard input")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
        .args_conflicts_with_subcommands(false)
        .args(SETTINGS.iter().map(setting_arg))
        .subcommands(commands)
}

fn setting_arg(setting: &'static Setting) -> Arg {
    let mut help = setting.help.to_owned();
    let mut notes = vec![setting.variable.to_owned()];
    if !setting.default.is_empty() {
        notes.push(format!("default: {}", setting.default));
    }
    help.push_str(&format!(" [{}]", notes.join(", ")));
    let mut arg = Arg::new(setting.flag)
        .long(setting.flag)
        .help(help)
        .help_heading(setting.heading)
        .global(EVERYWHERE.contains(&setting.flag));
    if let Some(alias) = setting.alias {
        arg = arg.visible_alias(alias);
    }
    match setting.kind {
        Kind::Value => arg.value_name(setting.value_name),
        Kind::Switch => arg
            .value_name("0|1")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("1"),
    }
}

fn plain(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about)
}

fn exec_command() -> Command {
    let value = |name: &'static str, placeholder: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(placeholder).help(help)
    };
    Command::new("exec")
        .about("Run a command in a runtime and show its output as it comes")
        .long_about(
            "Run a command in a runtime and show its output as it comes.\n\n\
             One word is a line for the session's shell; several are a program and its \
             arguments. The exit code is the command's; 124 after its timeout, 130 after \
             Ctrl-C, which cancels it. If this program is ended otherwise, the command goes on: \
             `attach` finds it again.",
        )
        .arg(
            Arg::new("words")
                .value_name("COMMAND")
                .required(true)
                .num_args(1..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .help("A line for the shell, or a program and its arguments"),
        )
        .arg(value(
            "session",
            "ID",
            "Run it in this session instead of a new one",
        ))
        .arg(value(
            "cwd",
            "PATH",
            "Where the new session starts, instead of here",
        ))
        .arg(value("shell", "PATH", "The shell of the new session"))
        .arg(value("timeout", "SECONDS", "End it after this time"))
        .arg(value(
            "exec-id",
            "NAME",
            "A name by which `attach` finds it",
        ))
        .arg(
            value("env", "NAME=VALUE", "A variable for it; may be given again")
                .short('e')
                .action(ArgAction::Append),
        )
        .arg(switch("queue", None, "Wait for its turn in a busy session"))
        .arg(switch(
            "input",
            Some('i'),
            "Give it the standard input of this program",
        ))
        .arg(switch(
            "tty",
            Some('t'),
            "Give it a terminal, and this one's keys",
        ))
}

fn attach_command() -> Command {
    Command::new("attach")
        .about("Show the output of a command from its beginning, and what comes")
        .long_about(
            "Show the output of a command from its beginning, and what comes. Its exit code \
             becomes this program's; Ctrl-C cancels it.",
        )
        .arg(
            Arg::new("exec-id")
                .value_name("EXEC_ID")
                .help("The command; the one that runs if there is only one"),
        )
}

fn switch(name: &'static str, short: Option<char>, help: &'static str) -> Arg {
    let arg = Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help);
    match short {
        Some(short) => arg.short(short),
        None => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_setting_has_a_flag_and_its_variable_is_in_the_help() {
        let help = command().render_long_help().to_string();
        for setting in SETTINGS {
            assert!(
                help.contains(&format!("--{}", setting.flag)),
                "{}",
                setting.flag
            );
            assert!(help.contains(setting.variable), "{}", setting.variable);
        }
        assert!(help.contains("--socket-path"));
    }

    #[test]
    fn both_spellings_of_the_socket_are_understood() {
        for flag in ["--socket", "--socket-path"] {
            let matches = command().try_get_matches_from(["x", flag, "/s"]).unwrap();
            assert_eq!(matches.get_one::<String>("socket").unwrap(), "/s");
            let matches = command()
                .try_get_matches_from(["x", "exec", flag, "/s", "true"])
                .unwrap();
            let (_, given) = matches.subcommand().unwrap();
            assert_eq!(given.get_one::<String>("socket").unwrap(), "/s");
        }
    }

    #[test]
    fn a_switch_alone_means_yes() {
        let value = |words: &[&str]| {
            let matches = command().try_get_matches_from(words).unwrap();
            matches.get_one::<String>("stdin").cloned()
        };
        assert_eq!(value(&["x", "--stdin"]).as_deref(), Some("1"));
        assert_eq!(value(&["x", "--stdin=0"]).as_deref(), Some("0"));
        assert_eq!(value(&["x"]), None);
    }
}
