//! `halter policy`: what the policy says, without doing anything.

mod check;

use crate::args::PolicyCommand;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;

/// Asks the policy.
pub fn policy(context: &mut Context, command: PolicyCommand) -> Result<Exit, Failure> {
    match command {
        PolicyCommand::Check(arguments) => check::check(context, arguments),
    }
}
