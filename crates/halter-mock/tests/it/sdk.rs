//! The vendors' own SDKs, run against the service.
//!
//! `HALTER_SDK_VENV` names a Python environment with the packages of
//! `tests/sdk/requirements.txt`. Without it one is built once under the target
//! directory, if Python and a package index can be reached; else the test says
//! that it was skipped.

use halter_mock::{ServeOptions, serve};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;

/// How long an installation may take.
const INSTALL_TIME: Duration = Duration::from_secs(300);
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

async fn has_sdks(python: &Path) -> bool {
    let imports = ["-c", "import anthropic, openai, google.genai"];
    succeeds(Command::new(python).args(imports), INSTALL_TIME).await
}

/// The interpreter of an environment that has the SDKs.
async fn python() -> Option<PathBuf> {
    if let Some(venv) = std::env::var_os("HALTER_SDK_VENV") {
        let python = Path::new(&venv).join("bin/python");
        assert!(
            has_sdks(&python).await,
            "HALTER_SDK_VENV lacks the SDKs of tests/sdk/requirements.txt"
        );
        return Some(python);
    }
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk-venv");
    let python = venv.join("bin/python");
    if has_sdks(&python).await {
        return Some(python);
    }
    let created = succeeds(
        Command::new("python3").args(["-m", "venv"]).arg(&venv),
        INSTALL_TIME,
    )
    .await;
    let mut install = Command::new(&python);
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--retries",
            "1",
            "--timeout",
            "15",
            "-r",
        ])
        .arg(folder().join("requirements.txt"));
    let installed = created && succeeds(&mut install, INSTALL_TIME).await;
    (installed && has_sdks(&python).await).then_some(python)
}

#[tokio::test]
async fn the_official_sdks_hold_their_conversations() {
    let Some(python) = python().await else {
        // Not through a macro, whose output a passing test would swallow.
        writeln!(std::io::stderr(), "skipped: needs the Python SDKs").unwrap();
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
        21
    );
    service.stop().await;
}
