//! Long sessions: what models see when not everything fits.

use crate::support::{answering, code, text_of};
use halter_hooks::{Hook, HookEventName, HookResponse};
use halter_protocol::{
    CompactionReason, CompactionTier, ContextCompaction, ProviderErrorKind, ResourceSnapshot,
    SessionEvent, SessionEventPayload, SkillDef, ToolResult, Transcript,
};
use halter_providers::{ProviderRequest, check_pairing};
use halter_runtime::limits::SUMMARY_DEADLINE;
use halter_runtime::{ContextSettings, Resources, SessionHandle, StandardContext};
use halter_testkit::{EventsExt, Gate, Harness, HarnessBuilder, Reply, ScriptedTool};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const SUMMARY: &str = "## Goal\nCount to the end. The word is xyzzy.";

fn is_for_summary(request: &ProviderRequest) -> bool {
    let first = request.prompt.segments().first();
    first.is_some_and(|segment| segment.text.starts_with("You write the memory"))
}

/// A model that calls `count` so many times, and writes summaries.
fn counting(steps: usize) -> impl Fn(&ProviderRequest) -> Reply + Send + Sync {
    let asked = AtomicUsize::new(0);
    move |request| {
        if is_for_summary(request) {
            assert!(request.tools.is_empty());
            return Reply::new().text(SUMMARY);
        }
        match asked.fetch_add(1, Ordering::SeqCst) {
            step if step < steps => Reply::new().tool_call("count", json!({"step": step})),
            _ => Reply::new().text("done"),
        }
    }
}

fn count(bytes: usize) -> Arc<ScriptedTool> {
    let tool = ScriptedTool::new("count").runs(move |_, input| async move {
        Ok(ToolResult::text(format!("{input} {}", "x".repeat(bytes))))
    });
    tool.build()
}

fn small_context(builder: HarnessBuilder, threshold: u64) -> HarnessBuilder {
    builder.services(|services| {
        services.context_manager = Arc::new(StandardContext::new(ContextSettings {
            threshold: Some(threshold),
            target: None,
        }));
    })
}

fn compactions(events: &[SessionEvent]) -> Vec<Arc<ContextCompaction>> {
    let compacted = |event: &SessionEvent| match &event.payload {
        SessionEventPayload::ContextCompacted(compaction) => Some(compaction.clone()),
        _ => None,
    };
    events.iter().filter_map(compacted).collect()
}

fn said(messages: &Transcript) -> String {
    let texts: Vec<String> = messages.iter().map(|message| text_of(message)).collect();
    texts.join("\n")
}

/// Requests that answer turns, in order.
fn turns(harness: &Harness) -> Vec<ProviderRequest> {
    let mut requests = harness.requests();
    requests.retain(|request| !is_for_summary(request));
    requests
}

#[tokio::test]
async fn a_turn_that_outgrows_the_window_goes_on() {
    let builder = Harness::answering(counting(60)).tool(count(2_000));
    let harness = small_context(builder, 5_000).start();
    let session = harness.session().await;
    let events = harness.run(&session, "count, the secret is plugh").await;
    assert_eq!(events.streamed_text(), "done");
    let compactions = compactions(&events);
    let tiers: Vec<&CompactionTier> = compactions.iter().map(|it| &it.tier).collect();
    assert!(tiers.contains(&&CompactionTier::Outputs), "{tiers:?}");
    assert!(tiers.contains(&&CompactionTier::Summary), "{tiers:?}");
    for compaction in &compactions {
        assert_eq!(compaction.reason, CompactionReason::Threshold);
        assert!(compaction.tokens_after < compaction.tokens_before);
    }
    let breaks = events.iter().filter(|event| {
        matches!(&event.payload, SessionEventPayload::CacheBreak { reason, .. }
            if reason.as_str() == "context_compacted")
    });
    assert_eq!(breaks.count(), compactions.len());

    let requests = turns(&harness);
    let mut cuts = 0;
    for pair in requests.windows(2) {
        let (before, after) = (&pair[0].messages, &pair[1].messages);
        assert_eq!(check_pairing(after), Ok(()));
        assert!(after.len() < 60, "the window is bounded");
        cuts += usize::from(!after.iter().zip(before.iter()).all(|(a, b)| a == b));
        assert!(
            said(after).contains("the secret is plugh"),
            "the goal stays"
        );
    }
    assert_eq!(cuts, compactions.len(), "the prefix is stable in between");
    assert!(said(&requests.last().unwrap().messages).contains("xyzzy"));
    let log = session.replay().await.unwrap();
    assert_eq!(log.messages().len(), 2 + 60 * 2, "the log has everything");
}

