//! `shell`: commands in a shell that lives as long as the session.

mod report;

use super::jobs::Jobs;
use super::support::{blocking, path_in, spelled};
use crate::context::ToolContext;
use crate::exec::{BackgroundCommand, Environment, ExecCommand, ExecPlace};
use crate::limits::{
    JOB_KEPT_BYTES, SHELL_COMMAND_CHARS, SHELL_DEFAULT_TIMEOUT_SECS, SHELL_ENV_VARS,
};
use crate::typed::TypedTool;
use async_trait::async_trait;
use halter_policy::shell::{repository_environment, repository_environment_elsewhere};
use halter_policy::{PolicyError, ToolPolicy};
use halter_protocol::{Action, ToolCapabilities, ToolResult};
pub(super) use report::signal_of;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Run bash in a shell that is kept for the session: a `cd` lasts. Use it to
/// build, test and run git; for files, use `read`, `grep`, `glob`, `write` and
/// `edit`. Every program must be one that the user allows, named literally, and
/// every file lie in an allowed directory. Pipelines, loops, functions,
/// substitutions and here-documents work. Quote variables, and put `--` before
/// one that could look like an option. Always refused: `eval`, `exec`, `source`,
/// setting `PATH` and its like, arithmetic with variables not set to numbers
/// here. What throws work away (`rm -r`, `git reset --hard`, `git push --force`)
/// is asked about. A command gets no credentials and no input.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ShellInput {
    /// The command line.
    #[schemars(length(min = 1, max = SHELL_COMMAND_CHARS))]
    command: String,
    /// Where to run it, relative to the working directory.
    #[schemars(length(min = 1), extend("unsent" = true))]
    cwd: Option<String>,
    /// Variables for this command only.
    #[schemars(extend("maxProperties" = SHELL_ENV_VARS, "unsent" = true))]
    env: Option<BTreeMap<String, String>>,
    /// Stop it after this time; 120000 if left out.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
    /// Run it in a shell of its own until the session or a given `timeout_ms`
    /// ends; answers with a `job_id` for `process`.
    #[serde(default)]
    background: bool,
    /// Ask the user to run it outside the sandbox, which refused it and said so.
    #[serde(default)]
    #[schemars(extend("unsent" = true))]
    outside_sandbox: bool,
}

/// The argument by which a command is asked to leave the sandbox.
const OUTSIDE: &str = "outside_sandbox";

pub(crate) struct ShellTool;

#[async_trait]
impl TypedTool for ShellTool {
    type Input = ShellInput;
    const NAME: &'static str = "shell";

    fn capabilities(&self) -> ToolCapabilities {
        ToolCapabilities {
            mutating: true,
            requires_approval: true,
            cancellable: true,
            long_running: true,
        }
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        command_actions(input)
    }

    async fn run(&self, context: ToolContext, input: ShellInput) -> anyhow::Result<ToolResult> {
        let JudgedCommand {
            cwd,
            environment,
            place,
        } = CommandToJudge {
            text: &input.command,
            cwd: input.cwd,
            variables: input.env,
            outside_sandbox: input.outside_sandbox,
        }
        .judged(&context)
        .await?;
        if input.background {
            let mut command = BackgroundCommand::new(input.command, JOB_KEPT_BYTES);
            command.cwd = cwd;
            command.environment = environment;
            command.place = place;
            command.deadline = input.timeout_ms.map(Duration::from_millis);
            let started = Jobs::of(&context)?.start(&context, command).await?;
            // What looks at the job is of use from now on.
            context.load_tool(super::process::ProcessTool::NAME);
            return Ok(ToolResult::json(started));
        }
        let timeout = Timeout::new(&context, input.timeout_ms);
        let mut command = ExecCommand::new(input.command, timeout.deadline);
        command.cwd = cwd;
        command.environment = environment;
        command.place = place;
        command.hosts = context.hosts.clone();
        let output = |text: &str| context.emit_output(Self::NAME, text);
        let finished = context
            .exec()
            .await?
            .run(command, &context.cancel, &output)
            .await?;
        for refusal in &finished.refused_hosts {
            context.report_refusal(refusal);
        }
        Ok(report::result(finished, &timeout))
    }
}

/// What the command line of a call would touch.
pub(super) fn command_actions(input: &Value) -> Vec<Action> {
    let command = input.get("command").and_then(Value::as_str);
    let directory = path_in(input, "cwd");
    let run = command.map(|command| Action::Run {
        command: command.to_owned(),
        directory: directory.clone(),
    });
    let look = directory.map(|path| Action::Read { path });
    let leaves = input.get(OUTSIDE).and_then(Value::as_bool) == Some(true);
    let leave = leaves.then_some(Action::LeaveSandbox);
    run.into_iter().chain(look).chain(leave).collect()
}

/// The command line of a call, with where and how it is to run.
pub(super) struct CommandToJudge<'a> {
    pub(super) text: &'a str,
    pub(super) cwd: Option<String>,
    pub(super) variables: Option<BTreeMap<String, String>>,
    pub(super) outside_sandbox: bool,
}

/// What the policy lets through of it.
pub(super) struct JudgedCommand {
    /// Where it runs; absent: where the shell is.
    pub(super) cwd: Option<PathBuf>,
    pub(super) environment: Environment,
    pub(super) place: ExecPlace,
}

