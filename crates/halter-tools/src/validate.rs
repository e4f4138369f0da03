//! Checking arguments against a tool's schema, in words a model can act on.

use crate::effort::Effort;
use crate::limits::{
    CHECK_STEPS, COUNTED_PROBLEMS, LISTED_PROBLEMS, SCHEMA_PATTERN_BACKTRACKS,
    SCHEMA_PATTERN_MEMORY_BYTES, SCHEMA_PATTERNS,
};
use crate::suggest::{nearest, shortened};
use halter_protocol::{ToolError, ToolErrorCode, ToolSpec};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{JsonType, PatternOptions, ValidationError, Validator};
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
///
/// A schema may come from anybody: one that repeats or nests itself so that a
/// small value takes for ever is not followed.
#[derive(Debug)]
pub struct SchemaCheck {
    schema: Value,
    compiled: Validator,
}

/// A schema that is not valid JSON Schema, or that cannot be checked against.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not valid JSON Schema: {0}")]
pub struct InvalidSchema(String);

/// A value and a schema that take too long to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a check against it takes more than {CHECK_STEPS} steps, or nests too deep")]
pub struct CheckTooLong;

impl SchemaCheck {
    /// Compiles a schema.
    ///
    /// # Errors
    /// If it is not valid JSON Schema, or has more than [`SCHEMA_PATTERNS`]
    /// patterns or too large ones. References to other documents are not
    /// followed and count as invalid.
    pub fn new(schema: Value) -> Result<Self, InvalidSchema> {
        let effort = Effort::of(&schema);
        if effort.patterns() > SCHEMA_PATTERNS {
            let reason = format!("it has more than {SCHEMA_PATTERNS} patterns");
            return Err(InvalidSchema(reason));
        }
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(SCHEMA_PATTERN_BACKTRACKS)
            .size_limit(SCHEMA_PATTERN_MEMORY_BYTES)
            .dfa_size_limit(SCHEMA_PATTERN_MEMORY_BYTES);
        let options = jsonschema::options().with_pattern_options(patterns);
        match options.build(&schema) {
            Ok(compiled) => Ok(Self { schema, compiled }),
            Err(error) => Err(InvalidSchema(error.to_string())),
        }
    }

    /// Whether a value can be compared with the schema in reasonable time.
    ///
    /// # Errors
    /// If it cannot.
    pub fn bounded(&self, value: &Value) -> Result<(), CheckTooLong> {
        match Effort::of(&self.schema).fits(value) {
            true => Ok(()),
            false => Err(CheckTooLong),
        }
    }

