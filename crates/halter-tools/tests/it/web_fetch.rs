//! `web_fetch`, against a server on loopback.

use crate::support::{PNG, Workspace};
use crate::web_server::{Reply, Server};
use async_trait::async_trait;
use halter_policy::NetworkSwitch;
use halter_protocol::{Action, ContentPart, ToolCall, ToolErrorCode, ToolResult};
use halter_tools::limits::{
    WEB_ADDRESS_CHARS, WEB_BODY_BYTES, WEB_ERROR_BYTES, WEB_FETCH_MAX_SECS, WEB_FETCH_SECS,
    WEB_HEAD_BYTES, WEB_REDIRECTS, WEB_RESULT_BYTES, WEB_TEXT_BYTES,
};
use halter_tools::network::HostResolver;
use halter_tools::{HarnessFacts, PolicySettings};
use serde_json::{Value, json};
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A session that may reach the server, by address.
fn reaching(server: &Server) -> Workspace {
    let settings = PolicySettings {
        allowed_hosts: vec!["*.test".to_owned()],
        ..server.reachable()
    };
    let mut workspace = Workspace::with_settings(settings);
    workspace.resolve_by(Arc::new(AllHere));
    workspace
}

/// Every name is this machine, but for one.
#[derive(Debug)]
struct AllHere;

#[async_trait]
impl HostResolver for AllHere {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        let address = match name {
            "inner.test" => "10.1.2.3",
            _ => "127.0.0.1",
        };
        Ok(vec![address.parse().unwrap()])
    }
}

async fn fetch(workspace: &Workspace, url: &str) -> Value {
    workspace.ok("web_fetch", json!({ "url": url })).await
}

async fn failure(workspace: &Workspace, url: &str) -> String {
    workspace.failure("web_fetch", json!({ "url": url })).await
}

