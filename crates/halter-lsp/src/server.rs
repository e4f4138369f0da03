//! One language server: its process, its documents, what it says of them.

use crate::connection::Connection;
use crate::error::LspError;
use crate::limits::{DIAGNOSTICS_WAIT, OPEN_DOCUMENTS, REQUEST_WAIT, STOP_WAIT};
use crate::place::{Columns, uri_of};
use crate::published::Published;
use crate::settings::ServerSettings;
use halter_exec::Environment;
use halter_exec::supervise::{Guard, LastWords, Program, ProgramSettings, Started};
use indexmap::IndexMap;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A server that runs. [`stop`](Self::stop) ends it; dropping it kills it with
/// everything it started.
pub(crate) struct LanguageServer {
    name: String,
    connection: Connection,
    columns: Columns,
    documents: Mutex<IndexMap<PathBuf, Document>>,
    /// The version that a file was last sent in, over all files: one that is
    /// opened again has none that it had before.
    last_version: AtomicI64,
    said: LastWords,
    /// Fires when it has ended, or shall.
    ended: CancellationToken,
    keeper: Mutex<Option<JoinHandle<()>>>,
    started: Instant,
}

/// A file as the server has it.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    version: i64,
    text: Arc<str>,
    /// How often the server had spoken of the file before it was sent this.
    spoken_before: u64,
    /// How often it may still speak of what the file was before.
    owed: u64,
    shown: Instant,
}

impl Document {
    /// How often the server may speak, without a version, of what the file was
    /// before. What did not come for so long does not come any more.
    fn still_owed(&self) -> u64 {
        match self.shown.elapsed() < DIAGNOSTICS_WAIT {
            true => self.owed,
            false => 0,
        }
    }
}

impl LanguageServer {
    /// Starts a server for a directory and shakes hands with it. It ends with
    /// this program, however that ends.
    pub async fn start(
        settings: &ServerSettings,
        mut environment: Environment,
        root: &Path,
        guard: Arc<Guard>,
    ) -> Result<Self, LspError> {
        let name = settings.name.clone();
        let (mark, value) = guard.mark();
        environment.set(mark, value);
        let started = Program::start(&ProgramSettings {
            program: settings.command.clone().into(),
            arguments: settings.arguments.iter().map(Into::into).collect(),
            environment,
            directory: root.to_owned(),
            sandbox: None,
        });
        let Started {
            program,
            input,
            output,
        } = started.map_err(|source| LspError::Start {
            name: name.clone(),
            source: Arc::new(source),
        })?;
        guard.watch(&program);
        let said = program.last_words();
        let ended = CancellationToken::new();
        let uri = uri_of(root).unwrap_or_default();
        let told = settings.settings.clone();
        let connection = Connection::new(input, output, told, uri.clone(), ended.clone());
        let keeper = tokio::spawn(keep(program, ended.clone(), guard));
        let mut server = Self {
            name,
            connection,
            columns: Columns::Utf16,
            documents: Mutex::default(),
            last_version: AtomicI64::new(0),
            said,
            ended,
            keeper: Mutex::new(Some(keeper)),
            started: Instant::now(),
        };
        let capabilities = match server.initialize(settings, &uri).await {
            // The end of a stream may be seen before the last words are.
            Err(LspError::Ended { .. }) => {
                server.collected().await;
                return Err(server.gone());
            }
            other => other?,
        };
        server.columns = Columns::chosen(&capabilities);
        Ok(server)
    }

    async fn initialize(&self, settings: &ServerSettings, root: &str) -> Result<Value, LspError> {
        let params = json!({
            "processId": std::process::id(),
            "clientInfo": {"name": "halter", "version": env!("CARGO_PKG_VERSION")},
            "rootUri": root,
            "workspaceFolders": [{"uri": root, "name": "workspace"}],
            "initializationOptions": settings.initialization_options,
            "capabilities": {
                "general": {"positionEncodings": ["utf-8", "utf-16"]},
                "workspace": {"configuration": true, "workspaceFolders": true},
                "textDocument": {
                    "synchronization": {"didSave": true},
                    "publishDiagnostics": {"versionSupport": true},
                    "definition": {"linkSupport": false},
                    "references": {},
                },
            },
        });
        let answer = self
            .request_within("initialize", params, settings.start_wait)
            .await?;
        self.notify("initialized", json!({})).await?;
        if let Some(settings) = &settings.settings {
            let params = json!({"settings": settings});
            self.notify("workspace/didChangeConfiguration", params)
                .await?;
        }
        Ok(answer.get("capabilities").cloned().unwrap_or_default())
    }

    /// Asks, within [`REQUEST_WAIT`].
    pub async fn request(&self, method: &'static str, params: Value) -> Result<Value, LspError> {
        self.request_within(method, params, REQUEST_WAIT).await
    }

