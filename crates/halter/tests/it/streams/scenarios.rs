//! Sessions in which everything an event can say is said.

use super::Recorded;
use futures::StreamExt;
use halter::prelude::*;
use halter_hooks::{Hook, HookEventName, HookResponse, PermissionDecision};
use halter_protocol::{
    ContentPart, Delivery, OpaquePart, ProviderErrorKind, SeededIds, SkillDef, StopReason,
    StreamEvent, ToolResult, Usage, UsageBuckets, UserMessage, UserPart,
};
use halter_runtime::{Resources, SessionStream};
use halter_testkit::{Gate, Harness, HarnessBuilder, Reply, ScriptedTool, png};
use halter_tools::Tool;
use halter_tools::policy::Destination;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Tools that every build has, and no others: recordings must not differ
/// between builds.
fn plain_tools() -> impl Iterator<Item = Arc<dyn Tool>> {
    let names = [
        "read", "glob", "grep", "write", "edit", "shell", "process", "task",
    ];
    let is_plain = move |tool: &Arc<dyn Tool>| names.contains(&tool.spec().name.as_str());
    halter_tools::builtin_tools().into_iter().filter(is_plain)
}

/// Ids that do not differ between recordings.
pub(super) fn harness(builder: HarnessBuilder) -> Harness {
    builder
        .services(|services| services.ids = Arc::new(SeededIds::new(1)))
        .start()
}

pub(super) async fn session(harness: &Harness, name: &str) -> HalterSession {
    let init = SessionInit {
        session_id: Some(SessionId(format!("ses_{name}"))),
        ..SessionInit::default()
    };
    harness.session_with(init).await
}

/// A turn whose ids and time do not differ between recordings.
pub(super) fn turn(harness: &Harness, number: u32, parts: Vec<UserPart>) -> Turn {
    let mut turn = Turn::new(UserMessage {
        id: format!("msg_user_{number}").into(),
        created_at: halter_runtime::Clock::now(harness.clock()),
        parts,
    });
    turn.id = format!("turn_{number}").into();
    turn
}

pub(super) async fn say(harness: &Harness, session: &HalterSession, number: u32, text: &str) {
    let parts = vec![UserPart::Text {
        text: text.to_owned(),
    }];
    let events = session
        .submit_turn(turn(harness, number, parts))
        .await
        .unwrap();
    events
        .for_each(|event| async { drop(event.unwrap()) })
        .await;
    harness.clock().advance(Duration::from_millis(1500));
}

pub(super) async fn read(events: SessionStream) -> Vec<SessionEvent> {
    events.map(|event| event.unwrap()).collect().await
}

/// Ends the session and reads everything it said.
pub(super) async fn recorded(harness: &Harness, session: &HalterSession) -> Recorded {
    session.shutdown("recorded").await.unwrap();
    Recorded {
        events: read(session.subscribe()).await,
        directory: harness.workspace().path().to_owned(),
    }
}

/// Reads everything a session says while it is said, deltas included.
fn listen(session: &HalterSession) -> tokio::task::JoinHandle<Vec<SessionEvent>> {
    tokio::spawn(read(session.subscribe()))
}

async fn heard(
    harness: &Harness,
    session: &HalterSession,
    listener: tokio::task::JoinHandle<Vec<SessionEvent>>,
) -> Recorded {
    session.shutdown("recorded").await.unwrap();
    Recorded {
        events: listener.await.unwrap(),
        directory: harness.workspace().path().to_owned(),
    }
}

/// A used amount that fills every bucket.
fn usage() -> Usage {
    Usage::from(UsageBuckets {
        uncached_input: 5_000_000_000,
        cache_read: 900,
        cache_write: 30,
        output: 7,
        reasoning: 4,
    })
}

pub async fn plain_turn() -> Recorded {
    let replies = [Reply::new().text("Hello, ").text("Ada.").usage(usage())];
    let harness = harness(Harness::scripted(replies));
    let session = session(&harness, "plain_turn").await;
    let listener = listen(&session);
    say(&harness, &session, 1, "Greet me").await;
    heard(&harness, &session, listener).await
}

