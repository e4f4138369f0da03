//! `apply_patch`.

use crate::support::Workspace;
use halter_protocol::{Action, ContentHash, ToolErrorCode};
use halter_tools::limits::{CHANGED_FILES, PATCH_BYTES};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn patch(text: &str) -> Value {
    json!({"patch": format!("*** Begin Patch\n{text}*** End Patch\n")})
}

/// One file of `tests/patches`: files, a patch, and what comes of it.
#[derive(Default)]
struct Case {
    before: Vec<(String, Vec<u8>)>,
    patch: String,
    after: BTreeMap<String, Vec<u8>>,
    /// Texts of the error that is expected instead, and its code.
    error: Option<(ToolErrorCode, Vec<String>)>,
}

impl Case {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut case = Self::default();
        for section in text.split("=== ").skip(1) {
            let (title, body) = section.split_once('\n').unwrap();
            let (title, body) = match title.strip_suffix(" (no newline at end)") {
                Some(title) => (title, body.strip_suffix('\n').unwrap()),
                None => (title, body),
            };
            let body = body.replace('␍', "\r").replace('␉', "\t").replace('␠', " ");
            let mut bytes = body.clone().into_bytes();
            if body.contains('␀') {
                bytes = body.replace('␀', "").into_bytes();
                bytes.insert(0, 0xff);
            }
            let lines = || body.lines().map(str::to_owned).collect();
            match title.split_once(' ').unwrap_or((title, "")) {
                ("before", name) => case.before.push((name.to_owned(), bytes)),
                ("after", name) => drop(case.after.insert(name.to_owned(), bytes)),
                ("patch", _) => case.patch = body,
                ("error", _) => case.error = Some((ToolErrorCode::Failed, lines())),
                ("refused", _) => case.error = Some((ToolErrorCode::PolicyDenied, lines())),
                other => panic!("{other:?} in {}", path.display()),
            }
        }
        case
    }
}

/// All files below a directory, with their content; directories with none.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            match path.is_dir() {
                true => {
                    if std::fs::read_dir(&path).unwrap().next().is_none() {
                        found.insert(format!("{name}/"), Vec::new());
                    }
                    left.push(path);
                }
                false => drop(found.insert(name, std::fs::read(&path).unwrap())),
            }
        }
    }
    found
}

#[tokio::test]
async fn every_patch_of_the_corpus_does_what_it_should_or_nothing() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../halter-tools/tests/patches");
    let mut paths: Vec<_> = std::fs::read_dir(corpus)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 60, "{}", paths.len());
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let case = Case::read(&path);
        let workspace = Workspace::new();
        for (file, content) in &case.before {
            workspace.put(file, content);
        }
        let before = tree(workspace.outside());
        let result = workspace
            .call("apply_patch", json!({"patch": case.patch}))
            .await;
        match (&case.error, result) {
            (None, Ok(_)) => assert_eq!(tree(&workspace.dir()), case.after, "{name}"),
            (Some((code, texts)), Err(error)) => {
                assert_eq!(error.code, *code, "{name}: {}", error.message);
                for text in texts {
                    let message = &error.message;
                    assert!(message.contains(text), "{name}: no {text:?} in {message}");
                }
                assert_eq!(tree(workspace.outside()), before, "{name}");
            }
            (_, result) => panic!("{name}: {result:?}"),
        }
    }
}

#[tokio::test]
async fn the_result_says_what_became_of_each_file_and_how_each_hunk_was_found() {
    let workspace = Workspace::new();
    workspace.put("a", "one\ntwo  \nthree\n");
    workspace.put("b", "b\n");
    workspace.put("c", "c\n");
    let result = workspace
        .ok(
            "apply_patch",
            patch(
                "*** Update File: a\n@@\n-one\n+1\n@@\n-two\n+2\n*** Delete File: b\n\
                 *** Update File: c\n*** Move to: d\n*** Add File: e\n+e\n",
            ),
        )
        .await;
    let sha256 = |text: &str| ContentHash::hex_of(text.as_bytes());
    assert_eq!(
        result,
        json!({"files": [
            {
                "path": "a",
                "change": "changed",
                "sha256": sha256("1\n2\nthree\n"),
                "hunks": [
                    {"line": 1, "match": "exact"},
                    {"line": 2, "match": "trailing_whitespace"},
                ],
            },
            {"path": "b", "change": "deleted"},
            {
                "path": "d",
                "change": "moved",
                "moved_from": "c",
                "sha256": sha256("c\n"),
                "hunks": [],
            },
            {"path": "e", "change": "added", "sha256": sha256("e\n")},
        ]})
    );
}

