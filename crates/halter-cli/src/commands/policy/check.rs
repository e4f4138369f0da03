//! `halter policy check`: judges command lines.

use crate::args::CheckArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness;
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
    let allowed = match arguments.allow {
        Some(names) => ProgramList::Set(names.into_iter().filter(|it| !it.is_empty()).collect()),
        None => configured(context).await?,
    };
    let decision = ShellJudge::new(allowed).decide(&command);
    match &decision {
        ShellDecision::Allow => context.data.line("allow")?,
        ShellDecision::Ask(why) | ShellDecision::Deny(why) => {
            let name = decision.name();
            let (rule, fragment, message) = (why.rule, &why.fragment, &why.message);
            context
                .data
                .line(&format!("{name} [{rule}] `{fragment}`: {message}"))?;
        }
    }
    Ok(match decision {
        ShellDecision::Allow => Exit::Success,
        ShellDecision::Ask(_) | ShellDecision::Deny(_) => Exit::Denied,
    })
}

/// The list of the configuration.
async fn configured(context: &Context) -> Result<ProgramList, Failure> {
    let loaded = harness::load_silently(context).await?;
    let shell = &loaded.config.config.policy.shell;
    Ok(match shell.allow_is_default() {
        true => ProgramList::Default,
        false => ProgramList::Set(shell.allow.clone()),
    })
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
