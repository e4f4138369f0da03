//! A scripted model service, and the binary configured to use it.

use crate::place::{Place, Ran, eventually, finish};
use halter_mock::{MockService, RequestOutcome, Scenario, ServeOptions, serve};
use serde_json::Value;
use std::fs::File;
use std::path::PathBuf;
use std::process::Child;
use tokio::runtime::{Builder, Runtime};

/// Must be in no output.
pub const KEY: &str = "sk-scenario-secret";

/// A model service that halter knows, as the mock plays it.
pub struct Wire {
    provider: &'static str,
    model: &'static str,
    path: &'static str,
    /// The member of a request that holds the conversation.
    conversation: &'static str,
}

pub const ANTHROPIC: &[Wire] = &[WIRES[0].copied()];

pub const CHAT: &[Wire] = &[WIRES[2].copied()];

pub const WIRES: &[Wire] = &[
    Wire {
        provider: "anthropic",
        model: "claude-sonnet-4-5",
        path: "/anthropic/v1/messages",
        conversation: "messages",
    },
    Wire {
        provider: "openai",
        model: "gpt-5",
        path: "/openai/v1/responses",
        conversation: "input",
    },
    Wire {
        provider: "openrouter",
        model: "some/model",
        path: "/openrouter/v1/chat/completions",
        conversation: "messages",
    },
    Wire {
        provider: "gemini",
        model: "gemini-3-flash-preview",
        path: "/gemini/v1beta/models/gemini-3-flash-preview:streamGenerateContent",
        conversation: "contents",
    },
];

impl Wire {
    const fn copied(&self) -> Self {
        Self { ..*self }
    }
}

/// Settings most scenarios run with: quick retries, and two harmless commands.
const SETTINGS: &str = "[policy.shell]\nallow = [\"printf\", \"sleep\"]\ntimeout_secs = 600\n\
    [resilience.request_retry]\nmax_attempts = 2\nbase_backoff_ms = 1\n";

pub struct Stage {
    pub place: Place,
    wire: &'static Wire,
    service: MockService,
    // Dropped last: the service runs on it.
    runtime: Runtime,
}

impl Stage {
    /// A service of its own, and a directory with two files.
    pub fn new(wire: &'static Wire) -> Self {
        Self::with_options(wire, ServeOptions::default())
    }

    /// The same with a scenario of its own.
    pub fn with_scenario(wire: &'static Wire, name: &str, scenario: Scenario) -> Self {
        let mut options = ServeOptions::default();
        options.scenarios.add(name, scenario).unwrap();
        Self::with_options(wire, options)
    }

    fn with_options(wire: &'static Wire, options: ServeOptions) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let service = runtime.block_on(serve(options)).unwrap();
        let place = Place::new();
        place.write("fixture.txt", "parity is kept\n");
        place.write("notes.txt", "alpha\n");
        let stage = Self {
            place,
            wire,
            service,
            runtime,
        };
        stage.configure(SETTINGS);
        stage
    }

