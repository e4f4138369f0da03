//! Servers in a sandbox.

use crate::mcp::fixture;
use crate::place::{Place, skipped};
use serde_json::json;
use std::process::Command;

/// A place with a server in a sandbox, if this machine has one.
fn sandboxed(more: &str) -> Option<(Place, String)> {
    let place = Place::new();
    let status = place.halter(["sandbox", "status", "--json"]);
    let status = status.expect(0).json();
    let mut rungs = status["rungs"].as_array().unwrap().iter();
    if !rungs.any(|rung| rung["name"] == "namespaces" && rung["supported"] == true) {
        skipped("name spaces for a sandbox");
        return None;
    }
    let (program, arguments) = fixture();
    let file = place.root().join("sandboxed.toml");
    let text = format!(
        "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
         [mcp.servers.x]\ncommand = {program:?}\nargs = {arguments:?}\nsandbox = true\n\
         env = {{ MCP_FIXTURE = \"writes\" }}\n{more}"
    );
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap().to_owned();
    Some((place, file))
}

fn writes(place: &Place, config: &str, path: &str) -> String {
    let input = json!({ "text": path }).to_string();
    let called = place.halter([
        "--config",
        config,
        "tools",
        "call",
        "mcp__x__echo",
        &input,
        "--allow",
        "mcp__x__echo",
    ]);
    called.expect(0).stdout.clone()
}

#[test]
fn a_server_in_a_sandbox_writes_only_where_commands_may() {
    for more in [
        "",
        "[policy]\nsandbox = \"require\"\n",
        "[policy.shell]\nallow = [\"ls\"]\n",
    ] {
        let Some((place, config)) = sandboxed(more) else {
            return;
        };
        let tested = place.halter(["--config", &config, "mcp", "test"]);
        let told = &tested.expect(0).stdout;
        assert!(told.contains("in a sandbox (namespaces)"), "{told}");
        let inside = place.work().join("inside.txt");
        let said = writes(&place, &config, inside.to_str().unwrap());
        assert!(said.contains("Ok(())"), "{said}");
        assert_eq!(
            std::fs::read_to_string(&inside).unwrap(),
            "written by a server"
        );
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let outside = directory.path().join("outside.txt");
        let said = writes(&place, &config, outside.to_str().unwrap());
        assert!(said.contains("Err("), "{said}");
        // What lies in `/tmp` is its own.
        let in_tmp = place.root().join("outside.txt");
        writes(&place, &config, in_tmp.to_str().unwrap());
        assert!(!outside.exists() && !in_tmp.exists());
    }
}

/// A line that is run where no name space can be made.
const WITHOUT_NAMESPACES: &str = "for kind in user mnt pid net; do \
    echo 0 > /proc/sys/user/max_${kind}_namespaces || exit 125; done; exec \"$@\"";

#[test]
fn a_server_that_is_to_be_in_a_sandbox_does_not_run_without_one() {
    let policy = "[policy]\nsandbox = \"require\"\n";
    let Some((place, config)) = sandboxed(policy) else {
        return;
    };
    let plain = place.command(["--config", &config, "mcp", "test"]);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", WITHOUT_NAMESPACES]);
    command.arg("sh").arg(plain.get_program());
    command.args(plain.get_args()).env_clear();
    let variables = plain.get_envs();
    command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    let Ok(output) = command.current_dir(place.work()).output() else {
        skipped("unshare");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(125) || errors.contains("unshare failed") {
        skipped("user name spaces with limits of their own");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let told = String::from_utf8_lossy(&output.stdout);
    let why = "failed  x: MCP server `x` has no sandbox to run in:";
    assert!(told.contains(why), "{told}{errors}");
    assert!(told.contains("making name spaces failed"), "{told}");
}

#[test]
fn a_server_elsewhere_cannot_be_in_a_sandbox() {
    let place = Place::new();
    let file = place.root().join("elsewhere.toml");
    let text = "version = 1\n[mcp.servers.x]\ntype = \"http\"\n\
        url = \"http://127.0.0.1:9/mcp\"\nsandbox = true\n";
    std::fs::write(&file, text).unwrap();
    let tested = place.halter(["--config", file.to_str().unwrap(), "mcp", "test"]);
    let told = format!("{}{}", tested.expect(1).stdout, tested.stderr);
    let why = "MCP server `x` runs elsewhere and cannot be in a sandbox here";
    assert!(told.contains(why), "{told}");
}
