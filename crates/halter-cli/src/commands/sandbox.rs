//! `halter sandbox`: a command where an agent's commands run, and what that is.

use crate::args::{SandboxArgs, SandboxCommand};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness;
use halter::SandboxPlan;
use halter::SandboxStatus;
use std::io::{stderr, stdin, stdout};
use std::os::fd::AsFd;

use super::policy::explain::{directory, policy_harness};

/// Runs a command in the sandbox, or shows what there is.
pub async fn sandbox(context: &mut Context, arguments: SandboxArgs) -> Result<Exit, Failure> {
    match arguments.command {
        Some(SandboxCommand::Status(json)) => {
            context.errors_in_data = json.json;
            let status = status(context).await?;
            match json.json {
                true => context.data.json(&serde_json::json!(status))?,
                false => {
                    for line in lines(&status) {
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

async fn plan(context: &Context) -> Result<SandboxPlan, Failure> {
    let loaded = harness::load_silently(context).await?;
    let harness = policy_harness(context, &loaded).await?;
    Ok(harness.sandbox_plan(&directory(context)?)?)
}

/// What the sandbox of a session here would be.
pub async fn status(context: &Context) -> Result<SandboxStatus, Failure> {
    let plan = plan(context).await?;
    tokio::task::spawn_blocking(move || plan.status())
        .await
        .map_err(std::io::Error::other)
        .map_err(Failure::from)
}

async fn run(context: &mut Context, arguments: SandboxArgs) -> Result<Exit, Failure> {
    let plan = plan(context).await?;
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

/// The status, a fact per line.
pub fn lines(status: &SandboxStatus) -> Vec<String> {
    let active = status.active.unwrap_or("none");
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