#[tokio::test]
async fn modes_survive_a_change_and_a_move() {
    let workspace = Workspace::new();
    for file in ["a", "b"] {
        let path = workspace.put(file, "x\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let text = "*** Update File: a\n@@\n-x\n+y\n*** Update File: b\n*** Move to: c/d\n@@\n-x\n+y\n";
    workspace.ok("apply_patch", patch(text)).await;
    assert_eq!((workspace.mode("a"), workspace.mode("c/d")), (0o755, 0o755));
}

#[tokio::test]
async fn a_change_from_elsewhere_is_noticed_and_an_own_one_is_not() {
    let workspace = Workspace::new();
    workspace.put("a", "one\n");
    workspace.ok("read", json!({"path": "a"})).await;
    let first = patch("*** Update File: a\n@@\n-one\n+two\n");
    workspace.ok("apply_patch", first).await;
    let second = patch("*** Update File: a\n@@\n-two\n+three\n");
    workspace.ok("apply_patch", second).await;
    workspace.put("a", "three\nand more\n");
    let third = patch("*** Update File: a\n@@\n-three\n+four\n");
    let message = workspace.failure("apply_patch", third).await;
    assert!(
        message.contains("has changed since you last read it"),
        "{message}"
    );
    assert_eq!(workspace.get("a"), "three\nand more\n");
}

#[tokio::test]
async fn a_link_is_written_through_and_not_deleted_or_moved_by_its_files_patch() {
    let workspace = Workspace::new();
    workspace.put("real", "x\n");
    std::os::unix::fs::symlink("real", workspace.dir().join("link")).unwrap();
    let change = patch("*** Update File: link\n@@\n-x\n+y\n");
    workspace.ok("apply_patch", change).await;
    assert_eq!(workspace.get("real"), "y\n");
    for text in [
        "*** Delete File: link\n",
        "*** Update File: link\n*** Move to: b\n",
    ] {
        let message = workspace.failure("apply_patch", patch(text)).await;
        assert!(message.contains("is a link to"), "{message}");
    }
    assert_eq!(workspace.get("link"), "y\n");
    // One that leads out of the roots leads nowhere.
    std::fs::write(workspace.outside().join("secret"), "x\n").unwrap();
    std::os::unix::fs::symlink("../secret", workspace.dir().join("out")).unwrap();
    let out = patch("*** Update File: out\n@@\n-x\n+y\n");
    workspace
        .error("apply_patch", out, ToolErrorCode::PolicyDenied)
        .await;
}

#[tokio::test]
async fn the_size_of_a_patch_and_the_number_of_its_files_have_limits() {
    let workspace = Workspace::new();
    let add = |count: usize| -> String {
        let files = (0..count).map(|n| format!("*** Add File: many/{n}\n"));
        files.collect()
    };
    let message = workspace
        .failure("apply_patch", patch(&add(CHANGED_FILES + 1)))
        .await;
    assert!(message.contains("files at most"), "{message}");
    assert!(!workspace.dir().join("many").exists());
    workspace
        .ok("apply_patch", patch(&add(CHANGED_FILES)))
        .await;

    let frame = "*** Begin Patch\n*** Add File: a\n+\n*** End Patch\n";
    let large = |bytes: usize| {
        let filler = "x".repeat(bytes - frame.len());
        json!({"patch": frame.replace("+\n", &format!("+{filler}\n"))})
    };
    let message = workspace
        .failure("apply_patch", large(PATCH_BYTES + 1))
        .await;
    assert!(message.contains(&PATCH_BYTES.to_string()), "{message}");
    workspace.ok("apply_patch", large(PATCH_BYTES)).await;
}

/// Its paths are asked for before the call may run, so the limits hold there.
#[test]
fn a_patch_over_a_limit_names_nothing_it_touches() {
    let workspace = Workspace::new();
    let tool = workspace.tools.get("apply_patch").unwrap();
    let moves = |count: usize| -> String {
        let files = (0..count).map(|n| format!("*** Update File: {n}\n*** Move to: new/{n}\n"));
        files.collect()
    };
    let most = moves(CHANGED_FILES / 2);
    assert_eq!(tool.actions(&patch(&most)).len(), CHANGED_FILES);
    // A path counts once.
    let again = format!("{most}*** Delete File: 0\n");
    assert_eq!(tool.actions(&patch(&again)).len(), CHANGED_FILES);
    let more = format!("{most}*** Delete File: another\n");
    assert_eq!(tool.actions(&patch(&more)), []);

    let frame = patch("*** Add File: a\n+\n");
    let frame = frame["patch"].as_str().unwrap();
    let large = |bytes: usize| {
        let filler = "x".repeat(bytes - frame.len());
        json!({"patch": frame.replace("+\n", &format!("+{filler}\n"))})
    };
    let named = [Action::Write { path: "a".into() }];
    assert_eq!(tool.actions(&large(PATCH_BYTES)), named);
    assert_eq!(tool.actions(&large(PATCH_BYTES + 1)), []);
}

#[test]
fn a_patch_of_empty_lines_is_taken_apart_in_good_time() {
    let frame = patch("*** Update File: a\n@@\n-x\n");
    let frame = frame["patch"].as_str().unwrap();
    let empty = "\n".repeat(PATCH_BYTES - frame.len());
    let full = json!({"patch": frame.replace("-x\n", &format!("{empty}-x\n"))});
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let workspace = Workspace::new();
        let tool = workspace.tools.get("apply_patch").unwrap();
        sender.send(tool.actions(&full)).unwrap();
    });
    // Looking at the rest again for each line would take hours.
    let named = receiver.recv_timeout(Duration::from_secs(120)).unwrap();
    assert_eq!(named, [Action::Write { path: "a".into() }]);
}

