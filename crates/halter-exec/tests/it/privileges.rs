//! The same confinement for those who have fewer rights: root without
//! capabilities, and nobody. Runs where this suite itself runs as root.

use std::process::Command;

fn holds_under(options: &[&str]) {
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(base.path(), everybody).unwrap();
    let setpriv = |program: &std::ffi::OsStr, args: &[&str]| {
        Command::new("setpriv")
            .args(options)
            .arg(program)
            .args(args)
            .env("TMPDIR", "/tmp")
            .env("HALTER_TEST_BASE", base.path())
            .current_dir("/")
            .output()
    };
    let own = std::env::current_exe().unwrap();
    // The tests must be there for that user to run at all.
    let reachable = setpriv(own.as_os_str(), &["--list"]);
    if !reachable.is_ok_and(|output| output.status.success()) {
        return;
    }
    let output = setpriv(
        own.as_os_str(),
        &["sandbox::", "contained::", "run::", "launch::"],
    )
    .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn everything_holds_for_root_without_capabilities() {
    holds_under(&["--bounding-set", "-all", "--inh-caps", "-all"]);
}

#[test]
fn everything_holds_for_nobody() {
    holds_under(&["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]);
}
