//! Skills of directories below the session's, which join when a file there is
//! used.

use crate::instructions::{instructed, read, shown, told, warnings};
use crate::prefix::assert_prefixes;
use halter_protocol::{
    ResourceChangeKind, ResourceKind, RuleEffect, RuleSource, SessionEvent, SessionEventPayload,
};
use halter_resources::limits::MAX_NESTED_SKILLS;
use halter_testkit::{Harness, TempWorkspace};
use halter_tools::policy::SourcedRule;
use std::sync::Arc;

fn skill(description: &str) -> String {
    format!("---\ndescription: {description}\n---\nPress the big button.\n")
}

fn breaks(events: &[SessionEvent]) -> usize {
    let is_break =
        |it: &&SessionEvent| matches!(it.payload, SessionEventPayload::CacheBreak { .. });
    events.iter().filter(is_break).count()
}

#[tokio::test]
async fn skills_join_when_a_file_beside_them_is_used_and_stay_after_a_resume() {
    let workspace = Arc::new(TempWorkspace::default());
    let ship = "app/.claude/skills/ship/SKILL.md";
    workspace.write(ship, skill("Ships the app."));
    workspace.write("app/.halter/skills/test/SKILL.md", skill("Tests the app."));
    workspace.write("app/ui/.agents/skills/draw/SKILL.md", skill("Draws."));
    let hidden = "---\ndescription: Mine.\ndisable-model-invocation: true\n---\nGo.\n";
    workspace.write("app/.claude/skills/mine/SKILL.md", hidden);
    workspace.write(".claude/skills/top/SKILL.md", skill("A resource."));
    workspace.write("other/.claude/skills/no/SKILL.md", skill("Elsewhere."));
    workspace.write("app/AGENTS.md", "App rules.");
    workspace.write("app/a.txt", "text");
    workspace.write("app/ui/b.txt", "text");
    let replies = [
        read("app/none.txt"),
        read("app/a.txt"),
        read(ship),
        "done".into(),
        read("app/ui/b.txt"),
        "done".into(),
    ];
    let harness = instructed(Harness::scripted(replies), &workspace).start();
    let session = harness.session().await;
    let events = harness.run(&session, "ship it").await;
    let [message] = told(&events)[..] else {
        panic!("told once: {:#?}", told(&events));
    };
    let path = workspace.join(ship);
    let line = format!("\n- ship: Ships the app. ({})", path.display());
    assert!(message.text.contains(&line), "{}", message.text);
    assert!(message.text.contains("- test: Tests the app. ("));
    assert!(message.text.contains("App rules."));
    for absent in ["Mine.", "A resource.", "Elsewhere.", "Draws.", "big button"] {
        assert!(!message.text.contains(absent), "{absent}");
    }
    assert!(shown(&harness).contains("big button"), "it can be read");
    assert_eq!(breaks(&events), 0);

    let events = harness.run(&session, "and draw").await;
    let [message] = told(&events)[..] else {
        panic!("only what is new is told: {:#?}", told(&events));
    };
    assert!(message.text.contains("- draw: Draws. ("));
    assert!(!message.text.contains("Ships"), "{}", message.text);
    session.shutdown("bye").await.unwrap();
    let mut requests = harness.requests();

    let same = harness.another_process(["one", "two"]).start();
    let resumed = same.resume(&session).await;
    let events = same.run(&resumed, "one").await;
    assert_eq!(told(&events).len(), 0, "{:#?}", told(&events));

    workspace.write(ship, skill("Ships all."));
    std::fs::remove_file(workspace.join("app/ui/.agents/skills/draw/SKILL.md")).unwrap();
    let events = same.run(&resumed, "two").await;
    let [message] = told(&events)[..] else {
        panic!("changes are told before the turn");
    };
    assert!(message.text.contains("- ship: Ships all. ("));
    assert!(message.text.contains("Skills that are gone: /"));
    assert!(!message.text.contains("Tests the app."));
    let changes = events.iter().find_map(|event| match &event.payload {
        SessionEventPayload::ResourcesLoaded(loaded) => Some(loaded.changes.clone()),
        _ => None,
    });
    let changes: Vec<_> = changes
        .unwrap()
        .into_iter()
        .map(|it| (it.kind, it.change))
        .collect();
    let expected = [ResourceChangeKind::Changed, ResourceChangeKind::Removed];
    assert_eq!(changes, expected.map(|it| (ResourceKind::Skill, it)));
    requests.extend(same.requests());
    assert_prefixes(&requests);
}

