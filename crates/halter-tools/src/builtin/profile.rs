//! `profile`: where a command, or a process of the session, spends its time.
//!
//! Another program takes the samples, or the kernel is asked: nothing is
//! installed in this one, no signal handler either.

mod flame;

use super::change::change_file;
use super::shell::{CommandToJudge, JudgedCommand, command_actions, signal_of};
use super::support::{blocking, path_in};
use super::write::unless_changed;
use crate::availability::HarnessFacts;
use crate::context::{ToolContext, cancelled};
use crate::exec::{BackgroundCommand, RunningCommand, RunningSampling, StackSamples};
use crate::limits::{
    PROFILE_DEFAULT_HERTZ, PROFILE_DEFAULT_SECS, PROFILE_FUNCTIONS, PROFILE_HERTZ,
    PROFILE_OUTPUT_BYTES, PROFILE_SECS, SHELL_COMMAND_CHARS, SHELL_ENV_VARS,
};
use crate::typed::TypedTool;
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use halter_protocol::{Action, ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Find out where time goes: samples a `command` that it starts, or a process
/// of this session (`pid`) with all below it, and answers with the hottest
/// functions and a flame graph. Ends after `last_seconds`, or with the command,
/// which is then ended. Build what you measure with optimisation and debug
/// information, and with frame pointers if stacks are cut short.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ProfileInput {
    /// The command line to start and sample.
    #[schemars(length(min = 1, max = SHELL_COMMAND_CHARS))]
    command: Option<String>,
    /// A directory to run the command in.
    #[schemars(length(min = 1))]
    cwd: Option<String>,
    /// Variables for the command.
    #[schemars(extend("maxProperties" = SHELL_ENV_VARS))]
    env: Option<BTreeMap<String, String>>,
    /// The process to sample, instead of a command.
    #[schemars(range(min = 1))]
    pid: Option<i32>,
    /// How long to sample at most.
    #[serde(default = "default_secs")]
    #[schemars(range(min = 1, max = PROFILE_SECS))]
    last_seconds: u64,
    /// The same as `last_seconds`.
    #[schemars(range(min = 1, max = PROFILE_SECS), extend("unsent" = true))]
    seconds: Option<u64>,
    /// Samples in a second.
    #[serde(default = "default_hertz")]
    #[schemars(range(min = 1, max = PROFILE_HERTZ))]
    hertz: u32,
    /// Write the flame graph to this SVG file.
    #[schemars(length(min = 1))]
    output_path: Option<String>,
}

impl ProfileInput {
    fn time(&self) -> u64 {
        self.seconds.unwrap_or(self.last_seconds)
    }
}

fn default_secs() -> u64 {
    PROFILE_DEFAULT_SECS
}

fn default_hertz() -> u32 {
    PROFILE_DEFAULT_HERTZ
}

pub(crate) struct ProfileTool;

#[async_trait]
impl TypedTool for ProfileTool {
    type Input = ProfileInput;
    const NAME: &'static str = "profile";
    const SUMMARY: Option<&'static str> = Some("where time goes");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        ToolCapabilities {
            mutating: true,
            requires_approval: true,
            cancellable: true,
            long_running: true,
        }
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let mut actions = command_actions(input);
        if actions.is_empty() {
            actions.push(Action::Other { mutating: false });
        }
        actions.extend(path_in(input, "output_path").map(|path| Action::Write { path }));
        actions
    }

    fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
        (!harness.samples_processes).then(|| {
            "processes cannot be sampled where commands run; run `perf` there with `shell`, or \
             set exec.backend = \"local\""
                .to_owned()
        })
    }

    async fn run(&self, context: ToolContext, input: ProfileInput) -> anyhow::Result<ToolResult> {
        let mut facts = Map::new();
        let begun = Instant::now();
        // Dropped, both the command and whoever samples it end.
        let (samples, title) = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(cancelled().into()),
            sampled = sampled(&context, &input, &mut facts) => sampled?,
        };
        let elapsed = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        facts.insert("method".into(), samples.method.into());
        facts.insert("sample_count".into(), samples.count().into());
        facts.insert("total_ms".into(), elapsed.into());
        facts.insert("summary".into(), hottest(&samples));
        if let Some(note) = &samples.note {
            facts.insert("note".into(), note.clone().into());
        }
        let title: String = title.chars().take(120).collect();
        keep(&context, input.output_path, samples, title, facts).await
    }
}

/// Samples what is asked for, and says what that was.
async fn sampled(
    context: &ToolContext,
    input: &ProfileInput,
    facts: &mut Map<String, Value>,
) -> anyhow::Result<(StackSamples, String)> {
    match (&input.command, input.pid) {
        (Some(command), None) => {
            let samples = of_command(context, input, command, facts).await?;
            Ok((samples, command.clone()))
        }
        (None, Some(pid)) => {
            let sampling = context.exec().await?.sample(pid, input.hertz).await?;
            let samples = taken(sampling, input, None).await?;
            Ok((samples, format!("process {pid}")))
        }
        _ => bail!("name either a `command` to start, or the `pid` of a process"),
    }
}

