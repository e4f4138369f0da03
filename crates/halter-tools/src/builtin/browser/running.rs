//! The browser of a session: started by the first call that needs one, ended by
//! `close`, by the end of the session, or when it does not answer.

use super::connection::Connection;
use super::launch::{Chromium, OwnSandbox, find};
use super::remote;
use super::view::BrowserView;
use crate::context::ToolContext;
use crate::limits::BROWSER_START_SECS;
use crate::network::{Connector, FilteringProxy};
use crate::session::ToolSessionState;
use crate::web::{RemoteBrowser, Tls};
use anyhow::{Context as _, anyhow, bail};
use async_trait::async_trait;
use halter_policy::{HostRefusal, SandboxMode};
use halter_protocol::{ToolError, ToolErrorCode};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use url::Url;

pub(super) const MISSING: &str = "no Chromium is installed; install the package `chromium`";

/// What Chromium says where it cannot have its own sandbox.
const NO_SANDBOX_WORDS: &str = "No usable sandbox";

/// Why a policy that requires a sandbox refuses a browser.
const UNSANDBOXED: &str =
    "policy.sandbox = \"require\", and Chromium would run without its sandbox";

/// Whether a document has loaded. One that a script writes anew after that says
/// that it loads as long as the script does not close it, which few do.
const WHOLE: &str = "document.readyState === 'complete' || performance.timing.loadEventEnd > 0";

/// How long a document that still loads is left alone.
const NEXT_LOOK: Duration = Duration::from_millis(50);

/// What a session keeps of its browser.
#[derive(Default)]
pub(super) struct BrowserState(pub(super) Mutex<Option<Running>>);

#[async_trait]
impl ToolSessionState for BrowserState {
    async fn close(&self) {
        self.0.lock().await.take();
    }
}

/// A browser that runs.
pub(super) struct Running {
    // Dropped in this order: the process last, with all it started.
    connection: Connection,
    pub(super) view: Arc<BrowserView>,
    /// Its way out, if it is one of the session's own.
    proxy: Option<FilteringProxy>,
    /// What the last snapshot called elements, and how the browser does.
    pub(super) refs: HashMap<String, i64>,
    /// What a model should know of how it runs; told once.
    pub(super) note: Option<&'static str>,
    chromium: Option<Chromium>,
}

impl Running {
    /// Starts a browser.
    pub(super) async fn start(context: &ToolContext) -> anyhow::Result<Self> {
        let program = find(context.tool_sessions.base_environment()).context(MISSING)?;
        let required = context.policy.sandbox_mode() == SandboxMode::Require;
        if rustix::process::geteuid().is_root() {
            if required {
                bail!("{UNSANDBOXED}: it has none for root; run the harness as a plain user");
            }
            let mut running = Self::start_with(context, &program, OwnSandbox::Off).await?;
            running.note = Some(
                "Chromium runs without its own sandbox, which it does not have for root; run the \
                 harness as a plain user to have it",
            );
            return Ok(running);
        }
        match Self::start_with(context, &program, OwnSandbox::Kept).await {
            Err(error) if error.to_string().contains(NO_SANDBOX_WORDS) => {
                if required {
                    bail!(
                        "{UNSANDBOXED}: the system grants it none; install the package \
                         `chromium-sandbox`, or let users make user namespaces"
                    );
                }
                let mut running = Self::start_with(context, &program, OwnSandbox::Off).await?;
                running.note = Some(
                    "Chromium runs without its own sandbox: the system grants it none (neither \
                     user namespaces nor the package `chromium-sandbox`)",
                );
                Ok(running)
            }
            started => started,
        }
    }

    async fn start_with(
        context: &ToolContext,
        program: &Path,
        sandbox: OwnSandbox,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port for the proxy")?;
        let port = listener.local_addr()?.port();
        let proxy = FilteringProxy::start_for_own_user(listener, connector(context))?;
        let (chromium, out, incoming) = Chromium::start(context, program, port, sandbox).await?;
        let view = Arc::new(BrowserView::default());
        let connection = Connection::open(Arc::new(out), incoming, Arc::clone(&view));
        let running = Self {
            connection,
            view,
            proxy: Some(proxy),
            refs: HashMap::new(),
            note: None,
            chromium: Some(chromium),
        };
        let limit = Duration::from_secs(BROWSER_START_SECS);
        match tokio::time::timeout(limit, running.prepare(None)).await {
            Ok(Ok(())) => Ok(running),
            Ok(Err(error)) => Err(running.explained(program, error).await),
            Err(_) => {
                let message = format!(
                    "'{}' did not start within {BROWSER_START_SECS} s and was ended",
                    program.display()
                );
                Err(ToolError::new(ToolErrorCode::TimedOut, message).into())
            }
        }
    }

