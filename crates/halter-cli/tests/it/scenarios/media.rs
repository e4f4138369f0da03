//! Images and documents, from the command line and from tools.

use super::stage::Stage;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halter_testkit::png;
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
