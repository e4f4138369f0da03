//! `browser` at a browser that runs elsewhere: a Chromium of the test's own
//! that listens on loopback.

use crate::support::Workspace;
use crate::web_server::{Reply, Server};
use halter_policy::NetworkSwitch;
use halter_protocol::{Action, ToolCall, ToolErrorCode};
use halter_tools::limits::BROWSER_ENDPOINT_BYTES;
use halter_tools::{
    Browserbase, HarnessFacts, PolicySettings, ToolRuntime, WebSettings, builtin_tools_with,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
const PATIENCE: u64 = 120;

/// A Chromium that others reach.
struct Elsewhere {
    process: Child,
    port: u16,
    /// Where its protocol is spoken.
    path: String,
    _profile: tempfile::TempDir,
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Elsewhere {
    /// `None`, said so, where no Chromium is installed.
    async fn start() -> Option<Self> {
        if !Path::new("/usr/bin/chromium").exists() {
            println!("skipped: needs chromium");
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        let process = Command::new("/usr/bin/chromium")
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--disable-dev-shm-usage", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let file = profile.path().join("DevToolsActivePort");
        let deadline = Instant::now() + Duration::from_secs(PATIENCE);
        let told = loop {
            let told = std::fs::read_to_string(&file).unwrap_or_default();
            if told.lines().count() == 2 {
                break told;
            }
            assert!(Instant::now() < deadline, "it does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let (port, path) = told.trim().split_once('\n').unwrap();
        Some(Self {
            process,
            port: port.parse().unwrap(),
            path: path.to_owned(),
            _profile: profile,
        })
    }

    fn http(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn socket(&self) -> String {
        format!("ws://127.0.0.1:{}{}", self.port, self.path)
    }
}

/// A session that may reach these ports of loopback.
fn session(web: WebSettings, ports: &[u16]) -> Workspace {
    let allowed = ports
        .iter()
        .map(|port| ("127.0.0.1".to_owned(), Some(*port)));
    let mut workspace = Workspace::with_settings(PolicySettings {
        network: NetworkSwitch::On,
        allowed_loopback: allowed.collect(),
        ..PolicySettings::default()
    });
    workspace.tools = ToolRuntime::with_tools(builtin_tools_with(&web));
    workspace
}

fn go_to(server: &Server, path: &str) -> Value {
    json!({"action": "navigate", "url": server.url(path), "timeout_secs": PATIENCE})
}

#[tokio::test]
async fn pages_are_used_in_a_browser_elsewhere_with_a_profile_of_their_own() {
    let Some(elsewhere) = Elsewhere::start().await else {
        return;
    };
    let server = Server::start().await;
    let set = "<title>One</title><script>document.title += document.cookie; \
               document.cookie = 'seen=1'</script><button>Press me</button>";
    server.on("/one", Reply::ok("text/html", set));
    let ports = [server.address.port(), elsewhere.port];
    for address in [elsewhere.http(), elsewhere.socket()] {
        let web = WebSettings::new().with_browser_at(&address).unwrap();
        let workspace = session(web, &ports);
        let shown = workspace.ok("browser", go_to(&server, "/one")).await;
        // What an earlier session left behind is not there.
        assert_eq!(shown["title"], "One", "{shown}");
        let note = shown["browser_note"].as_str().unwrap();
        assert!(note.contains("runs elsewhere"), "{shown}");
        let input = json!({"action": "snapshot", "timeout_secs": PATIENCE});
        let snapshot = workspace.ok("browser", input).await;
        assert!(snapshot.to_string().contains("Press me"), "{snapshot}");
        let tabs = workspace.ok("browser", json!({"action": "close"})).await;
        assert_eq!(tabs, json!({"closed": true}));
        workspace.store.close().await;
    }
}

#[tokio::test]
async fn a_service_is_asked_for_a_browser_with_its_key() {
    let Some(elsewhere) = Elsewhere::start().await else {
        return;
    };
    let server = Server::start().await;
    server.on("/one", Reply::ok("text/html", "<title>One</title>"));
    let told = json!({"id": "1", "connectUrl": elsewhere.socket()});
    server.on(
        "/v1/sessions",
        Reply::ok("application/json", told.to_string()),
    );
    let mut service = Browserbase::new("s3cret-key", "project", Some(&server.url(""))).unwrap();
    service.keep_alive = true;
    service.timeout_secs = Some(60);
    assert!(!format!("{service:?}").contains("s3cret"));
    let web = WebSettings::new().with_browserbase(service);
    let workspace = session(web, &[server.address.port(), elsewhere.port]);
    let shown = workspace.ok("browser", go_to(&server, "/one")).await;
    assert_eq!(shown["title"], "One", "{shown}");
    let asked = server.seen();
    let asked = asked.iter().find(|it| it.contains("/v1/sessions")).unwrap();
    assert!(asked.starts_with("POST "), "{asked}");
    assert!(
        asked.to_lowercase().contains("x-bb-api-key: s3cret-key"),
        "{asked}"
    );
    workspace.store.close().await;
}

#[tokio::test]
async fn the_policy_decides_about_the_browser_too() {
    let server = Server::start().await;
    let web = WebSettings::new()
        .with_browser_at("ws://127.0.0.1:9/devtools?token=s3cret")
        .unwrap();
    let workspace = session(web, &[server.address.port()]);
    let call = ToolCall {
        id: "c".into(),
        name: "browser".into(),
        arguments: go_to(&server, "/"),
    };
    let reach = |host: String| Action::Reach { host };
    assert_eq!(
        workspace.tools.actions(&call).unwrap(),
        [
            reach(server.address.to_string()),
            reach("127.0.0.1:9".to_owned())
        ]
    );
    let denied = ToolErrorCode::PolicyDenied;
    let message = workspace.error("browser", call.arguments, denied).await;
    assert!(message.contains("127.0.0.1:9"), "{message}");
    assert!(!message.contains("s3cret"), "{message}");
    workspace.store.close().await;
}

#[tokio::test]
async fn what_is_no_browser_is_told_within_bounds() {
    let server = Server::start().await;
    let port = server.address.port();
    let answer = |length: usize| {
        let rest = " ".repeat(length - "{}".len());
        Reply::ok("application/json", format!("{{}}{rest}"))
    };
    for (reply, expected) in [
        (answer(BROWSER_ENDPOINT_BYTES), "webSocketDebuggerUrl"),
        (answer(BROWSER_ENDPOINT_BYTES + 1), "no browser for us"),
        (Reply::ok("text/html", "<p>"), "in JSON"),
        (Reply::with("404 Not Found", &[], ""), "status 404"),
    ] {
        server.on("/json/version", reply);
        let web = WebSettings::new().with_browser_at(&server.url("")).unwrap();
        let workspace = session(web, &[port]);
        let message = workspace.failure("browser", go_to(&server, "/")).await;
        assert!(message.contains(expected), "{expected}: {message}");
        workspace.store.close().await;
    }
    let address = format!("ws://127.0.0.1:{port}/none?token=s3cret");
    let web = WebSettings::new().with_browser_at(&address).unwrap();
    let workspace = session(web, &[port]);
    let message = workspace.failure("browser", go_to(&server, "/")).await;
    assert!(message.contains("refuses"), "{message}");
    assert!(!message.contains("s3cret"), "{message}");
    workspace.store.close().await;
}

#[tokio::test]
async fn a_browser_elsewhere_needs_none_here_and_its_absence_has_a_reason() {
    let policy = PolicySettings {
        network: NetworkSwitch::On,
        allowed_loopback: vec![("127.0.0.1".to_owned(), None)],
        ..PolicySettings::default()
    };
    let nothing = BTreeMap::from([("PATH".into(), "/nowhere".into())]);
    let facts = HarnessFacts {
        policy: &policy,
        environment: &nothing,
        attended: false,
        skills: true,
    };
    let reason = |web: WebSettings| {
        let tools = builtin_tools_with(&web);
        let browser = tools.iter().find(|it| it.spec().name.as_str() == "browser");
        browser.unwrap().unavailable(&facts)
    };
    assert!(reason(WebSettings::new()).unwrap().contains("no Chromium"));
    let there = WebSettings::new()
        .with_browser_at("ws://127.0.0.1:1/")
        .unwrap();
    assert_eq!(reason(there), None);
    let missing = WebSettings::new().without_browser("there is no key");
    assert_eq!(reason(missing).unwrap(), "there is no key");
}
