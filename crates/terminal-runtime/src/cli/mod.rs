//! What a person types: the daemon by default, subcommands that talk to one.

mod arguments;
mod daemon;
mod exec;
mod failure;
mod look;
mod status;
mod target;
mod terminal;
mod token_handover;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use terminal_runtime::settings::{EnvFile, Settings, TOKEN_VARIABLE, Token};

use self::arguments::{Arguments, ClientCommand};
use self::failure::Failure;

/// Parses the command line and does what it says.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let done = match arguments::parse(arguments) {
        Ok(given) => given.and_then(|(given, file)| dispatch(given, &file)),
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "error: {}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}

fn dispatch(given: Arguments, file: &EnvFile) -> Result<u8, Failure> {
    let mut settings = given.settings;
    let Some(command) = given.command else {
        return daemon::run(settings, file);
    };
    settings.auth_token = token_in_environment();
    client(&settings, command)
}

fn client(settings: &Settings, command: ClientCommand) -> Result<u8, Failure> {
    match command {
        ClientCommand::Exec(given) => block_on(exec::exec(settings, *given)),
        ClientCommand::Attach { exec_id } => block_on(exec::attach(settings, exec_id)),
        ClientCommand::Ps => block_on(look::commands(settings)),
        ClientCommand::Sessions => block_on(look::sessions(settings)),
        ClientCommand::Describe => block_on(look::describe(settings)),
        ClientCommand::Ping => block_on(look::ping(settings)),
        ClientCommand::List => look::runtimes(settings),
        ClientCommand::Schema => look::schema(),
    }
}

fn token_in_environment() -> Option<Token> {
    let text = std::env::var(TOKEN_VARIABLE).ok()?;
    Token::new(&text)
}

/// Runs a client to its end. Whatever still reads the terminal is left.
fn block_on(client: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("the program cannot start: {error}")))?;
    let outcome = runtime.block_on(client);
    runtime.shutdown_background();
    outcome
}

/// Writes to standard output; a reader that is gone is no error of ours.
fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}
