//! Requests to a server, and what it asks and tells of its own.

use crate::framing::{MessageReader, framed};
use crate::limits::{DIAGNOSTIC_CHARS, KNOWN_FILES, OPEN_REQUESTS, OUTGOING_MESSAGES};
use crate::place;
use crate::published::Published;
use halter_exec::supervise::{ProgramInput, ProgramOutput};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Bytes that are handed to a server at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// An answer, or what the server refused with; none if it has gone.
pub(crate) type Answer = Result<Value, String>;

/// The two directions of one server. Clones share them.
#[derive(Clone)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    outgoing: mpsc::Sender<Vec<u8>>,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    published: Mutex<HashMap<PathBuf, Published>>,
    news: Notify,
    next_id: AtomicU64,
    settings: Option<Value>,
    root: String,
    ended: CancellationToken,
}

impl Connection {
    /// Takes the streams of a server. `ended` fires when either breaks.
    pub fn new(
        input: ProgramInput,
        output: ProgramOutput,
        settings: Option<Value>,
        root: String,
        ended: CancellationToken,
    ) -> Self {
        let (connection, queue) = Self::unconnected(settings, root, ended.clone());
        tokio::spawn(write(input, queue, ended.clone()));
        tokio::spawn(read(output, connection.clone(), ended));
        connection
    }

    fn unconnected(
        settings: Option<Value>,
        root: String,
        ended: CancellationToken,
    ) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (outgoing, queue) = mpsc::channel(OUTGOING_MESSAGES);
        let shared = Shared {
            outgoing,
            waiting: Mutex::default(),
            published: Mutex::default(),
            news: Notify::new(),
            next_id: AtomicU64::new(1),
            settings,
            root,
            ended,
        };
        let connection = Self {
            shared: Arc::new(shared),
        };
        (connection, queue)
    }

    /// A connection whose other end is the test.
    #[cfg(test)]
    pub fn for_test(settings: Option<Value>) -> (Self, mpsc::Receiver<Vec<u8>>) {
        Self::unconnected(settings, String::new(), CancellationToken::new())
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Answer>>> {
        self.shared
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn published_files(&self) -> MutexGuard<'_, HashMap<PathBuf, Published>> {
        self.shared
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What was last said of a file.
    pub fn published(&self, path: &Path) -> Published {
        self.published_files()
            .get(path)
            .cloned()
            .unwrap_or_default()
    }

    /// Waits until something is said of a file that `enough` takes.
    pub async fn wait_for(&self, path: &Path, enough: impl Fn(&Published) -> bool) -> Published {
        loop {
            let news = self.shared.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let published = self.published(path);
            if enough(&published) || self.shared.ended.is_cancelled() {
                return published;
            }
            tokio::select! {
                () = news => {}
                () = self.shared.ended.cancelled() => {}
            }
        }
    }

    /// Asks, and waits for the answer; none if the server has gone.
    pub async fn request(&self, method: &str, params: Value) -> Option<Answer> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.len() >= OPEN_REQUESTS {
                return Some(Err(format!("{OPEN_REQUESTS} requests wait already")));
            }
            waiting.insert(id, reply);
        }
        let _given_up = Forget {
            connection: self,
            id,
        };
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await?;
        tokio::select! {
            answer = answer => answer.ok(),
            () = self.shared.ended.cancelled() => None,
        }
    }

    /// Tells the server something.
    pub async fn notify(&self, method: &str, params: Value) -> Option<()> {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await
    }

    async fn send(&self, message: Value) -> Option<()> {
        tokio::select! {
            sent = self.shared.outgoing.send(framed(&message)) => sent.ok(),
            () = self.shared.ended.cancelled() => None,
        }
    }

    /// Takes a message of the server. Never waits: one that asks and does not
    /// read gets no answer.
    pub fn take(&self, message: Value) {
        let id = message.get("id").cloned();
        let method = message.get("method").and_then(Value::as_str);
        match (method, id) {
            (Some(method), Some(id)) => {
                let reply = match self.asked(method, message.get("params")) {
                    Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                    None => {
                        let error = json!({"code": -32601, "message": "not known here"});
                        json!({"jsonrpc": "2.0", "id": id, "error": error})
                    }
                };
                let _ = self.shared.outgoing.try_send(framed(&reply));
            }
            (Some("textDocument/publishDiagnostics"), None) => {
                if let Some(params) = message.get("params") {
                    self.publish(params);
                }
            }
            (Some(_), None) => {}
            (None, Some(id)) => {
                let reply = id.as_u64().and_then(|id| self.waiting().remove(&id));
                if let Some(reply) = reply {
                    let _ = reply.send(answer_in(&message));
                }
            }
            (None, None) => {}
        }
    }

    /// What a server that asks is told; none for what nobody knows.
    fn asked(&self, method: &str, params: Option<&Value>) -> Option<Value> {
        match method {
            "workspace/configuration" => {
                let items = params.and_then(|it| it.get("items")?.as_array());
                let sections = items.into_iter().flatten();
                let values = sections.map(|item| {
                    let section = item.get("section").and_then(Value::as_str);
                    section_of(self.shared.settings.as_ref(), section.unwrap_or_default())
                });
                Some(values.collect())
            }
            "workspace/workspaceFolders" => {
                Some(json!([{"uri": self.shared.root, "name": "workspace"}]))
            }
            "client/registerCapability"
            | "client/unregisterCapability"
            | "window/workDoneProgress/create"
            | "window/showMessageRequest" => Some(Value::Null),
            _ => None,
        }
    }

    fn publish(&self, params: &Value) {
        let uri = params
            .get("uri")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let Some(path) = place::path_of(uri) else {
            return;
        };
        let mut files = self.published_files();
        if !files.contains_key(&path) && files.len() >= KNOWN_FILES {
            return;
        }
        files.entry(path).or_default().take(params);
        drop(files);
        self.shared.news.notify_waiters();
    }
}