/// Starts a command, samples it until it ends or the time is over, and says how
/// it ended.
async fn of_command(
    context: &ToolContext,
    input: &ProfileInput,
    command: &str,
    facts: &mut Map<String, Value>,
) -> anyhow::Result<StackSamples> {
    let JudgedCommand {
        cwd,
        environment,
        place,
    } = CommandToJudge {
        text: command,
        cwd: input.cwd.clone(),
        variables: input.env.clone(),
        outside_sandbox: false,
    }
    .judged(context)
    .await?;
    // It waits for a line until it is being sampled.
    let text = format!("read -r\n{command}");
    let mut waiting = BackgroundCommand::new(text, 2 * PROFILE_OUTPUT_BYTES);
    waiting.cwd = cwd;
    waiting.environment = environment;
    waiting.place = place;
    let exec = context.exec().await?;
    let started = exec.start(waiting).await?;
    let running = started.command;
    if let Some(note) = started.sandbox_note {
        facts.insert("sandbox_note".into(), note.into());
    }
    let samples = async {
        let pid = running.pid().context("the command ended at once")?;
        let sampling = exec.sample(pid, input.hertz).await?;
        running.write(b"\n").await?;
        running.end_input().await;
        taken(sampling, input, Some(&running)).await
    }
    .await;
    let ended_by_itself = running.progress().end;
    running.stop().await;
    let samples = samples?;
    match ended_by_itself.and_then(|end| end.status) {
        Some(status) => {
            facts.insert("exit_code".into(), status.shell_code().into());
            if let Some(signal) = signal_of(status) {
                facts.insert("signal".into(), signal.into());
            }
        }
        None => {
            facts.insert("ended_after_secs".into(), input.time().into());
        }
    }
    let printed = running.progress().printed;
    let omitted = printed.saturating_sub(PROFILE_OUTPUT_BYTES as u64);
    let mut output = Vec::new();
    // The start and the end of it are kept apart, and read one after the other.
    while omitted + (output.len() as u64) < printed {
        let from = omitted + output.len() as u64;
        let piece = running.read(from, PROFILE_OUTPUT_BYTES).await?;
        if piece.bytes.is_empty() {
            break;
        }
        output.extend(piece.bytes);
    }
    let output = String::from_utf8_lossy(&output).into_owned();
    facts.insert("output".into(), output.into());
    if omitted > 0 {
        facts.insert("output_omitted_bytes".into(), omitted.into());
    }
    Ok(samples)
}

/// Samples until the time is over, or what is sampled is.
async fn taken(
    mut sampling: Box<dyn RunningSampling>,
    input: &ProfileInput,
    command: Option<&Arc<dyn RunningCommand>>,
) -> anyhow::Result<StackSamples> {
    let ended = async {
        match command {
            Some(command) => drop(command.printed_more_than(u64::MAX).await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = ended => {}
        () = sampling.over() => {}
        () = tokio::time::sleep(Duration::from_secs(input.time())) => {}
    }
    sampling.finish().await
}

/// The functions that most samples were in, and those below them.
fn hottest(samples: &StackSamples) -> Value {
    let (mut own, mut all) = (HashMap::new(), HashMap::new());
    for (stack, seen) in samples.stacks() {
        if let Some(innermost) = stack.last() {
            *own.entry(innermost.as_str()).or_insert(0_u64) += seen;
        }
        let functions: HashSet<&str> = stack.iter().map(String::as_str).collect();
        for function in functions {
            *all.entry(function).or_insert(0_u64) += seen;
        }
    }
    let mut rows: Vec<(&str, u64)> = own.into_iter().collect();
    rows.sort_unstable_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    let total = samples.count();
    let rows = rows
        .into_iter()
        .take(PROFILE_FUNCTIONS)
        .map(|(name, seen)| {
            let with_inner = all.get(name).copied().unwrap_or(seen);
            json!({
                "function": name,
                "self_percent": percent(seen, total),
                "total_percent": percent(with_inner, total),
            })
        });
    rows.collect()
}

fn percent(part: u64, total: u64) -> Value {
    // Tenths, so that no float is written with a tail.
    let tenths = part.saturating_mul(1000) / total.max(1);
    #[expect(clippy::cast_precision_loss, reason = "at most a thousand")]
    let value = tenths as f64 / 10.0;
    value.into()
}

/// Writes the flame graph and the folded stacks to files, and answers.
async fn keep(
    context: &ToolContext,
    output_path: Option<String>,
    samples: StackSamples,
    title: String,
    mut facts: Map<String, Value>,
) -> anyhow::Result<ToolResult> {
    let scratch = Arc::clone(context.tool_sessions.scratch());
    let wanted = output_path.is_some();
    let (folded, svg, picture) = blocking(move || {
        let directory = scratch.create()?;
        let mut lines = String::new();
        for (stack, seen) in samples.stacks() {
            let names: Vec<String> = stack.iter().map(|name| name.replace(';', ":")).collect();
            lines.push_str(&format!("{} {seen}\n", names.join(";")));
        }
        let folded = write_new(directory, "folded", lines.as_bytes())?;
        let picture = flame::svg(&samples, &title);
        let svg = match wanted {
            true => None,
            false => Some(write_new(directory, "svg", picture.as_bytes())?),
        };
        Ok((folded, svg, picture))
    })
    .await?;
    facts.insert("folded".into(), folded.display().to_string().into());
    if let Some(svg) = svg {
        facts.insert("svg".into(), svg.display().to_string().into());
        return Ok(ToolResult::json(Value::Object(facts)));
    }
    let path = output_path.unwrap_or_default();
    change_file(context.clone(), &path, move |file| {
        let precondition = unless_changed(&file)?;
        facts.insert("svg".into(), file.path.clone().into());
        file.commit(picture.into_bytes(), precondition)?;
        Ok(Value::Object(facts))
    })
    .await
}

/// A new file in the session's own directory.
fn write_new(directory: &std::path::Path, kind: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
    for number in 1_u32.. {
        let path = directory.join(format!("profile-{number}.{kind}"));
        match File::create_new(&path) {
            Ok(mut file) => {
                file.write_all(content)?;
                return Ok(path);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("there are too many files")
}
