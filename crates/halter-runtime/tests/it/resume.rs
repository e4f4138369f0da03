//! Sessions that another process, or a crash, interrupted.

use crate::support::{assert_everything_ended, both_stores, code, is_kind};
use halter_protocol::{
    Message, SCHEMA_VERSION, SessionEvent, SessionId, ToolErrorCode, Turn, fold::fold_events,
};
use halter_session::{
    AppendBatch, Durability, EventRecord, InMemorySessionStore, SessionCommitConflict,
    SessionRecord, SessionStore, SqliteSessionStore,
};
use halter_testkit::events::collect_until;
use halter_testkit::{
    EventsExt, FaultyStore, Gate, Harness, Reply, ScriptedTool, TempWorkspace, collect,
    collect_until_error, render, within,
};
use serde_json::json;
use std::sync::Arc;

/// Runs a harness in a tokio runtime of its own until `happens`, then drops the
/// runtime with everything in it: tasks end wherever they are, as in a crash.
fn crash<T: Send>(scene: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let crashed = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(scene)
        });
        crashed.join().unwrap()
    })
}

async fn resumed_log(
    store: &Arc<dyn SessionStore>,
    workspace: &Arc<TempWorkspace>,
    id: &SessionId,
) -> Vec<SessionEvent> {
    let harness = Harness::scripted(["I see."])
        .store(store.clone())
        .workspace(workspace.clone())
        .start();
    let session = harness.runtime().resume(id).await.unwrap().unwrap();
    let events = harness.run(&session, "go on").await;
    assert_eq!(
        events.kinds().last(),
        Some(&"turn_completed"),
        "{}",
        render(&events)
    );
    let log = session.replay().await.unwrap();
    log.assert_gap_free();
    assert_everything_ended(&log);
    log
}

#[tokio::test]
async fn invariant_03_a_call_that_ran_when_the_process_died_has_an_unknown_outcome() {
    let workspace = Arc::new(TempWorkspace::new());
    for (name, store) in both_stores(&workspace).await {
        let id = crash({
            let (store, workspace) = (store.clone(), workspace.clone());
            async move {
                let never = Gate::new();
                let write = ScriptedTool::new("write")
                    .mutating()
                    .waits_at(&never)
                    .build();
                let reply = Reply::new()
                    .tool_call("write", json!({"n": 1}))
                    .tool_call("write", json!({"n": 2}));
                let harness = Harness::scripted([reply])
                    .tool(write)
                    .store(store)
                    .workspace(workspace)
                    .start();
                let session = harness.session().await;
                let _turn = session.submit_turn(Turn::user("write")).await.unwrap();
                within("the tool", never.reached()).await;
                session.session_id().clone()
            }
        });
        let log = resumed_log(&store, &workspace, &id).await;
        let codes: Vec<_> = log
            .messages()
            .into_iter()
            .filter_map(|message| match message {
                Message::Tool(tool) => Some(tool.error.clone().unwrap().code),
                _ => None,
            })
            .collect();
        assert_eq!(
            codes,
            [ToolErrorCode::OutcomeUnknown, ToolErrorCode::Cancelled],
            "{name}"
        );
        let failed = &log[log.position("turn_failed")];
        assert!(render(std::slice::from_ref(failed)).ends_with("interrupted retryable"));
    }
}

#[tokio::test]
async fn invariant_03_a_result_that_was_committed_is_not_forgotten() {
    let workspace = Arc::new(TempWorkspace::new());
    let store: Arc<dyn SessionStore> = Arc::new(InMemorySessionStore::new());
    let id = crash({
        let (store, workspace) = (store.clone(), workspace.clone());
        async move {
            let never = Gate::new();
            let first = ScriptedTool::new("first").returns("done already").build();
            let second = ScriptedTool::new("second").waits_at(&never).build();
            let reply = Reply::new()
                .tool_call("first", json!({}))
                .tool_call("second", json!({}));
            let harness = Harness::scripted([reply])
                .tools([first as _, second as _])
                .store(store)
                .workspace(workspace)
                .start();
            let session = harness.session().await;
            let _turn = session.submit_turn(Turn::user("go")).await.unwrap();
            within("the tool", never.reached()).await;
            session.session_id().clone()
        }
    });
    let log = resumed_log(&store, &workspace, &id).await;
    let rendered = render(&log);
    assert!(
        rendered.contains("message_item tool c1 \"done already\""),
        "{rendered}"
    );
    assert!(rendered.contains("message_item tool c2 error outcome_unknown"));
}

