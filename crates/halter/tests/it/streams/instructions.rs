//! Instruction files: in the prompt at the start, later in messages.

use super::Recorded;
use super::scenarios::{harness, recorded, say, session};
use halter_runtime::InstructionSettings;
use halter_testkit::{Harness, Reply, ScriptedTool};
use serde_json::json;

pub async fn instruction_files() -> Recorded {
    let look = ScriptedTool::new("look").read_only();
    let look = look.touches(halter_protocol::Action::Read {
        path: "app/notes.txt".into(),
    });
    let replies = [
        "One.".into(),
        "Two.".into(),
        Reply::new().tool_call("look", json!({})),
        "Three.".into(),
    ];
    let builder = Harness::scripted(replies).tool(look.build());
    let harness = harness(builder.services(|services| {
        services.instructions = Some(InstructionSettings::default());
    }));
    let workspace = harness.workspace();
    workspace.write("AGENTS.md", "Use tabs. @style.md");
    workspace.write("CLAUDE.md", "Be kind.");
    workspace.write("app/AGENTS.md", "App rules.");
    workspace.write("app/notes.txt", "noon");
    let session = session(&harness, "instruction_files").await;
    say(&harness, &session, 1, "Begin").await;
    workspace.write("AGENTS.md", "Use spaces.");
    std::fs::remove_file(workspace.join("CLAUDE.md")).unwrap();
    say(&harness, &session, 2, "Go on").await;
    say(&harness, &session, 3, "Look into the app").await;
    recorded(&harness, &session).await
}
