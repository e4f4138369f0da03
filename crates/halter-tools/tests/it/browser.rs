//! `browser`, with the Chromium of the system, against pages on loopback.

use crate::support::{Workspace, write_program};
use crate::web_server::{Reply, Server};
use halter_policy::{NetworkSwitch, SandboxMode};
use halter_protocol::{Action, ToolCall, ToolErrorCode, ToolResult};
use halter_tools::limits::{
    BROWSER_CALL_MAX_SECS, BROWSER_CALL_SECS, BROWSER_GRACE_SECS, BROWSER_START_SECS,
    BROWSER_VALUE_BYTES,
};
use halter_tools::{HarnessFacts, PolicySettings};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
pub const PATIENCE: u64 = 120;

/// A session with a browser, and a server it may reach. `None`, said so, where
/// no Chromium is installed.
pub async fn open() -> Option<(Workspace, Server)> {
    let installed = ["/usr/bin/chromium", "/usr/local/bin/chromium"];
    if !installed.iter().any(|it| std::path::Path::new(it).exists()) {
        crate::support::skipped("chromium");
        return None;
    }
    let server = Server::start().await;
    Some((Workspace::with_settings(server.reachable()), server))
}

pub fn page(server: &Server, path: &str, html: &str) {
    server.on(path, Reply::ok("text/html; charset=utf-8", html));
}

pub async fn browser(workspace: &Workspace, mut arguments: Value) -> Value {
    arguments["timeout_secs"] = PATIENCE.into();
    workspace.ok("browser", arguments).await
}

pub async fn navigate(workspace: &Workspace, server: &Server, path: &str) -> Value {
    let arguments = json!({"action": "navigate", "url": server.url(path)});
    browser(workspace, arguments).await
}

async fn snapshot(workspace: &Workspace) -> String {
    let shown = browser(workspace, json!({"action": "snapshot"})).await;
    shown["snapshot"].as_str().unwrap().to_owned()
}

