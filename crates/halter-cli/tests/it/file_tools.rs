//! The tools that change several files at once, or a name.

use crate::place::Place;
use crate::tool_turn::tool_turn;
use serde_json::json;

#[test]
fn a_patch_is_applied_for_a_person_and_for_a_model() {
    let place = Place::new();
    place.write("a.txt", "one\ntwo\n");
    let patch = |text: &str| json!({ "patch": text });
    let first = patch(
        "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n\
         *** Add File: b/c.txt\n+new\n*** End Patch\n",
    );
    let ran = place.halter(["tools", "call", "apply_patch", &first.to_string()]);
    assert_eq!(ran.expect(0).json()["files"][1]["path"], "b/c.txt");
    let read = |name: &str| std::fs::read_to_string(place.work().join(name)).unwrap();
    assert_eq!(
        (read("a.txt"), read("b/c.txt")),
        ("one\n2\n".into(), "new\n".into())
    );

    let second = patch(
        "*** Begin Patch\n*** Update File: a.txt\n*** Move to: d.txt\n@@\n-one\n+1\n\
         *** End Patch\n",
    );
    let turn = tool_turn(&place, "", "apply_patch", &second);
    assert_eq!(turn.ran.expect(0).stdout.trim_end(), "Done.");
    assert!(turn.told.contains("exact"), "{}", turn.told);
    assert_eq!(read("d.txt"), "1\n2\n");
    assert!(!place.work().join("a.txt").exists());

    let outside = patch(
        "*** Begin Patch\n*** Update File: d.txt\n@@\n-1\n+one\n*** Add File: ../e.txt\n+x\n\
         *** End Patch\n",
    );
    let refused = place.halter(["tools", "call", "apply_patch", &outside.to_string()]);
    assert_eq!(refused.expect(3).json()["error"]["code"], "policy_denied");
    assert_eq!(read("d.txt"), "1\n2\n");
    assert!(!place.root().join("e.txt").exists());
}

#[test]
fn several_files_and_names_are_changed_for_a_person_and_for_a_model() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    place.write("b.txt", "two\n");
    place.write("old/c.txt", "three\n");
    let notebook = r#"{"cells":[{"cell_type":"code","id":"x","outputs":[1],"source":["1"]}],"nbformat":4,"nbformat_minor":5}"#;
    place.write("n.ipynb", notebook);
    let edit = |path: &str, old: &str, new: &str| json!({ "path": path, "old_string": old, "new_string": new });
    let there = [
        (
            "multi_edit",
            json!({ "edits": [edit("a.txt", "one", "1"), edit("b.txt", "two", "2")] }),
        ),
        ("rename", json!({ "from": "a.txt", "to": "new/a.txt" })),
        ("delete", json!({ "path": "old", "recursive": true })),
        ("list", json!({ "path": "new" })),
        (
            "notebook_edit",
            json!({ "path": "n.ipynb", "cell_id": "x", "new_source": "2" }),
        ),
        ("current_time", json!({ "zone": "UTC" })),
    ];
    for (tool, input) in there {
        let ran = place.halter(["tools", "call", tool, &input.to_string()]);
        ran.expect(0);
    }
    let read = |name: &str| std::fs::read_to_string(place.work().join(name)).unwrap();
    assert_eq!(read("new/a.txt"), "1\n");
    assert_eq!(read("b.txt"), "2\n");
    assert_eq!(read("n.ipynb"), notebook.replace(r#"["1"]"#, r#"["2"]"#));
    assert!(!place.work().join("old").exists());

    let by_model = [
        (
            "multi_edit",
            json!({ "edits": [edit("b.txt", "2", "II")] }),
            "changed",
        ),
        (
            "rename",
            json!({ "from": "new/a.txt", "to": "a.txt" }),
            "a.txt",
        ),
        (
            "delete",
            json!({ "path": "new", "recursive": true }),
            "deleted",
        ),
        ("list", json!({}), "n.ipynb"),
        (
            "notebook_edit",
            json!({ "path": "n.ipynb", "cell_id": "x", "edit_mode": "delete" }),
            "cell_id",
        ),
        ("current_time", json!({}), "session_seconds"),
    ];
    for (tool, input, expected) in by_model {
        let turn = tool_turn(&place, "", tool, &input);
        assert_eq!(turn.ran.expect(0).stdout.trim_end(), "Done.");
        assert!(turn.told.contains(expected), "{tool}: {}", turn.told);
    }
    assert_eq!(
        (read("a.txt"), read("b.txt")),
        ("1\n".into(), "II\n".into())
    );
    assert!(!place.work().join("new").exists());

    let outside = [
        ("multi_edit", json!({ "edits": [edit("../x", "1", "2")] })),
        ("rename", json!({ "from": "a.txt", "to": "../a.txt" })),
        ("delete", json!({ "path": "/etc", "recursive": true })),
        ("list", json!({ "path": "/etc" })),
        (
            "notebook_edit",
            json!({ "path": "../n.ipynb", "cell_id": "x", "new_source": "" }),
        ),
    ];
    for (tool, input) in outside {
        let refused = place.halter(["tools", "call", tool, &input.to_string()]);
        assert_eq!(
            refused.expect(3).json()["error"]["code"],
            "policy_denied",
            "{tool}"
        );
    }
}
