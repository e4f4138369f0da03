//! The commands, one module each.

mod chat;
mod config;
mod doctor;
mod documents;
mod init;
mod mock;
mod models;
mod policy;
mod resources;
mod run;
mod sessions;
mod tools;
mod trust;
mod validate;

use crate::args::{Command, PolicyCommand};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;

/// Does what was asked.
pub async fn perform(context: &mut Context, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(arguments) => run::run(context, arguments).await,
        Command::Chat(arguments) => chat::chat(context, arguments).await,
        Command::Sessions(command) => sessions::sessions(context, command).await,
        Command::Tools(command) => tools::tools(context, command).await,
        Command::Models(arguments) => models::models(context, arguments).await,
        Command::Init(arguments) => init::init(context, &arguments).await,
        Command::Trust(arguments) => trust::trust(context, arguments).await,
        Command::Validate(json) => validate::validate(context, json).await,
        Command::Resources(json) => resources::resources(context, json).await,
        Command::Config(command) => config::config(context, command).await,
        Command::Doctor(arguments) => doctor::doctor(context, arguments).await,
        Command::Policy(command) => policy::policy(context, command).await,
        Command::Mock(command) => mock::mock(context, command).await,
        Command::Completions { shell } => documents::completions(context, shell),
        Command::Man { directory } => documents::man(context, directory.as_deref()),
        Command::Help { topic } => documents::help(context, &topic),
    }
}

/// True if the command needs no configuration, session or timer.
pub fn is_plain(command: &Command) -> bool {
    matches!(
        command,
        Command::Completions { .. }
            | Command::Man { .. }
            | Command::Help { .. }
            | Command::Policy(PolicyCommand::Check(_) | PolicyCommand::CheckPath(_))
            | Command::Config(crate::args::ConfigCommand::Schema)
            | Command::Mock(crate::args::MockCommand::Scenarios(_))
    )
}