#[tokio::test]
async fn a_process_that_died_while_the_model_talked_leaves_the_prompt() {
    let workspace = Arc::new(TempWorkspace::new());
    let store: Arc<dyn SessionStore> = Arc::new(InMemorySessionStore::new());
    let id = crash({
        let (store, workspace) = (store.clone(), workspace.clone());
        async move {
            let never = Gate::new();
            let look = ScriptedTool::new("look").read_only().build();
            let reply = Reply::new()
                .text("a")
                .tool_call("look", json!({}))
                .gate(&never);
            let harness = Harness::scripted([reply])
                .tool(look)
                .store(store)
                .workspace(workspace)
                .start();
            let session = harness.session().await;
            let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
            collect_until(&mut turn, is_kind("tool_execution_completed")).await;
            session.session_id().clone()
        }
    });
    let log = resumed_log(&store, &workspace, &id).await;
    // The early call belongs to no message: nothing of it reaches the model.
    let roles: Vec<_> = log
        .messages()
        .iter()
        .map(|m| serde_json::to_value(m).unwrap()["role"].clone())
        .collect();
    assert_eq!(roles, ["user", "user", "assistant"]);
    let state = fold_events(log.iter().map(|event| &event.payload));
    assert!(state.pending_tool_calls.is_empty());
}

#[tokio::test]
async fn a_session_survives_the_process_in_sqlite() {
    let workspace = Arc::new(TempWorkspace::new());
    let path = workspace.beside("sessions.db");
    let id = {
        let store = SqliteSessionStore::open(&path).await.unwrap();
        let harness = Harness::scripted(["one"])
            .store(Arc::new(store))
            .workspace(workspace.clone())
            .start();
        let session = harness.session().await;
        harness.run(&session, "first").await;
        let id = session.session_id().clone();
        drop(session);
        harness.store().close().await.unwrap();
        id
    };
    let store: Arc<dyn SessionStore> = Arc::new(SqliteSessionStore::open(&path).await.unwrap());
    let log = resumed_log(&store, &workspace, &id).await;
    assert_eq!(log.messages().len(), 4);
    assert_eq!(log.of_kind("session_resumed").len(), 1);
}

#[tokio::test]
async fn resuming_a_live_session_returns_it() {
    let harness = Harness::scripted(["one"]).start();
    let session = harness.session().await;
    let same = harness.resume(&session).await;
    harness.run(&same, "hi").await;
    let log = session.replay().await.unwrap();
    assert!(log.of_kind("session_resumed").is_empty());
}

#[tokio::test]
async fn resuming_at_the_same_time_gives_one_session() {
    let store = Arc::new(FaultyStore::in_memory());
    let first = Harness::scripted(["one"]).store(store.clone()).start();
    let session = first.session().await;
    first.run(&session, "hi").await;
    let second = Arc::new(first.another_process(["two", "three"]).start());
    let take_up = || {
        let (harness, id) = (second.clone(), session.session_id().clone());
        tokio::spawn(async move { harness.runtime().resume(&id).await })
    };
    let gate = Gate::new();
    store.hold_next_append(&gate);
    let a = take_up();
    within("the first has opened the session", gate.reached()).await;
    let b = take_up();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    gate.open();
    let a = a.await.unwrap().unwrap().unwrap();
    let b = b.await.unwrap().unwrap().unwrap();
    assert_eq!(second.run(&a, "x").await.streamed_text(), "two");
    assert_eq!(second.run(&b, "y").await.streamed_text(), "three");
    let log = a.replay().await.unwrap();
    assert_eq!(log.of_kind("session_resumed").len(), 1);
}

#[tokio::test]
async fn a_session_that_was_shut_down_can_be_resumed() {
    let harness = Harness::scripted(["one", "two"]).start();
    let session = harness.session().await;
    harness.run(&session, "a").await;
    session.shutdown("for now").await.unwrap();
    let again = harness.resume(&session).await;
    assert_eq!(harness.run(&again, "b").await.streamed_text(), "two");
}

#[tokio::test]
async fn there_is_nothing_to_resume_where_nothing_is_stored() {
    let harness = Harness::echoing().start();
    let found = harness.runtime().resume(&SessionId::new()).await.unwrap();
    assert!(found.is_none());
}

