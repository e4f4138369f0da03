//! A harness with one session that is live.

use crate::args::{Force, PermissionArgs, Recording};
use crate::context::Context;
use crate::failure::Failure;
use crate::harness::{self, Loaded, Models};
use crate::limits::SHUTDOWN_WAIT;
use crate::signals::Stops;
use halter::{Approvals, Halter, HalterError, HalterSession, ResourceWatch, SessionInit};
use halter_config::ModelChoice;
use halter_protocol::{Budget, ModelId, ModelRole, SessionId, Turn};
use halter_runtime::SessionStream;
use std::num::NonZeroU32;
use std::path::Path;

/// What a session is started or resumed with.
#[derive(Debug, Default)]
pub struct Wanted {
    /// The session to continue.
    pub session: Option<String>,
    /// The model of new sessions, and of turns of continued ones.
    pub model: Option<String>,
    /// How many model calls a turn may make.
    pub max_turns: Option<NonZeroU32>,
    /// What the session may spend.
    pub budget: Budget,
    /// The recording to make or to answer from.
    pub recording: Option<Recording>,
    /// Permissions of the command line.
    pub permissions: PermissionArgs,
    /// Who is asked about calls that need approval.
    pub approvals: Approvals,
}

/// A live session.
pub struct Live {
    /// Its harness.
    pub harness: Halter,
    /// The session.
    pub session: HalterSession,
    /// Its events, from the first one of this process on.
    pub events: SessionStream,
    /// What signals ask for.
    pub stops: Stops,
    /// Takes up resources that change, where that is wanted.
    pub watch: Option<ResourceWatch>,
}

impl Live {
    /// Starts or resumes a session with the configured models.
    pub async fn start(context: &Context, wanted: &Wanted) -> Result<Self, Failure> {
        let mut loaded = harness::load_for(context, wanted.model.as_deref()).await?;
        wanted.permissions.apply(&mut loaded.config)?;
        let resources = harness::compile(context, &loaded).await?;
        let models = match &wanted.recording {
            Some(Recording::Make { file, force }) => {
                refuse_overwriting(file, *force)?;
                Models::Recorded(file.clone())
            }
            Some(Recording::Play(file)) => {
                // The recording says which model answered.
                loaded.choice = ModelChoice::Named;
                Models::Replayed(file.clone())
            }
            None => Models::Configured,
        };
        let harness = harness::build_attended(
            context,
            &loaded,
            resources,
            models,
            wanted.approvals.clone(),
        )
        .await?;
        let mut live = match &wanted.session {
            Some(id) => {
                let id = SessionId::from(id.as_str());
                Self::resume(context, &loaded, harness, &id, wanted).await
            }
            None => Self::begin(context, harness, wanted).await,
        }?;
        if loaded.config.config.resources.watch {
            let watched = harness::watched(context, &loaded);
            live.watch = Some(live.harness.watch_resources(watched));
        }
        // A session that was started with a model of its own keeps it.
        let own = &live.session.blueprint().default_model;
        if ModelRole::ALL
            .iter()
            .any(|role| role.as_str() == own.as_str())
        {
            harness::explain_model(context, &loaded).await;
        }
        Ok(live)
    }

    /// Starts a session in a harness.
    pub async fn begin(
        context: &Context,
        harness: Halter,
        wanted: &Wanted,
    ) -> Result<Self, Failure> {
        let mut init = SessionInit {
            max_turns: wanted.max_turns.map(NonZeroU32::get),
            default_model: wanted.model.as_deref().map(ModelId::from),
            ..SessionInit::default().with_budget(wanted.budget)
        };
        if context.globals.cwd.is_some() {
            init.working_dir = ".".into();
        }
        let session = harness.new_session(init).await?;
        let events = session.subscribe();
        Self::listen(context, harness, session, events)
    }

