//! The server that the public conformance suite expects, on the HTTP layer of
//! this crate. Prints its address.
//!
//! ```sh
//! cargo run -p halter-mcp --example conformance_server
//! ```

// Indexing JSON never panics.
#![allow(clippy::indexing_slicing, clippy::print_stdout, missing_docs)]
// Parts of older revisions that the suite still tests.
#![allow(deprecated)]

mod fixtures;
mod inputs;

use fixtures::{complete, parsed, tool_list};
use halter_mcp::server::{HTTP_PATH, HttpGuard, serve_handler_over_http};
use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// What open subscriptions are told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Tools,
    Prompts,
}

#[derive(Clone)]
struct Fixtures {
    changes: broadcast::Sender<Change>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}{HTTP_PATH}", listener.local_addr()?);
    let fixtures = Fixtures {
        changes: broadcast::channel(16).0,
    };
    let stop = CancellationToken::new();
    let guard = HttpGuard::without_token();
    serve_handler_over_http(move || fixtures.clone(), listener, guard, stop).await?;
    Ok(())
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tool_list()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tool_list().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        if name.starts_with("test_input_required") || name == "test_streaming_elicitation" {
            return inputs::answer(&name, &request, &context);
        }
        let argument = |name: &str| {
            let value = request.arguments.as_ref()?.get(name)?.as_str()?;
            Some(value.to_owned())
        };
        let result = match name.as_str() {
            "test_tool_with_logging" => {
                for text in ["started", "working", "done"] {
                    log(&context, text).await?;
                }
                fixtures::text("logged")
            }
            "test_logging_tool" => {
                // Only for a request that asks for logs.
                if context.meta.log_level().is_some() {
                    log(&context, "logged").await?;
                }
                fixtures::text("done")
            }
            "test_tool_with_progress" => {
                if let Some(token) = context.meta.get_progress_token() {
                    for done in [0.0, 50.0, 100.0] {
                        let progress = ProgressNotificationParam::new(token.clone(), done);
                        let told = context.peer.notify_progress(progress.with_total(100.0));
                        told.await.map_err(failed)?;
                    }
                }
                fixtures::text("progressed")
            }
            "test_sampling" => {
                let prompt = argument("prompt").unwrap_or_default();
                let message = SamplingMessage::user_text(prompt);
                let asked = CreateMessageRequestParams::new(vec![message], 100);
                let answer = context.peer.create_message(asked).await.map_err(failed)?;
                let answer = serde_json::to_value(answer).unwrap_or_default();
                fixtures::text(&format!("LLM response: {}", answer["content"]["text"]))
            }
            "test_elicitation" => {
                let message = argument("message").unwrap_or_default();
                elicit(&context, &message, fixtures::user_form()).await?
            }
            "test_elicitation_sep1034_defaults" => {
                elicit(&context, "Defaults", fixtures::form_with_defaults()).await?
            }
            "test_elicitation_sep1330_enums" => {
                elicit(&context, "Choices", fixtures::form_with_choices()).await?
            }
            "test_missing_capability" => {
                let declared = context.client_capabilities().unwrap_or_default();
                if declared.sampling.is_none() {
                    let needed = parsed(json!({"sampling": {}}))?;
                    return Err(ErrorData::missing_required_client_capability(needed));
                }
                fixtures::text("declared")
            }
            "test_trigger_tool_change" => self.changed(Change::Tools),
            "test_trigger_prompt_change" => self.changed(Change::Prompts),
            "test_reconnection" => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                fixtures::text("reconnected")
            }
            name => fixtures::fixed(name).ok_or_else(|| {
                ErrorData::invalid_params(format!("there is no tool '{name}'"), None)
            })?,
        };
        Ok(complete::<CallToolResult>(result)?.into())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        complete(fixtures::resources())
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        complete(fixtures::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.as_str();
        let Some(content) = fixtures::resource(uri) else {
            let message = format!("there is no resource '{uri}'");
            return Err(ErrorData::resource_not_found(
                message,
                Some(json!({"uri": uri})),
            ));
        };
        Ok(complete::<ReadResourceResult>(json!({"contents": [content]}))?.into())
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        complete(fixtures::prompts())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = request.name.as_str();
        if name == "test_input_required_result_prompt" {
            return inputs::prompt(request.input_responses.as_ref());
        }
        let arguments = json!(request.arguments.unwrap_or_default());
        let Some(messages) = fixtures::prompt(name, &arguments) else {
            return Err(ErrorData::invalid_params(
                format!("there is no prompt '{name}'"),
                None,
            ));
        };
        Ok(complete::<GetPromptResult>(json!({"messages": messages}))?.into())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        complete(json!({"completion": {"values": ["one", "two"], "total": 2, "hasMore": false}}))
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        let sink = subscription.sink().clone();
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = subscription.cancelled() => return Ok(()),
            };
            // What nobody asked for, the sink refuses.
            let _ = match change {
                Ok(Change::Tools) => sink.notify_tool_list_changed().await,
                Ok(Change::Prompts) => sink.notify_prompt_list_changed().await,
                Err(_) => return Ok(()),
            };
        }
    }
}

impl Fixtures {
    fn changed(&self, change: Change) -> Value {
        // Without a subscription nobody hears of it.
        let _ = self.changes.send(change);
        fixtures::text("changed")
    }
}

async fn log(context: &RequestContext<RoleServer>, text: &str) -> Result<(), ErrorData> {
    let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(text));
    context
        .peer
        .notify_logging_message(message)
        .await
        .map_err(failed)
}

async fn elicit(
    context: &RequestContext<RoleServer>,
    message: &str,
    form: Value,
) -> Result<Value, ErrorData> {
    let asked = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: parsed(form)?,
    };
    let answer = context
        .peer
        .create_elicitation(asked)
        .await
        .map_err(failed)?;
    let answer = serde_json::to_value(answer).unwrap_or_default();
    let (action, content) = (&answer["action"], &answer["content"]);
    let told = format!("Elicitation completed: action={action}, content={content}");
    Ok(fixtures::text(&told))
}

fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
