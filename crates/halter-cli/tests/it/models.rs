//! Which model answers, and how to name another one.

use crate::place::{Place, Ran, finish};
use halter_mock::{MockService, ServeOptions, serve};
use std::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// A model service and a place to ask it from.
struct Around {
    place: Place,
    service: MockService,
    runtime: Runtime,
}

impl Around {
    fn new() -> Self {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let service = runtime.block_on(serve(ServeOptions::default())).unwrap();
        Self {
            place: Place::new(),
            service,
            runtime,
        }
    }

    fn url(&self, prefix: &str) -> String {
        format!("{}{prefix}", self.service.base_url())
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = self.place.command(arguments);
        finish(command.envs(variables.iter().copied()).spawn().unwrap())
    }

    /// The paths that were asked, each once.
    fn paths(&self) -> Vec<String> {
        let requests = self.service.requests();
        requests.iter().map(|one| one.path().to_owned()).collect()
    }

    fn close(self) {
        self.runtime.block_on(self.service.stop());
    }
}

#[test]
fn a_key_alone_chooses_its_service_and_says_so() {
    for (key, address, prefix, provider, path) in [
        (
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "/anthropic",
            "anthropic",
            "/v1/messages",
        ),
        (
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "/openai",
            "openai",
            "/v1/responses",
        ),
        (
            "GEMINI_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
            "/gemini",
            "gemini",
            ":streamGenerateContent",
        ),
        (
            "GOOGLE_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
            "/gemini",
            "gemini",
            ":streamGenerateContent",
        ),
    ] {
        let around = Around::new();
        let url = around.url(prefix);
        let variables = [(key, "sk-very-secret"), (address, url.as_str())];
        let ran = around.run(&["run", "--text", "hello mock:streaming_text"], &variables);
        ran.expect(0);
        assert_eq!(ran.stdout.trim(), "Mock streaming says hello.");
        let said = format!("{key} is set, so {provider}/");
        assert!(ran.stderr.contains(&said), "{}", ran.stderr);
        assert!(!ran.stderr.contains("very-secret"));
        let paths = around.paths();
        assert!(paths.len() == 1 && paths[0].ends_with(path), "{paths:?}");
        around.close();
    }
}

/// The server is named, is sent nothing, and does not answer.
#[test]
fn a_local_server_is_named_and_not_used() {
    let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = server.local_addr().unwrap().to_string();
    let place = Place::new();
    let mut command = place.command(["run", "--text", "hello"]);
    let ran = finish(command.env("OLLAMA_HOST", &address).spawn().unwrap());
    ran.expect(0);
    assert!(ran.stdout.contains("offline model"), "{}", ran.stdout);
    let said = format!("Ollama at {address} listens, use it with --model ollama/NAME");
    assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    let (mut connection, _) = server.accept().unwrap();
    let mut sent = Vec::new();
    std::io::Read::read_to_end(&mut connection, &mut sent).unwrap();
    assert!(sent.is_empty(), "{sent:?}");
    server.set_nonblocking(true).unwrap();
    assert!(server.accept().is_err(), "it was asked twice");
}

#[test]
fn a_local_server_answers_when_it_is_chosen() {
    let around = Around::new();
    let url = around.url("/local");
    around.place.write(
        "services.toml",
        &format!(
            "version = 1\n[models.default]\nprovider = \"anthropic\"\nmodel = \"m\"\n\
             [providers.ollama]\nbase_url = \"{url}\"\n\
             [providers.mine]\nwire = \"chat\"\nbase_url = \"{url}/v1\"\n"
        ),
    );
    for model in ["ollama/qwen3:8b", "mine/vendor/model"] {
        // No key for the configured default is needed.
        let ran = around.run(
            &[
                "--config",
                "services.toml",
                "run",
                "--text",
                "--model",
                model,
                "hello mock:streaming_text",
            ],
            &[],
        );
        ran.expect(0);
        assert_eq!(ran.stdout.trim(), "Mock streaming says hello.");
        // What it used, and no word on who answers.
        assert!(ran.stderr.contains("tokens in"), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
    let requests = around.service.requests();
    let conversations = requests.iter().filter(|one| one.step().is_some());
    let named: Vec<_> = conversations
        .map(|one| one.json()["model"].clone())
        .collect();
    assert_eq!(named, ["qwen3:8b", "vendor/model"]);
    assert!(
        requests
            .iter()
            .all(|one| one.header("authorization").is_none())
    );
    around.close();
}

/// A session goes on with the model it was started with.
#[test]
fn a_session_keeps_the_model_it_was_started_with() {
    let around = Around::new();
    let url = around.url("/openai");
    let variables = [("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", url.as_str())];
    let first = around.run(
        &[
            "run",
            "--streaming-json",
            "--model",
            "openai/gpt-5-mini",
            "mock:resume",
        ],
        &variables,
    );
    first.expect(0);
    let session = first.lines()[0]["session_id"].as_str().unwrap().to_owned();
    let again = around.run(
        &["run", "--text", "--session", &session, "mock:resume"],
        &variables,
    );
    again.expect(0);
    assert!(
        !again.stderr.contains("no model is configured"),
        "{}",
        again.stderr
    );
    let requests = around.service.requests();
    assert_eq!(requests.len(), 2);
    assert!(
        requests
            .iter()
            .all(|one| one.json()["model"] == "gpt-5-mini")
    );
    around.close();
}

#[test]
fn a_model_that_is_none_is_refused_with_the_way_to_write_it() {
    let place = Place::new();
    for (model, code, hint) in [
        ("gpt-5", "config_unknown_model", "provider/model"),
        (
            "groq/llama",
            "config_unknown_provider",
            "[providers.groq] with base_url",
        ),
        (
            "antropic/claude",
            "config_unknown_provider",
            "did you mean `anthropic`?",
        ),
        ("openai/gpt-5", "config_missing_api_key", "OPENAI_API_KEY"),
    ] {
        let ran = place.halter(["run", "--model", model, "hello"]);
        let error = &ran.json()["error"];
        assert_eq!(error["code"], code, "{error}");
        assert!(
            error.to_string().contains(&hint.replace('"', "\\\"")),
            "{error}"
        );
        ran.expect(if code.contains("api_key") { 4 } else { 2 });
    }
    let offline = place.halter(["run", "--text", "--model", "offline", "hello"]);
    offline.expect(0);
    assert_eq!(offline.stderr.lines().count(), 1, "{}", offline.stderr);
}

#[test]
fn a_service_lists_its_models() {
    let around = Around::new();
    let url = around.url("/gemini");
    let variables = [
        ("GEMINI_API_KEY", "k"),
        ("GOOGLE_GEMINI_BASE_URL", url.as_str()),
    ];
    let named = around.run(&["models", "gemini", "--json"], &variables);
    named.expect(0);
    let models = named.json();
    assert_eq!(models[1]["id"], "gemini/mock-small");
    assert_eq!(models[1]["context_window"]["value"], 32_000);
    assert_eq!(models[1]["context_window"]["source"], "provider");
    // The service of the model that would answer.
    let chosen = around.run(&["models"], &variables);
    chosen.expect(0);
    let line = "gemini/mock-large  1000000 tokens (provider), answers up to 64000 (provider)";
    assert!(
        chosen.stdout.lines().any(|one| one == line),
        "{}",
        chosen.stdout
    );
    around.run(&["models"], &[]).expect(2);
    around.run(&["models", "openai"], &[]).expect(4);
    around.close();
}
