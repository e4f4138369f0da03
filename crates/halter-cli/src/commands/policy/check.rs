//! `halter policy check`: judges command lines.

use super::explain;
use crate::args::CheckArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness;
use halter_policy::permission::Verdict;
use halter_policy::shell::ShellDecision;
use halter_policy::{
    PolicyError, PolicySettings, ProgramList, SessionScope, ShellJudge, StandardPolicy,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Judges the command line of the arguments, or those on standard input.
pub async fn check(context: &mut Context, arguments: CheckArgs) -> Result<Exit, Failure> {
    if arguments.jsonl {
        return super::each_line(context, answer);
    }
    let Some(command) = arguments.command else {
        return Err(usage(
            "there is no command to judge",
            "give it as an argument",
        ));
    };
    match arguments.allow {
        Some(names) => {
            let names = names.into_iter().filter(|it| !it.is_empty()).collect();
            by_list(context, ProgramList::Set(names), &command)
        }
        None => as_configured(context, &command).await,
    }
}

/// What a list says: nobody is asked about a program that is not on it.
fn by_list(context: &mut Context, allowed: ProgramList, command: &str) -> Result<Exit, Failure> {
    let decision = ShellJudge::new(allowed).decide(command);
    let why = match &decision {
        ShellDecision::Allow => None,
        ShellDecision::Ask(why) | ShellDecision::Deny(why) => Some(why),
    };
    let why = why.map(|why| (why.rule, Some(why.fragment.as_str()), why.message.as_str()));
    say(context, decision.name(), why)
}

/// What a session of the configuration would do, by its lists, rules and mode.
async fn as_configured(context: &mut Context, command: &str) -> Result<Exit, Failure> {
    let loaded = harness::load_silently(context).await?;
    let harness = explain::policy_harness(context, &loaded).await?;
    let call = explain::call("shell", json!({"command": command}));
    let explained = harness.explain_call(&call, &explain::directory(context)?)?;
    let verdict = explain::verdict(&explained);
    let why = match (&explained.denied, &explained.decision) {
        (Some(denied), _) => Some((denied.rule.as_str(), denied.fragment.as_deref())),
        (None, Some(decision)) if verdict != Verdict::Allow => {
            Some((decision.by.code(), decision.fragment.as_deref()))
        }
        (None, _) => None,
    };
    let message = explain::reason(&explained);
    let why = why.map(|(rule, fragment)| (rule, fragment, message));
    say(context, verdict.as_str(), why)
}

/// Prints a decision, with the rule, the part of the command and the reason of
/// one that keeps it from running at once.
fn say(
    context: &mut Context,
    decision: &str,
    why: Option<(&str, Option<&str>, &str)>,
) -> Result<Exit, Failure> {
    let Some((rule, fragment, message)) = why else {
        context.data.line(decision)?;
        return Ok(Exit::Success);
    };
    let fragment = fragment.map(|it| format!(" `{it}`")).unwrap_or_default();
    context
        .data
        .line(&format!("{decision} [{rule}]{fragment}: {message}"))?;
    Ok(Exit::Denied)
}

/// One line of standard input. Paths are judged only where the line says what
/// may be read and written.
#[derive(Deserialize)]
struct CheckLine {
    command: String,
    allow: Option<Vec<String>>,
    cwd: Option<PathBuf>,
    read_roots: Option<Vec<PathBuf>>,
    write_roots: Option<Vec<PathBuf>>,
}

fn answer(line: &[u8]) -> Result<Value, String> {
    let line: CheckLine = serde_json::from_slice(line).map_err(|error| {
        format!("the line is not {{\"command\":\"…\",\"allow\":[\"…\"]}}: {error}")
    })?;
    let allow = line.allow.map_or(ProgramList::Default, ProgramList::Set);
    let decision = match (line.cwd, line.read_roots, line.write_roots) {
        (Some(cwd), Some(read), Some(write)) => {
            in_roots(&line.command, allow, cwd, read, write).map_err(|error| error.to_string())?
        }
        _ => ShellJudge::new(allow).decide(&line.command),
    };
    Ok(match &decision {
        ShellDecision::Allow => {
            json!({"decision": "allow", "rule": null, "fragment": null, "message": null})
        }
        ShellDecision::Ask(why) | ShellDecision::Deny(why) => json!({
            "decision": decision.name(),
            "rule": why.rule,
            "fragment": why.fragment,
            "message": why.message,
        }),
    })
}

fn in_roots(
    command: &str,
    allow: ProgramList,
    cwd: PathBuf,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
) -> Result<ShellDecision, PolicyError> {
    let is_set = matches!(allow, ProgramList::Set(_));
    let settings = PolicySettings {
        allowed_shell_commands: allow,
        allowed_read_roots: read,
        allowed_write_roots: write,
        ..PolicySettings::default()
    };
    let scope = SessionScope {
        working_dir: cwd,
        only_given_roots: true,
        ..SessionScope::default()
    };
    let policy = StandardPolicy::bind(settings, scope)?;
    Ok(match policy.decide_shell_command(command, None) {
        // Nobody is asked here about a file.
        ShellDecision::Ask(why) if !why.rule.starts_with("shell.destructive") && is_set => {
            ShellDecision::Deny(why)
        }
        decision => decision,
    })
}