#[tokio::test]
async fn a_reopened_session_goes_on_with_what_was_left() {
    let builder = Harness::answering(counting(40)).tool(count(800));
    let harness = small_context(builder, 3_000).start();
    let session = harness.session().await;
    harness.run(&session, "count").await;
    let sent = turns(&harness).last().unwrap().messages.clone();
    session.shutdown("over").await.unwrap();
    let later = harness.another_process(["well"]).start();
    let session = later.resume(&session).await;
    later.run(&session, "and now?").await;
    let resumed = later.requests().remove(0).messages;
    let kept: Vec<_> = resumed.iter().take(sent.len()).collect();
    assert!(
        kept.into_iter().eq(sent.iter()),
        "nothing is cut or comes back"
    );
    assert!(resumed.len() < 40);
}

#[tokio::test]
async fn what_was_moved_out_can_be_read_again_in_this_session_only() {
    let path = Arc::new(Mutex::new(String::new()));
    let found = path.clone();
    let steps = counting(40);
    let answer = move |request: &ProviderRequest| {
        let text = said(&request.messages);
        let mut path = found.lock().unwrap();
        match text.split_once("\"blob:") {
            Some((_, rest)) if path.is_empty() => {
                *path = format!("blob:{}", rest.split_once('"').unwrap().0);
                Reply::new().tool_call("read", json!({"path": *path}))
            }
            _ if text.contains("elsewhere") => match text.contains("result") {
                true => Reply::new().text("so be it"),
                false => Reply::new().tool_call("read", json!({"path": *path})),
            },
            _ => steps(request),
        }
    };
    let builder = Harness::answering(answer)
        .tool(count(4_000))
        .tools(halter_tools::builtin_tools());
    let harness = small_context(builder, 24_000).start();
    let session = harness.session().await;
    let events = harness.run(&session, "count").await;
    let read = events
        .outcomes()
        .into_iter()
        .find(|outcome| outcome.call.name.as_str() == "read");
    let read = read
        .expect("the reference was read")
        .result
        .as_ref()
        .unwrap()
        .to_model_text();
    assert!(read.contains("{\\\"step\\\":0} xxx"), "{read}");

    let other = harness.session().await;
    let events = harness.run(&other, "elsewhere: result?").await;
    for outcome in events.outcomes() {
        let error = outcome.result.as_ref().unwrap_err();
        assert!(
            error
                .message
                .contains("this session has nothing under 'blob:")
        );
    }
}

#[tokio::test]
async fn hooks_hear_of_automatic_compactions_and_may_keep_the_context() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = |event| {
        let heard = heard.clone();
        Hook::callback(event, move |payload| {
            heard.lock().unwrap().push(payload.payload);
            async { HookResponse::passthrough() }
        })
    };
    let builder = Harness::answering(counting(30))
        .tool(count(800))
        .hook(listener(HookEventName::PreCompact))
        .hook(listener(HookEventName::PostCompact));
    let harness = small_context(builder, 3_000).start();
    harness.ask("count").await;
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard[0]["hook_event_name"], "PreCompact");
    assert_eq!(heard[0]["trigger"], "auto");
    assert_eq!(heard[1]["hook_event_name"], "PostCompact");
    let summary = heard
        .iter()
        .find(|payload| payload["compact_summary"].is_string());
    assert_eq!(summary.unwrap()["compact_summary"], SUMMARY);

    let builder = Harness::answering(counting(20))
        .tool(count(800))
        .hook(answering(
            HookEventName::PreCompact,
            HookResponse::block("not now"),
        ));
    let harness = small_context(builder, 3_000).start();
    let events = harness.ask("count").await;
    assert_eq!(events.streamed_text(), "done");
    assert!(compactions(&events).is_empty());
    assert!(
        halter_testkit::render(&events).contains("a PreCompact hook kept the context as it is")
    );
}

