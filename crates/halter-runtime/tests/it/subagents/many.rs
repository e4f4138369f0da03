//! Many children at once, and schedules drawn from a seed.

use super::{last_word, task};
use crate::support::assert_everything_ended;
use futures::StreamExt;
use halter_protocol::{
    ApprovalChoice, SessionEvent, SessionEventPayload, SessionId, SessionState, Turn, UsageBuckets,
};
use halter_providers::{ProviderRequest, Reply};
use halter_runtime::Approvals;
use halter_session::{InMemorySessionStore, SessionStore, StoredState, read_events};
use halter_testkit::{EventsExt, Harness, ScriptedTool, TempWorkspace, within};
use serde_json::json;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LAST_EVENT: &str = "session_shutdown_complete";

fn one_token() -> UsageBuckets {
    UsageBuckets {
        output: 1,
        ..UsageBuckets::default()
    }
}

fn spawns(count: usize, message: &str, wait: bool) -> Reply {
    (0..count).fold(Reply::new(), |reply, _| {
        reply.tool_call("spawn_agent", json!({"message": message, "wait": wait}))
    })
}

/// The whole tree below a session, itself included, as it is stored.
async fn tree(store: &dyn SessionStore, root: &SessionId) -> Vec<(SessionId, SessionState)> {
    let mut waiting = VecDeque::from([root.clone()]);
    let mut all = Vec::new();
    while let Some(id) = waiting.pop_front() {
        let state = StoredState::read(store, &id).await.unwrap().state;
        waiting.extend(state.subagents.values().map(|it| it.session_id.clone()));
        all.push((id, state));
    }
    all
}

/// The tokens of a session and of all below it.
fn used(state: &SessionState) -> u64 {
    state.usage_so_far.output_tokens + state.subagent_usage.output_tokens
}

