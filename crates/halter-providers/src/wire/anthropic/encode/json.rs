//! Writing JSON text to memory.

use serde::Serialize;

/// Appends text as it is.
pub(super) fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a value as JSON. What has no JSON form is `null`.
pub(super) fn put_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        put(out, "null");
    }
}

/// Appends a text block.
pub(super) fn put_text_block(out: &mut Vec<u8>, text: &str) {
    put(out, "{\"type\":\"text\",\"text\":");
    put_json(out, text);
    put(out, "}");
}
