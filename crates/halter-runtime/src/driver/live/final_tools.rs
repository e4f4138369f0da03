//! Structured answers of providers that have no way of their own for them.

use halter_protocol::{ResponseSchema, ToolSpec};
use halter_providers::{ProviderRequest, final_tool};
use std::sync::Arc;

/// The tools of a session with the one for structured answers, made once for
/// each schema so that requests go on sharing them.
#[derive(Default)]
pub(super) struct FinalTools {
    last: Option<(ResponseSchema, Arc<[ToolSpec]>)>,
}

impl FinalTools {
    /// Asks with a tool for what the request asks for with a schema.
    pub fn replace_schema(&mut self, request: &mut ProviderRequest) {
        let Some(schema) = request.response_schema.take() else {
            return;
        };
        let tools = match &self.last {
            Some((known, tools)) if *known == schema => tools.clone(),
            _ => {
                let own = request.tools.iter().cloned();
                let tools: Arc<[ToolSpec]> = own.chain([final_tool(&schema)]).collect();
                self.last = Some((schema, tools.clone()));
                tools
            }
        };
        request.tools = tools;
    }
}