/// Looks until the page shows a text: pages do some things later.
pub async fn shows(workspace: &Workspace, text: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(PATIENCE);
    loop {
        let shown = snapshot(workspace).await;
        if shown.contains(text) {
            return shown;
        }
        assert!(Instant::now() < deadline, "no {text:?} in\n{shown}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The name of the element on the line that begins so.
fn named(snapshot: &str, start: &str) -> String {
    let line = snapshot
        .lines()
        .find(|line| line.trim_start().starts_with(start))
        .unwrap_or_else(|| panic!("no {start:?} in\n{snapshot}"));
    let (_, name) = line.split_once("[ref=").unwrap_or_else(|| panic!("{line}"));
    name.trim_end_matches(']').to_owned()
}

#[tokio::test]
async fn a_form_is_filled_in_and_sent() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    page(
        &server,
        "/form",
        "<title>Form</title><h1>Order</h1><form action=/sent>\
         <label>Name <input name=name value=old></label>\
         <label>Size <select name=size><option>small<option>large</select></label>\
         <label><input type=checkbox name=gift value=yes> Gift</label>\
         <button>Send</button></form>",
    );
    page(
        &server,
        "/sent?name=Ada+L&size=large&gift=yes",
        "<title>Sent</title><p>Thank you",
    );
    page(
        &server,
        "/sent?name=Bob&size=small",
        "<title>Sent</title><p>Thank Bob",
    );
    let at = navigate(&workspace, &server, "/form").await;
    assert_eq!(
        (&at["title"], &at["url"]),
        (&json!("Form"), &json!(server.url("/form")))
    );
    let shown = snapshot(&workspace).await;
    assert!(shown.contains("- heading \"Order\""), "{shown}");
    let name = named(&shown, "- textbox \"Name\"");
    browser(
        &workspace,
        json!({"action": "type", "ref": name, "text": "Ada L"}),
    )
    .await;
    let size = named(&shown, "- combobox \"Size\"");
    browser(
        &workspace,
        json!({"action": "type", "ref": size, "text": "large"}),
    )
    .await;
    let gift = named(&shown, "- checkbox \"Gift\"");
    browser(&workspace, json!({"action": "click", "ref": gift})).await;
    let filled = snapshot(&workspace).await;
    assert!(filled.contains("value=\"Ada L\""), "{filled}");
    assert!(filled.contains("- checkbox \"Gift\" checked"), "{filled}");
    let send = named(&filled, "- button \"Send\"");
    browser(&workspace, json!({"action": "click", "ref": send})).await;
    shows(&workspace, "Thank you").await;

    browser(&workspace, json!({"action": "back"})).await;
    shows(&workspace, "Order").await;
    let old = json!({"action": "click", "ref": "e99"});
    let old = workspace.failure("browser", old).await;
    assert!(old.contains("take a new `snapshot`"), "{old}");
    navigate(&workspace, &server, "/form").await;
    let typed = json!({"action": "type", "selector": "[name=name]", "text": "Bob", "submit": true});
    browser(&workspace, typed).await;
    shows(&workspace, "Thank Bob").await;
    workspace.store.close().await;
}

#[tokio::test]
async fn dialogs_are_answered_and_told() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    page(
        &server,
        "/",
        "<button onclick=\"alert('hello'); document.title = '' + confirm('sure?') + \
         prompt('who?')\">Ask</button>",
    );
    navigate(&workspace, &server, "/").await;
    let click = json!({"action": "click", "selector": "button"});
    let asked = browser(&workspace, click.clone()).await;
    assert_eq!(asked["title"], "falsenull");
    assert_eq!(
        asked["dialogs"],
        json!([
            {"kind": "alert", "message": "hello", "answer": "accepted"},
            {"kind": "confirm", "message": "sure?", "answer": "dismissed"},
            {"kind": "prompt", "message": "who?", "answer": "dismissed"},
        ])
    );
    let mut accepting = click;
    accepting["accept_dialogs"] = true.into();
    accepting["text"] = "me".into();
    assert_eq!(browser(&workspace, accepting).await["title"], "trueme");
    workspace.store.close().await;
}

#[tokio::test]
async fn new_tabs_are_followed_and_frames_are_seen() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    page(
        &server,
        "/",
        "<title>First</title><a href=/second target=_blank rel=opener>Open</a>",
    );
    page(
        &server,
        "/second",
        "<title>Second</title><iframe src=/inner title=Box></iframe><button onclick=window.close()>Shut",
    );
    page(
        &server,
        "/inner",
        "<button onclick=\"this.textContent = 'Pressed'\">Press me</button>",
    );
    navigate(&workspace, &server, "/").await;
    let link = json!({"action": "click", "selector": "a"});
    browser(&workspace, link).await;
    let shown = shows(&workspace, "Press me").await;
    assert!(shown.contains("- page \"Second\""), "{shown}");
    let inner = named(&shown, "- button \"Press me\"");
    browser(&workspace, json!({"action": "click", "ref": inner})).await;
    let shown = shows(&workspace, "- button \"Pressed\"").await;
    let shut = named(&shown, "- button \"Shut\"");
    browser(&workspace, json!({"action": "click", "ref": shut})).await;
    shows(&workspace, "- page \"First\"").await;
    workspace.store.close().await;
}

#[tokio::test]
async fn scrolling_loads_more_and_consoles_are_read() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    page(
        &server,
        "/",
        "<body style='height: 5000px'><p>Top</p><script>console.log('made', 1, true);\
         console.error('oh no'); addEventListener('scroll', () => document.body.append('More'));\
         setTimeout(() => { throw new Error('broken') })</script>",
    );
    navigate(&workspace, &server, "/").await;
    let scrolled = browser(&workspace, json!({"action": "scroll"})).await;
    assert!(
        scrolled["scrolled"]["y"].as_f64().unwrap() > 0.0,
        "{scrolled}"
    );
    shows(&workspace, "More").await;
    let up = json!({"action": "scroll", "direction": "up"});
    assert_eq!(browser(&workspace, up).await["scrolled"]["y"], 0);
    let console = browser(&workspace, json!({"action": "console"})).await;
    let lines = console["console"].to_string();
    for line in ["made 1 true", "oh no", "Error: broken"] {
        assert!(lines.contains(line), "{lines}");
    }
    let again = browser(&workspace, json!({"action": "console"})).await;
    assert_eq!(again["console"], json!([]));
    workspace.store.close().await;
}