/// What a folder of a repository asks for and the session may not read, or may
/// only run when it is trusted.
#[tokio::test]
async fn nested_skills_open_nothing_and_run_nothing() {
    let workspace = Arc::new(TempWorkspace::default());
    let outside = workspace.beside("outside");
    std::fs::create_dir_all(outside.join("stray")).unwrap();
    std::fs::write(outside.join("stray/SKILL.md"), skill("PRIVATE")).unwrap();
    let below = |path: &str| workspace.join("app/.claude/skills").join(path);
    for name in ["denied", "asked"] {
        workspace.write(below(name).join("SKILL.md"), skill("PRIVATE"));
    }
    let runs = format!(
        "---\ndescription: Runs.\nallowed-tools: Bash\nhooks: {{PreToolUse: [{{hooks: [{{type: \
         command, command: 'touch {0}'}}]}}]}}\n---\n!`touch {0}`\n",
        workspace.join("ran").display()
    );
    workspace.write(below("runs/SKILL.md"), runs);
    workspace.write(below("broken/SKILL.md"), "---\nallowed-tools: [\n---\n");
    workspace.write(below("linked/notes.md"), "no skill of its own");
    let link = |to: &str, path: &str| {
        let path = workspace.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(outside.join(to), path).unwrap();
    };
    link("stray/SKILL.md", "app/.claude/skills/linked/SKILL.md");
    link("stray", "app/.claude/skills/stray");
    link("", "app/.halter/skills");
    workspace.write("app/a.txt", "text");
    workspace.write("app/b.txt", "text");
    workspace.write(
        "node_modules/left/.claude/skills/x/SKILL.md",
        skill("Foreign."),
    );
    workspace.write("node_modules/left/index.js", "x");
    let replies = [
        read("node_modules/left/index.js"),
        read("app/a.txt"),
        read("app/.claude/skills/runs/SKILL.md"),
        read("app/b.txt"),
        "done".into(),
    ];
    let rule = |effect, name: &str| {
        let text = format!("Read(./app/.claude/skills/{name}/**)");
        SourcedRule::new(effect, &text, RuleSource::User).unwrap()
    };
    let rules = [
        rule(RuleEffect::Deny, "denied"),
        rule(RuleEffect::Ask, "asked"),
    ];
    let harness = instructed(Harness::scripted(replies), &workspace)
        .services(|services| services.policy.permissions.rules.extend(rules))
        .start();
    let events = harness.ask("look").await;
    let [message] = told(&events)[..] else {
        panic!("told once: {:#?}", told(&events));
    };
    assert!(message.text.contains("- runs: Runs. ("), "{}", message.text);
    let said = warnings(&events);
    for skipped in ["denied", "asked", "broken", "linked"] {
        let named = |it: &&str| it.contains(&format!("/{skipped}/SKILL.md"));
        assert!(said.iter().any(named), "{skipped}: {said:#?}");
    }
    let shown = shown(&harness);
    assert!(!shown.contains("PRIVATE") && !shown.contains("Foreign."));
    assert!(!workspace.exists("ran"));
}

#[tokio::test]
async fn the_number_of_nested_skills_is_bounded() {
    let workspace = Arc::new(TempWorkspace::default());
    for number in 0..=MAX_NESTED_SKILLS {
        let file = format!("app/.claude/skills/s{number:02}/SKILL.md");
        workspace.write(file, skill("Does something."));
    }
    workspace.write("app/a.txt", "text");
    let replies = [read("app/a.txt"), "done".into()];
    let harness = instructed(Harness::scripted(replies), &workspace).start();
    let events = harness.ask("look").await;
    let text = &told(&events)[0].text;
    assert_eq!(text.matches("Does something.").count(), MAX_NESTED_SKILLS);
    assert!(warnings(&events)[0].contains("the rest is left out"));
}

#[tokio::test]
async fn sessions_whose_folders_are_not_searched_are_told_of_no_nested_skills() {
    let workspace = Arc::new(TempWorkspace::default());
    workspace.write("app/.claude/skills/ship/SKILL.md", skill("Ships."));
    workspace.write("app/a.txt", "text");
    let replies = [read("app/a.txt"), "done".into()];
    let harness = instructed(Harness::scripted(replies), &workspace)
        .services(|services| {
            let settings = services.instructions.as_mut().unwrap();
            settings.nested_skills = false;
        })
        .start();
    let events = harness.ask("look").await;
    assert_eq!(told(&events).len(), 0);
}
