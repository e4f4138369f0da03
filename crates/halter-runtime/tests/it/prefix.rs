//! What the model is shown, and that it only ever grows.

use crate::support::text_of;
use halter_protocol::{Message, ResourceSnapshot, SkillDef};
use halter_providers::ProviderRequest;
use halter_runtime::{Resources, SessionInit};
use halter_testkit::{EventsExt, Gate, Harness, Reply, ScriptedTool, collect, render, within};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Request n is a prefix of request n + 1: prompt and tools equal, messages
/// the same ones and more.
pub fn assert_prefixes(requests: &[ProviderRequest]) {
    for pair in requests.windows(2) {
        let [before, after] = pair else { continue };
        assert_eq!(before.prompt, after.prompt);
        assert_eq!(before.tools, after.tools);
        let kept: Vec<_> = after.messages.iter().take(before.messages.len()).collect();
        assert_eq!(before.messages.iter().collect::<Vec<_>>(), kept);
        assert!(after.messages.len() > before.messages.len());
    }
}

fn skills(names: &[&str]) -> Resources {
    let mut snapshot = ResourceSnapshot::empty();
    for name in names {
        snapshot.skills.insert(
            (*name).into(),
            SkillDef::new(
                format!("skl_{name}").as_str(),
                *name,
                format!("How to {name}."),
                format!("/skills/{name}/SKILL.md"),
                "the body",
            ),
        );
    }
    snapshot.revision = names.join("-").as_str().into();
    Resources {
        snapshot: Arc::new(snapshot),
        ..Resources::default()
    }
}

#[tokio::test]
async fn invariant_05_every_request_extends_the_one_before() {
    let wait = ScriptedTool::new("wait").waits_for_cancel().build();
    let look = ScriptedTool::new("look").read_only().build();
    let never = Gate::new();
    let replies = [
        Reply::new()
            .thinking("hm")
            .text("a")
            .tool_call("look", json!({})),
        Reply::new()
            .tool_call("look", json!({"n": 1}))
            .tool_call("nobody", json!({})),
        Reply::new(),
        Reply::new().text("done"),
        Reply::new().text("half").gate(&never),
        Reply::cut_after("cut"),
        Reply::new().tool_call("wait", json!({})),
        Reply::new().text("the end"),
    ];
    let harness = Harness::scripted(replies).tool(wait).tool(look).start();
    let session = harness.session().await;
    harness.run(&session, "one").await;
    let turn = session
        .submit_turn(halter_protocol::Turn::user("two"))
        .await
        .unwrap();
    within("the model", never.reached()).await;
    session.steer("steered").await.unwrap();
    session.cancel().await.unwrap();
    collect(turn).await;
    harness.clock().advance(Duration::from_secs(3 * 86_400));
    harness.workspace().git_branch("feature");
    harness.run(&session, "three").await;
    let mut turn = session
        .submit_turn(halter_protocol::Turn::user("four"))
        .await
        .unwrap();
    halter_testkit::events::collect_until(
        &mut turn,
        crate::support::is_kind("tool_execution_started"),
    )
    .await;
    session.cancel().await.unwrap();
    collect(turn).await;
    session.shutdown("bye").await.unwrap();
    let mut requests = harness.requests();

    let later = harness.another_process(["five"]).start();
    let resumed = later.resume(&session).await;
    later.run(&resumed, "five").await;
    requests.extend(later.requests());
    assert_eq!(requests.len(), 8);
    assert_prefixes(&requests);
}

#[tokio::test]
async fn the_environment_stands_in_the_prompt_as_it_was_at_the_start() {
    let harness = Harness::echoing().start();
    harness.workspace().git_branch("main");
    let session = harness.session().await;
    harness.run(&session, "hi").await;
    let prompt = harness.requests()[0].prompt.text();
    assert!(prompt.contains("- Date: 2026-01-02"));
    assert!(prompt.contains("- Git: main in"));
    assert!(prompt.contains(harness.workspace().path().to_str().unwrap()));
}

#[tokio::test]
async fn a_change_of_the_environment_is_told_once_and_not_again_after_resuming() {
    let harness = Harness::scripted(["a", "b", "c"]).start();
    harness.workspace().git_branch("main");
    let session = harness.session().await;
    harness.run(&session, "one").await;
    harness.clock().set("2026-01-03T09:00:00Z");
    harness.workspace().git_branch("feature");
    harness.run(&session, "two").await;
    harness.run(&session, "three").await;
    session.shutdown("bye").await.unwrap();
    let later = harness.another_process(["d"]).start();
    let resumed = later.resume(&session).await;
    later.run(&resumed, "four").await;

    let told: Vec<String> = later.requests()[0]
        .messages
        .iter()
        .filter(|message| matches!(message.as_ref(), Message::System(_)))
        .map(|message| text_of(message))
        .collect();
    assert_eq!(
        told,
        ["The environment has changed: the date is now 2026-01-03; git is now at feature."]
    );
}

#[tokio::test]
async fn a_change_while_no_process_ran_is_told_on_resuming() {
    let harness = Harness::scripted(["a"]).start();
    let session = harness.session().await;
    harness.run(&session, "one").await;
    session.shutdown("bye").await.unwrap();
    harness.clock().set("2026-02-01T00:00:00Z");
    let later = harness.another_process(["b"]).start();
    let resumed = later.resume(&session).await;
    let events = later.run(&resumed, "two").await;
    assert!(render(&events).contains("the date is now 2026-02-01"));
}

