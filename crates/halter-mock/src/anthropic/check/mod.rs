//! What a strict Anthropic server refuses.

mod cache;
mod messages;
mod tools;

use crate::codec::{ModelRequest, Problem};
use crate::fields::{self, AllRequired};
use serde_json::Value;

/// The version that removed the sampling parameters.
const STRICT_VERSION: &str = "2026-10-21";
/// The version before it, still served.
const OLD_VERSION: &str = "2023-06-01";

const FIELDS: &str = "model max_tokens messages system tools tool_choice thinking output_config \
    cache_control stop_sequences metadata service_tier speed inference_geo container \
    diagnostics user_profile_id stream output_format betas";
const SAMPLING_FIELDS: &str = "temperature top_p top_k";
const BETA_FIELDS: &str =
    "context_management compaction mcp_servers fallbacks fallback_credit_token thread";

/// The betas that the vendor's SDKs and well-known clients name.
const BETAS: &str = "advanced-tool-use-2025-11-20 advisor-tool-2026-03-01 afk-mode-2026-01-31 \
    agent-memory-2026-07-22 cache-diagnosis-2026-04-07 claude-code-20250219 \
    code-execution-2025-05-22 code-execution-2025-08-25 code-execution-web-tools-2026-02-09 \
    compact-2026-01-12 compact-2026-09-04 computer-use-2024-10-22 computer-use-2025-01-24 \
    computer-use-2025-11-24 context-1m-2025-08-07 context-hint-2026-04-09 \
    context-management-2025-06-27 dangerous-tool-use-2026-09-03 dev-full-thinking-2025-05-14 \
    effort-2025-11-24 extended-cache-ttl-2025-04-11 fallback-credit-2026-06-01 \
    fallback-credit-2026-07-01 fast-mode-2026-02-01 files-api-2025-04-14 \
    fine-grained-tool-streaming-2025-05-14 inline-tools-2026-09-15 \
    interleaved-thinking-2025-05-14 managed-agents-2026-04-01 mcp-client-2025-04-04 \
    mcp-client-2025-11-20 mcp-client-2026-09-15 message-batches-2024-09-24 \
    message-threads-2026-08-12 mid-conversation-output-config-2026-07-01 \
    mid-conversation-system-2026-04-07 mid-conversation-system-clear-at-2026-08-21 \
    mid-conversation-tool-changes-2026-07-01 model-context-window-exceeded-2025-08-26 \
    oauth-2025-04-20 output-128k-2025-02-19 output-300k-2026-03-24 pdfs-2024-09-25 \
    prompt-caching-2024-07-31 prompt-caching-scope-2026-01-05 redact-thinking-2026-02-12 \
    server-side-fallback-2026-06-01 server-side-fallback-2026-07-01 skills-2025-10-02 \
    structured-outputs-2025-11-13 structured-outputs-2025-12-15 \
    summarize-connector-text-2026-03-13 task-budgets-2026-03-13 \
    thinking-binding-controls-2026-08-01 thinking-display-updates-2026-08-18 \
    thinking-token-count-2026-05-13 token-counting-2024-11-01 \
    token-efficient-tools-2025-02-19 tool-examples-2025-10-29 tool-search-tool-2025-10-19 \
    user-profiles-2026-03-24 user-profiles-2026-08-18 user-profiles-2026-09-04 \
    web-fetch-2025-09-10 web-search-2025-03-05";

pub(super) fn check(request: &ModelRequest<'_>) -> Result<(), Problem> {
    let version = check_headers(request)?;
    let body = request.body;
    check_betas(request)?;
    check_fields(request, version)?;
    check_thread(body)?;
    match fields::text(body, "model") {
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
    super::compaction::check(request)?;
    messages::check(request, version)?;
    cache::check(body)
}

fn check_headers<'a>(request: &ModelRequest<'a>) -> Result<&'a str, Problem> {
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

fn check_betas(request: &ModelRequest<'_>) -> Result<(), Problem> {
    let named = request.header("anthropic-beta").unwrap_or_default();
    let mut unknown = named
        .split(',')
        .map(str::trim)
        .filter(|beta| request.strict && !beta.is_empty() && !fields::is_word(beta, BETAS));
    match unknown.next() {
        Some(beta) => Err(Problem::invalid(format!(
            "Unexpected value(s) `{beta}` for the `anthropic-beta` header. Please consult our documentation or try again without the header."
        ))),
        None => Ok(()),
    }
}

/// The service keeps no threads. A client that is told so by this code sends
/// the whole conversation in a new thread.
fn check_thread(body: &Value) -> Result<(), Problem> {
    let thread = fields::present(body, "thread");
    match thread.map(fields::kind) {
        None | Some("create") => Ok(()),
        Some("continue") => Err(
            Problem::new(404, "The thread was not found or has expired.")
                .with_code("thread_not_found"),
        ),
        Some(_) => Err(Problem::invalid(
            "thread.type: Input should be 'create' or 'continue'",
        )),
    }
}

fn check_fields(request: &ModelRequest<'_>, version: &str) -> Result<(), Problem> {
    for field in fields::object(request.body)?.keys() {
        let field = field.as_str();
        let sampling = fields::is_word(field, SAMPLING_FIELDS);
        let allowed = fields::is_word(field, FIELDS)
            || (!request.strict && !sampling)
            || (sampling && version == OLD_VERSION)
            || (fields::is_word(field, BETA_FIELDS) && request.header("anthropic-beta").is_some());
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
        .is_some_and(|choice| matches!(fields::kind(choice), "any" | "tool"));
    if max_tokens == 0 && (fields::flag(body, "stream") || forced) {
        return Err(Problem::invalid(
            "max_tokens: 0 is not allowed with `stream` or a forced `tool_choice`",
        ));
    }
    Ok(())
}

fn check_thinking(body: &Value) -> Result<(), Problem> {
    let Some(thinking) = fields::present(body, "thinking") else {
        return Ok(());
    };
    let model = fields::text(body, "model").unwrap_or_default();
    let effort = body
        .get("output_config")
        .and_then(|config| fields::text(config, "effort"));
    let kind = fields::kind(thinking);
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
    let Some(config) = fields::present(body, "output_config") else {
        return Ok(());
    };
    let efforts = ["low", "medium", "high", "xhigh", "max"];
    if fields::text(config, "effort").is_some_and(|effort| !efforts.contains(&effort)) {
        return Err(Problem::invalid(
            "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'",
        ));
    }
    let Some(format) = fields::present(config, "format") else {
        return Ok(());
    };
    if fields::kind(format) != "json_schema" {
        return Err(Problem::invalid(
            "output_config.format.type: Input should be 'json_schema'",
        ));
    }
    let at = "output_config.format.schema";
    let schema = fields::present(format, "schema");
    fields::tool_schema(schema).map_err(|reason| Problem::invalid(format!("{at}: {reason}")))?;
    schema.map_or(Ok(()), |schema| {
        fields::strict_schema(schema, AllRequired::No)
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
    let choice = body.get("tool_choice").map(fields::kind);
    if matches!(choice, Some("any" | "tool")) {
        return Err(Problem::invalid(
            "Thinking may not be enabled when tool_choice forces tool use.",
        ));
    }
    Ok(())
}

fn check_system(body: &Value) -> Result<(), Problem> {
    match fields::present(body, "system") {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                if fields::kind(block) != "text" {
                    return Err(Problem::invalid(format!(
                        "system.{index}.type: Input should be 'text'"
                    )));
                }
                if fields::text(block, "text").is_none_or(|text| text.trim().is_empty()) {
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