#[tokio::test]
async fn a_page_comes_as_markdown_text_and_json_as_they_are() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    let page = "<title>Door</title><h1>Hi</h1><a href=next>on</a>";
    server.on("/page", Reply::ok("text/html; charset=utf-8", page));
    server.on("/data", Reply::ok("application/json", r#"{"a": [1]}"#));
    server.on(
        "/latin",
        Reply::ok("text/plain; charset=latin1", b"caf\xe9"),
    );
    let next = server.url("/next");
    assert_eq!(
        fetch(&workspace, &server.url("/page")).await,
        json!({
            "url": server.url("/page"),
            "content_type": "text/html; charset=utf-8",
            "title": "Door",
            "content": format!("# Hi\n\n[on]({next})"),
        })
    );
    let data = fetch(&workspace, &server.url("/data")).await;
    assert_eq!(data["content"], r#"{"a": [1]}"#);
    let latin = fetch(&workspace, &server.url("/latin")).await;
    assert_eq!(latin["content"], "café");
    let raw = json!({"url": server.url("/page"), "raw": true});
    let raw = workspace.ok("web_fetch", raw).await;
    assert_eq!(raw["content"], page);
    let seen = server.seen().concat();
    assert!(seen.starts_with("GET /page HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains(&format!("host: {}\r\n", server.address)));
    assert!(seen.contains("user-agent: halter/"), "{seen}");
}

#[tokio::test]
async fn a_pdf_and_an_image_come_as_parts_and_a_binary_file_not_at_all() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    server.on("/a.pdf", Reply::ok("application/pdf", b"%PDF-1.4\nx"));
    server.on("/a.png", Reply::ok("application/octet-stream", PNG));
    server.on("/a.zip", Reply::ok("application/zip", b"PK\x03\x04\0\0"));
    for (path, kind) in [("/a.pdf", "application/pdf"), ("/a.png", "image/png")] {
        let arguments = json!({ "url": server.url(path) });
        let result = workspace.result("web_fetch", arguments).await.unwrap();
        let ToolResult::Parts { parts } = result else {
            panic!("{result:?}");
        };
        let (found, _) = parts[1].media().unwrap();
        assert_eq!(found, kind);
        let ContentPart::Text { text } = &parts[0] else {
            panic!("{parts:?}");
        };
        assert!(text.contains(kind), "{text}");
    }
    let refused = failure(&workspace, &server.url("/a.zip")).await;
    assert!(
        refused.contains("is a binary file ('application/zip')"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_longer_text_comes_in_pages() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    // A character across the edge stays whole.
    let text = format!("{}é{}", "a".repeat(WEB_RESULT_BYTES - 1), "b".repeat(100));
    server.on("/long", Reply::ok("text/plain", &text));
    let url = server.url("/long");
    let first = fetch(&workspace, &url).await;
    assert_eq!(first["next_offset"], WEB_RESULT_BYTES - 1);
    assert_eq!(first["total_bytes"], text.len());
    let rest = json!({"url": url, "offset": first["next_offset"]});
    let second = workspace.ok("web_fetch", rest).await;
    assert_eq!(second["next_offset"], Value::Null);
    let both = format!(
        "{}{}",
        first["content"].as_str().unwrap(),
        second["content"].as_str().unwrap()
    );
    assert_eq!(both, text);
    let past = json!({"url": url, "offset": text.len() + 1});
    let past = workspace.failure("web_fetch", past).await;
    assert!(past.contains("is not a place in the text"), "{past}");
}

#[tokio::test]
async fn a_page_that_never_ends_is_cut_and_one_that_never_comes_is_given_up() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    server.on(
        "/endless",
        Reply::endless("text/plain", &"x".repeat(64 * 1024)),
    );
    let cut = fetch(&workspace, &server.url("/endless")).await;
    assert_eq!(cut["total_bytes"], WEB_TEXT_BYTES);
    let note = format!("only the first {WEB_TEXT_BYTES} bytes were read");
    assert_eq!(cut["note"], note);

    server.on(
        "/pdf",
        Reply::endless(
            "application/pdf",
            &format!("%PDF-1.4 {}", "x".repeat(64 * 1024)),
        ),
    );
    let refused = failure(&workspace, &server.url("/pdf")).await;
    assert!(refused.contains("look for a smaller form"), "{refused}");

    server.on("/stuck", Reply::stuck("text/plain"));
    let arguments = json!({"url": server.url("/stuck"), "timeout_secs": 1});
    let late = workspace
        .error("web_fetch", arguments, ToolErrorCode::TimedOut)
        .await;
    assert!(late.contains("within 1 s"), "{late}");
}

#[tokio::test]
async fn what_is_packed_is_unpacked_as_far_as_the_bound_goes() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    let packed = |body: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    };
    let headers = [("Content-Type", "text/plain"), ("Content-Encoding", "gzip")];
    server.on("/small", Reply::with("200 OK", &headers, packed(b"small")));
    assert_eq!(
        fetch(&workspace, &server.url("/small")).await["content"],
        "small"
    );
    let bomb = packed(&vec![b'x'; WEB_BODY_BYTES * 2]);
    server.on("/bomb", Reply::with("200 OK", &headers, bomb));
    let cut = fetch(&workspace, &server.url("/bomb")).await;
    assert_eq!(cut["total_bytes"], WEB_TEXT_BYTES);
    server.on("/damaged", Reply::with("200 OK", &headers, b"\x1f\x8bno"));
    let damaged = failure(&workspace, &server.url("/damaged")).await;
    assert!(damaged.contains("is damaged"), "{damaged}");
    let odd = [("Content-Encoding", "br")];
    server.on("/odd", Reply::with("200 OK", &odd, b"x"));
    let odd = failure(&workspace, &server.url("/odd")).await;
    assert!(odd.contains("encoded as 'br'"), "{odd}");
}

#[tokio::test]
async fn redirects_are_followed_to_their_end_and_no_further() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    for step in 0..WEB_REDIRECTS + 1 {
        let next = format!("{}", step + 1);
        server.on(&format!("/{step}"), Reply::redirect(&next));
    }
    server.on(
        &format!("/{}", WEB_REDIRECTS + 1),
        Reply::ok("text/plain", "end"),
    );
    let end = fetch(&workspace, &server.url("/1")).await;
    assert_eq!(end["content"], "end");
    assert_eq!(end["url"], server.url(&format!("/{}", WEB_REDIRECTS + 1)));
    let more = failure(&workspace, &server.url("/0")).await;
    assert!(more.contains("it leads on after 10 redirects"), "{more}");
}

#[tokio::test]
async fn a_redirect_goes_nowhere_that_a_call_may_not() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    for (to, why) in [
        (
            "file:///etc/passwd",
            "'file:' is not fetched, only http and https are",
        ),
        ("ftp://a.test/x", "'ftp:' is not fetched"),
        ("javascript:alert(1)", "'javascript:' is not fetched"),
        ("http://[::1", "is not an address"),
        ("http://me:pw@a.test/", "it holds a user name or password"),
    ] {
        server.on("/away", Reply::redirect(to));
        let refused = failure(&workspace, &server.url("/away")).await;
        assert!(refused.contains(why), "{refused}");
        assert!(refused.contains("it leads to"), "{refused}");
    }
    for to in [
        "http://other.example/",
        "http://inner.test/",
        "http://127.0.0.1:1/",
    ] {
        server.on("/away", Reply::redirect(to));
        let url = json!({ "url": server.url("/away") });
        let refused = workspace
            .error("web_fetch", url, ToolErrorCode::PolicyDenied)
            .await;
        assert!(refused.contains(&format!("leads to '{to}'")), "{refused}");
    }
}

