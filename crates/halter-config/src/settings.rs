//! The layers laid over each other: for each key its value and the layer it came from.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::document::Entry;
use crate::error::ConfigError;
use crate::keys::KeyPath;
use crate::origin::{FileLayer, Origin};
use crate::schema::HarnessConfig;

/// One value and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
    /// For lists that add up over the layers: where each element came from.
    pub(crate) elements: Vec<Origin>,
}

/// What the layers so far have set. What none has set is absent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings(IndexMap<KeyPath, Setting>);

impl Settings {
    pub(crate) fn get(&self, key: &KeyPath) -> Option<&Setting> {
        self.0.get(key)
    }

    /// Lays one entry of a file over what is there.
    pub(crate) fn apply(&mut self, entry: &Entry, layer: FileLayer) {
        let origin = layer.origin(entry.location.clone());
        if entry.spec.adds_up() {
            self.append(entry, &origin);
        } else {
            self.set(entry.key.clone(), entry.value.clone(), origin);
        }
    }

    /// Puts a value in place of what is there.
    pub(crate) fn set(&mut self, key: KeyPath, value: Value, origin: Origin) {
        let elements = match &value {
            Value::Array(list) => vec![origin.clone(); list.len()],
            _ => Vec::new(),
        };
        self.0.insert(
            key,
            Setting {
                value,
                origin,
                elements,
            },
        );
    }

    fn append(&mut self, entry: &Entry, origin: &Origin) {
        let setting = self.0.entry(entry.key.clone()).or_insert_with(|| Setting {
            value: Value::Array(Vec::new()),
            origin: origin.clone(),
            elements: Vec::new(),
        });
        if let (Value::Array(list), Value::Array(more)) = (&mut setting.value, &entry.value) {
            list.extend(more.iter().cloned());
            setting.elements.extend(more.iter().map(|_| origin.clone()));
            setting.origin = origin.clone();
        }
    }

    /// Forgets a key and everything below it.
    pub(crate) fn remove(&mut self, prefix: &KeyPath) {
        self.0.retain(|key, _| !key.starts_with(prefix));
    }

    /// Where a key came from.
    pub(crate) fn origin(&self, key: &KeyPath) -> Origin {
        self.get(key)
            .map_or(Origin::Default, |setting| setting.origin.clone())
    }

    /// The first setting below a table.
    pub(crate) fn first_below(&self, table: &KeyPath) -> Option<&Setting> {
        self.0
            .iter()
            .find(|(key, _)| key.starts_with(table))
            .map(|(_, setting)| setting)
    }

    /// The settings as a configuration, with defaults for the rest. Paths are as written.
    pub(crate) fn to_config(&self) -> Result<HarnessConfig, ConfigError> {
        let mut tree = Value::Object(Map::new());
        for (key, setting) in &self.0 {
            insert(&mut tree, key.segments(), &setting.value);
        }
        serde_json::from_value(tree).map_err(|source| ConfigError::Json { source })
    }
}

fn insert(tree: &mut Value, path: &[String], value: &Value) {
    let Value::Object(table) = tree else { return };
    match path {
        [] => {}
        [last] => {
            table.insert(last.clone(), value.clone());
        }
        [first, rest @ ..] => {
            let child = table
                .entry(first.clone())
                .or_insert_with(|| Value::Object(Map::new()));
            insert(child, rest, value);
        }
    }
}

/// Every value of a configuration with its key; secrets are redacted, absent values left out.
pub(crate) fn leaves(config: &HarnessConfig) -> Result<Vec<(KeyPath, Value)>, ConfigError> {
    let tree = serde_json::to_value(config).map_err(|source| ConfigError::Json { source })?;
    let mut found = Vec::new();
    collect(tree, KeyPath::root(), &mut found);
    Ok(found)
}

fn collect(tree: Value, key: KeyPath, found: &mut Vec<(KeyPath, Value)>) {
    match tree {
        Value::Object(table) => {
            for (name, value) in table {
                collect(value, key.child(&name), found);
            }
        }
        value => found.push((key, value)),
    }
}
