//! Checking arguments against a tool's schema, in words a model can act on.

use crate::limits::LISTED_PROBLEMS;
use crate::suggest::{nearest, shortened};
use halter_protocol::{ToolError, ToolErrorCode, ToolSpec};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{JsonType, ValidationError, Validator};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// A JSON Schema, compiled, that says what is wrong with a value in words a
/// model can act on.
///
/// ```
/// use halter_tools::SchemaCheck;
/// use serde_json::json;
///
/// let check = SchemaCheck::new(json!({"type": "object", "required": ["name"]}))?;
/// assert_eq!(check.problems(&json!({})), ["`name` is required and missing"]);
/// assert!(check.problems(&json!({"name": "Ada"})).is_empty());
/// assert!(SchemaCheck::new(json!({"type": "sometimes"})).is_err());
/// # Ok::<(), halter_tools::InvalidSchema>(())
/// ```
#[derive(Debug)]
pub struct SchemaCheck {
    schema: Value,
    compiled: Validator,
}

/// A schema that is not valid JSON Schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not valid JSON Schema: {0}")]
pub struct InvalidSchema(String);

impl SchemaCheck {
    /// Compiles a schema.
    ///
    /// # Errors
    /// If it is not valid JSON Schema. References to other documents are not
    /// followed and count as invalid.
    pub fn new(schema: Value) -> Result<Self, InvalidSchema> {
        match jsonschema::validator_for(&schema) {
            Ok(compiled) => Ok(Self { schema, compiled }),
            Err(error) => Err(InvalidSchema(error.to_string())),
        }
    }

    /// What is wrong with a value, each problem once; of very many, the first
    /// [`LISTED_PROBLEMS`] and how many more there are.
    pub fn problems(&self, value: &Value) -> Vec<String> {
        if self.compiled.is_valid(value) {
            return Vec::new();
        }
        let mut problems: Vec<String> = self
            .compiled
            .iter_errors(value)
            .map(|error| describe(&error, &self.schema))
            .collect();
        problems.dedup();
        let unlisted = problems.len().saturating_sub(LISTED_PROBLEMS);
        problems.truncate(LISTED_PROBLEMS);
        if unlisted > 0 {
            problems.push(format!("and {unlisted} more"));
        }
        problems
    }
}

/// The schema of one tool, compiled when first needed and then kept.
pub(crate) struct ArgumentCheck {
    spec: Arc<ToolSpec>,
    compiled: OnceLock<Result<SchemaCheck, InvalidSchema>>,
}

impl ArgumentCheck {
    pub(crate) fn new(spec: Arc<ToolSpec>) -> Self {
        Self {
            spec,
            compiled: OnceLock::new(),
        }
    }

    /// Refuses arguments that do not fit, naming every problem.
    pub(crate) fn check(&self, arguments: &Value) -> Result<(), ToolError> {
        let compiled = self
            .compiled
            .get_or_init(|| SchemaCheck::new(self.spec.input_schema.clone()));
        let check = compiled.as_ref().map_err(|InvalidSchema(error)| {
            ToolError::new(
                ToolErrorCode::Failed,
                format!(
                    "the tool '{}' declares an input schema that is not valid JSON Schema: \
                     {error}; its author must repair it",
                    self.spec.name
                ),
            )
        })?;
        let problems = check.problems(arguments);
        if problems.is_empty() {
            return Ok(());
        }
        Err(ToolError::new(
            ToolErrorCode::InvalidArguments,
            format!(
                "the arguments of '{}' do not fit its schema: {}. \
                 Correct them and call the tool again.",
                self.spec.name,
                problems.join("; ")
            ),
        ))
    }
}

/// One problem: where, what was given, what was expected.
fn describe(error: &ValidationError<'_>, schema: &Value) -> String {
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let inside = inside(error.instance_path());
            format!("`{name}` is required{inside} and missing")
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let inside = inside(error.instance_path());
            let known = known_properties(error, schema);
            unexpected
                .iter()
                .map(|name| unexpected_property(name, &inside, &known))
                .collect::<Vec<_>>()
                .join("; ")
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            match forms(context, schema).as_slice() {
                [only] => only.clone(),
                many => format!(
                    "{} fits none of the allowed forms ({})",
                    place(error.instance_path()),
                    many.join(", or ")
                ),
            }
        }
        _ => {
            let given = shortened(&error.instance().to_string());
            let place = place(error.instance_path());
            format!("{place}: {}", error.masked_with(given))
        }
    }
}

/// Why each form was refused, so that a model can choose one and repair it.
/// That it could also be null says nothing about a value that is given.
fn forms(context: &[Vec<ValidationError<'static>>], schema: &Value) -> Vec<String> {
    let wants_null = |error: &ValidationError<'_>| {
        matches!(
            error.kind(),
            ValidationErrorKind::Type {
                kind: TypeKind::Single(JsonType::Null)
            }
        )
    };
    context
        .iter()
        .filter_map(|errors| errors.first())
        .filter(|error| !wants_null(error))
        .take(LISTED_PROBLEMS)
        .map(|error| describe(error, schema))
        .collect()
}

fn unexpected_property(name: &str, inside: &str, known: &[&str]) -> String {
    let shown = shortened(name);
    match nearest(name, known.iter().copied(), |candidate| candidate) {
        Some(near) => format!("`{shown}` is not a parameter{inside}; did you mean `{near}`?"),
        None if known.is_empty() => format!("`{shown}` is not a parameter{inside}"),
        None => format!(
            "`{shown}` is not a parameter{inside}; the parameters are {}",
            known.join(", ")
        ),
    }
}

