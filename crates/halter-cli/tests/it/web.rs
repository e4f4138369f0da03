//! The tools for the web, through the whole binary, against servers on
//! loopback.

use crate::chromium::{self, Elsewhere};
use crate::place::{Place, finish};
use crate::tool_turn::tool_turn;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;

/// A server that answers every request with the same, for as long as the test
/// runs.
struct PageServer {
    address: SocketAddr,
}

impl PageServer {
    fn start(tls: Option<ServerConfig>, kind: &str, body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        );
        let tls = tls.map(Arc::new);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                match &tls {
                    None => respond(stream, &answer),
                    Some(config) => {
                        let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                        respond(StreamOwned::new(connection, stream), &answer);
                    }
                }
            }
        });
        Self { address }
    }

    /// Settings that let tools reach it and nothing else.
    fn settings(&self) -> String {
        let port = self.address.port();
        format!(
            "[policy.network]\nenabled = true\n\
             allowed_loopback = [{{ host = \"127.0.0.1\", port = {port} }}]\n"
        )
    }
}

/// Answers once. A client that leaves early is no concern of the test.
fn respond(stream: impl Read + Write, answer: &str) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
        line.clear();
    }
    let stream = stream.get_mut();
    stream.write_all(answer.as_bytes()).ok();
    stream.flush().ok();
}

fn certificates(name: &str) -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.join("../halter-providers/tests/fixtures/tls")
        .join(name)
}

