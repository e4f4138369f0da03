//! Skills, commands and output styles in use.

use crate::support::{directory, no_keys, outcomes, run_turn, session_in};
use futures::StreamExt;
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter::{HalterSession, ResourceCompiler, ResourcePlaces, ResourceRoot};
use halter_config::{DeferralWord, DeferredTools};
use halter_protocol::{CacheBreakReason, Message, ResourceUse, SessionEventPayload};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const RELEASE: &str = "---\nname: release\ndescription: How to release.\n---\n\
                       Tag $ARGUMENTS first, see ${CLAUDE_SKILL_DIR}/steps.md.\n";
const PLAIN: &str = "---\nname: style\ndescription: How to write.\n---\nPlain words.\n";
const ALWAYS: &str = "---\nname: rules\ndescription: Rules.\nalways: true\n---\nNever shout.\n";
const OWN: &str =
    "---\nname: deploy\ndescription: Deploys.\ndisable-model-invocation: true\n---\nShip $0.\n";

fn project() -> tempfile::TempDir {
    directory(&[
        (".halter/skills/release/SKILL.md", RELEASE),
        (".halter/skills/release/steps.md", "One. Two."),
        (".halter/skills/style/SKILL.md", PLAIN),
        (".halter/skills/rules/SKILL.md", ALWAYS),
        (".halter/skills/deploy/SKILL.md", OWN),
        (
            ".halter/commands/fix.md",
            "---\nmodel: small\n---\nFix issue $0 now.",
        ),
        (
            ".halter/output-styles/terse.md",
            "---\nname: Terse\n---\nThree words at most.",
        ),
    ])
}

fn compiler(project: &Path) -> ResourceCompiler {
    let root = |name: &str| vec![ResourceRoot::named(project.join(".halter").join(name))];
    ResourceCompiler::default().with_places(ResourcePlaces {
        skills: root("skills"),
        commands: root("commands"),
        output_styles: root("output-styles"),
        ..ResourcePlaces::default()
    })
}

async fn harness(project: &Path, model: Arc<FakeProvider>) -> Halter {
    let mut config = HarnessConfig::default();
    // A model would load the tool for skills first.
    config.tools.deferred = DeferredTools::Word(DeferralWord::Off);
    Halter::builder()
        .with_config(config)
        .with_compiled_resources(compiler(project).compile().await.unwrap())
        .with_environment(no_keys())
        .with_provider(model)
        .build()
        .await
        .unwrap()
}

async fn run(session: &HalterSession, turn: Turn) -> Vec<SessionEvent> {
    let events = session.submit_turn(turn).await.unwrap();
    events.map(Result::unwrap).collect().await
}

/// The system messages that name something, in the order of the transcript.
async fn told(session: &HalterSession, what: &str) -> Vec<String> {
    let events = session.replay().await.unwrap();
    let messages = events.into_iter().filter_map(|event| match event.payload {
        SessionEventPayload::MessageItem { message } => Some(message),
        _ => None,
    });
    let texts = messages.filter_map(|message| match message.as_ref() {
        Message::System(system) => Some(system.text.clone()),
        _ => None,
    });
    texts.filter(|text| text.contains(what)).collect()
}