    async fn resume(
        context: &Context,
        loaded: &Loaded,
        harness: Halter,
        id: &SessionId,
        wanted: &Wanted,
    ) -> Result<Self, Failure> {
        if wanted.max_turns.is_some() {
            context
                .messages
                .warning("--max-turns is fixed when a session starts and has no effect here");
        }
        if context.globals.cwd.is_some() {
            context
                .messages
                .warning("--cwd has no effect here: a session stays in its directory");
        }
        let missing = || not_found(loaded, id);
        let head = match harness.store().open(id).await {
            Ok(opened) => opened.head,
            Err(halter_session::StoreError::NotFound { .. }) => return Err(missing()),
            Err(error) => return Err(error.into()),
        };
        let session = harness.runtime().resume(id).await?.ok_or_else(missing)?;
        if !wanted.budget.is_unlimited() {
            let stored = harness.runtime().read_session(id).await?;
            let stored = stored.ok_or_else(missing)?;
            let own = stored.state().budget;
            let mut budget = own.unwrap_or(stored.blueprint().budget);
            budget.session = wanted.budget.or(budget.session);
            session.set_budget(budget).await?;
        }
        let events = session.subscribe_after(head);
        Self::listen(context, harness, session, events)
    }

    fn listen(
        context: &Context,
        harness: Halter,
        session: HalterSession,
        events: SessionStream,
    ) -> Result<Self, Failure> {
        let stops = Stops::listen(&harness, &session, &context.messages)?;
        Ok(Self {
            harness,
            session,
            events,
            stops,
            watch: None,
        })
    }

    /// The turn that a line stands for: that of a skill, a command, or a prompt
    /// of a server. None for any other line.
    pub async fn invocation(&self, line: &str) -> Result<Option<Turn>, Failure> {
        match self.session.invocation(line)? {
            Some(turn) => Ok(Some(turn)),
            None => Ok(self.harness.mcp_invocation(line).await?),
        }
    }

    /// Ends everything that the harness keeps open. An earlier recording
    /// stays in its place if the work failed.
    pub async fn close<T>(self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        if outcome.is_err() {
            self.harness.spare_earlier_recording();
        }
        close(&self.harness).await;
        let recorded = self.harness.finish_recording();
        let value = outcome?;
        recorded?;
        Ok(value)
    }
}

/// Ends everything that a harness keeps open.
pub async fn close(harness: &Halter) {
    let ended = in_shutdown_time("the harness", async {
        harness.shutdown(std::time::Duration::ZERO).await;
    });
    ended.await;
}

/// A recording that is there is not lost by accident.
fn refuse_overwriting(file: &Path, force: Force) -> Result<(), Failure> {
    if force == Force::No && file.exists() {
        let message = format!("the recording {} exists already", file.display());
        return Err(HalterError::new("cassette_exists", message)
            .with_hint("name another file, or replace it with --force")
            .into());
    }
    Ok(())
}

/// What an ending gives, or nothing if it takes too long.
pub async fn in_shutdown_time<T>(what: &str, ending: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(SHUTDOWN_WAIT, ending)
        .await
        .inspect_err(|_| tracing::warn!("{what} did not end in time"))
        .ok()
}

/// No session has this id, and where it was looked for.
pub fn not_found(loaded: &Loaded, id: &SessionId) -> Failure {
    let message = format!("there is no session '{id}'");
    let hint = match loaded.config.config.sessions.backend {
        halter_config::SessionBackend::Memory => {
            let origin = loaded.config.origin("sessions.backend");
            format!("sessions.backend is \"memory\" ({origin}), so none are kept; set \"sqlite\"")
        }
        _ => "see `halter sessions list`".to_owned(),
    };
    HalterError::new("session_not_found", message)
        .with_hint(hint)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn an_ending_has_its_time_and_no_more() {
        let takes = |time: Duration| in_shutdown_time("it", tokio::time::sleep(time));
        let millisecond = Duration::from_millis(1);
        assert_eq!(takes(SHUTDOWN_WAIT - millisecond).await, Some(()));
        let started = tokio::time::Instant::now();
        assert_eq!(takes(SHUTDOWN_WAIT + millisecond).await, None);
        assert_eq!(started.elapsed(), SHUTDOWN_WAIT);
    }
}
