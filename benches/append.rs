//! What an append to SQLite costs, early and late in a long session.

use halter_bench::measure::{block_on, cpu_time, median};
use halter_bench::report::{Claim, print};
use halter_protocol::{
    EnvironmentSnapshot, Message, PendingEvent, SessionBlueprint, SessionEventPayload, Timestamp,
    UserMessage,
};
use halter_session::{Durability, DurabilityPolicy, SessionLog, SqliteSessionStore};
use std::sync::Arc;
use std::time::Duration;

/// Events of the long session before anything is measured; the short one has
/// as many as it has in a first turn or two.
const LONG: usize = 100_000;
const SHORT: usize = 100;

/// Appends that are measured in a round, and how many of them in a row.
const WINDOW: usize = 2_000;
const BATCH: usize = 100;
const ROUNDS: usize = 5;

fn main() -> anyhow::Result<()> {
    let ratios = block_on(late_over_early())?;
    print(&Claim {
        what: "CPU of an append at event 100,000 over that at event 100",
        value: median(ratios),
        limit: 1.25,
        unit: "x",
    });
    Ok(())
}

/// The cost of appends to a long session over that of appends to a short one,
/// taken in turns, so that what else the machine does slows both. Checkpoints,
/// which come at doubling distances, are in neither.
async fn late_over_early() -> anyhow::Result<Vec<f64>> {
    let mut long = Session::with(LONG).await?;
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let mut short = Session::with(SHORT).await?;
        let (mut late, mut early) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..WINDOW / BATCH {
            late += long.append(BATCH).await?;
            early += short.append(BATCH).await?;
        }
        ratios.push(late.as_secs_f64() / early.as_secs_f64());
    }
    Ok(ratios)
}

/// A session in a store of its own.
struct Session {
    log: SessionLog,
    length: usize,
    _directory: tempfile::TempDir,
}

impl Session {
    async fn with(events: usize) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let store = SqliteSessionStore::open(directory.path().join("sessions.db")).await?;
        let policy = DurabilityPolicy::Process;
        let mut session = Self {
            log: SessionLog::create(Arc::new(store), blueprint(), policy).await?,
            length: 0,
            _directory: directory,
        };
        session.append(events).await?;
        Ok(session)
    }

    /// Appends so many events; what that took.
    async fn append(&mut self, count: usize) -> anyhow::Result<Duration> {
        let before = cpu_time();
        for _ in 0..count {
            let event = event(self.length);
            self.length += 1;
            self.log.append(vec![event], Durability::Durable).await?;
        }
        Ok(cpu_time() - before)
    }
}

fn event(number: usize) -> PendingEvent {
    let message = Arc::new(Message::User(UserMessage::text(format!(
        "message {number} of a long conversation, about as long as people write them"
    ))));
    PendingEvent::new(
        "ses_bench".into(),
        Timestamp::now(),
        SessionEventPayload::MessageItem { message },
    )
}

fn blueprint() -> SessionBlueprint {
    SessionBlueprint {
        session_id: "ses_bench".into(),
        parent_session_id: None,
        created_at: Timestamp::now(),
        working_dir: "/".into(),
        default_model: "default".into(),
        system_prompt: Vec::new(),
        environment: EnvironmentSnapshot::default(),
        instructions: Vec::new(),
        snapshot_revision: "empty".into(),
        tools_revision: None,
        max_turns: None,
        bounds: Default::default(),
        budget: Default::default(),
        subagent_model: None,
        subagent_event_forwarding: Default::default(),
        subagent: None,
    }
}