/// Every shape of result, every way a call can go wrong on its own.
pub async fn tools() -> Recorded {
    let chatty = ScriptedTool::new("chatty").runs(|context, _| async move {
        context.emit_output("chatty", "half way\n");
        Ok(ToolResult::text("all the way"))
    });
    let quiet = ScriptedTool::new("quiet").runs(|_, _| async { Ok(ToolResult::Empty) });
    let replies = [
        Reply::new()
            .text("Let me see.")
            .tool_call("chatty", json!({"loud": true}))
            .tool_call("quiet", json!({}))
            .tool_call("read", json!({"path": "notes.txt"})),
        Reply::new()
            .tool_call("broken", json!({}))
            .tool_call("missing", json!({}))
            .tool_call("read", json!({"path": 7}))
            .tool_call_text("read", ["{\"path\": \"no", "tes"])
            .tool_call("read", json!({"path": "/etc/shadow"})),
        Reply::new().text("That is all."),
    ];
    let builder = Harness::scripted(replies)
        .tool(chatty.build())
        .tool(quiet.build())
        .tool(ScriptedTool::new("broken").fails("out of ink").build())
        .tools(plain_tools());
    let harness = harness(builder);
    harness
        .workspace()
        .write("notes.txt", "remember the milk\n");
    let session = session(&harness, "tools").await;
    let listener = listen(&session);
    say(&harness, &session, 1, "Try everything").await;
    heard(&harness, &session, listener).await
}

/// Results that are more than text: a picture among words, a document alone.
pub async fn pictures() -> Recorded {
    let camera = ScriptedTool::new("camera").runs(|_, _| async {
        Ok(ToolResult::parts([
            ContentPart::text("the front door"),
            ContentPart::image("image/png", png(1, 1)),
            ContentPart::text("nobody there"),
        ]))
    });
    let scanner = ScriptedTool::new("scanner").runs(|_, _| async {
        Ok(ToolResult::parts([ContentPart::document(
            "application/pdf",
            *b"%PDF-1.7",
        )]))
    });
    let replies = [
        Reply::new()
            .tool_call("camera", json!({}))
            .tool_call("scanner", json!({})),
        Reply::new().text("A door and a letter."),
    ];
    let builder = Harness::scripted(replies)
        .tool(camera.build())
        .tool(scanner.build());
    let harness = harness(builder);
    let session = session(&harness, "pictures").await;
    let listener = listen(&session);
    say(&harness, &session, 1, "Who is there?").await;
    heard(&harness, &session, listener).await
}