#[tokio::test]
async fn expressions_keys_and_pictures() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    page(
        &server,
        "/",
        "<body style='height: 3000px'><input autofocus><p>Hi",
    );
    navigate(&workspace, &server, "/").await;
    let eval = |expression: &str| json!({"action": "eval", "expression": expression});
    let sum = browser(&workspace, eval("await Promise.resolve({sum: 1 + 1})")).await;
    assert_eq!(sum["value"], json!({"sum": 2}));
    let later = "new Promise((done) => setTimeout(() => done({later: true}), 200))";
    let later = browser(&workspace, eval(later)).await;
    assert_eq!(later["value"], json!({"later": true}));
    let rejected = eval("Promise.reject(new Error('not so'))");
    let rejected = workspace.failure("browser", rejected).await;
    assert!(rejected.contains("failed: Error: not so"), "{rejected}");
    for never in ["new Promise(() => {})", "await new Promise(() => {})"] {
        let mut never = eval(never);
        never["timeout_secs"] = 1.into();
        let told = workspace
            .error("browser", never, ToolErrorCode::TimedOut)
            .await;
        assert!(told.contains("did not end within 1 s"), "{told}");
        assert!(told.contains("the page stays open"), "{told}");
    }
    let long = browser(&workspace, eval("'x'.repeat(100000)")).await;
    let long = long["value"].as_str().unwrap();
    assert!(long.len() < BROWSER_VALUE_BYTES + 100 && long.contains("(cut: 100002 bytes"));
    let deep = "let deep = {}; let at = deep; for (let i = 0; i < 200; i++) at = at.x = {}; deep";
    let deep = workspace.failure("browser", eval(deep)).await;
    assert!(deep.contains("too deeply to be read"), "{deep}");
    let wrong = workspace.failure("browser", eval("nothing.here")).await;
    assert!(wrong.contains("ReferenceError"), "{wrong}");

    browser(
        &workspace,
        json!({"action": "type", "selector": "input", "text": "ab"}),
    )
    .await;
    for key in ["c", "Control+a", "Backspace", "d"] {
        browser(&workspace, json!({"action": "press", "key": key})).await;
    }
    let value = browser(&workspace, eval("document.querySelector('input').value")).await;
    assert_eq!(value["value"], "d");

    let picture = json!({"action": "screenshot"});
    let picture = workspace.result("browser", picture).await.unwrap();
    let ToolResult::Parts { parts } = picture else {
        panic!("{picture:?}");
    };
    assert_eq!(parts[1].media().unwrap().0, "image/png");
    let file = json!({"action": "screenshot", "full_page": true, "output_path": "page.png"});
    let file = browser(&workspace, file).await;
    assert_eq!(
        (&file["output_path"], &file["height"]),
        (&json!("page.png"), &json!(3016))
    );
    let outside = json!({"action": "screenshot", "output_path": "/etc/page.png"});
    workspace
        .error("browser", outside, ToolErrorCode::PolicyDenied)
        .await;
    let closed = browser(&workspace, json!({"action": "close"})).await;
    assert_eq!(closed, json!({"closed": true}));
    let gone = json!({"action": "snapshot"});
    let gone = workspace.failure("browser", gone).await;
    assert!(gone.contains("no page is open"), "{gone}");
    workspace.store.close().await;
}

