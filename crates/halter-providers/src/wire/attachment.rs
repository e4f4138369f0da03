//! What becomes of images and documents that a service takes, and of those
//! that it does not: one rule for what users attach and what tools return.

use super::ImageInput;
use super::body::Warnings;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halter_protocol::{ContentPart, MediaFormat, MediaLimits, ToolMessage, ToolResult};
use std::borrow::Cow;

/// What a model takes besides text.
#[derive(Debug, Clone)]
pub(super) struct Intake {
    limits: MediaLimits,
    image_input: ImageInput,
}

/// A part as it goes out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Carried<'a> {
    /// Text, or words in the place of what is left out. Never empty.
    Text(Cow<'a, str>),
    /// A document of text.
    TextDocument(&'a str),
    /// An image.
    Image(Blob<'a>),
    /// A PDF document.
    Pdf(Blob<'a>),
}

/// Bytes of a type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blob<'a> {
    /// The media type without parameters, in lower case.
    pub media_type: String,
    data: &'a [u8],
}

impl Blob<'_> {
    /// The bytes as base64.
    pub fn base64(&self) -> String {
        STANDARD.encode(self.data)
    }

    /// The bytes as a `data:` address.
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.base64())
    }
}

impl Intake {
    /// Images and documents within the limits; images only if the model takes any.
    pub fn new(limits: MediaLimits, image_input: ImageInput) -> Self {
        Self {
            limits,
            image_input,
        }
    }

    /// How a part goes out; none for an empty text.
    pub fn carry<'a>(&self, part: &'a ContentPart, warnings: &mut Warnings) -> Option<Carried<'a>> {
        match part {
            ContentPart::Text { text } => {
                (!text.is_empty()).then_some(Carried::Text(Cow::Borrowed(text)))
            }
            ContentPart::Image { media_type, data } => Some(self.image(media_type, data, warnings)),
            ContentPart::Document { media_type, data } => self.document(media_type, data, warnings),
            _ => {
                warnings.add("a part of a message was left out: its kind is not known".to_owned());
                Some(Carried::Text(Cow::Borrowed(
                    "[left out: content of an unknown kind]",
                )))
            }
        }
    }

    fn image<'a>(&self, media_type: &str, data: &'a [u8], warnings: &mut Warnings) -> Carried<'a> {
        let blob = Blob::new(media_type, data);
        let reason = if self.image_input == ImageInput::LeftOut {
            "this model takes no images"
        } else if !self.limits.takes(&blob.media_type) {
            UNKNOWN_TYPE
        } else if data.len() > self.limits.image_bytes {
            "it is larger than this model service takes"
        } else {
            return Carried::Image(blob);
        };
        left_out("image", media_type, data, reason, warnings)
    }

    fn document<'a>(
        &self,
        media_type: &str,
        data: &'a [u8],
        warnings: &mut Warnings,
    ) -> Option<Carried<'a>> {
        match Document::of(media_type, data) {
            Document::Pdf if self.limits.takes(PDF) => {
                Some(Carried::Pdf(Blob::new(media_type, data)))
            }
            Document::Text(text) => (!text.is_empty()).then_some(Carried::TextDocument(text)),
            _ => Some(left_out(
                "document",
                media_type,
                data,
                UNKNOWN_TYPE,
                warnings,
            )),
        }
    }
}

const PDF: &str = MediaFormat::Pdf.media_type();

const UNKNOWN_TYPE: &str = "this model service does not take the type";

impl<'a> Blob<'a> {
    fn new(media_type: &str, data: &'a [u8]) -> Self {
        Self {
            media_type: essence(media_type),
            data,
        }
    }
}

/// The parts of a result that has more than text. What failed has only text.
pub(super) fn parts_of(result: &ToolMessage) -> Option<&[ContentPart]> {
    match result.content.as_ref() {
        ToolResult::Parts { parts } if result.error.is_none() => {
            result.content.attachments().next()?;
            Some(parts)
        }
        _ => None,
    }
}

/// What stands before images and documents of a tool where a service takes
/// them only in the words of the user.
pub(super) fn returned_by(tool: &str, call: &str) -> String {
    format!("[Returned by the tool '{tool}' to the call '{call}', not said by the user:]")
}

