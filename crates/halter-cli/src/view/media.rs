//! Images and documents in a few words: their bytes are not for a terminal.

use halter_protocol::{ContentPart, ToolError, ToolResult};

/// What an image or document is and how large; none for a text.
pub fn media_tag(part: &ContentPart) -> Option<String> {
    let (media_type, data) = part.media()?;
    Some(format!("[{media_type}, {}]", size(data.len())))
}

/// The images and documents of a result, each behind a space.
pub fn media_tags(result: Result<&ToolResult, &ToolError>) -> String {
    let parts = result.into_iter().flat_map(ToolResult::attachments);
    parts
        .filter_map(media_tag)
        .map(|tag| format!(" {tag}"))
        .collect()
}

fn size(bytes: usize) -> String {
    const KIB: usize = 1024;
    const MIB: usize = KIB * 1024;
    match bytes {
        0..KIB => format!("{bytes} bytes"),
        KIB..MIB => format!("{} KiB", bytes / KIB),
        _ => format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, said) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (12 * 1024 + 1023, "12 KiB"),
            (1024 * 1024, "1.0 MiB"),
            (5 * 1024 * 1024 / 2, "2.5 MiB"),
        ] {
            assert_eq!(size(bytes), said);
        }
    }

    #[test]
    fn only_images_and_documents_are_named() {
        let result = Ok(ToolResult::parts([
            ContentPart::text("words"),
            ContentPart::image("image/png", [1, 2]),
            ContentPart::document("application/pdf", [1]),
        ]));
        let said = " [image/png, 2 bytes] [application/pdf, 1 bytes]";
        assert_eq!(media_tags(result.as_ref()), said);
        assert_eq!(media_tags(Ok(&ToolResult::text("words"))), "");
    }
}