#[tokio::test]
async fn the_policy_decides_about_the_host_before_and_when_it_is_reached() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    let port = server.address.port();
    server.on("/", Reply::ok("text/plain", "named"));
    let named = fetch(&workspace, &format!("http://A.test:{port}")).await;
    assert_eq!(named["content"], "named");
    let tool = workspace.tools.get("web_fetch").unwrap();
    let reach = |url: &str| tool.actions(&json!({ "url": url }));
    let host = |host: &str| vec![Action::Reach { host: host.into() }];
    assert_eq!(reach("https://A.example/x"), host("a.example:443"));
    assert_eq!(reach("http://[::1]:8080/"), host("[::1]:8080"));
    assert_eq!(reach("http://0x7f.1/"), host("127.0.0.1:80"));
    assert_eq!(reach("no address"), []);

    let seen = server.seen().len();
    for url in [
        format!("http://inner.test:{port}/"),
        "http://elsewhere.example/".to_owned(),
        "http://169.254.169.254/".to_owned(),
    ] {
        let url = json!({ "url": url });
        workspace
            .error("web_fetch", url, ToolErrorCode::PolicyDenied)
            .await;
    }
    let off = Workspace::new();
    let url = json!({ "url": server.url("/") });
    off.error("web_fetch", url, ToolErrorCode::PolicyDenied)
        .await;
    assert_eq!(server.seen().len(), seen);
}

#[tokio::test]
async fn what_is_no_address_is_refused_with_what_would_be_one() {
    let workspace = Workspace::new();
    for (url, why) in [
        ("example.com", "write it whole"),
        ("file:///etc/passwd", "read a file with `read`"),
        ("http://", "is not an address"),
        ("http://u:p@example.com/", "leave them out"),
    ] {
        let refused = failure(&workspace, url).await;
        assert!(refused.contains(why), "{refused}");
    }
    let long = format!("http://a.test/{}", "x".repeat(WEB_ADDRESS_CHARS));
    let refused = failure(&workspace, &long).await;
    assert!(
        refused.contains("has more than 4000 characters"),
        "{refused}"
    );
    let secret = failure(&workspace, "http://u:hunter2@example.com:x/").await;
    assert!(secret.contains("is not an address"), "{secret}");
}

