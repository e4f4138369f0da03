//! Logging in, against a real authorization server: `oidc-provider` of npm.
//! `HALTER_MCP_NPM` names the directory that `.ci/run` installs it into.

use crate::authorization::{Protected, browse};
use crate::http::{http_settings, name, server};
use crate::http_fixture::{Asked, HttpFixture, reply};
use crate::support::{ENOUGH, Started};
use halter_mcp::auth::{Login, LoginError, LoginRequest, TokenStore, logout};
use halter_mcp::limits::{LOGIN_POLL, OAUTH_BYTES, OAUTH_WAIT};
use halter_mcp::{Connection, McpError, ServerSettings, ServerState};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const REDIRECT: &str = "http://127.0.0.1:49151/callback";

fn wish() -> LoginRequest {
    LoginRequest {
        redirect_uri: REDIRECT.to_owned(),
        ..LoginRequest::default()
    }
}

fn with_tokens(url: &str, tokens: &Path) -> ServerSettings {
    let mut http = http_settings(url);
    http.oauth.store = Some(TokenStore::new(tokens));
    ServerSettings::new(name(), http)
}

/// A user who logs in.
async fn log_in(settings: &ServerSettings) -> Result<(), LoginError> {
    let login = Login::begin(settings, wish()).await?;
    let shown = format!("{login:?}");
    assert!(!shown.contains("state"), "{shown}");
    let back = browse(login.address(), "/callback").await;
    login.finish(&back).await
}

/// What a session says of a server.
async fn tried(settings: &ServerSettings) -> Result<String, McpError> {
    let started = Started::new(vec![settings.clone()]);
    started.servers.started().await;
    let told = match started.status().state {
        ServerState::Ready => {
            let answer = started.call("mcp__x__whoami", json!({})).await.unwrap();
            Ok(answer.to_model_text())
        }
        ServerState::Failed(error) | ServerState::Restarting(error) => Err(error),
        other => panic!("{other:?}"),
    };
    started.servers.shutdown().await;
    told
}

fn needs_login(told: Result<String, McpError>) {
    let error = told.unwrap_err();
    assert_eq!(error.code(), "mcp_login_needed", "{error}");
    assert!(error.to_string().contains("halter mcp login x"), "{error}");
}

#[tokio::test]
async fn a_user_logs_in_and_out_and_tokens_are_renewed() {
    let Some(protected) = Protected::start().await else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let settings = with_tokens(&protected.url, place.path());
    needs_login(tried(&settings).await);
    log_in(&settings).await.unwrap();
    assert_eq!(tried(&settings).await.unwrap(), "ada: tools");

    // One that is about to expire is renewed before it is used.
    let before = older(place.path(), 3600);
    assert_eq!(tried(&settings).await.unwrap(), "ada: tools");
    assert_ne!(kept(place.path())["credentials"]["token_response"], before);

    // One that is refused though it has not expired is renewed, too.
    protected.forget_tokens().await;
    assert_eq!(tried(&settings).await.unwrap(), "ada: tools");

    // One that was revoked with all that belongs to it needs a login.
    protected.change(json!({"revoke": true})).await;
    needs_login(tried(&settings).await);
    log_in(&settings).await.unwrap();
    assert_eq!(tried(&settings).await.unwrap(), "ada: tools");

    assert!(logout(&settings).await.unwrap());
    assert!(!logout(&settings).await.unwrap());
    needs_login(tried(&settings).await);
}