    /// Connects to a browser elsewhere, with a profile there that ends with the
    /// connection.
    pub(super) async fn connect(
        context: &ToolContext,
        tls: &Tls,
        browser: &RemoteBrowser,
    ) -> anyhow::Result<Self> {
        let connecting = async {
            let (out, incoming) = remote::connect(context, tls, browser).await?;
            let view = Arc::new(BrowserView::default());
            let connection = Connection::open(Arc::new(out), incoming, Arc::clone(&view));
            let running = Self {
                connection,
                view,
                proxy: None,
                refs: HashMap::new(),
                note: Some(
                    "this browser runs elsewhere: what its pages load beyond the address of \
                     `navigate` is not held to the network policy",
                ),
                chromium: None,
            };
            let own = json!({ "disposeOnDetach": true });
            let made = running.browser("Target.createBrowserContext", own).await?;
            let profile = made.get("browserContextId").and_then(Value::as_str);
            let profile = profile.context("the browser makes no profile")?.to_owned();
            running.view.show_only(&profile);
            running.prepare(Some(&profile)).await?;
            anyhow::Ok(running)
        };
        let limit = Duration::from_secs(BROWSER_START_SECS);
        tokio::time::timeout(limit, connecting)
            .await
            .unwrap_or_else(|_| {
                let message =
                    format!("the browser elsewhere did not answer within {BROWSER_START_SECS} s");
                Err(ToolError::new(ToolErrorCode::TimedOut, message).into())
            })
    }

    /// Sets a browser up. One that others use, too, gets a page of ours.
    async fn prepare(&self, profile: Option<&str>) -> anyhow::Result<()> {
        let mut deny = json!({ "behavior": "deny" });
        if let (Some(profile), Some(fields)) = (profile, deny.as_object_mut()) {
            fields.insert("browserContextId".into(), profile.into());
        }
        self.browser("Browser.setDownloadBehavior", deny).await?;
        let attach = json!({
            "autoAttach": true,
            "waitForDebuggerOnStart": true,
            "flatten": true,
        });
        self.browser("Target.setAutoAttach", attach).await?;
        if let Some(profile) = profile {
            let page = json!({ "url": "about:blank", "browserContextId": profile });
            self.browser("Target.createTarget", page).await?;
        }
        self.view.first_page().await;
        // Else the end of its loading could be taken for that of the next page.
        self.loaded().await;
        match self.view.has_ended() {
            true => bail!("it has ended"),
            false => Ok(()),
        }
    }

    /// The error of a start, with what the program said.
    async fn explained(&self, program: &Path, error: anyhow::Error) -> anyhow::Error {
        let words = match &self.chromium {
            Some(chromium) => {
                let words = chromium.last_words();
                let words = tokio::time::timeout(Duration::from_secs(5), words).await;
                words.unwrap_or_default()
            }
            None => String::new(),
        };
        let lines: Vec<&str> = words.lines().rev().take(5).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        anyhow!(
            "'{}' does not start: {error:#}\n{}",
            program.display(),
            lines.join("\n")
        )
    }

    /// Waits until the page that is looked at has loaded. That the one before it
    /// stopped loading may be told after it has started, so it is asked, too.
    pub(super) async fn loaded(&self) {
        let whole = json!({ "expression": WHOLE, "returnByValue": true });
        loop {
            self.view.loaded().await;
            let answer = self.page("Runtime.evaluate", whole.clone()).await;
            let value = answer
                .as_ref()
                .ok()
                .and_then(|it| it.pointer("/result/value"));
            if value != Some(&json!(false)) {
                return;
            }
            tokio::time::sleep(NEXT_LOOK).await;
        }
    }

    /// Lets pages reach what a call was let through to.
    pub(super) fn open_network(&self, context: &ToolContext) {
        if let Some(proxy) = &self.proxy {
            proxy.connect_by(connector(context));
        }
    }

    /// A page is about to ask for an address: what was refused there before
    /// says nothing of it.
    pub(super) fn expect_request(&self, url: &Url, host: &str) {
        self.view.expect_request(url);
        if let Some(proxy) = &self.proxy {
            drop(proxy.refusals().take_where(|refusal| refusal.host == host));
        }
    }

    /// Takes what its pages were refused. The browser also asks for hosts of its
    /// own accord, which says nothing of the pages. A page may be refused before
    /// its request is told, so what no page is known to have asked for stays.
    pub(super) fn take_refusals(&self) -> Vec<HostRefusal> {
        let Some(proxy) = &self.proxy else {
            return Vec::new();
        };
        let by_a_page = |refusal: &HostRefusal| self.view.has_requested(&refusal.host);
        proxy.refusals().take_where(by_a_page)
    }

    /// A command to the browser itself.
    pub(super) async fn browser(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.connection.call(None, method, params).await
    }

    /// A command to the page that is looked at.
    pub(super) async fn page(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        let page = self.view.page();
        let page = page.context("no page is open; navigate to one")?;
        self.connection.call(Some(&page), method, params).await
    }

    /// The same, for a question; if the page closes meanwhile, it goes to the
    /// one that is looked at then.
    pub(super) async fn ask(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        loop {
            let page = self.view.page();
            let answer = self.page(method, params.clone()).await;
            let is_gone = page.is_some_and(|page| !self.view.has_page(&page));
            if answer.is_ok() || !is_gone || self.view.has_ended() {
                return answer;
            }
        }
    }

    /// What a person does to the page that is looked at. A page that closes
    /// over it has taken it.
    pub(super) async fn input(&self, method: &str, params: Value) -> anyhow::Result<()> {
        let page = self.view.page();
        let done = self.page(method, params).await;
        let is_gone = page.is_some_and(|page| !self.view.has_page(&page));
        match done {
            Err(_) if is_gone && !self.view.has_ended() => Ok(()),
            done => done.map(|_| ()),
        }
    }
}

fn connector(context: &ToolContext) -> Connector {
    let resolver = Arc::clone(context.tool_sessions.resolver());
    Connector::with_resolver(context.policy.network(), resolver)
}
