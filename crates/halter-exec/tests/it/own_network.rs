//! A network of the test's own, for tests that try to reach addresses outside:
//! those addresses are on its own interfaces, so that nothing leaves the
//! machine, and a sandbox that does not hold is noticed.

use std::process::Command;

/// Says in the program that was started there that it was.
const MARK: &str = "HALTER_TEST_OWN_NETWORK";

/// Set up as root of the new network; then, as the user was before it, the
/// test. The last line is what tells whether there can be such a network.
const SETUP: &str = r#"ip link set lo up && ip addr add 169.254.169.254/32 dev lo &&
ip addr add 192.0.2.1/32 dev lo &&
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start && echo own-network || exit 1
[ "$1" = keep ] || drop="setpriv --ambient-caps -all --inh-caps -all --bounding-set -all,+setfcap"
shift
exec $drop "$@""#;

/// Whether this is the program that runs in a network of its own. Otherwise
/// the test of this name is run there, and has passed, or it was skipped.
pub fn entered(module: &str, test: &str) -> bool {
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let module = module.split_once("::").map_or(module, |it| it.1);
    let name = format!("{module}::{test}");
    let own = std::env::current_exe().unwrap();
    let run = |options: &[&str], keep: &str| {
        Command::new("unshare")
            .args(options)
            .args(["sh", "-c", SETUP, "sh", keep])
            .arg(&own)
            .args(["--exact", &name, "--nocapture", "--test-threads", "1"])
            .env(MARK, "1")
            .output()
            .unwrap()
    };
    let mut ran = run(&["--net"], "keep");
    let is_there = |out: &[u8]| String::from_utf8_lossy(out).contains("own-network");
    if !is_there(&ran.stdout) {
        let user = ["--user", "--map-current-user", "--keep-caps", "--net"];
        ran = run(&user, "drop");
    }
    let text = [&ran.stdout, &ran.stderr].map(|it| String::from_utf8_lossy(it));
    if is_there(&ran.stdout) {
        assert!(ran.status.success(), "{name}: {}{}", text[0], text[1]);
        assert!(text[0].contains(" 1 passed"), "{name}: {}", text[0]);
        for line in text[0].lines().filter(|line| line.starts_with("skipped")) {
            println!("{line}");
        }
    } else {
        println!("skipped: needs a network of its own: {}", text[1]);
    }
    false
}
