//! `halter config`: the schema, and the settings in force.

use crate::args::ConfigCommand;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::harness;
use halter_config::{LoadedConfig, dotted_key, export_json_schema};
use serde_json::{Map, Value, json};

/// Shows the configuration or its schema.
pub async fn config(context: &mut Context, command: ConfigCommand) -> Result<Exit, Failure> {
    match command {
        ConfigCommand::Schema => {
            let schema = export_json_schema()?;
            context.data.text(&schema)?;
        }
        ConfigCommand::Show { origin, json } => {
            context.errors_in_data = json.json;
            let loaded = harness::load(context).await?;
            let settings = settings(&loaded.config)?;
            match json.json {
                true => context.data.json(&as_json(&settings, origin))?,
                false => context.data.text(&as_text(&settings, origin))?,
            }
        }
    }
    Ok(Exit::Success)
}

/// A setting in force.
struct Setting {
    key: String,
    value: Value,
    origin: String,
}

/// Every setting, secrets redacted.
fn settings(loaded: &LoadedConfig) -> Result<Vec<Setting>, Failure> {
    let tree = serde_json::to_value(&loaded.config)
        .map_err(|source| halter_config::ConfigError::Json { source })?;
    let mut found = Vec::new();
    collect(&tree, &mut Vec::new(), &mut found);
    Ok(found
        .into_iter()
        .map(|(key, value)| Setting {
            origin: loaded.origin(&key).to_string(),
            key,
            value,
        })
        .collect())
}

fn collect<'a>(tree: &'a Value, key: &mut Vec<&'a str>, found: &mut Vec<(String, Value)>) {
    match tree {
        Value::Object(table) if !table.is_empty() || key.is_empty() => {
            for (name, value) in table {
                key.push(name);
                collect(value, key, found);
                key.pop();
            }
        }
        Value::Null | Value::Object(_) => {}
        value => found.push((dotted_key(key.iter().copied()), value.clone())),
    }
}

fn as_text(settings: &[Setting], with_origin: bool) -> String {
    let lines = settings.iter().map(|setting| {
        let Setting { key, value, origin } = setting;
        match with_origin {
            true => format!("{key} = {value}  # {origin}\n"),
            false => format!("{key} = {value}\n"),
        }
    });
    lines.collect()
}

fn as_json(settings: &[Setting], with_origin: bool) -> Value {
    let fields: Map<String, Value> = settings
        .iter()
        .map(|setting| {
            let value = match with_origin {
                true => json!({"value": setting.value, "origin": setting.origin}),
                false => setting.value.clone(),
            };
            (setting.key.clone(), value)
        })
        .collect();
    Value::Object(fields)
}
