//! Images and PDFs: read whole, for a model to look at.

use super::ReadDeadline;
use anyhow::{anyhow, bail};
use halter_protocol::media::pixels;
use halter_protocol::{ContentHash, ContentPart, MediaFormat, ToolResult};
use serde_json::{Map, Value};
use std::io::Read;

/// The start of a file, as far as it takes to know its format.
pub(super) fn start_of(file: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(MediaFormat::SNIFF_BYTES);
    file.take(MediaFormat::SNIFF_BYTES as u64)
        .read_to_end(&mut start)?;
    Ok(start)
}

/// An image or document, and its hash.
pub(super) struct Media {
    format: MediaFormat,
    part: ContentPart,
    bytes: usize,
    pixels: Option<(u32, u32)>,
    pub(super) sha256: String,
}

impl Media {
    /// Reads a whole file of a format, unless it has more bytes than policy or
    /// model services allow.
    pub(super) fn read(
        format: MediaFormat,
        mut file: impl Read,
        size: u64,
        max_read_bytes: u64,
        stop: &ReadDeadline<'_>,
    ) -> anyhow::Result<Self> {
        let allowed = usize::try_from(max_read_bytes).unwrap_or(usize::MAX);
        let room = allowed.min(format.max_bytes());
        let too_large = |size: u64| too_large(format, size, room, allowed <= format.max_bytes());
        if size > room as u64 {
            bail!(too_large(size));
        }
        let mut data = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            stop.check()?;
            let count = match file.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if count == 0 {
                break;
            }
            data.extend_from_slice(buffer.get(..count).unwrap_or_default());
            if data.len() > room {
                // It has grown since it was looked at.
                bail!(too_large(data.len() as u64));
            }
        }
        let (bytes, pixels) = (data.len(), pixels(&data));
        let sha256 = ContentHash::hex_of(&data);
        let part = format.part(data);
        part.check()?;
        Ok(Self {
            format,
            part,
            bytes,
            pixels,
            sha256,
        })
    }

    /// What the model gets: the facts in words, then the thing itself.
    pub(super) fn into_result(self, path: String) -> ToolResult {
        let mut facts = Map::new();
        facts.insert("path".into(), path.into());
        facts.insert("media_type".into(), self.format.media_type().into());
        facts.insert("bytes".into(), self.bytes.into());
        if let Some((width, height)) = self.pixels {
            facts.insert("width".into(), width.into());
            facts.insert("height".into(), height.into());
        }
        facts.insert("sha256".into(), self.sha256.into());
        let facts = ContentPart::text(Value::Object(facts).to_string());
        ToolResult::parts([facts, self.part])
    }
}

fn too_large(format: MediaFormat, size: u64, room: usize, by_policy: bool) -> anyhow::Error {
    let whose = match by_policy {
        true => "policy.max_read_bytes allows",
        false => "model services take",
    };
    let instead = match format.is_image() {
        true => "scale it down or cut a part out of it",
        false => "take out the pages or the text you need",
    };
    anyhow!(
        "it is {format} of {size} bytes, more than the {room} bytes that {whose}; {instead}, and \
         read that"
    )
}
