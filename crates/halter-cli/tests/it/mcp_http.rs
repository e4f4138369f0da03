//! Servers over HTTP: described, tried, used by a model, logged in to.

use crate::authorization::{Protected, browse};
use crate::http_fixture::{Asked, HttpFixture, reply_json, said, usual};
use crate::place::{Place, finish};
use crate::scenarios::stage::{ANTHROPIC, Stage};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::Stdio;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use url::Url;

/// A server whose tool says what it is given, to whoever has the key.
async fn echo(asked: Asked, mut stream: TcpStream) {
    if usual(&asked, &mut stream, &["echo"]).await.is_none() {
        let text = match asked.header("x-key") {
            Some("k1") => asked.body["params"]["arguments"]["text"].clone(),
            _ => json!("no key"),
        };
        let text = text.as_str().unwrap_or_default();
        reply_json(&mut stream, &said(&asked, text)).await;
    }
}

fn serving() -> (Runtime, HttpFixture) {
    let runtime = Runtime::new().unwrap();
    let fixture = runtime.block_on(HttpFixture::start(echo));
    (runtime, fixture)
}

#[test]
fn a_server_over_http_is_added_listed_tried_and_removed() {
    let (_runtime, fixture) = serving();
    let place = Place::new();
    let url = fixture.url.as_str();
    let add = ["mcp", "add", "x", "--transport", "http"];
    let header = [
        "--header",
        "X-Key: ${MY_KEY}",
        "--header-env",
        "X-Other=MY_KEY",
        url,
    ];
    place.halter(add.iter().chain(&header)).expect(0);
    let listed = place.halter(["mcp", "list"]);
    assert_eq!(listed.expect(0).stdout, format!("x  {url}  (settings)\n"));
    let shown = place.halter(["mcp", "list", "--json"]).expect(0).json();
    assert_eq!(shown[0]["type"], "http");
    assert!(!shown.to_string().contains("MY_KEY}"), "{shown}");
    let unset = place.halter(["mcp", "test"]);
    let unset = &unset.expect(1).stdout;
    assert!(unset.contains("the variable MY_KEY is not set"), "{unset}");
    let with_key = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        let child = command
            .env("MY_KEY", "k1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        finish(child.unwrap())
    };
    let tested = with_key(&["mcp", "test"]);
    assert_eq!(
        tested.expect(0).stdout,
        "ok      x: 1 tool, http fixture 1.0, protocol 2025-11-25 (settings)\n"
    );
    let doctor = with_key(&["doctor"]);
    let doctor = &doctor.expect(0).stdout;
    assert!(doctor.contains("x: 1 tool, http fixture 1.0"), "{doctor}");
    let call = [
        "tools",
        "call",
        "mcp__x__echo",
        "{\"text\":\"hi\"}",
        "--allow",
        "mcp__x__echo",
    ];
    let called = with_key(&call);
    assert_eq!(called.expect(0).stdout.trim(), "\"hi\"");
    let sent = fixture.asked.lock().unwrap().last().unwrap().clone();
    assert_eq!(sent.header("x-other"), Some("k1"));
    place.halter(["mcp", "remove", "x"]).expect(0);
    for (wrong, meant) in [
        (vec!["mcp", "add", "x", url], "write --transport http"),
        (
            vec!["mcp", "add", "x", "--transport", "http", "docs"],
            "has one address",
        ),
        (
            vec![
                "mcp",
                "add",
                "x",
                "--transport",
                "http",
                "--env",
                "A=b",
                url,
            ],
            "--header",
        ),
        (
            vec!["mcp", "add", "x", "--header", "A: b", "docs"],
            "sent no headers",
        ),
    ] {
        let refused = place.halter(wrong);
        let said = &refused.expect(2).stderr;
        assert!(said.contains(meant), "{said}");
    }
}

#[test]
fn a_model_uses_a_server_over_http() {
    let (_runtime, fixture) = serving();
    let stage = Stage::new(&ANTHROPIC[0]);
    stage.configure(&format!(
        "[permissions]\nallow = [\"mcp__fixture__echo\"]\n[mcp.servers.fixture]\ntype = \"http\"\n\
         url = \"{}\"\nheaders = {{ X-Key = \"k1\" }}\nrequired = true\n",
        fixture.url
    ));
    let played = stage.play("mcp_stdio");
    assert_eq!(played.completed(), "The server said: hello over stdio");
    let ok = |tool: &str| (tool.to_owned(), "ok".to_owned());
    assert_eq!(
        played.tools(),
        [ok("tool_search"), ok("mcp__fixture__echo")]
    );
}

#[test]
fn a_server_over_http_of_a_project_needs_trust() {
    let (_runtime, fixture) = serving();
    let place = Place::new();
    let entry = json!({"type": "http", "url": fixture.url, "headers": {"X-Key": "k1"}});
    let file = json!({"mcpServers": {"x": entry}});
    place.write(".mcp.json", &file.to_string());
    let tested = place.halter(["mcp", "test"]);
    let said = &tested.expect(1).stdout;
    assert!(said.starts_with("unused  x: "), "{said}");
    assert!(fixture.asked.lock().unwrap().is_empty());
    place.halter(["trust", ".mcp.json", "--yes"]).expect(0);
    let tested = place.halter(["mcp", "test"]);
    let said = &tested.expect(0).stdout;
    assert!(said.starts_with("ok      x: 1 tool"), "{said}");
}

