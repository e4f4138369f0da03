//! The vendors' own SDKs, run against the service.
//!
//! `HALTER_SDK_VENV` names a Python environment with the packages of
//! `tests/sdk/requirements.txt`, as `.ci/run` makes one. Without it the test
//! says that it was skipped: a test of its own accord uses no network.

use halter_mock::{ServeOptions, serve};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;

/// How long the packages may take to load.
const IMPORT_TIME: Duration = Duration::from_secs(300);
/// How long all conversations may take.
const TALK_TIME: Duration = Duration::from_secs(300);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk")
}

async fn succeeds(command: &mut Command, within: Duration) -> bool {
    let output = command.kill_on_drop(true).output();
    match tokio::time::timeout(within, output).await {
        Ok(Ok(output)) => output.status.success(),
        _ => false,
    }
}

/// The interpreter of the environment that is named.
async fn python() -> Option<PathBuf> {
    let venv = std::env::var_os("HALTER_SDK_VENV")?;
    let python = Path::new(&venv).join("bin/python");
    let imports = ["-c", "import anthropic, openai, google.genai"];
    assert!(
        succeeds(Command::new(&python).args(imports), IMPORT_TIME).await,
        "HALTER_SDK_VENV lacks the SDKs of tests/sdk/requirements.txt"
    );
    Some(python)
}

#[tokio::test]
async fn the_official_sdks_hold_their_conversations() {
    let Some(python) = python().await else {
        // Not through a macro, whose output a passing test would swallow.
        writeln!(
            std::io::stderr(),
            "skipped: HALTER_SDK_VENV names no environment with the Python SDKs"
        )
        .unwrap();
        return;
    };
    let service = serve(ServeOptions::default()).await.unwrap();
    let talk = Command::new(python)
        .arg(folder().join("conversations.py"))
        .arg(service.base_url())
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy")
        .env_remove("ALL_PROXY")
        .env_remove("all_proxy")
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(TALK_TIME, talk)
        .await
        .unwrap()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        said.lines().filter(|line| line.starts_with("ok ")).count(),
        24
    );
    service.stop().await;
}
