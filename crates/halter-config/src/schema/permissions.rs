//! `[permissions]`: what is asked, what is never asked, what never happens.

use std::borrow::Cow;

use halter_protocol::{PermissionMode, RuleSource};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Location;

/// The permission mode and its rules. `[policy]` holds whatever they say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PermissionsConfig {
    /// What is asked where no rule decides.
    pub mode: PermissionMode,
    /// Calls that need no question. Layers add up.
    pub allow: Vec<RuleConfig>,
    /// Calls that a person decides about. Layers add up.
    pub ask: Vec<RuleConfig>,
    /// Calls that never run. Layers add up.
    pub deny: Vec<RuleConfig>,
}

/// A permission rule, such as `Bash(git push:*)`; in a file a string, or a table with examples
/// that are checked when the file is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleConfig {
    /// The rule.
    pub rule: String,
    /// Commands, paths or hosts that it must cover.
    pub matches: Vec<String>,
    /// Commands, paths or hosts that it must not cover.
    pub not_matches: Vec<String>,
    /// Who wrote it.
    pub source: RuleSource,
    /// Where it is written, if a file says it.
    pub place: Option<Location>,
}

impl From<&str> for RuleConfig {
    fn from(rule: &str) -> Self {
        Self {
            rule: rule.to_owned(),
            ..Self::default()
        }
    }
}

/// A rule as files have it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum WrittenRule {
    Text(String),
    WithExamples(RuleWithExamples),
}

/// A rule with examples.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RuleWithExamples {
    /// The rule.
    rule: String,
    /// Commands, paths or hosts that it must cover.
    #[serde(default, rename = "match")]
    matches: Vec<String>,
    /// Commands, paths or hosts that it must not cover.
    #[serde(default, rename = "not_match")]
    not_matches: Vec<String>,
}

impl Serialize for RuleConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.matches.is_empty() && self.not_matches.is_empty() {
            return WrittenRule::Text(self.rule.clone()).serialize(serializer);
        }
        let written = RuleWithExamples {
            rule: self.rule.clone(),
            matches: self.matches.clone(),
            not_matches: self.not_matches.clone(),
        };
        WrittenRule::WithExamples(written).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RuleConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match WrittenRule::deserialize(deserializer)? {
            WrittenRule::Text(rule) => rule.as_str().into(),
            WrittenRule::WithExamples(written) => Self {
                rule: written.rule,
                matches: written.matches,
                not_matches: written.not_matches,
                ..Self::default()
            },
        })
    }
}

impl JsonSchema for RuleConfig {
    fn schema_name() -> Cow<'static, str> {
        "Rule".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let with_examples = generator.subschema_for::<RuleWithExamples>();
        json_schema!({
            "description": "A permission rule, such as `Bash(git push:*)`.",
            "anyOf": [{ "type": "string", "minLength": 1 }, with_examples]
        })
    }
}
