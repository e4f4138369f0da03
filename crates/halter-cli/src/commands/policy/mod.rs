//! `halter policy`: what the policy says, without doing anything.

mod check;
mod check_path;
pub mod explain;

use crate::args::PolicyCommand;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use halter::HalterError;
use serde_json::{Value, json};
use std::io::BufRead;

/// Asks the policy.
pub async fn policy(context: &mut Context, command: PolicyCommand) -> Result<Exit, Failure> {
    match command {
        PolicyCommand::Check(arguments) => check::check(context, arguments).await,
        PolicyCommand::CheckPath(_) => check_path::check_path(context),
        PolicyCommand::Explain(arguments) => explain::explain(context, arguments).await,
    }
}

/// Answers each line of standard input with one of JSON. A line that cannot be
/// read gets an error, and the whole ends with the exit code for it.
fn each_line(
    context: &mut Context,
    answer: impl Fn(&[u8]) -> Result<Value, String>,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Success;
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line.map_err(|error| {
            HalterError::new("input_failed", format!("could not read the input: {error}"))
        })?;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match answer(&line) {
            Ok(decision) => context.data.json(&decision)?,
            Err(message) => {
                exit = Exit::Usage;
                let error = json!({"error": {"code": "usage", "message": message}});
                context.data.json(&error)?;
            }
        }
    }
    Ok(exit)
}
