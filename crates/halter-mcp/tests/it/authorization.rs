//! An MCP server that a real authorization server protects, and the browser of
//! its user.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use url::Url;

/// The two servers, until it is dropped.
pub struct Protected {
    pub url: String,
    _node: Child,
}

impl Protected {
    /// Starts them; `None` where they are not installed.
    pub async fn start() -> Option<Self> {
        let Some(npm) = std::env::var_os("HALTER_MCP_NPM").map(PathBuf::from) else {
            println!("skipped: needs HALTER_MCP_NPM, which .ci/run sets");
            return None;
        };
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../halter-mcp/tests/npm/authorization.mjs"
        );
        let mut node = Command::new(npm.join("node_modules/.bin/node"))
            .arg(script)
            .arg(&npm)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
        let url = loop {
            let line = lines.next_line().await.unwrap().expect("its address");
            if line.starts_with("http://") {
                break line;
            }
        };
        Some(Self { url, _node: node })
    }

    /// Has them behave otherwise.
    pub async fn change(&self, change: Value) {
        let url = self.url.replace("/mcp", "/admin");
        let client = crate::http_fixture::client().unwrap();
        let told = client.post(url).body(change.to_string()).send().await;
        assert!(told.unwrap().status().is_success(), "{change}");
    }

    /// Access tokens count no more, and what renews them does.
    pub async fn forget_tokens(&self) {
        self.change(json!({"forget": true})).await;
    }
}

/// Opens a page as a browser does, and returns the address with the path
/// `until`, where it is sent in the end.
pub async fn browse(page: &Url, until: &str) -> String {
    let client = crate::http_fixture::client().unwrap();
    let mut cookies: BTreeMap<String, String> = BTreeMap::new();
    let mut page = page.clone();
    for _ in 0..20 {
        let pairs = cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let sent = client
            .get(page.clone())
            .header("cookie", pairs.collect::<Vec<_>>().join("; "))
            .send();
        let answer = sent.await.unwrap();
        for cookie in answer.headers().get_all("set-cookie") {
            let cookie = cookie.to_str().unwrap();
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            cookies.insert(name.to_owned(), value.to_owned());
        }
        let Some(location) = answer.headers().get("location") else {
            panic!(
                "{page}: {} {}",
                answer.status(),
                answer.text().await.unwrap()
            );
        };
        page = page.join(location.to_str().unwrap()).unwrap();
        if page.path() == until {
            return page.into();
        }
    }
    panic!("the browser is sent around in circles: {page}");
}