    /// The name of the service.
    pub fn provider(&self) -> &'static str {
        self.wire.provider
    }

    /// Replaces the settings beside those that name the service.
    pub fn configure(&self, settings: &str) {
        let Wire {
            provider, model, ..
        } = self.wire;
        let prefix = format!("{}/{provider}", self.service.base_url());
        let text = format!(
            "version = 1\n[models.default]\nprovider = \"{provider}\"\nmodel = \"{model}\"\n\
             tokens_per_minute = 100_000_000\n[providers.{provider}]\nbase_url = \"{prefix}\"\napi_key = \"{KEY}\"\n{settings}"
        );
        std::fs::write(self.settings_file(), text).unwrap();
    }

    // Beside the working directory, so that no tool finds it.
    fn settings_file(&self) -> PathBuf {
        self.place.root().join("service.toml")
    }

    pub fn arguments(&self, scenario: &str, mode: &str, more: &[&str]) -> Vec<String> {
        let config = self.settings_file().to_str().unwrap().to_owned();
        let mut all = vec!["--config".to_owned(), config, "run".to_owned()];
        all.push(mode.to_owned());
        all.extend(more.iter().map(|&argument| argument.to_owned()));
        all.push(format!("please mock:{scenario}"));
        all
    }

    /// Runs the binary with a prompt that chooses the scenario.
    pub fn play(&self, scenario: &str) -> Played {
        self.play_with(scenario, &[])
    }

    /// The same with more arguments.
    pub fn play_with(&self, scenario: &str, more: &[&str]) -> Played {
        let arguments = self.arguments(scenario, "--streaming-json", more);
        Played::new(self.place.halter(arguments))
    }

    /// Runs the binary and shows what it prints in another mode.
    pub fn print(&self, scenario: &str, mode: &str, more: &[&str]) -> Ran {
        self.place.halter(self.arguments(scenario, mode, more))
    }

    /// Starts the binary and waits until its events contain a text.
    pub fn play_until(&self, scenario: &str, text: &str) -> Child {
        let path = self.place.root().join("events");
        let mut command = self
            .place
            .command(self.arguments(scenario, "--streaming-json", &[]));
        command.stdout(File::create(&path).unwrap());
        let child = command.spawn().unwrap();
        eventually(text, || {
            let events = std::fs::read_to_string(&path).unwrap();
            events.contains(text).then_some(())
        });
        child
    }

    /// Lets the service go on where a scenario holds.
    pub fn open_gate(&self, name: &str) {
        self.service.open_gate(name).unwrap();
    }

    /// Waits for the end of what [`Self::play_until`] started.
    pub fn ended(&self, child: Child) -> Played {
        let mut ran = finish(child);
        ran.stdout = std::fs::read_to_string(self.place.root().join("events")).unwrap();
        Played::new(ran)
    }

    /// The bodies of the requests, whatever answered them.
    pub fn bodies(&self) -> Vec<Value> {
        let requests = self.service.requests();
        let asked = requests.iter().filter(|one| one.method() == "POST");
        asked.map(|one| one.json()).collect()
    }

    /// The bodies of the requests: all well formed, to the right address, with
    /// the key, and answered by the steps given here, in this order; each
    /// repeats the conversation of the one before.
    #[track_caller]
    pub fn requests(&self, scenario: &str, steps: &[usize]) -> Vec<Value> {
        // A local server may have been asked for the window of its model.
        let mut requests = self.service.requests();
        requests.retain(|one| one.method() == "POST" && one.path() != "/api/show");
        let seen: Vec<_> = requests.iter().filter_map(|one| one.step()).collect();
        assert_eq!(seen, steps, "{requests:?}");
        let mut bodies: Vec<Value> = Vec::new();
        for request in requests {
            assert!(
                !matches!(request.outcome(), RequestOutcome::Refused { .. }),
                "{request:?}"
            );
            assert_eq!(request.path(), self.wire.path);
            assert_eq!(request.scenario(), Some(scenario));
            assert!(request.is_streaming());
            let key = request
                .header("x-api-key")
                .or_else(|| request.header("x-goog-api-key"))
                .or_else(|| request.header("authorization")?.strip_prefix("Bearer "));
            assert_eq!(key, Some(KEY));
            let body = request.json();
            if let Some(before) = bodies.last() {
                self.assert_goes_on(before, &body);
            }
            bodies.push(body);
        }
        bodies
    }

    /// The scenarios that were asked for, each with its request, in order.
    pub fn asked(&self) -> Vec<(String, Value)> {
        let requests = self.service.requests().into_iter();
        let requests = requests.filter(|one| one.method() == "POST");
        requests
            .map(|one| (one.scenario().unwrap_or_default().to_owned(), one.json()))
            .collect()
    }

    #[track_caller]
    fn assert_goes_on(&self, before: &Value, after: &Value) {
        let conversation = |body: &Value| {
            let mut said = body[self.wire.conversation].clone();
            without_marks(&mut said);
            said.as_array().unwrap().clone()
        };
        let (before, after) = (conversation(before), conversation(after));
        assert_eq!(after.get(..before.len()), Some(before.as_slice()));
    }

    /// The files of the working directory, by their relative paths.
    pub fn files(&self) -> Vec<String> {
        let root = self.place.work();
        let mut found = Vec::new();
        let mut pending = vec![root.clone()];
        while let Some(directory) = pending.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => pending.push(path),
                    false => {
                        let path = path.strip_prefix(&root).unwrap();
                        found.push(path.to_str().unwrap().to_owned());
                    }
                }
            }
        }
        found.sort();
        found
    }

    /// Nothing but the two files that were there, as they were.
    #[track_caller]
    pub fn assert_untouched(&self) {
        assert_eq!(self.files(), ["fixture.txt", "notes.txt"]);
        assert_eq!(self.read("fixture.txt"), "parity is kept\n");
        assert_eq!(self.read("notes.txt"), "alpha\n");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.place.work().join(name)).unwrap()
    }

    /// Ends the service in good order; the directories stay.
    pub fn close(self) -> Place {
        self.runtime.block_on(self.service.stop());
        self.place
    }
}