#[tokio::test]
async fn pages_reach_what_the_policy_allows_and_nothing_else() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    let other = Server::start().await;
    page(&other, "/", "<title>Other</title>");
    page(
        &server,
        "/",
        &format!(
            "<title>Here</title><a href='{0}'>Away</a><script>\
             fetch('{0}').then((it) => it.text(), (it) => 'failed').then((it) => \
             document.body.append('fetched ' + it.includes('Other')))</script>",
            other.url("/")
        ),
    );
    server.on("/away", Reply::redirect(&other.url("/")));
    server.on("/file", Reply::redirect("file:///etc/hostname"));
    let zip = [
        ("Content-Type", "application/zip"),
        ("Content-Disposition", "attachment"),
    ];
    server.on("/zip", Reply::with("200 OK", &zip, "PK"));
    navigate(&workspace, &server, "/").await;
    let shown = shows(&workspace, "fetched").await;
    assert!(shown.contains("fetched false"), "{shown}");
    let go = |url: String| json!({"action": "navigate", "url": url, "timeout_secs": PATIENCE});
    for url in [
        other.url("/"),
        server.url("/away"),
        "http://example.test/".to_owned(),
    ] {
        workspace
            .error("browser", go(url), ToolErrorCode::PolicyDenied)
            .await;
    }
    navigate(&workspace, &server, "/").await;
    let away = json!({"action": "click", "selector": "a", "timeout_secs": PATIENCE});
    workspace
        .error("browser", away, ToolErrorCode::PolicyDenied)
        .await;
    assert!(other.seen().is_empty(), "{:?}", other.seen());

    let file = workspace
        .failure("browser", go("file:///etc/hostname".into()))
        .await;
    assert!(file.contains("only http and https"), "{file}");
    let led = workspace.failure("browser", go(server.url("/file"))).await;
    assert!(led.contains("is not of the web"), "{led}");
    let zip = workspace.failure("browser", go(server.url("/zip"))).await;
    assert!(zip.contains("use `web_fetch`"), "{zip}");
    workspace.store.close().await;
}

#[tokio::test]
async fn only_what_pages_asked_for_is_told_as_refused() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    let other = Server::start().await;
    let asks = format!(
        "<script>window.asked = fetch('{}').then(() => 'came', () => 'failed')</script>",
        other.url("/")
    );
    page(&server, "/", &asks);
    let opened = navigate(&workspace, &server, "/").await;
    let asked = browser(
        &workspace,
        json!({"action": "eval", "expression": "await window.asked"}),
    )
    .await;
    // Chromium also asks for hosts of its vendor, above all when it starts.
    let told = [&opened, &asked].map(|it| it["refused_hosts"].as_array().cloned());
    let told: Vec<Value> = told.into_iter().flatten().flatten().collect();
    let address = other.url("/");
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    assert_eq!(asked["value"], "failed", "{opened} {asked}");
    assert!(!told.is_empty(), "{opened} {asked}");
    for line in &told {
        assert!(line.as_str().unwrap().contains(address), "{told:?}");
    }
    workspace.store.close().await;
}

/// Processes that work in the session's scratch directory.
fn processes_in(workspace: &Workspace) -> usize {
    let scratch = workspace.store.scratch().path().to_owned();
    let scratch = scratch.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|it| {
            let line = std::fs::read(it.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&scratch)
        })
        .count()
}

#[tokio::test]
async fn a_browser_that_hangs_is_ended_and_none_outlives_its_session() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    page(&server, "/", "<button onclick='for (;;) {}'>Hang</button>");
    navigate(&workspace, &server, "/").await;
    assert!(processes_in(&workspace) > 0);
    let hang = json!({"action": "click", "selector": "button", "timeout_secs": 1});
    let hung = workspace
        .error("browser", hang, ToolErrorCode::TimedOut)
        .await;
    assert!(hung.contains("was ended; navigate again"), "{hung}");
    crate::support::eventually("the browser is gone", || processes_in(&workspace) == 0).await;

    navigate(&workspace, &server, "/").await;
    let call = ToolCall {
        id: "call".into(),
        name: "browser".into(),
        arguments: json!({"action": "eval", "expression": "new Promise(() => fetch('/asked'))"}),
    };
    let before = server.seen().len();
    let running = workspace.tools.execute(&call, workspace.context());
    let cancelling = async {
        crate::support::eventually("the page asks", || server.seen().len() > before).await;
        workspace.cancel.cancel();
    };
    let (ended, ()) = tokio::join!(running, cancelling);
    assert_eq!(ended.unwrap_err().code, ToolErrorCode::Cancelled);
    let scratch = workspace.store.scratch().path().to_owned();
    workspace.store.close().await;
    crate::support::eventually("the browser is gone", || processes_in(&workspace) == 0).await;
    assert!(!scratch.exists());
}

