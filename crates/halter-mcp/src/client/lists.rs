//! What a server has: its tools, within bounds.

use super::call::CallOrders;
use super::running::Link;
use crate::error::McpError;
use crate::limits::{LIST_PAGES, TOOLS_PER_SERVER};
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool};
use serde_json::Value;
use std::time::Duration;

/// What a server has, and what was wrong with the list.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) tools: Vec<Tool>,
    pub(crate) problems: Vec<String>,
}

impl Link {
    /// Asks a server for its tools.
    pub(crate) async fn list_tools(&self, timeout: Duration) -> Result<Lists, McpError> {
        let mut lists = Lists::default();
        if self.capabilities().tools.is_none() {
            return Ok(lists);
        }
        let mut cursor: Option<String> = None;
        for _ in 0..LIST_PAGES {
            let params = cursor
                .clone()
                .map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request = ClientRequest::ListToolsRequest(ListToolsRequest {
                params,
                ..ListToolsRequest::default()
            });
            let answer = self.request(request, timeout, &CallOrders::quiet()).await?;
            let next = match answer {
                ServerResult::ListToolsResult(page) => {
                    lists.tools.extend(page.tools);
                    page.next_cursor
                }
                ServerResult::CustomResult(other) => self.take_odd_page(&other.0, &mut lists)?,
                _ => return Err(self.not_understood("no list of tools")),
            };
            if lists.tools.len() > TOOLS_PER_SERVER {
                let problem = format!(
                    "it has more than {TOOLS_PER_SERVER} tools: the others are left out; name \
                     those you need under `tools`"
                );
                lists.problems.push(problem);
                lists.tools.truncate(TOOLS_PER_SERVER);
                return Ok(lists);
            }
            if next.is_none() || next == cursor {
                return Ok(lists);
            }
            cursor = next;
        }
        let problem = format!("its list of tools has more than {LIST_PAGES} pages");
        lists.problems.push(problem);
        Ok(lists)
    }

    /// A page in which something is not as the protocol says: the tools that
    /// are in order are taken. Returns the cursor of the next page.
    fn take_odd_page(&self, page: &Value, lists: &mut Lists) -> Result<Option<String>, McpError> {
        let Some(tools) = page.get("tools").and_then(Value::as_array) else {
            return Err(self.not_understood("no list of tools"));
        };
        for tool in tools.iter().take(TOOLS_PER_SERVER + 1) {
            match serde_json::from_value::<Tool>(tool.clone()) {
                Ok(tool) => lists.tools.push(tool),
                Err(error) => {
                    let name = tool.get("name").and_then(Value::as_str).unwrap_or("?");
                    let name = name.escape_debug();
                    let problem = format!("its tool `{name}` is left out: {error}");
                    lists.problems.push(problem);
                }
            }
        }
        let cursor = page.get("nextCursor").and_then(Value::as_str);
        Ok(cursor.map(str::to_owned))
    }
}
