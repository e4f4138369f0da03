//! What is known of a browser from its events: its pages, whether they load,
//! what they wrote to their consoles, and the dialogs they opened.

use crate::limits::{BROWSER_CONSOLE_CHARS, BROWSER_CONSOLE_LINES, BROWSER_HOSTS, BROWSER_TABS};
use halter_policy::{Destination, Host};
use serde_json::{Value, json};
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use url::Url;

/// The state that events describe. Told by the reader of the connection, asked
/// by calls.
#[derive(Default)]
pub(super) struct BrowserView {
    state: Mutex<ViewState>,
    changed: Notify,
}

#[derive(Default)]
struct ViewState {
    /// Open pages, the one that is looked at last.
    pages: Vec<PageView>,
    /// Pages that have not taken in yet what they are to tell.
    opening: Vec<OpeningPage>,
    console: VecDeque<Value>,
    dialogs: Vec<Value>,
    /// How a dialog that asks something is answered.
    dialog_answer: DialogAnswer,
    /// The only profile whose pages are ours, in a browser that others use.
    profile: Option<String>,
    /// Hosts, with ports, that pages asked for.
    requested: HashSet<String>,
    ended: bool,
}

/// One tab.
#[derive(Debug, Clone)]
struct PageView {
    session: String,
    target: String,
    loading: bool,
    /// The address that it goes to, until the server there answers.
    awaited: Option<String>,
}

/// A tab that is being set up.
#[derive(Debug)]
struct OpeningPage {
    page: PageView,
    /// The commands for that which it has not answered.
    unanswered: HashSet<u64>,
}

/// What dialogs are answered with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DialogAnswer {
    pub(super) accept: bool,
    pub(super) text: Option<String>,
}

/// A command that an event calls for.
pub(super) struct Reaction {
    pub(super) page: Option<String>,
    pub(super) method: &'static str,
    pub(super) params: Value,
}

impl Reaction {
    fn new(page: &str, method: &'static str, params: Value) -> Self {
        Self {
            page: Some(page.to_owned()),
            method,
            params,
        }
    }
}

impl BrowserView {
    fn lock(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page that is looked at, if there is one.
    pub(super) fn page(&self) -> Option<String> {
        self.lock().pages.last().map(|page| page.session.clone())
    }

    /// Whether a page is open.
    pub(super) fn has_page(&self, session: &str) -> bool {
        self.lock().pages.iter().any(|page| page.session == session)
    }

    /// The tab of that page, and how many there are.
    pub(super) fn tab(&self) -> (Option<String>, usize) {
        let state = self.lock();
        let last = state.pages.last().map(|page| page.target.clone());
        (last, state.pages.len())
    }

    /// The address that the page which is looked at goes to, while the server
    /// there has not answered.
    pub(super) fn awaited(&self) -> Option<String> {
        self.lock().pages.last()?.awaited.clone()
    }

    /// Leaves pages of other profiles alone from now on.
    pub(super) fn show_only(&self, profile: &str) {
        self.lock().profile = Some(profile.to_owned());
    }

    /// Counts an address as asked for before the browser tells so.
    pub(super) fn expect_request(&self, url: &Url) {
        self.lock().request(url);
    }

    /// Whether a page asked for a host.
    pub(super) fn has_requested(&self, host: &str) -> bool {
        self.lock().requested.contains(host)
    }

    /// Whether the browser is gone.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_waiters();
    }

    /// Says how dialogs are answered from now on, and forgets earlier ones.
    pub(super) fn answer_dialogs(&self, answer: DialogAnswer) {
        let mut state = self.lock();
        state.dialog_answer = answer;
        state.dialogs.clear();
    }

    /// Takes the dialogs since then.
    pub(super) fn take_dialogs(&self) -> Vec<Value> {
        std::mem::take(&mut self.lock().dialogs)
    }

    /// Takes what pages wrote to their consoles.
    pub(super) fn take_console(&self) -> Vec<Value> {
        self.lock().console.drain(..).collect()
    }

    /// Waits until there is a page.
    pub(super) async fn first_page(&self) {
        self.wait(|state| !state.pages.is_empty() || state.ended)
            .await;
    }

    /// Waits until the page that is looked at has loaded.
    pub(super) async fn loaded(&self) {
        let is_loading = |state: &ViewState| {
            !state.opening.is_empty() || state.pages.last().is_some_and(|page| page.loading)
        };
        self.wait(|state| state.ended || !is_loading(state)).await;
    }

