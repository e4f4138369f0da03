//! The tool through which a model gives a structured answer where its service
//! has no other way.

use halter_protocol::{
    FINAL_TOOL, ResponseSchema, ToolCapabilities, ToolConcurrency, ToolName, ToolSpec,
};
use indexmap::IndexMap;

const DESCRIPTION: &str = "Give your final answer. Call this once, when you have everything you \
    need and nothing else is left to do; the input is the answer itself. Do not answer in plain text.";

/// The spec of the tool for answers that fit a schema.
///
/// ```
/// use halter_protocol::ResponseSchema;
/// use halter_providers::final_tool;
/// use serde_json::json;
///
/// let schema = ResponseSchema::new(json!({"type": "object"}));
/// assert_eq!(final_tool(&schema).name.as_str(), "final_output");
/// ```
pub fn final_tool(schema: &ResponseSchema) -> ToolSpec {
    ToolSpec {
        name: ToolName::from(FINAL_TOOL),
        description: DESCRIPTION.to_owned(),
        input_schema: schema.as_object_schema().into_owned(),
        concurrency: ToolConcurrency::Exclusive,
        capabilities: ToolCapabilities::default(),
        provider_aliases: IndexMap::new(),
    }
}
