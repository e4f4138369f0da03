//! The commands, one module each.

mod chat;
mod config;
mod doctor;
mod documents;
mod exec_place;
mod hooks;
mod init;
mod mcp;
mod mock;
mod models;
mod plugin;
mod policy;
mod resources;
mod run;
mod sandbox;
mod sessions;
mod tools;
mod trust;
mod validate;

use crate::args::{CliCommand, PolicyCommand};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;

/// Does what was asked.
pub async fn perform(context: &mut Context, command: CliCommand) -> Result<Exit, Failure> {
    match command {
        CliCommand::Run(arguments) => run::run(context, arguments).await,
        CliCommand::Chat(arguments) => chat::chat(context, arguments).await,
        CliCommand::Sessions(command) => sessions::sessions(context, command).await,
        CliCommand::Tools(command) => tools::tools(context, command).await,
        CliCommand::Mcp(command) => mcp::mcp(context, command).await,
        CliCommand::Models(arguments) => models::models(context, arguments).await,
        CliCommand::Init(arguments) => init::init(context, &arguments).await,
        CliCommand::Trust(arguments) => trust::trust(context, arguments).await,
        CliCommand::Validate(json) => validate::validate(context, json).await,
        CliCommand::Hooks(command) => hooks::hooks(context, command).await,
        CliCommand::Plugin(command) => plugin::plugin(context, command).await,
        CliCommand::Resources(json) => resources::resources(context, json).await,
        CliCommand::Config(command) => config::config(context, command).await,
        CliCommand::Doctor(arguments) => doctor::doctor(context, arguments).await,
        CliCommand::Sandbox(arguments) => sandbox::sandbox(context, arguments).await,
        CliCommand::Policy(command) => policy::policy(context, command).await,
        CliCommand::Mock(command) => mock::mock(context, command).await,
        CliCommand::Completions { shell } => documents::completions(context, shell),
        CliCommand::Man { directory } => documents::man(context, directory.as_deref()),
        CliCommand::Help { topic } => documents::help(context, &topic),
    }
}

/// True if the command needs no configuration, session or timer.
pub fn is_plain(command: &CliCommand) -> bool {
    match command {
        CliCommand::Policy(PolicyCommand::Check(check)) => check.jsonl || check.allow.is_some(),
        CliCommand::Completions { .. }
        | CliCommand::Man { .. }
        | CliCommand::Help { .. }
        | CliCommand::Policy(PolicyCommand::CheckPath(_))
        | CliCommand::Config(crate::args::ConfigCommand::Schema)
        | CliCommand::Mock(crate::args::MockCommand::Scenarios(_)) => true,
        _ => false,
    }
}