/// Cache marks move on with the conversation and are no part of it.
fn without_marks(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("cache_control");
            members.values_mut().for_each(without_marks);
        }
        Value::Array(items) => items.iter_mut().for_each(without_marks),
        _ => {}
    }
}

/// What a run of the binary told.
pub struct Played {
    pub ran: Ran,
    pub events: Vec<Value>,
}

impl Played {
    pub fn new(ran: Ran) -> Self {
        assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY));
        let events: Vec<Value> = ran.lines();
        let payloads: Vec<Value> = events.iter().map(|one| one["payload"].clone()).collect();
        assert_eq!(
            payloads.last().unwrap()["kind"],
            "session_shutdown_complete"
        );
        Self {
            ran,
            events: payloads,
        }
    }

    /// The id of the session.
    pub fn session(&self) -> String {
        let first = self.ran.lines().remove(0);
        first["session_id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub fn expect(&self, code: i32) -> &Self {
        self.ran.expect(code);
        self
    }

    /// The events of a kind.
    pub fn all(&self, kind: &str) -> Vec<&Value> {
        let found = self.events.iter().filter(|event| event["kind"] == kind);
        found.collect()
    }

    /// The only event of a kind.
    #[track_caller]
    pub fn one(&self, kind: &str) -> &Value {
        let found = self.all(kind);
        assert_eq!(found.len(), 1, "{kind} in {:?}", self.events);
        found[0]
    }

    /// The text of the last assistant message.
    pub fn answer(&self) -> String {
        let messages = self.all("message_item");
        let mut said = messages.iter().map(|event| &event["message"]);
        let last = said.rfind(|message| message["role"] == "assistant");
        let parts = last.unwrap()["parts"].as_array().unwrap().clone();
        let texts = parts.iter().filter(|part| part["kind"] == "text");
        texts.filter_map(|part| part["text"].as_str()).collect()
    }

    /// The text as it streamed.
    pub fn streamed(&self) -> String {
        let deltas = self.all("delta_item");
        let texts = deltas
            .iter()
            .filter_map(|event| event["delta"]["text"].as_str());
        texts.collect()
    }

    /// The tools that ran, in the order of their calls, each with the code of
    /// its error or `ok`.
    pub fn tools(&self) -> Vec<(String, String)> {
        let messages = self.all("message_item");
        let messages = messages.iter().map(|event| &event["message"]);
        let results = messages.filter(|message| message["role"] == "tool");
        let told = results.map(|message| {
            let error = message["error"]["code"].as_str().unwrap_or("ok");
            let name = message["tool_name"].as_str().unwrap();
            (name.to_owned(), error.to_owned())
        });
        let told: Vec<_> = told.collect();
        assert_eq!(self.all("tool_execution_completed").len(), told.len());
        told
    }

    /// The turn went well: its answer.
    #[track_caller]
    pub fn completed(&self) -> String {
        self.expect(0).one("turn_completed");
        self.answer()
    }

    /// The turn failed with this code, and the program with this exit.
    #[track_caller]
    pub fn failed(&self, exit: i32, code: &str) {
        let failed = self.expect(exit).one("turn_failed");
        assert_eq!(failed["error"]["code"], code, "{failed}");
        assert!(self.all("turn_completed").is_empty());
    }
}