#[tokio::test]
async fn a_hundred_children_finish_roll_up_what_they_used_and_leave_nothing() {
    let harness = Harness::answering(|request| {
        let reply = match (task(request).as_str(), last_word(request).as_str()) {
            ("go", "go") => spawns(10, "branch", false),
            ("branch", "branch") => spawns(9, "leaf", true),
            _ => Reply::from("done"),
        };
        reply.usage(one_token())
    })
    .subagents()
    .services(|services| services.policy.max_concurrent_subagents = 100)
    .start();
    let session = harness.session().await;
    let started = Instant::now();
    harness.run(&session, "go").await;
    within("all children", session.settled()).await;
    // The model takes no time here: all of it is ours.
    let each = started.elapsed() / 100;
    println!("{each:?} for a child, from its start to its report");
    session.shutdown("enough").await.unwrap();
    let store = harness.store().as_ref();
    let all = tree(store, session.session_id()).await;
    assert_eq!(all.len(), 101);
    assert_eq!(used(&all[0].1), harness.requests().len() as u64);
    for (id, _) in all {
        let events = read_events(store, &id, 0, 10_000).await.unwrap();
        assert_everything_ended(&events);
        assert_eq!(*events.kinds().last().unwrap(), LAST_EVENT);
    }
    let left = harness.runtime().services().ledger.standing();
    assert!(left.is_empty());
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // Neighbouring seeds must not roll alike.
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// What a model of a seed does next: it depends on nothing but the seed and what
/// was said.
fn drawn(seed: u64, request: &ProviderRequest) -> Reply {
    let depth = task(request).len() as u64;
    let said = request.messages.len() as u64;
    let mut dice = Dice(seed ^ (depth << 32) ^ said.wrapping_mul(7_919));
    let deeper = "x".repeat(task(request).len() + 1);
    let reply = match dice.roll(9) {
        _ if said > 6 => Reply::from("enough"),
        0 => spawns(1, &deeper, true),
        1 => spawns(2, &deeper, false),
        2 => Reply::new().tool_call("send", json!({})),
        3 => Reply::new().tool_call(
            "wait_agent",
            json!({"targets": ["agent_1"], "timeout_ms": 5}),
        ),
        4 => Reply::new().tool_call(
            "send_input",
            json!({"target": "agent_1", "message": "more"}),
        ),
        5 => Reply::new().tool_call("close_agent", json!({"target": "agent_1"})),
        6 => Reply::error(
            halter_protocol::ProviderErrorKind::Fatal,
            "the service broke",
        ),
        _ => Reply::new()
            .delay(Duration::from_millis(dice.roll(20)))
            .text("done"),
    };
    reply.usage(one_token())
}

fn process(seed: u64, store: &Arc<dyn SessionStore>, place: &Arc<TempWorkspace>) -> Harness {
    Harness::answering(move |request| drawn(seed, request))
        .subagents()
        .tool(ScriptedTool::new("send").requires_approval().build())
        .store(store.clone())
        .workspace(place.clone())
        .services(|services| services.approvals = Approvals::Attended)
        .start()
}

/// Users and the world: answers, cancels, or nothing for a while.
async fn live(dice: &mut Dice, session: &halter_runtime::SessionHandle, most: u64) {
    let mut events = session.subscribe_after(session.head());
    let turn = session.submit_turn(Turn::user("x")).await.unwrap();
    drop(turn);
    let cancel_at = dice.roll(40);
    let settled = session.settled();
    tokio::pin!(settled);
    for count in 0..most {
        if count == cancel_at {
            session.cancel().await.unwrap();
        }
        let event = tokio::select! {
            biased;
            event = events.next() => event,
            () = &mut settled => return,
            () = tokio::time::sleep(Duration::from_secs(60)) => {
                session.cancel().await.unwrap();
                continue;
            }
        };
        let Some(Ok(event)) = event else { return };
        if let SessionEventPayload::ApprovalRequested(request) = event.payload {
            let choice = match dice.roll(4) {
                0 => continue,
                1 => ApprovalChoice::Deny,
                _ => ApprovalChoice::Once,
            };
            let _ = session.resolve_approval(&request.approval_id, choice).await;
        }
    }
}

/// Each start has an end, each question one answer, and the session is shut down.
fn check(events: &[SessionEvent], seed: u64) {
    let mut running = HashMap::new();
    let mut asked = HashMap::new();
    for event in events {
        match &event.payload {
            SessionEventPayload::SubagentStarted { subagent } => {
                let before = running.insert(subagent.agent_id.clone(), true);
                assert_ne!(before, Some(true), "seed {seed}: {subagent:?} starts twice");
            }
            SessionEventPayload::SubagentEnded { subagent, .. } => {
                let before = running.insert(subagent.agent_id.clone(), false);
                assert!(before.is_some(), "seed {seed}: {subagent:?} never started");
            }
            SessionEventPayload::ApprovalRequested(request) => {
                asked.insert(request.approval_id.clone(), false);
            }
            SessionEventPayload::ApprovalResolved { approval_id, .. } => {
                let before = asked.insert(approval_id.clone(), true);
                assert_eq!(
                    before,
                    Some(false),
                    "seed {seed}: {approval_id} is resolved once"
                );
            }
            _ => {}
        }
    }
    assert!(running.values().all(|it| !it), "seed {seed}: {running:?}");
    assert!(asked.values().all(|it| *it), "seed {seed}: {asked:?}");
    assert_everything_ended(events);
    assert_eq!(*events.kinds().last().unwrap(), LAST_EVENT, "seed {seed}");
}

/// Runs in time that passes only while everything waits. What still runs
/// afterwards is gone at once, wherever it is.
fn in_paused_time<F: Future>(what: &str, future: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(within(what, future))
}

type Counts = BTreeMap<String, usize>;

/// Grows the tree of a seed, to its end or to a crash and from there to its end.
fn grow(seed: u64, place: &Arc<TempWorkspace>, counts: &mut Counts) {
    let shared: Arc<dyn SessionStore> = Arc::new(InMemorySessionStore::new());
    let mut dice = Dice(seed);
    let crashes = dice.roll(3) == 0;
    let what = format!("the tree of seed {seed}");
    let root = in_paused_time(&what, async {
        let harness = process(seed, &shared, place);
        let session = harness.session().await;
        let most = if crashes { dice.roll(60) } else { 10_000 };
        live(&mut dice, &session, most).await;
        if !crashes {
            session.settled().await;
            session.shutdown("enough").await.unwrap();
        }
        session.session_id().clone()
    });
    let store = shared.as_ref();
    in_paused_time(&what, async {
        if crashes {
            take_up(&mut dice, &process(seed, &shared, place), &root).await;
            *counts.entry("crashes".to_owned()).or_default() += 1;
        }
        let sessions = tree(store, &root).await;
        for (id, state) in &sessions {
            let events = read_events(store, id, 0, 10_000).await.unwrap();
            for event in &events {
                *counts.entry(event.payload.kind().to_owned()).or_default() += 1;
            }
            check(&events, seed);
            let mut below = 0;
            for child in state.subagents.values() {
                assert!(child.state.is_terminal(), "seed {seed}: {child:?}");
                let (_, child) = sessions.iter().find(|it| it.0 == child.session_id).unwrap();
                below += used(child);
            }
            // What a child used and had not reported at a crash, only it knows.
            let rolled_up = state.subagent_usage.output_tokens;
            assert!(
                rolled_up == below || crashes,
                "seed {seed}: {id}: {rolled_up} of {below}"
            );
        }
    });
}

/// Goes on after a crash: with the root, and with whatever below it the root
/// left as it was.
async fn take_up(dice: &mut Dice, harness: &Harness, root: &SessionId) {
    let session = harness.runtime().resume(root).await.unwrap().unwrap();
    live(dice, &session, 10_000).await;
    session.settled().await;
    session.shutdown("enough").await.unwrap();
    let store = harness.store().as_ref();
    for (id, _) in tree(store, root).await {
        let events = read_events(store, &id, 0, 10_000).await.unwrap();
        if *events.kinds().last().unwrap() != LAST_EVENT {
            let session = harness.runtime().resume(&id).await.unwrap().unwrap();
            session.shutdown("enough").await.unwrap();
        }
    }
}

#[test]
fn two_thousand_random_trees_keep_every_promise() {
    const THREADS: u64 = 2;
    let part = |of: u64| {
        let place = Arc::new(TempWorkspace::new());
        let mut counts = Counts::new();
        for seed in (0..2_000).filter(|seed| seed % THREADS == of) {
            grow(seed, &place, &mut counts);
        }
        counts
    };
    let mut counts = Counts::new();
    std::thread::scope(|scope| {
        let part = &part;
        let threads: Vec<_> = (0..THREADS)
            .map(|of| scope.spawn(move || part(of)))
            .collect();
        for (kind, count) in threads.into_iter().flat_map(|it| it.join().unwrap()) {
            *counts.entry(kind).or_default() += count;
        }
    });
    println!("{counts:?}");
    for (kind, least) in [
        ("subagent_started", 2_000),
        ("approval_requested", 500),
        ("turn_interrupted", 300),
        ("crashes", 300),
        ("turn_failed", 500),
    ] {
        let count = counts.get(kind).copied().unwrap_or_default();
        assert!(count >= least, "{kind}: {count} of {counts:?}");
    }
}