/// A service that takes so many bytes and refuses more.
fn refusing(most: usize, steps: usize) -> impl Fn(&ProviderRequest) -> Reply + Send + Sync {
    let counting = counting(steps);
    move |request| match said(&request.messages).len() > most && !is_for_summary(request) {
        true => Reply::error(ProviderErrorKind::ContextOverflow, "prompt is too long"),
        false => counting(request),
    }
}

#[tokio::test]
async fn a_conversation_that_is_refused_is_compacted_and_sent_once_more() {
    let harness = Harness::answering(refusing(12_000, 60))
        .tool(count(800))
        .start();
    let events = harness.ask("count").await;
    assert_eq!(events.streamed_text(), "done");
    let compactions = compactions(&events);
    for compaction in &compactions {
        assert_eq!(compaction.reason, CompactionReason::Overflow);
    }
    for tier in [CompactionTier::Outputs, CompactionTier::Summary] {
        assert!(compactions.iter().any(|it| it.tier == tier), "{tier}");
    }
}

#[tokio::test]
async fn a_conversation_that_is_refused_again_is_an_error() {
    let harness = Harness::answering(refusing(0, 30)).tool(count(800)).start();
    let session = harness.session().await;
    let events = harness.run(&session, "count").await;
    assert_eq!(events.turn_error().code, "context_overflow");
    assert_eq!(harness.requests().len(), 1, "there was nothing to cut");

    let steps = counting(30);
    let answer = move |request: &ProviderRequest| {
        let text = said(&request.messages);
        match text.len() > 8_000 {
            true => Reply::error(ProviderErrorKind::ContextOverflow, "prompt is too long"),
            false if text.contains("moved out of the context") => {
                Reply::error(ProviderErrorKind::ContextOverflow, "still too long")
            }
            false => steps(request),
        }
    };
    let harness = Harness::answering(answer).tool(count(800)).start();
    let events = harness.ask("count").await;
    assert_eq!(compactions(&events).len(), 1);
    let error = events.turn_error();
    assert_eq!(error.code, "context_overflow");
    assert_eq!(
        error.message,
        "the conversation is too long for the model, even after it was compacted: still too long"
    );
    assert!(error.hint.as_ref().unwrap().contains("larger window"));
}

#[tokio::test]
async fn a_user_may_want_it_smaller() {
    let harness = Harness::answering(counting(12)).tool(count(800)).start();
    let session = harness.session().await;
    assert_eq!(
        session.compact(None).await.unwrap(),
        None,
        "nothing was said"
    );
    harness.run(&session, "count").await;
    let before = session.context().await.unwrap();
    let compaction = session.compact(Some("the numbers")).await.unwrap().unwrap();
    assert_eq!(compaction.reason, CompactionReason::Requested);
    assert_eq!(compaction.tier, CompactionTier::Summary);
    let asked = harness
        .requests()
        .into_iter()
        .rfind(is_for_summary)
        .unwrap();
    assert!(said(&asked.messages).contains("Pay attention to this: the numbers"));
    let after = session.context().await.unwrap();
    assert!(after.size.tokens < before.size.tokens && after.fill.summary > 0);
    assert_eq!(before.fill.summary, 0);
    harness.run(&session, "go on").await;
    let sent = &turns(&harness).pop().unwrap().messages;
    assert!(said(sent).contains(SUMMARY) && said(sent).ends_with("go on"));
    let stored = harness.runtime().context_of(session.session_id()).await;
    assert_eq!(
        stored.unwrap().unwrap().size,
        session.context().await.unwrap().size
    );
}

