//! The JSON Schema, the starter file, and the table of keys against the Rust types.

use std::path::Path;

use halter_config::{
    export_json_schema, generate_starter_config, inert_keys, schema_as_json_value,
};
use serde_json::Value;

use crate::support::{OFFLINE, error_of, load_text};

const CHECKED_IN: &str = "schema/halter.schema.json";

/// To renew the file, run this test with `HALTER_UPDATE_SCHEMA` set.
#[test]
fn the_checked_in_schema_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(CHECKED_IN);
    let current = export_json_schema().unwrap();
    if std::env::var_os("HALTER_UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == current,
        "{CHECKED_IN} is out of date: run the test with HALTER_UPDATE_SCHEMA=1"
    );
}

fn as_json(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Value>(text).unwrap()).unwrap()
}

#[test]
fn the_schema_accepts_what_loads_and_refuses_unknown_keys() {
    let schema = jsonschema::validator_for(&schema_as_json_value()).unwrap();
    assert!(schema.is_valid(&as_json(generate_starter_config())));
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
    let loaded = load_text(generate_starter_config()).await.unwrap();
    assert_eq!(loaded.warnings, []);
    assert_eq!(inert_keys(&loaded), []);
    assert!(generate_starter_config().starts_with("#:schema "));
    let mut config = loaded.config;
    let default = config.models.default.take().unwrap();
    assert_eq!(default.provider, halter_config::ConfiguredProvider::Offline);
    config.tools.enabled.clear();
    assert_eq!(
        config,
        halter_config::HarnessConfig::default(),
        "it shows the defaults"
    );
}

/// Every key of the schema, with its references followed.
fn schema_keys(schema: &Value) -> Vec<(String, Value)> {
    fn walk(root: &Value, node: &Value, key: &str, keys: &mut Vec<(String, Value)>) {
        let mut node = node;
        let candidates = ["anyOf", "allOf", "oneOf"]
            .iter()
            .find_map(|name| node.get(name))
            .and_then(Value::as_array);
        if let Some(list) = candidates
            && let Some(inner) = list.iter().find(|inner| inner.get("$ref").is_some())
        {
            node = inner;
        }
        if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            let inner = root.pointer(reference.trim_start_matches('#')).unwrap();
            return walk(root, inner, key, keys);
        }
        let mut is_table = false;
        if let Some(properties) = node.get("properties").and_then(Value::as_object) {
            is_table = true;
            for (name, inner) in properties {
                let key = if key.is_empty() {
                    name.clone()
                } else {
                    format!("{key}.{name}")
                };
                walk(root, inner, &key, keys);
            }
        }
        if let Some(inner) = node.get("additionalProperties").filter(|a| a.is_object()) {
            is_table = true;
            walk(root, inner, &format!("{key}.X-Name"), keys);
        }
        if !is_table {
            keys.push((key.to_owned(), node.clone()));
        }
    }
    let mut keys = Vec::new();
    walk(schema, schema, "", &mut keys);
    keys
}

/// A value that no key takes: what is refused for its type is known, what is unknown is not.
#[tokio::test]
async fn the_loader_knows_exactly_the_keys_of_the_rust_types() {
    let keys = schema_keys(&schema_as_json_value());
    assert!(keys.len() > 70, "{}", keys.len());
    for (key, _) in &keys {
        let text = if key == "version" {
            "version = 1979-05-27\n".to_owned()
        } else {
            format!("{key} = 1979-05-27\nversion = 1\n")
        };
        let code = error_of(text).await.code();
        assert_eq!(code, "config_wrong_type", "{key}");
    }
}

/// Each word the loader accepts is a value of the Rust enum, and the other way round.
#[tokio::test]
async fn the_loader_takes_exactly_the_words_of_the_rust_enums() {
    let schema = schema_as_json_value();
    let mut tried = 0;
    for (key, node) in schema_keys(&schema) {
        let words: Vec<String> = node
            .get("enum")
            .or_else(|| node.get("oneOf"))
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|word| {
                word.as_str()
                    .or_else(|| word["const"].as_str().or_else(|| word["enum"][0].as_str()))
            })
            .map(str::to_owned)
            .collect();
        if words.is_empty() {
            continue;
        }
        for word in &words {
            tried += 1;
            let mut text = format!("{key} = {word:?}\n");
            for (other, value) in [
                ("models.default.provider", "offline"),
                ("models.default.model", "offline"),
            ] {
                if key != other {
                    text.push_str(&format!("{other} = {value:?}\n"));
                }
            }
            if let Some(name) = key
                .strip_prefix("providers.")
                .and_then(|rest| rest.split('.').next())
            {
                let table = format!("providers.{name}");
                for (other, value) in [("wire", "chat"), ("base_url", "http://x")] {
                    if key != format!("{table}.{other}") {
                        text.push_str(&format!("{table}.{other} = {value:?}\n"));
                    }
                }
            }
            for role in ["small", "subagent"] {
                for name in ["provider", "model"] {
                    let other = format!("models.{role}.{name}");
                    if key.starts_with(&format!("models.{role}.")) && key != other {
                        text.push_str(&format!("{other} = \"offline\"\n"));
                    }
                }
            }
            load_text(text + "version = 1\n")
                .await
                .unwrap_or_else(|error| panic!("{key} {word}: {error}"));
        }
        let error = error_of(format!("version = 1\n{key} = \"no-such-word-at-all\"\n")).await;
        let hint = error.hint().unwrap();
        let listed: Vec<&str> = hint
            .trim_start_matches("known values: ")
            .split(", ")
            .collect();
        assert_eq!(listed.len(), words.len(), "{key}: {hint}");
    }
    assert!(tried > 30, "{tried}");
}