    async fn wait(&self, holds: impl Fn(&ViewState) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if holds(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// A command that an event called for is about to be sent to a page.
    pub(super) fn sending(&self, page: Option<&str>, id: u64) {
        let mut state = self.lock();
        let mut opening = state.opening.iter_mut();
        if let Some(opening) = opening.find(|it| Some(it.page.session.as_str()) == page) {
            opening.unanswered.insert(id);
        }
    }

    /// A command was answered. A page that has answered all of its first ones
    /// is looked at: before that it may not tell of what it is made to do.
    pub(super) fn answered(&self, id: u64) {
        let mut state = self.lock();
        let mut opening = state.opening.iter_mut();
        let place = opening.position(|it| it.unanswered.remove(&id) && it.unanswered.is_empty());
        let Some(place) = place else { return };
        let opened = state.opening.remove(place);
        state.pages.push(opened.page);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Takes an event, and says what it calls for.
    pub(super) fn observe(&self, event: &Value) -> Vec<Reaction> {
        let text = |value: &Value, key: &str| {
            let value = value.get(key).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let (method, session) = (text(event, "method"), text(event, "sessionId"));
        let params = event.get("params").unwrap_or(&Value::Null);
        let mut state = self.lock();
        let reactions = match method.as_str() {
            "Target.attachedToTarget" => state.attached(params),
            "Target.detachedFromTarget" => {
                let gone = text(params, "sessionId");
                state.pages.retain(|page| page.session != gone);
                state.opening.retain(|it| it.page.session != gone);
                Vec::new()
            }
            "Page.frameStartedLoading" | "Page.frameStoppedLoading" => {
                let loading = method == "Page.frameStartedLoading";
                state.change_page(&session, &text(params, "frameId"), |page| {
                    page.loading = loading;
                    if !loading {
                        page.awaited = None;
                    }
                });
                Vec::new()
            }
            "Page.frameStartedNavigating" => {
                let within = text(params, "navigationType").ends_with("ameDocument");
                let url = (!within).then(|| text(params, "url"));
                state.change_page(&session, &text(params, "frameId"), |page| {
                    page.awaited = url;
                });
                Vec::new()
            }
            "Page.frameNavigated" => {
                let frame = params.get("frame").unwrap_or(&Value::Null);
                state.change_page(&session, &text(frame, "id"), |page| page.awaited = None);
                Vec::new()
            }
            "Network.requestWillBeSent" | "Network.webSocketCreated" => {
                let asked = params.pointer("/request/url").or_else(|| params.get("url"));
                let asked = asked.and_then(Value::as_str).unwrap_or_default();
                if let Ok(url) = Url::parse(asked) {
                    state.request(&url);
                }
                Vec::new()
            }
            "Page.javascriptDialogOpening" => state.dialog(&session, params),
            "Runtime.consoleAPICalled" => {
                let arguments = params.get("args").and_then(Value::as_array);
                let words = arguments.into_iter().flatten().map(console_word);
                let line = words.collect::<Vec<_>>().join(" ");
                state.write(&text(params, "type"), &line);
                Vec::new()
            }
            "Runtime.exceptionThrown" => {
                let details = params.get("exceptionDetails").unwrap_or(&Value::Null);
                let thrown = details.pointer("/exception/description");
                let line = thrown
                    .or_else(|| details.get("text"))
                    .and_then(Value::as_str);
                state.write("exception", line.unwrap_or_default());
                Vec::new()
            }
            "Log.entryAdded" => {
                let entry = params.get("entry").unwrap_or(&Value::Null);
                let line = format!("{} {}", text(entry, "text"), text(entry, "url"));
                state.write(&text(entry, "level"), line.trim());
                Vec::new()
            }
            _ => Vec::new(),
        };
        drop(state);
        self.changed.notify_waiters();
        reactions
    }
}

/// What a page wrote, as its console would show it.
fn console_word(argument: &Value) -> String {
    match (argument.get("value"), argument.get("description")) {
        (Some(Value::String(text)), _) => text.clone(),
        (Some(value), _) => value.to_string(),
        (None, Some(Value::String(text))) => text.clone(),
        _ => "undefined".to_owned(),
    }
}

impl ViewState {
    /// A tab opened. It waits until it is told to go on, so that nothing is
    /// missed.
    fn attached(&mut self, params: &Value) -> Vec<Reaction> {
        let text = |pointer: &str| {
            let value = params.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let (session, target) = (text("/sessionId"), text("/targetInfo/targetId"));
        let go_on = Reaction::new(&session, "Runtime.runIfWaitingForDebugger", json!({}));
        let profile = text("/targetInfo/browserContextId");
        if self.profile.as_ref().is_some_and(|own| *own != profile) {
            let leave = Reaction {
                page: None,
                method: "Target.detachFromTarget",
                params: json!({ "sessionId": session }),
            };
            return vec![go_on, leave];
        }
        if text("/targetInfo/type") != "page" {
            return vec![go_on];
        }
        if self.pages.len() + self.opening.len() >= BROWSER_TABS {
            let close = Reaction {
                page: None,
                method: "Target.closeTarget",
                params: json!({ "targetId": target }),
            };
            self.write("warning", "a tab was closed at once: too many are open");
            return vec![go_on, close];
        }
        // A page without the focus hears of the focus of its elements with the
        // first key, which may then go elsewhere.
        let focused = json!({ "enabled": true });
        let closed = ["file:*", "chrome:*", "view-source:*", "devtools:*"];
        let reactions = vec![
            Reaction::new(&session, "Page.enable", json!({})),
            Reaction::new(&session, "Runtime.enable", json!({})),
            Reaction::new(&session, "Log.enable", json!({})),
            Reaction::new(&session, "DOM.enable", json!({})),
            Reaction::new(&session, "Accessibility.enable", json!({})),
            Reaction::new(&session, "Network.enable", json!({})),
            Reaction::new(
                &session,
                "Network.setBlockedURLs",
                json!({ "urls": closed }),
            ),
            Reaction::new(&session, "Emulation.setFocusEmulationEnabled", focused),
            go_on,
        ];
        self.opening.push(OpeningPage {
            page: PageView {
                session,
                target,
                loading: false,
                awaited: None,
            },
            unanswered: HashSet::new(),
        });
        reactions
    }

    /// Takes an event of a frame, if it is that of a whole page, which has the
    /// name of its tab.
    fn change_page(&mut self, session: &str, frame: &str, change: impl FnOnce(&mut PageView)) {
        let opening = self.opening.iter_mut().map(|it| &mut it.page);
        let mut pages = self.pages.iter_mut().chain(opening);
        if let Some(page) = pages.find(|it| it.session == session && it.target == frame) {
            change(page);
        }
    }

    /// A page asks for an address.
    fn request(&mut self, url: &Url) {
        let host = url.host_str().and_then(|host| Host::parse(host).ok());
        let Some(host) = host else { return };
        if self.requested.len() >= BROWSER_HOSTS {
            self.requested.clear();
        }
        let port = url.port_or_known_default();
        self.requested
            .insert(Destination { host, port }.to_string());
    }

    /// A page waits for its dialog: it is answered at once.
    fn dialog(&mut self, session: &str, params: &Value) -> Vec<Reaction> {
        let kind = params
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let asks = matches!(kind, "confirm" | "prompt");
        let accept = !asks || self.dialog_answer.accept;
        if self.dialogs.len() < BROWSER_CONSOLE_LINES {
            let message = params.get("message").and_then(Value::as_str);
            let message: String = message
                .unwrap_or_default()
                .chars()
                .take(BROWSER_CONSOLE_CHARS)
                .collect();
            self.dialogs.push(json!({
                "kind": kind,
                "message": message,
                "answer": if accept { "accepted" } else { "dismissed" },
            }));
        }
        let mut answer = json!({ "accept": accept });
        if let (Some(text), Some(fields)) = (&self.dialog_answer.text, answer.as_object_mut())
            && kind == "prompt"
        {
            fields.insert("promptText".into(), text.as_str().into());
        }
        vec![Reaction::new(
            session,
            "Page.handleJavaScriptDialog",
            answer,
        )]
    }

    fn write(&mut self, kind: &str, line: &str) {
        let line: String = line.chars().take(BROWSER_CONSOLE_CHARS).collect();
        if self.console.len() == BROWSER_CONSOLE_LINES {
            self.console.pop_front();
        }
        self.console.push_back(json!({"kind": kind, "text": line}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_tab(view: &BrowserView, number: usize) -> Vec<Reaction> {
        let target = json!({"type": "page", "targetId": format!("tab {number}")});
        let params = json!({"sessionId": format!("page {number}"), "targetInfo": target});
        let opened = json!({"method": "Target.attachedToTarget", "params": params});
        let reactions = view.observe(&opened);
        for (id, reaction) in (0..).zip(&reactions) {
            view.sending(reaction.page.as_deref(), id);
        }
        for id in (0..).take(reactions.len()) {
            view.answered(id);
        }
        reactions
    }

    fn write(view: &BrowserView, line: &str) {
        let params = json!({"type": "log", "args": [{"value": line}]});
        view.observe(&json!({"method": "Runtime.consoleAPICalled", "params": params}));
    }

    #[test]
    fn hosts_are_those_that_pages_asked_for() {
        let view = BrowserView::default();
        let asked = [
            (
                "Network.requestWillBeSent",
                json!({"request": {"url": "https://a.example/x"}}),
            ),
            (
                "Network.webSocketCreated",
                json!({"url": "wss://b.example:8443/s"}),
            ),
            (
                "Network.requestWillBeSent",
                json!({"request": {"url": "data:text/plain,x"}}),
            ),
        ];
        for (method, params) in asked {
            view.observe(&json!({"method": method, "params": params}));
        }
        assert!(view.has_requested("a.example:443"));
        assert!(view.has_requested("b.example:8443"));
        assert!(!view.has_requested("update.example:443"));
        for number in 0..BROWSER_HOSTS {
            let url = format!("https://{number}.example/");
            let params = json!({"request": {"url": url}});
            view.observe(&json!({"method": "Network.requestWillBeSent", "params": params}));
        }
        assert!(!view.has_requested("a.example:443"), "it began anew");
        let last = format!("{}.example:443", BROWSER_HOSTS - 1);
        assert!(view.has_requested(&last));
    }

    #[test]
    fn a_tab_too_many_is_closed_at_once() {
        let view = BrowserView::default();
        for number in 0..BROWSER_TABS {
            let reactions = open_tab(&view, number);
            assert!(reactions.iter().all(|it| it.method != "Target.closeTarget"));
        }
        let last = (Some(format!("tab {}", BROWSER_TABS - 1)), BROWSER_TABS);
        assert_eq!(view.tab(), last);
        let reactions = open_tab(&view, BROWSER_TABS);
        let close = reactions.last().unwrap();
        let target = format!("tab {BROWSER_TABS}");
        assert_eq!(
            (close.method, &close.params),
            ("Target.closeTarget", &json!({ "targetId": target }))
        );
        assert_eq!(view.tab(), last);
        let console = view.take_console();
        assert!(console[0]["text"].as_str().unwrap().contains("too many"));

        let gone = json!({"sessionId": "page 0"});
        view.observe(&json!({"method": "Target.detachedFromTarget", "params": gone}));
        open_tab(&view, BROWSER_TABS + 1);
        assert_eq!(view.tab().0, Some(format!("tab {}", BROWSER_TABS + 1)));
    }

    #[test]
    fn the_last_lines_of_consoles_are_kept() {
        let view = BrowserView::default();
        for number in 0..BROWSER_CONSOLE_LINES + 2 {
            write(&view, &format!("line {number}"));
        }
        let lines = view.take_console();
        assert_eq!(lines.len(), BROWSER_CONSOLE_LINES);
        assert_eq!(lines[0]["text"], "line 2");
        let last = format!("line {}", BROWSER_CONSOLE_LINES + 1);
        assert_eq!(lines.last().unwrap()["text"], last.as_str());
    }

    #[test]
    fn what_pages_say_is_cut_and_every_dialog_is_answered() {
        let view = BrowserView::default();
        let long = "é".repeat(BROWSER_CONSOLE_CHARS + 1);
        let cut = "é".repeat(BROWSER_CONSOLE_CHARS);
        write(&view, &long);
        assert_eq!(view.take_console()[0]["text"], cut.as_str());

        let params = json!({"type": "alert", "message": long});
        let dialog = json!({"method": "Page.javascriptDialogOpening", "params": params});
        for _ in 0..=BROWSER_CONSOLE_LINES {
            let reactions = view.observe(&dialog);
            assert_eq!(reactions[0].method, "Page.handleJavaScriptDialog");
        }
        let dialogs = view.take_dialogs();
        assert_eq!(dialogs.len(), BROWSER_CONSOLE_LINES);
        assert_eq!(dialogs[0]["message"], cut.as_str());
    }
}
