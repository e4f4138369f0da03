//! `image`: facts about pictures, and parts, sizes and formats of them.
//!
//! A file is bounded in bytes before it is read and in pixels before it is
//! decoded, so a small file that stands for a huge picture is refused. All work
//! is done on a thread for it and stops between its steps.

mod picture;
mod shown;

use self::picture::{Picture, PictureFormat, ResizeFilter};
use super::change::change_file;
use super::file_views::file_seen;
use super::support::{CHANGES, blocking, path_in, shown, spelled};
use super::write::unless_changed;
use crate::context::ToolContext;
use crate::limits::{IMAGE_FILE_BYTES, IMAGE_RESULT_SIDE_PIXELS};
use crate::typed::TypedTool;
use anyhow::{Context as _, anyhow, bail};
use async_trait::async_trait;
use halter_policy::Precondition;
use halter_protocol::{Action, ContentHash, ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Look at or change an image (PNG, JPEG, GIF, WebP, BMP; of an animation, the
/// first picture). `info` tells format and size; `read` shows it, scaled down
/// if it is too large to be shown; `crop` cuts a part out, `resize` scales,
/// `convert` changes the format. The result is shown, or written to
/// `output_path`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ImageInput {
    /// What to do.
    action: ImageAction,
    /// The image.
    #[schemars(length(min = 1))]
    path: String,
    /// Write the result to this file instead of showing it.
    #[schemars(length(min = 1))]
    output_path: Option<String>,
    /// Left edge of `crop`, in pixels.
    #[serde(default)]
    x: u32,
    /// Top edge of `crop`, in pixels.
    #[serde(default)]
    y: u32,
    /// Width of the result of `crop` and `resize`.
    #[schemars(range(min = 1, max = IMAGE_RESULT_SIDE_PIXELS))]
    width: Option<u32>,
    /// Its height. With one of both, `resize` keeps the proportions.
    #[schemars(range(min = 1, max = IMAGE_RESULT_SIDE_PIXELS))]
    height: Option<u32>,
    /// Format of the result; that of `output_path` or of the image if left out.
    format: Option<PictureFormat>,
    /// Quality of a JPEG.
    #[serde(default = "default_quality")]
    #[schemars(range(min = 1, max = 100))]
    quality: u8,
    /// How `resize` computes pixels.
    #[serde(default)]
    filter: ResizeFilter,
}

fn default_quality() -> u8 {
    80
}

#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
enum ImageAction {
    Info,
    Read,
    Crop,
    Resize,
    Convert,
}

pub(crate) struct ImageTool;

#[async_trait]
impl TypedTool for ImageTool {
    type Input = ImageInput;
    const NAME: &'static str = "image";
    const SUMMARY: Option<&'static str> = Some("crop, resize or convert images");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        CHANGES
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let read = path_in(input, "path").map(|path| Action::Read { path });
        let write = path_in(input, "output_path").map(|path| Action::Write { path });
        let effect = write.unwrap_or(Action::Other { mutating: false });
        read.into_iter().chain([effect]).collect()
    }

    async fn run(&self, context: ToolContext, input: ImageInput) -> anyhow::Result<ToolResult> {
        check(&input)?;
        let Some(output) = input.output_path.clone() else {
            return blocking(move || look(&context, &input)).await;
        };
        let for_work = context.clone();
        let made = blocking(move || change(&for_work, &input)).await?;
        context.check_cancelled()?;
        change_file(context, &output, move |file| {
            let in_place = file.ticket.resolved() == made.source.resolved;
            let precondition = match in_place {
                true => Precondition::Unchanged(made.source.sha256),
                false => unless_changed(&file)?,
            };
            let mut facts = made.facts;
            facts.insert("output_path".into(), file.path.clone().into());
            let (_, sha256) = file.commit(made.data, precondition)?;
            facts.insert("sha256".into(), sha256.into());
            Ok(Value::Object(facts))
        })
        .await
    }
}

/// Refuses parameters that the action would leave unused or that it misses.
fn check(input: &ImageInput) -> anyhow::Result<()> {
    let has_size = input.width.is_some() || input.height.is_some();
    match input.action {
        ImageAction::Crop if input.width.is_none() || input.height.is_none() => {
            bail!("`crop` needs `width` and `height` of the part, from `x`, `y` on");
        }
        ImageAction::Resize if !has_size => bail!("`resize` needs `width`, `height` or both"),
        ImageAction::Convert if input.format.is_none() && input.output_path.is_none() => {
            bail!("`convert` needs `format`, or an `output_path` whose name tells it");
        }
        ImageAction::Info | ImageAction::Read if input.output_path.is_some() => bail!(
            "`output_path` is for `crop`, `resize` and `convert`; look at the image without it"
        ),
        ImageAction::Info | ImageAction::Read | ImageAction::Convert if has_size => {
            bail!("`width` and `height` are for `crop` and `resize`; leave them out, or use these");
        }
        _ => Ok(()),
    }
}

