//! What a strict Anthropic server refuses.

mod cache;
mod messages;
mod tools;

use crate::codec::{Problem, Request};
use crate::look::{self, AllRequired};
use serde_json::Value;

/// The version that removed the sampling parameters.
const STRICT_VERSION: &str = "2026-10-21";
/// The version before it, still served.
const OLD_VERSION: &str = "2023-06-01";

const FIELDS: [&str; 20] = [
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "cache_control",
    "stop_sequences",
    "metadata",
    "service_tier",
    "speed",
    "inference_geo",
    "container",
    "diagnostics",
    "user_profile_id",
    "stream",
    "output_format",
    "betas",
];
const SAMPLING_FIELDS: [&str; 3] = ["temperature", "top_p", "top_k"];
const BETA_FIELDS: [&str; 6] = [
    "context_management",
    "compaction",
    "mcp_servers",
    "fallbacks",
    "fallback_credit_token",
    "thread",
];

pub(super) fn check(request: &Request<'_>) -> Result<(), Problem> {
    let version = check_headers(request)?;
    let body = request.body;
    check_fields(request, version)?;
    match look::text(body, "model") {
        Some(model) if !model.is_empty() => {}
        _ => return Err(required("model")),
    }
    if !request.counting {
        check_max_tokens(body)?;
    }
    check_thinking(body)?;
    check_output_config(body)?;
    check_system(body)?;
    tools::check(body)?;
    messages::check(body, version)?;
    cache::check(body)
}

fn check_headers<'a>(request: &Request<'a>) -> Result<&'a str, Problem> {
    let version = request
        .header("anthropic-version")
        .ok_or_else(|| Problem::invalid("anthropic-version: header is required"))?;
    if ![STRICT_VERSION, OLD_VERSION].contains(&version) {
        return Err(Problem::invalid(format!(
            "anthropic-version: \"{version}\" is not a valid version"
        )));
    }
    let is_json = request
        .header("content-type")
        .is_some_and(|kind| kind.starts_with("application/json"));
    if is_json {
        Ok(version)
    } else {
        Err(Problem::invalid("content-type: must be application/json"))
    }
}

fn check_fields(request: &Request<'_>, version: &str) -> Result<(), Problem> {
    for field in look::object(request.body)?.keys() {
        let field = field.as_str();
        let allowed = FIELDS.contains(&field)
            || (SAMPLING_FIELDS.contains(&field) && version == OLD_VERSION)
            || (BETA_FIELDS.contains(&field) && request.header("anthropic-beta").is_some());
        if !allowed {
            return Err(extra(field));
        }
    }
    Ok(())
}

fn check_max_tokens(body: &Value) -> Result<(), Problem> {
    let Some(max_tokens) = body.get("max_tokens") else {
        return Err(required("max_tokens"));
    };
    let Some(max_tokens) = max_tokens.as_u64() else {
        return Err(Problem::invalid(
            "max_tokens: Input should be a valid non-negative integer",
        ));
    };
    let forced = body
        .get("tool_choice")
        .is_some_and(|choice| matches!(look::kind(choice), "any" | "tool"));
    if max_tokens == 0 && (look::flag(body, "stream") || forced) {
        return Err(Problem::invalid(
            "max_tokens: 0 is not allowed with `stream` or a forced `tool_choice`",
        ));
    }
    Ok(())
}

fn check_thinking(body: &Value) -> Result<(), Problem> {
    let Some(thinking) = look::present(body, "thinking") else {
        return Ok(());
    };
    let model = look::text(body, "model").unwrap_or_default();
    let effort = body
        .get("output_config")
        .and_then(|config| look::text(config, "effort"));
    let kind = look::kind(thinking);
    let family = |names: &[&str]| names.iter().any(|name| model.contains(name));
    let refused = match kind {
        "adaptive" => family(&["-4-5"]),
        "enabled" => family(&[
            "fable", "mythos", "opus-5", "sonnet-5", "opus-4-8", "opus-4-7",
        ]),
        "disabled" => {
            family(&["fable", "mythos"])
                || (family(&["opus-5"]) && matches!(effort, Some("xhigh" | "max")))
        }
        "between_tools" => false,
        _ => {
            return Err(Problem::invalid(
                "thinking.type: Input should be 'adaptive', 'enabled', 'disabled' or 'between_tools'",
            ));
        }
    };
    if refused {
        return Err(Problem::invalid(format!(
            "thinking.type: \"{kind}\" is not supported by {model} with these settings"
        )));
    }
    if kind == "enabled" {
        check_budget(body, thinking)?;
    }
    Ok(())
}

fn check_output_config(body: &Value) -> Result<(), Problem> {
    let Some(config) = look::present(body, "output_config") else {
        return Ok(());
    };
    let efforts = ["low", "medium", "high", "xhigh", "max"];
    if look::text(config, "effort").is_some_and(|effort| !efforts.contains(&effort)) {
        return Err(Problem::invalid(
            "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'",
        ));
    }
    let Some(format) = look::present(config, "format") else {
        return Ok(());
    };
    if look::kind(format) != "json_schema" {
        return Err(Problem::invalid(
            "output_config.format.type: Input should be 'json_schema'",
        ));
    }
    let at = "output_config.format.schema";
    let schema = look::present(format, "schema");
    look::tool_schema(schema).map_err(|reason| Problem::invalid(format!("{at}: {reason}")))?;
    schema.map_or(Ok(()), |schema| {
        look::strict_schema(schema, AllRequired::No)
            .map_err(|reason| Problem::invalid(format!("{at}: {reason}")))
    })
}

fn check_budget(body: &Value, thinking: &Value) -> Result<(), Problem> {
    let budget = thinking
        .get("budget_tokens")
        .and_then(Value::as_u64)
        .ok_or_else(|| required("thinking.enabled.budget_tokens"))?;
    if budget < 1024 {
        return Err(Problem::invalid(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        ));
    }
    let max_tokens = body.get("max_tokens").and_then(Value::as_u64);
    if max_tokens.is_some_and(|max| budget >= max) {
        return Err(Problem::invalid(
            "`max_tokens` must be greater than `thinking.budget_tokens`",
        ));
    }
    let choice = body.get("tool_choice").map(look::kind);
    if matches!(choice, Some("any" | "tool")) {
        return Err(Problem::invalid(
            "Thinking may not be enabled when tool_choice forces tool use.",
        ));
    }
    Ok(())
}

fn check_system(body: &Value) -> Result<(), Problem> {
    match look::present(body, "system") {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                if look::kind(block) != "text" {
                    return Err(Problem::invalid(format!(
                        "system.{index}.type: Input should be 'text'"
                    )));
                }
                if look::text(block, "text").is_none_or(|text| text.trim().is_empty()) {
                    return Err(Problem::invalid(format!(
                        "system: text content blocks must be non-empty (block {index})"
                    )));
                }
            }
            Ok(())
        }
        Some(_) => Err(Problem::invalid(
            "system: Input should be a string or a list",
        )),
    }
}

fn required(field: &str) -> Problem {
    Problem::invalid(format!("{field}: Field required"))
}

fn extra(field: &str) -> Problem {
    Problem::invalid(format!("{field}: Extra inputs are not permitted"))
}
