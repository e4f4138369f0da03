//! The JSON Schema and the starter file.

use halter_config::{
    ConfiguredProvider, Environment, HarnessConfig, ModelChoice, export_json_schema,
    generate_starter_config, schema_as_json_value,
};
use serde_json::Value;

use crate::support::{OFFLINE, load_text};

/// Renew it with `INSTA_UPDATE=always`, and read what changed.
#[test]
fn the_schema_is_as_recorded() {
    insta::assert_snapshot!("halter.schema.json", export_json_schema().unwrap());
}

fn as_json(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Value>(text).unwrap()).unwrap()
}

#[test]
fn the_schema_accepts_what_loads_and_refuses_unknown_keys() {
    let schema = jsonschema::validator_for(&schema_as_json_value()).unwrap();
    assert!(schema.is_valid(&as_json(&generate_starter_config(&ModelChoice::Offline))));
    assert!(schema.is_valid(&as_json(OFFLINE)));
    for bad in [
        "version = 2\n",
        "[tools]\nenabled = []\n",
        "version = 1\n[tools]\nenabeld = []\n",
        "version = 1\n[policy]\nmax_read_bytes = 0\n",
        "version = 1\n[models.default]\nprovider = \"no/body\"\nmodel = \"m\"\n",
        "version = 1\n[providers.groq]\nwire = \"telex\"\n",
        "version = 1\n[providers.groq]\nbase_uri = \"https://x\"\n",
    ] {
        assert!(!schema.is_valid(&as_json(bad)), "{bad}");
    }
}

#[tokio::test]
async fn the_starter_file_loads_without_a_word() {
    let starter = generate_starter_config(&ModelChoice::Offline);
    let loaded = load_text(&starter).await.unwrap();
    assert_eq!(loaded.warnings, []);
    assert!(starter.starts_with("#:schema "));
    let mut config = loaded.config;
    let default = config.models.default.take().unwrap();
    assert_eq!(default.provider, ConfiguredProvider::Offline);
    config.models.default_rates.clear();
    config.sources.clear();
    assert_eq!(config, HarnessConfig::default(), "it shows the defaults");
}

#[tokio::test]
async fn the_starter_file_names_the_model_whose_key_is_set() {
    let environment = Environment::from_iter([("GEMINI_API_KEY", "k")]);
    let choice = HarnessConfig::default().choose_model(&environment);
    let loaded = load_text(&generate_starter_config(&choice)).await.unwrap();
    let default = loaded.config.models.default.unwrap();
    assert_eq!(default.provider, ConfiguredProvider::Gemini);
    assert_eq!(default.model, "gemini-3.8-flash");
}