impl CommandToJudge<'_> {
    /// Checks the command line with its directory and variables.
    pub(super) async fn judged(self, context: &ToolContext) -> anyhow::Result<JudgedCommand> {
        context.policy.check_shell_enabled()?;
        let mut environment = checked(&*context.policy, self.variables.unwrap_or_default())?;
        let session = context.exec().await?;
        let cwd = directory(context, self.cwd).await?;
        let start = cwd.clone().or_else(|| session.directory());
        environment.extend(checked_command(context, self.text.to_owned(), start).await?);
        let place = match self.outside_sandbox {
            true => ExecPlace::Outside,
            false => place(context).await?,
        };
        Ok(JudgedCommand {
            cwd,
            environment,
            place,
        })
    }
}

/// The variables of a call, if none of them may change what runs.
fn checked(
    policy: &dyn ToolPolicy,
    variables: BTreeMap<String, String>,
) -> Result<Environment, PolicyError> {
    for (name, value) in &variables {
        policy.check_shell_variable(name)?;
        if value.contains('\0') {
            return Err(PolicyError::ShellCommandRejected {
                rule: "shell.variable",
                reason: "the value of a variable cannot hold a NUL byte".to_owned(),
                fragment: crate::suggest::shortened(name),
            });
        }
    }
    Ok(variables.into_iter().collect())
}

/// Checks a command that starts in this directory. Returns the variables that
/// keep git from running programs which its repositories name.
async fn checked_command(
    context: &ToolContext,
    command: String,
    start: Option<PathBuf>,
) -> anyhow::Result<Vec<(String, String)>> {
    let policy = Arc::clone(&context.policy);
    let working_dir = context.working_dir.clone();
    blocking(move || {
        policy.check_shell_command_in(&command, start.as_deref())?;
        let start = start.unwrap_or(working_dir);
        let door = policy.door();
        Ok(match door.is_elsewhere() {
            true => repository_environment_elsewhere(door, &command, &start),
            false => repository_environment(&command, &start),
        })
    })
    .await
}

/// Where a command runs that stays in a sandbox.
async fn place(context: &ToolContext) -> anyhow::Result<ExecPlace> {
    let policy = Arc::clone(&context.policy);
    let environment = Arc::clone(context.tool_sessions.base_environment());
    blocking(move || {
        let home = environment.get(OsStr::new("HOME")).map(Path::new);
        let bounds = policy.sandbox_for_call(home);
        Ok(bounds.map_or(ExecPlace::Session, |it| ExecPlace::Opened(Box::new(it))))
    })
    .await
}

/// The directory of a call, if the session may read it.
async fn directory(context: &ToolContext, cwd: Option<String>) -> anyhow::Result<Option<PathBuf>> {
    let Some(cwd) = cwd else {
        return Ok(None);
    };
    let policy = Arc::clone(&context.policy);
    blocking(move || {
        let directory = policy.door().open_dir(&spelled(&cwd))?;
        Ok(Some(directory.path().to_owned()))
    })
    .await
}

/// How long a command may run, and why.
struct Timeout {
    deadline: Duration,
    /// The most the policy allows.
    cap: Duration,
    asked: Option<Duration>,
}

impl Timeout {
    fn new(context: &ToolContext, asked_ms: Option<u64>) -> Self {
        let cap = context
            .policy
            .shell_timeout_secs()
            .min(context.shell_timeout_secs);
        Self::within(Duration::from_secs(cap), asked_ms)
    }

    fn within(cap: Duration, asked_ms: Option<u64>) -> Self {
        let asked = asked_ms.map(Duration::from_millis);
        let wanted = asked.unwrap_or(Duration::from_secs(SHELL_DEFAULT_TIMEOUT_SECS));
        Self {
            deadline: wanted.min(cap),
            cap,
            asked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(cap_secs: u64, asked_ms: Option<u64>) -> Timeout {
        Timeout::within(Duration::from_secs(cap_secs), asked_ms)
    }

    #[test]
    fn a_command_gets_what_is_asked_for_within_the_cap() {
        let default = SHELL_DEFAULT_TIMEOUT_SECS;
        for (cap, asked_ms, seconds) in [
            (600, None, default),
            (default - 1, None, default - 1),
            (600, Some(5_000), 5),
            (600, Some(600_000), 600),
            (600, Some(600_001), 600),
        ] {
            let deadline = timeout(cap, asked_ms).deadline;
            assert_eq!(deadline, Duration::from_secs(seconds), "{cap} {asked_ms:?}");
        }
    }

    #[test]
    fn a_note_names_the_cap_and_its_key_where_that_helps() {
        for (cap, asked_ms, timed_out, expected) in [
            (600, Some(600_000), false, None),
            (600, Some(5_000), true, None),
            (600, None, false, None),
            (600, Some(600_001), false, Some("cut from 600001 to 600000")),
            (600, None, true, Some("gets 120000; it may be up to 600000")),
            (60, None, true, Some("60000 ms is the most")),
        ] {
            let note = report::timeout_note(&timeout(cap, asked_ms), timed_out);
            match expected {
                None => assert_eq!(note, None),
                Some(expected) => assert!(note.is_some_and(|note| note.contains(expected))),
            }
        }
    }
}
