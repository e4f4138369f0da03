//! Random sessions: whatever is appended, in whatever portions, the state is
//! the fold of the log and opening the session gives it back.

use halter_protocol::fold::fold_events;
use halter_protocol::{
    ContentPart, Message, ReplayMeta, SessionEvent, SessionEventPayload, Timestamp, ToolCall,
    ToolError, ToolErrorCode, ToolExecutionOutcome, ToolMessage, ToolResult, TurnError, TurnId,
    Usage,
};
use halter_session::conformance::{blueprint, pending};
use halter_session::limits::MAX_INLINE_STRING_BYTES;
use halter_session::{
    Durability, DurabilityPolicy, InMemorySessionStore, SessionLog, SessionStore,
    SqliteSessionStore, read_events,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn text() -> impl Strategy<Value = String> {
    let near = MAX_INLINE_STRING_BYTES - 2..MAX_INLINE_STRING_BYTES + 3;
    prop_oneof![
        8 => ".{0,40}",
        1 => near.prop_map(|length| "n".repeat(length)),
        1 => (".", 1usize..4).prop_map(|(c, times)| c.repeat(MAX_INLINE_STRING_BYTES * times)),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |n| serde_json::Number::from_f64(n)
            .map(Value::Number)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(("[a-z/~\"]{0,3}|blobs", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn result() -> impl Strategy<Value = ToolResult> {
    prop_oneof![
        Just(ToolResult::Empty),
        text().prop_map(ToolResult::text),
        value().prop_map(ToolResult::json),
        proptest::collection::vec(part(), 0..3).prop_map(ToolResult::parts),
    ]
}

fn part() -> impl Strategy<Value = ContentPart> {
    // In base64, three bytes are four.
    let edge = MAX_INLINE_STRING_BYTES / 4 * 3;
    let length = || prop_oneof![0usize..40, edge - 2..edge + 3, Just(3 * edge)];
    let bytes = || (any::<u8>(), length()).prop_map(|(byte, length)| vec![byte; length]);
    prop_oneof![
        text().prop_map(ContentPart::text),
        bytes().prop_map(|data| ContentPart::image("image/png", data)),
        bytes().prop_map(|data| ContentPart::document("application/pdf", data)),
    ]
}

fn call() -> impl Strategy<Value = ToolCall> {
    (0u8..4, value()).prop_map(|(number, arguments)| ToolCall {
        id: format!("call_{number}").as_str().into(),
        name: "tool".into(),
        arguments,
    })
}

fn message() -> impl Strategy<Value = Message> {
    let at = Timestamp::UNIX_EPOCH;
    let user = (text(), part()).prop_map(move |(text, part)| {
        json!({"role": "user", "id": "msg_u", "created_at": at,
               "parts": [{"kind": "text", "text": text}, part]})
    });
    let assistant = (text(), proptest::collection::vec(call(), 0..3)).prop_map(move |(text, calls)| {
        let calls = calls.into_iter().map(|call| {
            json!({"kind": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments})
        });
        let text = json!({"kind": "thinking", "text": text, "opaque": {"wire": "w", "data": text}});
        json!({"role": "assistant", "id": "msg_a", "created_at": at,
               "parts": std::iter::once(text).chain(calls).collect::<Vec<_>>(),
               "usage": {"buckets": {"output": 1}}})
    });
    let tool = (call(), result()).prop_map(move |(call, content)| {
        serde_json::to_value(Message::Tool(ToolMessage {
            id: "msg_t".into(),
            call_id: call.id,
            tool_name: call.name,
            content: content.into(),
            error: None,
            created_at: at,
            loaded: Vec::new(),
        }))
        .unwrap()
    });
    prop_oneof![user, assistant, tool].prop_map(|json| serde_json::from_value(json).unwrap())
}

fn payload() -> impl Strategy<Value = SessionEventPayload> {
    let turn_id = || (0u8..3).prop_map(|number| TurnId(format!("turn_{number}")));
    let error = text().prop_map(|text| ToolError::new(ToolErrorCode::Failed, text));
    let outcome = (
        call(),
        prop_oneof![result().prop_map(Ok), error.prop_map(Err)],
    )
        .prop_map(|(call, result)| ToolExecutionOutcome::new(call, result.map(Into::into)));
    prop_oneof![
        3 => message().prop_map(|message| SessionEventPayload::MessageItem { message: Arc::new(message) }),
        2 => outcome.prop_map(|outcome| SessionEventPayload::ToolExecutionCompleted { outcome }),
        1 => call().prop_map(|call| SessionEventPayload::ToolExecutionStarted { call }),
        1 => turn_id().prop_map(|turn_id| SessionEventPayload::TurnStarted { turn_id, response_schema: None }),
        1 => turn_id().prop_map(|turn_id| SessionEventPayload::TurnCompleted { turn_id, usage: Usage::default(), structured_output: None, answered_by: ReplayMeta::default() }),
        1 => (turn_id(), text()).prop_map(|(turn_id, text)| SessionEventPayload::TurnFailed {
            turn_id, error: TurnError::new("code", text), cancelled: true, retryable: false, usage: Usage::default(),
            answered_by: ReplayMeta::default(),
        }),
        1 => value().prop_map(|value| {
            serde_json::from_value(json!({"kind": "from_the_future", "value": value})).unwrap()
        }),
    ]
}

async fn all_payloads(store: &dyn SessionStore) -> Vec<SessionEvent> {
    let mut events: Vec<SessionEvent> = Vec::new();
    loop {
        let page = read_events(store, &"ses_1".into(), events.len() as u64, 7).await;
        match page.unwrap() {
            page if page.is_empty() => return events,
            page => events.extend(page),
        }
    }
}

async fn check(store: Arc<dyn SessionStore>, portions: &[Vec<SessionEventPayload>]) {
    let policy = DurabilityPolicy::Process;
    let created = SessionLog::create(store.clone(), blueprint("ses_1"), policy).await;
    let mut log = created.unwrap();
    let mut committed = Vec::new();
    for portion in portions {
        let events = portion
            .iter()
            .map(|payload| pending("ses_1", 1, payload.clone()))
            .collect();
        committed.extend(log.append(events, Durability::Durable).await.unwrap());
        let stored = all_payloads(store.as_ref()).await;
        assert!(stored.iter().eq(committed.iter().map(Arc::as_ref)));
        let folded = fold_events(stored.iter().map(|event| &event.payload));
        assert_eq!(&folded, log.state());
    }
    let reopened = SessionLog::open(store, &"ses_1".into(), policy)
        .await
        .unwrap();
    assert_eq!(reopened.state(), log.state());
    assert_eq!(reopened.head(), log.head());
}

fn on_a_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(test);
}

fn portions() -> impl Strategy<Value = Vec<Vec<SessionEventPayload>>> {
    proptest::collection::vec(proptest::collection::vec(payload(), 0..6), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_state_is_the_fold_in_memory(portions in portions()) {
        on_a_runtime(check(Arc::new(InMemorySessionStore::new()), &portions));
    }

    #[test]
    fn the_state_is_the_fold_in_sqlite(portions in portions()) {
        on_a_runtime(async {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("sessions.db");
            let store = Arc::new(SqliteSessionStore::open(path).await.unwrap());
            check(store.clone(), &portions).await;
            store.close().await.unwrap();
        });
    }
}