#[tokio::test]
async fn the_writer_that_was_overtaken_gets_a_conflict_it_can_name() {
    let workspace = TempWorkspace::new();
    for (name, store) in both_stores(&workspace).await {
        let first = Harness::echoing().store(store).start();
        let session = first.session().await;
        first.run(&session, "mine").await;
        let second = first.another_process(["theirs"]).start();
        let taken = second.resume(&session).await;
        second.run(&taken, "hello").await;

        let turn = session.submit_turn(Turn::user("mine?")).await.unwrap();
        let (events, error) = collect_until_error(turn).await;
        assert!(events.is_empty(), "{name}: nothing was committed");
        let error = error.unwrap();
        assert_eq!(code(&error), "session_stale_writer", "{name}");
        let conflict = error
            .chain()
            .find_map(|cause| cause.downcast_ref::<SessionCommitConflict>())
            .or_else(|| error.downcast_ref::<SessionCommitConflict>())
            .unwrap_or_else(|| panic!("{name}: no conflict in {error:?}"));
        assert_eq!(conflict.session_id, *session.session_id());
    }
}

#[tokio::test]
async fn a_session_can_be_taken_back_by_resuming_it() {
    let first = Harness::echoing().start();
    let session = first.session().await;
    first.run(&session, "mine").await;
    let second = first.another_process(["theirs"]).start();
    let taken = second.resume(&session).await;
    second.run(&taken, "hello").await;
    let turn = session.submit_turn(Turn::user("mine?")).await.unwrap();
    assert!(collect_until_error(turn).await.1.is_some());

    let back = first.resume(&session).await;
    let events = first.run(&back, "mine again").await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    let log = back.replay().await.unwrap();
    log.assert_gap_free();
    assert_everything_ended(&log);
}

#[tokio::test]
async fn a_session_written_by_a_newer_version_is_refused_and_left_alone() {
    let first = Harness::scripted(["one"]).start();
    let session = first.session().await;
    let mut blueprint = session.blueprint().clone();
    blueprint.session_id = "ses_newer".into();
    let record = SessionRecord {
        blueprint,
        schema_version: SCHEMA_VERSION + 1,
    };
    let token = first.store().create(record).await.unwrap();
    let refused = first.runtime().resume(&"ses_newer".into()).await;
    let error = refused.err().unwrap();
    assert_eq!(code(&error), "store_too_new");
    assert!(error.to_string().contains("newer program"));
    let acquired = first.store().acquire(&"ses_newer".into()).await.unwrap();
    assert_eq!(
        acquired.epoch,
        token.epoch + 1,
        "its writer was not pushed out"
    );
}

#[tokio::test]
async fn a_session_whose_directory_is_gone_is_refused() {
    let harness = Harness::echoing().start();
    let place = harness.workspace().join("place");
    std::fs::create_dir(&place).unwrap();
    let init = halter_runtime::SessionInit::default().with_working_dir(&place);
    let session = harness.session_with(init.clone()).await;
    let id = session.session_id().clone();
    session.shutdown("bye").await.unwrap();
    std::fs::remove_dir(&place).unwrap();
    let error = harness.runtime().resume(&id).await.err().unwrap();
    assert_eq!(code(&error), "working_dir_missing");
    assert!(error.to_string().contains("place"));
    let error = harness.runtime().new_session(init).await.err().unwrap();
    assert_eq!(code(&error), "working_dir_missing");
}

#[tokio::test]
async fn sessions_are_listed_and_deleted() {
    let harness = Harness::scripted(["one"]).start();
    let session = harness.session().await;
    harness.run(&session, "my task").await;
    let page = harness
        .runtime()
        .list_sessions(Default::default())
        .await
        .unwrap();
    assert_eq!(page.sessions[0].title.as_deref(), Some("my task"));
    let id = session.session_id();
    assert!(harness.runtime().delete_session(id).await.unwrap());
    assert!(!harness.runtime().delete_session(id).await.unwrap());
    let page = harness
        .runtime()
        .list_sessions(Default::default())
        .await
        .unwrap();
    assert!(page.sessions.is_empty());
    let error = session.submit_turn(Turn::user("?")).await.err().unwrap();
    assert_eq!(code(&error), "session_closed");
}

