//! Tools and the choice among them.

use super::{extra, required};
use crate::anthropic::references;
use crate::codec::Problem;
use crate::fields::{self, AllRequired};
use serde_json::Value;
use std::collections::HashSet;

const FIELDS: &str = "name description input_schema type cache_control strict defer_loading \
    eager_input_streaming input_examples allowed_callers output_schema";

/// Strict tools one request may hold.
const MAX_STRICT_TOOLS: usize = 20;

pub(super) fn check(body: &Value) -> Result<(), Problem> {
    let tools = fields::items(body, "tools");
    let mut names = HashSet::new();
    for (index, tool) in tools.iter().enumerate() {
        // Tools of the vendor have dated types and their own fields.
        if !matches!(fields::kind(tool), "" | "custom") {
            continue;
        }
        check_custom(index, tool)?;
        let name = fields::text(tool, "name").unwrap_or_default();
        if !names.insert(name) {
            return Err(Problem::invalid("tools: Tool names must be unique."));
        }
    }
    let strict = tools
        .iter()
        .filter(|tool| fields::flag(tool, "strict"))
        .count();
    if strict > MAX_STRICT_TOOLS {
        return Err(Problem::invalid(format!(
            "tools: at most {MAX_STRICT_TOOLS} strict tools are allowed, found {strict}"
        )));
    }
    if !tools.is_empty() && tools.iter().all(|tool| fields::flag(tool, "defer_loading")) {
        return Err(Problem::invalid(
            "tools: at least one tool must have defer_loading false",
        ));
    }
    for tool in tools {
        let deferred = fields::flag(tool, "defer_loading");
        if deferred && fields::present(tool, "cache_control").is_some() {
            return Err(Problem::invalid(
                "tools: cache_control cannot be set on a tool with defer_loading",
            ));
        }
    }
    for name in references(body) {
        if !names.contains(name) {
            return Err(Problem::invalid(format!(
                "Tool reference '{name}' not found in available tools"
            )));
        }
    }
    check_choice(body, tools)
}

fn check_custom(index: usize, tool: &Value) -> Result<(), Problem> {
    let Some(fields) = tool.as_object() else {
        return Err(Problem::invalid(format!(
            "tools.{index}: Input should be an object"
        )));
    };
    if let Some(field) = fields.keys().find(|field| !fields::is_word(field, FIELDS)) {
        return Err(extra(&format!("tools.{index}.custom.{field}")));
    }
    let name = fields::text(tool, "name")
        .ok_or_else(|| required(&format!("tools.{index}.custom.name")))?;
    if !fields::is_name(name, 64, "") {
        return Err(Problem::invalid(format!(
            "tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
        )));
    }
    let schema = tool.get("input_schema");
    fields::tool_schema(schema).map_err(|reason| {
        Problem::invalid(format!("tools.{index}.custom.input_schema: {reason}"))
    })?;
    if let (true, Some(schema)) = (fields::flag(tool, "strict"), schema) {
        fields::strict_schema(schema, AllRequired::No).map_err(|reason| {
            Problem::invalid(format!("tools.{index}.custom.input_schema: {reason}"))
        })?;
    }
    Ok(())
}

fn check_choice(body: &Value, tools: &[Value]) -> Result<(), Problem> {
    let Some(choice) = fields::present(body, "tool_choice") else {
        return Ok(());
    };
    match fields::kind(choice) {
        "auto" | "any" | "none" if tools.is_empty() => Err(Problem::invalid(
            "tool_choice: may only be specified while providing tools",
        )),
        "auto" | "any" | "none" => Ok(()),
        "tool" => {
            let name =
                fields::text(choice, "name").ok_or_else(|| required("tool_choice.tool.name"))?;
            if tools
                .iter()
                .any(|tool| fields::text(tool, "name") == Some(name))
            {
                Ok(())
            } else {
                Err(Problem::invalid(format!(
                    "tool_choice.tool.name: Tool '{name}' not found in provided tools"
                )))
            }
        }
        _ => Err(Problem::invalid(
            "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'",
        )),
    }
}
