//! `read`.

use crate::support::{Workspace, is_root, skipped};
use halter_protocol::ContentHash;
use halter_protocol::ToolErrorCode;
use halter_tools::PolicySettings;
use halter_tools::limits::{BINARY_SNIFF_BYTES, LINE_BYTES, READ_LINES};
use serde_json::json;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn a_whole_file_comes_back_with_its_hash() {
    let workspace = Workspace::new();
    workspace.put("src/a.txt", "one\ntwo\nthree");
    assert_eq!(
        workspace.ok("read", json!({"path": "src/a.txt"})).await,
        json!({
            "path": "src/a.txt",
            "content": "one\ntwo\nthree",
            "sha256": ContentHash::hex_of(b"one\ntwo\nthree"),
            "total_lines": 3,
        })
    );
}

#[tokio::test]
async fn an_absolute_path_inside_is_shown_relative() {
    let workspace = Workspace::new();
    let path = workspace.put("a.txt", "x\n");
    let result = workspace.ok("read", json!({"path": path})).await;
    assert_eq!(result["path"], "a.txt");
    assert_eq!(result["content"], "x\n");
}

#[tokio::test]
async fn an_empty_file_has_no_lines() {
    let workspace = Workspace::new();
    workspace.put("empty", "");
    let result = workspace.ok("read", json!({"path": "empty"})).await;
    assert_eq!(result["content"], "");
    assert_eq!(result["total_lines"], 0);
}

#[tokio::test]
async fn pages_follow_each_other() {
    let workspace = Workspace::new();
    let text: String = (1..=READ_LINES + 2).map(|n| format!("{n}\n")).collect();
    workspace.put("a", &text);
    let first = workspace.ok("read", json!({"path": "a"})).await;
    assert_eq!(first["next_offset"], READ_LINES + 1);
    assert_eq!(first["total_lines"], READ_LINES + 2);
    let offset = &first["next_offset"];
    let second = workspace
        .ok("read", json!({"path": "a", "offset": offset}))
        .await;
    assert!(second.get("next_offset").is_none());
    let joined =
        first["content"].as_str().unwrap().to_owned() + second["content"].as_str().unwrap();
    assert_eq!(joined, text);
    assert_eq!(first["sha256"], ContentHash::hex_of(text.as_bytes()));
}

#[tokio::test]
async fn exactly_the_limit_is_one_page() {
    let workspace = Workspace::new();
    workspace.put("a", "x\n".repeat(READ_LINES));
    let result = workspace.ok("read", json!({"path": "a"})).await;
    assert!(result.get("next_offset").is_none());
}

#[tokio::test]
async fn line_numbers_replace_the_content() {
    let workspace = Workspace::new();
    workspace.put("a", "one\ntwo\nthree\n");
    let arguments = json!({"path": "a", "offset": 2, "limit": 1, "line_numbers": true});
    let result = workspace.ok("read", arguments).await;
    assert_eq!(result["lines"], json!([{"line_number": 2, "line": "two"}]));
    assert!(result.get("content").is_none());
    assert_eq!(result["next_offset"], 3);
}

#[tokio::test]
async fn an_offset_past_the_end_names_the_length() {
    let workspace = Workspace::new();
    workspace.put("a", "one\n");
    let message = workspace
        .failure("read", json!({"path": "a", "offset": 2}))
        .await;
    assert_eq!(
        message,
        "`offset` 2 is past the end of 'a', which has 1 lines"
    );
}

#[tokio::test]
async fn large_files_are_read_in_parts_not_refused() {
    let workspace = Workspace::with_settings(PolicySettings {
        max_read_bytes: 10,
        ..PolicySettings::default()
    });
    let text = "12345\n".repeat(100_000);
    workspace.put("big", &text);
    let result = workspace.ok("read", json!({"path": "big"})).await;
    assert_eq!(result["content"], "12345\n");
    assert_eq!(result["next_offset"], 2);
    assert_eq!(result["total_lines"], 100_000);
    assert_eq!(result["sha256"], ContentHash::hex_of(text.as_bytes()));

    // Two lines of four bytes and a newline fill ten bytes exactly.
    workspace.put("fits", "1234\n5678\n90\n");
    let result = workspace.ok("read", json!({"path": "fits"})).await;
    assert_eq!(result["content"], "1234\n5678\n");
    assert_eq!(result["next_offset"], 3);
}