/// Chromium crashes where the path of its socket has no room for all of it.
#[tokio::test]
async fn a_browser_starts_in_a_directory_with_a_long_name() {
    let Some((_, server)) = open().await else {
        return;
    };
    let temp = tempfile::Builder::new().prefix(&"x".repeat(100)).tempdir();
    let temp = temp.unwrap();
    std::fs::create_dir(temp.path().join("work")).unwrap();
    let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    let here = crate::place::here();
    let workspace = Workspace::in_directory(temp, server.reachable(), here, [path].into());
    page(&server, "/", "<title>Here</title>");
    assert_eq!(navigate(&workspace, &server, "/").await["title"], "Here");
    workspace.store.close().await;
}

/// A browser that finds another at its profile has that one open the page, or
/// kills it.
#[tokio::test]
async fn what_a_killed_browser_left_in_its_profile_does_not_keep_the_next_from_starting() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    page(&server, "/", "<title>Here</title>");
    let profile = workspace.store.scratch().create().unwrap();
    let profile = profile.join("browser/profile");
    std::fs::create_dir_all(&profile).unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let mut other = std::process::Command::new("sleep")
        .arg("300")
        .spawn()
        .unwrap();
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("SingletonSocket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let lock = format!("{}-{}", host.trim(), other.id());
    let links = [
        (lock.as_ref(), profile.join("SingletonLock")),
        (socket.as_path(), profile.join("SingletonSocket")),
        (std::path::Path::new("7"), profile.join("SingletonCookie")),
        (
            std::path::Path::new("7"),
            place.path().join("SingletonCookie"),
        ),
    ];
    for (target, link) in links {
        std::os::unix::fs::symlink(target, link).unwrap();
    }
    assert_eq!(navigate(&workspace, &server, "/").await["title"], "Here");
    assert_eq!(other.try_wait().unwrap(), None);
    other.kill().unwrap();
    other.wait().unwrap();
    workspace.store.close().await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_costs_a_call_and_no_browser() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    // Kept nowhere, so that going back asks the server again.
    let first = [
        ("Content-Type", "text/html"),
        ("Cache-Control", "no-store"),
        ("Set-Cookie", "login=ada"),
    ];
    let html = "<title>First</title><script>addEventListener('unload', () => {})</script>";
    server.on("/", Reply::with("200 OK", &first, html));
    let second = "<title>Second</title><a href=/never>Go</a>";
    page(&server, "/second", second);
    server.on("/never", Reply::silent());
    navigate(&workspace, &server, "/").await;
    let second = navigate(&workspace, &server, "/second").await;
    server.on("/", Reply::silent());
    let go = json!({"action": "navigate", "url": server.url("/never"), "timeout_secs": 1});
    let back = json!({"action": "back", "timeout_secs": 1});
    let click = json!({"action": "click", "selector": "a", "timeout_secs": 1});
    for (call, path) in [(go, "/never"), (back, "/"), (click, "/never")] {
        let told = workspace
            .error("browser", call, ToolErrorCode::TimedOut)
            .await;
        let site = server.url(path);
        let said = format!("'{site}' did not answer within 1 s and is no longer waited for");
        assert!(told.contains(&said), "{told}");
        assert!(told.contains("larger `timeout_secs`"), "{told}");
        let here = json!({"action": "eval", "expression": "document.cookie"});
        let here = browser(&workspace, here).await;
        assert_eq!(here["value"], "login=ada");
        assert_eq!(
            (&here["url"], &here["title"]),
            (&second["url"], &second["title"])
        );
    }
    page(&server, "/", "<title>Again</title>");
    navigate(&workspace, &server, "/").await;
    let asked = server.seen();
    let asked = asked.iter().rfind(|head| head.starts_with("GET / "));
    assert!(asked.unwrap().contains("login=ada"), "{asked:?}");
    workspace.store.close().await;
}

/// A server and a session at a page of it; the server says nothing at `/never`.
async fn beside_a_silent_server(path: &str, html: &str) -> Option<(Workspace, Server)> {
    let (workspace, server) = open().await?;
    server.on("/never", Reply::silent());
    page(&server, path, html);
    navigate(&workspace, &server, path).await;
    Some((workspace, server))
}

