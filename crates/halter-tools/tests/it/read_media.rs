//! `read` of images and PDFs.

use crate::support::{PNG, Workspace};
use halter_protocol::ContentHash;
use halter_protocol::limits::{DOCUMENT_BYTES, IMAGE_BYTES};
use halter_protocol::{ContentPart, ToolErrorCode, ToolResult};
use halter_tools::PolicySettings;
use serde_json::{Value, json};

const PDF: &[u8] = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n%%EOF\n";

/// A workspace in which policy lets every size pass.
fn workspace() -> Workspace {
    Workspace::with_settings(PolicySettings {
        max_read_bytes: u64::MAX,
        ..PolicySettings::default()
    })
}

async fn parts(workspace: &Workspace, arguments: Value) -> (Value, ContentPart) {
    let result = workspace.result("read", arguments).await.unwrap();
    let ToolResult::Parts { parts } = result else {
        panic!("no parts: {result:?}");
    };
    let [ContentPart::Text { text }, part] = parts.as_slice() else {
        panic!("not facts and a thing: {parts:?}");
    };
    (serde_json::from_str(text).unwrap(), part.clone())
}

#[tokio::test]
async fn an_image_comes_whole_with_what_is_known_of_it() {
    let workspace = workspace();
    workspace.put("art/picture.png", PNG);
    let (facts, image) = parts(&workspace, json!({"path": "art/picture.png"})).await;
    assert_eq!(
        facts,
        json!({
            "path": "art/picture.png",
            "media_type": "image/png",
            "bytes": PNG.len(),
            "width": 3,
            "height": 2,
            "sha256": ContentHash::hex_of(PNG),
        })
    );
    assert_eq!(image, ContentPart::image("image/png", PNG));
}

#[tokio::test]
async fn a_pdf_is_a_document() {
    let workspace = workspace();
    workspace.put("letter.pdf", PDF);
    let (facts, document) = parts(&workspace, json!({"path": "letter.pdf"})).await;
    assert_eq!(
        facts,
        json!({
            "path": "letter.pdf",
            "media_type": "application/pdf",
            "bytes": PDF.len(),
            "sha256": ContentHash::hex_of(PDF),
        })
    );
    assert_eq!(document, ContentPart::document("application/pdf", PDF));
}

#[tokio::test]
async fn bytes_decide_and_names_do_not() {
    let workspace = workspace();
    workspace.put("notes.txt", PNG);
    let (facts, _) = parts(&workspace, json!({"path": "notes.txt"})).await;
    assert_eq!(facts["media_type"], "image/png");

    workspace.put("words.png", "I am no picture\n");
    let result = workspace.ok("read", json!({"path": "words.png"})).await;
    assert_eq!(result["content"], "I am no picture\n");

    workspace.put("drawing.svg", "<svg/>\n");
    let result = workspace.ok("read", json!({"path": "drawing.svg"})).await;
    assert_eq!(result["content"], "<svg/>\n");
}

#[tokio::test]
async fn lines_do_not_matter_for_an_image() {
    let workspace = workspace();
    workspace.put("picture.png", PNG);
    let plain = parts(&workspace, json!({"path": "picture.png"})).await;
    let arguments = json!({"path": "picture.png", "offset": 9, "limit": 1, "line_numbers": true});
    assert_eq!(parts(&workspace, arguments).await, plain);
}

#[tokio::test]
async fn an_image_is_whole_or_refused_at_the_limit_of_the_policy() {
    for (allowed, fits) in [(PNG.len(), true), (PNG.len() - 1, false)] {
        let workspace = Workspace::with_settings(PolicySettings {
            max_read_bytes: allowed as u64,
            ..PolicySettings::default()
        });
        workspace.put("picture.png", PNG);
        if fits {
            parts(&workspace, json!({"path": "picture.png"})).await;
            continue;
        }
        let message = workspace
            .failure("read", json!({"path": "picture.png"}))
            .await;
        assert_eq!(
            message,
            format!(
                "cannot read 'picture.png': it is image/png of {} bytes, more than the {allowed} \
                 bytes that policy.max_read_bytes allows; scale it down or cut a part out of it, \
                 and read that",
                PNG.len()
            )
        );
    }
}

#[tokio::test]
async fn what_services_refuse_is_refused_here() {
    let workspace = workspace();
    let padded = |start: &[u8], length: usize| {
        let mut data = start.to_vec();
        data.resize(length, 0);
        data
    };
    for (name, start, limit) in [
        ("large.png", PNG, IMAGE_BYTES),
        ("large.pdf", PDF, DOCUMENT_BYTES),
    ] {
        workspace.put(name, padded(start, limit));
        let (facts, _) = parts(&workspace, json!({"path": name})).await;
        assert_eq!(facts["bytes"], limit);
        workspace.put(name, padded(start, limit + 1));
        let message = workspace.failure("read", json!({"path": name})).await;
        let expected = format!("more than the {limit} bytes that model services take");
        assert!(message.contains(&expected), "{message}");
    }

    workspace.put("damaged.png", &PNG[..20]);
    let message = workspace
        .failure("read", json!({"path": "damaged.png"}))
        .await;
    assert!(message.contains("damaged image/png"), "{message}");

    let mut wide = PNG.to_vec();
    wide[18] = 0xff;
    workspace.put("wide.png", wide);
    let message = workspace.failure("read", json!({"path": "wide.png"})).await;
    assert!(message.contains("65283x2 pixels"), "{message}");
}

#[tokio::test]
async fn other_binary_files_stay_refused() {
    let workspace = workspace();
    workspace.put("archive.zip", b"PK\x03\x04\0\0");
    let message = workspace
        .failure("read", json!({"path": "archive.zip"}))
        .await;
    assert!(message.contains("binary file"), "{message}");
}

#[tokio::test]
async fn an_image_that_changed_since_it_was_read_is_not_overwritten() {
    let workspace = workspace();
    workspace.put("picture.png", PNG);
    let write = json!({"path": "picture.png", "content": "words"});
    parts(&workspace, json!({"path": "picture.png"})).await;
    workspace.put("picture.png", [PNG, b"more"].concat());
    let message = workspace.failure("write", write.clone()).await;
    assert!(message.contains("has changed since"), "{message}");

    parts(&workspace, json!({"path": "picture.png"})).await;
    workspace.ok("write", write).await;
    assert_eq!(workspace.get("picture.png"), "words");
}

#[tokio::test]
async fn reading_an_image_can_be_cancelled() {
    let workspace = workspace();
    workspace.put("picture.png", PNG);
    workspace.cancel.cancel();
    let error = workspace
        .result("read", json!({"path": "picture.png"}))
        .await
        .unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Cancelled);
}