#[tokio::test]
async fn a_session_uses_a_server_once_its_user_has_logged_in() {
    let Some(protected) = Protected::start().await else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let settings = with_tokens(&protected.url, place.path());
    let started = Started::one(settings.clone()).await;
    let state = started.status().state;
    assert!(matches!(state, ServerState::Failed(_)), "{state:?}");
    log_in(&settings).await.unwrap();
    // It looks every so often.
    assert!(LOGIN_POLL < ENOUGH);
    started.has("mcp__x__whoami").await;
    let answer = started.call("mcp__x__whoami", json!({})).await;
    assert_eq!(answer.unwrap().to_model_text(), "ada: tools");
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_token_for_somebody_else_is_no_login() {
    let Some(protected) = Protected::start().await else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let settings = with_tokens(&protected.url, place.path());
    protected
        .change(json!({"audience": "https://other.example/mcp"}))
        .await;
    log_in(&settings).await.unwrap();
    needs_login(tried(&settings).await);
}

#[tokio::test]
async fn a_client_that_is_known_needs_no_registration() {
    let Some(protected) = Protected::start().await else {
        return;
    };
    protected.change(json!({"registration": false})).await;
    let place = tempfile::tempdir().unwrap();
    let mut settings = with_tokens(&protected.url, place.path());
    let refused = Login::begin(&settings, wish()).await.unwrap_err();
    assert_eq!(refused.code(), "mcp_login_failed");
    let refused = refused.to_string();
    assert!(
        refused.contains("403") && refused.contains("oauth.client_id"),
        "{refused}"
    );
    let Connection::Http(http) = &mut settings.connection else {
        panic!("it is over HTTP");
    };
    http.oauth.client_id = Some("known".to_owned());
    http.oauth.client_secret = Some("known-secret".to_owned().into());
    log_in(&settings).await.unwrap();
    protected.forget_tokens().await;
    assert_eq!(tried(&settings).await.unwrap(), "ada: tools");
    let kept = kept(place.path()).to_string();
    assert!(!kept.contains("known-secret"), "a secret of the settings");
    let shown = format!("{settings:?}");
    assert!(!shown.contains("known-secret"), "{shown}");
}

#[tokio::test]
async fn only_an_answer_to_this_login_is_taken() {
    let Some(protected) = Protected::start().await else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let settings = with_tokens(&protected.url, place.path());
    let login = Login::begin(&settings, wish()).await.unwrap();
    let back = browse(login.address(), "/callback").await;
    let forged = |name: &str, value: &str| {
        let mut url = url::Url::parse(&back).unwrap();
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let others = pairs.into_iter().filter(|(it, _)| it != name);
        let others: Vec<_> = others.collect();
        url.query_pairs_mut().clear().extend_pairs(others);
        if !value.is_empty() {
            url.query_pairs_mut().append_pair(name, value);
        }
        url.to_string()
    };
    for wrong in [
        "",
        "two words",
        &forged("state", "forged"),
        &forged("state", ""),
    ] {
        let error = login.finish(wrong).await.unwrap_err();
        assert_eq!(error.code(), "mcp_login_answer", "{wrong}: {error}");
    }
    let forged_issuer = forged("iss", "https://evil.example");
    let error = login.finish(&forged_issuer).await.unwrap_err();
    assert!(error.to_string().contains("issuer"), "{error}");
    // The login page says that it names itself, so an answer without is none.
    let error = login.finish(&forged("iss", "")).await.unwrap_err();
    assert_eq!(error.code(), "mcp_login_answer", "{error}");
    assert!(std::fs::read_dir(place.path()).unwrap().next().is_none());
    login.finish(&back).await.unwrap();
    // A code is worth its tokens once.
    assert!(login.finish(&back).await.is_err());
    assert_eq!(tried(&settings).await.unwrap(), "ada: tools");
    let refused = Login::begin(&settings, wish()).await.unwrap();
    let mut denied = url::Url::parse(REDIRECT).unwrap();
    let state = refused.address().query_pairs().find(|it| it.0 == "state");
    let state = state.unwrap().1.into_owned();
    let pairs = [("error", "access_denied"), ("state", state.as_str())];
    denied.query_pairs_mut().extend_pairs(pairs);
    let error = refused.finish(denied.as_str()).await.unwrap_err();
    assert!(error.to_string().contains("access_denied"), "{error}");
}

#[tokio::test]
async fn an_authorization_server_sends_so_much_and_no_more() {
    for (bytes, meant) in [
        (OAUTH_BYTES, "asks for no login"),
        (OAUTH_BYTES + 1, "sent more than"),
    ] {
        let fixture = HttpFixture::start(move |asked: Asked, mut stream| async move {
            match asked.path.as_str() {
                "/mcp" => reply(&mut stream, "200 OK", "", "").await,
                _ => reply(&mut stream, "200 OK", "", &"x".repeat(bytes)).await,
            }
        })
        .await;
        let place = tempfile::tempdir().unwrap();
        let settings = with_tokens(&fixture.url, place.path());
        let error = Login::begin(&settings, wish())
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(meant), "{bytes}: {error}");
    }
    assert!(OAUTH_WAIT > std::time::Duration::ZERO);
}

#[tokio::test]
async fn nobody_is_sent_to_a_page_or_asked_for_tokens_over_plain_http() {
    // The server says that its users log in elsewhere, without https.
    let fixture = HttpFixture::start(|asked: Asked, mut stream| async move {
        let host = asked.header("host").unwrap().to_owned();
        let json = "Content-Type: application/json\r\n";
        match asked.path.as_str() {
            "/mcp" => reply(&mut stream, "401 Unauthorized", "", "").await,
            path if path.starts_with("/.well-known/oauth-protected-resource") => {
                reply(&mut stream, "404 Not Found", "", "").await;
            }
            "/register" => {
                reply(
                    &mut stream,
                    "201 Created",
                    json,
                    "{\"client_id\":\"c\",\"redirect_uris\":[]}",
                )
                .await
            }
            _ => {
                let issuer = match asked.path.ends_with("/mcp") {
                    true => format!("http://{host}/mcp"),
                    false => format!("http://{host}"),
                };
                let metadata = json!({
                    "issuer": issuer,
                    "authorization_endpoint": "http://evil.example/authorize",
                    "token_endpoint": "http://evil.example/token",
                    "registration_endpoint": format!("http://{host}/register"),
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                });
                reply(&mut stream, "200 OK", json, &metadata.to_string()).await;
            }
        }
    })
    .await;
    let place = tempfile::tempdir().unwrap();
    let settings = with_tokens(&fixture.url, place.path());
    let error = Login::begin(&settings, wish())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("https"), "{error}");
    let plain = with_tokens("http://a.example/mcp", place.path());
    let error = Login::begin(&plain, wish()).await.unwrap_err();
    assert_eq!(error.code(), "mcp_login_insecure");
    let nowhere = server(&fixture.url);
    let error = Login::begin(&nowhere, wish()).await.unwrap_err();
    assert_eq!(error.code(), "mcp_login_no_store");
}

/// The file with the tokens.
fn file(place: &Path) -> PathBuf {
    let files = std::fs::read_dir(place).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let is_ours = |file: &PathBuf| file.extension().is_some_and(|it| it == "json");
    files.find(is_ours).unwrap()
}

/// The tokens that are kept.
fn kept(place: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file(place)).unwrap()).unwrap()
}

/// Has tokens be given so many seconds earlier. Returns them.
fn older(place: &Path, seconds: u64) -> Value {
    let mut kept = kept(place);
    let received = &mut kept["credentials"]["token_received_at"];
    *received = json!(received.as_u64().unwrap() - seconds);
    std::fs::write(file(place), kept.to_string()).unwrap();
    kept["credentials"]["token_response"].clone()
}
