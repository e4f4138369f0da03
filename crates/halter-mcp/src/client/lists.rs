//! What a server has: its tools, resources and prompts, within bounds.

use super::call::CallOrders;
use super::running::Link;
use crate::error::McpError;
use crate::limits::{LIST_PAGES, PROMPTS_PER_SERVER, RESOURCES_PER_SERVER, TOOLS_PER_SERVER};
use rmcp::model::{
    ClientRequest, GetPromptRequestParams, GetPromptResult, JsonObject, ListPromptsRequest,
    ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest, PaginatedRequestParams,
    Prompt, ReadResourceRequestParams, Resource, ResourceContents, ResourceTemplate, ServerResult,
    Tool,
};
use serde_json::Value;
use std::time::Duration;

/// What a server has of one kind, and what was wrong with the list.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    pub(crate) items: Vec<T>,
    pub(crate) problems: Vec<String>,
}

/// One page of a list.
struct Page<T> {
    items: Vec<T>,
    problems: Vec<String>,
    next: Option<String>,
}

impl<T> Page<T> {
    fn new(items: Vec<T>, next: Option<String>) -> Self {
        Self {
            items,
            problems: Vec::new(),
            next,
        }
    }
}

/// How a list is asked for.
struct ListOrders<'a> {
    /// What it holds, for people.
    what: &'static str,
    most: usize,
    timeout: Duration,
    orders: &'a CallOrders,
}

/// A request for a page of a list.
macro_rules! page_request {
    ($request:ident) => {
        |params| {
            ClientRequest::$request($request {
                params,
                ..$request::default()
            })
        }
    };
}

impl Link {
    /// Asks a server for its tools.
    pub(crate) async fn list_tools(&self, timeout: Duration) -> Result<Listed<Tool>, McpError> {
        let orders = ListOrders {
            what: "tools",
            most: TOOLS_PER_SERVER,
            timeout,
            orders: &CallOrders::quiet(),
        };
        let take = |answer| match answer {
            ServerResult::ListToolsResult(page) => Some(Page::new(page.tools, page.next_cursor)),
            ServerResult::CustomResult(other) => odd_page(&other.0),
            _ => None,
        };
        if self.capabilities().tools.is_none() {
            return Ok(Listed::default());
        }
        let mut listed = self
            .pages(orders, page_request!(ListToolsRequest), take)
            .await?;
        if let Some(problem) = listed
            .problems
            .iter_mut()
            .find(|it| it.starts_with("it has more"))
        {
            problem.push_str("; name those you need under `tools`");
        }
        Ok(listed)
    }

    /// Asks a server for its resources.
    pub(crate) async fn list_resources(
        &self,
        orders: &CallOrders,
    ) -> Result<Listed<Resource>, McpError> {
        let orders = self.list_orders("resources", RESOURCES_PER_SERVER, orders);
        let take = |answer| match answer {
            ServerResult::ListResourcesResult(page) => {
                Some(Page::new(page.resources, page.next_cursor))
            }
            _ => None,
        };
        self.pages(orders, page_request!(ListResourcesRequest), take)
            .await
    }

    /// Asks a server for the patterns of its resources. Many have none and
    /// refuse.
    pub(crate) async fn list_templates(
        &self,
        orders: &CallOrders,
    ) -> Result<Listed<ResourceTemplate>, McpError> {
        let orders = self.list_orders("patterns of resources", RESOURCES_PER_SERVER, orders);
        let take = |answer| match answer {
            ServerResult::ListResourceTemplatesResult(page) => {
                Some(Page::new(page.resource_templates, page.next_cursor))
            }
            _ => None,
        };
        let request = page_request!(ListResourceTemplatesRequest);
        match self.pages(orders, request, take).await {
            Err(McpError::Refused { .. }) => Ok(Listed::default()),
            other => other,
        }
    }

    /// Asks a server for its prompts.
    pub(crate) async fn list_prompts(
        &self,
        orders: &CallOrders,
    ) -> Result<Listed<Prompt>, McpError> {
        let orders = self.list_orders("prompts", PROMPTS_PER_SERVER, orders);
        let take = |answer| match answer {
            ServerResult::ListPromptsResult(page) => {
                Some(Page::new(page.prompts, page.next_cursor))
            }
            _ => None,
        };
        self.pages(orders, page_request!(ListPromptsRequest), take)
            .await
    }

    /// Reads a resource.
    pub(crate) async fn read_resource(
        &self,
        uri: &str,
        orders: &CallOrders,
    ) -> Result<Vec<ResourceContents>, McpError> {
        let params = ReadResourceRequestParams::new(uri);
        match self.answered(params, orders).await? {
            ServerResult::ReadResourceResult(read) => Ok(read.contents),
            _ => Err(self.not_understood("no resource")),
        }
    }

    /// Has a prompt filled in.
    pub(crate) async fn get_prompt(
        &self,
        name: &str,
        arguments: JsonObject,
        orders: &CallOrders,
    ) -> Result<GetPromptResult, McpError> {
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        match self.answered(params, orders).await? {
            ServerResult::GetPromptResult(prompt) => Ok(prompt),
            _ => Err(self.not_understood("no prompt")),
        }
    }

    fn list_orders<'a>(
        &self,
        what: &'static str,
        most: usize,
        orders: &'a CallOrders,
    ) -> ListOrders<'a> {
        ListOrders {
            what,
            most,
            timeout: self.call_timeout,
            orders,
        }
    }

    /// All pages of a list. `take` says what an answer holds.
    async fn pages<T>(
        &self,
        list: ListOrders<'_>,
        request: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
        take: impl Fn(ServerResult) -> Option<Page<T>>,
    ) -> Result<Listed<T>, McpError> {
        let ListOrders { what, most, .. } = list;
        let mut listed = Listed::default();
        let mut cursor: Option<String> = None;
        for _ in 0..LIST_PAGES {
            let params = cursor
                .clone()
                .map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let answer = self
                .request(request(params), list.timeout, list.orders)
                .await?;
            let Some(page) = take(answer) else {
                return Err(self.not_understood(&format!("no list of {what}")));
            };
            listed.items.extend(page.items);
            listed.problems.extend(page.problems);
            if listed.items.len() > most {
                let problem = format!("it has more than {most} {what}: the others are left out");
                listed.problems.push(problem);
                listed.items.truncate(most);
                return Ok(listed);
            }
            if page.next.is_none() || page.next == cursor {
                return Ok(listed);
            }
            cursor = page.next;
        }
        let problem = format!("its list of {what} has more than {LIST_PAGES} pages");
        listed.problems.push(problem);
        Ok(listed)
    }
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            problems: Vec::new(),
        }
    }
}

/// A page of tools in which something is not as the protocol says: the tools
/// that are in order are taken.
fn odd_page(page: &Value) -> Option<Page<Tool>> {
    let next = page.get("nextCursor").and_then(Value::as_str);
    let mut odd = Page::new(Vec::new(), next.map(str::to_owned));
    let tools = page.get("tools").and_then(Value::as_array)?;
    for tool in tools.iter().take(TOOLS_PER_SERVER + 1) {
        match serde_json::from_value::<Tool>(tool.clone()) {
            Ok(tool) => odd.items.push(tool),
            Err(error) => {
                let name = tool.get("name").and_then(Value::as_str).unwrap_or("?");
                let name = name.escape_debug();
                let problem = format!("its tool `{name}` is left out: {error}");
                odd.problems.push(problem);
            }
        }
    }
    Some(odd)
}
