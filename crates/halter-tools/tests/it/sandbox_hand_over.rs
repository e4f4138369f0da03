//! What a hostile program in the sandbox can do to a command that is let out.

use crate::sandbox::{settings, sh, works};
use crate::sandbox_places::elsewhere;
use crate::support::Workspace;
use halter_tools::policy::SandboxMode;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const ATTEMPTS: &str = include_str!("sandbox_state_attacks.sh");

/// Reads what the harness says to the shell, and answers in its place.
const STEAL: &str = r#"
import glob, os, re, sys
while True:
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if not os.readlink(path).startswith("pipe:"):
                continue
            pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            said = os.read(pipe, 4096)
        except OSError:
            continue
        for name in re.findall(rb"__halter_end(?:_with)? (\S+)", said):
            record = b"E " + name + b" 0 " + sys.argv[1].encode() + b"\0"
            for answer in glob.glob("/proc/[0-9]*/fd/19"):
                try:
                    with open(answer, "wb", buffering=0) as pipe:
                        pipe.write(record)
                except OSError:
                    pass
"#;

/// Answers without having been asked.
const FORGE: &str = r#"
while :; do
  for at in /proc/[0-9]*/fd/19 /proc/[0-9]*/fd/9; do
    printf 'E x 0 %s\0' "$1" 2>/dev/null >"$at"
  done
done
"#;

fn preparation(out: &Path) -> String {
    format!(
        "OUT={}; EXCHANGE=/dev/.halter/exchange; everywhere() {{ while :; do \
         for file in $EXCHANGE/*; do printf \"$1\" 1<>\"$file\"; done; done; }}",
        out.display()
    )
}

fn workspace(out: &Path) -> Workspace {
    let workspace = Workspace::with_settings(settings(SandboxMode::Prefer, &["*"]));
    let escape = format!("#!/bin/sh\ntouch {}/escaped\n", out.display());
    workspace.put("evil", &escape);
    workspace.put("steal.py", STEAL);
    workspace.put("forge.sh", FORGE);
    workspace.put("target", out.display().to_string());
    workspace.put("sub/deep/file", "");
    for name in ["bin/ls", "bin/git", "bin/true"] {
        workspace.put(name, &escape);
        let path = workspace.dir().join(name);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    workspace
}

/// What a command prints that was let out; none where it was not even started.
async fn let_out(workspace: &Workspace) -> Option<String> {
    let command = "ls >/dev/null; git --version >/dev/null; true; bash -c true; sh -c true; \
                   touch escaped; echo \"[${TARGET-}]\"";
    let input = json!({"command": command, "outside_sandbox": true, "timeout_ms": 120_000});
    let ran = workspace.call("shell", input).await.ok()?;
    Some(ran["stdout"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_state_of_the_shell_inside_runs_or_chooses_anything_outside() {
    if !works("namespaces") {
        return;
    }
    let mut attempts = 0;
    for line in ATTEMPTS.lines().filter(|line| !line.starts_with('#')) {
        let (name, script) = line.split_once('\t').unwrap();
        let directory = elsewhere();
        let out = directory.path().canonicalize().unwrap();
        std::fs::write(out.join("kept"), "kept").unwrap();
        let workspace = workspace(&out);
        let prepared = sh(&workspace, &preparation(&out)).await;
        assert_eq!(prepared["exit_code"], 0, "{name}: {prepared}");
        sh(&workspace, script).await;
        let said = let_out(&workspace).await;
        assert!(!out.join("escaped").exists(), "{name}: {said:?}");
        let kept = std::fs::read_to_string(out.join("kept")).unwrap();
        assert_eq!(kept, "kept", "{name}");
        assert!(said.is_none_or(|said| said == "[]\n"), "{name}");
        workspace.store.close().await;
        assert!(!out.join("escaped").exists(), "{name}: afterwards");
        attempts += 1;
    }
    assert!(attempts >= 25, "{attempts}");
}