#[tokio::test]
async fn a_huge_line_is_cut_with_a_note() {
    let workspace = Workspace::new();
    let fits = "é".repeat(LINE_BYTES / 2);
    workspace.put("fits", format!("{fits}\r\n"));
    let result = workspace.ok("read", json!({"path": "fits"})).await;
    assert_eq!(result["content"], format!("{fits}\n"));

    let long = format!("x{}", "é".repeat(LINE_BYTES));
    workspace.put("long", format!("{long}\nnext\n"));
    let result = workspace.ok("read", json!({"path": "long"})).await;
    let shown = format!("x{}", "é".repeat((LINE_BYTES - 1) / 2));
    assert_eq!(
        result["content"],
        format!(
            "{shown} … [line cut: {} of {} bytes shown]\nnext\n",
            shown.len(),
            long.len()
        )
    );
}

#[tokio::test]
async fn crlf_is_shown_as_lf_and_said() {
    let workspace = Workspace::new();
    workspace.put("a", "one\r\ntwo\r\n");
    let result = workspace.ok("read", json!({"path": "a"})).await;
    assert_eq!(result["content"], "one\ntwo\n");
    assert_eq!(result["line_endings"], "crlf");
    assert_eq!(result["sha256"], ContentHash::hex_of(b"one\r\ntwo\r\n"));
}

#[tokio::test]
async fn only_the_start_of_a_file_tells_text_from_binary() {
    let workspace = Workspace::new();
    let zero_at = |index: usize| {
        let mut bytes = b"text\n".repeat(BINARY_SNIFF_BYTES);
        bytes[index] = 0;
        bytes
    };
    workspace.put("binary", zero_at(BINARY_SNIFF_BYTES - 1));
    let message = workspace.failure("read", json!({"path": "binary"})).await;
    assert!(message.contains("binary file"), "{message}");
    workspace.put("text", zero_at(BINARY_SNIFF_BYTES));
    let result = workspace.ok("read", json!({"path": "text"})).await;
    assert_eq!(result["total_lines"], BINARY_SNIFF_BYTES);
}

#[tokio::test]
async fn what_is_no_text_is_refused_clearly() {
    let workspace = Workspace::new();
    workspace.put("binary", b"ab\0cd");
    let message = workspace.failure("read", json!({"path": "binary"})).await;
    assert!(
        message.contains("'binary'") && message.contains("binary file"),
        "{message}"
    );

    workspace.put("latin1", b"good\ncaf\xe9\ngood\n");
    let message = workspace.failure("read", json!({"path": "latin1"})).await;
    assert!(
        message.contains("line 2 is not UTF-8 (byte 0xe9 at column 4)"),
        "{message}"
    );
    let result = workspace
        .ok("read", json!({"path": "latin1", "limit": 1}))
        .await;
    assert_eq!(result["content"], "good\n");
}

#[tokio::test]
async fn what_is_no_file_is_refused_without_waiting() {
    let workspace = Workspace::new();
    workspace.put("dir/x", "");
    let message = workspace.failure("read", json!({"path": "dir"})).await;
    assert!(
        message.contains("is a directory") && message.contains("`glob`"),
        "{message}"
    );
    let message = workspace.failure("read", json!({"path": "missing"})).await;
    assert!(
        message.contains("'missing'") && message.contains("does not exist"),
        "{message}"
    );

    workspace.fifo("pipe");
    let message = workspace
        .error("read", json!({"path": "pipe"}), ToolErrorCode::PolicyDenied)
        .await;
    assert!(message.contains("FIFO"), "{message}");
}

#[tokio::test]
async fn names_that_are_not_utf8_go_both_ways() {
    let workspace = Workspace::new();
    let name = OsStr::from_bytes(b"caf\xe9.txt");
    std::fs::write(workspace.dir().join(name), "content").unwrap();
    let found = workspace.ok("glob", json!({"pattern": "*.txt"})).await;
    let path = found["matches"][0]["path"].clone();
    assert_eq!(path, r"caf\xe9.txt");
    let result = workspace.ok("read", json!({"path": path})).await;
    assert_eq!(result["content"], "content");
    assert_eq!(result["path"], r"caf\xe9.txt");
}

#[tokio::test]
async fn permission_denied_names_the_file() {
    if is_root() {
        return skipped("a user who is not root");
    }
    let workspace = Workspace::new();
    let path = workspace.put("secret", "x");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    let message = workspace.failure("read", json!({"path": "secret"})).await;
    assert!(
        message.contains("secret") && message.contains("denied"),
        "{message}"
    );
}

#[tokio::test]
async fn a_cancelled_read_stops() {
    let workspace = Workspace::new().cancelling_at_door_use(1);
    workspace.put("a", "x\n".repeat(1000));
    workspace
        .error("read", json!({"path": "a"}), ToolErrorCode::Cancelled)
        .await;
}
