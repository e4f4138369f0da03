//! What the two OpenAI wires have in common: keys, errors, models, limits of
//! the reasoning models.

use crate::codec::{ModelRequest, Problem};
use crate::fields::{self, AllRequired};
use crate::media;
use crate::model_answer::CREATED;
use crate::models::ModelEntry;
use crate::wire::Dialect;
use serde_json::{Value, json};

pub(crate) fn authenticate<'a>(request: &ModelRequest<'a>) -> Result<Option<&'a str>, Problem> {
    match (request.bearer(), request.dialect) {
        (Some(key), _) => Ok(Some(key)),
        (None, Dialect::Local) => Ok(None),
        (None, _) => Err(Problem::new(
            401,
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        )
        .with_code("missing_api_key")),
    }
}

pub(crate) fn check_content_type(request: &ModelRequest<'_>) -> Result<(), Problem> {
    match request.header("content-type") {
        Some(kind) if kind.starts_with("application/json") => Ok(()),
        _ => Err(
            Problem::invalid("Unsupported content type: expected 'application/json'.")
                .with_code("unsupported_content_type"),
        ),
    }
}

pub(crate) fn error_body(problem: &Problem, dialect: Dialect) -> Value {
    if dialect == Dialect::OpenRouter {
        return json!({"error": {
            "code": problem.status,
            "message": problem.message,
            "metadata": {"error_type": problem.code, "provider_name": "mock"},
        }});
    }
    json!({"error": {
        "message": problem.message,
        "type": error_type(problem),
        "param": problem.param,
        "code": problem.code,
    }})
}

pub(crate) fn error_type(problem: &Problem) -> &str {
    match (&problem.kind, problem.status) {
        (Some(kind), _) => kind,
        (None, 429) if problem.code.as_deref() == Some("insufficient_quota") => {
            "insufficient_quota"
        }
        (None, 429) => "rate_limit_error",
        (None, 500..) => "server_error",
        (None, _) => "invalid_request_error",
    }
}

/// The finer code of an error event.
pub(crate) fn error_code(problem: &Problem) -> &str {
    match (&problem.code, problem.status) {
        (Some(code), _) => code,
        (None, 429) => "rate_limit_exceeded",
        (None, 503) => "server_is_overloaded",
        (None, 500..) => "server_error",
        (None, _) => "invalid_prompt",
    }
}

pub(crate) fn model(entry: &ModelEntry) -> Value {
    json!({
        "id": entry.id,
        "object": "model",
        "created": CREATED,
        "owned_by": "mock",
        "context_length": entry.input_tokens,
        "top_provider": {
            "context_length": entry.input_tokens,
            "max_completion_tokens": entry.output_tokens,
        },
    })
}

/// Whether the model reasons, by its name: those refuse sampling parameters.
pub(crate) fn is_reasoning_model(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let numbered = name
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()));
    numbered || name.starts_with("gpt-5")
}

pub(crate) fn unsupported(param: &str) -> Problem {
    Problem::invalid(format!(
        "Unsupported parameter: '{param}' is not supported with this model."
    ))
    .at(param)
    .with_code("unsupported_parameter")
}

pub(crate) fn unknown(param: &str) -> Problem {
    Problem::invalid(format!("Unknown parameter: '{param}'."))
        .at(param)
        .with_code("unknown_parameter")
}

pub(crate) fn missing(param: &str) -> Problem {
    Problem::invalid(format!("Missing required parameter: '{param}'."))
        .at(param)
        .with_code("missing_required_parameter")
}

pub(crate) fn bad_type(param: &str, expected: &str) -> Problem {
    Problem::invalid(format!("Invalid type for '{param}': expected {expected}."))
        .at(param)
        .with_code("invalid_type")
}

/// The name, the parameters and the strictness of a function.
pub(crate) fn check_function(function: &Value, at: &str) -> Result<(), Problem> {
    let name = fields::text(function, "name").ok_or_else(|| missing(&format!("{at}.name")))?;
    if !fields::is_name(name, 64, "") {
        let told = format!(
            "Invalid '{at}.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        );
        return Err(bad_value(&format!("{at}.name"), told));
    }
    let refuse = |reason: String| {
        Problem::invalid(format!("Invalid schema for function '{name}': {reason}."))
            .at(format!("{at}.parameters"))
            .with_code("invalid_function_parameters")
    };
    match fields::present(function, "parameters") {
        Some(schema) => check_schema(schema, fields::flag(function, "strict")).map_err(refuse),
        None => Ok(()),
    }
}

/// The form that an answer is to have.
pub(crate) fn check_answer_format(format: &Value, at: &str) -> Result<(), Problem> {
    if !fields::text(format, "name").is_some_and(|name| fields::is_name(name, 64, "")) {
        return Err(missing(&format!("{at}.name")));
    }
    let schema = fields::present(format, "schema");
    let schema = schema.ok_or_else(|| missing(&format!("{at}.schema")))?;
    check_schema(schema, fields::flag(format, "strict")).map_err(|reason| {
        Problem::invalid(format!("Invalid schema for response_format: {reason}."))
            .at(at)
            .with_code("invalid_json_schema")
    })
}

/// The error is the end of a sentence.
fn check_schema(schema: &Value, strict: bool) -> Result<(), String> {
    fields::tool_schema(Some(schema))?;
    match strict {
        true => fields::strict_schema(schema, AllRequired::Yes),
        false => Ok(()),
    }
}

/// An image of which the address is, or holds, the data.
pub(crate) fn check_image_url(url: &str, at: &str) -> Result<(), Problem> {
    media::check_url(url, &media::IMAGES, true)
        .map_err(|reason| bad_value(at, format!("Invalid '{at}'. {reason}")))
}

/// A file, by its id, its address or its data.
pub(crate) fn check_file(file: &Value, at: &str) -> Result<(), Problem> {
    let named = |key: &str| fields::text(file, key).is_some();
    let Some(data) = fields::text(file, "file_data") else {
        return match named("file_id") || named("file_url") {
            true => Ok(()),
            false => Err(missing(&format!("{at}.file_id"))),
        };
    };
    if !named("filename") {
        return Err(missing(&format!("{at}.filename")));
    }
    let at = format!("{at}.file_data");
    media::check_url(data, &[media::PDF], false)
        .map_err(|reason| bad_value(&at, format!("Invalid '{at}'. {reason}")))
}

/// The refusal of images by a model that takes text alone.
pub(crate) fn no_images(at: &str) -> Problem {
    bad_value(
        at,
        "Invalid content type. image_url is only supported by certain models.",
    )
}

pub(crate) fn bad_value(param: &str, message: impl Into<String>) -> Problem {
    Problem::invalid(message)
        .at(param)
        .with_code("invalid_value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_models_are_told_by_their_names() {
        for name in ["o3", "o4-mini", "gpt-5.6", "openai/gpt-5"] {
            assert!(is_reasoning_model(name), "{name}");
        }
        for name in ["gpt-4o", "mock-large", "olmo", "qwen3"] {
            assert!(!is_reasoning_model(name), "{name}");
        }
    }
}
