use super::*;
use crate::offline::exchange::Finding;
use halter_protocol::ToolError;
use std::borrow::Cow;

const ALL_TOOLS: [&str; 8] = [
    "read", "glob", "grep", "write", "edit", "shell", "process", "task",
];

fn ask(asked: &str, steps: usize, tools: &[&'static str]) -> Exchange<'static> {
    Exchange {
        asked: asked.to_owned(),
        steps,
        findings: Vec::new(),
        tools: tools.to_vec(),
    }
}

fn found(mut exchange: Exchange<'static>, tool: &'static str, value: Value) -> Exchange<'static> {
    exchange.findings.push(Finding {
        tool,
        arguments: Value::Null,
        outcome: Ok(Cow::Owned(value)),
    });
    exchange
}

fn planned(exchange: &Exchange<'_>) -> Vec<String> {
    let calls = next_step(exchange).calls.into_iter();
    calls
        .map(|call| format!("{} {}", call.tool, call.arguments))
        .collect()
}

#[test]
fn the_first_step_of_each_intent() {
    for (asked, calls) in [
        ("run git status", vec![r#"shell {"command":"git status"}"#]),
        (
            "read a.txt and b.txt",
            vec![r#"read {"path":"a.txt"}"#, r#"read {"path":"b.txt"}"#],
        ),
        (
            "find a.b() in *.rs",
            vec![r#"grep {"pattern":"a\\.b\\(\\)","max_matches":100,"glob":"*.rs"}"#],
        ),
        (
            "list rust files",
            vec![r#"glob {"pattern":"**/*.rs","file_type":"file","max_results":1000}"#],
        ),
        (
            "how many times does x occur?",
            vec![r#"grep {"pattern":"x","output_mode":"count"}"#],
        ),
        (
            "write hello to notes.txt",
            vec![r#"write {"path":"notes.txt","content":"hello"}"#],
        ),
        (
            "replace a with b in c.txt",
            vec![r#"read {"path":"c.txt"}"#],
        ),
        (
            "complete task 2",
            vec![r#"task {"action":"complete","id":2}"#],
        ),
        ("hello", vec![]),
    ] {
        assert_eq!(planned(&ask(asked, 0, &ALL_TOOLS)), calls, "{asked}");
    }
}

#[test]
fn a_summary_lists_then_reads_side_by_side() {
    let listed = json!({"matches": [{"path": "README.md"}, {"path": "Cargo.toml"}, {"path": "src/main.rs"}]});
    let exchange = found(
        ask("Summarize this repository", 1, &ALL_TOOLS),
        "glob",
        listed,
    );
    assert_eq!(
        planned(&exchange),
        [
            r#"read {"path":"README.md"}"#,
            r#"read {"path":"Cargo.toml"}"#,
            r#"read {"path":"src/main.rs"}"#,
            r#"shell {"command":"git log --oneline -n 5"}"#,
        ]
    );
}

#[test]
fn only_tools_on_offer_are_called() {
    assert_eq!(planned(&ask("run ls", 0, &["read"])), [""; 0]);
    assert_eq!(
        planned(&ask("find x", 0, &["shell"])),
        [r#"shell {"command":"rg --line-number --fixed-strings -- 'x'"}"#]
    );
    assert_eq!(
        planned(&ask("Summarize this repository", 0, &["shell"])),
        [r#"shell {"command":"ls -p"}"#]
    );
    assert_eq!(
        planned(&ask("replace a with b in c.txt", 0, &["read"])),
        [""; 0]
    );
}

#[test]
fn a_search_without_result_is_tried_again_without_case_and_then_given_up() {
    let nothing = json!({"matches": [], "total_matches": 0});
    let exchange = found(ask("find X", 1, &ALL_TOOLS), "grep", nothing.clone());
    assert_eq!(
        planned(&exchange),
        [r#"grep {"pattern":"X","max_matches":100,"ignore_case":true}"#]
    );
    let mut again = found(exchange, "grep", nothing);
    again.steps = 2;
    assert_eq!(planned(&again), [""; 0]);
}

#[test]
fn a_missing_file_is_looked_for_but_a_refused_one_is_not() {
    let failed = |code: ToolErrorCode| {
        let error: &'static ToolError = Box::leak(Box::new(ToolError::new(code, "no")));
        let mut exchange = ask("read lib/a.txt", 1, &ALL_TOOLS);
        exchange.findings.push(Finding {
            tool: "read",
            arguments: json!({"path": "lib/a.txt"}),
            outcome: Err(error),
        });
        exchange
    };
    assert_eq!(
        planned(&failed(ToolErrorCode::Failed)),
        [r#"glob {"pattern":"**/a.txt","file_type":"file","max_results":1000}"#]
    );
    assert_eq!(planned(&failed(ToolErrorCode::PolicyDenied)), [""; 0]);
}

#[test]
fn no_plan_goes_beyond_the_limit_of_steps() {
    for asked in [
        "Summarize this repository",
        "read a.txt",
        "find x",
        "what does x do?",
    ] {
        assert_eq!(
            planned(&ask(asked, OFFLINE_STEPS, &ALL_TOOLS)),
            [""; 0],
            "{asked}"
        );
    }
}

#[test]
fn no_more_files_are_read_side_by_side_than_the_limit() {
    let names = |count: usize| (0..count).map(|number| format!("file{number}.txt"));
    let reads = |names: &[String]| {
        let read = |name| format!(r#"read {{"path":"{name}"}}"#);
        names.iter().map(read).collect::<Vec<_>>()
    };
    for count in [OFFLINE_PARALLEL_READS, OFFLINE_PARALLEL_READS + 1] {
        let files: Vec<String> = names(count).collect();
        let first = files.get(..OFFLINE_PARALLEL_READS).unwrap();
        let asked = format!("read {}", files.join(" and "));
        assert_eq!(planned(&ask(&asked, 0, &ALL_TOOLS)), reads(first));

        let matches: Vec<Value> = names(count).map(|path| json!({"path": path})).collect();
        let failed: &'static ToolError =
            Box::leak(Box::new(ToolError::new(ToolErrorCode::Failed, "no")));
        let mut exchange = ask("read lost.txt", 2, &ALL_TOOLS);
        exchange.findings.push(Finding {
            tool: "read",
            arguments: json!({"path": "lost.txt"}),
            outcome: Err(failed),
        });
        let exchange = found(exchange, "glob", json!({"matches": matches}));
        assert_eq!(planned(&exchange), reads(first));
    }
}

#[test]
fn globs_and_searches_ask_for_no_more_than_the_limit() {
    let most = |asked: &str, tool: &str, field: &str| {
        let step = next_step(&ask(asked, 0, &ALL_TOOLS));
        let call = step.calls.into_iter().rfind(|call| call.tool == tool);
        call.and_then(|call| call.arguments[field].as_u64())
    };
    for asked in ["list rust files", "Summarize this repository"] {
        let results = most(asked, "glob", "max_results");
        assert_eq!(results, Some(OFFLINE_GLOB_RESULTS as u64), "{asked}");
    }
    for asked in ["find x", "what does x do?"] {
        let matches = most(asked, "grep", "max_matches");
        assert_eq!(matches, Some(OFFLINE_SEARCH_MATCHES as u64), "{asked}");
    }
}
