//! The configuration as others read it: its JSON Schema, a starter file, a fingerprint.

use halter_protocol::ContentHash;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::choice::ModelChoice;
use crate::error::ConfigError;
use crate::schema::HarnessConfig;

/// The JSON Schema of `halter.toml`.
pub fn schema_as_json_value() -> Value {
    let mut schema = SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<HarnessConfig>();
    // A literal has a version by default; a file must state it.
    schema.insert("required".to_owned(), json!(["version"]));
    schema.to_value()
}

/// The JSON Schema of `halter.toml` as text, ending in a newline.
///
/// # Errors
///
/// [`ConfigError::Json`] when it cannot be written as text.
pub fn export_json_schema() -> Result<String, ConfigError> {
    serde_json::to_string_pretty(&schema_as_json_value())
        .map(|text| text + "\n")
        .map_err(|source| ConfigError::Json { source })
}

/// A first `halter.toml`: commented, and working as it is, with the model that was chosen.
pub fn generate_starter_config(choice: &ModelChoice) -> String {
    let text = include_str!("starter.toml");
    match choice {
        ModelChoice::KeyFound {
            provider, model, ..
        } => text
            .replace(
                "\nprovider = \"offline\"\n",
                &format!("\nprovider = \"{provider}\"\n"),
            )
            .replace(
                "\nmodel = \"offline\"\n",
                &format!("\nmodel = \"{model}\"\n"),
            ),
        _ => text.to_owned(),
    }
}

/// A short text that is the same for the same configuration. Keys and header values are not part
/// of it.
///
/// # Errors
///
/// [`ConfigError::Json`] when the configuration cannot be written as text.
pub fn config_fingerprint(config: &HarnessConfig) -> Result<String, ConfigError> {
    let text = serde_json::to_vec(config).map_err(|source| ConfigError::Json { source })?;
    Ok(ContentHash::hex_of(&text))
}