#[tokio::test]
async fn the_prefix_holds_names_and_descriptions_and_a_body_enters_once() {
    let project = project();
    let load = |skill: &str| Reply::new().tool_call("skill", json!({"skill": skill}));
    let model = Arc::new(FakeProvider::scripted([
        load("style"),
        load("style"),
        load("deploy"),
        load("absent"),
        Reply::new().text("Done."),
        load("style"),
        Reply::new().text("Again."),
    ]));
    let harness = harness(project.path(), model.clone()).await;
    let session = session_in(&harness, project.path()).await;
    let outcomes = outcomes(&run_turn(&session, "Write").await);
    let prompt = model.requests()[0].prompt.text();
    assert!(
        prompt.contains("- release: How to release.\n- style: How to write."),
        "{prompt}"
    );
    assert!(prompt.contains("## rules\n\nNever shout."), "{prompt}");
    for body in [
        "Tag",
        "Plain words",
        "Ship",
        "deploy",
        "SKILL.md",
        "Fix issue",
        "Three words",
    ] {
        assert!(!prompt.contains(body), "{body}: {prompt}");
    }
    assert!(outcomes[0].result.is_ok() && outcomes[1].result.is_ok());
    let refused = outcomes[2].result.as_ref().unwrap_err();
    assert!(
        refused.message.contains("for the user to start"),
        "{}",
        refused.message
    );
    let unknown = outcomes[3].result.as_ref().unwrap_err();
    assert!(
        unknown.message.contains("no skill 'absent'"),
        "{}",
        unknown.message
    );
    run_turn(&session, "Once more").await;
    let told = told(&session, "Plain words.").await;
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].starts_with("The skill 'style' is in use."),
        "{}",
        told[0]
    );
    // What was told stays in force when the session is taken up again.
    session.shutdown("done").await.unwrap();
    let id = session.session_id().clone();
    let resumed = harness.runtime().resume(&id).await.unwrap().unwrap();
    let style = ResourceUse::Skill {
        name: "style".into(),
        arguments: String::new(),
    };
    run(&resumed, Turn::user("/style").with_use(style)).await;
    assert_eq!(self::told(&resumed, "Plain words.").await.len(), 1);
    resumed.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn a_user_starts_skills_and_commands_by_name() {
    let project = project();
    let model = Arc::new(FakeProvider::default());
    let harness = harness(project.path(), model.clone()).await;
    let session = session_in(&harness, project.path()).await;
    let turn = session.invocation("/release 1.2.0 ").unwrap().unwrap();
    run(&session, turn).await;
    let text = told(&session, "'release'").await.remove(0);
    let steps = project.path().canonicalize().unwrap();
    let steps = steps.join(".halter/skills/release/steps.md");
    assert!(
        text.contains(&format!("Tag 1.2.0 first, see {}.", steps.display())),
        "{text}"
    );
    assert!(text.contains("Files that it names are in"), "{text}");
    // Other arguments are another text; the same ones are not said again.
    run(
        &session,
        session.invocation("/release 1.3.0").unwrap().unwrap(),
    )
    .await;
    run(
        &session,
        session.invocation("/release 1.3.0").unwrap().unwrap(),
    )
    .await;
    assert_eq!(told(&session, "'release'").await.len(), 2);

    let turn = session.invocation("/fix 12").unwrap().unwrap();
    assert_eq!(turn.user_message.plain_text(), "/fix 12\nFix issue 12 now.");
    assert_eq!(
        turn.default_model.as_ref().map(|it| it.as_str()),
        Some("small")
    );
    assert!(session.invocation("/deploy prod").unwrap().is_some());
    for line in ["/nothing", "fix 12", "/etc/hosts", "/"] {
        assert!(session.invocation(line).unwrap().is_none(), "{line}");
    }
    let unknown = Turn::user("x").with_use(ResourceUse::Skill {
        name: "absent".into(),
        arguments: String::new(),
    });
    let events = run(&session, unknown).await;
    let SessionEventPayload::TurnFailed { error, .. } = &events.last().unwrap().payload else {
        panic!("{events:?}");
    };
    assert_eq!(error.code, "resource_unknown");
    session.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn an_output_style_is_configured_or_chosen() {
    let project = project();
    let model = Arc::new(FakeProvider::default());
    let mut config = HarnessConfig::default();
    config.prompts.output_style = Some("Terse".to_owned());
    let resources = compiler(project.path()).compile().await.unwrap();
    let build = async |config: HarnessConfig| {
        Halter::builder()
            .with_config(config)
            .with_compiled_resources(resources.clone())
            .with_environment(no_keys())
            .with_provider(model.clone())
            .build()
            .await
    };
    let harness = build(config.clone()).await.unwrap();
    let session = session_in(&harness, project.path()).await;
    run_turn(&session, "hello").await;
    let prompt = model.requests()[0].prompt.text();
    assert!(prompt.starts_with("Three words at most."), "{prompt}");
    let style = || ResourceUse::OutputStyle {
        name: "Terse".to_owned(),
    };
    run(&session, Turn::user("and").with_use(style())).await;
    run(&session, Turn::user("and").with_use(style())).await;
    assert_eq!(told(&session, "output style 'Terse'").await.len(), 1);
    session.shutdown("done").await.unwrap();
    config.prompts.output_style = Some("Absent".to_owned());
    let error = build(config).await.unwrap_err().to_string();
    assert!(
        error.contains("prompts.output_style: there is no output style 'Absent'"),
        "{error}"
    );
}

#[tokio::test]
async fn a_command_comes_before_a_skill_of_a_plugin_that_ends_in_its_name() {
    let project = directory(&[
        (".halter/commands/fix.md", "Fix issue $0 now."),
        ("p/plugin.json", "{\"name\": \"p\", \"version\": \"1\"}"),
        ("p/skills/fix/SKILL.md", "---\ndescription: d\n---\nF."),
    ]);
    let compiler = compiler(project.path()).with_plugin_roots(vec![project.path().to_owned()]);
    let harness = Halter::builder()
        .with_config(HarnessConfig::default())
        .with_compiled_resources(compiler.compile().await.unwrap())
        .with_environment(no_keys())
        .with_provider(Arc::new(FakeProvider::default()))
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, project.path()).await;
    for (line, command) in [("/fix 12", true), ("/p:fix 12", false)] {
        let turn = session.invocation(line).unwrap().unwrap();
        let text = turn.user_message.plain_text();
        assert_eq!(text.contains("Fix issue 12 now."), command, "{text}");
    }
    session.shutdown("done").await.unwrap();
}

