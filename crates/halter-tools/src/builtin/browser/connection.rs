//! The Chrome DevTools protocol: commands and their answers, and events.
//!
//! One task reads what the browser says, hands answers to who waits for them
//! and events to a [`BrowserView`]; it ends with the connection. Messages are
//! JSON, separated by NUL bytes on a pipe.

use super::view::BrowserView;
use crate::limits::BROWSER_MESSAGE_BYTES;
use anyhow::{anyhow, bail};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

/// The way messages go to the browser.
pub(super) trait Outgoing: Send + Sync + 'static {
    /// Sends one message, whole or not at all.
    fn send(&self, message: String) -> BoxFuture<'_, anyhow::Result<()>>;
}

/// The way messages come from the browser.
pub(super) trait Incoming: Send + 'static {
    /// The next message; `None` when there are no more.
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<u8>>>;
}

type Answer = Result<Value, String>;

/// Commands that wait for their answers; `None` once the browser is gone.
type Waiting = Mutex<Option<HashMap<u64, Waiter>>>;

/// Who waits for the answer to a command.
struct Waiter {
    /// The page that the command went to.
    page: Option<String>,
    sender: oneshot::Sender<Answer>,
}

/// A connection to a browser.
pub(super) struct Connection {
    out: Arc<dyn Outgoing>,
    shared: Arc<Shared>,
    _reader: AbortOnDropHandle<()>,
}

struct Shared {
    waiting: Waiting,
    next: AtomicU64,
    view: Arc<BrowserView>,
}

impl Connection {
    /// Starts to read. Events go to the view.
    pub(super) fn open(
        out: Arc<dyn Outgoing>,
        incoming: impl Incoming,
        view: Arc<BrowserView>,
    ) -> Self {
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(1),
            view,
        });
        let reading = read(incoming, Arc::clone(&out), Arc::clone(&shared));
        Self {
            out,
            shared,
            _reader: AbortOnDropHandle::new(tokio::spawn(reading)),
        }
    }

    /// Sends a command, to a page if one is named, and waits for its answer.
    pub(super) async fn call(
        &self,
        page: Option<&str>,
        method: &str,
        params: Value,
    ) -> anyhow::Result<Value> {
        let (sender, receiver) = oneshot::channel();
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        {
            let mut waiting = lock(&self.shared.waiting);
            let Some(waiting) = waiting.as_mut() else {
                bail!("the browser has ended");
            };
            let page = page.map(str::to_owned);
            waiting.insert(id, Waiter { page, sender });
        }
        let _forget = Forget {
            shared: &self.shared,
            id,
        };
        self.out.send(message(id, page, method, params)).await?;
        match receiver.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(anyhow!("{method}: {error}")),
            Err(_) => Err(anyhow!("the browser has ended")),
        }
    }
}

/// Takes a command off the list, also when nobody waits for it any more.
struct Forget<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = lock(&self.shared.waiting).as_mut() {
            waiting.remove(&self.id);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn message(id: u64, page: Option<&str>, method: &str, params: Value) -> String {
    let mut message = json!({"id": id, "method": method, "params": params});
    if let (Some(page), Some(fields)) = (page, message.as_object_mut()) {
        fields.insert("sessionId".into(), page.into());
    }
    message.to_string()
}

async fn read(mut incoming: impl Incoming, out: Arc<dyn Outgoing>, shared: Arc<Shared>) {
    while let Some(bytes) = incoming.next().await {
        if bytes.len() > BROWSER_MESSAGE_BYTES {
            break;
        }
        let Ok(message) = serde_json::from_slice::<Value>(&bytes) else {
            if let Ok(Numbered { id }) = serde_json::from_slice(&bytes) {
                hand_over(&shared, id, Err(TOO_DEEP.to_owned()));
            }
            continue;
        };
        if let Some(id) = message.get("id").and_then(Value::as_u64) {
            shared.view.answered(id);
            hand_over(&shared, id, answer(message));
            continue;
        }
        // Some events want something done before the page goes on.
        for reaction in shared.view.observe(&message) {
            let id = shared.next.fetch_add(1, Ordering::Relaxed);
            let page = reaction.page.as_deref();
            shared.view.sending(page, id);
            let text = self::message(id, page, reaction.method, reaction.params);
            if out.send(text).await.is_err() {
                break;
            }
        }
        if message.get("method").and_then(Value::as_str) == Some("Target.detachedFromTarget") {
            forget_page(&shared, &message);
        }
    }
    // Whoever waits hears that there is no answer.
    lock(&shared.waiting).take();
    shared.view.end();
}

/// Of a message, what says whose answer it is. Found however deeply the rest
/// nests, which a page decides.
#[derive(Deserialize)]
struct Numbered {
    id: u64,
}

const TOO_DEEP: &str = "the answer nests too deeply to be read; ask for a part of it";

/// Gives an answer to whoever waits for it.
fn hand_over(shared: &Shared, id: u64, answer: Answer) {
    let waiter = lock(&shared.waiting)
        .as_mut()
        .and_then(|waiting| waiting.remove(&id));
    if let Some(waiter) = waiter {
        // Whoever waited may have left.
        let _ = waiter.sender.send(answer);
    }
}

/// A page that is gone answers no more: whoever waits for it hears so.
fn forget_page(shared: &Shared, message: &Value) {
    let gone = message.pointer("/params/sessionId").and_then(Value::as_str);
    if let (Some(gone), Some(waiting)) = (gone, lock(&shared.waiting).as_mut()) {
        let of_page = |_: &u64, waiter: &mut Waiter| waiter.page.as_deref() == Some(gone);
        for (_, waiter) in waiting.extract_if(of_page) {
            // Whoever waited may have left.
            let _ = waiter.sender.send(Err("the page was closed".to_owned()));
        }
    }
}

fn answer(mut message: Value) -> Answer {
    match message.get("error") {
        Some(error) => {
            let told = error.get("message").and_then(Value::as_str);
            Err(told.unwrap_or("it was refused").to_owned())
        }
        None => Ok(message.get_mut("result").map_or(Value::Null, Value::take)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    struct Told(std::vec::IntoIter<Vec<u8>>);

    impl Incoming for Told {
        fn next(&mut self) -> BoxFuture<'_, Option<Vec<u8>>> {
            std::future::ready(self.0.next()).boxed()
        }
    }

    /// Tells of a tab.
    const TAB: &str = r#"{"method": "Target.attachedToTarget", "params":
        {"sessionId": "1", "targetInfo": {"type": "page", "targetId": "1"}}}"#;

    /// How many commands set a tab up, and the number of the first.
    const SETTING_UP: u64 = 9;
    const FIRST_ID: u64 = 100;

    struct Nowhere;

    impl Outgoing for Nowhere {
        fn send(&self, _message: String) -> BoxFuture<'_, anyhow::Result<()>> {
            std::future::ready(Ok(())).boxed()
        }
    }

