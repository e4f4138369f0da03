//! `halter hooks`: which hooks there are, and what they say to an event.

use crate::args::{HooksCommand, HooksTestArgs, JsonArg};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness::{self, Models, Store};
use halter::providers::OfflineProvider;
use halter::{Halter, HookTrial};
use halter_hooks::{HookEventName, HookListing, HookVerdict, PermissionDecision};
use serde_json::{Map, Value, json};
use std::io::Read;
use std::sync::Arc;

/// Lists hooks or tries some.
pub async fn hooks(context: &mut Context, command: HooksCommand) -> Result<Exit, Failure> {
    match command {
        HooksCommand::List(json) => list(context, json).await,
        HooksCommand::Test(arguments) => test(context, arguments).await,
    }
}

async fn list(context: &mut Context, arguments: JsonArg) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let loaded = harness::load(context).await?;
    let compiled = harness::compile(context, &loaded).await?;
    let harness = harness::build(
        context,
        &loaded,
        compiled,
        Models::Injected(Arc::new(OfflineProvider::new())),
        Store::Memory,
    )
    .await?;
    let (hooks, warnings) = (harness.hooks(), harness.resource_warnings());
    if arguments.json {
        let hooks: Vec<Value> = hooks.iter().map(as_json).collect();
        let data = json!({"hooks": hooks, "warnings": warnings});
        context.data.json(&data)?;
        return Ok(Exit::Success);
    }
    for hook in &hooks {
        context.data.line(&line(hook))?;
    }
    if hooks.is_empty() {
        context.messages.note("no hooks are in force here");
    }
    for warning in warnings {
        context.messages.warning(&warning);
    }
    Ok(Exit::Success)
}

fn line(hook: &HookListing) -> String {
    let mut line = format!("{}  {}", hook.id, hook.handler_type);
    if let Some(matcher) = hook.matcher.as_deref().filter(|it| !it.is_empty()) {
        line.push_str(&format!("  matcher {matcher}"));
    }
    if let Some(condition) = &hook.condition {
        line.push_str(&format!("  if {condition}"));
    }
    for (set, word) in [(hook.once, "once"), (hook.runs_beside, "async")] {
        if set {
            line.push_str(&format!("  {word}"));
        }
    }
    line.push_str(&format!("  {} s", hook.timeout.as_secs_f64()));
    if let Some(runs) = &hook.runs {
        line.push_str(&format!("  {}", runs.replace(char::is_control, " ")));
    }
    if let Some(with) = &hook.with {
        line.push_str(&format!("  while {with} is in use"));
    }
    if let Some(place) = &hook.place {
        line.push_str(&format!("  ({place})"));
    }
    line
}

fn as_json(hook: &HookListing) -> Value {
    json!({
        "id": hook.id,
        "event": hook.event.as_str(),
        "owner": hook.owner,
        "type": hook.handler_type,
        "place": hook.place,
        "with": hook.with,
        "layer": hook.layer.map(|layer| layer.as_str()),
        "matcher": hook.matcher,
        "if": hook.condition,
        "runs": hook.runs,
        "timeout_secs": hook.timeout.as_secs_f64(),
        "once": hook.once,
        "async": hook.runs_beside,
    })
}

async fn test(context: &mut Context, arguments: HooksTestArgs) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json.json;
    let event: HookEventName = arguments.event.parse().map_err(|error| {
        let error: halter_hooks::HookError = error;
        usage(error.to_string(), "name one of these")
    })?;
    let payload = payload(&arguments.payload)?;
    let loaded = harness::load(context).await?;
    let compiled = harness::compile(context, &loaded).await?;
    let models = Models::Configured;
    let harness = harness::build(context, &loaded, compiled, models, Store::Memory).await?;
    let directory = match &loaded.config.config.runtime.working_dir {
        Some(directory) => directory.clone(),
        None => std::env::current_dir().map_err(|error| {
            usage(
                format!("there is no directory here: {error}"),
                "change to one",
            )
        })?,
    };
    for warning in harness.resource_warnings() {
        context.messages.warning(&warning);
    }
    let scoped = harness.hooks().into_iter();
    let scoped = scoped.filter(|hook| hook.event == event && hook.with.is_some());
    for hook in scoped {
        let with = hook.with.unwrap_or_default();
        let note = format!("{} is not tried: it holds with {with}", hook.id);
        context.messages.note(&note);
    }
    let trial = harness.try_hooks(event, payload, &directory).await;
    match arguments.json.json {
        true => context.data.json(&trial_as_json(&trial))?,
        false => print(context, &harness, event, &trial)?,
    }
    Ok(match outcome(&trial.verdict).1 {
        None => Exit::Success,
        Some(_) => Exit::Denied,
    })
}

fn payload(text: &str) -> Result<Map<String, Value>, Failure> {
    let text = match text {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| {
                    usage(
                        format!("could not read the input: {error}"),
                        "pass it again",
                    )
                })?;
            text
        }
        text => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        usage(
            format!("the payload is no JSON object: {error}"),
            "write one such as {\"tool_name\": \"Bash\", \"tool_input\": {\"command\": \"ls\"}}",
        )
    })
}

/// What the hooks want, in a word, and why if they stand in the way.
fn outcome(verdict: &HookVerdict) -> (&'static str, Option<String>) {
    if let Some(reason) = &verdict.stop {
        return ("stop", Some(reason.clone()));
    }
    if let Some(reason) = verdict.objection() {
        return ("block", Some(reason));
    }
    match verdict.permission {
        PermissionDecision::Ask => {
            let reason = verdict.permission_reason.clone();
            (
                "ask",
                Some(reason.unwrap_or_else(|| "a hook wants a person to decide".to_owned())),
            )
        }
        PermissionDecision::Allow => ("allow", None),
        _ => ("pass", None),
    }
}

fn trial_as_json(trial: &HookTrial) -> Value {
    let (outcome, reason) = outcome(&trial.verdict);
    json!({
        "outcome": outcome,
        "reason": reason,
        "updated_input": trial.verdict.updated_input,
        "updated_output": trial.verdict.updated_output,
        "context": trial.verdict.additional_context,
        "runs": trial.runs,
    })
}

fn print(
    context: &mut Context,
    harness: &Halter,
    event: HookEventName,
    trial: &HookTrial,
) -> Result<(), Failure> {
    for run in &trial.runs {
        let took = run.duration_ms.unwrap_or_default();
        let line = format!("{}  {}  {took} ms", run.hook_id, run.status);
        context.data.line(&line)?;
        for entry in &run.entries {
            let text = entry.text.replace('\n', "\n    ");
            context.data.line(&format!("  {}: {text}", entry.kind))?;
        }
    }
    if trial.runs.is_empty() {
        let bound = harness
            .hooks()
            .iter()
            .filter(|hook| hook.event == event)
            .count();
        let note = format!("none of the {bound} hooks of {event} is for this payload");
        context.messages.note(&note);
    }
    for (name, value) in [
        ("input", &trial.verdict.updated_input),
        ("output", &trial.verdict.updated_output),
    ] {
        if let Some(value) = value {
            context.data.line(&format!("rewritten {name}: {value}"))?;
        }
    }
    let (word, reason) = outcome(&trial.verdict);
    context.data.line(&match reason {
        Some(reason) => format!("{word}: {reason}"),
        None => word.to_owned(),
    })?;
    Ok(())
}
