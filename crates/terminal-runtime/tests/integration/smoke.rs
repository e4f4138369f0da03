//! The seed's smoke script, as it stands but for the binary, the captured id
//! and the shell.

use std::process::Command;

use crate::runtime::PROGRAM;

#[test]
fn the_seeds_smoke_script_passes() {
    if Command::new("socat").arg("-V").output().is_err() {
        println!("skipped: needs socat");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/smoke.sh");
    let output = Command::new("bash")
        .arg(script)
        .env("TERMINAL_RUNTIME", PROGRAM)
        .env("SOCK", directory.path().join("trl-test.sock"))
        .env("TRL_STATE_DIR", directory.path().join("state"))
        .env("TRL_DISCOVERY_DIR", "none")
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let replies: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ids: Vec<&str> = replies
        .iter()
        .map(|reply| reply["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["1", "2", "3", "4", "5"]);
    assert!(replies.iter().all(|reply| reply["ok"] == true), "{said}");
    assert_eq!(replies[2]["data"]["stdout"], "hello\n");
    assert_eq!(
        replies[3]["data"]["sessions"][0]["session_id"],
        replies[1]["data"]["session_id"]
    );
    assert_eq!(replies[4]["data"]["state"], "terminated");
}
