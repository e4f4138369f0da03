//! `glob`.

use crate::support::Workspace;
use halter_protocol::ToolErrorCode;
use halter_tools::limits::{GLOB_DEFAULT_RESULTS, GLOB_MAX_RESULTS};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

fn paths(result: &Value) -> Vec<String> {
    let matches = result["matches"].as_array().unwrap();
    matches
        .iter()
        .map(|found| found["path"].as_str().unwrap().to_owned())
        .collect()
}

async fn globbed(workspace: &Workspace, pattern: &str) -> Vec<String> {
    paths(&workspace.ok("glob", json!({"pattern": pattern})).await)
}

fn sources() -> Workspace {
    let workspace = Workspace::new();
    for path in [
        "src/lib.rs",
        "src/a/b.rs",
        "src/a/c.txt",
        "Cargo.toml",
        ".github/workflows/ci.yml",
        ".hidden",
        "target/debug/x.rs",
        "sub/ignored.rs",
    ] {
        workspace.put(path, "");
    }
    workspace.put(".gitignore", "target/\n");
    workspace.put("sub/.gitignore", "ignored.rs\n");
    workspace
}

#[tokio::test]
async fn stars_stay_inside_directories_and_double_stars_do_not() {
    let workspace = sources();
    assert_eq!(globbed(&workspace, "*.toml").await, ["Cargo.toml"]);
    assert_eq!(globbed(&workspace, "*.rs").await, [""; 0]);
    assert_eq!(globbed(&workspace, "src/*.rs").await, ["src/lib.rs"]);
    assert_eq!(
        globbed(&workspace, "**/*.rs").await,
        ["src/a/b.rs", "src/lib.rs"]
    );
    assert_eq!(
        globbed(&workspace, "src/{lib.rs,a/*}").await,
        ["src/a/b.rs", "src/a/c.txt", "src/lib.rs"]
    );
}

#[tokio::test]
async fn hidden_files_need_to_be_named() {
    let workspace = sources();
    assert!(
        !globbed(&workspace, "**/*")
            .await
            .contains(&".hidden".to_owned())
    );
    assert_eq!(globbed(&workspace, ".h*").await, [".hidden"]);
    assert_eq!(
        globbed(&workspace, "**/.github/**/*.yml").await,
        [".github/workflows/ci.yml"]
    );
}

#[tokio::test]
async fn an_ignored_directory_can_be_searched_by_name() {
    let workspace = sources();
    assert_eq!(
        globbed(&workspace, "target/debug/*").await,
        ["target/debug/x.rs"]
    );
}

#[tokio::test]
async fn types_select_and_are_reported() {
    let workspace = sources();
    std::os::unix::fs::symlink("lib.rs", workspace.dir().join("src/link.rs")).unwrap();
    let result = workspace.ok("glob", json!({"pattern": "src/*"})).await;
    assert_eq!(
        result,
        json!({
            "matches": [
                {"path": "src/a", "file_type": "dir"},
                {"path": "src/lib.rs", "file_type": "file"},
                {"path": "src/link.rs", "file_type": "symlink"},
            ],
            "total_matches": 3,
            "truncated": false,
        })
    );
    for (kind, expected) in [
        ("file", "src/lib.rs"),
        ("dir", "src/a"),
        ("symlink", "src/link.rs"),
    ] {
        let arguments = json!({"pattern": "src/*", "file_type": kind});
        assert_eq!(paths(&workspace.ok("glob", arguments).await), [expected]);
    }
    assert_eq!(globbed(&workspace, "src/*/").await, ["src/a"]);
}

#[tokio::test]
async fn results_are_bounded_and_the_total_is_true() {
    let workspace = Workspace::new();
    for index in 0..GLOB_DEFAULT_RESULTS + 1 {
        workspace.put(&format!("{index:04}"), "");
    }
    let result = workspace.ok("glob", json!({"pattern": "*"})).await;
    assert_eq!(paths(&result).len(), GLOB_DEFAULT_RESULTS);
    assert_eq!(paths(&result)[0], "0000");
    assert_eq!(result["total_matches"], GLOB_DEFAULT_RESULTS + 1);
    assert_eq!(result["truncated"], true);

    let arguments = json!({"pattern": "*", "max_results": GLOB_DEFAULT_RESULTS + 1});
    let result = workspace.ok("glob", arguments).await;
    assert_eq!(result["truncated"], false);
}

