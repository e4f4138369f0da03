//! What a person types: the daemon by default, subcommands that talk to one.

mod arguments;
mod daemon;
mod exec;
mod failure;
mod look;
mod status;
mod target;
mod terminal;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::ArgMatches;
use terminal_runtime::settings::{SETTINGS, Sources};

use self::failure::Failure;

/// Parses the command line and does what it says.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let matches = match arguments::command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match dispatch(&matches) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "error: {}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}

fn dispatch(matches: &ArgMatches) -> Result<u8, Failure> {
    let given = matches.subcommand().map_or(matches, |(_, given)| given);
    let sources = gather(matches, given)?;
    match matches.subcommand() {
        None => daemon::run(&sources),
        Some(("exec", given)) => block_on(exec::exec(&sources, given)),
        Some(("attach", given)) => block_on(exec::attach(&sources, given)),
        Some(("ps", _)) => block_on(look::commands(&sources)),
        Some(("sessions", _)) => block_on(look::sessions(&sources)),
        Some(("describe", _)) => block_on(look::describe(&sources)),
        Some(("ping", _)) => block_on(look::ping(&sources)),
        Some(("list", _)) => look::runtimes(&sources),
        Some(("schema", _)) => look::schema(),
        Some((other, _)) => Err(Failure::new(format!("`{other}` is no command"))),
    }
}

/// The settings given on the command line, in the environment and in files.
fn gather(top: &ArgMatches, given: &ArgMatches) -> Result<Sources, Failure> {
    let mut flags = BTreeMap::new();
    for setting in SETTINGS {
        for matches in [top, given] {
            let value = matches.try_get_one::<String>(setting.flag).ok().flatten();
            if let Some(value) = value {
                flags.insert(setting.flag, value.clone());
            }
        }
    }
    let directory = std::env::current_dir()
        .map_err(|error| Failure::new(format!("the current directory cannot be used: {error}")))?;
    let environment = std::env::vars_os().collect();
    if top.subcommand().is_none() {
        return Ok(Sources::gather(flags, environment, &directory)?);
    }
    let (sources, complaint) = Sources::gather_for_client(flags, environment, &directory)?;
    if let Some(complaint) = complaint {
        let _ = writeln!(std::io::stderr(), "warning: {complaint}");
    }
    Ok(sources)
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
