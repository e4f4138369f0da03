//! Hosts that a running command would reach, and programs that a list which was
//! set does not name: a person decides.

use crate::approvals::has_sandbox;
use crate::support::{bare, directory, session_in};
use futures::StreamExt;
use halter::Approvals;
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter_protocol::{ApprovalAnswer, ApprovalChoice, ApprovalRequest, AskedBy, ResolvedBy};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A server on the loopback interface outside, which greets and counts.
fn greeter() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let greeted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&greeted);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\ngreeted");
        }
    });
    (port, greeted)
}

/// Has the server greet so many times, through the proxy.
fn fetch(port: u16, times: usize) -> Reply {
    let one = format!("curl -sf --noproxy '' http://127.0.0.1:{port}/");
    let command = vec![one; times].join("; ");
    // Less than a person takes.
    let input = json!({"command": command, "timeout_ms": 2000});
    Reply::new().tool_call("shell", input)
}

fn harness(allow: &[&str], approvals: Approvals, model: FakeProvider) -> HalterBuilder {
    let mut config = HarnessConfig::default();
    config.policy.shell.allow = allow.iter().map(|&it| it.to_owned()).collect();
    bare()
        .with_config(config)
        .with_provider(Arc::new(model))
        .with_approvals(approvals)
}

/// Runs a turn and answers what is asked, in order.
async fn answered(
    session: &HalterSession,
    answers: &[(ApprovalChoice, Duration)],
) -> (Vec<Arc<ApprovalRequest>>, Vec<SessionEvent>) {
    let mut stream = session.submit_turn(Turn::user("go")).await.unwrap();
    let (mut asked, mut events) = (Vec::new(), Vec::new());
    while let Some(event) = stream.next().await {
        let event = event.unwrap();
        if let SessionEventPayload::ApprovalRequested(request) = &event.payload {
            let (choice, after) = answers[asked.len()].clone();
            tokio::time::sleep(after).await;
            let answer = ApprovalAnswer::from(choice);
            let id = &request.approval_id;
            let resolved = session.resolve_approval(id, answer).await;
            assert!(resolved.is_ok(), "{request:?}: {resolved:?}");
            asked.push(request.clone());
        }
        events.push(event);
    }
    (asked, events)
}

fn texts(events: &[SessionEvent]) -> Vec<String> {
    let texts = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::ToolExecutionCompleted { outcome } => Some(match &outcome.result {
            Ok(result) => result.to_model_text(),
            Err(error) => error.message.clone(),
        }),
        _ => None,
    });
    texts.collect()
}

fn refused(events: &[SessionEvent]) -> Vec<(String, String)> {
    let refused = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::NetworkRefused { host, rule, .. } => {
            Some((host.clone(), rule.clone()))
        }
        _ => None,
    });
    refused.collect()
}

const AT_ONCE: Duration = Duration::ZERO;