/// Tells the model, and by the warning the user, of what is not sent.
fn left_out<'a>(
    what: &str,
    media_type: &str,
    data: &[u8],
    reason: &str,
    warnings: &mut Warnings,
) -> Carried<'a> {
    warnings.add(format!(
        "an attached {what} of type {media_type} was left out: {reason}"
    ));
    Carried::Text(Cow::Owned(format!(
        "[{what} of type {media_type}, {} bytes, left out: {reason}]",
        data.len()
    )))
}

/// A document by how a model can read it.
#[derive(Debug, PartialEq, Eq)]
enum Document<'a> {
    /// A PDF, which services read themselves.
    Pdf,
    /// Text, which every model reads.
    Text(&'a str),
    /// Anything else.
    Other,
}

impl<'a> Document<'a> {
    /// Looks at the media type and, for text, at the bytes.
    fn of(media_type: &str, data: &'a [u8]) -> Self {
        let essence = essence(media_type);
        if essence == PDF {
            return Self::Pdf;
        }
        match std::str::from_utf8(data) {
            Ok(text) if is_text(&essence) => Self::Text(text),
            _ => Self::Other,
        }
    }
}

/// The media type without its parameters, in lower case.
fn essence(media_type: &str) -> String {
    let end = media_type.find(';').unwrap_or(media_type.len());
    media_type
        .get(..end)
        .unwrap_or(media_type)
        .trim()
        .to_ascii_lowercase()
}

fn is_text(essence: &str) -> bool {
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || matches!(
            essence,
            "application/json"
                | "application/xml"
                | "application/yaml"
                | "application/x-yaml"
                | "application/toml"
                | "application/javascript"
                | "application/x-sh"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taking(media_types: &[&'static str], image_bytes: usize) -> Intake {
        let limits = MediaLimits {
            media_types: media_types.iter().map(|known| (*known).into()).collect(),
            image_bytes,
            ..MediaLimits::default()
        };
        Intake::new(limits, ImageInput::Taken)
    }

    fn carried<'a>(intake: &Intake, part: &'a ContentPart) -> (Option<Carried<'a>>, Vec<String>) {
        let mut warnings = Warnings::default();
        let carried = intake.carry(part, &mut warnings);
        (carried, warnings.take_new())
    }

    #[test]
    fn documents_are_told_apart_by_type_and_bytes() {
        assert_eq!(Document::of("application/pdf", b"%PDF"), Document::Pdf);
        assert_eq!(
            Document::of("Text/Markdown; charset=utf-8", b"# hi"),
            Document::Text("# hi")
        );
        assert_eq!(Document::of("text/plain", b"\xff"), Document::Other);
        assert_eq!(Document::of("application/zip", b"PK"), Document::Other);
    }

    #[test]
    fn what_is_taken_goes_out_without_a_word() {
        let image = ContentPart::image("Image/PNG; x=y", *b"\x89PNG");
        let (sent, warnings) = carried(&taking(&["image/png"], 7), &image);
        assert!(warnings.is_empty());
        let Some(Carried::Image(blob)) = sent else {
            panic!("{sent:?}");
        };
        assert_eq!(blob.data_url(), "data:image/png;base64,iVBORw==");
    }

    #[test]
    fn what_is_left_out_is_told_to_model_and_user_with_the_reason() {
        let image = ContentPart::image("image/png", vec![0; 7]);
        let pdf = ContentPart::document("application/pdf", *b"%PDF");
        let blind = Intake::new(MediaLimits::default(), ImageInput::LeftOut);
        for (intake, part, reason) in [
            (&blind, &image, "this model takes no images"),
            (
                &taking(&["image/png"], 6),
                &image,
                "it is larger than this model service takes",
            ),
            (&taking(&[PDF], 7), &image, UNKNOWN_TYPE),
            (&taking(&["image/png"], 7), &pdf, UNKNOWN_TYPE),
        ] {
            let (told, warnings) = carried(intake, part);
            let Some(Carried::Text(told)) = told else {
                panic!("{told:?}");
            };
            assert!(told.ends_with(&format!("left out: {reason}]")), "{told}");
            assert!(warnings[0].ends_with(reason), "{warnings:?}");
        }
        let intake = taking(&["image/png"], 7);
        let fits = carried(&intake, &image).0;
        assert!(matches!(fits, Some(Carried::Image(_))), "{fits:?}");
    }
}
