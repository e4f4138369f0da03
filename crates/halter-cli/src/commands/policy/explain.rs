//! `halter policy explain`: the whole way of one call, without running it.

use crate::args::ExplainArgs;
use crate::commands::exec_place::elsewhere;
use crate::commands::sandbox::{plan_of, status};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness::{self, Models, Store};
use halter::SandboxStatus;
use halter::providers::OfflineProvider;
use halter::{CallExplanation, CompiledResources, Halter};
use halter_config::Origin;
use halter_policy::permission::Verdict;
use halter_protocol::{Action, ToolCall};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Explains what would become of a call.
pub async fn explain(context: &mut Context, arguments: ExplainArgs) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json.json;
    let input: Value = serde_json::from_str(&arguments.input).map_err(|error| {
        usage(
            format!("the input is not JSON: {error}"),
            "give a JSON object",
        )
    })?;
    let mut loaded = harness::load(context).await?;
    arguments.permissions.apply(&mut loaded.config)?;
    let harness = policy_harness(context, &loaded).await?;
    let call = call(&arguments.tool, input);
    let explanation = harness.explain_call(&call, &directory(context)?)?;
    let sandbox = match elsewhere(&loaded) {
        Some(place) => format!("that of {place}, not of this machine"),
        None => {
            let plan = plan_of(context, &harness).await?;
            in_a_word(&status(plan).await?).to_owned()
        }
    };
    let mode_origin = loaded.config.origin("permissions.mode");
    match arguments.json.json {
        true => context
            .data
            .json(&as_json(&call, &explanation, &mode_origin, &sandbox))?,
        false => {
            for line in as_lines(&call, &explanation, &mode_origin, &sandbox) {
                context.data.line(&line)?;
            }
        }
    }
    Ok(Exit::Success)
}

/// A harness that is only asked about its policy.
pub async fn policy_harness(
    context: &Context,
    loaded: &harness::Loaded,
) -> Result<Halter, Failure> {
    harness::build(
        context,
        loaded,
        CompiledResources::default(),
        Models::Injected(Arc::new(OfflineProvider::new())),
        Store::Memory,
    )
    .await
}

/// Where a session would work.
pub fn directory(context: &Context) -> Result<PathBuf, Failure> {
    let here = context.environment.current_dir().unwrap_or(Path::new("."));
    std::path::absolute(here).map_err(Failure::from)
}

/// A call of a tool.
pub fn call(tool: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: "explained".into(),
        name: tool.into(),
        arguments,
    }
}

/// What becomes of the call, in a word.
pub fn verdict(explanation: &CallExplanation) -> Verdict {
    let decision = explanation.decision.as_ref();
    decision.map_or(Verdict::Deny, |decision| decision.verdict)
}

/// Why that becomes of the call.
pub fn reason(explanation: &CallExplanation) -> &str {
    match (&explanation.denied, &explanation.decision) {
        (Some(objection), _) => &objection.message,
        (None, Some(decision)) => &decision.why,
        (None, None) => "",
    }
}

/// The rung that commands run on.
fn in_a_word(status: &SandboxStatus) -> &'static str {
    status.active.unwrap_or("none")
}

fn touched(action: &Action) -> String {
    match action {
        Action::Run {
            command,
            directory: Some(directory),
        } => format!("runs `{command}` in {}", directory.display()),
        Action::Run { command, .. } => format!("runs `{command}`"),
        Action::Read { path } => format!("reads {}", path.display()),
        Action::Write { path } => format!("changes {}", path.display()),
        Action::Reach { host } => format!("reaches {host}"),
        Action::LeaveSandbox => "runs outside the sandbox".to_owned(),
        Action::Other { mutating: true } => "changes something it does not name".to_owned(),
        _ => "changes nothing outside the session".to_owned(),
    }
}

fn as_lines(
    call: &ToolCall,
    explained: &CallExplanation,
    mode: &Origin,
    sandbox: &str,
) -> Vec<String> {
    let mut lines = vec![format!("call      {} {}", call.name, call.arguments)];
    for action in &explained.actions {
        lines.push(format!("touches   {}", touched(action)));
    }
    lines.push(match &explained.denied {
        Some(objection) => format!(
            "policy    denies it [{}]: {}",
            objection.rule, objection.message
        ),
        None => "policy    lets it through".to_owned(),
    });
    for covering in &explained.rules {
        let part = covering.fragment.as_ref();
        let part = part
            .map(|part| format!(" covers `{part}`"))
            .unwrap_or_default();
        lines.push(format!("rule      {}{part}", covering.rule.described()));
    }
    if explained.rules.is_empty() {
        lines.push("rule      none covers it".to_owned());
    }
    lines.push(format!("mode      {} ({mode})", explained.mode));
    lines.push(match sandbox {
        "none" => "sandbox   none: a command runs with the rights of halter itself".to_owned(),
        rung => format!("sandbox   {rung}"),
    });
    let why = reason(explained);
    lines.push(format!("decision  {}: {why}", verdict(explained).as_str()));
    let always = explained
        .decision
        .as_ref()
        .and_then(|it| it.always.as_ref());
    lines.extend(always.map(|rule| format!("always    {rule} in permissions.allow would not ask")));
    lines
}

fn as_json(call: &ToolCall, explained: &CallExplanation, mode: &Origin, sandbox: &str) -> Value {
    let rules: Vec<Value> = explained
        .rules
        .iter()
        .map(|it| {
            json!({
                "effect": it.rule.effect.as_str(),
                "rule": it.rule.rule.text(),
                "source": it.rule.source.as_str(),
                "place": it.rule.place,
                "fragment": it.fragment,
            })
        })
        .collect();
    let decision = explained.decision.as_ref();
    json!({
        "tool": call.name,
        "input": call.arguments,
        "actions": explained.actions,
        "policy": explained.denied,
        "rules": rules,
        "mode": {"value": explained.mode, "origin": mode.to_string()},
        "sandbox": sandbox,
        "decision": verdict(explained).as_str(),
        "decided_by": decision.map(|it| it.by.code()),
        "message": reason(explained),
        "always": decision.and_then(|it| it.always.clone()),
    })
}