#[tokio::test]
async fn an_error_status_is_an_error_with_what_the_server_says() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    let missing = failure(&workspace, &server.url("/nothing")).await;
    assert!(
        missing.contains("answered 404 Not Found; look for"),
        "{missing}"
    );
    assert!(missing.ends_with(":\nno page"), "{missing}");

    // A character across the edge is left out whole.
    let said = "a".repeat(WEB_ERROR_BYTES - 1);
    for (more, shown) in [("b", "b"), ("bc", "b"), ("é", "")] {
        let body = format!("{said}{more}");
        let headers = [("Content-Type", "text/plain; charset=utf-8")];
        server.on("/broken", Reply::with("500 Oh", &headers, body));
        let broken = failure(&workspace, &server.url("/broken")).await;
        let (_, repeated) = broken.split_once(":\n").unwrap();
        assert_eq!(repeated, format!("{said}{shown}"));
    }
}

#[tokio::test]
async fn the_head_of_an_answer_has_its_bound() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    let filled = |end: &str| {
        let start = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX: ";
        let rest = WEB_HEAD_BYTES - start.len() - end.len();
        format!("{start}{}{end}", "x".repeat(rest)).into_bytes()
    };
    let mut fits = filled("\r\n\r\n");
    assert_eq!(fits.len(), WEB_HEAD_BYTES);
    fits.extend_from_slice(b"body");
    server.on("/fits", Reply::Whole(fits));
    let page = fetch(&workspace, &server.url("/fits")).await;
    assert_eq!(page["content"], "body");
    // As many bytes without an end: one that waited for more would be late.
    server.on("/goes-on", Reply::Stuck(filled("")));
    let url = json!({"url": server.url("/goes-on"), "timeout_secs": WEB_FETCH_MAX_SECS});
    let refused = workspace.failure("web_fetch", url).await;
    assert!(refused.contains("head is too large"), "{refused}");
}

#[tokio::test]
async fn a_page_that_never_comes_is_waited_for_as_long_as_nobody_says_otherwise() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    server.on("/stuck", Reply::stuck("text/plain"));
    let url = json!({"url": server.url("/stuck")});
    let call = workspace.error("web_fetch", url, ToolErrorCode::TimedOut);
    let time = Duration::from_secs(WEB_FETCH_SECS);
    let late = server.waits_for(time, call).await;
    assert!(
        late.contains(&format!("within {WEB_FETCH_SECS} s")),
        "{late}"
    );
}

#[tokio::test]
async fn a_cancelled_call_ends_while_it_waits() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    server.on("/stuck", Reply::stuck("text/plain"));
    let call = ToolCall {
        id: "call".into(),
        name: "web_fetch".into(),
        arguments: json!({"url": server.url("/stuck"), "timeout_secs": 300}),
    };
    let running = workspace.tools.execute(&call, workspace.context());
    let cancelling = async {
        server.asked().await;
        workspace.cancel.cancel();
    };
    let (ended, ()) = tokio::join!(running, cancelling);
    assert_eq!(ended.unwrap_err().code, ToolErrorCode::Cancelled);
}

#[tokio::test]
async fn https_needs_somebody_to_set_it_up() {
    let server = Server::start().await;
    let workspace = reaching(&server);
    let refused = failure(&workspace, &format!("https://{}/", server.address)).await;
    assert!(refused.contains("https is not set up here"), "{refused}");
}

#[test]
fn it_is_of_no_use_where_no_host_can_be_reached() {
    let tool = Workspace::new().tools.get("web_fetch").unwrap();
    let environment = Default::default();
    let reason = |policy: &PolicySettings, attended| {
        tool.unavailable(&HarnessFacts {
            policy,
            environment: &environment,
            attended,
            skills: true,
            samples_processes: true,
        })
    };
    let off = PolicySettings {
        network: NetworkSwitch::Off,
        ..PolicySettings::default()
    };
    assert!(
        reason(&off, true)
            .unwrap()
            .starts_with("the network is off")
    );
    let unset = PolicySettings::default();
    assert_eq!(reason(&unset, true), None);
    assert!(reason(&unset, false).is_some());
    let on = PolicySettings {
        network: NetworkSwitch::On,
        allowed_hosts: vec!["*".to_owned()],
        ..PolicySettings::default()
    };
    assert_eq!(reason(&on, false), None);
}