/// A session with something to summarise, and what its summary waits for.
async fn before_a_held_summary() -> (Harness, SessionHandle, Gate) {
    let gate = Gate::new();
    let held = gate.clone();
    let steps = counting(12);
    let answer = move |request: &ProviderRequest| match is_for_summary(request) {
        true => Reply::new().gate(&held).text(SUMMARY),
        false => steps(request),
    };
    let harness = Harness::answering(answer).tool(count(800)).start();
    let session = harness.session().await;
    harness.run(&session, "count").await;
    (harness, session, gate)
}

#[tokio::test]
async fn a_compaction_can_be_cancelled_and_the_session_stays_usable() {
    let (harness, session, gate) = before_a_held_summary().await;
    let wanted = session.clone();
    let compacting = tokio::spawn(async move { wanted.compact(None).await });
    while !harness.requests().iter().any(is_for_summary) {
        tokio::task::yield_now().await;
    }
    session.cancel().await.unwrap();
    let error = compacting.await.unwrap().unwrap_err();
    assert_eq!(code(&error), "cancelled");
    let events = harness.run(&session, "go on").await;
    assert_eq!(events.streamed_text(), "done");
    assert!(compactions(&session.replay().await.unwrap()).is_empty());
    gate.open();
}

#[tokio::test]
async fn a_summary_that_fails_becomes_a_list_and_is_told_of() {
    let steps = counting(40);
    let answer = move |request: &ProviderRequest| match is_for_summary(request) {
        true => Reply::error(ProviderErrorKind::Fatal, "no credit"),
        false => steps(request),
    };
    let builder = Harness::answering(answer).tool(count(150));
    let harness = small_context(builder, 1_500).start();
    let events = harness.ask("count").await;
    assert_eq!(events.streamed_text(), "done");
    let compactions = compactions(&events);
    let summary = compactions
        .iter()
        .find(|it| it.tier == CompactionTier::Summary)
        .unwrap();
    assert_eq!(summary.summary_error.as_deref(), Some("no credit"));
    assert!(said(&turns(&harness).pop().unwrap().messages).contains("call: count"));
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_takes_too_long_is_given_up() {
    let (_harness, session, _gate) = before_a_held_summary().await;
    let started = tokio::time::Instant::now();
    let compaction = session.compact(None).await.unwrap().unwrap();
    assert!(started.elapsed() >= SUMMARY_DEADLINE);
    let why = compaction.summary_error.as_deref().unwrap();
    assert_eq!(why, "the model did not answer within 180 s");
}

#[tokio::test]
async fn a_skill_in_use_stays_in_force_through_a_compaction() {
    let skill = SkillDef::new(
        "skl",
        "style",
        "How to.",
        "/s/style/SKILL.md",
        "Plain words only.",
    );
    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = "r".into();
    snapshot.skills.insert(skill.name.clone(), skill);
    let asked = AtomicUsize::new(0);
    let counting = counting(12);
    let harness = Harness::answering(move |request| {
        let load = !is_for_summary(request) && asked.fetch_add(1, Ordering::SeqCst) == 0;
        match load {
            true => Reply::new().tool_call("skill", json!({"skill": "style"})),
            false => counting(request),
        }
    })
    .tools(halter_tools::builtin_tools())
    .tool(count(800))
    .services(|services| {
        services.resources.replace(Resources {
            snapshot: Arc::new(snapshot),
            ..Resources::default()
        });
    })
    .start();
    let session = harness.session().await;
    harness.run(&session, "count").await;
    let compaction = session.compact(None).await.unwrap().unwrap();
    assert_eq!(compaction.tier, CompactionTier::Summary);
    harness.run(&session, "go on").await;
    let sent = &turns(&harness).pop().unwrap().messages;
    let said = said(sent);
    assert!(said.contains(SUMMARY), "{said}");
    assert_eq!(said.matches("Plain words only.").count(), 1, "{said}");
}
