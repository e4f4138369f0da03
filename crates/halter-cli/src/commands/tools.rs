//! `halter tools`: what the model is offered, and one call without a model.

use crate::approvals::Approver;
use crate::args::{ApprovalSource, JsonArg, PermissionArgs, ToolsCommand};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness::{self, Models};
use crate::live::{self, Live, Wanted};
use crate::prompt;
use crate::terminal::{columns, fitted};
use crate::turn::{self, Watch};
use crate::view::{Activity, Steps, View};
use halter::providers::{FakeProvider, OfflineProvider, Reply};
use halter_config::{DeferralWord, DeferredTools};
use halter_protocol::{
    ContentPart, SessionEvent, SessionEventPayload, TOOL_SEARCH, ToolErrorCode,
    ToolExecutionOutcome, ToolResult, ToolSpec, Turn,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;

/// Lists tools or calls one.
pub async fn tools(context: &mut Context, command: ToolsCommand) -> Result<Exit, Failure> {
    match command {
        ToolsCommand::List(json) => list(context, json).await,
        ToolsCommand::Call {
            name,
            input,
            permissions,
        } => call(context, &name, &input, &permissions).await,
    }
}

async fn list(context: &mut Context, arguments: JsonArg) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let loaded = harness::load(context).await?;
    let resources = harness::compile(context, &loaded).await?;
    // What `halter run` would offer here: at a terminal, somebody can be asked.
    let approver = Approver::wanted(context, ApprovalSource::Auto, false)?;
    let harness = harness::build_with_servers(
        context,
        &loaded,
        resources,
        Models::Injected(Arc::new(OfflineProvider::new())),
        approver.approvals(),
    )
    .await?;
    let specs = harness.tools();
    let deferred = harness.deferred_tools();
    let offered = specs.iter().map(|spec| ListedTool {
        spec,
        deferred: deferred.iter().any(|tool| tool.spec.name == spec.name),
        unavailable: None,
    });
    let others = harness.unavailable_tools().iter().map(|tool| ListedTool {
        spec: &tool.spec,
        deferred: false,
        unavailable: Some(&tool.reason),
    });
    let servers = harness.mcp_servers();
    let served = servers.iter().flat_map(|server| &server.tools);
    let served = served.map(|tool| ListedTool {
        spec: &tool.spec,
        deferred: true,
        unavailable: None,
    });
    let listed: Vec<ListedTool<'_>> = offered.chain(served).chain(others).collect();
    if arguments.json {
        context.data.json(&listed)?;
        return Ok(Exit::Success);
    }
    let names = listed.iter().map(|tool| tool.spec.name.as_str().len());
    let width = names.max().unwrap_or(0);
    let columns = context.data.is_terminal().then(columns);
    for tool in &listed {
        let line = format!("{:<width$}  {}", tool.spec.name.as_str(), tool.about());
        let line = fitted(&line, columns.unwrap_or(usize::MAX));
        context.data.line(&line)?;
    }
    Ok(Exit::Success)
}

/// A tool as `tools list` shows it.
#[derive(Serialize)]
struct ListedTool<'a> {
    #[serde(flatten)]
    spec: &'a ToolSpec,
    /// Models are sent it only when they ask.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deferred: bool,
    /// Why models are not told of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<&'a str>,
}

impl ListedTool<'_> {
    /// The first sentence about it, after what stands in its way.
    fn about(&self) -> String {
        let about = self.spec.description.lines().next().unwrap_or_default();
        let about = about.split_inclusive(". ").next().unwrap_or(about).trim();
        match self.unavailable {
            Some(reason) => format!("[unavailable: {reason}] {about}"),
            None if self.deferred => format!("[deferred] {about}"),
            None => about.to_owned(),
        }
    }
}