    async fn request_within(
        &self,
        method: &'static str,
        params: Value,
        wait: Duration,
    ) -> Result<Value, LspError> {
        let asked = self.connection.request(method, params);
        match tokio::time::timeout(wait, asked).await {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(Some(Err(message))) => Err(LspError::Refused {
                name: self.name.clone(),
                message,
            }),
            Ok(None) => Err(self.gone()),
            Err(_) => Err(LspError::TimedOut {
                name: self.name.clone(),
                what: method,
                after: wait,
            }),
        }
    }

    async fn notify(&self, method: &str, params: Value) -> Result<(), LspError> {
        self.connection
            .notify(method, params)
            .await
            .ok_or_else(|| self.gone())
    }

    /// Why it is of no use any more.
    pub fn gone(&self) -> LspError {
        LspError::Ended {
            name: self.name.clone(),
            last_words: self.said.text(),
        }
    }

    /// True if it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// How long it has run.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// How it counts within a line.
    pub fn columns(&self) -> Columns {
        self.columns
    }

    fn documents(&self) -> MutexGuard<'_, IndexMap<PathBuf, Document>> {
        self.documents
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows it a file as it is now, and returns what it then has.
    pub async fn show(
        &self,
        path: &Path,
        language: &str,
        text: Arc<str>,
    ) -> Result<Document, LspError> {
        let uri = uri_of(path).unwrap_or_default();
        let known = self.documents().shift_remove(path);
        let spoken_before = self.connection.published(path).times;
        let document = match known {
            Some(known) if known.text == text => known,
            Some(known) => {
                let version = self.next_version();
                let params = json!({
                    "textDocument": {"uri": uri, "version": version},
                    "contentChanges": [{"text": &*text}],
                });
                self.notify("textDocument/didChange", params).await?;
                let saved = json!({"textDocument": {"uri": uri}});
                self.notify("textDocument/didSave", saved).await?;
                let spoken = spoken_before.saturating_sub(known.spoken_before);
                Document {
                    version,
                    text,
                    spoken_before,
                    owed: (known.still_owed() + 1).saturating_sub(spoken),
                    shown: Instant::now(),
                }
            }
            None => {
                self.make_room().await?;
                let version = self.next_version();
                let params = json!({"textDocument": {
                    "uri": uri, "languageId": language, "version": version, "text": &*text,
                }});
                self.notify("textDocument/didOpen", params).await?;
                Document {
                    version,
                    text,
                    spoken_before,
                    owed: 0,
                    shown: Instant::now(),
                }
            }
        };
        // The one that was looked at last stands last.
        self.documents().insert(path.to_owned(), document.clone());
        Ok(document)
    }

    async fn make_room(&self) -> Result<(), LspError> {
        loop {
            let oldest = {
                let mut documents = self.documents();
                match documents.len() >= OPEN_DOCUMENTS {
                    true => documents.shift_remove_index(0),
                    false => None,
                }
            };
            let Some((path, _)) = oldest else {
                return Ok(());
            };
            let uri = uri_of(&path).unwrap_or_default();
            self.notify(
                "textDocument/didClose",
                json!({"textDocument": {"uri": uri}}),
            )
            .await?;
        }
    }

    fn next_version(&self) -> i64 {
        self.last_version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What it says of a file as it was shown; none if it says nothing of that
    /// in time. What it says of the file as it was before does not count.
    pub async fn diagnostics(
        &self,
        path: &Path,
        document: &Document,
        wait: Duration,
    ) -> Result<Option<Published>, LspError> {
        let fits = |published: &Published| {
            let spoken = published.times.saturating_sub(document.spoken_before);
            match published.version {
                Some(version) => spoken > 0 && version >= document.version,
                None => spoken > document.still_owed(),
            }
        };
        let waiting = self.connection.wait_for(path, fits);
        let published = tokio::time::timeout(wait, waiting).await;
        match published {
            Ok(published) if fits(&published) => Ok(Some(published)),
            Ok(_) => Err(self.gone()),
            Err(_) => Ok(Some(self.connection.published(path)).filter(fits)),
        }
    }

    /// Ends it: by the protocol if it listens, by force if it does not.
    pub async fn stop(&self) {
        let farewell = async {
            self.connection.request("shutdown", Value::Null).await;
            self.connection.notify("exit", Value::Null).await;
            self.ended.cancelled().await;
        };
        let _ = tokio::time::timeout(STOP_WAIT, farewell).await;
        self.ended.cancel();
        self.collected().await;
    }

    /// Returns when it has ended, with all it started.
    async fn collected(&self) {
        let keeper = {
            let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
            keeper.take()
        };
        if let Some(keeper) = keeper {
            let _ = keeper.await;
        }
    }
}

impl Drop for LanguageServer {
    fn drop(&mut self) {
        // The keeper ends the process.
        self.ended.cancel();
    }
}

/// Owns the program. When it ends, or shall, so does all it has started.
async fn keep(program: Program, ended: CancellationToken, guard: Arc<Guard>) {
    tokio::select! {
        () = program.ended() => {}
        () = ended.cancelled() => {}
    }
    // The connection lets go of its input.
    ended.cancel();
    program.stop().await;
    drop(guard);
}