/// Visible reasoning, and what a provider wants back as it wrote it.
pub async fn thinking() -> Recorded {
    let opaque = |data: &str| {
        Some(OpaquePart {
            wire: "example.messages".to_owned(),
            data: data.into(),
        })
    };
    let reply = Reply::new()
        .raw_event(StreamEvent::ThinkingStart { id: "b1".into() })
        .raw_event(StreamEvent::ThinkingDelta {
            id: "b1".into(),
            delta: "Who asks?".to_owned(),
        })
        .raw_event(StreamEvent::ThinkingEnd {
            id: "b1".into(),
            opaque: opaque(r#"{"signature":"c2ln"}"#),
        })
        .raw_event(StreamEvent::TextStart { id: "b2".into() })
        .raw_event(StreamEvent::TextDelta {
            id: "b2".into(),
            delta: "I look.".to_owned(),
        })
        .raw_event(StreamEvent::TextEnd {
            id: "b2".into(),
            opaque: opaque(r#"{"citations":[ ]}"#),
        })
        .raw_event(StreamEvent::ToolCallStart {
            id: "b3".into(),
            tool_call_id: "call_1".into(),
            name: "look".into(),
        })
        .raw_event(StreamEvent::ToolArgsDelta {
            id: "b3".into(),
            delta: "{}".to_owned(),
        })
        .raw_event(StreamEvent::ToolCallEnd {
            id: "b3".into(),
            opaque: opaque(r#"{"index":2}"#),
        })
        .stop(StopReason::ToolUse);
    let last = Reply::new()
        .thinking("Ah, a cat.")
        .text("A cat.")
        .warning("the model speaks slowly today");
    let builder = Harness::scripted([reply, last]).tool(
        ScriptedTool::new("look")
            .returns("a cat")
            .read_only()
            .build(),
    );
    let harness = harness(builder);
    let session = session(&harness, "thinking").await;
    let listener = listen(&session);
    let parts = vec![
        UserPart::Text {
            text: "What is this?".to_owned(),
        },
        UserPart::image("image/png", png(1, 1)),
        UserPart::document("application/pdf", *b"%PDF-1.7"),
    ];
    let events = session.submit_turn(turn(&harness, 1, parts)).await.unwrap();
    events
        .for_each(|event| async { drop(event.unwrap()) })
        .await;
    heard(&harness, &session, listener).await
}

/// Hooks at every point: they let through, speak, rewrite, block, fail, stop.
pub async fn hooks() -> Recorded {
    let pass = |event, message: &str| {
        Hook::callback(event, |_| async { HookResponse::passthrough() })
            .with_status_message(message)
    };
    let speak = Hook::callback(HookEventName::UserPromptSubmit, |_| async {
        HookResponse::passthrough()
            .with_system_message("Be brief.")
            .with_additional_context("It is raining.")
    });
    let block = Hook::callback(HookEventName::PreToolUse, |_| async {
        HookResponse::block("not today")
    });
    let ask = Hook::callback(HookEventName::PreToolUse, |_| async {
        HookResponse::passthrough().with_permission(PermissionDecision::Ask, Some("is it safe?"))
    });
    let rewrite = Hook::callback(HookEventName::PostToolUse, |_| async {
        HookResponse::passthrough().with_updated_output(json!("something like a cat"))
    });
    let fail = Hook::callback(HookEventName::PostToolUseFailure, |_| async {
        anyhow::Result::<HookResponse>::Err(anyhow::anyhow!("the hook broke"))
    });
    let stop = Hook::callback(HookEventName::UserPromptSubmit, |input| async move {
        match input.string_field("prompt") == Some("Stop here") {
            true => HookResponse::stop("enough for today"),
            false => HookResponse::passthrough(),
        }
    });
    let replies = [
        Reply::new()
            .tool_call("look", json!({}))
            .tool_call("burn", json!({}))
            .tool_call("ask", json!({}))
            .tool_call("trip", json!({})),
        Reply::new().text("A cat, I think."),
    ];
    let builder = Harness::scripted(replies)
        .tool(ScriptedTool::new("look").returns("a cat").build())
        .tool(ScriptedTool::new("burn").returns("ashes").build())
        .tool(ScriptedTool::new("ask").returns("an answer").build())
        .tool(ScriptedTool::new("trip").fails("fell over").build())
        .hook(pass(HookEventName::SessionStart, "waking up"))
        .hook(speak)
        .hook(stop)
        .hook(block.with_matcher("^burn$"))
        .hook(ask.with_matcher("^ask$"))
        .hook(rewrite)
        .hook(fail)
        .hook(Hook::function(HookEventName::Notification, || {
            |_| async { HookResponse::passthrough() }
        }))
        .hook(pass(HookEventName::Stop, "tidying up"))
        .hook(pass(HookEventName::SessionEnd, "good night"));
    let harness = harness(builder);
    let session = session(&harness, "hooks").await;
    let listener = listen(&session);
    say(&harness, &session, 1, "Look, then burn").await;
    session.notify("build", "the build is green").await.unwrap();
    say(&harness, &session, 2, "Stop here").await;
    heard(&harness, &session, listener).await
}

/// Turns cancelled while a tool runs and another waits, and while a hook runs;
/// the session goes on.
pub async fn cancel() -> Recorded {
    let gate = Gate::new();
    let (running, reached) = (gate.clone(), gate.clone());
    let slow = ScriptedTool::new("slow")
        .cancellable()
        .runs(move |context, _| {
            let gate = running.clone();
            async move {
                tokio::select! {
                    () = gate.pass() => Ok(ToolResult::Empty),
                    () = context.cancel.cancelled() => Err(anyhow::anyhow!("stopped as asked")),
                }
            }
        });
    let held = Gate::new();
    let waiting = held.clone();
    let hook = Hook::callback(HookEventName::PreToolUse, move |_| {
        let gate = waiting.clone();
        async move {
            gate.pass().await;
            HookResponse::passthrough()
        }
    });
    let replies = [
        Reply::new()
            .text("This takes a while.")
            .tool_call("slow", json!({"hours": 3}))
            .tool_call("slow", json!({"hours": 4})),
        Reply::new().tool_call("guarded", json!({})),
        Reply::new().text("Fine."),
    ];
    let builder = Harness::scripted(replies)
        .tool(slow.build())
        .tool(ScriptedTool::new("guarded").returns("in").build())
        .hook(hook.with_matcher("^guarded$"));
    let harness = harness(builder);
    let session = session(&harness, "cancel").await;
    let listener = listen(&session);
    for (number, gate) in [(1, &reached), (2, &held)] {
        let cancelling = async {
            gate.reached().await;
            assert!(session.cancel().await.unwrap());
        };
        tokio::join!(say(&harness, &session, number, "Do it"), cancelling);
    }
    say(&harness, &session, 3, "Never mind").await;
    heard(&harness, &session, listener).await
}

/// A tool that neither ends nor stops, and one that stops at its deadline.
pub async fn deadlines() -> Recorded {
    tokio::time::pause();
    let never = Gate::new();
    let replies = [
        Reply::new()
            .tool_call("deaf", json!({}))
            .tool_call("patient", json!({})),
        Reply::new().text("Neither came back."),
    ];
    let builder = Harness::scripted(replies)
        .tool(ScriptedTool::new("deaf").waits_at(&never).build())
        .tool(ScriptedTool::new("patient").waits_for_cancel().build());
    let harness = harness(builder);
    let session = session(&harness, "deadlines").await;
    let listener = listen(&session);
    say(&harness, &session, 1, "Wait").await;
    heard(&harness, &session, listener).await
}

/// A process that dies while a tool runs, and the next one that takes over.
pub async fn resume_after_crash() -> Recorded {
    let gate = Gate::new();
    let deploy = ScriptedTool::new("deploy").mutating().waits_at(&gate);
    let replies = [Reply::new()
        .text("I deploy.")
        .tool_call("deploy", json!({"to": "production"}))
        .tool_call("deploy", json!({"to": "staging"}))
        .usage(usage())];
    let first = harness(Harness::scripted(replies).tool(deploy.build()));
    let session = session(&first, "resume_after_crash").await;
    let parts = vec![UserPart::Text {
        text: "Deploy it".to_owned(),
    }];
    let _dying = session.submit_turn(turn(&first, 1, parts)).await.unwrap();
    gate.reached().await;
    first.clock().advance(DAY);

    let second = first.another_process([Reply::new().text("I check first.")]);
    let second = second.services(|services| services.ids = Arc::new(SeededIds::new(2)));
    let second = second.start();
    let resumed = second.resume(&session).await;
    say(&second, &resumed, 2, "Did it work?").await;
    let recorded = recorded(&second, &resumed).await;
    gate.open();
    recorded
}

/// What changes while a session lives: notices, surroundings, resources, models.
pub async fn changes() -> Recorded {
    let replies = ["One.", "Two.", "Three.", "Four."];
    let harness = harness(
        Harness::scripted(replies)
            .model("small")
            .services(|services| {
                services.resources.replace(Resources {
                    warnings: vec!["plugin `deploy` is not loaded yet".to_owned()],
                    ..Resources::default()
                });
            }),
    );
    let init = SessionInit {
        session_id: Some("ses_changes".into()),
        parent_session_id: Some("ses_parent".into()),
        ..SessionInit::default()
    };
    let session = harness.session_with(init).await;
    let listener = listen(&session);
    say(&harness, &session, 1, "Begin").await;
    session.notify("build", "the build is green").await.unwrap();
    harness.workspace().git_branch("main");
    harness.clock().advance(DAY);
    say(&harness, &session, 2, "Look around").await;
    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = "with-a-skill".into();
    snapshot.skills.insert(
        "release".into(),
        SkillDef::new(
            "skl_1",
            "release",
            "How to release.",
            "/skills/release/SKILL.md",
            "Tag first.",
        ),
    );
    harness.runtime().replace_resources(Resources {
        snapshot: Arc::new(snapshot),
        ..Resources::default()
    });
    say(&harness, &session, 3, "Use the skill").await;
    let parts = vec![UserPart::Text {
        text: "Now the small one".to_owned(),
    }];
    let other = turn(&harness, 4, parts).with_default_model("small");
    let events = session.submit_turn(other).await.unwrap();
    events
        .for_each(|event| async { drop(event.unwrap()) })
        .await;
    heard(&harness, &session, listener).await
}

/// Turns that fail: the provider refuses, breaks off, says nothing, never ends.
pub async fn failures() -> Recorded {
    let replies = [
        Reply::error(ProviderErrorKind::RateLimited, "slow down"),
        Reply::new()
            .text("I was about")
            .end_block()
            .text(" to say")
            .usage(usage())
            .then_error(ProviderErrorKind::Fatal, "the line broke"),
        Reply::new().text("cut short").stop(StopReason::MaxTokens),
        Reply::new().text("no").stop(StopReason::Refusal),
        Reply::new().tool_call("look", json!({})),
        Reply::new().tool_call("look", json!({})),
    ];
    let builder =
        Harness::scripted(replies).tool(ScriptedTool::new("look").returns("a cat").build());
    let harness = harness(builder);
    let init = SessionInit {
        session_id: Some("ses_failures".into()),
        max_turns: Some(2),
        ..SessionInit::default()
    };
    let session = harness.session_with(init).await;
    let listener = listen(&session);
    for number in 1..=5 {
        say(&harness, &session, number, "Try").await;
    }
    heard(&harness, &session, listener).await
}

/// A consumer that does not read while a long answer streams.
pub async fn lagged() -> Recorded {
    let mut reply = Reply::new();
    for word in 0..halter_runtime::limits::HUB_EVENTS + 100 {
        reply = reply.text(format!("{word} "));
    }
    let harness = harness(Harness::scripted([reply]));
    let session = session(&harness, "lagged").await;
    let mut slow = session.subscribe();
    let first = slow.next().await.unwrap().unwrap();
    say(&harness, &session, 1, "Count").await;
    session.shutdown("recorded").await.unwrap();
    let mut deltas = 0;
    let mut events = vec![first];
    for event in read(slow).await {
        // A few deltas are as good as a thousand.
        deltas += usize::from(event.payload.kind() == "delta_item");
        if event.payload.kind() != "delta_item" || deltas <= 3 {
            events.push(event);
        }
    }
    let best_effort = |event: &SessionEvent| event.delivery == Delivery::BestEffort;
    assert!(events.iter().filter(|event| best_effort(event)).count() > 3);
    assert!(events.iter().any(|event| event.payload.kind() == "lagged"));
    Recorded {
        events,
        directory: harness.workspace().path().to_owned(),
    }
}

/// What somebody without a key sees first.
pub async fn offline_model() -> Recorded {
    let builder = Harness::echoing()
        .provider(Arc::new(halter::providers::OfflineProvider::new()))
        .tools(plain_tools());
    let harness = harness(builder);
    let workspace = harness.workspace();
    workspace.write("README.md", "# Umbrella\n\nKeeps the rain off.\n");
    workspace.write("src/main.rs", "fn main() {}\n");
    let session = session(&harness, "offline_model").await;
    let listener = listen(&session);
    say(&harness, &session, 1, "Summarize this repository").await;
    heard(&harness, &session, listener).await
}

/// Answers of a given form: at once, after a correction, and not at all.
pub async fn structured_output() -> Recorded {
    let replies = [
        Reply::new().text("{\"files\": 3}"),
        Reply::new().text("Three."),
        Reply::new().tool_call("final_output", json!({"files": 3})),
        Reply::new().text("Many."),
        Reply::new().text("Very many."),
        Reply::new().text("I lost count."),
        Reply::new().text("You are welcome."),
    ];
    let harness = harness(Harness::scripted(replies));
    let session = session(&harness, "structured_output").await;
    let listener = listen(&session);
    for number in 1..=3 {
        let parts = vec![UserPart::Text {
            text: "How many files are here?".to_owned(),
        }];
        let turn = turn(&harness, number, parts).with_response_schema(json!({
            "type": "object",
            "properties": {"files": {"type": "integer"}},
            "required": ["files"],
        }));
        let events = session.submit_turn(turn).await.unwrap();
        events
            .for_each(|event| async { drop(event.unwrap()) })
            .await;
    }
    say(&harness, &session, 4, "Thanks").await;
    heard(&harness, &session, listener).await
}

/// A process that takes a session up with other tools and resources.
pub async fn resume_with_changes() -> Recorded {
    let first = harness(Harness::scripted(["One."]));
    let session = session(&first, "resume_with_changes").await;
    say(&first, &session, 1, "Begin").await;

    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = "another".into();
    let second = first
        .another_process(["Two."])
        .tool(ScriptedTool::new("look").build())
        .services(|services| {
            services.ids = Arc::new(SeededIds::new(2));
            services.resources.replace(Resources {
                snapshot: Arc::new(snapshot),
                ..Resources::default()
            });
        })
        .start();
    let resumed = second.resume(&session).await;
    say(&second, &resumed, 2, "Go on").await;
    recorded(&second, &resumed).await
}

/// A pause that goes on, a window that is full, and what it all cost.
pub async fn answer_ends() -> Recorded {
    let mut used = usage();
    used.cost = Some(halter_protocol::Cost {
        uncached_input: 15_000_000_000_000,
        cache_read: 270_000,
        cache_write: 112_500,
        output: 105_000,
        reasoning: 60_000,
        unattributed: 1,
        partial: true,
        price_from_config: true,
        price_from_provider: true,
        price_built_in: true,
    });
    let replies = [
        Reply::new()
            .text("One moment.")
            .usage(used)
            .stop(StopReason::Pause),
        Reply::new().text("There we are.").usage(used),
        Reply::new()
            .text("No room for")
            .usage(used)
            .stop(StopReason::ContextWindowExceeded),
    ];
    let harness = harness(Harness::scripted(replies));
    let session = session(&harness, "answer_ends").await;
    let listener = listen(&session);
    say(&harness, &session, 1, "Search").await;
    say(&harness, &session, 2, "And now everything").await;
    heard(&harness, &session, listener).await
}

/// A tool for which no descriptor was left.
pub async fn out_of_descriptors() -> Recorded {
    let open = ScriptedTool::new("open")
        .runs(|_, _| async { Err(std::io::Error::from_raw_os_error(24).into()) })
        .build();
    let call = Reply::new().tool_call("open", json!({}));
    let harness = harness(Harness::scripted([call]).tool(open));
    let session = session(&harness, "out_of_descriptors").await;
    say(&harness, &session, 1, "open it").await;
    recorded(&harness, &session).await
}

/// A call whose connections the network policy refused.
pub async fn network_refused() -> Recorded {
    let fetch = ScriptedTool::new("fetch")
        .runs(|context, _| async move {
            let host = Destination::parse("files.example:443").map_err(anyhow::Error::msg)?;
            context.connect(&host).await?;
            Ok(ToolResult::Empty)
        })
        .build();
    let call = Reply::new().tool_call("fetch", json!({}));
    let harness = harness(Harness::scripted([call]).tool(fetch));
    let session = session(&harness, "network_refused").await;
    say(&harness, &session, 1, "get it").await;
    recorded(&harness, &session).await
}