#[tokio::test]
async fn the_most_paths_a_call_may_ask_for_are_returned_and_no_more() {
    let workspace = Workspace::new();
    for index in 0..GLOB_MAX_RESULTS {
        workspace.put(&format!("{index:05}"), "");
    }
    for (one_more, sort) in [(false, false), (false, true), (true, false), (true, true)] {
        if one_more {
            workspace.put("one more", "");
        }
        let arguments =
            json!({"pattern": "*", "max_results": GLOB_MAX_RESULTS, "sort_by_mtime": sort});
        let result = workspace.ok("glob", arguments).await;
        assert_eq!(paths(&result).len(), GLOB_MAX_RESULTS);
        assert_eq!(result["truncated"], one_more, "{sort}");
    }
}

#[tokio::test]
async fn the_newest_come_first_if_asked() {
    let workspace = Workspace::new();
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    for (age, name) in ["new", "older", "oldest"].into_iter().enumerate() {
        let path = workspace.put(name, "");
        let time = start - Duration::from_secs(age as u64 * 60);
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(time).unwrap();
    }
    let arguments = json!({"pattern": "*", "sort_by_mtime": true, "max_results": 2});
    let result = workspace.ok("glob", arguments).await;
    assert_eq!(paths(&result), ["new", "older"]);
    assert_eq!(result["matches"][0]["mtime"], "1970-01-12T13:46:40Z");
    assert_eq!(result["total_matches"], 3);
}

#[tokio::test]
async fn a_directory_can_be_given() {
    let workspace = sources();
    let arguments = json!({"pattern": "*.rs", "path": "src"});
    assert_eq!(
        paths(&workspace.ok("glob", arguments).await),
        ["src/lib.rs"]
    );
    let message = workspace
        .failure("glob", json!({"pattern": "*", "path": "nowhere"}))
        .await;
    assert!(message.contains("'nowhere' does not exist"), "{message}");
    assert_eq!(globbed(&workspace, "nowhere/*.rs").await, [""; 0]);
    let message = workspace
        .failure("glob", json!({"pattern": "*", "path": "Cargo.toml"}))
        .await;
    assert!(message.contains("is not a directory"), "{message}");
}

#[tokio::test]
async fn links_are_listed_but_not_followed() {
    let workspace = Workspace::new();
    std::fs::write(workspace.outside().join("secret.txt"), "x").unwrap();
    std::os::unix::fs::symlink(workspace.outside(), workspace.dir().join("out")).unwrap();
    assert_eq!(globbed(&workspace, "**/*.txt").await, [""; 0]);
    workspace
        .error(
            "glob",
            json!({"pattern": "out/*"}),
            ToolErrorCode::PolicyDenied,
        )
        .await;
}

#[tokio::test]
async fn sensitive_files_are_left_out_and_counted() {
    let workspace = Workspace::new();
    workspace.put("keys/id_rsa", "secret");
    workspace.put("keys/readme", "");
    workspace.put(".env", "TOKEN=x");
    let result = workspace.ok("glob", json!({"pattern": "**/*"})).await;
    assert_eq!(paths(&result), ["keys", "keys/readme"]);
    assert_eq!(result["skipped_by_policy"], 1);
    let result = workspace.ok("glob", json!({"pattern": ".env*"})).await;
    assert_eq!(paths(&result), [""; 0]);
    assert_eq!(result["skipped_by_policy"], 1);
}

#[tokio::test]
async fn a_cancelled_walk_stops() {
    let workspace = Workspace::new().cancelling_at_door_use(3);
    for index in 0..50 {
        workspace.put(&format!("d{index}/x"), "");
    }
    workspace
        .error("glob", json!({"pattern": "**/x"}), ToolErrorCode::Cancelled)
        .await;
}

#[tokio::test]
async fn ignore_files_above_a_repository_or_the_session_do_not_apply() {
    let workspace = Workspace::new();
    std::fs::write(workspace.outside().join(".gitignore"), "*\n").unwrap();
    workspace.put("src/a", "");
    workspace.put("src/gen", "");
    workspace.put(".gitignore", "gen\n");
    let files = json!({"pattern": "**/*", "file_type": "file"});
    assert_eq!(paths(&workspace.ok("glob", files.clone()).await), ["src/a"]);

    std::fs::create_dir(workspace.dir().join(".git")).unwrap();
    assert_eq!(paths(&workspace.ok("glob", files).await), ["src/a"]);
    // A part of a repository is searched by the rules of the whole.
    assert_eq!(globbed(&workspace, "src/*").await, ["src/a"]);
}

#[tokio::test]
async fn a_part_of_the_session_is_searched_by_the_rules_of_the_whole() {
    let workspace = Workspace::new();
    workspace.put("src/a", "");
    workspace.put("src/gen", "");
    workspace.put(".gitignore", "gen\n");
    assert_eq!(globbed(&workspace, "src/*").await, ["src/a"]);
}