/// A request that nobody waits for any more.
struct Forget<'a> {
    connection: &'a Connection,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.connection.waiting().remove(&self.id);
    }
}

fn answer_in(message: &Value) -> Answer {
    match message.get("error") {
        Some(error) => {
            let said = error.get("message").and_then(Value::as_str);
            let said = said.unwrap_or("without a reason").chars();
            Err(said.take(DIAGNOSTIC_CHARS).collect())
        }
        None => Ok(message.get("result").cloned().unwrap_or_default()),
    }
}

/// The value at `a.b.c` of settings; null if there is none.
fn section_of(settings: Option<&Value>, section: &str) -> Value {
    let Some(settings) = settings else {
        return Value::Null;
    };
    let mut found = Some(settings);
    for key in section.split('.').filter(|key| !key.is_empty()) {
        found = found.and_then(|value| value.get(key));
    }
    found.cloned().unwrap_or_default()
}

async fn write(input: ProgramInput, mut queue: mpsc::Receiver<Vec<u8>>, ended: CancellationToken) {
    let hand_over = async {
        while let Some(message) = queue.recv().await {
            for piece in message.chunks(PIECE_BYTES) {
                if input.write(piece).await.is_err() {
                    return;
                }
            }
        }
        input.end();
    };
    tokio::select! {
        () = hand_over => {}
        () = ended.cancelled() => {}
    }
}

async fn read(mut output: ProgramOutput, connection: Connection, ended: CancellationToken) {
    let mut reader = MessageReader::default();
    'streaming: loop {
        let chunk = tokio::select! {
            chunk = output.read() => chunk,
            () = ended.cancelled() => break,
        };
        let Ok(Some(chunk)) = chunk else { break };
        reader.feed(&chunk);
        loop {
            match reader.next() {
                Ok(Some(message)) => connection.take(message),
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "a language server cannot be understood");
                    break 'streaming;
                }
            }
        }
    }
    ended.cancel();
}