#[tokio::test]
async fn a_page_that_never_stops_loading_is_told_as_such_and_used() {
    let first = "<title>First</title>";
    let Some((workspace, server)) = beside_a_silent_server("/", first).await else {
        return;
    };
    let part = "<title>Part</title><button onclick=\"document.title += ' pressed'\">Press</button>";
    page(
        &server,
        "/script",
        &format!("{part}<script src=/never></script>"),
    );
    page(&server, "/picture", &format!("{part}<img src=/never>"));
    let body = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{part}");
    server.on("/body", Reply::Stuck(body.into_bytes()));
    for path in ["/script", "/picture", "/body"] {
        let mut go = json!({"action": "navigate", "url": server.url(path)});
        // On a busy machine even the first part may take its time.
        let mut seconds = [1, 10, 100].into_iter();
        let opened = loop {
            go["timeout_secs"] = seconds.next().expect(path).into();
            match workspace.call("browser", go.clone()).await {
                Ok(opened) => break opened,
                Err(error) => assert_eq!(error.code, ToolErrorCode::TimedOut, "{error:?}"),
            }
        };
        assert_eq!(opened["note"], "the page is still loading", "{opened}");
        assert_eq!(opened["url"], server.url(path), "{opened}");
        shows(&workspace, "Press").await;
        let press = json!({"action": "click", "selector": "button", "timeout_secs": 1});
        let pressed = workspace.ok("browser", press).await;
        assert_eq!(
            (&pressed["title"], &pressed["note"]),
            (&json!("Part pressed"), &json!("the page is still loading"))
        );

        // Nor does it hide that another server says nothing.
        let go = json!({"action": "navigate", "url": server.url("/never"), "timeout_secs": 1});
        let told = workspace
            .error("browser", go, ToolErrorCode::TimedOut)
            .await;
        assert!(told.contains("is no longer waited for"), "{told}");
        let first = navigate(&workspace, &server, "/").await;
        assert_eq!(first["title"], "First");
        assert!(first.get("note").is_none(), "{first}");
    }
    workspace.store.close().await;
}

#[tokio::test]
async fn a_page_that_a_script_writes_anew_is_not_waited_for() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    let write = "document.write('<title>New</title>')";
    page(
        &server,
        "/",
        &format!("<title>Old</title><button onclick=\"{write}\">Write"),
    );
    navigate(&workspace, &server, "/").await;
    let click = json!({"action": "click", "selector": "button"});
    let written = browser(&workspace, click).await;
    assert_eq!(written["title"], "New");
    assert!(written.get("note").is_none(), "{written}");
    // It was not closed, and so is said to be loading as long as it is there.
    let state = json!({"action": "eval", "expression": "document.readyState"});
    let state = browser(&workspace, state).await;
    assert_eq!(state["value"], "loading");
    assert!(state.get("note").is_none(), "{state}");
    workspace.store.close().await;
}

#[tokio::test]
async fn a_silent_server_that_is_asked_late_costs_no_browser_either() {
    // Busy until the call has no time left.
    let late = "const end = Date.now() + 1500; while (Date.now() < end); location = '/never'";
    let html = format!("<title>Busy</title><button onclick=\"{late}\">Go</button>");
    let Some((workspace, server)) = beside_a_silent_server("/", &html).await else {
        return;
    };
    let click = json!({"action": "click", "selector": "button", "timeout_secs": 1});
    let told = workspace
        .error("browser", click, ToolErrorCode::TimedOut)
        .await;
    let said = format!("'{}' did not answer", server.url("/never"));
    assert!(told.contains(&said), "{told}");
    assert!(told.contains("is no longer waited for"), "{told}");
    assert!(snapshot(&workspace).await.contains("- page \"Busy\""));
    workspace.store.close().await;
}

