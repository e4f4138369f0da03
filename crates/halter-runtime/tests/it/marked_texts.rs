//! The bounds of what texts of commands have run and read.

use halter_protocol::{CommandDef, PermissionMode, ResourceSnapshot};
use halter_runtime::limits::{TEXT_COMMANDS, TEXT_FILE_BYTES, TEXT_FILES};
use halter_runtime::{ResourceCell, Resources};
use halter_testkit::{Harness, collect};
use serde_json::json;
use std::sync::Arc;

/// What the model is told when a user starts a command with this prompt.
async fn told(prompt: &str, files: &[(&str, usize)]) -> String {
    let command: CommandDef = serde_json::from_value(json!({
        "name": "go", "description": "d", "path": "/c/go.md", "prompt": prompt,
        "runs_commands": true,
    }))
    .unwrap();
    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = "marked".into();
    snapshot.commands.insert(command.name.clone(), command);
    let harness = Harness::scripted(["done"])
        .tools(halter_tools::builtin_tools())
        .services(|services| {
            services.policy.permissions.mode = PermissionMode::FullAccess;
            services.resources = ResourceCell::new(Resources {
                snapshot: Arc::new(snapshot),
                ..Resources::default()
            });
        })
        .start();
    for (name, bytes) in files {
        std::fs::write(harness.workspace().path().join(name), "x".repeat(*bytes)).unwrap();
    }
    let session = harness.session().await;
    let turn = session.invocation("/go").unwrap().unwrap();
    collect(session.submit_turn(turn).await.unwrap()).await;
    format!("{:?}", harness.requests()[0].messages)
}

#[tokio::test]
async fn a_text_runs_so_many_commands_and_no_more() {
    let prompt = "- !`echo a\"\"b`\n".repeat(TEXT_COMMANDS + 1);
    let told = told(&prompt, &[]).await;
    assert_eq!(told.matches("- ab\\n").count(), TEXT_COMMANDS, "{told}");
    assert!(told.contains("(not run: a text runs"), "{told}");
}

#[tokio::test]
async fn a_text_brings_so_many_files_of_such_a_size() {
    let prompt = "@a.txt ".repeat(TEXT_FILES + 1);
    let many = told(&prompt, &[("a.txt", 1)]).await;
    assert_eq!(many.matches("<file path").count(), TEXT_FILES, "{many}");
    let most = usize::try_from(TEXT_FILE_BYTES).unwrap();
    let files = [("a.txt", most), ("b.txt", most + 1)];
    let sized = told("@a.txt @b.txt", &files).await;
    assert_eq!(sized.matches("<file path").count(), 1);
    assert!(sized.contains("[@b.txt: ") && sized.contains("read it in parts]"));
}
