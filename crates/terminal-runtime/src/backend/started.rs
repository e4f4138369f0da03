//! Getting a command started in a session of the runtime, once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::bail;
use halter_tools::exec::Environment;
use tokio::time::Instant;

use super::session::{OpenedSession, RuntimeSession, text};
use crate::client::{ClientError, Follower};
use crate::limits::CONTAINER_PULL_DEADLINE;
use crate::lock::lock;
use crate::protocol::{ErrorCode, ExecParams, ExecResult, Variables};

/// How long a runtime that has served this session may be away.
pub(super) const RETURN_TIME: Duration = Duration::from_secs(10);
/// The pause between two attempts to reach it.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// How long any call that waits for no command may take.
pub(super) const CALL_TIME: Duration = Duration::from_secs(30);
/// How long the first command of a session may take to be accepted.
const START_TIME: Duration = Duration::from_secs(180);
/// The same where a container has to be made, of an image that may have to be
/// fetched.
const CONTAINER_START_TIME: Duration =
    CONTAINER_PULL_DEADLINE.saturating_add(Duration::from_secs(180));

impl RuntimeSession {
    /// Starts a command and follows it. A session that the runtime does not
    /// know any more is made anew: nothing of the command has run then.
    pub(super) async fn begin(&self, params: ExecParams) -> anyhow::Result<Follower> {
        let mut may_renew = true;
        loop {
            let (session, is_known) = self.opened().await?;
            let protect: Vec<PathBuf> = lock(&self.protected).iter().cloned().collect();
            let protect = protect.into_iter().map(text);
            let params = ExecParams {
                session_id: session.id.clone(),
                protect: protect.collect::<anyhow::Result<_>>()?,
                ..params.clone()
            };
            match self.follow(params, is_known).await {
                Ok(follower) => return Ok(follower),
                Err(ClientError::Refused(error))
                    if may_renew && error.code == ErrorCode::SessionNotFound =>
                {
                    may_renew = false;
                    self.forget(&session).await;
                    self.restarted.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn start_time(&self) -> Duration {
        match self.shared.settings.container {
            Some(_) => CONTAINER_START_TIME,
            None => START_TIME,
        }
    }

    /// Starts a command in a session that is there.
    pub(super) async fn follow(
        &self,
        params: ExecParams,
        is_known: bool,
    ) -> Result<Follower, ClientError> {
        let client = &self.shared.client;
        let begun = Instant::now();
        loop {
            let started =
                tokio::time::timeout(self.start_time(), client.follow_new(params.clone()));
            let error = match started.await {
                Ok(Ok(follower)) => return Ok(follower),
                Ok(Err(error)) => error,
                Err(_) => {
                    return Err(ClientError::OutcomeUnknown {
                        target: client.target().to_string(),
                    });
                }
            };
            // Nothing was taken: it may come back.
            if !is_known || !error.is_passing() || begun.elapsed() >= RETURN_TIME {
                return Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The session of the runtime, made now if there is none, and whether it
    /// was there before.
    pub(super) async fn opened(&self) -> anyhow::Result<(OpenedSession, bool)> {
        let mut opened = self.opened.lock().await;
        if self.closing.is_cancelled() {
            bail!(halter_tools::ToolSessionClosed);
        }
        if let Some(session) = &*opened {
            return Ok((session.clone(), true));
        }
        self.scratch().await?;
        let session = self.create_with_shell().await?;
        if let Err(error) = self.begin_watch(session.sandbox).await {
            self.destroy_session(&session).await;
            return Err(error);
        }
        *opened = Some(session.clone());
        Ok((session, false))
    }

    /// Has the next command make another session.
    pub(super) async fn forget(&self, session: &OpenedSession) {
        let mut opened = self.opened.lock().await;
        if opened.as_ref().is_some_and(|known| known.id == session.id) {
            *opened = None;
        }
    }

    /// Runs a program of the session to its end, before anything else.
    pub(super) async fn probed(
        &self,
        session: &OpenedSession,
        words: &[&str],
    ) -> anyhow::Result<ExecResult> {
        let params = ExecParams {
            session_id: session.id.clone(),
            argv: Some(words.iter().map(|&word| word.to_owned()).collect()),
            ..ExecParams::default()
        };
        let start_time = self.start_time();
        match tokio::time::timeout(start_time, self.shared.client.run(&params)).await {
            Ok(result) => Ok(result?),
            Err(_) => bail!(
                "the runtime at {} has not answered within {} s",
                self.shared.client.target(),
                start_time.as_secs()
            ),
        }
    }

    /// The answer to a call that waits for no command.
    pub(super) async fn called<T>(
        &self,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> anyhow::Result<T> {
        self.shared.called(call).await
    }
}

/// Variables as the wire has them. What is no text cannot be sent.
pub(super) fn variables(environment: &Environment) -> Variables {
    let text = |(name, value): (&std::ffi::OsStr, &std::ffi::OsStr)| {
        Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
    };
    Variables(
        environment
            .iter()
            .filter_map(text)
            .collect::<BTreeMap<_, _>>(),
    )
}
