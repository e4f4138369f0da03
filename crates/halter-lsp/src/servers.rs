//! The language servers of one session, started when a file of their kind is
//! first looked at.

use crate::error::LspError;
use crate::limits::{DOCUMENT_BYTES, RESTART_DELAY, RESTART_STABLE, RESTARTS};
use crate::server::{Document, LanguageServer};
use crate::settings::ServerSettings;
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use halter_exec::Environment;
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
}

struct Slot {
    starting: Starting,
    since: Instant,
    /// How often in a row it failed before this start.
    failures: u32,
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
            let failures = match slots.get(&index) {
                None => Ok(0),
                Some(slot) => slot.next_start(settings),
            };
            match failures {
                Err(Usable::Now) => {}
                Err(Usable::Never(error)) => return Err(error),
                Ok(failures) => {
                    let slot = Slot {
                        starting: start(settings.clone(), context),
                        since: Instant::now(),
                        failures,
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
    /// With how many failures to start it again, or why not.
    fn next_start(&self, settings: &ServerSettings) -> Result<u32, Usable> {
        let Some(started) = self.starting.peek() else {
            return Err(Usable::Now);
        };
        let (failure, lived) = match started {
            Ok(server) if !server.has_ended() => return Err(Usable::Now),
            Ok(server) => (server.gone(), server.age()),
            Err(error) => (error.clone(), std::time::Duration::ZERO),
        };
        let before = match lived >= RESTART_STABLE {
            true => 0,
            false => self.failures,
        };
        let (name, last) = (settings.name.clone(), failure.to_string());
        if before >= RESTARTS {
            return Err(Usable::Never(LspError::GivenUp {
                name,
                failures: before + 1,
                last,
            }));
        }
        let pause = RESTART_DELAY.saturating_mul(1 << before.min(16));
        match pause.checked_sub(self.since.elapsed()) {
            Some(after) if !after.is_zero() => {
                Err(Usable::Never(LspError::Paused { name, after, last }))
            }
            _ => Ok(before + 1),
        }
    }
}

/// Starts a server in a task of its own, so that whoever is tired of waiting
/// does not stop it.
fn start(settings: ServerSettings, context: &ToolContext) -> Starting {
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
        LanguageServer::start(&settings, environment, &root)
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

    fn failed(failures: u32) -> Slot {
        let error = LspError::Ended {
            name: "demo:x".to_owned(),
            last_words: "no license".to_owned(),
        };
        let starting = async move { Err(error) }.boxed().shared();
        starting.clone().now_or_never();
        Slot {
            starting,
            since: Instant::now(),
            failures,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_is_started_again_later_and_later() {
        let entry = json!({"command": "x", "extensionToLanguage": {".x": "x"}});
        let settings = ServerSettings::parse("demo:x", &entry, Path::new("/")).unwrap();
        for failures in 0..RESTARTS {
            let slot = failed(failures);
            let pause = RESTART_DELAY * 2_u32.pow(failures);
            tokio::time::advance(pause - std::time::Duration::from_millis(1)).await;
            let Err(Usable::Never(error)) = slot.next_start(&settings) else {
                panic!("it may start");
            };
            assert_eq!(error.code(), "lsp_paused");
            tokio::time::advance(std::time::Duration::from_millis(1)).await;
            assert!(matches!(slot.next_start(&settings), Ok(next) if next == failures + 1));
        }
        let slot = failed(RESTARTS);
        tokio::time::advance(RESTART_STABLE * 100).await;
        let Err(Usable::Never(error)) = slot.next_start(&settings) else {
            panic!("it may start");
        };
        assert_eq!(error.code(), "lsp_given_up");
        assert!(error.to_string().contains("no license"), "{error}");
    }
}
