//! Images and documents in requests: their type, their bytes, their size. The
//! words of a refusal are each wire's own.

use crate::fields;
use crate::model_answer::tokens;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The image types that the services of Anthropic and OpenAI take.
pub(crate) const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The type of documents that services read themselves.
pub(crate) const PDF: &str = "application/pdf";

/// Tokens of an image or a document, roughly.
const MEDIA_TOKENS: u64 = 1_500;

/// In the name of a model that takes text alone.
const TEXT_ONLY: &str = "text-only";

/// What is wrong with an image or a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaFault {
    /// The service does not take the type.
    Type,
    /// The data is not base64, or nothing.
    Encoding,
    /// The bytes are of no type that is known.
    Unreadable,
    /// The bytes are of another type than is said.
    Mismatch {
        /// The type they are of.
        found: &'static str,
    },
}

/// Whether a model takes text alone, by its name.
pub(crate) fn is_text_only(model: &str) -> bool {
    model.contains(TEXT_ONLY)
}

/// Checks bytes against the type they are said to be of.
pub(crate) fn check(media_type: &str, data: &str, taken: &[&str]) -> Result<(), MediaFault> {
    if !taken.contains(&media_type) {
        return Err(MediaFault::Type);
    }
    let bytes = STANDARD.decode(data).map_err(|_| MediaFault::Encoding)?;
    if bytes.is_empty() {
        return Err(MediaFault::Encoding);
    }
    match sniff(&bytes) {
        Some(found) if found == media_type => Ok(()),
        Some(found) => Err(MediaFault::Mismatch { found }),
        // Types whose bytes are not inspected.
        None if !IMAGES.contains(&media_type) && media_type != PDF => Ok(()),
        None => Err(MediaFault::Unreadable),
    }
}

/// The type and the base64 of a `data:` address.
pub(crate) fn data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}

/// Checks an address of an image or a file, in the words of OpenAI.
pub(crate) fn check_url(url: &str, taken: &[&str], remote: bool) -> Result<(), String> {
    if remote && (url.starts_with("https://") || url.starts_with("http://")) {
        return Ok(());
    }
    let Some((media_type, data)) = data_url(url) else {
        return Err(
            "Expected a base64-encoded data URL with a MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got a value without the 'data:' prefix."
                .to_owned(),
        );
    };
    check(media_type, data, taken).map_err(|fault| match fault {
        MediaFault::Type => format!(
            "Expected a base64-encoded data URL with a supported MIME type, but got unsupported MIME type '{media_type}'."
        ),
        MediaFault::Encoding => "Invalid base64 value.".to_owned(),
        MediaFault::Unreadable | MediaFault::Mismatch { .. } => {
            "You uploaded an unsupported image or file. Please make sure it is valid and of the MIME type that is given.".to_owned()
        }
    })
}

/// How many of the parts are images, by their `type`.
pub(crate) fn count_images(parts: &[Value]) -> usize {
    parts
        .iter()
        .filter(|part| matches!(fields::kind(part), "image" | "input_image" | "image_url"))
        .count()
}

/// Tokens of a request of so many bytes, roughly: an image or document counts
/// with a fixed number, independent of its bytes.
pub(crate) fn input_tokens(body: &Value, body_bytes: usize) -> u64 {
    let (chars, count) = weigh(body);
    tokens(body_bytes.saturating_sub(chars)) + MEDIA_TOKENS.saturating_mul(count)
}

/// The base64 characters in a request, and of how many images and documents.
fn weigh(value: &Value) -> (usize, u64) {
    let sum = |all: (usize, u64), one: (usize, u64)| (all.0 + one.0, all.1 + one.1);
    match value {
        Value::String(text) if data_url(text).is_some() => (text.len(), 1),
        Value::Array(items) => items.iter().map(weigh).fold((0, 0), sum),
        Value::Object(object) => {
            let named = object.contains_key("mimeType") || fields::kind(value) == "base64";
            match object.get("data") {
                Some(Value::String(data)) if named => (data.len(), 1),
                _ => object.values().map(weigh).fold((0, 0), sum),
            }
        }
        _ => (0, 0),
    }
}

fn sniff(bytes: &[u8]) -> Option<&'static str> {
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    if is_webp {
        return Some("image/webp");
    }
    [
        (b"\x89PNG".as_slice(), "image/png"),
        (b"\xff\xd8\xff".as_slice(), "image/jpeg"),
        (b"GIF8".as_slice(), "image/gif"),
        (b"%PDF".as_slice(), PDF),
    ]
    .into_iter()
    .find_map(|(magic, media_type)| bytes.starts_with(magic).then_some(media_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bytes_are_what_they_are_said_to_be() {
        let encoded = |bytes: &[u8]| STANDARD.encode(bytes);
        let png = encoded(b"\x89PNG\r\n");
        let table = [
            ("image/png", png.as_str(), Ok(())),
            ("image/tiff", png.as_str(), Err(MediaFault::Type)),
            ("image/png", "", Err(MediaFault::Encoding)),
            ("image/png", "%%%", Err(MediaFault::Encoding)),
            (
                "image/jpeg",
                png.as_str(),
                Err(MediaFault::Mismatch { found: "image/png" }),
            ),
        ];
        for (media_type, data, expected) in table {
            assert_eq!(check(media_type, data, &IMAGES), expected, "{media_type}");
        }
        let webp = encoded(b"RIFF\0\0\0\0WEBPVP8 ");
        assert_eq!(check("image/webp", &webp, &IMAGES), Ok(()));
        assert_eq!(
            check("image/gif", &encoded(b"hello"), &IMAGES),
            Err(MediaFault::Unreadable)
        );
        assert_eq!(check("image/heic", &encoded(b"x"), &["image/heic"]), Ok(()));
    }

    #[test]
    fn media_count_as_such_and_not_by_their_bytes() {
        let large = "A".repeat(4_000_000);
        let url = format!("data:image/png;base64,{large}");
        for body in [
            json!({"source": {"type": "base64", "media_type": "image/png", "data": large}}),
            json!({"inlineData": {"mimeType": "image/png", "data": large}}),
            json!({"image_url": {"url": url}}),
            json!([{"type": "input_image", "image_url": url}]),
        ] {
            let counted = input_tokens(&body, body.to_string().len());
            assert!(
                (MEDIA_TOKENS..MEDIA_TOKENS + 50).contains(&counted),
                "{counted}"
            );
        }
        let text = json!({"text": "x".repeat(400)});
        assert_eq!(input_tokens(&text, 400), 100);
    }

    #[test]
    fn addresses_hold_the_bytes_or_name_a_place() {
        assert_eq!(check_url("https://x.test/a.png", &IMAGES, true), Ok(()));
        assert!(check_url("https://x.test/a.png", &IMAGES, false).is_err());
        assert!(check_url("a.png", &IMAGES, true).is_err());
        assert_eq!(
            check_url("data:image/png;base64,iVBORw==", &IMAGES, true),
            Ok(())
        );
    }
}
