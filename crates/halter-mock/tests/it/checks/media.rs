//! Images and documents in prompts and results, on every wire.

use super::{refused, with_results};
use crate::speech::Talk;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halter_mock::limits::MAX_IMAGE_CHARS;
use halter_mock::{MockService, MockWire, ServeOptions, serve};
use serde_json::{Value, json};

const WIRES: [MockWire; 4] = [
    MockWire::Anthropic,
    MockWire::Responses,
    MockWire::Chat,
    MockWire::Gemini,
];

/// A part of a user's message, or of a result where the wire has it there.
fn part(wire: MockWire, media_type: &str, data: &str) -> Value {
    let url = format!("data:{media_type};base64,{data}");
    let image = media_type.starts_with("image/");
    match wire {
        MockWire::Anthropic => json!({
            "type": if image { "image" } else { "document" },
            "source": {"type": "base64", "media_type": media_type, "data": data},
        }),
        MockWire::Responses if image => json!({"type": "input_image", "image_url": url}),
        MockWire::Responses => json!({"type": "input_file", "filename": "a.pdf", "file_data": url}),
        MockWire::Chat if image => json!({"type": "image_url", "image_url": {"url": url}}),
        MockWire::Chat => json!({"type": "file", "file": {"filename": "a.pdf", "file_data": url}}),
        _ => json!({"inlineData": {"mimeType": media_type, "data": data}}),
    }
}

fn png(wire: MockWire) -> Value {
    part(wire, "image/png", &STANDARD.encode(b"\x89PNG\r\n"))
}

fn pdf(wire: MockWire) -> Value {
    part(wire, "application/pdf", &STANDARD.encode(b"%PDF-1.7"))
}

/// A prompt with parts.
fn prompt(wire: MockWire, text: &str, parts: &[Value]) -> Talk {
    Talk::new(wire, text).with(|body| match wire {
        MockWire::Anthropic | MockWire::Chat => {
            let mut content = vec![json!({"type": "text", "text": text})];
            content.extend_from_slice(parts);
            body["messages"][0]["content"] = json!(content);
        }
        MockWire::Responses => {
            let content = body["input"][0]["content"].as_array_mut().unwrap();
            content.extend_from_slice(parts);
        }
        _ => {
            let content = body["contents"][0]["parts"].as_array_mut().unwrap();
            content.extend_from_slice(parts);
        }
    })
}

/// A conversation whose only result has the parts, as the wire wants them.
async fn with_media(service: &MockService, wire: MockWire, parts: &[Value]) -> Talk {
    let (mut talk, _) = with_results(service, wire, "mock:image_result").await;
    let last = |talk: &mut Talk, key: &str| talk.body[key].as_array().unwrap().len() - 1;
    match wire {
        MockWire::Anthropic => {
            let at = last(&mut talk, "messages");
            talk.body["messages"][at]["content"][0]["content"] = json!(parts);
        }
        MockWire::Responses => {
            let at = last(&mut talk, "input");
            talk.body["input"][at]["output"] = json!(parts);
        }
        MockWire::Chat => talk.push("messages", json!({"role": "user", "content": parts})),
        _ => {
            let at = last(&mut talk, "contents");
            talk.body["contents"][at]["parts"][0]["functionResponse"]["parts"] = json!(parts);
        }
    }
    talk
}

#[tokio::test]
async fn images_of_prompts_and_results_are_seen_on_every_wire() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for wire in WIRES {
        let parts = [png(wire), pdf(wire), png(wire)];
        let asked = prompt(wire, "mock:images", &parts);
        assert_eq!(
            asked.ask(&service).await.text,
            "I see 2 images.",
            "{wire:?}"
        );
        let read = with_media(&service, wire, &parts).await;
        assert_eq!(read.ask(&service).await.text, "I see 2 images.", "{wire:?}");
    }
    service.stop().await;
}