#[tokio::test]
async fn a_cancelled_patch_changes_nothing() {
    let workspace = Workspace::new().cancelling_at_door_use(2);
    workspace.put("a", "x\n");
    let change = patch("*** Update File: a\n@@\n-x\n+y\n");
    workspace
        .error("apply_patch", change, ToolErrorCode::Cancelled)
        .await;
    assert_eq!(workspace.get("a"), "x\n");
}

#[tokio::test]
async fn every_path_is_judged_and_the_whole_change_is_shown() {
    let workspace = Workspace::new();
    workspace.put("a", "1\n2\n3\n");
    workspace.put("b", "b\n");
    workspace.put("c", "c\n");
    let input = patch(
        "*** Update File: a\n@@\n-2\n+two\n*** Delete File: b\n*** Update File: c\n\
         *** Move to: d\n*** Add File: e\n+e\n",
    );
    let tool = workspace.tools.get("apply_patch").unwrap();
    let write = |path: &str| Action::Write { path: path.into() };
    assert_eq!(
        tool.actions(&input),
        ["a", "b", "c", "d", "e"].map(write).to_vec()
    );
    let diff = tool.diff(workspace.context(), &input).await.unwrap();
    assert_eq!(
        diff,
        "--- a\n+++ a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n\
         deleted b\n--- b\n+++ b\n@@ -1 +0,0 @@\n-b\n\
         moved c to d\n\
         --- e\n+++ e\n@@ -0,0 +1 @@\n+e\n"
    );
    assert_eq!(workspace.get("b"), "b\n");
    // What is no patch has nothing to show.
    assert_eq!(tool.actions(&json!({"patch": "x"})), []);
    assert_eq!(
        tool.diff(workspace.context(), &json!({"patch": "x"})).await,
        None
    );
}
