//! How configured services are reached: certificates, proxies, services of
//! one's own, ids of models, recordings, and the word of the program.

use crate::support::{directory, refused};
use futures::StreamExt;
use halter::LocalServer;
use halter::prelude::*;
use halter::providers::{ModelChoice, ProviderError, RateLimiter};
use halter_config::{
    ConfiguredProvider, Environment, ModelConfig, ModelOverride, ModelPrices, ProviderConfig,
    ProviderWire,
};
use halter_mock::{MockService, ServeOptions, serve};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

const HELLO: &str = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n\
    data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Answers every request with `hello`, and keeps the first lines of them.
struct Greeter {
    address: String,
    lines: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Greeter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Greeter {
    async fn start(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = lines.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                match &tls {
                    None => greet(stream, &seen).await,
                    // A client that does not trust the server leaves here.
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => greet(stream, &seen).await,
                        Err(_) => continue,
                    },
                }
            }
        });
        Self {
            address,
            lines,
            task,
        }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

async fn greet(mut stream: impl AsyncRead + AsyncWrite + Unpin, seen: &Mutex<Vec<String>>) {
    let mut request = Vec::new();
    let head = loop {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            });
            if body.len() >= length.unwrap_or(0) {
                break head.to_owned();
            }
        }
    };
    seen.lock()
        .unwrap()
        .push(head.lines().next().unwrap().to_owned());
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{HELLO}",
        HELLO.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn certificate(name: &str) -> PathBuf {
    let providers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../halter-providers");
    providers.join("tests/fixtures/tls").join(name)
}

