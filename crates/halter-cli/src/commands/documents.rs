//! Completions, manual pages and help texts.

use crate::args::command;
use crate::context::Context;
use crate::exit::{self, Exit};
use crate::failure::{Failure, file_problem, usage};
use std::path::Path;

/// Prints the completion script of a shell.
pub fn completions(context: &mut Context, shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "halter", &mut script);
    context.data.bytes(&script)?;
    Ok(Exit::Success)
}

/// Prints the manual page, or writes one for each command.
pub fn man(context: &mut Context, directory: Option<&Path>) -> Result<Exit, Failure> {
    let Some(directory) = directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command()).render(&mut page)?;
        context.data.bytes(&page)?;
        return Ok(Exit::Success);
    };
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(command(), directory))
        .map_err(|error| file_problem("write manual pages to", directory, &error))?;
    context
        .data
        .line(&format!("wrote manual pages to {}", directory.display()))?;
    Ok(Exit::Success)
}

/// Explains a command or a topic.
pub fn help(context: &mut Context, topic: &[String]) -> Result<Exit, Failure> {
    let topic: Vec<&str> = topic.iter().map(String::as_str).collect();
    let text = match topic.as_slice() {
        ["exit-codes"] => exit::HELP.to_owned(),
        ["environment"] => environment(),
        path => command_help(path)?,
    };
    context.data.text(&text)?;
    Ok(Exit::Success)
}

fn command_help(path: &[&str]) -> Result<String, Failure> {
    let mut command = command();
    command.build();
    let mut found = &mut command;
    for name in path {
        found = found.find_subcommand_mut(name).ok_or_else(|| {
            usage(
                format!("there is no command or topic '{}'", path.join(" ")),
                "see `halter --help`; topics are exit-codes and environment",
            )
        })?;
    }
    Ok(found.render_long_help().to_string())
}

fn environment() -> String {
    let mut text = String::from(
        "Environment variables of halter\n\nHALTER_* win over configuration files, and flags over \
         them. A key or an address in a\nfile wins over the variable of its service.\n\n",
    );
    let overrides = halter_config::override_variables()
        .map(|(name, key)| (name.to_owned(), format!("setting {key}")));
    let services = halter_config::KNOWN_SERVICES.iter().flat_map(|service| {
        let keys = service.key_variables.iter();
        let keys = keys.map(|name| (*name, format!("key of {}", service.title)));
        let address = service.base_url_variable.into_iter();
        keys.chain(address.map(|name| (name, format!("address of {}", service.title))))
    });
    let services = services.map(|(name, meaning)| (name.to_owned(), meaning));
    let own = [
        (
            "HALTER_LOG",
            "what is logged, such as info or halter_runtime=debug; else RUST_LOG",
        ),
        (
            "NAME_API_KEY",
            "key of the service in [providers.name], whatever its name",
        ),
        (
            "SSL_CERT_FILE",
            "a PEM file with authorities to trust besides the system's",
        ),
        (
            "HTTPS_PROXY, ALL_PROXY",
            "proxies to model services; also http_proxy, NO_PROXY",
        ),
        ("NO_COLOR", "no colour, whatever its value"),
        ("CLICOLOR_FORCE", "colour also without a terminal"),
        (
            "XDG_CONFIG_HOME",
            "where halter/halter.toml is found; ~/.config",
        ),
        (
            "XDG_DATA_HOME",
            "where halter/sessions.db is kept; ~/.local/share",
        ),
        (
            "XDG_STATE_HOME",
            "where halter keeps trust and history; ~/.local/state",
        ),
    ]
    .map(|(name, meaning)| (name.to_owned(), meaning.to_owned()));
    let flags = flags(&command(), "halter");
    for (name, meaning) in overrides.chain(services).chain(own).chain(flags) {
        text.push_str(&format!("  {name:<30} {meaning}\n"));
    }
    text
}

/// The variables of flags, each once.
fn flags(command: &clap::Command, path: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for argument in command.get_arguments() {
        let (Some(variable), Some(flag)) = (argument.get_env(), argument.get_long()) else {
            continue;
        };
        let meaning = format!("the flag --{flag} of {path}");
        found.push((variable.to_string_lossy().into_owned(), meaning));
    }
    for below in command.get_subcommands() {
        for (variable, meaning) in flags(below, &format!("{path} {}", below.get_name())) {
            if !found.iter().any(|(known, _)| *known == variable) {
                found.push((variable, meaning));
            }
        }
    }
    found
}
