//! Many writers at once.

use halter_protocol::{SessionEventPayload, TurnId};
use halter_session::conformance::{blueprint, pending};
use halter_session::limits::SQLITE_QUEUE_REQUESTS;
use halter_session::{
    Durability, DurabilityPolicy, InMemorySessionStore, SessionLog, SessionRecord, SessionStore,
    SqliteSessionStore, read_events,
};
use std::sync::Arc;

const WRITERS: usize = 100;
const APPENDS: u64 = 20;

async fn hundred_writers(store: Arc<dyn SessionStore>) {
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let id = format!("ses_{number}");
                let policy = DurabilityPolicy::Process;
                let mut log = SessionLog::create(store, blueprint(&id), policy).await?;
                for round in 0..APPENDS {
                    let turn_id = TurnId(format!("turn_{number}_{round}"));
                    let payload = SessionEventPayload::TurnStarted {
                        turn_id,
                        response_schema: None,
                    };
                    let event = pending(&id, 1, payload);
                    let level = match round % 7 {
                        0 => Durability::PowerSafe,
                        1 | 2 => Durability::Buffered,
                        _ => Durability::Durable,
                    };
                    log.append(vec![event], level).await?;
                }
                Ok::<_, halter_session::StoreError>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    for number in 0..WRITERS {
        let id = format!("ses_{number}").as_str().into();
        let events = read_events(store.as_ref(), &id, 0, 1_000).await.unwrap();
        let turns: Vec<_> = events.into_iter().map(|event| event.payload).collect();
        let expected: Vec<_> = (0..APPENDS)
            .map(|round| SessionEventPayload::TurnStarted {
                turn_id: TurnId(format!("turn_{number}_{round}")),
                response_schema: None,
            })
            .collect();
        assert_eq!(turns, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_sessions_in_memory() {
    hundred_writers(Arc::new(InMemorySessionStore::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_sessions_in_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sessions.db");
    let store = Arc::new(SqliteSessionStore::open(path).await.unwrap());
    hundred_writers(store.clone()).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_hundred_sessions_in_sqlite_on_one_thread() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sessions.db");
    let store = Arc::new(SqliteSessionStore::open(path).await.unwrap());
    hundred_writers(store.clone()).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn more_requests_than_the_queue_holds_wait_their_turn() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sessions.db");
    let store = Arc::new(SqliteSessionStore::open(path).await.unwrap());
    let requests: Vec<_> = (0..SQLITE_QUEUE_REQUESTS * 3)
        .map(|number| {
            let store = store.clone();
            let record = SessionRecord::new(blueprint(&format!("ses_{number}")));
            tokio::spawn(async move { store.create(record).await })
        })
        .collect();
    for request in requests {
        request.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn two_stores_on_one_file_fence_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sessions.db");
    let open = async || {
        let store = SqliteSessionStore::open(&path).await.unwrap();
        Arc::new(store) as Arc<dyn SessionStore>
    };
    let (first, second) = (open().await, open().await);
    let policy = DurabilityPolicy::Process;
    let mut old = SessionLog::create(first, blueprint("ses_1"), policy)
        .await
        .unwrap();
    let turn = |name: &str| {
        let payload = SessionEventPayload::TurnStarted {
            turn_id: name.into(),
            response_schema: None,
        };
        vec![pending("ses_1", 1, payload)]
    };
    old.append(turn("turn_1"), Durability::Durable)
        .await
        .unwrap();
    let mut new = SessionLog::open(second, &"ses_1".into(), policy)
        .await
        .unwrap();
    new.append(turn("turn_2"), Durability::Durable)
        .await
        .unwrap();
    let lost = old.append(turn("turn_3"), Durability::Durable).await;
    assert!(lost.unwrap_err().is_conflict());
    assert_eq!(new.head(), 2);
}

#[tokio::test]
async fn stores_opened_at_once_agree_on_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sessions.db");
    let opening: Vec<_> = (0..8)
        .map(|_| tokio::spawn(SqliteSessionStore::open(path.clone())))
        .collect();
    for (number, store) in opening.into_iter().enumerate() {
        let store = Arc::new(store.await.unwrap().unwrap());
        let id = format!("ses_{number}");
        let log = SessionLog::create(store, blueprint(&id), DurabilityPolicy::Power).await;
        log.unwrap();
    }
}
