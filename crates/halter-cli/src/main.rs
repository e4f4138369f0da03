//! The `halter` command line: arguments, rendering, prompts and exit codes.
//!
//! Data goes to standard output, messages to standard error. Nothing here is of use
//! to a program that embeds the harness: what such a program needs is in the
//! `halter` crate and below.

mod account;
mod approvals;
mod args;
mod attach;
mod commands;
mod context;
mod draft;
mod editor;
mod exit;
mod failure;
mod harness;
mod limits;
mod live;
mod logging;
mod output;
mod output_schema;
mod prompt;
mod signals;
mod terminal;
mod turn;
mod typing;
mod view;

use args::CliCommand;
use context::Context;
use exit::Exit;
use failure::{Failure, error_json, usage};
use halter::HalterError;
use halter_config::Environment;
use std::process::ExitCode;

fn main() -> ExitCode {
    output::install_panic_hook();
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(error) => return told(&error),
    };
    let environment = match enter(&cli.globals) {
        Ok(()) => captured(),
        Err(failure) => {
            let environment = Environment::capture();
            let messages = context::messages_of(&cli.globals, &environment);
            return report(&messages, failure);
        }
    };
    let messages = context::messages_of(&cli.globals, &environment);
    let exit = prepare(cli.globals, environment, &messages)
        .and_then(|mut context| execute(&mut context, cli.command));
    match exit {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => report(&messages, failure),
    }
}

/// The environment, with the variables of our flags left to us.
fn captured() -> Environment {
    let variables = args::variables();
    Environment::capture().reserving(variables.iter().map(String::as_str))
}

/// Prints help, a version or a usage error, as clap words it.
fn told(error: &clap::Error) -> ExitCode {
    // A reader that has gone is no error here either.
    let _ = error.print();
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(Exit::Usage.code()),
    }
}

/// Goes where the user wants to work.
fn enter(globals: &args::Globals) -> Result<(), Failure> {
    let Some(directory) = &globals.cwd else {
        return Ok(());
    };
    std::env::set_current_dir(directory).map_err(|error| {
        let message = format!("cannot work in '{}': {error}", directory.display());
        HalterError::new("working_dir_missing", message)
            .with_hint("create the directory, or name another one with --cwd")
            .into()
    })
}

fn prepare(
    globals: args::Globals,
    environment: Environment,
    messages: &output::Messages,
) -> Result<Context, Failure> {
    logging::start(&globals, &environment, messages)?;
    Context::new(globals, environment, messages.clone())
}

/// Fails if the directory to work in was deleted.
fn there_is_a_directory() -> Result<(), Failure> {
    match std::env::current_dir() {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = format!("the directory to work in is gone: {error}");
            Err(HalterError::new("working_dir_missing", message)
                .with_hint("go to one that is there, or name one with --cwd")
                .into())
        }
    }
}

fn execute(context: &mut Context, command: CliCommand) -> Result<Exit, Failure> {
    let outcome = match commands::is_plain(&command) {
        true => futures::executor::block_on(commands::perform(context, command)),
        false => there_is_a_directory().and_then(|()| block_on(context, command)),
    };
    match outcome {
        Err(Failure::Error(error, exit)) if context.errors_in_data => {
            context.data.json(&error_json(&error))?;
            match context.data.is_terminal() {
                true => Err(Failure::Told(exit)),
                false => Err(Failure::Error(error, exit)),
            }
        }
        other => other,
    }
}

/// Runs a command that waits for things.
fn block_on(context: &mut Context, command: CliCommand) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| {
            usage(
                format!("could not start: {error}"),
                "raise the limit of threads",
            )
        })?;
    let outcome = runtime.block_on(commands::perform(context, command));
    end_threads(runtime);
    outcome
}

/// Whatever matters has ended; a prompt may still wait for a key.
fn end_threads(runtime: tokio::runtime::Runtime) {
    runtime.shutdown_timeout(limits::THREADS_WAIT);
}

fn report(messages: &output::Messages, failure: Failure) -> ExitCode {
    messages.clear_status();
    let exit = match failure {
        Failure::BrokenPipe => Exit::Success,
        Failure::Told(exit) => exit,
        Failure::Error(error, exit) => {
            messages.error(&error);
            exit
        }
    };
    ExitCode::from(exit.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_for_a_key_does_not_hold_the_program() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (key, keyboard) = std::sync::mpsc::channel::<()>();
        let (started, running) = std::sync::mpsc::channel();
        runtime.spawn_blocking(move || {
            started.send(()).unwrap();
            keyboard.recv()
        });
        running.recv().unwrap();
        let before = std::time::Instant::now();
        end_threads(runtime);
        assert!(before.elapsed() >= limits::THREADS_WAIT);
        drop(key);
    }
}
