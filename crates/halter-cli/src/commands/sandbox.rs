//! `halter sandbox`: a command where an agent's commands run, and what that is.

use crate::args::{SandboxArgs, SandboxCommand};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness;
use halter::{Halter, SandboxPlan, SandboxStatus};
use serde_json::{Value, json};
use std::io::{stderr, stdin, stdout};
use std::os::fd::AsFd;

use super::exec_place::{ExecFindings, elsewhere};
use super::policy::explain::{directory, policy_harness};

/// Runs a command in the sandbox, or shows what there is.
pub async fn sandbox(context: &mut Context, arguments: SandboxArgs) -> Result<Exit, Failure> {
    match arguments.command {
        Some(SandboxCommand::Status(json)) => {
            context.errors_in_data = json.json;
            let loaded = harness::load_silently(context).await?;
            let harness = policy_harness(context, &loaded).await?;
            let (shown, lines) = match elsewhere(&loaded) {
                Some(_) => {
                    let found = ExecFindings::of(&loaded, &harness).await;
                    let requested = loaded.config.config.policy.sandbox;
                    let shown = json!({"requested": requested, "elsewhere": found.json()});
                    (shown, lines_elsewhere(&found, &json!(requested)))
                }
                None => {
                    let status = status(plan_of(context, &harness).await?).await?;
                    (json!(status), lines(&status))
                }
            };
            match json.json {
                true => context.data.json(&shown)?,
                false => {
                    for line in lines {
                        context.data.line(&line)?;
                    }
                }
            }
            Ok(Exit::Success)
        }
        None if arguments.words.is_empty() => Err(usage(
            "there is no command to run",
            "give one after `--`: halter sandbox -- COMMAND, or ask: halter sandbox status",
        )),
        None => run(context, arguments).await,
    }
}

/// The sandbox that a session here would have on this machine.
pub async fn plan_of(context: &Context, harness: &Halter) -> Result<SandboxPlan, Failure> {
    let (harness, directory) = (harness.clone(), directory(context)?);
    let plan = tokio::task::spawn_blocking(move || harness.sandbox_plan(&directory));
    Ok(plan.await.map_err(std::io::Error::other)??)
}

/// What that sandbox is.
pub async fn status(plan: SandboxPlan) -> Result<SandboxStatus, Failure> {
    tokio::task::spawn_blocking(move || plan.status())
        .await
        .map_err(std::io::Error::other)
        .map_err(Failure::from)
}

async fn run(context: &mut Context, arguments: SandboxArgs) -> Result<Exit, Failure> {
    let loaded = harness::load_silently(context).await?;
    let plan = plan_of(context, &policy_harness(context, &loaded).await?).await?;
    if let Some(place) = elsewhere(&loaded) {
        let message = format!(
            "this runs in a sandbox of this machine; the commands of a session run at {place}"
        );
        context.messages.warning(&message);
    }
    let directory = directory(context)?;
    let words = arguments.words;
    let started = tokio::task::spawn_blocking(move || {
        let (input, output, errors) = (stdin(), stdout(), stderr());
        let streams = [input.as_fd(), output.as_fd(), errors.as_fd()];
        plan.start(&words, &directory, streams)
    });
    let started = started.await.map_err(std::io::Error::other)?;
    let (status, program) = started?;
    if status.active != Some("namespaces") {
        for line in lines(&status) {
            context.messages.warning(&line);
        }
    }
    let ended = tokio::task::spawn_blocking(move || program.wait()).await;
    let ended = ended.map_err(std::io::Error::other)??;
    Ok(Exit::Program(
        u8::try_from(ended.shell_code()).unwrap_or(u8::MAX),
    ))
}

/// What there is to say where this machine's sandbox holds nothing.
fn lines_elsewhere(found: &ExecFindings, requested: &Value) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<12} that of the place where commands run, not of this machine (policy.sandbox = \
         {requested})",
        "sandbox"
    )];
    lines.extend(found.lines());
    lines
}

/// The status, a fact per line.
pub fn lines(status: &SandboxStatus) -> Vec<String> {
    let active = match (status.active, status.requested) {
        (Some(active), _) => active,
        (None, "require") => "none, so no command runs",
        (None, _) => "none",
    };
    let mut lines = vec![format!(
        "{:<12} {active} (policy.sandbox = \"{}\")",
        "sandbox", status.requested
    )];
    for rung in &status.rungs {
        let state = match &rung.reason {
            None => format!("works: {}", rung.mechanism),
            Some(reason) => format!("missing: {reason}"),
        };
        lines.push(format!("  {:<22} {state}", rung.name));
        lines.extend(
            rung.fix
                .iter()
                .map(|fix| format!("  {:<22} fix: {fix}", "")),
        );
    }
    let missing = status.not_held.iter();
    lines.extend(missing.map(|it| format!("  {:<22} {it}", "not held")));
    let limits = status.limits.iter();
    lines.extend(limits.map(|it| format!("  {:<22} {it}", "limit")));
    lines
}