    /// How many tabs are known once a message of this size came before one that
    /// tells of a tab.
    async fn tabs_after(size: usize) -> usize {
        let messages = [vec![0; size], TAB.as_bytes().to_vec()];
        let messages: Vec<_> = messages.into_iter().chain(answers(SETTING_UP)).collect();
        let shared = shared(HashMap::new());
        let view = Arc::clone(&shared.view);
        read(Told(messages.into_iter()), Arc::new(Nowhere), shared).await;
        assert!(view.has_ended());
        view.tab().1
    }

    fn shared(waiting: HashMap<u64, Waiter>) -> Arc<Shared> {
        Arc::new(Shared {
            waiting: Mutex::new(Some(waiting)),
            next: AtomicU64::new(FIRST_ID),
            view: Arc::default(),
        })
    }

    /// What a tab answers to the commands that set it up.
    fn answers(count: u64) -> impl Iterator<Item = Vec<u8>> {
        let ids = FIRST_ID..FIRST_ID + count;
        ids.map(|id| json!({"id": id, "result": {}}).to_string().into_bytes())
    }

    /// Else a call could have it go somewhere before it tells of that.
    #[tokio::test]
    async fn a_page_is_looked_at_once_it_has_answered_what_sets_it_up() {
        for (count, is_open) in [(SETTING_UP - 1, false), (SETTING_UP, true)] {
            let shared = shared(HashMap::new());
            let view = Arc::clone(&shared.view);
            let messages = [TAB.as_bytes().to_vec()].into_iter().chain(answers(count));
            let messages: Vec<_> = messages.collect();
            read(Told(messages.into_iter()), Arc::new(Nowhere), shared).await;
            assert_eq!(view.page().is_some(), is_open, "{count}");
        }
    }

    #[tokio::test]
    async fn who_waits_for_an_answer_that_nests_too_deeply_hears_so() {
        let (sender, told) = oneshot::channel();
        let waiter = Waiter { page: None, sender };
        let deep = format!(
            "{{\"result\": {}{}, \"id\": 1}}",
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        let shared = shared(HashMap::from([(1, waiter)]));
        let messages = vec![deep.into_bytes()].into_iter();
        read(Told(messages), Arc::new(Nowhere), shared).await;
        assert_eq!(told.await.unwrap().unwrap_err(), TOO_DEEP);
    }

    #[tokio::test]
    async fn who_waits_for_a_page_that_is_closed_hears_so() {
        let (sender, told) = oneshot::channel();
        let (kept, mut other) = oneshot::channel();
        let waiter = |page: &str, sender| Waiter {
            page: Some(page.to_owned()),
            sender,
        };
        let waiting = HashMap::from([(1, waiter("a", sender)), (2, waiter("b", kept))]);
        let shared = shared(waiting);
        let gone = json!({"method": "Target.detachedFromTarget", "params": {"sessionId": "a"}});
        forget_page(&shared, &gone);
        assert_eq!(told.await.unwrap().unwrap_err(), "the page was closed");
        assert!(other.try_recv().is_err());
        assert!(lock(&shared.waiting).as_ref().unwrap().contains_key(&2));
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_ends_the_connection() {
        assert_eq!(tabs_after(BROWSER_MESSAGE_BYTES).await, 1);
        assert_eq!(tabs_after(BROWSER_MESSAGE_BYTES + 1).await, 0);
    }
}