fn tls() -> TlsAcceptor {
    let chain = CertificateDer::from_pem_file(certificate("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificate("server.key")).unwrap();
    let provider = tokio_rustls::rustls::crypto::ring::default_provider();
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A service of one's own with this table. The window of its model is known, so
/// that nothing but conversations is sent.
fn mine(mut table: ProviderConfig) -> HarnessConfig {
    let known = ModelOverride {
        max_input_tokens: Some(8_000),
        ..ModelOverride::default()
    };
    table.models.insert("m".to_owned(), known);
    let mut config = HarnessConfig::default();
    let provider = ConfiguredProvider::Named("mine".to_owned());
    config.models.default = Some(ModelConfig::new(provider, "m"));
    config.providers.named.insert("mine".to_owned(), table);
    config.resilience.request_retry.max_attempts = 1;
    config
}

fn chat_at(base_url: String) -> ProviderConfig {
    ProviderConfig {
        wire: Some(ProviderWire::Chat),
        base_url: Some(base_url),
        ..ProviderConfig::default()
    }
}

fn builder(config: HarnessConfig, variables: &[(&str, &str)]) -> HalterBuilder {
    let path = [("PATH", "/usr/bin:/bin")];
    let variables = path.iter().chain(variables).copied();
    Halter::builder()
        .with_config(config)
        .with_environment(Environment::from_iter(variables))
        .with_resource_snapshot(ResourceSnapshot::empty())
}

/// The text of the answer, or the code of the error.
async fn say(harness: &Halter, prompt: &str) -> Result<String, String> {
    say_in(harness, prompt, SessionInit::default()).await
}

async fn say_in(harness: &Halter, prompt: &str, init: SessionInit) -> Result<String, String> {
    let workspace = directory(&[]);
    let init = init.with_working_dir(workspace.path());
    let session = harness.new_session(init).await.unwrap();
    let events = session.submit_turn(Turn::user(prompt)).await.unwrap();
    let events: Vec<_> = events.map(Result::unwrap).collect().await;
    session.shutdown("done").await.unwrap();
    let ended = &events.last().unwrap().payload;
    if let SessionEventPayload::TurnFailed { error, .. } = ended {
        return Err(format!("{}: {}", error.code, error.message));
    }
    let mut texts = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::MessageItem { message } => Some(message.as_assistant()?.plain_text()),
        _ => None,
    });
    Ok(texts.next_back().unwrap())
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_by_table_or_variable() {
    let server = Greeter::start(Some(tls())).await;
    let url = format!("https://{}", server.address);
    let ca = certificate("ca.pem");
    let with_table = ProviderConfig {
        ca_file: Some(ca.clone()),
        ..chat_at(url.clone())
    };
    let by_table = builder(mine(with_table.clone()), &[])
        .build()
        .await
        .unwrap();
    assert_eq!(say(&by_table, "hi").await.unwrap(), "hello");

    let variable = [("SSL_CERT_FILE", ca.to_str().unwrap())];
    let by_variable = builder(mine(chat_at(url.clone())), &variable);
    let by_variable = by_variable.build().await.unwrap();
    assert_eq!(say(&by_variable, "hi").await.unwrap(), "hello");

    // The table wins over the variable.
    let wrong = [("SSL_CERT_FILE", "/no/such/file")];
    let both = builder(mine(with_table), &wrong).build().await.unwrap();
    assert_eq!(say(&both, "hi").await.unwrap(), "hello");

    let nobody = builder(mine(chat_at(url)), &[]).build().await.unwrap();
    let error = say(&nobody, "hi").await.unwrap_err();
    assert!(error.contains("certificate"), "{error}");
    assert_eq!(server.lines().len(), 3);
}

#[tokio::test]
async fn hooks_reach_servers_by_https_whose_authority_is_trusted() {
    let server = Greeter::start(Some(tls())).await;
    let handler =
        serde_json::json!({"type": "http", "url": format!("https://{}/", server.address)});
    let file = serde_json::json!({"hooks": {"PreToolUse": [{"hooks": [handler]}]}}).to_string();
    let place = directory(&[("hooks.json", &file)]);
    let mut config = mine(chat_at(format!("http://{}", server.address)));
    config.hooks.files = vec![place.path().join("hooks.json")];
    let call = || {
        let payload = serde_json::json!({"tool_name": "Read", "tool_input": {"file_path": "a"}});
        payload.as_object().cloned().unwrap()
    };
    let event = halter_hooks::HookEventName::PreToolUse;
    let ca = certificate("ca.pem");
    let trusting = builder(config.clone(), &[("SSL_CERT_FILE", ca.to_str().unwrap())]);
    let trusting = trusting.build().await.unwrap();
    trusting.try_hooks(event, call(), place.path()).await;
    assert_eq!(server.lines(), ["POST / HTTP/1.1"]);
    // A server that nobody vouches for gets nothing, and the call is refused.
    let wary = builder(config, &[]).build().await.unwrap();
    let trial = wary.try_hooks(event, call(), place.path()).await;
    assert!(format!("{trial:?}").contains("certificate"), "{trial:?}");
    assert_eq!(trial.runs[0].status, halter_protocol::HookRunStatus::Failed);
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn proxies_come_from_the_environment() {
    let proxy = Greeter::start(None).await;
    let url = format!("http://{}", proxy.address);
    let service = || mine(chat_at("http://models.test".to_owned()));
    for variable in ["http_proxy", "all_proxy", "ALL_PROXY"] {
        let harness = builder(service(), &[(variable, &url)])
            .build()
            .await
            .unwrap();
        assert_eq!(say(&harness, "hi").await.unwrap(), "hello", "{variable}");
    }
    let asked = "POST http://models.test/v1/chat/completions HTTP/1.1";
    assert_eq!(proxy.lines(), [asked; 3]);

    // A host that is kept from the proxy is reached itself.
    let own = Greeter::start(None).await;
    let direct = mine(chat_at(format!("http://{}", own.address)));
    let variables = [("http_proxy", url.as_str()), ("NO_PROXY", "127.0.0.1")];
    let harness = builder(direct, &variables).build().await.unwrap();
    assert_eq!(say(&harness, "hi").await.unwrap(), "hello");
    assert_eq!(proxy.lines().len(), 3);
    assert_eq!(own.lines().len(), 1);
}

/// An address for HTTPS is reached through a tunnel, so that the proxy reads
/// nothing.
#[tokio::test]
async fn https_goes_through_a_tunnel() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let server = Greeter::start(Some(tls())).await;
    let target = server.address.clone();
    let tunnel = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            client.read_buf(&mut head).await.unwrap();
        }
        let mut server = tokio::net::TcpStream::connect(target).await.unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        String::from_utf8(head).unwrap()
    });
    let table = ProviderConfig {
        ca_file: Some(certificate("ca.pem")),
        ..chat_at(format!(
            "https://localhost:{}",
            server.address.rsplit(':').next().unwrap()
        ))
    };
    let harness = builder(mine(table), &[("HTTPS_PROXY", &proxy)]);
    let harness = harness.build().await.unwrap();
    assert_eq!(say(&harness, "hi").await.unwrap(), "hello");
    drop(harness);
    drop(server);
    let head = tunnel.await.unwrap();
    assert!(head.starts_with("CONNECT localhost:"), "{head}");
}

