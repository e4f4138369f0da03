//! Pictures for a model to look at.

use super::picture::{Picture, PictureFormat, ResizeFilter};
use super::{MadePicture, Source, facts, told, too_large_to_show};
use crate::context::ToolContext;
use anyhow::bail;
use halter_protocol::limits::MANY_IMAGES_SIDE_PIXELS;
use halter_protocol::{ContentPart, MediaFormat, ToolResult};
use serde_json::{Map, Value};

/// What is tried, in this order, for an image that cannot be shown as it is.
/// Sharp edges survive PNG; a photo only fits as JPEG.
const SMALLER: [(u32, PictureFormat); 4] = [
    (MANY_IMAGES_SIDE_PIXELS, PictureFormat::Png),
    (MANY_IMAGES_SIDE_PIXELS, PictureFormat::Jpeg),
    (MANY_IMAGES_SIDE_PIXELS / 2, PictureFormat::Jpeg),
    (MANY_IMAGES_SIDE_PIXELS / 4, PictureFormat::Jpeg),
];

/// The whole image, as it is where policy and model services let it pass, and
/// smaller or in another format where they do not.
pub(super) fn read(context: &ToolContext, source: Source) -> anyhow::Result<ToolResult> {
    let about = told(&source, Picture::about(&source.data))?;
    let room = room(context);
    let mut facts = facts(&source.path, about.format, about.size, source.data.len());
    facts.insert("sha256".into(), source.sha256.clone().into());
    if source.data.len() <= room
        && let Some(part) = part(&source.data)
    {
        return Ok(with_facts(facts, part));
    }
    let picture = told(&source, Picture::decode(&source.data))?;
    for (side, format) in SMALLER {
        context.check_cancelled()?;
        let smaller = picture.within(side, ResizeFilter::default())?;
        let data = smaller.encode(format, super::default_quality())?;
        if data.len() > room {
            continue;
        }
        let Some(part) = part(&data) else { continue };
        let (width, height) = smaller.size();
        let shown = format!("{} of {width}x{height} pixels", format.name());
        facts.insert("shown_as".into(), shown.into());
        return Ok(with_facts(facts, part));
    }
    bail!(
        "'{}' cannot be shown: no smaller form of it fits in {room} bytes, which \
         policy.max_read_bytes or model services allow; `crop` a part of it",
        source.path
    );
}

/// The result of a call that shows what it made.
pub(super) fn result(context: &ToolContext, made: MadePicture) -> anyhow::Result<ToolResult> {
    let room = room(context);
    if made.data.len() > room {
        return Err(too_large_to_show(made.data.len(), room));
    }
    let Some(part) = part(&made.data) else {
        bail!(
            "the result cannot be shown as {}; name an `output_path`, or make it smaller",
            made.format.name()
        );
    };
    Ok(with_facts(made.facts, part))
}

/// Bytes of an image that may be shown.
fn room(context: &ToolContext) -> usize {
    let allowed = usize::try_from(context.policy.max_read_bytes()).unwrap_or(usize::MAX);
    allowed.min(MediaFormat::Png.max_bytes())
}

/// The image as a part, if model services take it.
fn part(data: &[u8]) -> Option<ContentPart> {
    let part = MediaFormat::detect(data)?.part(data);
    part.check().is_ok().then_some(part)
}

fn with_facts(facts: Map<String, Value>, part: ContentPart) -> ToolResult {
    let facts = ContentPart::text(Value::Object(facts).to_string());
    ToolResult::parts([facts, part])
}