#[tokio::test]
async fn dropping_every_handle_lets_the_turn_finish() {
    let gate = Gate::new();
    let harness =
        Harness::scripted([Reply::new().gate(&gate).text("done"), "again".into()]).start();
    let session = harness.session().await;
    let id = session.session_id().clone();
    let mut all = session.subscribe();
    drop(session.submit_turn(Turn::user("go")).await.unwrap());
    drop(session);
    within("the request", gate.reached()).await;
    gate.open();
    collect_until(&mut all, is_kind("turn_completed")).await;
    drop(all);
    let resumed = harness.runtime().resume(&id).await.unwrap().unwrap();
    let events = collect(resumed.submit_turn(Turn::user("and?")).await.unwrap()).await;
    assert_eq!(events.streamed_text(), "again");
}

#[tokio::test]
async fn invariant_12_what_a_newer_version_wrote_is_kept_and_not_fatal() {
    let workspace = Arc::new(TempWorkspace::new());
    for (name, store) in both_stores(&workspace).await {
        let first = Harness::scripted(["one"])
            .store(store.clone())
            .workspace(workspace.clone())
            .start();
        let session = first.session().await;
        first.run(&session, "hi").await;
        let id = session.session_id().clone();
        let token = store.acquire(&id).await.unwrap();
        let head = store.open(&id).await.unwrap().head;
        let json: Arc<str> = format!(
            r#"{{"session_id":"{id}","sequence":{},"delivery":"lossless","at":"2026-01-02T03:04:05Z","payload":{{"kind":"dream","of":[1.10,  "sheep"]}},"mood":"calm"}}"#,
            head + 1
        )
        .into();
        let batch = AppendBatch {
            events: vec![EventRecord {
                sequence: head + 1,
                json: json.clone(),
            }],
            ..AppendBatch::default()
        };
        store
            .append(&token, head, batch, Durability::Durable)
            .await
            .unwrap();

        let log = resumed_log(&store, &workspace, &id).await;
        let dream = log.of_kind("dream");
        assert_eq!(dream.len(), 1, "{name}");
        let kept = store.read(&id, head, 1).await.unwrap();
        assert_eq!(kept[0].json, json, "{name}: byte for byte");
    }
}

/// Told once, by the first turn of the process that has other tools.
#[tokio::test]
async fn other_tools_than_the_last_process_had_are_a_cache_break() {
    let look = || ScriptedTool::new("look").build();
    let first = Harness::scripted(["one"]).tool(look()).start();
    let session = first.session().await;
    first.run(&session, "begin").await;

    let same = first.another_process(["two"]).start();
    let resumed = same.resume(&session).await;
    let events = same.run(&resumed, "same tools").await;
    assert!(
        !events.kinds().contains(&"cache_break"),
        "{}",
        render(&events)
    );

    let more = same.another_process(["three", "four"]);
    let more = more.tool(ScriptedTool::new("touch").build()).start();
    let resumed = more.resume(&session).await;
    let events = more.run(&resumed, "more tools").await;
    assert!(render(&events).contains("cache_break tools_replaced"));
    let events = more.run(&resumed, "still").await;
    assert!(!events.kinds().contains(&"cache_break"), "told once");

    let again = more.another_process(["five"]).start();
    let resumed = again.resume(&session).await;
    let events = again.run(&resumed, "the same as last time").await;
    assert!(
        !events.kinds().contains(&"cache_break"),
        "{}",
        render(&events)
    );
}

#[tokio::test]
async fn reading_a_stored_session_writes_nothing_and_takes_it_from_nobody() {
    let harness = Harness::scripted(["one", "two"]).start();
    let session = harness.session().await;
    harness.run(&session, "first").await;
    let head = session.head();

    let other = harness.another_process(["unused"]).start();
    let id = session.session_id();
    let reader = other.runtime().read_session(id).await.unwrap().unwrap();
    assert_eq!(reader.head(), head);
    assert_eq!(reader.blueprint(), session.blueprint());
    assert_eq!(reader.state().messages.len(), 2);
    let read = reader.replay().await.unwrap();
    assert_eq!(read, session.replay().await.unwrap());
    assert_eq!(read.len() as u64, head, "nothing was added");
    assert!(reader.export_trace().await.unwrap().contains("first"));

    let events = harness.run(&session, "second").await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    let none = other.runtime().read_session(&"ses_none".into()).await;
    assert!(none.unwrap().is_none());
}

#[test]
fn a_session_outside_of_tokio_is_an_error() {
    let harness = Harness::echoing().start();
    let init = halter_runtime::SessionInit::default();
    let started = futures::executor::block_on(harness.runtime().new_session(init));
    let error = started.unwrap_err();
    assert_eq!(crate::support::code(&error), "no_tokio_runtime");
}
