//! `web_search`, against a server on loopback that speaks each format.

use crate::support::Workspace;
use crate::web_server::{Reply, Server};
use async_trait::async_trait;
use halter_protocol::{Action, ToolCall, ToolErrorCode};
use halter_tools::limits::{
    WEB_SEARCH_BYTES, WEB_SEARCH_DEFAULT_RESULTS, WEB_SEARCH_QUERY_CHARS, WEB_SEARCH_RESULTS,
    WEB_SEARCH_SECS, WEB_SEARCH_SNIPPET_CHARS,
};
use halter_tools::web::{SearchHit, SearchQuery, WebSearch};
use halter_tools::{
    HarnessFacts, PolicySettings, ToolContext, ToolRuntime, WebSettings, builtin_tools_with,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const KEY: &str = "brave-secret-key";

fn searching(server: &Server, web: WebSettings) -> Workspace {
    let mut workspace = Workspace::with_settings(server.reachable());
    workspace.tools = ToolRuntime::with_tools(builtin_tools_with(&web));
    workspace
}

fn searxng(server: &Server) -> Workspace {
    let web = WebSettings::new().with_searxng(&server.url("/sx/"));
    searching(server, web.unwrap())
}

fn brave(server: &Server) -> Workspace {
    let web = WebSettings::new().with_brave(KEY, Some(&server.url("/brave")));
    searching(server, web.unwrap())
}

#[tokio::test]
async fn searxng_is_asked_in_its_format() {
    let server = Server::start().await;
    let workspace = searxng(&server);
    let found = json!({"query": "door", "results": [
        {"url": "https://a.test/", "title": "A <b>door</b>", "content": "It is\n open &amp; wide", "engine": "x"},
        {"url": "https://b.test/", "title": null, "content": null},
        {"url": "https://c.test/", "title": "C"},
    ]});
    server.on(
        "/sx/search?q=open+door%3F&format=json",
        Reply::ok("application/json", found.to_string()),
    );
    let arguments = json!({"query": "open door?", "max_results": 2});
    let result = workspace.ok("web_search", arguments).await;
    assert_eq!(
        result,
        json!({"results": [
            {"title": "A door", "url": "https://a.test/", "snippet": "It is open & wide"},
            {"title": "", "url": "https://b.test/", "snippet": ""},
        ]})
    );
}

#[tokio::test]
async fn brave_is_asked_in_its_format_and_its_key_goes_nowhere_else() {
    let server = Server::start().await;
    let workspace = brave(&server);
    let found = json!({"type": "search", "web": {"results": [
        {"url": "https://a.test/", "title": "A", "description": "the <strong>door</strong>"},
    ]}});
    let path = "/brave?q=door&count=10";
    server.on(path, Reply::ok("application/json", found.to_string()));
    let result = workspace.ok("web_search", json!({"query": "door"})).await;
    assert_eq!(result["results"][0]["snippet"], "the door");
    let head = server.seen().remove(0);
    assert!(
        head.contains(&format!("x-subscription-token: {KEY}\r\n")),
        "{head}"
    );

    server.on(path, Reply::ok("application/json", "{}"));
    let none = workspace.ok("web_search", json!({"query": "door"})).await;
    assert_eq!(none, json!({"results": []}));

    // A redirect would take the key along.
    let other = Server::start().await;
    server.on(path, Reply::redirect(&other.url("/")));
    let moved = workspace
        .failure("web_search", json!({"query": "door"}))
        .await;
    assert!(moved.contains("leads on"), "{moved}");
    assert!(other.seen().is_empty());
    server.on(path, Reply::with("401 Unauthorized", &[], KEY));
    let refused = workspace
        .failure("web_search", json!({"query": "door"}))
        .await;
    assert!(refused.contains("BRAVE_API_KEY"), "{refused}");
    for message in [
        moved,
        refused,
        format!("{:?}", WebSettings::new().with_brave(KEY, None)),
    ] {
        assert!(!message.contains(KEY), "{message}");
    }
    let odd = WebSettings::new()
        .with_brave("brave\nkey", None)
        .unwrap_err();
    assert!(!odd.to_string().contains("brave"), "{odd}");
}

#[tokio::test]
async fn answers_that_are_none_are_told_with_what_to_do() {
    let server = Server::start().await;
    let workspace = searxng(&server);
    let path = "/sx/search?q=x&format=json";
    let search = || workspace.failure("web_search", json!({"query": "x"}));
    server.on(path, Reply::with("403 Forbidden", &[], ""));
    assert!(search().await.contains("search.formats"));
    server.on(path, Reply::with("429 Too Many Requests", &[], ""));
    assert!(search().await.contains("try again later"));
    server.on(path, Reply::ok("text/html", "<html>"));
    assert!(search().await.contains("something else than its format"));
    server.on(
        path,
        Reply::endless("application/json", &" ".repeat(65_536)),
    );
    assert!(search().await.contains("with more than"));
}

#[tokio::test]
async fn what_is_asked_and_returned_is_bounded() {
    let server = Server::start().await;
    let workspace = searxng(&server);
    let hit = json!({"url": "https://a.test/", "title": "t", "content": "é".repeat(10_000)});
    let found = json!({ "results": vec![hit; 100] });
    server.on(
        "/sx/search?q=x&format=json",
        Reply::ok("application/json", found.to_string()),
    );
    let unsaid = workspace.ok("web_search", json!({"query": "x"})).await;
    let unsaid = unsaid["results"].as_array().unwrap().len();
    assert_eq!(unsaid, WEB_SEARCH_DEFAULT_RESULTS);
    let most = json!({"query": "x", "max_results": WEB_SEARCH_RESULTS});
    let result = workspace.ok("web_search", most).await;
    let results = result["results"].as_array().unwrap();
    assert_eq!(results.len(), WEB_SEARCH_RESULTS);
    let snippet = results[0]["snippet"].as_str().unwrap();
    assert_eq!(snippet.chars().count(), WEB_SEARCH_SNIPPET_CHARS);
    for arguments in [
        json!({"query": "x", "max_results": WEB_SEARCH_RESULTS + 1}),
        json!({"query": "x".repeat(WEB_SEARCH_QUERY_CHARS + 1)}),
        json!({"query": ""}),
    ] {
        workspace
            .error("web_search", arguments, ToolErrorCode::InvalidArguments)
            .await;
    }
}

#[tokio::test]
async fn an_answer_of_a_service_has_its_bound() {
    let server = Server::start().await;
    let workspace = searxng(&server);
    let path = "/sx/search?q=x&format=json";
    let mut answer = json!({"results": []}).to_string();
    answer.push_str(&" ".repeat(WEB_SEARCH_BYTES - answer.len()));
    server.on(path, Reply::ok("application/json", &answer));
    let whole = workspace.ok("web_search", json!({"query": "x"})).await;
    assert_eq!(whole, json!({"results": []}));
    answer.push(' ');
    server.on(path, Reply::ok("application/json", &answer));
    let refused = workspace.failure("web_search", json!({"query": "x"})).await;
    let why = format!("answered with more than {WEB_SEARCH_BYTES} bytes");
    assert!(refused.contains(&why), "{refused}");
}

#[tokio::test]
async fn a_service_that_never_answers_is_given_up() {
    let server = Server::start().await;
    let workspace = searxng(&server);
    let path = "/sx/search?q=x&format=json";
    server.on(path, Reply::stuck("application/json"));
    let query = json!({"query": "x"});
    let call = workspace.error("web_search", query, ToolErrorCode::TimedOut);
    let time = Duration::from_secs(WEB_SEARCH_SECS);
    let late = server.waits_for(time, call).await;
    assert!(
        late.contains(&format!("within {WEB_SEARCH_SECS} s")),
        "{late}"
    );
}

#[tokio::test]
async fn the_policy_decides_about_the_service_and_a_cancel_ends_the_wait() {
    let server = Server::start().await;
    let mut workspace = searxng(&server);
    let tool = workspace.tools.get("web_search").unwrap();
    let host = server.address.to_string();
    assert_eq!(
        tool.actions(&json!({"query": "x"})),
        [Action::Reach { host }]
    );
    server.on(
        "/sx/search?q=x&format=json",
        Reply::stuck("application/json"),
    );
    let call = ToolCall {
        id: "call".into(),
        name: "web_search".into(),
        arguments: json!({"query": "x"}),
    };
    let running = workspace.tools.execute(&call, workspace.context());
    let cancelling = async {
        server.asked().await;
        workspace.cancel.cancel();
    };
    let (ended, ()) = tokio::join!(running, cancelling);
    assert_eq!(ended.unwrap_err().code, ToolErrorCode::Cancelled);

    let tools = workspace.tools.clone();
    workspace = Workspace::new();
    workspace.tools = tools;
    workspace
        .error(
            "web_search",
            json!({"query": "x"}),
            ToolErrorCode::PolicyDenied,
        )
        .await;
    assert_eq!(server.seen().len(), 1);
}

/// A service of an embedder.
struct Library;

#[async_trait]
impl WebSearch for Library {
    async fn search(&self, _: &ToolContext, query: &SearchQuery) -> anyhow::Result<Vec<SearchHit>> {
        Ok(vec![SearchHit {
            title: query.text.clone(),
            url: "book:1".into(),
            snippet: "on the shelf".into(),
        }])
    }
}

#[tokio::test]
async fn a_service_of_ones_own_takes_the_place() {
    let workspace = {
        let mut workspace = Workspace::new();
        let web = WebSettings::new().with_search(Arc::new(Library));
        workspace.tools = ToolRuntime::with_tools(builtin_tools_with(&web));
        workspace
    };
    let result = workspace.ok("web_search", json!({"query": "doors"})).await;
    assert_eq!(result["results"][0]["title"], "doors");
}

#[test]
fn it_is_of_no_use_until_it_is_configured() {
    let environment = Default::default();
    let policy = PolicySettings::default();
    let facts = HarnessFacts {
        policy: &policy,
        environment: &environment,
        attended: false,
        skills: true,
        samples_processes: true,
    };
    let reason = |web: WebSettings| {
        let tools = ToolRuntime::with_tools(builtin_tools_with(&web));
        tools.get("web_search").unwrap().unavailable(&facts)
    };
    let none = reason(WebSettings::new()).unwrap();
    assert!(none.contains("set tools.web_search.provider"), "{none}");
    let missing = reason(WebSettings::new().without_search("no key"));
    assert_eq!(missing.as_deref(), Some("no key"));
    let off = reason(WebSettings::new().with_searxng("http://a.test").unwrap());
    assert!(off.unwrap().starts_with("the network is off"));
    assert_eq!(
        reason(WebSettings::new().with_search(Arc::new(Library))),
        None
    );
}

#[tokio::test]
async fn without_a_service_a_call_says_what_to_set() {
    let failed = Workspace::new()
        .failure("web_search", json!({"query": "x"}))
        .await;
    assert!(failed.contains("tools.web_search.provider"), "{failed}");
}
