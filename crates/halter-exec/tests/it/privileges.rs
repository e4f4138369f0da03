//! The same confinement for those who have fewer rights: root without
//! capabilities, and nobody. Runs where this suite itself runs as root.

use std::process::Command;

/// Who runs them: one without a home directory of his own gets one.
#[derive(PartialEq)]
enum User {
    Root,
    Nobody,
}

fn holds_under(user: &User, options: &[&str]) {
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
            .envs((*user == User::Nobody).then(|| ("HOME", base.path())))
            .current_dir("/")
            .output()
    };
    let own = std::env::current_exe().unwrap();
    // The tests must be there for that user to run at all.
    let reachable = setpriv(own.as_os_str(), &["--list"]);
    if !reachable.is_ok_and(|output| output.status.success()) {
        return tell("skipped: needs root, setpriv and a test program that nobody can reach");
    }
    let tests = [crate::CONFINEMENT_TESTS, &["--nocapture"]].concat();
    let output = setpriv(own.as_os_str(), &tests).unwrap();
    let said = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    let said = said.concat();
    for line in said.lines().filter(|line| line.starts_with("skipped")) {
        tell(line);
    }
    assert!(output.status.success(), "{said}");
}

/// Not through a macro, whose output a passing test would swallow.
fn tell(line: &str) {
    use std::io::Write as _;
    let mut errors = std::io::stderr();
    writeln!(errors, "{line}").unwrap();
}

#[test]
fn everything_holds_for_root_without_capabilities() {
    holds_under(
        &User::Root,
        &["--bounding-set", "-all", "--inh-caps", "-all"],
    );
}

/// The one capability without which the kernel lets root have no user
/// namespace.
#[test]
fn everything_holds_for_root_with_the_capability_for_a_user_namespace() {
    let bounding = "-all,+setfcap";
    holds_under(
        &User::Root,
        &["--bounding-set", bounding, "--inh-caps", "-all"],
    );
}

#[test]
fn everything_holds_for_nobody() {
    holds_under(
        &User::Nobody,
        &["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"],
    );
}
