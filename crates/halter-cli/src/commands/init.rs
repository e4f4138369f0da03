//! `halter init`: a first configuration file.

use crate::args::InitArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, file_problem, usage};
use crate::harness::trust_store;
use halter_config::{HarnessConfig, ModelChoice, ProjectFile, generate_starter_config};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Writes the file and trusts it.
pub async fn init(context: &mut Context, arguments: &InitArgs) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json.json;
    let path = arguments.path.as_path();
    let mut config = HarnessConfig::default();
    let choice = config.choose_model(&context.environment);
    write_new(path, &generate_starter_config(&choice))?;
    let trusted = trust_store(context).trust(&ProjectFile::read(path).await?);
    if let Err(error) = &trusted {
        context
            .messages
            .warning(&format!("the file is written but not trusted: {error}"));
    }
    let shown = path.display().to_string();
    match arguments.json.json {
        true => context
            .data
            .json(&json!({"path": shown, "trusted": trusted.is_ok()}))?,
        false => context.data.line(&format!("wrote {shown}"))?,
    }
    context.messages.note(&match choice {
        ModelChoice::KeyFound {
            provider, model, ..
        } => format!("it uses {provider}/{model}, whose key is set; `halter models` lists others"),
        _ => "it uses the offline model; name a provider and a model under [models.default], and \
              put the key into the variable that stands beside it"
            .to_owned(),
    });
    Ok(Exit::Success)
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => usage(
            format!("{} exists already", path.display()),
            "edit it, remove it, or name another file: halter init FILE",
        ),
        _ => file_problem("write", path, &error),
    })?;
    file.write_all(text.as_bytes()).map_err(|error| {
        // Half a file is worse than none; it was not there before.
        let _ = std::fs::remove_file(path);
        file_problem("write", path, &error)
    })
}
