//! A server that is a program runs where the session works that calls it.

use crate::approvals::has_sandbox;
use crate::support::{bare, directory, one_turn, outcomes};
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter_config::McpServerTable;
use serde_json::{Value, json};
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Makes this test program a server.
const SERVER: &str = "HALTER_TEST_MCP_SERVER";

/// What the server tells: its directory, whether it can write there, and its
/// process.
type Told = (PathBuf, bool, u32);

#[test]
fn serves() {
    if std::env::var_os(SERVER).is_none() {
        return;
    }
    // After the name of the test, which the harness has not ended with a line.
    println!();
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else {
            continue;
        };
        let id = &message["id"];
        let result = match message["method"].as_str() {
            _ if id.is_null() => continue,
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "where", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [{"name": "tell", "inputSchema": {}}]}),
            Some("tools/call") => {
                let here = std::env::current_dir().unwrap();
                let written = std::fs::write("written", "").is_ok();
                let text = json!([here, written, std::process::id()]).to_string();
                json!({"content": [{"type": "text", "text": text}]})
            }
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                println!("{}", json!({"jsonrpc": "2.0", "id": id, "error": error}));
                continue;
            }
        };
        println!("{}", json!({"jsonrpc": "2.0", "id": id, "result": result}));
        std::io::stdout().flush().unwrap();
    }
    std::process::exit(0);
}

fn server(sandbox: bool) -> McpServerTable {
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", "mcp_directories::serves", "--nocapture"];
    McpServerTable {
        command: Some(program.display().to_string()),
        args: arguments.map(str::to_owned).to_vec(),
        env: [(SERVER.to_owned(), "1".to_owned())].into_iter().collect(),
        sandbox,
        required: true,
        ..McpServerTable::default()
    }
}

/// What the server tells one session in each of these directories, which run
/// one after the other.
async fn told(servers_home: &Path, table: McpServerTable, directories: &[&Path]) -> Vec<Told> {
    let mut config = HarnessConfig::default();
    config.runtime.working_dir = Some(servers_home.to_owned());
    config.permissions.allow = vec!["mcp__x".into()];
    config.mcp.servers.insert("x".to_owned(), table);
    let search = json!({"query": "select:mcp__x__tell"});
    let turn = [
        Reply::new().tool_call("tool_search", search),
        Reply::new().tool_call("mcp__x__tell", json!({})),
        "done".into(),
    ];
    let turns = directories.iter().flat_map(|_| turn.clone());
    let harness = bare()
        .with_config(config)
        .with_provider(Arc::new(FakeProvider::scripted(turns)))
        .build()
        .await
        .unwrap();
    let mut all = Vec::new();
    for directory in directories {
        let events = one_turn(&harness, directory, "where?").await;
        let outcomes = outcomes(&events);
        let told = outcomes
            .iter()
            .find(|it| it.call.name.as_str() == "mcp__x__tell");
        let told = told.unwrap().result.as_ref().unwrap().to_model_text();
        all.push(serde_json::from_str(&told).unwrap());
    }
    harness.shutdown(Duration::from_secs(10)).await;
    all
}

#[tokio::test]
async fn sessions_in_two_directories_have_servers_in_them() {
    let [home, one, other] = [(); 3].map(|()| directory(&[]));
    let directories = [home.path(), one.path(), other.path(), one.path()];
    let told = told(home.path(), server(false), &directories).await;
    for (directory, told) in directories.iter().zip(&told) {
        assert_eq!(told.0, directory.canonicalize().unwrap());
    }
    // A later session finds the server of an earlier one.
    assert_eq!(told[1].2, told[3].2);
    for (_, _, process) in &told {
        assert!(!Path::new(&format!("/proc/{process}")).exists());
    }
}

#[tokio::test]
async fn a_server_with_a_cwd_runs_there_for_all() {
    let [home, own, other] = [(); 3].map(|()| directory(&[]));
    let mut table = server(false);
    table.cwd = Some(own.path().to_owned());
    let told = told(home.path(), table, &[home.path(), other.path()]).await;
    assert_eq!(told[0].0, own.path().canonicalize().unwrap());
    assert_eq!(told[0], told[1]);
}

#[tokio::test]
async fn the_sandbox_of_a_server_is_that_of_the_sessions_directory() {
    if !has_sandbox() {
        return;
    }
    let [home, other] = [(); 2].map(|()| directory(&[]));
    let directories = [home.path(), other.path()];
    let told = told(home.path(), server(true), &directories).await;
    for (directory, told) in directories.iter().zip(&told) {
        assert_eq!(
            (&told.0, told.1),
            (&directory.canonicalize().unwrap(), true)
        );
        assert!(directory.join("written").exists());
    }
}