/// The property names of the object schema that refused the instance.
fn known_properties<'s>(error: &ValidationError<'_>, schema: &'s Value) -> Vec<&'s str> {
    let pointer = error.schema_path().as_str();
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    schema
        .pointer(parent)
        .and_then(|object| object.get("properties"))
        .and_then(Value::as_object)
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

/// The JSON path of a value: `env.LANG`, `targets[2]`.
fn place(location: &Location) -> String {
    let mut text = String::new();
    for segment in location.segments() {
        match segment {
            LocationSegment::Property(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(&name);
            }
            LocationSegment::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    match text.is_empty() {
        true => "the input".to_owned(),
        false => format!("`{text}`"),
    }
}

fn inside(location: &Location) -> String {
    match location.is_empty() {
        true => String::new(),
        false => format!(" in {}", place(location)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::{ToolCapabilities, ToolConcurrency};
    use serde_json::json;

    fn check(schema: Value, arguments: Value) -> Result<(), ToolError> {
        ArgumentCheck::new(Arc::new(ToolSpec {
            name: "probe".into(),
            description: String::new(),
            input_schema: schema,
            concurrency: ToolConcurrency::Exclusive,
            capabilities: ToolCapabilities::default(),
            provider_aliases: Default::default(),
        }))
        .check(&arguments)
    }

    fn problem(arguments: Value) -> String {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "maxLength": 5},
                "limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 500},
                "mode": {"enum": ["fast", "slow"]},
                "targets": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
                "env": {"type": "object", "additionalProperties": {"type": "string"}}
            },
            "required": ["path"],
            "additionalProperties": false
        });
        let error = check(schema, arguments).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::InvalidArguments);
        error
            .message
            .strip_prefix("the arguments of 'probe' do not fit its schema: ")
            .unwrap()
            .strip_suffix(". Correct them and call the tool again.")
            .unwrap()
            .to_owned()
    }

    #[test]
    fn each_problem_names_the_place_the_expectation_and_the_value() {
        for (arguments, expected) in [
            (json!({}), "`path` is required and missing"),
            (
                json!({"path": "a", "limit": "5"}),
                "`limit`: \"5\" is not of types \"null\", \"integer\"",
            ),
            (
                json!({"path": "a", "limit": 501}),
                "`limit`: 501 is greater than the maximum of 500",
            ),
            (
                json!({"path": "a", "limit": 0}),
                "`limit`: 0 is less than the minimum of 1",
            ),
            (
                json!({"path": "a", "mode": "warp"}),
                "`mode`: \"warp\" is not one of \"fast\" or \"slow\"",
            ),
            (
                json!({"path": "a", "limt": 3}),
                "`limt` is not a parameter; did you mean `limit`?",
            ),
            (
                json!({"path": "a", "unrelated": 3}),
                "`unrelated` is not a parameter; the parameters are path, limit, mode, targets, env",
            ),
            (
                json!({"path": "a", "targets": ["x", 7]}),
                "`targets[1]`: 7 is not of type \"string\"",
            ),
            (
                json!({"path": "a", "targets": ["x", "y", "z"]}),
                "`targets`: [\"x\",\"y\",\"z\"] has more than 2 items",
            ),
            (
                json!({"path": "a", "env": {"LANG": true}}),
                "`env.LANG`: true is not of type \"string\"",
            ),
            (
                json!({"path": "abcdef"}),
                "`path`: \"abcdef\" is longer than 5 characters",
            ),
            (
                json!("path=a"),
                "the input: \"path=a\" is not of type \"object\"",
            ),
        ] {
            assert_eq!(problem(arguments), expected);
        }
    }

    #[test]
    fn of_several_forms_each_says_what_is_wrong() {
        let schema = json!({
            "type": "object",
            "properties": {
                "size": {"anyOf": [
                    {"type": "object", "properties": {"w": {"type": "integer"}}, "required": ["w"]},
                    {"type": "null"}
                ]},
                "id": {"oneOf": [{"type": "integer"}, {"type": "string", "minLength": 2}]}
            }
        });
        let message = check(schema.clone(), json!({"size": {"w": "wide"}}))
            .unwrap_err()
            .message;
        assert!(
            message.contains("`size.w`: \"wide\" is not of type \"integer\""),
            "{message}"
        );
        let message = check(schema, json!({"id": "x"})).unwrap_err().message;
        assert!(
            message.contains(
                "`id` fits none of the allowed forms (`id`: \"x\" is not of type \"integer\", \
                 or `id`: \"x\" is shorter than 2 characters)"
            ),
            "{message}"
        );
    }

    #[test]
    fn several_problems_are_all_named_up_to_the_limit() {
        let text = problem(json!({"limit": 0, "mode": 1}));
        assert!(text.contains("`path` is required"), "{text}");
        assert!(text.contains("`limit`: "), "{text}");
        assert!(text.contains("`mode`: "), "{text}");

        let many: Vec<u32> = (0..LISTED_PROBLEMS as u32 + 1).collect();
        let schema = json!({"type": "array", "items": {"type": "string"}});
        let message = check(schema, json!(many)).unwrap_err().message;
        assert!(message.contains("; and 1 more."), "{message}");
    }

    #[test]
    fn a_tool_with_a_broken_schema_fails_and_says_whose_fault_it_is() {
        let error = check(json!({"type": "sometimes"}), json!({})).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Failed);
        assert!(error.message.contains("its author"), "{}", error.message);
    }
}