/// The file a picture comes from.
struct Source {
    /// As results show it.
    path: String,
    resolved: PathBuf,
    data: Vec<u8>,
    sha256: String,
}

impl Source {
    fn open(context: &ToolContext, path: &str) -> anyhow::Result<Self> {
        let door = context.policy.door();
        let mut handle = door.open_read(&spelled(path))?;
        let size = handle.metadata().len();
        let resolved = handle.resolved().to_owned();
        let path = shown(door, &resolved);
        if size > IMAGE_FILE_BYTES {
            bail!(
                "'{path}' has {size} bytes, over the {IMAGE_FILE_BYTES} of an image that is \
                 opened; make it smaller with a program"
            );
        }
        let data = handle.read_bounded(IMAGE_FILE_BYTES)?;
        context.check_cancelled()?;
        Ok(Self {
            sha256: ContentHash::hex_of(&data),
            path,
            resolved,
            data,
        })
    }
}

/// A picture that was made, not yet shown or written.
struct MadePicture {
    source: Source,
    format: PictureFormat,
    data: Vec<u8>,
    facts: Map<String, Value>,
}

/// The result of a call that writes nothing.
fn look(context: &ToolContext, input: &ImageInput) -> anyhow::Result<ToolResult> {
    match input.action {
        ImageAction::Info => {
            let source = Source::open(context, &input.path)?;
            let about = told(&source, Picture::about(&source.data))?;
            let mut facts = facts(&source.path, about.format, about.size, source.data.len());
            facts.insert("color".into(), about.color.into());
            facts.insert("sha256".into(), source.sha256.into());
            Ok(ToolResult::json(Value::Object(facts)))
        }
        ImageAction::Read => {
            let source = Source::open(context, &input.path)?;
            let seen = file_seen(&source.resolved, &source.sha256);
            let result = shown::read(context, source)?;
            context.remember(seen);
            Ok(result)
        }
        ImageAction::Crop | ImageAction::Resize | ImageAction::Convert => {
            shown::result(context, change(context, input)?)
        }
    }
}

/// The picture that `crop`, `resize` or `convert` make.
fn change(context: &ToolContext, input: &ImageInput) -> anyhow::Result<MadePicture> {
    let source = Source::open(context, &input.path)?;
    let about = told(&source, Picture::about(&source.data))?;
    let format = wanted_format(input, about.format)?;
    let mut picture = told(&source, Picture::decode(&source.data))?;
    context.check_cancelled()?;
    picture = match (input.action, input.width, input.height) {
        (ImageAction::Crop, Some(width), Some(height)) => {
            picture.crop((input.x, input.y), (width, height))
        }
        (ImageAction::Resize, width, height) => picture.resize(width, height, input.filter),
        _ => Ok(picture),
    }?;
    context.check_cancelled()?;
    let data = picture.encode(format, input.quality)?;
    context.check_cancelled()?;
    let facts = facts(&source.path, format, picture.size(), data.len());
    Ok(MadePicture {
        source,
        format,
        data,
        facts,
    })
}

/// The format of a result: as asked for, as the name of the file tells, or as
/// it was. BMP is shown as PNG, since models do not look at it.
fn wanted_format(input: &ImageInput, source: PictureFormat) -> anyhow::Result<PictureFormat> {
    let Some(output) = &input.output_path else {
        return Ok(match input.format {
            Some(PictureFormat::Bmp) => bail!(
                "models do not look at BMP; name an `output_path` to write it, or another `format`"
            ),
            Some(format) => format,
            None if source == PictureFormat::Bmp => PictureFormat::Png,
            None => source,
        });
    };
    let named = Path::new(output).extension().and_then(|it| it.to_str());
    let named = named.map(PictureFormat::of_extension);
    match (input.format, named) {
        (Some(format), Some(Some(named))) if format != named => bail!(
            "`format` is {} and the name '{output}' says {}; make them agree",
            format.name(),
            named.name()
        ),
        (Some(format), _) => Ok(format),
        (None, Some(Some(named))) => Ok(named),
        (None, Some(None)) => bail!(
            "the name '{output}' tells no format that can be written; set `format` to one of {}",
            PictureFormat::names()
        ),
        (None, None) => Ok(source),
    }
}

fn told<T>(source: &Source, result: anyhow::Result<T>) -> anyhow::Result<T> {
    result.with_context(|| format!("cannot use '{}'", source.path))
}

fn facts(
    path: &str,
    format: PictureFormat,
    (width, height): (u32, u32),
    bytes: usize,
) -> Map<String, Value> {
    let mut facts = Map::new();
    facts.insert("path".into(), path.into());
    facts.insert("format".into(), format.name().into());
    facts.insert("width".into(), width.into());
    facts.insert("height".into(), height.into());
    facts.insert("bytes".into(), bytes.into());
    facts
}

/// An image that cannot be shown because of its size in bytes.
fn too_large_to_show(bytes: usize, room: usize) -> anyhow::Error {
    anyhow!(
        "the result has {bytes} bytes, and {room} can be shown; make it smaller, choose `jpeg`, \
         or name an `output_path`"
    )
}