/// Calls a tool the way a model would: through a session, its policy and its
/// hooks. The session is in memory and ends with the call.
async fn call(
    context: &mut Context,
    name: &str,
    input: &str,
    permissions: &PermissionArgs,
) -> Result<Exit, Failure> {
    context.errors_in_data = true;
    let call = Reply::new().tool_call(name, arguments(input)?);
    let mut script = vec![call, Reply::new().text("done")];
    if halter_mcp::names::comes_with_servers(name) {
        // Tools of servers are always looked up first.
        let query = json!({"query": format!("select:{name}")});
        script.insert(0, Reply::new().tool_call(TOOL_SEARCH, query));
    }
    let model = FakeProvider::scripted(script);
    let mut loaded = harness::load(context).await?;
    permissions.apply(&mut loaded.config)?;
    // Whoever calls a tool by its name knows it. The one that loads others is
    // there where there are any.
    loaded.config.config.tools.deferred = DeferredTools::Word(match name == TOOL_SEARCH {
        true => DeferralWord::Auto,
        false => DeferralWord::Off,
    });
    let mut approver = Approver::wanted(context, ApprovalSource::Auto, false)?;
    let resources = harness::compile(context, &loaded).await?;
    let harness = harness::build_with_servers(
        context,
        &loaded,
        resources,
        Models::Injected(Arc::new(model)),
        approver.approvals(),
    )
    .await?;
    let mut live = Live::begin(context, harness, &Wanted::default()).await?;
    let rates = live.harness.rate_limiter().clone();
    let mut view = CallView {
        activity: Activity::new(context.messages.clone(), Steps::Silent, rates),
        outcome: None,
    };
    let turn = Turn::user(format!("halter tools call {name}"));
    live.stops.next_turn(&turn.id);
    let watch = Watch {
        view: &mut view,
        time_limit: None,
        typing: None,
        approver: &mut approver,
        notifies: turn::hooks_hear(&live.harness),
    };
    let ran = turn::run_turn(&live.session, &mut live.events, turn, watch).await;
    let ended = turn::end_session(&live.session, &mut live.events, &mut view, "complete").await;
    let asked = live.stops.asked();
    live::close(&live.harness).await;
    let end = ran?;
    ended?;
    if let Some(signal) = asked {
        return Err(Failure::Told(Exit::Signal(signal)));
    }
    let Some(outcome) = view.outcome else {
        return end.into_exit(None);
    };
    finish(context, outcome)
}

fn finish(context: &mut Context, outcome: ToolExecutionOutcome) -> Result<Exit, Failure> {
    match outcome.result {
        Ok(result) => {
            let bytes = match context.data.is_terminal() {
                true => Bytes::Counted,
                false => Bytes::Written,
            };
            context.data.json(&result_json(&result, bytes))?;
            Ok(Exit::Success)
        }
        Err(error) => {
            let exit = match error.code {
                ToolErrorCode::PolicyDenied | ToolErrorCode::HookBlocked => Exit::Denied,
                _ => Exit::Failed,
            };
            let error = halter::HalterError::new(error.code.as_str(), error.message);
            Err(Failure::Error(error, exit))
        }
    }
}

/// What becomes of the bytes of images and documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bytes {
    /// They are written, in base64.
    Written,
    /// A terminal shows how many there are.
    Counted,
}

/// The result itself: its value, its text, the list of its parts, or null.
fn result_json(result: &ToolResult, bytes: Bytes) -> Value {
    match result {
        ToolResult::Json { value } => value.clone(),
        ToolResult::Text { text } => json!(text),
        ToolResult::Parts { parts } => parts.iter().map(|part| part_json(part, bytes)).collect(),
        _ => Value::Null,
    }
}

fn part_json(part: &ContentPart, bytes: Bytes) -> Value {
    let mut shown = json!(part);
    if let (Bytes::Counted, Some((_, data)), Some(fields)) =
        (bytes, part.media(), shown.as_object_mut())
    {
        fields.remove("data");
        fields.insert("bytes".to_owned(), data.len().into());
    }
    shown
}

fn arguments(input: &str) -> Result<Value, Failure> {
    let text = match input {
        "-" => prompt::from_stdin()?,
        given => given.to_owned(),
    };
    let value: Value = serde_json::from_str(&text).map_err(|error| {
        usage(
            format!("the input is not JSON: {error}"),
            "write an object, such as '{\"path\":\"README.md\"}'",
        )
    })?;
    match value.is_object() {
        true => Ok(value),
        false => Err(usage(
            "the input is not a JSON object",
            "write an object, such as '{\"path\":\"README.md\"}'",
        )),
    }
}

/// Waits for the outcome of the one call.
struct CallView {
    activity: Activity,
    outcome: Option<ToolExecutionOutcome>,
}

impl View for CallView {
    fn event(&mut self, event: SessionEvent) -> io::Result<()> {
        self.activity.observe(&event);
        if let SessionEventPayload::ToolExecutionCompleted { outcome } = event.payload {
            self.outcome = Some(outcome);
        }
        Ok(())
    }

    fn activity(&mut self) -> &mut Activity {
        &mut self.activity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_sent_the_bytes_of_an_image() {
        let result = || {
            ToolResult::parts([
                ContentPart::text("a door"),
                ContentPart::image("image/png", [1, 2, 3]),
            ])
        };
        let text = json!({"kind": "text", "text": "a door"});
        assert_eq!(
            result_json(&result(), Bytes::Written),
            json!([text, {"kind": "image", "media_type": "image/png", "data": "AQID"}])
        );
        assert_eq!(
            result_json(&result(), Bytes::Counted),
            json!([text, {"kind": "image", "media_type": "image/png", "bytes": 3}])
        );
    }
}
