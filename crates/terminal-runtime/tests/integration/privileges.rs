//! The same for those who have fewer rights: root without capabilities, and
//! nobody. Runs where this suite itself runs as root.

use std::process::Command;

fn holds_under(options: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    std::fs::set_permissions(place.path(), everybody).unwrap();
    let setpriv = |program: &std::ffi::OsStr, args: &[&str]| {
        Command::new("setpriv")
            .args(options)
            .arg(program)
            .args(args)
            .env("TMPDIR", place.path())
            .current_dir("/")
            .output()
    };
    let own = std::env::current_exe().unwrap();
    // The programs must be there for that user to run at all.
    let reachable = |program: &std::ffi::OsStr, args: &[&str]| {
        setpriv(program, args).is_ok_and(|output| output.status.success())
    };
    if !rustix::process::geteuid().is_root()
        || !reachable(own.as_os_str(), &["--list"])
        || !reachable(crate::support::PROGRAM.as_ref(), &["--version"])
    {
        println!("skipped: needs root, setpriv, and a build that others may read");
        return;
    }
    let parts = [
        "core::",
        "adoption::",
        "confinement::",
        "holder::",
        "isolation::",
        "places::",
        "reach::",
    ];
    let output = setpriv(own.as_os_str(), &parts).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "for its time: every look at a tree starts `ps`"
)]
#[test]
fn everything_holds_for_root_without_capabilities() {
    holds_under(&["--bounding-set", "-all", "--inh-caps", "-all"]);
}

#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "for its time: every look at a tree starts `ps`"
)]
#[test]
fn everything_holds_for_nobody() {
    holds_under(&["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]);
}