#[tokio::test]
async fn what_a_call_touches_is_said_and_what_it_lacks_is_told() {
    let workspace = Workspace::new();
    let tool = workspace.tools.get("browser").unwrap();
    let reach = tool.actions(&json!({"action": "navigate", "url": "https://a.example/"}));
    let host = "a.example:443".to_owned();
    assert_eq!(reach, [Action::Reach { host }]);
    let file = tool.actions(&json!({"action": "screenshot", "output_path": "a.png"}));
    assert_eq!(
        file,
        [Action::Write {
            path: "a.png".into()
        }]
    );
    let click = tool.actions(&json!({"action": "click", "ref": "e1"}));
    assert_eq!(click, [Action::Other { mutating: true }]);
    for (arguments, why) in [
        (json!({"action": "navigate"}), "needs `url`"),
        (json!({"action": "click"}), "needs `ref` or `selector`"),
        (json!({"action": "type", "ref": "e1"}), "needs `text`"),
        (json!({"action": "press", "key": "Entr"}), "is not a key"),
        (json!({"action": "eval"}), "needs `expression`"),
        (
            json!({"action": "click", "ref": "e1", "output_path": "x"}),
            "is for `screenshot`",
        ),
        (json!({"action": "snapshot"}), "no page is open"),
    ] {
        let told = workspace.failure("browser", arguments).await;
        assert!(told.contains(why), "{told}");
    }
    let url = json!({"action": "navigate", "url": "https://a.example/"});
    workspace
        .error("browser", url, ToolErrorCode::PolicyDenied)
        .await;

    let policy = PolicySettings::default();
    let environment = [("PATH".into(), "/nowhere".into())].into();
    let facts = HarnessFacts {
        policy: &policy,
        environment: &environment,
        attended: true,
        skills: true,
        samples_processes: true,
    };
    let reason = tool.unavailable(&facts).unwrap();
    assert!(
        reason.contains("install the package `chromium`"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_policy_that_requires_a_sandbox_has_no_browser_without_one() {
    if !crate::support::is_root() {
        return crate::support::skipped("root, for whom Chromium has no sandbox");
    }
    let required = PolicySettings {
        sandbox: SandboxMode::Require,
        ..PolicySettings::default()
    };
    let (_programs, workspace, navigate) = with_script(SILENT, required);
    let told = workspace.failure("browser", navigate).await;
    assert!(told.contains("policy.sandbox = \"require\""), "{told}");
    assert!(told.contains("as a plain user"), "{told}");
}

/// A browser that never says anything.
const SILENT: &str = "#!/bin/bash\ncat <&3\n";

/// A browser that starts, and does not say whether it went to a page, or that
/// it no longer does.
const STUCK: &str = r#"#!/bin/bash
page='{"sessionId": "p", "targetInfo": {"type": "page", "targetId": "t"}}'
while IFS= read -r -d '' message <&3; do
    id=${message#*'"id":'}
    case $message in
        *Target.setAutoAttach*)
            printf '{"method": "Target.attachedToTarget", "params": %s}\0' "$page" >&4
            printf '{"id": %s}\0' "${id%%,*}" >&4 ;;
        *Page.navigate*)
            printf '{"method": "Page.frameStartedNavigating", "sessionId": "p", "params": %s}\0' \
                '{"frameId": "t", "url": "http://127.0.0.1:1/"}' >&4
            : >"$TMPDIR/asked" ;;
        *Page.stopLoading*) ;;
        *) printf '{"id": %s}\0' "${id%%,*}" >&4 ;;
    esac
done
"#;

/// A session with a script for a browser, and the call that starts it.
fn with_script(script: &str, settings: PolicySettings) -> (tempfile::TempDir, Workspace, Value) {
    let programs = tempfile::tempdir().unwrap();
    let program = programs.path().join("chromium");
    write_program(&program, script);
    let settings = PolicySettings {
        network: NetworkSwitch::On,
        allowed_loopback: vec![("127.0.0.1".to_owned(), Some(1))],
        ..settings
    };
    let workspace = Workspace::with_programs(settings, programs.path());
    let navigate = json!({"action": "navigate", "url": "http://127.0.0.1:1/"});
    (programs, workspace, navigate)
}

/// The message of a call that runs out of time; fails if it takes much longer.
async fn timed_out(workspace: &Workspace, call: Value) -> String {
    let call = workspace.error("browser", call, ToolErrorCode::TimedOut);
    let ages = Duration::from_secs(100_000);
    tokio::time::timeout(ages, call).await.expect("a limit")
}