/// What a turn says about the prompt, and how that begins.
async fn styled_turn(session: &HalterSession, model: &FakeProvider) -> (bool, String) {
    let events = run_turn(session, "go on").await;
    let announced = events.iter().any(|event| {
        matches!(&event.payload, SessionEventPayload::CacheBreak { reason, .. }
            if *reason == CacheBreakReason::ResourcesReplaced)
    });
    let prompt = model.requests().last().unwrap().prompt.text();
    let first = prompt.lines().next().unwrap_or_default();
    (announced, first.to_owned())
}

#[tokio::test]
async fn the_configured_style_follows_its_file_in_running_sessions_and_resumed_ones() {
    let project = project();
    let model = Arc::new(FakeProvider::default());
    let mut config = HarnessConfig::default();
    config.prompts.output_style = Some("Terse".to_owned());
    let harness = Halter::builder()
        .with_config(config)
        .with_compiled_resources(compiler(project.path()).compile().await.unwrap())
        .with_environment(no_keys())
        .with_provider(model.clone())
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, project.path()).await;
    let file = project.path().join(".halter/output-styles/terse.md");
    let guidance = halter::prompts::default_system_prompt()
        .lines()
        .next()
        .unwrap();
    let write =
        |text: &str| std::fs::write(&file, format!("---\nname: Terse\n---\n{text}")).unwrap();
    let replace = async || {
        let compiled = compiler(project.path()).compile().await.unwrap();
        harness.replace_resources(compiled).unwrap();
        harness.resource_warnings()
    };
    let turn = async || styled_turn(&session, &model).await;
    assert_eq!(turn().await, (false, "Three words at most.".to_owned()));
    write("Two words.");
    assert_eq!(replace().await, [""; 0]);
    assert_eq!(turn().await, (true, "Two words.".to_owned()));
    assert_eq!(turn().await, (false, "Two words.".to_owned()));
    std::fs::remove_file(&file).unwrap();
    let told = replace().await;
    assert_eq!(
        told,
        [
            "prompts.output_style: there is no output style 'Terse'; `halter resources` lists what is loaded"
        ]
    );
    assert_eq!(turn().await, (true, guidance.to_owned()));
    write("One word.");
    replace().await;
    assert_eq!(turn().await, (true, "One word.".to_owned()));
    let id = session.session_id().clone();
    session.shutdown("done").await.unwrap();
    let resumed = harness.runtime().resume(&id).await.unwrap().unwrap();
    assert_eq!(styled_turn(&resumed, &model).await.1, "One word.");
    resumed.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn a_watch_takes_up_what_changes_and_the_cut_is_announced() {
    let project = project();
    let model = Arc::new(FakeProvider::default());
    let harness = harness(project.path(), model.clone()).await;
    let session = session_in(&harness, project.path()).await;
    run_turn(&session, "hello").await;
    let watch = harness.watch_resources_every(Duration::from_millis(5), compiler(project.path()));
    let new = project.path().join(".halter/skills/new");
    std::fs::create_dir(&new).unwrap();
    std::fs::write(
        new.join("SKILL.md"),
        "---\nname: new\ndescription: New.\n---\nN.",
    )
    .unwrap();
    let taken_up = async {
        loop {
            let resources = harness.runtime().services().resources.get();
            if resources.snapshot.skills.contains_key("new") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), taken_up)
        .await
        .unwrap();
    drop(watch);
    let events = run_turn(&session, "again").await;
    let announced = events.iter().any(|event| {
        matches!(&event.payload, SessionEventPayload::CacheBreak { reason, .. }
            if *reason == CacheBreakReason::ResourcesReplaced)
    });
    assert!(announced);
    assert!(model.requests()[1].prompt.text().contains("- new: New."));
    session.shutdown("done").await.unwrap();
}
