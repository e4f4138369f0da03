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

/// One problem: where, what was expected, what was given.
fn describe(error: &ValidationError<'_>, schema: &Value) -> String {
    let place = place(error.instance_path());
    let given = || shortened(&error.instance().to_string());
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
        ValidationErrorKind::Type { kind } => format!(
            "{place} must be {}, but {} was given",
            wanted_types(kind),
            typed_value(error.instance())
        ),
        ValidationErrorKind::Enum { options } => format!(
            "{place} must be one of {}, but {} was given",
            options_text(options),
            given()
        ),
        ValidationErrorKind::Constant { expected_value } => {
            format!(
                "{place} must be {expected_value}, but {} was given",
                given()
            )
        }
        ValidationErrorKind::Maximum { limit } => {
            format!("{place} must be at most {limit}, but {} was given", given())
        }
        ValidationErrorKind::Minimum { limit } => {
            format!(
                "{place} must be at least {limit}, but {} was given",
                given()
            )
        }
        ValidationErrorKind::MaxLength { limit } => format!(
            "{place} must have at most {limit} characters, but has {}",
            length(error.instance())
        ),
        ValidationErrorKind::MinLength { limit } => format!(
            "{place} must have at least {limit} characters, but has {}",
            length(error.instance())
        ),
        ValidationErrorKind::MaxItems { limit } => format!(
            "{place} must have at most {limit} items, but has {}",
            length(error.instance())
        ),
        ValidationErrorKind::MinItems { limit } => format!(
            "{place} must have at least {limit} items, but has {}",
            length(error.instance())
        ),
        ValidationErrorKind::MaxProperties { limit } => format!(
            "{place} must have at most {limit} entries, but has {}",
            length(error.instance())
        ),
        ValidationErrorKind::MinProperties { limit } => format!(
            "{place} must have at least {limit} entries, but has {}",
            length(error.instance())
        ),
        ValidationErrorKind::Pattern { pattern } => format!(
            "{place} must match the pattern {pattern}, but {} was given",
            given()
        ),
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            match forms(context, schema).as_slice() {
                [only] => only.clone(),
                many => format!(
                    "{place} fits none of the allowed forms ({})",
                    many.join(", or ")
                ),
            }
        }
        _ => format!("{place}: {}", shortened(&error.to_string())),
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

fn wanted_types(kind: &TypeKind) -> String {
    let types: Vec<JsonType> = match kind {
        TypeKind::Single(one) => vec![*one],
        TypeKind::Multiple(many) => many.into_iter().collect(),
    };
    // A value that may be null is one that may be left out: name the rest.
    let named: Vec<_> = types
        .iter()
        .filter(|one| types.len() == 1 || **one != JsonType::Null)
        .map(|one| type_name(*one))
        .collect();
    named.join(" or ")
}

fn type_name(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Array => "an array",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => "a string",
    }
}

/// A value with its type, which tells `"5"` from `5`.
fn typed_value(value: &Value) -> String {
    let shown = shortened(&value.to_string());
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => shown,
        Value::String(_) => format!("the string {shown}"),
        Value::Array(_) => format!("the array {shown}"),
        Value::Object(_) => format!("the object {shown}"),
    }
}

fn options_text(options: &Value) -> String {
    match options.as_array() {
        Some(list) => list
            .iter()
            .filter(|option| !option.is_null())
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join(", "),
        None => options.to_string(),
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(entries) => entries.len(),
        _ => 0,
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
                "`limit` must be a whole number, but the string \"5\" was given",
            ),
            (
                json!({"path": "a", "limit": 501}),
                "`limit` must be at most 500, but 501 was given",
            ),
            (
                json!({"path": "a", "limit": 0}),
                "`limit` must be at least 1, but 0 was given",
            ),
            (
                json!({"path": "a", "mode": "warp"}),
                "`mode` must be one of \"fast\", \"slow\", but \"warp\" was given",
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
                "`targets[1]` must be a string, but 7 was given",
            ),
            (
                json!({"path": "a", "targets": ["x", "y", "z"]}),
                "`targets` must have at most 2 items, but has 3",
            ),
            (
                json!({"path": "a", "env": {"LANG": true}}),
                "`env.LANG` must be a string, but true was given",
            ),
            (
                json!({"path": "abcdef"}),
                "`path` must have at most 5 characters, but has 6",
            ),
            (
                json!("path=a"),
                "the input must be an object, but the string \"path=a\" was given",
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
            message.contains(": `size.w` must be a whole number, but the string \"wide\""),
            "{message}"
        );
        let message = check(schema, json!({"id": "x"})).unwrap_err().message;
        assert!(
            message.contains(
                "`id` fits none of the allowed forms (`id` must be a whole number, but the \
                 string \"x\" was given, or `id` must have at least 2 characters, but has 1)"
            ),
            "{message}"
        );
    }

    #[test]
    fn several_problems_are_all_named_up_to_the_limit() {
        let text = problem(json!({"limit": 0, "mode": 1}));
        assert!(text.contains("`path` is required"), "{text}");
        assert!(text.contains("`limit` must be"), "{text}");
        assert!(text.contains("`mode` must be"), "{text}");

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
