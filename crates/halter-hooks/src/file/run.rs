//! Running a handler of a file.

use super::answer::{Asked, FileAnswer};
use super::handler::{FileHandler, HandlerAction};
use super::http;
use super::outside::{AgentQuestion, HookOutside, HttpCall, PromptQuestion};
use super::public::public_payload;
use crate::event::HookEventName;
use crate::limits::{AGENT_TURNS, COMMAND_GRACE, MAX_OUTPUT_BYTES};
use halter_exec::{Command, Environment, OutputChunk, OutputLimits, OutputStream, find_program};
use halter_protocol::public_tools::public_changed_paths;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Where handlers run: in which directory, and with what around them.
#[derive(Clone)]
pub(crate) struct RunPlace {
    pub cwd: PathBuf,
    /// The top of the project that `cwd` lies in.
    pub project_dir: PathBuf,
    pub outside: Arc<dyn HookOutside>,
}

/// Where programs are looked for by who has no `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs a handler to its end, or to its timeout. `payload` has our names. An
/// error says in words how it failed. `detach` is used if a command says that
/// it goes on beside the turn.
pub(crate) async fn run(
    handler: Arc<FileHandler>,
    event: HookEventName,
    payload: Value,
    place: RunPlace,
    timeout: Duration,
    detach: oneshot::Sender<()>,
) -> Result<FileAnswer, String> {
    let mut told = public_payload(event, &payload, &place.cwd);
    let asked = Asked {
        event,
        payload: &payload,
        cwd: &place.cwd,
    };
    let first_line = FirstLine::new(detach);
    let files = several_files(event, &payload, &place.cwd);
    let several = files.len() > 1;
    // Handlers of public files know of one file in a call, so they are asked
    // about each, until one has something against it.
    let mut whole: Option<FileAnswer> = None;
    for file in files {
        first_line.begin();
        if let (Some(file), Some(Value::Object(input))) = (file, told.get_mut("tool_input")) {
            input.insert("file_path".to_owned(), file);
        }
        let run = HandlerRun {
            handler: &handler,
            told: &told,
            place: &place,
            timeout,
            first_line: &first_line,
        };
        let answer = act(&run, &asked).await?;
        if !several || answer.objects() {
            return Ok(answer);
        }
        if answer.output.updated_input.is_some() || answer.output.updated_output.is_some() {
            return Err("rewrote a call that changes several files".to_owned());
        }
        match &mut whole {
            Some(whole) => whole.join(answer),
            None => whole = Some(answer),
        }
    }
    Ok(whole.unwrap_or_default())
}

/// The files of a call that changes several; of any other call one, which its
/// input names.
fn several_files(event: HookEventName, payload: &Value, cwd: &Path) -> Vec<Option<Value>> {
    let tool = payload.get("tool_name").and_then(Value::as_str);
    let files = match (tool, payload.get("tool_input")) {
        (Some(tool), Some(input)) if event.is_about_a_call() => {
            public_changed_paths(tool, input, cwd)
        }
        _ => Vec::new(),
    };
    match files.len() {
        0 | 1 => vec![None],
        _ => files.into_iter().map(Some).collect(),
    }
}

async fn act(run: &HandlerRun<'_>, asked: &Asked<'_>) -> Result<FileAnswer, String> {
    let place = run.place;
    match &run.handler.action {
        HandlerAction::Shell { line, env } => {
            let environment = run.environment(env);
            let shell = run.shell(&environment);
            let command = Command::new(shell, run.directory()).args(["-c", line.as_str()]);
            run.command(command.environment(environment), asked).await
        }
        HandlerAction::Program { program, args, env } => {
            let environment = run.environment(env);
            let args = args.iter().map(|arg| run.with_places(arg));
            let command = Command::new(run.with_places(program), run.directory()).args(args);
            run.command(command.environment(environment), asked).await
        }
        HandlerAction::Http { url, headers } => run.http(url, headers, asked).await,
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
    first_line: &'a FirstLine,
}

/// Waits for a command to say in its first line that it goes on beside the
/// turn: `{"async": true}`.
struct FirstLine(Mutex<(Vec<u8>, Option<oneshot::Sender<()>>)>);

impl FirstLine {
    fn new(detach: oneshot::Sender<()>) -> Self {
        Self(Mutex::new((Vec::new(), Some(detach))))
    }

    /// Another command is heard from here on.
    fn begin(&self) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.0.clear();
    }

    fn hear(&self, chunk: &OutputChunk) {
        if chunk.stream != OutputStream::Stdout {
            return;
        }
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (line, detach) = &mut *heard;
        if detach.is_none() {
            return;
        }
        let rest = chunk.bytes.split(|byte| *byte == b'\n').next();
        line.extend_from_slice(rest.unwrap_or_default());
        let is_whole = chunk.bytes.contains(&b'\n');
        if is_whole || line.len() > ASYNC_LINE_BYTES {
            let detach = detach.take();
            if is_whole
                && goes_on(line)
                && let Some(detach) = detach
            {
                let _ = detach.send(());
            }
        }
    }
}

/// The longest line by which a command goes on beside the turn.
const ASYNC_LINE_BYTES: usize = 4096;

fn goes_on(line: &[u8]) -> bool {
    let said = serde_json::from_slice::<Value>(line);
    said.is_ok_and(|said| said.get("async") == Some(&Value::Bool(true)))
}

/// What a command says after the line by which it went on.
fn after_async_line(stdout: &[u8]) -> &[u8] {
    let end = stdout.iter().position(|byte| *byte == b'\n');
    let end = end.unwrap_or(stdout.len());
    match stdout.split_at_checked(end) {
        Some((line, rest)) if goes_on(line) => rest,
        _ => stdout,
    }
}

impl HandlerRun<'_> {
    /// Where commands run.
    fn directory(&self) -> &Path {
        let own = self.handler.origin.project_dir.as_deref();
        own.unwrap_or(&self.place.cwd)
    }

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

    fn places(&self) -> Vec<(&'static str, &Path)> {
        self.handler.origin.places(&self.place.project_dir)
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
        match find_program(OsStr::new("bash"), environment, self.directory()) {
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
            self.first_line.hear(&chunk);
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
        asked.command(outcome.status, after_async_line(&stdout), &stderr)
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