#[test]
fn wrong_entries_over_http_are_told_without_their_values() {
    let place = Place::new();
    for (lines, meant) in [
        ("type = \"http\"", "has no `url`"),
        ("url = \"https://a.example\"", "no `type`"),
        (
            "type = \"http\"\nurl = \"a.example/secret\"",
            "cannot be used",
        ),
        (
            "type = \"http\"\nurl = \"https://me:secret@a.example\"",
            "a password",
        ),
        (
            "type = \"http\"\nurl = \"https://a.example\"\ncommand = \"x\"",
            "`command`",
        ),
        (
            "type = \"http\"\nurl = \"https://a.example\"\nheaders = { Accept = \"secret\" }",
            "the protocol sets it",
        ),
    ] {
        let file = place.root().join("http.toml");
        let text = format!("version = 1\n[mcp.servers.x]\n{lines}\n");
        std::fs::write(&file, text).unwrap();
        let tested = place.halter(["--config", file.to_str().unwrap(), "mcp", "test"]);
        let said = &tested.expect(1).stdout;
        assert!(said.contains(meant), "{lines}: {said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

/// Logs in with the program, and answers it in this way. Returns what it wrote.
fn log_in(place: &Place, answer: impl FnOnce(String, &mut dyn Write)) -> (String, String) {
    let mut command = place.command(["mcp", "login", "x"]);
    let child = command
        .env("HALTER_LOG", "trace")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    // Nobody reads it before the end, and it may be long.
    let mut errors = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut errors, &mut text).unwrap();
        text
    });
    let mut address = String::new();
    output.read_line(&mut address).unwrap();
    answer(address.trim().to_owned(), &mut input);
    let status = child.wait().unwrap();
    let said = errors.join().unwrap();
    assert!(status.success(), "{said}");
    (address, said)
}

#[test]
fn a_user_logs_in_by_any_browser_and_no_secret_is_shown() {
    let runtime = Runtime::new().unwrap();
    let Some(protected) = runtime.block_on(Protected::start()) else {
        return;
    };
    let place = Place::new();
    let url = protected.url.as_str();
    let add = ["mcp", "add", "x", "--transport", "http", url];
    place.halter(add).expect(0);
    let needed = place.halter(["mcp", "test"]);
    let needed = &needed.expect(1).stdout;
    assert!(needed.starts_with("login   x: "), "{needed}");
    assert!(needed.contains("run `halter mcp login x`"), "{needed}");
    let ran = place.halter(["run", "--text", "hello"]);
    let told = &ran.expect(0).stderr;
    assert!(told.contains("halter mcp login x"), "{told}");

    // A browser on another machine: its user pastes where it was sent.
    let mut pasted = String::new();
    let (_, said) = log_in(&place, |address, input| {
        let page = Url::parse(&address).unwrap();
        pasted = runtime.block_on(browse(&page, "/callback"));
        writeln!(input, "not an answer\n{pasted}").unwrap();
    });
    assert!(said.contains("this is no answer to this login"), "{said}");
    assert!(said.contains("logged in to x"), "{said}");
    let call = [
        "tools",
        "call",
        "mcp__x__whoami",
        "{}",
        "--allow",
        "mcp__x__whoami",
    ];
    let called = place.halter(call);
    assert_eq!(called.expect(0).stdout.trim(), "\"ada: tools\"");
    let kept = tokens(&place);
    let token = &kept["credentials"]["token_response"];
    for secret in ["access_token", "refresh_token"] {
        let secret = token[secret].as_str().unwrap();
        assert!(!said.contains(secret), "a token is logged");
    }
    let code = Url::parse(&pasted).unwrap();
    let code = code
        .query_pairs()
        .find(|it| it.0 == "code")
        .unwrap()
        .1
        .into_owned();
    assert!(!said.contains(&code), "a code is logged");

    let logged_out = place.halter(["mcp", "logout", "x"]);
    assert_eq!(logged_out.expect(0).stdout, "logged out of x\n");
    place.halter(["mcp", "test"]).expect(1);

    // A browser on this machine comes back by itself.
    let (_, said) = log_in(&place, |address, _| {
        let page = Url::parse(&address).unwrap();
        let back = runtime.block_on(browse(&page, "/callback"));
        let client = crate::http_fixture::client().unwrap();
        let forged = back.replace("state=", "state=x");
        let refused = runtime.block_on(client.get(forged).send()).unwrap();
        assert_eq!(refused.status(), 404);
        let taken = runtime.block_on(client.get(back).send()).unwrap();
        assert_eq!(taken.status(), 200);
    });
    assert!(said.contains("logged in to x"), "{said}");
    place.halter(["mcp", "test"]).expect(0);

    let removed = place.halter(["mcp", "remove", "x"]);
    let removed = &removed.expect(0).stdout;
    assert!(removed.ends_with(" and logged out of it\n"), "{removed}");
    assert_eq!(token_files(&place).count(), 0);
}

/// The tokens of the user.
fn tokens(place: &Place) -> Value {
    let file = token_files(place).next().unwrap();
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn token_files(place: &Place) -> impl Iterator<Item = PathBuf> {
    let directory = place.home().join(".local/state/halter/mcp-tokens");
    let files = std::fs::read_dir(directory).unwrap();
    let files = files.map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|it| it == "json"))
}
