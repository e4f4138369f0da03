//! Halter or a server is killed at any moment.

use crate::mcp_fixture::processes_with_variable;
use crate::mcp_sources::entry;
use crate::place::{eventually, finish};
use crate::scenarios::stage::{ANTHROPIC, Stage};
use halter_mock::{Scenario, Step};
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime};

/// How often something is killed. `.ci/run --full` sets 100.
fn kills() -> usize {
    let set = std::env::var("HALTER_MCP_KILLS").ok();
    set.and_then(|it| it.parse().ok()).unwrap_or(6)
}

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn step(tool: &str, input: Value) -> Step {
    Step::call(tool, input.as_object().unwrap().clone())
}

#[test]
fn nothing_is_left_and_the_session_is_usable_after_kills_at_random_moments() {
    let echo = || step("mcp__x__echo", json!({"text": "hello"}));
    let scenario = Scenario::new(
        "Calls a server.",
        vec![
            step("tool_search", json!({"query": "select:mcp__x__echo"})),
            echo(),
            echo(),
            echo(),
            Step::text("done"),
        ],
    );
    let stage = Stage::with_scenario(&ANTHROPIC[0], "kills", scenario);
    stage.configure("[permissions]\nallow = [\"mcp__x\"]\n");
    let mark = stage.place.root().to_str().unwrap().to_owned();
    // It does not go by itself when its input ends.
    let mut server = entry("stays");
    server["env"]["MCP_FIXTURE_PLACE"] = json!(mark);
    let file = json!({"mcpServers": {"x": server}});
    stage.place.write(".mcp.json", &file.to_string());
    stage
        .place
        .halter(["trust", ".mcp.json", "--yes"])
        .expect(0);
    let servers = || processes_with_variable("MCP_FIXTURE_PLACE", &mark);
    let began = Instant::now();
    let first = stage.play("kills");
    first.completed();
    // However fast this machine is, moments from a run's beginning to its end.
    let run_millis = u64::try_from(began.elapsed().as_millis()).unwrap().max(1);
    let session = first.session();

    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let seed = u64::from(now.subsec_nanos()) | 1;
    println!("seed {seed}");
    let mut random = Random(seed);
    let more = ["--session", session.as_str()];
    for round in 0..kills() {
        let arguments = stage.arguments("kills", "--streaming-json", &more);
        let mut halter = stage.place.command(arguments).spawn().unwrap();
        // At whatever moment: while it starts, in a call, or at its end.
        std::thread::sleep(Duration::from_millis(random.below(run_millis)));
        if random.below(2) == 0 {
            halter.kill().unwrap();
            halter.wait().unwrap();
        } else {
            for server in servers() {
                // It may have gone meanwhile.
                let kill = format!("kill -KILL {server}");
                let _ = std::process::Command::new("sh")
                    .args(["-c", &kill])
                    .output();
            }
            // The turn goes on, with the server that was started again.
            let ran = finish(halter);
            assert_eq!(
                ran.code,
                Some(0),
                "round {round}, seed {seed}: {}",
                ran.stderr
            );
        }
        eventually("the end of the servers", || {
            servers().is_empty().then_some(())
        });
    }
    let after = stage.play_with("kills", &more);
    assert_eq!(after.completed(), "done");
    assert_eq!(servers(), Vec::<String>::new());
}
