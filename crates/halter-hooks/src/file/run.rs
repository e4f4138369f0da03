//! Running a handler of a file.

use super::answer::{Asked, FileAnswer};
use super::handler::{FileHandler, HandlerAction};
use super::http;
use super::outside::{AgentQuestion, HookOutside, HttpCall, PromptQuestion};
use super::public::public_payload;
use crate::event::HookEventName;
use crate::limits::{AGENT_TURNS, COMMAND_GRACE, MAX_OUTPUT_BYTES};
use halter_exec::{Command, Environment, OutputChunk, OutputLimits, find_program};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Where handlers run: in which directory, and with what around them.
#[derive(Clone)]
pub(crate) struct RunPlace {
    pub cwd: PathBuf,
    pub outside: Arc<dyn HookOutside>,
}

/// Where programs are looked for by who has no `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs a handler to its end, or to its timeout. `payload` has our names. An
/// error says in words how it failed.
pub(crate) async fn run(
    handler: Arc<FileHandler>,
    event: HookEventName,
    payload: Value,
    place: RunPlace,
    timeout: Duration,
) -> Result<FileAnswer, String> {
    let told = public_payload(event, &payload, &place.cwd);
    let asked = Asked {
        event,
        payload: &payload,
        cwd: &place.cwd,
    };
    let run = HandlerRun {
        handler: &handler,
        told: &told,
        place: &place,
        timeout,
    };
    match &handler.action {
        HandlerAction::Shell { line, env } => {
            let environment = run.environment(env);
            let shell = run.shell(&environment);
            let command = Command::new(shell, &place.cwd).args(["-c", line.as_str()]);
            run.command(command.environment(environment), &asked).await
        }
        HandlerAction::Program { program, args, env } => {
            let environment = run.environment(env);
            let args = args.iter().map(|arg| run.with_places(arg));
            let command = Command::new(run.with_places(program), &place.cwd).args(args);
            run.command(command.environment(environment), &asked).await
        }
        HandlerAction::Http { url, headers } => run.http(url, headers, &asked).await,
        HandlerAction::Prompt { prompt, model } => {
            let question = PromptQuestion {
                prompt: run.prompt(prompt),
                model: model.clone(),
                session_id: run.session_id(),
            };
            asked.model(&place.outside.ask(question).await?)
        }
        HandlerAction::Agent {
            prompt,
            model,
            max_turns,
        } => {
            let question = AgentQuestion {
                prompt: run.prompt(prompt),
                model: model.clone(),
                max_turns: max_turns.unwrap_or(AGENT_TURNS).min(AGENT_TURNS),
                cwd: place.cwd.clone(),
                session_id: run.session_id(),
            };
            asked.model(&place.outside.look(question).await?)
        }
    }
}

struct HandlerRun<'a> {
    handler: &'a FileHandler,
    /// The payload in public names.
    told: &'a Value,
    place: &'a RunPlace,
    timeout: Duration,
}

impl HandlerRun<'_> {
    /// What a command sees: what all commands see, what it is granted, and
    /// where it is.
    fn environment(&self, own: &BTreeMap<String, String>) -> Environment {
        let mut environment = Environment::new();
        for (name, value) in self.place.outside.environment() {
            environment.set(name, value);
        }
        if environment.get("PATH").is_none() {
            environment.set("PATH", USUAL_PATH);
        }
        for name in &self.handler.env_vars {
            if let Some(value) = self.place.outside.variable(name) {
                environment.set(name, value);
            }
        }
        for (name, value) in own {
            environment.set(name, self.with_places(value));
        }
        for (name, directory) in self.places() {
            environment.set(name, directory);
        }
        environment
    }

    /// The directories that a file may name, by their variables.
    fn places(&self) -> Vec<(&'static str, &Path)> {
        let origin = &self.handler.origin;
        let mut places = vec![("CLAUDE_PROJECT_DIR", self.place.cwd.as_path())];
        if let Some(root) = &origin.root {
            places.push(("CLAUDE_PLUGIN_ROOT", root));
            places.push(("PLUGIN_ROOT", root));
        }
        if let Some(data) = &origin.data {
            places.push(("CLAUDE_PLUGIN_DATA", data));
            places.push(("PLUGIN_DATA", data));
        }
        if let Some(directory) = &origin.skill_dir {
            places.push(("CLAUDE_SKILL_DIR", directory));
        }
        places
    }

    /// A word of a command that no shell reads, with `${CLAUDE_PLUGIN_ROOT}`
    /// and the like filled in.
    fn with_places(&self, word: &str) -> String {
        let mut word = word.to_owned();
        for (name, directory) in self.places() {
            word = word.replace(&format!("${{{name}}}"), &directory.to_string_lossy());
        }
        word
    }

    fn shell(&self, environment: &Environment) -> &'static str {
        match find_program(OsStr::new("bash"), environment, &self.place.cwd) {
            Ok(_) => "bash",
            Err(_) => "sh",
        }
    }

    fn session_id(&self) -> Option<String> {
        let id = self.told.get("session_id").and_then(Value::as_str);
        id.map(str::to_owned)
    }

    /// The question with the payload where the file wants it.
    fn prompt(&self, prompt: &str) -> String {
        let payload = self.told.to_string();
        match prompt.contains("$ARGUMENTS") {
            true => prompt.replace("$ARGUMENTS", &payload),
            false => format!("{prompt}\n\n{payload}"),
        }
    }

    async fn command(&self, command: Command, asked: &Asked<'_>) -> Result<FileAnswer, String> {
        let mut input = self.told.to_string().into_bytes();
        input.push(b'\n');
        let command = command
            .stdin(input)
            .deadline(self.timeout)
            .grace(COMMAND_GRACE)
            .output_limits(OutputLimits {
                memory_bytes: MAX_OUTPUT_BYTES,
                spool: None,
            });
        // One that never stops writing is not waited for until its timeout.
        let flooded = CancellationToken::new();
        let sink = |chunk: OutputChunk| {
            if chunk.offset + chunk.bytes.len() as u64 > MAX_OUTPUT_BYTES as u64 {
                flooded.cancel();
            }
        };
        let outcome = halter_exec::run(command, &flooded, &sink)
            .await
            .map_err(|error| format!("could not be run: {error}"))?;
        if outcome.timed_out {
            return Err(no_answer(self.timeout));
        }
        let whole = outcome.stdout.is_complete() && outcome.stderr.is_complete();
        if outcome.cancelled || !whole {
            return Err(format!("wrote more than {MAX_OUTPUT_BYTES} bytes"));
        }
        let (stdout, stderr) = (outcome.stdout.to_bytes(), outcome.stderr.to_bytes());
        asked.command(outcome.status, &stdout, &stderr)
    }

    async fn http(
        &self,
        url: &str,
        headers: &BTreeMap<String, String>,
        asked: &Asked<'_>,
    ) -> Result<FileAnswer, String> {
        let variable = |name: &str| {
            let value = self.place.outside.variable(name)?;
            value.into_string().ok()
        };
        let call = HttpCall {
            url: url.to_owned(),
            headers: http::headers(headers, &self.handler.env_vars, variable),
            body: self.told.to_string().into_bytes(),
            timeout: self.timeout,
            max_answer_bytes: MAX_OUTPUT_BYTES,
        };
        let answer = self.place.outside.send(call).await?;
        match answer.status {
            200..=299 => asked.text(&answer.body),
            status => Err(format!("the server answered with status {status}")),
        }
    }
}

/// How a handler failed that was not waited for any longer.
pub(crate) fn no_answer(timeout: Duration) -> String {
    format!("gave no answer within {timeout:?}")
}