#[tokio::test(start_paused = true)]
async fn a_browser_that_does_not_start_is_ended() {
    let (_programs, workspace, navigate) = with_script(SILENT, PolicySettings::default());
    let started = tokio::time::Instant::now();
    let told = timed_out(&workspace, navigate).await;
    assert!(told.contains("did not start within"), "{told}");
    let limit = Duration::from_secs(BROWSER_START_SECS);
    assert!(started.elapsed() >= limit);
    assert!(started.elapsed() < limit + Duration::from_secs(1));
    crate::support::eventually("it is gone", || processes_in(&workspace) == 0).await;
}

#[tokio::test]
async fn a_browser_that_does_not_answer_is_ended_after_its_grace() {
    for secs in [None, Some(BROWSER_CALL_MAX_SECS)] {
        let (_programs, workspace, mut navigate) = with_script(STUCK, PolicySettings::default());
        if let Some(secs) = secs {
            navigate["timeout_secs"] = secs.into();
        }
        let asked = workspace.store.scratch().path().join("asked");
        let started = tokio::time::Instant::now();
        // Once it was asked only the clock goes on, so it may go fast.
        let pausing = async {
            crate::support::eventually("it is asked", || asked.exists()).await;
            tokio::time::pause();
            tokio::time::Instant::now()
        };
        let (told, paused) = tokio::join!(timed_out(&workspace, navigate), pausing);
        let limit = secs.unwrap_or(BROWSER_CALL_SECS) + BROWSER_GRACE_SECS;
        let told_limit = format!("did not answer within {limit} s and was ended");
        assert!(told.contains(&told_limit), "{told}");
        let limit = Duration::from_secs(limit);
        assert!(started.elapsed() >= limit);
        assert!(paused.elapsed() < limit + Duration::from_secs(1));
        tokio::time::resume();
        crate::support::eventually("it is gone", || processes_in(&workspace) == 0).await;
    }
}

#[tokio::test]
async fn a_call_says_how_long_it_may_take() {
    let workspace = Workspace::new();
    let schema = workspace.tools.get("browser").unwrap().spec().input_schema;
    let secs = &schema["properties"]["timeout_secs"];
    assert_eq!(
        (&secs["default"], &secs["maximum"]),
        (&json!(BROWSER_CALL_SECS), &json!(BROWSER_CALL_MAX_SECS))
    );
    for secs in [0, BROWSER_CALL_MAX_SECS + 1] {
        let call = json!({"action": "close", "timeout_secs": secs});
        workspace
            .error("browser", call, ToolErrorCode::InvalidArguments)
            .await;
    }
    let most = json!({"action": "close", "timeout_secs": BROWSER_CALL_MAX_SECS});
    assert_eq!(
        workspace.ok("browser", most).await,
        json!({"closed": false})
    );
}

/// The same for a plain user, as whom Chromium has its own sandbox. Runs where
/// this suite itself runs as root.
#[test]
fn everything_holds_for_nobody() {
    if !crate::support::is_root() {
        return crate::support::skipped("root, to run as another user");
    }
    // Where the tests are built may be closed to that user.
    let open = tempfile::tempdir().unwrap();
    let everyone = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(open.path(), everyone(0o755)).unwrap();
    let tests = open.path().join("it");
    std::fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    std::fs::set_permissions(&tests, everyone(0o755)).unwrap();
    let as_nobody = |arguments: &[&str]| {
        std::process::Command::new("setpriv")
            .args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"])
            .arg(&tests)
            .args(arguments)
            .env("TMPDIR", "/tmp")
            .env("HOME", "/tmp")
            .current_dir("/")
            .output()
    };
    // The tests must be there for that user to run at all.
    let reachable = as_nobody(&["--list"]);
    if !reachable.is_ok_and(|output| output.status.success()) {
        return crate::support::skipped("setpriv, and a temporary directory that `nobody` reaches");
    }
    let output = as_nobody(&["browser::", "browser_fields::", "--test-threads", "2"]).unwrap();
    let told = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    let told = told.concat();
    for line in told
        .lines()
        .filter_map(|line| line.strip_prefix("skipped: needs "))
    {
        crate::support::skipped(line);
    }
    assert!(output.status.success(), "{told}");
}
