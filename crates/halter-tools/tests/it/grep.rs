//! `grep`.

use crate::support::Workspace;
use halter_protocol::ToolErrorCode;
use halter_tools::limits::{
    GREP_CONTEXT_LINES, GREP_DEFAULT_MATCHES, GREP_HEAP_BYTES, GREP_MAX_MATCHES,
    GREP_PATTERN_MEMORY_BYTES, GREP_RESULT_BYTES, LINE_BYTES,
};
use serde_json::{Value, json};

fn lines(result: &Value) -> Vec<(String, u64)> {
    let matches = result["matches"].as_array().unwrap();
    matches
        .iter()
        .map(|found| {
            let path = found["path"].as_str().unwrap().to_owned();
            (path, found["line_number"].as_u64().unwrap())
        })
        .collect()
}

fn files(result: &Value) -> Vec<&str> {
    let matches = result["matches"].as_array().unwrap();
    matches
        .iter()
        .map(|found| found["path"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn matches_come_with_their_place() {
    let workspace = Workspace::new();
    workspace.put("b.txt", "one\ntwo\n");
    workspace.put("a/x.rs", "fn two() {}\r\nlet three;\n");
    assert_eq!(
        workspace.ok("grep", json!({"pattern": r"\btwo\b"})).await,
        json!({
            "matches": [
                {"path": "a/x.rs", "line_number": 1, "line": "fn two() {}"},
                {"path": "b.txt", "line_number": 2, "line": "two"},
            ],
            "total_matches": 2,
            "files_searched": 2,
            "files_with_matches": 2,
            "truncated": false,
        })
    );
}

#[tokio::test]
async fn a_line_end_is_one_whatever_it_is_made_of() {
    let workspace = Workspace::new();
    workspace.put("a", "foo\r\nfoobar\r\n");
    let result = workspace.ok("grep", json!({"pattern": "foo$"})).await;
    assert_eq!(result["total_matches"], 1);
}

#[tokio::test]
async fn one_file_can_be_searched() {
    let workspace = Workspace::new();
    workspace.put("a", "x\n");
    workspace.put("b", "x\n");
    let result = workspace
        .ok("grep", json!({"pattern": "x", "path": "b"}))
        .await;
    assert_eq!(files(&result), ["b"]);
    let message = workspace
        .failure("grep", json!({"pattern": "x", "path": "c"}))
        .await;
    assert!(message.contains("'c' does not exist"), "{message}");
}

#[tokio::test]
async fn files_are_chosen_by_glob_type_and_ignore_rules() {
    let workspace = Workspace::new();
    for path in [
        "a.rs",
        "src/b.rs",
        "c.py",
        "target/d.rs",
        ".hidden.rs",
        ".ci/e.yml",
    ] {
        workspace.put(path, "needle\n");
    }
    workspace.put(".gitignore", "/target\n");
    for (arguments, expected) in [
        (json!({}), vec!["a.rs", "c.py", "src/b.rs"]),
        (json!({"glob": "*.rs"}), vec!["a.rs", "src/b.rs"]),
        (json!({"glob": "!*.rs"}), vec!["c.py"]),
        (json!({"glob": "src/*"}), vec!["src/b.rs"]),
        (json!({"glob": ".ci/*.yml"}), vec![".ci/e.yml"]),
        (json!({"type": "python"}), vec!["c.py"]),
        (json!({"type": "rust", "glob": "a*"}), vec!["a.rs"]),
        (json!({"path": "target"}), vec!["target/d.rs"]),
    ] {
        let mut call = arguments.clone();
        call["pattern"] = "needle".into();
        call["output_mode"] = "files_with_matches".into();
        let result = workspace.ok("grep", call).await;
        assert_eq!(files(&result), expected, "{arguments}");
    }
    let message = workspace
        .failure("grep", json!({"pattern": "x", "type": "rustt"}))
        .await;
    assert!(message.contains("did you mean 'rust'?"), "{message}");
}

#[tokio::test]
async fn case_and_lines_can_be_ignored() {
    let workspace = Workspace::new();
    workspace.put("a", "Begin\nmiddle\nEND\n");
    let result = workspace
        .ok("grep", json!({"pattern": "end", "ignore_case": true}))
        .await;
    assert_eq!(result["total_matches"], 1);
    let result = workspace
        .ok("grep", json!({"pattern": "Begin.*END", "multiline": true}))
        .await;
    assert_eq!(result["matches"][0]["line_number"], 1);
    assert_eq!(result["matches"][0]["line"], "Begin\nmiddle\nEND");
    let message = workspace.failure("grep", json!({"pattern": r"a\nb"})).await;
    assert!(message.contains("multiline=true"), "{message}");
}

#[tokio::test]
async fn context_shows_every_line_once() {
    let workspace = Workspace::new();
    workspace.put("a", "1\n2\nx3\n4\nx5\n6\n7\n8\n");
    let result = workspace
        .ok(
            "grep",
            json!({"pattern": "x", "context_before": 2, "context_after": 2}),
        )
        .await;
    let matches = &result["matches"];
    assert_eq!(matches[0]["context_before"], json!(["1", "2"]));
    assert_eq!(matches[0]["context_after"], json!(["4"]));
    assert_eq!(matches[1]["context_before"], json!([]));
    assert_eq!(matches[1]["context_after"], json!(["6", "7"]));

    // A page that starts at the second match has its context all the same.
    let result = workspace
        .ok(
            "grep",
            json!({"pattern": "x", "context_before": 2, "context_after": 2, "offset": 1}),
        )
        .await;
    assert_eq!(result["matches"][0]["context_before"], json!(["x3", "4"]));
    let result = workspace
        .ok(
            "grep",
            json!({"pattern": "x", "context_before": 4, "offset": 1}),
        )
        .await;
    assert_eq!(
        result["matches"][0]["context_before"],
        json!(["1", "2", "x3", "4"])
    );
}

#[tokio::test]
async fn pages_cover_everything_once() {
    let workspace = Workspace::new();
    for file in 0..7 {
        let text: String = (0..13).map(|line| format!("hit {line}\nother\n")).collect();
        workspace.put(&format!("{file}"), text);
    }
    let whole = workspace
        .ok("grep", json!({"pattern": "hit", "max_matches": 1000}))
        .await;
    assert_eq!(whole["truncated"], false);
    for size in [1, 5, 13, 90, 91] {
        let mut seen = Vec::new();
        let mut offset = json!(0);
        loop {
            let arguments = json!({"pattern": "hit", "max_matches": size, "offset": offset});
            let page = workspace.ok("grep", arguments).await;
            assert_eq!(page["total_matches"], 91);
            seen.extend(lines(&page));
            match page.get("next_offset") {
                Some(next) => offset = next.clone(),
                None => break,
            }
        }
        assert_eq!(seen, lines(&whole), "pages of {size}");
    }
}

#[tokio::test]
async fn counts_and_files_are_paged_by_file() {
    let workspace = Workspace::new();
    workspace.put("a", "x\nx\n");
    workspace.put("b", "x\n");
    workspace.put("c", "y\n");
    workspace.put("d", "x\n");
    let count = |offset: u64| json!({"pattern": "x", "output_mode": "count", "max_matches": 2, "offset": offset});
    assert_eq!(
        workspace.ok("grep", count(0)).await,
        json!({
            "matches": [{"path": "a", "match_count": 2}, {"path": "b", "match_count": 1}],
            "total_matches": 4,
            "files_searched": 4,
            "files_with_matches": 3,
            "truncated": true,
            "next_offset": 2,
        })
    );
    let rest = workspace.ok("grep", count(2)).await;
    assert_eq!(files(&rest), ["d"]);
    assert_eq!(rest["truncated"], false);
}

#[tokio::test]
async fn the_default_number_of_matches_is_a_bound() {
    let workspace = Workspace::new();
    workspace.put("a", "x\n".repeat(GREP_DEFAULT_MATCHES));
    let result = workspace.ok("grep", json!({"pattern": "x"})).await;
    assert_eq!(result["truncated"], false);
    workspace.put("a", "x\n".repeat(GREP_DEFAULT_MATCHES + 1));
    let result = workspace.ok("grep", json!({"pattern": "x"})).await;
    assert_eq!(result["truncated"], true);
    assert_eq!(result["next_offset"], GREP_DEFAULT_MATCHES);
}

#[tokio::test]
async fn the_most_matches_a_call_may_ask_for_are_returned_and_no_more() {
    let workspace = Workspace::new();
    let asked = json!({"pattern": "x", "max_matches": GREP_MAX_MATCHES});
    workspace.put("a", "x\n".repeat(GREP_MAX_MATCHES));
    let result = workspace.ok("grep", asked.clone()).await;
    assert_eq!(lines(&result).len(), GREP_MAX_MATCHES);
    assert_eq!(result["truncated"], false);
    workspace.put("a", "x\n".repeat(GREP_MAX_MATCHES + 1));
    let result = workspace.ok("grep", asked).await;
    assert_eq!(lines(&result).len(), GREP_MAX_MATCHES);
    assert_eq!(result["truncated"], true);
    assert_eq!(result["next_offset"], GREP_MAX_MATCHES);
}

#[tokio::test]
async fn the_most_context_a_call_may_ask_for_is_returned() {
    let workspace = Workspace::new();
    let around = "around\n".repeat(GREP_CONTEXT_LINES + 1);
    workspace.put("a", format!("{around}x\n{around}"));
    let asked =
        |lines: usize| json!({"pattern": "x", "context_before": lines, "context_after": lines});
    let result = workspace.ok("grep", asked(GREP_CONTEXT_LINES)).await;
    for side in ["context_before", "context_after"] {
        let shown = result["matches"][0][side].as_array().unwrap().len();
        assert_eq!(shown, GREP_CONTEXT_LINES, "{side}");
    }
    workspace
        .error(
            "grep",
            asked(GREP_CONTEXT_LINES + 1),
            ToolErrorCode::InvalidArguments,
        )
        .await;
}

/// Counts that a new version of the engine may move; it says itself which fit.
#[tokio::test]
async fn the_memory_of_a_pattern_is_bounded() {
    let workspace = Workspace::new();
    workspace.put("a", "x\n");
    let pattern = |count: usize| format!("[\\pL]{{{count}}}");
    let fits = |count: usize, bytes: usize| {
        let mut builder = grep_regex::RegexMatcherBuilder::new();
        builder.size_limit(bytes).build(&pattern(count)).is_ok()
    };
    // A pattern just within the limit, and one just beyond.
    let (largest, too_large) = (244, 245);
    assert!(fits(largest, GREP_PATTERN_MEMORY_BYTES));
    assert!(!fits(largest, GREP_PATTERN_MEMORY_BYTES / 16 * 15));
    assert!(!fits(too_large, GREP_PATTERN_MEMORY_BYTES));
    assert!(fits(too_large, GREP_PATTERN_MEMORY_BYTES / 16 * 17));
    workspace
        .ok("grep", json!({"pattern": pattern(largest)}))
        .await;
    let message = workspace
        .failure("grep", json!({"pattern": pattern(too_large)}))
        .await;
    assert!(message.contains("size limit"), "{message}");
    assert!(message.contains("repeat less"), "{message}");
}

/// Patterns that take other engines a time exponential in the text.
#[tokio::test]
async fn no_pattern_takes_for_ever() {
    let workspace = Workspace::new();
    workspace.put("a", format!("{}\n{}b\n", "a".repeat(5_000), "a".repeat(30)));
    for (pattern, lines) in [("^(a+)+b$", 1), ("^(a|aa|a*)*b$", 1), ("(.*)*(.*)*c", 0)] {
        let result = workspace.ok("grep", json!({"pattern": pattern})).await;
        assert_eq!(result["total_matches"], lines, "{pattern}");
    }
}

#[tokio::test]
async fn a_result_is_bounded_in_bytes_too() {
    let workspace = Workspace::new();
    let line = "x".repeat(LINE_BYTES);
    let count = GREP_RESULT_BYTES / LINE_BYTES;
    workspace.put("a", format!("{line}\n").repeat(count + 5));
    let result = workspace
        .ok("grep", json!({"pattern": "x", "max_matches": 1000}))
        .await;
    assert_eq!(lines(&result).len(), count);
    assert_eq!(result["next_offset"], count);
    assert_eq!(result["total_matches"], count + 5);
}

#[tokio::test]
async fn long_lines_are_cut_around_the_match() {
    let workspace = Workspace::new();
    let line = format!("{}needle{}", "a".repeat(5_000), "b".repeat(5_000));
    workspace.put("min.js", line);
    let result = workspace
        .ok("grep", json!({"pattern": "needle", "max_columns": 40}))
        .await;
    let found = &result["matches"][0];
    assert_eq!(
        found["line"],
        format!("…{}needle{}…", "a".repeat(10), "b".repeat(24))
    );
    assert_eq!(found["truncated"], true);
}

#[tokio::test]
async fn a_bad_pattern_shows_where() {
    let workspace = Workspace::new();
    let message = workspace
        .failure("grep", json!({"pattern": "foo(bar"}))
        .await;
    assert!(message.contains("unclosed group"), "{message}");
    assert!(message.contains("   ^"), "{message}");
    let message = workspace
        .failure("grep", json!({"pattern": "x", "glob": "a["}))
        .await;
    assert!(message.contains("not a glob pattern"), "{message}");
}

#[tokio::test]
async fn what_cannot_be_searched_is_counted() {
    let workspace = Workspace::new();
    workspace.put("binary", b"needle\nneedle\0needle\n");
    workspace.put("id_rsa", "needle\n");
    workspace.put("text", b"caf\xe9 needle\n");
    workspace.fifo("pipe");
    let secret = workspace.outside().join("secret");
    std::fs::write(&secret, "needle\n").unwrap();
    std::os::unix::fs::symlink(&secret, workspace.dir().join("link")).unwrap();
    std::fs::hard_link(&secret, workspace.dir().join("hard")).unwrap();
    let result = workspace.ok("grep", json!({"pattern": "needle"})).await;
    assert!(!files(&result).contains(&"link"));
    let found = &result["matches"].as_array().unwrap().last().unwrap();
    assert_eq!(found["line"], "caf\u{fffd} needle");
    assert_eq!(result["skipped"]["binary"], 1);
    assert_eq!(result["skipped"]["by_policy"], 1);
}

#[tokio::test]
async fn a_cancelled_search_stops() {
    let workspace = Workspace::new().cancelling_at_door_use(20);
    for index in 0..100 {
        workspace.put(&format!("{index}"), "x\n");
    }
    workspace
        .error("grep", json!({"pattern": "x"}), ToolErrorCode::Cancelled)
        .await;
}

#[tokio::test]
async fn a_search_stops_at_the_file_it_opens() {
    // The second use opens the file: its first read finds the call cancelled.
    let workspace = Workspace::new().cancelling_at_door_use(2);
    workspace.put("a", "x\n".repeat(1000));
    workspace
        .error(
            "grep",
            json!({"pattern": "x", "path": "a"}),
            ToolErrorCode::Cancelled,
        )
        .await;
}

#[tokio::test]
async fn a_line_beyond_memory_is_skipped_and_counted() {
    let workspace = Workspace::new();
    workspace.put("long", "x".repeat(GREP_HEAP_BYTES + 1));
    workspace.put("short", "x\n");
    for multiline in [false, true] {
        let result = workspace
            .ok("grep", json!({"pattern": "x", "multiline": multiline}))
            .await;
        assert_eq!(files(&result), ["short"]);
        assert_eq!(result["skipped"], json!({"too_large": 1}));
    }
}

#[tokio::test]
async fn a_fifo_in_place_of_an_ignore_file_holds_nothing_up() {
    let workspace = Workspace::new();
    workspace.put("sub/a", "x\n");
    workspace.put("b", "x\n");
    workspace.fifo("sub/.gitignore");
    let result = workspace.ok("grep", json!({"pattern": "x"})).await;
    assert_eq!(files(&result), ["b"]);
    assert_eq!(result["skipped"], json!({"by_policy": 1}));
    workspace.fifo(".ignore");
    let message = workspace.failure("grep", json!({"pattern": "x"})).await;
    assert!(message.contains("ignore files"), "{message}");
}
