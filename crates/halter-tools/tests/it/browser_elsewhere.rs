//! `browser` at a browser that runs elsewhere: a Chromium of the test's own
//! that listens on loopback.

use crate::chromium::{Elsewhere, PATIENCE};
use crate::support::Workspace;
use crate::web_server::{Reply, Server};
use halter_policy::NetworkSwitch;
use halter_protocol::{Action, ToolCall, ToolErrorCode};
use halter_tools::limits::BROWSER_ENDPOINT_BYTES;
use halter_tools::{
    Browserbase, HarnessFacts, PolicySettings, ToolRuntime, WebSettings, builtin_tools_with,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

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
    let Some(elsewhere) = Elsewhere::start() else {
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

fn certificate(name: &str) -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.join("../halter-providers/tests/fixtures/tls")
        .join(name)
}

/// What stands before a browser and speaks TLS, on a port of its own.
async fn in_tls(browser: u16) -> (u16, AbortOnDropHandle<()>) {
    let chain = vec![CertificateDer::from_pem_file(certificate("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(certificate("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that trusts nobody here leaves.
                let Ok(mut secure) = acceptor.accept(stream).await else {
                    return;
                };
                let mut plain = TcpStream::connect(("127.0.0.1", browser)).await.unwrap();
                tokio::io::copy_bidirectional(&mut secure, &mut plain)
                    .await
                    .ok();
            });
        }
    });
    (port, AbortOnDropHandle::new(serving))
}

/// Settings by which those are trusted whom these certificates vouch for.
fn trusting(web: WebSettings, certificates: Vec<CertificateDer<'static>>) -> WebSettings {
    web.with_tls(Arc::new(move || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.clone());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth())
    }))
}

#[tokio::test]
async fn a_browser_elsewhere_is_reached_through_tls_and_only_where_it_is_trusted() {
    let Some(elsewhere) = Elsewhere::start() else {
        return;
    };
    let server = Server::start().await;
    server.on("/one", Reply::ok("text/html", "<title>One</title>"));
    let (port, _serving) = in_tls(elsewhere.port).await;
    let ports = [server.address.port(), port];
    let authority = CertificateDer::from_pem_file(certificate("ca.pem")).unwrap();
    for address in [
        format!("wss://127.0.0.1:{port}{}", elsewhere.path),
        format!("https://127.0.0.1:{port}"),
    ] {
        let web = |trusted| {
            let web = WebSettings::new().with_browser_at(&address).unwrap();
            trusting(web, trusted)
        };
        let workspace = session(web(vec![authority.clone()]), &ports);
        let shown = workspace.ok("browser", go_to(&server, "/one")).await;
        assert_eq!(shown["title"], "One", "{address}: {shown}");
        workspace.store.close().await;

        let workspace = session(web(Vec::new()), &ports);
        let message = workspace.failure("browser", go_to(&server, "/one")).await;
        assert!(message.contains("no secure connection"), "{message}");
        workspace.store.close().await;
    }
}

#[tokio::test]
async fn a_service_is_asked_for_a_browser_with_its_key() {
    let Some(elsewhere) = Elsewhere::start() else {
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
        samples_processes: true,
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