#[tokio::test]
async fn replaced_skills_change_the_prompt_and_the_cut_is_announced() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    harness.run(&session, "one").await;
    harness.runtime().replace_resources(skills(&["release"]));
    let events = harness.run(&session, "two").await;
    assert!(render(&events).contains("cache_break resources_replaced"));
    let events = harness.run(&session, "three").await;
    assert!(!events.kinds().contains(&"cache_break"), "once");
    let requests = harness.requests();
    assert!(!requests[0].prompt.text().contains("release"));
    assert!(
        requests[1]
            .prompt
            .text()
            .contains("- release: How to release.")
    );
    assert!(!requests[1].prompt.text().contains("the body"));
    assert_prefixes(&requests[1..]);
}

#[tokio::test]
async fn resources_that_do_not_change_the_prompt_are_no_cut() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    harness.run(&session, "one").await;
    harness.runtime().replace_resources(Resources {
        warnings: vec!["the plugin x is not loaded".into()],
        ..Resources::default()
    });
    let events = harness.run(&session, "two").await;
    assert!(!events.kinds().contains(&"cache_break"));
    assert!(render(&events).contains("warning the plugin x is not loaded"));
    assert_prefixes(&harness.requests());
}

#[tokio::test]
async fn resuming_with_other_skills_is_an_announced_cut() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    harness.run(&session, "one").await;
    session.shutdown("bye").await.unwrap();
    let later = harness
        .another_process(["b", "c"])
        .services(|services| services.resources.replace(skills(&["release"])))
        .start();
    let resumed = later.resume(&session).await;
    let events = later.run(&resumed, "two").await;
    assert!(
        render(&events).contains("cache_break resources_replaced"),
        "{}",
        render(&events)
    );
    let events = later.run(&resumed, "three").await;
    assert!(!events.kinds().contains(&"cache_break"), "once");
}

/// What counts is what the last request had, not what the first had.
#[tokio::test]
async fn resuming_after_skills_were_replaced_cuts_only_what_changes() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    harness.run(&session, "one").await;
    harness.runtime().replace_resources(skills(&["release"]));
    harness.run(&session, "two").await;
    session.shutdown("bye").await.unwrap();

    let same = harness.another_process(["b"]).start();
    let resumed = same.resume(&session).await;
    let events = same.run(&resumed, "three").await;
    assert!(!events.kinds().contains(&"cache_break"), "{events:?}");
    assert_prefixes(&[harness.requests().remove(1), same.requests().remove(0)]);
    resumed.shutdown("bye").await.unwrap();

    let as_at_first = harness
        .another_process(["c"])
        .services(|services| services.resources.replace(Resources::default()))
        .start();
    let resumed = as_at_first.resume(&session).await;
    let events = as_at_first.run(&resumed, "four").await;
    assert!(render(&events).contains("cache_break resources_replaced"));
}

#[tokio::test]
async fn resuming_with_another_model_is_an_announced_cut() {
    let harness = Harness::echoing().model("other").start();
    let session = harness.session().await;
    let other = |text: &str| halter_protocol::Turn::user(text).with_default_model("other");
    collect(session.submit_turn(other("one")).await.unwrap()).await;
    session.shutdown("bye").await.unwrap();
    let later = harness.another_process(["b", "c"]).model("other").start();
    let resumed = later.resume(&session).await;
    let events = later.run(&resumed, "two").await;
    assert!(render(&events).contains("cache_break model_changed"));
    resumed.shutdown("bye").await.unwrap();
    let last = harness.another_process(["d"]).start();
    let resumed = last.resume(&session).await;
    let events = last.run(&resumed, "three").await;
    assert!(
        !events.kinds().contains(&"cache_break"),
        "the same as before"
    );
}

#[tokio::test]
async fn warnings_of_the_resources_are_told_when_a_session_starts() {
    let harness = Harness::echoing()
        .services(|services| {
            services.resources.replace(Resources {
                warnings: vec!["a plugin was found and not loaded".into()],
                ..Resources::default()
            });
        })
        .start();
    let session = harness.session().await;
    let log = session.replay().await.unwrap();
    assert_eq!(
        render(&log),
        "session_started\nwarning a plugin was found and not loaded"
    );
}

#[tokio::test]
async fn guidance_of_the_session_comes_first_and_its_additions_last() {
    let harness = Harness::echoing()
        .services(|services| {
            services.prompts.system_prompt = Some("configured".into());
            services.prompts.append_system_prompt = Some("house rules".into());
        })
        .start();
    let init = SessionInit::default()
        .with_system_prompt("mine")
        .append_system_prompt("and this");
    let session = harness.session_with(init).await;
    harness.run(&session, "hi").await;
    let request = harness.requests().pop().unwrap();
    let texts: Vec<&str> = request
        .prompt
        .static_segments()
        .iter()
        .map(|segment| segment.text.as_ref())
        .collect();
    assert_eq!(texts, ["mine", "house rules", "and this"]);
}

#[tokio::test]
async fn tools_are_shown_in_the_order_they_were_registered() {
    let harness = Harness::echoing()
        .tool(ScriptedTool::new("zebra").build())
        .tool(ScriptedTool::new("ant").build())
        .start();
    harness.ask("hi").await;
    let request = harness.requests().pop().unwrap();
    let names: Vec<&str> = request
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(names, ["zebra", "ant"]);
}
