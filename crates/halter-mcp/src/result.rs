//! What a server answered, as a session keeps it.

use crate::limits::{QUOTED_BYTES, RESULT_TEXT_BYTES};
use crate::text::{plain, shortened};
use crate::tool::OfferedTool;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halter_protocol::{ContentPart, ToolError, ToolErrorCode, ToolResult};
use halter_tools::SchemaCheck;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

/// The result of a call; an error, if the server says it is one. `check` is
/// what the server has said of its results.
pub(crate) fn converted(
    tool: &OfferedTool,
    check: Option<&SchemaCheck>,
    result: CallToolResult,
) -> anyhow::Result<ToolResult> {
    let failed = result.is_error == Some(true);
    let (parts, structured) = (parts_of(&result.content), result.structured_content);
    let note = structured.as_ref().and_then(|value| misfit(check?, value));
    let converted = joined(parts, structured);
    if failed {
        let mut text = converted.to_model_text();
        // Services take text only with an error.
        if converted.attachments().next().is_some() {
            text.push_str("\n[images and documents are not shown with an error]");
        }
        let text = match text.as_str() {
            "" => format!("the tool `{}` failed and did not say why", tool.own_name),
            text => text.to_owned(),
        };
        return Err(ToolError::new(ToolErrorCode::Failed, text).into());
    }
    Ok(match (note, converted) {
        (None, converted) => converted,
        (Some(note), ToolResult::Parts { mut parts }) => {
            parts.push(ContentPart::text(note));
            ToolResult::parts(parts)
        }
        (Some(note), other) => {
            ToolResult::parts([other.to_model_text(), note].map(ContentPart::text))
        }
    })
}

/// In what structured data is not as the server has said, for a model to read.
fn misfit(check: &SchemaCheck, value: &Value) -> Option<String> {
    // What takes too long to compare may well be as described.
    check.bounded(value).ok()?;
    let problems = check.problems(value);
    let problems = shortened(&plain(&problems.join("; ")), QUOTED_BYTES);
    let note = format!("[the data is not as the server describes it: {problems}]");
    (!problems.is_empty()).then_some(note)
}

/// Parts and structured data in one. Servers repeat the data as text for
/// clients that know no other: then the data stands for both.
fn joined(mut parts: Vec<ContentPart>, structured: Option<Value>) -> ToolResult {
    if let Some(value) = structured {
        let text = value.to_string();
        if text.len() <= RESULT_TEXT_BYTES {
            let repeats = |part: &ContentPart| {
                let said = part.as_text().and_then(|it| serde_json::from_str(it).ok());
                said.is_some_and(|said: Value| said == value)
            };
            match parts.as_slice() {
                [] => return ToolResult::json(value),
                [only] if repeats(only) => return ToolResult::json(value),
                all if all.iter().any(repeats) => {}
                _ => parts.push(ContentPart::text(text)),
            }
        } else {
            let note = format!("[structured data of {} bytes left out]", text.len());
            parts.push(ContentPart::text(note));
        }
    }
    bound_texts(&mut parts);
    match parts.as_mut_slice() {
        [] => ToolResult::Empty,
        [ContentPart::Text { text }] => ToolResult::text(std::mem::take(text)),
        _ => ToolResult::parts(parts),
    }
}

/// Cuts the texts of parts to [`RESULT_TEXT_BYTES`] in all.
pub(crate) fn bound_texts(parts: &mut [ContentPart]) {
    let mut room = RESULT_TEXT_BYTES;
    for part in parts {
        if let ContentPart::Text { text } = part {
            *text = crate::text::shortened(text, room);
            room = room.saturating_sub(text.len());
        }
    }
}

fn parts_of(content: &[ContentBlock]) -> Vec<ContentPart> {
    content.iter().map(part).collect()
}

pub(crate) fn part(block: &ContentBlock) -> ContentPart {
    match block {
        ContentBlock::Text(text) => ContentPart::text(text.text.clone()),
        ContentBlock::Image(image) => media(&image.mime_type, &image.data, "image"),
        ContentBlock::Audio(audio) => media(&audio.mime_type, &audio.data, "recording"),
        ContentBlock::Resource(embedded) => resource(&embedded.resource),
        ContentBlock::ResourceLink(link) => {
            let kind = link.mime_type.as_deref().unwrap_or("unknown type");
            ContentPart::text(format!("[resource {} ({kind}): {}]", link.uri, link.name))
        }
        _ => ContentPart::text("[content of a kind that is not known]"),
    }
}

/// A resource, as one part.
pub(crate) fn resource(contents: &ResourceContents) -> ContentPart {
    match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            ContentPart::text(format!("[resource {uri}]\n{text}"))
        }
        ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob,
            ..
        } => {
            let kind = mime_type.as_deref().unwrap_or("application/octet-stream");
            media(kind, blob, &format!("resource {uri}"))
        }
        _ => ContentPart::text("[a resource of a kind that is not known]"),
    }
}

