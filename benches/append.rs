//! What an append to SQLite costs, early and late in a long session.

use halter_bench::measure::{cpu_time, median};
use halter_bench::report::{Claim, print};
use halter_protocol::{
    EnvironmentSnapshot, Message, PendingEvent, SessionBlueprint, SessionEventPayload, Timestamp,
    UserMessage,
};
use halter_session::{Durability, DurabilityPolicy, SessionLog, SqliteSessionStore};
use std::sync::Arc;

const EVENTS: usize = 100_000;
const WINDOW: usize = 2_000;
const ROUNDS: usize = 5;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        ratios.push(runtime.block_on(late_over_early())?);
    }
    print(&Claim {
        what: "CPU of an append at event 100,000 over that at event 100",
        value: median(ratios),
        limit: 1.25,
        unit: "x",
    });
    Ok(())
}

/// The cost of the last window of appends over that of the first, which starts
/// at event 100. Checkpoints, which come at doubling distances, are in neither.
async fn late_over_early() -> anyhow::Result<f64> {
    let directory = tempfile::tempdir()?;
    let store = Arc::new(SqliteSessionStore::open(directory.path().join("sessions.db")).await?);
    let mut log = SessionLog::create(store, blueprint(), DurabilityPolicy::Process).await?;
    let mut marks = Vec::new();
    for number in 0..EVENTS {
        if [100, 100 + WINDOW, EVENTS - WINDOW].contains(&number) {
            marks.push(cpu_time());
        }
        log.append(vec![event(number)], Durability::Durable).await?;
    }
    marks.push(cpu_time());
    let [start, early, late, end] = marks.as_slice() else {
        anyhow::bail!("not all windows were measured");
    };
    Ok((*end - *late).as_secs_f64() / (*early - *start).as_secs_f64())
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
        snapshot_revision: "empty".into(),
        tools_revision: None,
        max_turns: None,
    }
}