async fn mock() -> MockService {
    serve(ServeOptions::default()).await.unwrap()
}

fn at_mock(service: &MockService) -> HarnessConfig {
    let mut config = mine(ProviderConfig {
        api_key: Some("sk-very-secret".to_owned()),
        ..chat_at(format!("{}/openai", service.base_url()))
    });
    config.resilience.request_retry.base_backoff_ms = 1;
    config
}

#[tokio::test]
async fn any_model_is_named_by_provider_and_name() {
    let service = mock().await;
    let mut config = at_mock(&service);
    config.models.default = Some(ModelConfig::offline());
    let harness = builder(config, &[]).build().await.unwrap();
    let init = SessionInit::default().with_default_model("mine/some/model");
    let answer = say_in(&harness, "mock:streaming_text", init).await;
    assert_eq!(answer.unwrap(), "Mock streaming says hello.");
    let asked: Vec<_> = service.requests().iter().map(|one| one.json()).collect();
    assert_eq!(asked.last().unwrap()["model"], "some/model");

    for (id, code) in [
        ("openai/gpt-5", "config_missing_api_key"),
        ("nobody/x", "config_unknown_provider"),
        ("large", "unknown_model"),
    ] {
        let init = SessionInit::default().with_default_model(id);
        let error = harness.new_session(init).await.err().unwrap();
        assert_eq!(crate::support::halter_error(&error).code(), code, "{id}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_recording_answers_without_the_service() {
    let service = mock().await;
    let files = directory(&[]);
    let tape = files.path().join("tape.jsonl");
    let config = at_mock(&service);
    let recording = builder(config.clone(), &[]).with_recording(&tape);
    let recording = recording.build().await.unwrap();
    let work = directory(&[]);
    let ask = async |harness: &Halter, prompt: &str| {
        let init = SessionInit::default().with_working_dir(work.path());
        let session = harness.new_session(init).await.unwrap();
        let events = session.submit_turn(Turn::user(prompt)).await.unwrap();
        let events: Vec<_> = events.map(Result::unwrap).collect().await;
        events.last().unwrap().payload.clone()
    };
    let completed = ask(&recording, "mock:streaming_text").await;
    assert!(matches!(
        completed,
        SessionEventPayload::TurnCompleted { .. }
    ));
    assert!(!tape.exists(), "it is written beside until it is whole");
    recording.shutdown(Duration::from_secs(5)).await;
    recording.finish_recording().unwrap();
    service.stop().await;

    let mut keyless = config;
    keyless.providers.named["mine"].api_key = None;
    let replay = builder(keyless.clone(), &[])
        .with_replay(&tape)
        .build()
        .await
        .unwrap();
    let SessionEventPayload::TurnFailed { error, .. } = ask(&replay, "another prompt").await else {
        panic!("it was not recorded");
    };
    assert!(error.message.contains("first difference"), "{error:?}");
    let completed = ask(&replay, "mock:streaming_text").await;
    assert!(matches!(
        completed,
        SessionEventPayload::TurnCompleted { .. }
    ));

    // A known service needs no key either.
    let mut known = keyless;
    known.models.default = Some(ModelConfig::new(ConfiguredProvider::Anthropic, "m"));
    builder(known.clone(), &[])
        .with_replay(&tape)
        .build()
        .await
        .unwrap();
    // The model of the recording answers, whatever is configured.
    known.models.default = Some(ModelConfig::offline());
    let replay = builder(known.clone(), &[]).with_replay(&tape);
    let completed = ask(&replay.build().await.unwrap(), "mock:streaming_text").await;
    assert!(matches!(
        completed,
        SessionEventPayload::TurnCompleted { .. }
    ));
    let missing = files.path().join("missing");
    let error = refused(builder(known, &[]).with_replay(missing).build().await);
    assert_eq!(error.code(), "cassette_read");
}

/// Takes every refusal for one that passes.
struct Hopeful;

impl ProviderErrorClassifier for Hopeful {
    fn classify(&self, _: &ProviderError) -> ProviderErrorKind {
        ProviderErrorKind::Transient
    }
}

fn attempts(max_attempts: u32) -> ResiliencePolicy {
    ResiliencePolicy {
        request_retry: RetryPolicy {
            max_attempts,
            base_backoff: Duration::from_millis(1),
            ..RetryPolicy::default()
        },
        ..ResiliencePolicy::default()
    }
}

#[tokio::test]
async fn the_program_decides_about_attempts_and_errors() {
    let service = mock().await;
    let policy = |config, max| builder(config, &[]).with_resilience_policy(attempts(max));
    let harness = policy(at_mock(&service), 3).build().await.unwrap();
    say(&harness, "mock:unavailable").await.unwrap_err();
    assert_eq!(service.requests().len(), 3);

    let error = say(&harness, "mock:spend_cap").await.unwrap_err();
    assert!(error.starts_with("provider_failed"), "{error}");
    assert_eq!(service.requests().len(), 4);

    let hopeful = policy(at_mock(&service), 2).with_provider_error_classifier(Arc::new(Hopeful));
    let error = say(&hopeful.build().await.unwrap(), "mock:spend_cap").await;
    assert!(error.unwrap_err().starts_with("provider_unavailable"));
    assert_eq!(service.requests().len(), 6);
    service.stop().await;
}

/// What the service tells one harness about its rate holds for the other.
#[tokio::test]
async fn rates_may_be_shared_between_harnesses() {
    let service = mock().await;
    let rates = RateLimiter::new();
    let build = || builder(at_mock(&service), &[]).with_rate_limiter(rates.clone());
    let (one, two) = (
        build().build().await.unwrap(),
        build().build().await.unwrap(),
    );
    say(&one, "mock:rate_headers").await.unwrap();
    let models = &two.runtime().services().models;
    let (model, _) = models.resolve(&"default".into()).unwrap();
    assert!(rates.wait_for(&model, 1_000) > Duration::from_secs(1));
    assert_eq!(RateLimiter::new().wait_for(&model, 1_000), Duration::ZERO);
    service.stop().await;
}

#[tokio::test]
async fn the_choice_of_a_model_can_be_inspected() {
    let choose = |variables: &[(&str, &str)]| {
        builder(HarnessConfig::default(), variables)
            .with_available_model()
            .build()
    };
    let harness = choose(&[("OPENROUTER_API_KEY", "k")]).await.unwrap();
    let ModelChoice::KeyFound { provider, .. } = harness.model_choice() else {
        panic!("{:?}", harness.model_choice());
    };
    assert_eq!(provider.as_str(), "openrouter");
    assert!(!format!("{harness:?}").contains("\"k\""));

    let harness = choose(&[]).await.unwrap();
    assert_eq!(*harness.model_choice(), ModelChoice::Offline);
    assert!(say(&harness, "hello").await.is_ok());

    let mut config = HarnessConfig::default();
    config.models.default = Some(ModelConfig::offline());
    let harness = builder(config, &[("OPENAI_API_KEY", "k")]).with_available_model();
    let harness = harness.build().await.unwrap();
    assert_eq!(*harness.model_choice(), ModelChoice::Named);

    // Who does not ask for it is told that a model is missing.
    let error = refused(
        builder(HarnessConfig::default(), &[("OPENAI_API_KEY", "k")])
            .build()
            .await,
    );
    assert!(error.to_string().contains("[models.default] is required"));
}

#[tokio::test]
async fn local_servers_are_found_where_they_listen() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let closed = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let server = |name: &str, listener: &TcpListener| LocalServer {
        provider: name.to_owned(),
        title: name.to_owned(),
        address: listener.local_addr().unwrap(),
    };
    let servers = vec![server("vllm", &closed), server("ollama", &listener)];
    drop(closed);
    let found = LocalServer::listening(servers.clone()).await;
    assert_eq!(found, servers[1..]);
}

#[tokio::test]
async fn limits_and_prices_of_a_table_are_known_to_the_catalog() {
    let mut config = mine(chat_at("http://127.0.0.1:1".to_owned()));
    config.providers.named["mine"].models.insert(
        "m".to_owned(),
        ModelOverride {
            max_input_tokens: Some(32_768),
            prices: Some(ModelPrices {
                input: 0.25,
                output: 2.0,
                ..ModelPrices::default()
            }),
            ..ModelOverride::default()
        },
    );
    let harness = builder(config, &[]).build().await.unwrap();
    let (model, _) = harness
        .runtime()
        .services()
        .models
        .resolve(&"default".into())
        .unwrap();
    let facts = harness.catalog().facts(&model);
    assert_eq!(facts.context_window.value, 32_768);
    assert_eq!(facts.context_window.source.as_str(), "config");
    let prices = facts.prices.unwrap().value;
    assert_eq!(
        (prices.input, prices.cache_read, prices.output),
        (250, 250, 2_000)
    );
}

/// Configured over the service's answer over the table over a default.
#[tokio::test]
async fn a_service_lists_its_models_on_every_wire() {
    let service = mock().await;
    for (wire, prefix) in [
        (ProviderWire::Anthropic, "/anthropic"),
        (ProviderWire::Chat, "/openrouter"),
        (ProviderWire::Responses, "/openai"),
        (ProviderWire::Gemini, "/gemini"),
    ] {
        let mut config = at_mock(&service);
        let table = &mut config.providers.named["mine"];
        table.wire = Some(wire);
        table.base_url = Some(format!("{}{prefix}", service.base_url()));
        let configured = ModelOverride {
            max_output_tokens: Some(7),
            ..ModelOverride::default()
        };
        table.models.insert("mock-small".to_owned(), configured);
        let harness = builder(config, &[]).build().await.unwrap();
        let listed = harness.list_models("mine").await.unwrap();
        let names: Vec<&str> = listed.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(names, ["mine/mock-large", "mine/mock-small"], "{prefix}");
        let facts = harness.catalog().facts(&listed[1]);
        assert_eq!(facts.output_limit.unwrap().value, 7);
        assert_eq!(facts.output_limit.unwrap().source.as_str(), "config");
        assert_eq!(facts.context_window.value, 32_000);
        assert_eq!(facts.context_window.source.as_str(), "provider", "{prefix}");
    }
    let harness = builder(at_mock(&service), &[]).build().await.unwrap();
    assert!(harness.list_models("offline").await.unwrap().is_empty());
    assert!(harness.list_models("nobody").await.is_err());
    service.stop().await;
}
