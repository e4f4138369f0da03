//! Images and documents, from the command line and from tools.

use super::stage::Stage;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halter_testkit::{pdf, png};
use serde_json::{Value, json};

const NAME: &str = "picture.png";

/// A picture in the working directory, in base64.
fn picture(stage: &Stage) -> String {
    let data = png(64, 48);
    std::fs::write(stage.place.work().join(NAME), &data).unwrap();
    STANDARD.encode(data)
}

/// How often each request holds the picture.
fn shown(bodies: &[Value], data: &str) -> Vec<usize> {
    let count = |body: &Value| body.to_string().matches(data).count();
    bodies.iter().map(count).collect()
}

/// A picture and a text go with the task, and stay for the next process.
pub fn images(stage: &Stage) {
    let data = picture(stage);
    stage.place.write("plan.md", "# the plan of the house\n");
    let files = ["--attach", NAME, "--attach", "plan.md"];
    let first = stage.play_with("images", &files);
    assert_eq!(first.completed(), "I see 1 images.");
    let asked = &first.all("message_item")[0]["message"];
    assert_eq!(
        asked["parts"],
        json!([
            {"kind": "text", "text": "please mock:images"},
            {"kind": "text", "text": "Attached file: picture.png"},
            {"kind": "image", "media_type": "image/png", "data": data},
            {"kind": "text", "text": "Attached file: plan.md"},
            {"kind": "document", "media_type": "text/markdown",
             "data": STANDARD.encode("# the plan of the house\n")},
        ])
    );

    let session = first.session();
    let second = stage.play_with("images", &["--session", &session]);
    assert_eq!(second.completed(), "I see 1 images.");
    let bodies = stage.requests("images", &[0, 0]);
    assert_eq!(shown(&bodies, &data), [1, 1]);
    for body in &bodies {
        // As a text or as base64, as the service wants it.
        let body = body.to_string();
        let plan = STANDARD.encode("# the plan of the house\n");
        assert!(
            body.contains("# the plan of the house") || body.contains(&plan),
            "{body}"
        );
    }

    let told = stage.place.halter(["sessions", "show", &session]);
    let told = &told.expect(0).stdout;
    assert!(told.contains("> Attached file: picture.png"), "{told}");
    assert!(told.contains("> [image/png, 3 KiB]"), "{told}");
    assert!(!told.contains(&data[..64]), "{told}");
}

/// A PDF goes with the task, as each service takes it.
pub fn pdf_attached(stage: &Stage) {
    let data = pdf();
    std::fs::write(stage.place.work().join("letter.pdf"), &data).unwrap();
    let played = stage.play_with("images", &["--attach", "letter.pdf"]);
    assert_eq!(played.completed(), "I see 0 images.");
    let bodies = stage.requests("images", &[0]);
    let sent = shown(&bodies, &STANDARD.encode(&data));
    assert_eq!(sent, [1], "{}", bodies[0]);
    assert!(played.all("warning").is_empty(), "{:?}", played.events);
}

/// A tool returns a picture, the model sees it, and so does the next process.
pub fn image_result(stage: &Stage) {
    let data = picture(stage);
    let first = stage.play("image_result");
    assert_eq!(first.completed(), "I see 1 images.");
    assert_eq!(first.tools(), [("read".to_owned(), "ok".to_owned())]);
    let result = &first.one("tool_execution_completed")["outcome"]["result"]["ok"];
    assert_eq!(result["kind"], "parts");
    let facts: Value = serde_json::from_str(result["parts"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(facts["path"], NAME);
    assert_eq!(
        (&facts["width"], &facts["height"]),
        (&json!(64), &json!(48))
    );
    assert_eq!(
        result["parts"][1],
        json!({"kind": "image", "media_type": "image/png", "data": data})
    );

    // The text of the answer is asked for with the result of the turn before.
    let session = first.session();
    let second = stage.play_with("image_result", &["--session", &session]);
    assert_eq!(second.completed(), "I see 2 images.");
    let bodies = stage.requests("image_result", &[0, 1, 0, 1]);
    assert_eq!(shown(&bodies, &data), [0, 1, 1, 2]);

    let told = stage.place.halter(["sessions", "show", &session]);
    let told = &told.expect(0).stdout;
    assert!(
        told.contains("✓ read picture.png [image/png, 3 KiB]"),
        "{told}"
    );
    assert_eq!(stage.files(), ["fixture.txt", "notes.txt", NAME]);
}
