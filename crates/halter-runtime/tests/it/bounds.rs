//! Sessions of one harness with tools, roots, programs and models of their
//! own.

use halter_protocol::{SessionBounds, ToolErrorCode, Turn};
use halter_runtime::{HalterError, OwnTools, SessionInit};
use halter_testkit::{EventsExt, Harness, HarnessBuilder, Reply, ScriptedTool, collect};
use halter_tools::builtin_tools;
use serde_json::{Value, json};

/// The last user message names the call to make.
fn obedient() -> HarnessBuilder {
    Harness::answering(|request| {
        let last = request.messages.last().unwrap();
        let halter_protocol::Message::User(user) = last.as_ref() else {
            return Reply::new().text("done");
        };
        let call: Value = serde_json::from_str(&user.plain_text()).unwrap();
        Reply::new().tool_call(call["tool"].as_str().unwrap(), call["input"].clone())
    })
    .tools(builtin_tools())
    .model("small")
}

fn call(tool: &str, input: Value) -> String {
    json!({"tool": tool, "input": input}).to_string()
}

fn write(path: &str) -> String {
    call("write", json!({"path": path, "content": "x"}))
}

fn shell(command: &str) -> String {
    call("shell", json!({"command": command}))
}

#[tokio::test]
async fn two_sessions_of_one_harness_have_their_own_tools_roots_programs_and_models() {
    let harness = obedient().start();
    let notes = SessionBounds {
        tools: Some(vec!["write".into(), "shell".into()]),
        models: Some(vec!["small".into()]),
        write_roots: Some(vec!["notes".into()]),
        programs: Some(vec!["true".into()]),
        ..SessionBounds::default()
    };
    let init = SessionInit::default()
        .with_bounds(notes)
        .with_default_model("small")
        .with_tool(ScriptedTool::new("vote").build());
    let narrow = harness.session_with(init).await;
    let wide = harness
        .session_with(SessionInit::default().without_tool("grep"))
        .await;

    // Roots.
    let events = harness.run(&wide, &write("src.txt")).await;
    assert!(events.only_result().is_ok());
    let events = harness.run(&narrow, &write("notes/a.txt")).await;
    assert!(events.only_result().is_ok(), "{:?}", events.only_result());
    let events = harness.run(&narrow, &write("src.txt")).await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);

    // Programs.
    let events = harness.run(&wide, &shell("ls")).await;
    assert!(events.only_result().is_ok());
    let events = harness.run(&narrow, &shell("ls")).await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);

    // Tools.
    let events = harness.run(&narrow, &call("vote", json!({}))).await;
    assert!(events.only_result().is_ok());
    for (session, missing) in [(&narrow, "read"), (&wide, "grep"), (&wide, "vote")] {
        let events = harness.run(session, &call(missing, json!({}))).await;
        let error = events.only_result().as_ref().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::UnknownTool, "{missing}");
    }

    // Models, and what they are told of tools.
    let turn = Turn::user(write("notes/b.txt")).with_default_model("default");
    let events = collect(narrow.submit_turn(turn).await.unwrap()).await;
    assert_eq!(events.turn_error().code, "model_not_allowed");
    let requests = harness.requests();
    let of = |session: &halter_runtime::SessionHandle| {
        let id = session.session_id().clone();
        requests.iter().filter(move |it| it.session_id == id)
    };
    for request in of(&narrow) {
        let names: Vec<&str> = request.tools.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["write", "shell", "vote"]);
        assert_eq!(request.model.id.as_str(), "small");
    }
    for request in of(&wide) {
        assert!(request.tools.iter().all(|it| it.name.as_str() != "grep"));
        assert_eq!(request.model.id.as_str(), "default");
    }
}

#[tokio::test]
async fn a_session_that_asks_for_more_than_its_harness_is_refused() {
    let harness = obedient().start();
    let refused = |bounds: SessionBounds| {
        let mut init = SessionInit::default().with_bounds(bounds);
        init.working_dir = harness.workspace().path().to_owned();
        let runtime = harness.runtime().clone();
        async move {
            let error = runtime.new_session(init).await.unwrap_err();
            error.downcast::<HalterError>().unwrap().code().to_owned()
        }
    };
    let tools = SessionBounds {
        tools: Some(vec!["launch".into()]),
        ..SessionBounds::default()
    };
    assert_eq!(refused(tools).await, "session_exceeds_harness");
    let roots = SessionBounds {
        write_roots: Some(vec!["/".into()]),
        ..SessionBounds::default()
    };
    assert_eq!(refused(roots).await, "session_exceeds_harness");
    let models = SessionBounds {
        models: Some(vec!["small".into()]),
        ..SessionBounds::default()
    };
    assert_eq!(refused(models).await, "model_not_allowed");
}

#[tokio::test]
async fn a_resumed_session_keeps_its_bounds() {
    let harness = obedient().start();
    let bounds = SessionBounds {
        tools: Some(vec!["write".into()]),
        write_roots: Some(vec!["notes".into()]),
        ..SessionBounds::default()
    };
    let session = harness
        .session_with(SessionInit::default().with_bounds(bounds.clone()))
        .await;
    let outside: Value = serde_json::from_str(&write("src.txt")).unwrap();
    let replies = [
        Reply::new().tool_call("write", outside["input"].clone()),
        "done".into(),
    ];
    let next = harness.another_process(replies).start();
    let resumed = next.resume(&session).await;
    assert_eq!(resumed.blueprint().bounds, bounds);
    let events = next.run(&resumed, "go").await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);
    assert_eq!(next.requests().first().unwrap().tools.len(), 1);
}

#[tokio::test]
async fn tools_of_a_sessions_own_may_change_and_the_cut_is_announced() {
    let harness = obedient().start();
    let session = harness.session().await;
    let other = harness.session().await;
    harness.run(&session, &write("a.txt")).await;
    let vote = ScriptedTool::new("vote").build();
    session.set_own_tools(OwnTools(vec![vote])).unwrap();
    let events = harness.run(&session, &call("vote", json!({}))).await;
    assert!(events.only_result().is_ok());
    let cut = events.iter().find_map(|event| match &event.payload {
        halter_protocol::SessionEventPayload::CacheBreak {
            reason,
            tools_revision,
            ..
        } => Some((reason.to_string(), tools_revision.is_some())),
        _ => None,
    });
    assert_eq!(cut, Some(("tools_replaced".to_owned(), true)));
    let events = harness.run(&other, &call("vote", json!({}))).await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::UnknownTool);
}