#[tokio::test]
async fn a_running_command_reaches_a_host_once_a_person_lets_it() {
    if !has_sandbox() {
        return;
    }
    let (port, greeted) = greeter();
    let place = directory(&[]);
    let calls = [1, 2, 1, 1].map(|times| fetch(port, times));
    let model = FakeProvider::scripted(calls.into_iter().chain(["done".into()]));
    let harness = harness(&["*"], Approvals::Attended, model);
    let harness = harness.build().await.unwrap();
    let session = session_in(&harness, place.path()).await;
    // The command may take two seconds, a person as long as they like.
    let answers = [
        (ApprovalChoice::Deny, AT_ONCE),
        (ApprovalChoice::Once, Duration::from_secs(3)),
        (ApprovalChoice::Session, AT_ONCE),
    ];
    let (asked, events) = answered(&session, &answers).await;
    let host = format!("127.0.0.1:{port}");
    for request in &asked {
        assert_eq!(request.asked_by, AskedBy::RunningCall);
        assert_eq!(request.objection.rule, "network.loopback");
        assert_eq!(request.objection.fragment.as_ref(), Some(&host));
        assert_eq!(request.rule(), Some("WebFetch(domain:127.0.0.1)"));
    }
    // One question for both connections of the second call, none for the last.
    assert_eq!(asked.len(), 3);
    let texts = texts(&events);
    assert!(texts[0].contains("network_refused"), "{}", texts[0]);
    assert!(texts[1].contains("greetedgreeted"), "{}", texts[1]);
    assert!(texts[2].contains("greeted"), "{}", texts[2]);
    assert!(texts[3].contains("greeted"), "{}", texts[3]);
    assert_eq!(greeted.load(Ordering::SeqCst), 4);
    assert_eq!(refused(&events), [(host, "network.loopback".to_owned())]);
    harness.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_host_that_nobody_can_be_asked_about_is_refused_and_named() {
    if !has_sandbox() {
        return;
    }
    let (port, greeted) = greeter();
    let place = directory(&[]);
    let model = FakeProvider::scripted([fetch(port, 3), "done".into()]);
    let harness = harness(&["*"], Approvals::Unattended, model);
    let harness = harness.build().await.unwrap();
    let session = session_in(&harness, place.path()).await;
    let events = session.submit_turn(Turn::user("go")).await.unwrap();
    let events: Vec<_> = events.map(|event| event.unwrap()).collect().await;
    let resolved = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::ApprovalResolved { by, .. } => Some(by.clone()),
        _ => None,
    });
    assert_eq!(resolved.collect::<Vec<_>>(), [ResolvedBy::Unattended]);
    let host = format!("127.0.0.1:{port}");
    assert_eq!(refused(&events), [(host, "network.loopback".to_owned())]);
    assert_eq!(greeted.load(Ordering::SeqCst), 0);
    harness.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_turn_that_is_cancelled_while_a_host_is_asked_about_reaches_nothing() {
    if !has_sandbox() {
        return;
    }
    let (port, greeted) = greeter();
    let place = directory(&[]);
    let model = FakeProvider::scripted([fetch(port, 1), "done".into()]);
    let harness = harness(&["*"], Approvals::Attended, model);
    let harness = harness.build().await.unwrap();
    let session = session_in(&harness, place.path()).await;
    let mut stream = session.submit_turn(Turn::user("go")).await.unwrap();
    let mut resolved = Vec::new();
    let mut late = None;
    while let Some(event) = stream.next().await {
        match event.unwrap().payload {
            SessionEventPayload::ApprovalRequested(request) => {
                assert!(session.cancel().await.unwrap());
                let id = &request.approval_id;
                late = Some(session.resolve_approval(id, ApprovalChoice::Once).await);
            }
            SessionEventPayload::ApprovalResolved { choice, by, .. } => {
                resolved.push((choice, by));
            }
            _ => {}
        }
    }
    assert_eq!(resolved, [(ApprovalChoice::Deny, ResolvedBy::Withdrawn)]);
    assert!(late.unwrap().is_err());
    harness.shutdown(Duration::from_secs(5)).await;
    assert_eq!(greeted.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_program_joins_a_set_list_by_a_persons_word_and_the_kernel_lets_it() {
    if !has_sandbox() {
        return;
    }
    let place = directory(&[("sub/file", "")]);
    let run = |command: &str| Reply::new().tool_call("shell", json!({"command": command}));
    let model = FakeProvider::scripted([
        run("echo one; wc -c /dev/null"),
        run("cd sub; wc -c /dev/null && echo two"),
        run("wc -l /dev/null"),
        run("wc -c /dev/null"),
        run("cat /dev/null"),
        run("echo still in ${PWD##*/}"),
        "done".into(),
    ]);
    let harness = harness(&["echo", "cd"], Approvals::Attended, model);
    let harness = harness.build().await.unwrap();
    let session = session_in(&harness, place.path()).await;
    let answers = [
        (ApprovalChoice::Deny, AT_ONCE),
        (ApprovalChoice::Once, AT_ONCE),
        (ApprovalChoice::Session, AT_ONCE),
        (ApprovalChoice::Deny, AT_ONCE),
    ];
    let (asked, events) = answered(&session, &answers).await;
    let texts = texts(&events);
    assert_eq!(asked.len(), 4, "{texts:#?}");
    for request in &asked {
        assert_eq!(request.objection.rule, "shell.not_in_list");
        assert!(!request.choices.contains(&ApprovalChoice::Always));
    }
    let named = "policy.shell.allow does not list `wc`";
    assert!(texts[0].contains(named), "{texts:#?}");
    for text in &texts[1..4] {
        assert!(text.contains("0 /dev/null"), "{text}");
    }
    assert!(texts[4].contains("`cat`"), "{}", texts[4]);
    assert!(texts[5].contains("still in sub"), "{}", texts[5]);
    harness.shutdown(Duration::from_secs(5)).await;
}
