//! What a session knows of the resources it worked with.

use halter_protocol::{ResourceSnapshot, SessionEvent, SessionEventPayload, SkillDef};
use halter_runtime::Resources;
use halter_session::StoredState;
use halter_testkit::{EventsExt, Harness, render};
use std::sync::Arc;

fn skills(revision: &str, skills: &[(&str, &str)]) -> Resources {
    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = revision.into();
    for (name, body) in skills {
        let path = format!("/skills/{name}/SKILL.md");
        let skill = SkillDef::new(format!("skl_{name}"), *name, "How to.", path, *body);
        snapshot.skills.insert(skill.name.clone(), skill);
    }
    Resources {
        snapshot: Arc::new(snapshot),
        ..Resources::default()
    }
}

fn changes(events: &[SessionEvent]) -> Option<Vec<String>> {
    events.iter().find_map(|event| match &event.payload {
        SessionEventPayload::ResourcesLoaded(loaded) => {
            Some(loaded.changes.iter().map(ToString::to_string).collect())
        }
        _ => None,
    })
}

#[tokio::test]
async fn a_resumed_session_knows_what_changed() {
    let first = skills("1", &[("a", "one"), ("b", "one"), ("same", "one")]);
    let snapshot = first.snapshot.clone();
    let harness = Harness::scripted(["One.", "Two."])
        .services(|services| services.resources.replace(first))
        .start();
    let session = harness.session().await;
    let events = harness.run(&session, "one").await;
    assert_eq!(changes(&events), Some(Vec::new()), "nothing is new yet");
    let events = harness.run(&session, "two").await;
    assert_eq!(changes(&events), None, "once per revision");
    session.shutdown("bye").await.unwrap();

    let store = &harness.runtime().services().store;
    let stored = StoredState::read(store.as_ref(), session.session_id())
        .await
        .unwrap();
    let kept = stored.state.resources.unwrap().kept().unwrap();
    assert_eq!(kept, *snapshot, "the store has all of them");

    let second = skills("2", &[("a", "two"), ("c", "one"), ("same", "one")]);
    let later = harness
        .another_process(["Three."])
        .services(|services| services.resources.replace(second))
        .start();
    let resumed = later.resume(&session).await;
    let events = later.run(&resumed, "three").await;
    assert_eq!(
        changes(&events).unwrap(),
        ["changed skill 'a'", "removed skill 'b'", "added skill 'c'"]
    );
    assert!(render(&events).contains("cache_break resources_replaced"));
}

#[tokio::test]
async fn resources_replaced_while_a_session_lives_are_told_as_changes() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    let events = harness.run(&session, "one").await;
    assert_eq!(changes(&events), None, "nothing is loaded");
    let runtime = harness.runtime();
    runtime.replace_resources(skills("1", &[("a", "one")]));
    let events = harness.run(&session, "two").await;
    assert_eq!(changes(&events).unwrap(), ["added skill 'a'"]);
    // Another body changes no prompt: there is no cut, and the session knows.
    runtime.replace_resources(skills("2", &[("a", "two")]));
    let events = harness.run(&session, "three").await;
    assert_eq!(changes(&events).unwrap(), ["changed skill 'a'"]);
    assert!(!events.kinds().contains(&"cache_break"));
    runtime.replace_resources(Resources::default());
    let events = harness.run(&session, "four").await;
    assert_eq!(changes(&events).unwrap(), ["removed skill 'a'"]);
}

/// Earlier versions have only noted what resources were called.
#[tokio::test]
async fn a_session_that_kept_nothing_says_that_it_cannot_tell() {
    let harness = Harness::echoing()
        .services(|services| services.resources.replace(skills("1", &[("a", "one")])))
        .start();
    let session = harness.session().await;
    session.shutdown("before its first turn").await.unwrap();
    let later = harness
        .another_process(["One."])
        .services(|services| services.resources.replace(skills("2", &[("b", "one")])))
        .start();
    let resumed = later.resume(&session).await;
    let events = later.run(&resumed, "one").await;
    assert_eq!(changes(&events), Some(Vec::new()));
    assert!(render(&events).contains("what it had then was not kept"));
}
