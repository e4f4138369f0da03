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