#[tokio::test]
async fn wrong_images_and_documents_get_the_wires_own_error() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let jpeg = STANDARD.encode(b"\xff\xd8\xff\xe0");
    for (wire, unknown_type, not_base64, mismatch) in [
        (
            MockWire::Anthropic,
            "image.source.base64.media_type: Input should be one of image/png",
            "image.source.base64.data: Input should be valid base64",
            "but it appears to be image/jpeg",
        ),
        (
            MockWire::Responses,
            "unsupported MIME type 'image/tiff'",
            "Invalid base64 value",
            "You uploaded an unsupported image",
        ),
        (
            MockWire::Chat,
            "unsupported MIME type 'image/tiff'",
            "Invalid base64 value",
            "You uploaded an unsupported image",
        ),
        (
            MockWire::Gemini,
            "Unsupported MIME type: image/tiff",
            "Base64 decoding failed",
            "Unable to process input image",
        ),
    ] {
        for (wrong, words) in [
            (part(wire, "image/tiff", "AAAA"), unknown_type),
            (part(wire, "image/png", "%%%"), not_base64),
            (part(wire, "image/png", ""), not_base64),
            (part(wire, "image/png", &jpeg), mismatch),
        ] {
            let asked = prompt(wire, "hi", std::slice::from_ref(&wrong));
            refused(&service, &asked, 400, words).await;
            let read = with_media(&service, wire, &[wrong]).await;
            refused(&service, &read, 400, words).await;
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn an_image_is_at_most_so_large() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let image = |chars: usize| {
        let mut bytes = b"\x89PNG".to_vec();
        bytes.resize(chars / 4 * 3, 0);
        part(MockWire::Anthropic, "image/png", &STANDARD.encode(bytes))
    };
    let fits = with_media(&service, MockWire::Anthropic, &[image(MAX_IMAGE_CHARS)]).await;
    assert_eq!(fits.send(&service).await.status, 200);
    let large = with_media(&service, MockWire::Anthropic, &[image(MAX_IMAGE_CHARS + 4)]).await;
    let words = "image exceeds 5 MB maximum: 5242884 bytes > 5242880 bytes";
    refused(&service, &large, 400, words).await;
    service.stop().await;
}

#[tokio::test]
async fn a_model_of_text_alone_refuses_images() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for (wire, path, status, words) in [
        (
            MockWire::Anthropic,
            None,
            400,
            "does not support image input",
        ),
        (
            MockWire::Responses,
            None,
            400,
            "image_url is only supported by certain models",
        ),
        (
            MockWire::Chat,
            None,
            400,
            "image_url is only supported by certain models",
        ),
        (
            MockWire::Chat,
            Some("/openrouter/v1/chat/completions"),
            404,
            "No endpoints found that support image input",
        ),
        (
            MockWire::Chat,
            Some("/local/v1/chat/completions"),
            400,
            "this model does not support image input",
        ),
        (
            MockWire::Gemini,
            None,
            400,
            "Image input modality is not enabled",
        ),
    ] {
        let mut asked = prompt(wire, "mock:images", &[png(wire)]);
        asked.model = "some-text-only-model".to_owned();
        if let Some(path) = path {
            asked = asked.at(path);
        }
        refused(&service, &asked, status, words).await;
    }
    service.stop().await;
}

#[tokio::test]
async fn what_a_wire_takes_nowhere_else_is_refused_there() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let (mut tool, _) = with_results(&service, MockWire::Chat, "mock:image_result").await;
    let last = tool.body["messages"].as_array().unwrap().len() - 1;
    tool.body["messages"][last]["content"] = json!([png(MockWire::Chat)]);
    refused(&service, &tool, 400, "role 'tool' do not take content").await;

    let local =
        prompt(MockWire::Chat, "hi", &[pdf(MockWire::Chat)]).at("/local/v1/chat/completions");
    refused(&service, &local, 400, "takes no files").await;

    let mut old = with_media(&service, MockWire::Gemini, &[png(MockWire::Gemini)]).await;
    old.model = "gemini-2.5-flash".to_owned();
    for content in old.body["contents"].as_array_mut().unwrap() {
        for part in content["parts"].as_array_mut().unwrap() {
            part.as_object_mut().unwrap().remove("thoughtSignature");
        }
    }
    refused(&service, &old, 400, "Multimodal function responses").await;

    let heic = part(MockWire::Gemini, "image/heic", "AAAA");
    let beside = prompt(MockWire::Gemini, "hi", std::slice::from_ref(&heic));
    assert_eq!(beside.send(&service).await.status, 200);
    let inside = with_media(&service, MockWire::Gemini, &[heic]).await;
    refused(&service, &inside, 400, "Unsupported MIME type: image/heic").await;

    let empty = with_media(&service, MockWire::Gemini, &[json!({"text": "no"})]).await;
    refused(&service, &empty, 400, "must have one initialized field").await;

    let unnamed =
        json!({"type": "input_file", "file_data": "data:application/pdf;base64,JVBERg=="});
    let file = prompt(MockWire::Responses, "hi", &[unnamed]);
    refused(&service, &file, 400, "filename").await;
    service.stop().await;
}
