//! `web_search`: pages that fit a query, from the service that was configured.

use super::support::LOOKS;
use crate::availability::HarnessFacts;
use crate::context::ToolContext;
use crate::limits::{WEB_SEARCH_DEFAULT_RESULTS, WEB_SEARCH_QUERY_CHARS, WEB_SEARCH_RESULTS};
use crate::typed::TypedTool;
use crate::web::{SearchHit, SearchQuery, WebSearch, WebSettings, unreachable};
use anyhow::bail;
use async_trait::async_trait;
use halter_protocol::{Action, ToolCapabilities, ToolConcurrency, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

const NOT_CONFIGURED: &str =
    "no service is configured; set tools.web_search.provider to \"searxng\" or \"brave\"";

/// Search the web. Returns titles, addresses and snippets; look at a page with
/// `web_fetch`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct WebSearchInput {
    /// What to look for.
    #[schemars(length(min = 1, max = WEB_SEARCH_QUERY_CHARS))]
    query: String,
    /// How many pages to return at most.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = WEB_SEARCH_RESULTS))]
    max_results: usize,
}

fn default_results() -> usize {
    WEB_SEARCH_DEFAULT_RESULTS
}

pub(crate) struct WebSearchTool {
    /// The service, or why there is none.
    service: Result<Arc<dyn WebSearch>, String>,
}

impl WebSearchTool {
    pub(crate) fn new(settings: &WebSettings) -> Self {
        let service = match &settings.search {
            Some(choice) => choice
                .service(&settings.tls)
                .map_err(|error| format!("{error:#}")),
            None => Err(NOT_CONFIGURED.to_owned()),
        };
        Self { service }
    }
}

#[async_trait]
impl TypedTool for WebSearchTool {
    type Input = WebSearchInput;
    const NAME: &'static str = "web_search";
    const SUMMARY: Option<&'static str> = Some("search the web");
    const RARE: bool = true;

    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::ReadOnly
    }

    fn capabilities(&self) -> ToolCapabilities {
        LOOKS
    }

    fn actions(&self, _: &Value) -> Vec<Action> {
        let host = self.service.as_ref().ok().and_then(|it| it.host());
        host.map(|host| Action::Reach { host })
            .into_iter()
            .collect()
    }

    fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
        match &self.service {
            Err(reason) => Some(reason.clone()),
            Ok(service) => service.host().and_then(|_| unreachable(harness)),
        }
    }

    async fn run(&self, context: ToolContext, input: WebSearchInput) -> anyhow::Result<ToolResult> {
        let service = match &self.service {
            Ok(service) => service,
            Err(reason) => bail!("nothing can be searched: {reason}"),
        };
        let query = SearchQuery {
            text: input.query,
            max_results: input.max_results,
        };
        let hits = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(crate::context::cancelled().into()),
            hits = service.search(&context, &query) => hits?,
        };
        let results: Vec<SearchHit> = hits
            .iter()
            .take(query.max_results)
            .map(SearchHit::shown)
            .collect();
        Ok(ToolResult::json(json!({ "results": results })))
    }
}
