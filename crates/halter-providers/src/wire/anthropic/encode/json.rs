//! Pieces of JSON text.

use crate::wire::body::write_json;

/// Appends text as it is.
pub(super) fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a text block.
pub(super) fn put_text_block(out: &mut Vec<u8>, text: &str) {
    put(out, "{\"type\":\"text\",\"text\":");
    write_json(out, text);
    put(out, "}");
}
