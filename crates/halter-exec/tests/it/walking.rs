//! The same behaviour where there is no cgroup to hold a tree together.

use std::process::Command;

/// Hides the cgroup file system from a copy of this test binary and has it run
/// everything else. Where that is not permitted there is, as a rule, no
/// writable cgroup either, and the other tests have been through it already.
#[test]
fn everything_holds_without_cgroups() {
    let hide = "mount -t tmpfs none /sys/fs/cgroup";
    let allowed = Command::new("unshare")
        .args(["--mount", "sh", "-c", hide])
        .output()
        .is_ok_and(|output| output.status.success());
    if !allowed {
        return;
    }
    let output = Command::new("unshare")
        .args([
            "--mount",
            "sh",
            "-c",
            &format!("{hide} && exec \"$@\""),
            "sh",
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--skip", "walking::", "--skip", "privileges::"])
        // Long, and about no tree.
        .args(["--skip", "differential::"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
