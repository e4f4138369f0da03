//! Repositories that commands make in a sandbox that is there.

use crate::sandbox::{settings, sh, works};
use crate::support::Workspace;
use halter_tools::policy::SandboxMode;

#[tokio::test]
async fn a_repository_that_a_command_makes_is_named_and_the_next_session_protects_it() {
    if !works("namespaces") {
        return;
    }
    let mut workspace = Workspace::with_settings(settings(SandboxMode::Prefer, &["*"]));
    let append = |file: &str| {
        format!("python3 -c 'open(\"made/.g\" + \"it/{file}\", \"a\").write(\"# x\")'")
    };
    let make = "import os; os.makedirs(\"made/.g\" + \"it/hooks\")";
    let made = sh(&workspace, &format!("python3 -c '{make}'")).await;
    let note = made["sandbox_note"].as_str().unwrap_or_default();
    let named = format!("the next session: {}/made/.git", workspace.dir().display());
    assert!(note.contains(&named), "{made}");
    // Said once, and then of each change.
    let quiet = sh(&workspace, "echo x > made/plain").await;
    assert_eq!(quiet.get("sandbox_note"), None);
    for (file, path) in [("config", "config"), ("hooks/pre-commit", "hooks")] {
        let changed = sh(&workspace, &append(file)).await;
        assert_eq!(changed["exit_code"], 0, "{changed}");
        let note = changed["sandbox_note"].as_str().unwrap_or_default();
        let named = format!("/made/.git/{path}");
        assert!(
            note.starts_with("protected files were changed"),
            "{changed}"
        );
        assert!(note.ends_with(&named), "{changed}");
    }
    workspace.resume().await;
    for file in ["config", "hooks/pre-commit"] {
        let refused = sh(&workspace, &append(file)).await;
        assert_ne!(refused["exit_code"], 0, "{refused}");
    }
}
