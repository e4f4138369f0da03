//! Consumers of the event stream, fed with the lines of a real session.

use crate::support::{directory, in_child, is_child, offline_harness, run_turn, session_in, shown};
use futures::StreamExt;
use halter::prelude::*;

/// The lines `--streaming-json` prints, of a session that used tools.
async fn lines() -> Vec<String> {
    let files = [("README.md", "# Umbrella\n\nKeeps the rain off.\n")];
    let directory = directory(&files);
    let harness = offline_harness().await;
    let session = session_in(&harness, directory.path()).await;
    let events = session.subscribe();
    run_turn(&session, "Summarize this repository").await;
    session.shutdown("done").await.unwrap();
    let events: Vec<_> = events.collect().await;
    let lines = events.into_iter().map(|event| {
        let event = event.unwrap().without_opaque();
        serde_json::to_string(&event).unwrap()
    });
    lines.collect()
}

mod event_consumer {
    include!("../seed/event_consumer.rs");

    #[tokio::test]
    async fn the_documented_consumer_reads_every_line() {
        if super::is_child() {
            return main().unwrap();
        }
        let directory = super::directory(&[]);
        let lines = super::lines().await;
        let output = super::in_child(
            "consumers::event_consumer::the_documented_consumer_reads_every_line",
            directory.path(),
            &[],
            &(lines.join("\n") + "\n"),
        );
        assert!(output.status.success(), "{}", super::shown(&output));
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            printed.matches("got event: SessionEvent").count(),
            lines.len()
        );
        assert!(printed.contains("Umbrella"));
    }
}

mod append_event {
    include!("../seed/append_event.rs");

    #[tokio::test]
    async fn raw_events_are_kept_for_later() {
        let mut kept = Vec::new();
        for line in super::lines().await {
            append_event(&mut kept, serde_json::from_str(&line).unwrap());
        }
        assert_eq!(
            kept[0].schema_version,
            Some(halter_protocol::SCHEMA_VERSION)
        );
        assert_eq!(kept[0].payload.kind(), "session_started");
        let last = kept.last().unwrap();
        assert_eq!(last.payload.kind(), "session_shutdown_complete");
    }
}

/// The shape the documentation sketches, with the names the events have.
mod conceptual_match {
    use halter_protocol::{Message, SessionEvent, SessionEventPayload};

    #[derive(Default)]
    struct Audit {
        answers: Vec<String>,
        started: Vec<String>,
        finished: Vec<String>,
    }

    fn handle(audit: &mut Audit, event: SessionEvent) {
        match event.payload {
            SessionEventPayload::MessageItem { message } => {
                if let Message::Assistant(answer) = message.as_ref() {
                    audit.answers.push(answer.plain_text());
                }
            }
            SessionEventPayload::ToolExecutionStarted { call } => audit.started.push(call.id.0),
            SessionEventPayload::ToolExecutionCompleted { outcome } => {
                audit.finished.push(outcome.call.id.0);
            }
            _ => {}
        }
    }

    #[tokio::test]
    async fn messages_and_tool_activity_are_told_apart() {
        let mut audit = Audit::default();
        for line in super::lines().await {
            handle(&mut audit, serde_json::from_str(&line).unwrap());
        }
        assert!(audit.answers.last().unwrap().contains("Umbrella"));
        assert!(!audit.started.is_empty());
        audit.started.sort();
        audit.finished.sort();
        assert_eq!(audit.started, audit.finished);
    }
}

#[tokio::test]
async fn sequences_have_no_gaps_and_best_effort_events_repeat_the_last() {
    let mut head = 0;
    for line in lines().await {
        let event: SessionEvent = serde_json::from_str(&line).unwrap();
        match event.delivery {
            halter_protocol::Delivery::Lossless => {
                assert_eq!(event.sequence(), head + 1, "{line}");
                head += 1;
            }
            _ => assert_eq!(event.sequence(), head, "{line}"),
        }
    }
}