fn secure() -> ServerConfig {
    let certificate = CertificateDer::from_pem_file(certificates("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates("server.key")).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap()
}

const SECRET_TOKEN: &str = "token-of-the-browser";

const PAGE: &str = "<title>Hours</title><h1>Open</h1><p>From <b>nine</b>.";

#[test]
fn a_page_is_fetched_by_a_call_and_by_a_model() {
    let server = PageServer::start(None, "text/html", PAGE);
    let place = Place::new();
    let config = place.write("own.toml", &format!("version = 1\n{}", server.settings()));
    let input = format!(r#"{{"url":"http://{}/"}}"#, server.address);
    let config = config.to_str().unwrap();
    let fetched = place.halter(["--config", config, "tools", "call", "web_fetch", &input]);
    let fetched = fetched.expect(0).json();
    assert_eq!(fetched["title"], "Hours");
    assert_eq!(fetched["content"], "# Open\n\nFrom **nine**.");

    let input = json!({ "url": format!("http://{}/", server.address) });
    let turn = tool_turn(&place, &server.settings(), "web_fetch", &input);
    turn.ran.expect(0);
    assert!(turn.told.contains("From **nine**."), "{}", turn.told);
}

#[test]
fn https_trusts_whom_the_usual_variable_names() {
    let server = PageServer::start(Some(secure()), "text/html", PAGE);
    let place = Place::new();
    place.write("own.toml", &format!("version = 1\n{}", server.settings()));
    let input = format!(r#"{{"url":"https://{}/"}}"#, server.address);
    let arguments = ["--config", "own.toml", "tools", "call", "web_fetch", &input];
    let mut command = place.command(arguments);
    command.env("SSL_CERT_FILE", certificates("ca.pem"));
    let fetched = finish(command.spawn().unwrap());
    assert_eq!(fetched.expect(0).json()["title"], "Hours");
    let refused = place.halter(arguments).expect(1).json();
    let message = refused["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("no secure connection"), "{message}");
}

#[test]
fn the_web_is_searched_by_a_configured_service_and_its_key_is_not_shown() {
    const SECRET: &str = "brave-key-of-the-test";
    let found = r#"{"web":{"results":[{"url":"https://a.test/","title":"A","description":"<b>open</b>"}]}}"#;
    let server = PageServer::start(None, "application/json", found);
    let place = Place::new();
    let settings = format!(
        "[tools.web_search]\nprovider = \"brave\"\nurl = \"http://{}/\"\n{}",
        server.address,
        server.settings()
    );
    place.write("own.toml", &format!("version = 1\n{settings}"));
    let arguments = [
        "--config",
        "own.toml",
        "tools",
        "call",
        "web_search",
        r#"{"query":"door"}"#,
    ];
    let mut command = place.command(arguments);
    command.env("BRAVE_API_KEY", SECRET);
    let found = finish(command.spawn().unwrap());
    assert_eq!(found.expect(0).json()["results"][0]["snippet"], "open");
    let listed = place.halter(["--config", "own.toml", "tools", "list"]);
    let listed = &listed.expect(0).stdout;
    assert!(
        listed.contains("[unavailable: there is no key; set tools.web_search.api_key"),
        "{listed}"
    );

    let keyed = format!("{settings}\n")
        .replace("provider =", &format!("api_key = \"{SECRET}\"\nprovider ="));
    let input = json!({ "query": "door" });
    let turn = tool_turn(&place, &keyed, "web_search", &input);
    turn.ran.expect(0);
    assert!(turn.told.contains("https://a.test/"), "{}", turn.told);
    place.write("keyed.toml", &format!("version = 1\n{keyed}"));
    let shown = place.halter(["--config", "keyed.toml", "config", "show"]);
    for text in [
        &found.stdout,
        &found.stderr,
        &turn.told,
        &turn.ran.stderr,
        &shown.stdout,
        &shown.stderr,
    ] {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn without_a_network_it_is_listed_with_the_reason() {
    let place = Place::new();
    let listed = place.halter(["tools", "list"]);
    let line = listed
        .expect(0)
        .stdout
        .lines()
        .find(|line| line.starts_with("web_fetch"));
    let line = line.unwrap_or_else(|| panic!("{}", listed.stdout));
    assert!(line.contains("[unavailable: the network is off"), "{line}");
    let mut command = place.command(["tools", "list", "--json"]);
    command
        .env("HALTER_POLICY_NETWORK_ENABLED", "true")
        .env("HALTER_POLICY_ALLOWED_HOSTS", "example.com");
    let listed = finish(command.spawn().unwrap()).expect(0).json();
    let all = listed.as_array().unwrap();
    let fetch = all.iter().find(|tool| tool["name"] == "web_fetch").unwrap();
    assert!(fetch["unavailable"].is_null(), "{fetch}");
}

#[test]
fn without_chromium_a_browser_is_listed_with_the_reason() {
    let place = Place::new();
    let list = |path: &str| {
        let mut command = place.command(["tools", "list", "--json"]);
        command
            .env("PATH", path)
            .env("HALTER_POLICY_NETWORK_ENABLED", "true")
            .env("HALTER_POLICY_ALLOWED_HOSTS", "example.com");
        let listed = finish(command.spawn().unwrap()).expect(0).json();
        let mut all = listed.as_array().unwrap().iter();
        let browser = all.find(|tool| tool["name"] == "browser").unwrap();
        browser["unavailable"].clone()
    };
    let empty = place.root().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let reason = list(empty.to_str().unwrap());
    assert!(reason.as_str().unwrap().contains("Chromium"), "{reason}");
    // Whatever is there under its name counts as one until it is started.
    let program = empty.join("chromium");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(list(empty.to_str().unwrap()), Value::Null);
}

#[test]
fn a_page_is_opened_in_a_browser_by_a_call_and_by_a_model() {
    if !std::path::Path::new("/usr/bin/chromium").exists() {
        // Not through a macro, whose output a passing test would swallow.
        let mut errors = std::io::stderr();
        writeln!(errors, "skipped: needs chromium").unwrap();
        return;
    }
    let server = PageServer::start(None, "text/html", PAGE);
    let place = Place::new();
    place.write("own.toml", &format!("version = 1\n{}", server.settings()));
    let input = json!({
        "action": "navigate",
        "url": format!("http://{}/", server.address),
        "timeout_secs": 120,
    });
    let text = input.to_string();
    let opened = place.halter(["--config", "own.toml", "tools", "call", "browser", &text]);
    assert_eq!(opened.expect(0).json()["title"], "Hours");
    let turn = tool_turn(&place, &server.settings(), "browser", &input);
    turn.ran.expect(0);
    assert!(turn.told.contains("Hours"), "{}", turn.told);
}

/// Answers one request with an empty object, and tells of it before that.
fn asked_once(listener: TcpListener) -> mpsc::Receiver<(String, Value)> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
            let last = head.lines().last().unwrap().to_lowercase();
            if let Some(value) = last.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        tell.send((head, serde_json::from_slice(&body).unwrap()))
            .unwrap();
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        // A client that leaves early is no concern of the test.
        stream.get_mut().write_all(answer.as_bytes()).ok();
    });
    told
}

#[test]
fn a_browser_of_a_service_is_asked_for_as_the_environment_says() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = PageServer {
        address: listener.local_addr().unwrap(),
    };
    let asked = asked_once(listener);
    let place = Place::new();
    place.write("own.toml", &format!("version = 1\n{}", server.settings()));
    let input = format!(
        r#"{{"action":"navigate","url":"http://{}/"}}"#,
        server.address
    );
    let arguments = ["--config", "own.toml", "tools", "call", "browser", &input];
    let mut command = place.command(arguments);
    command
        .env("BROWSERBASE_API_KEY", SECRET_TOKEN)
        .env("BROWSERBASE_PROJECT_ID", "doors")
        .env("BROWSERBASE_BASE_URL", format!("http://{}", server.address))
        .env("BROWSERBASE_PROXIES", "true")
        .env("BROWSERBASE_KEEP_ALIVE", "1")
        .env("BROWSERBASE_SESSION_TIMEOUT", "90");
    let refused = finish(command.spawn().unwrap());
    let error = refused.expect(1).json()["error"].to_string();
    assert!(error.contains("the service named no browser"), "{error}");
    let (head, body) = asked.try_recv().unwrap();
    assert!(head.starts_with("POST /v1/sessions "), "{head}");
    let key = format!("x-bb-api-key: {SECRET_TOKEN}");
    assert!(head.to_lowercase().contains(&key), "{head}");
    assert_eq!(
        body,
        json!({"projectId": "doors", "proxies": true, "keepAlive": true, "timeout": 90})
    );
    assert!(!refused.stdout.contains(SECRET_TOKEN));

    for (variable, value, why) in [
        (
            "BROWSERBASE_PROJECT_ID",
            "",
            "BROWSERBASE_PROJECT_ID is not",
        ),
        (
            "BROWSERBASE_SESSION_TIMEOUT",
            "soon",
            "is no number of seconds",
        ),
    ] {
        let mut command = place.command(["--config", "own.toml", "tools", "list"]);
        command
            .env("BROWSERBASE_API_KEY", SECRET_TOKEN)
            .env("BROWSERBASE_PROJECT_ID", "doors")
            .env(variable, value);
        let listed = finish(command.spawn().unwrap());
        let listed = &listed.expect(0).stdout;
        let line = listed.lines().find(|line| line.starts_with("browser"));
        let line = line.unwrap_or_else(|| panic!("{listed}"));
        assert!(line.contains("[unavailable: "), "{line}");
        assert!(line.contains(why), "{line}");
    }
}

#[test]
fn a_browser_elsewhere_is_used_by_a_call_and_by_a_model_and_its_address_is_not_shown() {
    let Some(elsewhere) = Elsewhere::start() else {
        return;
    };
    let server = PageServer::start(None, "text/html", PAGE);
    let place = Place::new();
    let ports = [server.address.port(), elsewhere.port];
    let [page, browser] = ports.map(|port| format!("{{ host = \"127.0.0.1\", port = {port} }}"));
    let network = |allowed: &str| {
        format!("[policy.network]\nenabled = true\nallowed_loopback = [{allowed}]\n")
    };
    let settings = format!(
        "[browser]\ncdp_url = \"{}?token={SECRET_TOKEN}\"\n{}",
        elsewhere.socket(),
        network(&format!("{page}, {browser}"))
    );
    place.write("own.toml", &format!("version = 1\n{settings}"));
    let input = json!({
        "action": "navigate",
        "url": format!("http://{}/", server.address),
        "timeout_secs": chromium::PATIENCE,
    });
    let text = input.to_string();
    let call = ["--config", "own.toml", "tools", "call", "browser", &text];
    let opened = place.halter(call);
    let shown = opened.expect(0).json();
    assert_eq!(shown["title"], "Hours", "{shown}");
    let note = shown["browser_note"].as_str().unwrap();
    assert!(note.contains("runs elsewhere"), "{note}");
    let turn = tool_turn(&place, &settings, "browser", &input);
    turn.ran.expect(0);
    assert!(turn.told.contains("runs elsewhere"), "{}", turn.told);

    // The policy decides about the browser as it does about the page.
    let closed = settings.replace(&format!(", {browser}"), "");
    place.write("own.toml", &format!("version = 1\n{closed}"));
    let refused = place.halter(call);
    let error = refused.expect(3).json();
    assert_eq!(error["error"]["code"], "policy_denied", "{error}");
    for text in [&opened.stdout, &turn.told, &refused.stdout, &refused.stderr] {
        assert!(!text.contains(SECRET_TOKEN), "{text}");
    }
}