    /// What is wrong with a value, each problem once; of very many, the first
    /// [`LISTED_PROBLEMS`] and how many more there are. A value that cannot be
    /// compared in reasonable time has that problem alone.
    pub fn problems(&self, value: &Value) -> Vec<String> {
        if let Err(too_long) = self.bounded(value) {
            return vec![too_long.to_string()];
        }
        if self.compiled.is_valid(value) {
            return Vec::new();
        }
        let mut problems: Vec<String> = self
            .compiled
            .iter_errors(value)
            .take(COUNTED_PROBLEMS)
            .map(|error| describe(&error, &self.schema))
            .collect();
        let uncounted = match problems.len() < COUNTED_PROBLEMS {
            true => "",
            false => ", or even more than that",
        };
        problems.dedup();
        let unlisted = problems.len().saturating_sub(LISTED_PROBLEMS);
        problems.truncate(LISTED_PROBLEMS);
        if unlisted > 0 {
            problems.push(format!("and {unlisted} more{uncounted}"));
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
        check.bounded(arguments).map_err(|too_long| {
            ToolError::new(
                ToolErrorCode::Failed,
                format!(
                    "the arguments of '{}' cannot be compared with its schema: {too_long}; pass \
                     fewer, or have its author make the schema simpler",
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
    use crate::limits::CHECK_DEPTH;
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

        let check = SchemaCheck::new(json!({"items": {"type": "string"}})).unwrap();
        let problems = check.problems(&json!(vec![0; COUNTED_PROBLEMS + 1]));
        let unlisted = COUNTED_PROBLEMS - LISTED_PROBLEMS;
        assert_eq!(problems.len(), LISTED_PROBLEMS + 1);
        let more = format!("and {unlisted} more, or even more than that");
        assert_eq!(problems.last(), Some(&more));
    }

    #[test]
    fn a_tool_with_a_broken_schema_fails_and_says_whose_fault_it_is() {
        let error = check(json!({"type": "sometimes"}), json!({})).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Failed);
        assert!(error.message.contains("its author"), "{}", error.message);
    }

    /// A schema of parts of which each refers to the next one twice.
    fn doubling(keyword: &str) -> Value {
        let parts = 100;
        let mut named = serde_json::Map::new();
        for part in 0..parts {
            let next = json!({"$ref": format!("#/$defs/p{}", part + 1)});
            named.insert(format!("p{part}"), json!({keyword: [next, next]}));
        }
        named.insert(format!("p{parts}"), json!({"required": ["a"]}));
        json!({"type": "object", "$defs": named, "$ref": "#/$defs/p0"})
    }

    #[test]
    fn a_schema_that_would_be_followed_for_ever_is_refused_with_the_reason() {
        let own = json!({"$ref": "#/$defs/n"});
        let twice = json!({"properties": {"c": own}, "minProperties": 1});
        let inside = json!({"$defs": {"n": {"anyOf": [twice, twice]}}, "$ref": "#/$defs/n"});
        let deep = (0..60).fold(json!({}), |inner, _| json!({"c": inner}));
        let beside = (0..14).fold(
            json!({}),
            |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}),
        );
        let anchors =
            json!({"$ref": "#x", "$defs": {"x": {"$anchor": "x", "not": {"$ref": "#x"}}}});
        for (schema, arguments) in [
            (doubling("allOf"), json!({})),
            (doubling("oneOf"), json!({})),
            (json!({"$ref": "#"}), json!({})),
            (anchors, json!({})),
            (inside, deep),
            (beside, json!({"a": 1})),
        ] {
            let shown = shortened(&schema.to_string());
            let error = check(schema, arguments).unwrap_err();
            assert_eq!(error.code, ToolErrorCode::Failed, "{shown}");
            let reason = "cannot be compared with its schema: a check against it takes more than";
            assert!(error.message.contains(reason), "{shown}: {}", error.message);
        }
    }

    #[test]
    fn a_schema_that_calls_itself_is_followed_as_deep_as_the_stack_allows() {
        // A level of the value takes two of the schema: the part, and the reference to it.
        let tree = json!({
            "$defs": {"tree": {
                "type": "object",
                "properties": {"left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}},
                "additionalProperties": false,
            }},
            "$ref": "#/$defs/tree",
        });
        let nested = |levels: usize, leaf: Value| {
            let grown = |inner: Value, _| json!({"left": inner, "right": {}});
            (0..levels).fold(leaf, grown)
        };
        let deepest = CHECK_DEPTH / 2 - 1;
        assert_eq!(check(tree.clone(), nested(deepest, json!({}))), Ok(()));
        let wrong = check(tree.clone(), nested(deepest, json!({"middle": 1}))).unwrap_err();
        assert!(
            wrong.message.contains("`middle` is not a parameter"),
            "{wrong}"
        );
        let error = check(tree, nested(deepest + 1, json!({}))).unwrap_err();
        assert!(error.message.contains("nests too deep"), "{error}");
    }

    #[test]
    fn a_large_value_is_compared_up_to_the_limit() {
        let schema = json!({"items": {"type": "string"}});
        let steps_per_item = 2;
        let items = |count: usize| json!(vec![""; count]);
        let most = CHECK_STEPS / steps_per_item - 1;
        let compiled = SchemaCheck::new(schema).unwrap();
        assert_eq!(compiled.bounded(&items(most)), Ok(()));
        assert_eq!(compiled.bounded(&items(most + 1)), Err(CheckTooLong));
        assert_eq!(
            compiled.problems(&items(most + 1)),
            [CheckTooLong.to_string()]
        );
    }

    #[test]
    fn patterns_are_few_small_and_end() {
        let patterns = |count: usize| {
            let one = |n| (format!("p{n}"), json!({"pattern": "^a"}));
            json!({"properties": (0..count).map(one).collect::<serde_json::Map<_, _>>()})
        };
        assert!(SchemaCheck::new(patterns(SCHEMA_PATTERNS)).is_ok());
        let error = SchemaCheck::new(patterns(SCHEMA_PATTERNS + 1)).unwrap_err();
        assert!(
            error.to_string().contains("more than 200 patterns"),
            "{error}"
        );
        // A state of it takes more than a byte.
        let states = SCHEMA_PATTERN_MEMORY_BYTES / 1000;
        let large = json!({"pattern": format!("(?:[a-z]{{1000}}){{{states}}}")});
        assert!(SchemaCheck::new(large).is_err());
        // One that tries again and again gives up: what it says is not known.
        // Each letter doubles the ways to try.
        let letters = SCHEMA_PATTERN_BACKTRACKS.ilog2() as usize * 4;
        let stubborn = json!({"pattern": "^(?=(a+)+$)(a+)+b$"});
        let compiled = SchemaCheck::new(stubborn).unwrap();
        assert!(!compiled.problems(&json!("a".repeat(letters))).is_empty());
    }

    #[test]
    fn references_are_followed_by_place_name_and_address() {
        let node = json!({"type": "object", "properties": {"next": {"$ref": "T0"}}});
        let mut by_address = node.clone();
        by_address["$id"] = json!("T0");
        let schema = json!({
            "$id": "https://a.example/s",
            "properties": {
                "list": by_address,
                "place": {"$ref": "#/$defs/a%20b"},
                "name": {"$ref": "#n"},
                "whole": {"$ref": "https://a.example/s#/$defs/a%20b"},
            },
            "$defs": {"a b": {"type": "string"}, "n": {"$anchor": "n", "type": "string"}},
        });
        let right = json!({"list": {"next": {}}, "place": "", "name": "", "whole": ""});
        assert_eq!(check(schema.clone(), right), Ok(()));
        let wrong = json!({"list": {"next": 1}, "place": 1, "name": 1, "whole": 1});
        let message = check(schema, wrong).unwrap_err().message;
        for place in ["`list.next`", "`place`", "`name`", "`whole`"] {
            assert!(message.contains(place), "{message}");
        }
        let dialect = json!({"$ref": "https://json-schema.org/draft/2020-12/schema"});
        assert_eq!(check(dialect, json!({"type": "string"})), Ok(()));
    }

    #[test]
    fn parts_of_a_document_refer_to_each_other_by_relative_addresses() {
        let whole = json!({"$id": "https://a.example/b/text", "type": "string"});
        let rooted = json!({"$id": "/b/text", "type": "string"});
        let ways = [
            "text",
            "./text",
            "/b/text",
            "../b/text",
            "https://a.example/b/text",
        ];
        for (target, reference) in [&whole, &rooted]
            .into_iter()
            .flat_map(|it| ways.map(|way| (it, way)))
        {
            let schema = json!({
                "$id": "https://a.example/b/all",
                "properties": {"name": {"$ref": reference}},
                "$defs": {"text": target},
            });
            assert_eq!(
                check(schema.clone(), json!({"name": ""})),
                Ok(()),
                "{reference}"
            );
            let message = check(schema, json!({"name": 1})).unwrap_err().message;
            assert!(message.contains("`name`"), "{message}");
        }
        // Twice at each step is too often, however it is said.
        let twice = |name: &str| json!({"allOf": [{"$ref": name}, {"$ref": format!("./{name}")}]});
        let mut parts = serde_json::Map::new();
        for step in 0..30 {
            let mut part = twice(&format!("p{}", step + 1));
            part["$id"] = json!(format!("https://a.example/b/p{step}"));
            parts.insert(format!("p{step}"), part);
        }
        parts.insert("end".into(), json!({"$id": "https://a.example/b/p30"}));
        let schema = json!({"$id": "https://a.example/b/all", "$ref": "p0", "$defs": parts});
        let compiled = SchemaCheck::new(schema).unwrap();
        assert_eq!(compiled.bounded(&json!(1)), Err(CheckTooLong));
    }
}
