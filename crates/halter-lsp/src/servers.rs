//! The language servers of one session, started when a file of their kind is
//! first looked at.

use crate::error::LspError;
use crate::limits::DOCUMENT_BYTES;
use crate::server::{Document, LanguageServer};
use crate::settings::ServerSettings;
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use halter_exec::Environment;
use halter_exec::supervise::{Backoff, Guard};
use halter_tools::{ToolContext, ToolSessionState};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

type Starting = Shared<BoxFuture<'static, Result<Arc<LanguageServer>, LspError>>>;

/// The servers of a session, by their place in the settings.
#[derive(Default)]
pub(crate) struct LanguageServers {
    slots: Mutex<HashMap<usize, Slot>>,
    /// Watches over all of them, from the first that is started.
    guard: Mutex<Option<Arc<Guard>>>,
}

struct Slot {
    starting: Starting,
    since: Instant,
    /// Counts how often in a row it failed before this start.
    backoff: Backoff,
}

/// A file that a server was shown.
pub(crate) struct Shown {
    pub server: Arc<LanguageServer>,
    pub document: Document,
    /// Where the file really is.
    pub path: PathBuf,
    pub text: Arc<str>,
}

#[async_trait]
impl ToolSessionState for LanguageServers {
    async fn close(&self) {
        let slots = std::mem::take(&mut *self.slots());
        let stops = slots.into_values().map(|slot| async move {
            if let Ok(server) = slot.starting.await {
                server.stop().await;
            }
        });
        futures::future::join_all(stops).await;
    }
}

impl LanguageServers {
    /// Those of the session of a call.
    pub fn of(context: &ToolContext) -> anyhow::Result<Arc<Self>> {
        Ok(context.tool_sessions.get_or_insert_with(Self::default)?)
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<usize, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guard(&self, settings: &ServerSettings) -> Result<Arc<Guard>, LspError> {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guard) = &*guard {
            return Ok(Arc::clone(guard));
        }
        let started = Guard::start().map_err(|source| LspError::Start {
            name: settings.name.clone(),
            source: Arc::new(source),
        })?;
        Ok(Arc::clone(guard.insert(Arc::new(started))))
    }

    /// The server at a place in the settings, started if it does not run. It
    /// goes on starting if the future is dropped.
    async fn server(
        &self,
        index: usize,
        settings: &ServerSettings,
        context: &ToolContext,
    ) -> Result<Arc<LanguageServer>, LspError> {
        let starting = {
            let mut slots = self.slots();
            let backoff = match slots.get(&index) {
                None => Ok(Backoff::default()),
                Some(slot) => slot.next_start(settings),
            };
            match backoff {
                Err(Usable::Now) => {}
                Err(Usable::Never(error)) => return Err(error),
                Ok(backoff) => {
                    let guard = self.guard(settings)?;
                    let slot = Slot {
                        starting: start(settings.clone(), context, guard),
                        since: Instant::now(),
                        backoff,
                    };
                    slots.insert(index, slot);
                }
            }
            slots.get(&index).map(|slot| slot.starting.clone())
        };
        match starting {
            Some(starting) => starting.await,
            None => Err(LspError::NoServer {
                path: settings.name.clone(),
            }),
        }
    }

    /// Shows a file to the server that knows its kind. The file is opened by
    /// the door of the session's policy.
    pub async fn show(
        &self,
        all: &[ServerSettings],
        context: &ToolContext,
        path: &Path,
    ) -> anyhow::Result<Shown> {
        let known = all.iter().enumerate().find_map(|(index, settings)| {
            Some((index, settings, settings.language_of(path)?.to_owned()))
        });
        let Some((index, settings, language)) = known else {
            return Err(LspError::NoServer {
                path: path.display().to_string(),
            }
            .into());
        };
        if context.policy.door().is_elsewhere() {
            bail!(
                "language servers run on this machine, and the files of the session are where its \
                 commands run; check them with a command"
            );
        }
        let (policy, asked) = (context.policy.clone(), path.to_owned());
        let read = tokio::task::spawn_blocking(move || {
            let mut file = policy.door().open_read(&asked)?;
            let size = file.metadata().len();
            if size > DOCUMENT_BYTES {
                bail!(
                    "'{}' has {size} bytes, over the {DOCUMENT_BYTES} that are sent to a language server",
                    asked.display()
                );
            }
            let real = file.resolved().to_owned();
            let bytes = file.read_bounded(DOCUMENT_BYTES)?;
            let text = String::from_utf8(bytes)
                .with_context(|| format!("'{}' is not UTF-8 text", asked.display()))?;
            Ok((real, text))
        });
        let (path, text) = read.await??;
        let text: Arc<str> = text.into();
        let server = self.server(index, settings, context).await?;
        let document = server.show(&path, &language, text.clone()).await?;
        Ok(Shown {
            server,
            document,
            path,
            text,
        })
    }
}