/// Bytes of a type that models see, or a note.
pub(crate) fn media(kind: &str, encoded: &str, what: &str) -> ContentPart {
    let Ok(bytes) = STANDARD.decode(encoded.trim()) else {
        return ContentPart::text(format!("[{what} of type {kind} that is not base64]"));
    };
    match kind {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => ContentPart::image(kind, bytes),
        "application/pdf" => ContentPart::document(kind, bytes),
        kind => ContentPart::text(format!(
            "[{what} of type {kind}, {} bytes: models are not shown this type]",
            bytes.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(answer: Value) -> Result<ToolResult, ToolError> {
        let output = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let tool = json!({"name": "t", "inputSchema": {}, "outputSchema": output});
        let tool = serde_json::from_value(tool).unwrap();
        let tool = OfferedTool::new(&crate::ServerName::new("x").unwrap(), &tool).unwrap();
        let answer = serde_json::from_value(answer).unwrap();
        let converted = converted(&tool, tool.result_check().as_ref(), answer);
        converted.map_err(|error| error.downcast().unwrap())
    }

    #[test]
    fn data_that_is_not_as_the_server_described_it_is_kept_and_named() {
        let alone = json!({"content": [], "structuredContent": {"n": "1"}});
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        let beside = json!({"content": text("one"), "structuredContent": {"n": "1"}});
        for (answer, before) in [
            (alone, vec![r#"{"n":"1"}"#]),
            (beside, vec!["one", r#"{"n":"1"}"#]),
        ] {
            let ToolResult::Parts { parts } = result(answer).unwrap() else {
                panic!("no parts");
            };
            let texts: Vec<_> = parts.iter().map(ContentPart::describe).collect();
            let (note, others) = texts.split_last().unwrap();
            assert_eq!(others, before);
            let said = "[the data is not as the server describes it: `n`";
            assert!(note.starts_with(said), "{note}");
        }
        // What failed has its reason.
        let failed =
            json!({"content": text("no"), "structuredContent": {"n": "1"}, "isError": true});
        assert!(!result(failed).unwrap_err().message.contains("describes"));
    }

    #[test]
    fn one_text_is_a_text_and_nothing_is_nothing() {
        let text = json!({"content": [{"type": "text", "text": "hi"}]});
        assert_eq!(result(text).unwrap(), ToolResult::text("hi"));
        assert_eq!(result(json!({"content": []})).unwrap(), ToolResult::Empty);
    }

    #[test]
    fn an_error_is_an_error() {
        let content = json!([{"type": "text", "text": "no such file"}]);
        let error = result(json!({"content": content, "isError": true})).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Failed);
        assert_eq!(error.message, "no such file");
        let silent = result(json!({"content": [], "isError": true})).unwrap_err();
        assert!(silent.message.contains("did not say why"));
    }

    #[test]
    fn images_and_resources_are_parts() {
        let content = json!([
            {"type": "text", "text": "see"},
            {"type": "image", "mimeType": "image/png", "data": "AQID"},
            {"type": "image", "mimeType": "image/tiff", "data": "AQID"},
            {"type": "image", "mimeType": "image/png", "data": "?"},
            {"type": "audio", "mimeType": "audio/wav", "data": "AQID"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "A"}},
            {"type": "resource", "resource":
                {"uri": "file:///b", "mimeType": "application/pdf", "blob": "AQID"}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
        ]);
        let ToolResult::Parts { parts } = result(json!({"content": content})).unwrap() else {
            panic!("no parts");
        };
        let texts: Vec<_> = parts.iter().map(ContentPart::describe).collect();
        assert_eq!(
            texts,
            [
                "see",
                "[image of type image/png, 3 bytes]",
                "[image of type image/tiff, 3 bytes: models are not shown this type]",
                "[image of type image/png that is not base64]",
                "[recording of type audio/wav, 3 bytes: models are not shown this type]",
                "[resource file:///a]\nA",
                "[document of type application/pdf, 3 bytes]",
                "[resource file:///c (unknown type): c]",
            ]
        );
    }

    #[test]
    fn structured_data_is_kept_and_not_repeated() {
        let value = json!({"n": 1});
        let twice = json!({
            "content": [{"type": "text", "text": "{ \"n\": 1 }"}], "structuredContent": value
        });
        assert_eq!(result(twice).unwrap(), ToolResult::json(value.clone()));
        let alone = json!({"content": [], "structuredContent": value});
        assert_eq!(result(alone).unwrap(), ToolResult::json(value.clone()));
        let beside = json!({
            "content": [{"type": "text", "text": "one"}], "structuredContent": value
        });
        let parts = ["one", "{\"n\":1}"].map(ContentPart::text);
        assert_eq!(result(beside).unwrap(), ToolResult::parts(parts));
    }

    #[test]
    fn text_is_bounded_over_all_parts() {
        let half = "a".repeat(RESULT_TEXT_BYTES / 2);
        let text = |text: &str| json!({"type": "text", "text": text});
        let fits = result(json!({"content": [text(&half), text(&half)]})).unwrap();
        assert!(!fits.to_model_text().contains("left out"));
        let more = result(json!({"content": [text(&half), text(&half), text("b")]})).unwrap();
        assert!(more.to_model_text().ends_with("[1 bytes left out]"));
    }
}