/// Whether a server that was started is of use.
enum Usable {
    Now,
    Never(LspError),
}

impl Slot {
    /// With which count of failures to start it again, or why not.
    fn next_start(&self, settings: &ServerSettings) -> Result<Backoff, Usable> {
        let Some(started) = self.starting.peek() else {
            return Err(Usable::Now);
        };
        let (failure, lived) = match started {
            Ok(server) if !server.has_ended() => return Err(Usable::Now),
            Ok(server) => (server.gone(), server.age()),
            Err(error) => (error.clone(), std::time::Duration::ZERO),
        };
        let (name, last) = (settings.name.clone(), failure.to_string());
        let mut backoff = self.backoff;
        let Some(pause) = backoff.next_delay(lived) else {
            return Err(Usable::Never(LspError::GivenUp {
                name,
                failures: backoff.failures() + 1,
                last,
            }));
        };
        match pause.checked_sub(self.since.elapsed()) {
            Some(after) if !after.is_zero() => {
                Err(Usable::Never(LspError::Paused { name, after, last }))
            }
            _ => Ok(backoff),
        }
    }
}

/// Starts a server in a task of its own, so that whoever is tired of waiting
/// does not stop it.
fn start(settings: ServerSettings, context: &ToolContext, guard: Arc<Guard>) -> Starting {
    let mut environment = Environment::new();
    for (name, value) in context.tool_sessions.base_environment().iter() {
        environment.set(name, value);
    }
    for (name, value) in &settings.environment {
        environment.set(name, value);
    }
    let root = context.working_dir.clone();
    let name = settings.name.clone();
    let started = tokio::spawn(async move {
        LanguageServer::start(&settings, environment, &root, guard)
            .await
            .map(Arc::new)
    });
    let outcome = async move {
        match started.await {
            Ok(outcome) => outcome,
            Err(error) => Err(LspError::Ended {
                name,
                last_words: error.to_string(),
            }),
        }
    };
    outcome.boxed().shared()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn failed(backoff: Backoff) -> Slot {
        let error = LspError::Ended {
            name: "demo:x".to_owned(),
            last_words: "no license".to_owned(),
        };
        let starting = async move { Err(error) }.boxed().shared();
        starting.clone().now_or_never();
        Slot {
            starting,
            since: Instant::now(),
            backoff,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_is_started_again_later_and_later() {
        let entry = json!({"command": "x", "extensionToLanguage": {".x": "x"}});
        let settings = ServerSettings::parse("demo:x", &entry, Path::new("/")).unwrap();
        let mut backoff = Backoff::default();
        loop {
            let slot = failed(backoff);
            let Some(pause) = backoff.next_delay(Duration::ZERO) else {
                break;
            };
            tokio::time::advance(pause - Duration::from_millis(1)).await;
            let Err(Usable::Never(error)) = slot.next_start(&settings) else {
                panic!("it may start");
            };
            assert_eq!(error.code(), "lsp_paused");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(matches!(slot.next_start(&settings), Ok(next) if next == backoff));
        }
        let slot = failed(backoff);
        tokio::time::advance(Duration::from_secs(3600)).await;
        let Err(Usable::Never(error)) = slot.next_start(&settings) else {
            panic!("it may start");
        };
        assert_eq!(error.code(), "lsp_given_up");
        assert!(error.to_string().contains("no license"), "{error}");
    }
}
