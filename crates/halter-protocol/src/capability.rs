//! What a model takes and what its provider does, as data that the harness
//! acts on.

use crate::content::ContentPart;
use crate::limits::{
    ATTACHMENTS, ATTACHMENTS_BYTES, DOCUMENT_BYTES, IMAGE_BYTES, IMAGE_SIDE_PIXELS, MANY_IMAGES,
    MANY_IMAGES_SIDE_PIXELS,
};
use crate::media::{MediaFormat, MediaProblem, essence, pixels};
use crate::usage::Prices;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What differs between providers, or the models of one, in a way the harness
/// acts on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[non_exhaustive]
pub struct ProviderCapabilities {
    /// The provider asks for structured answers itself. Of others the harness
    /// asks with a tool of its own, and their requests have no schema.
    pub structured_output: bool,
    /// The images and documents that are taken.
    pub media: MediaLimits,
    /// Tokens that fit into a conversation, the answer included, where that is
    /// known.
    pub context_window: Option<u32>,
    /// Tokens of one answer, where that is known.
    pub output_limit: Option<u32>,
    /// The service compacts conversations itself, in a form that only the model
    /// that was asked for it reads again.
    pub native_compaction: bool,
    /// What tokens cost, where that is known.
    pub prices: Option<Prices>,
}

impl ProviderCapabilities {
    /// The capabilities of a provider that does what the protocol says.
    pub fn new() -> Self {
        Self::default()
    }

    /// The provider asks for structured answers itself.
    #[must_use]
    pub fn with_structured_output(mut self) -> Self {
        self.structured_output = true;
        self
    }

    /// Takes images and documents within these limits.
    #[must_use]
    pub fn with_media(mut self, media: MediaLimits) -> Self {
        self.media = media;
        self
    }

    /// The service compacts conversations itself.
    #[must_use]
    pub fn with_native_compaction(mut self) -> Self {
        self.native_compaction = true;
        self
    }

    /// Takes conversations of so many tokens, the answer included.
    #[must_use]
    pub fn with_context_window(mut self, tokens: u32) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// Charges these prices.
    #[must_use]
    pub fn with_prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }
}

/// The images and documents that a model takes. The default is what all known
/// services take.
///
/// ```
/// use halter_protocol::{ContentPart, MediaLimits};
///
/// let limits = MediaLimits { document_bytes: 16, ..MediaLimits::default() };
/// assert!(limits.takes("application/pdf"));
/// assert!(limits.check(&ContentPart::document("application/pdf", *b"%PDF-1.7 longer")).is_ok());
/// let problem = limits.check(&ContentPart::document("text/plain", *b"seventeen bytes..")).unwrap_err();
/// assert_eq!(problem.code(), "media_too_large");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MediaLimits {
    /// The media types that the model looks at itself. Documents of text are
    /// sent as text and need not be here.
    pub media_types: Vec<Cow<'static, str>>,
    /// Bytes of one image.
    pub image_bytes: usize,
    /// Pixels of each side of an image.
    pub image_side_pixels: u32,
    /// Bytes of one document.
    pub document_bytes: usize,
    /// Images and documents of one conversation.
    pub attachments: usize,
    /// Bytes of all images and documents of one conversation.
    pub attachments_bytes: usize,
    /// Images of a conversation up to which one may have more pixels on a side
    /// than [`many_images_side_pixels`](Self::many_images_side_pixels).
    pub many_images: usize,
    /// Pixels of each side of an image in a conversation of more than
    /// [`many_images`](Self::many_images).
    pub many_images_side_pixels: u32,
}

impl Default for MediaLimits {
    fn default() -> Self {
        let formats = MediaFormat::ALL.iter();
        Self {
            media_types: formats.map(|format| format.media_type().into()).collect(),
            image_bytes: IMAGE_BYTES,
            image_side_pixels: IMAGE_SIDE_PIXELS,
            document_bytes: DOCUMENT_BYTES,
            attachments: ATTACHMENTS,
            attachments_bytes: ATTACHMENTS_BYTES,
            many_images: MANY_IMAGES,
            many_images_side_pixels: MANY_IMAGES_SIDE_PIXELS,
        }
    }
}

impl MediaLimits {
    /// True if the model looks at this type itself.
    pub fn takes(&self, media_type: &str) -> bool {
        let essence = essence(media_type);
        let named = |known: &Cow<'_, str>| known.eq_ignore_ascii_case(essence);
        self.media_types.iter().any(named)
    }

    /// Checks the size of one image or document and, for formats that models
    /// look at, its type and header. Text is always fine. Whether the type is
    /// taken is not checked: another model of the session may take it, so that
    /// is decided for each request.
    ///
    /// # Errors
    /// If the service would refuse it.
    pub fn check(&self, part: &ContentPart) -> Result<(), MediaProblem> {
        let (media_type, data, limit) = match part {
            ContentPart::Text { .. } => return Ok(()),
            ContentPart::Image { media_type, data } => (media_type, data, self.image_bytes),
            ContentPart::Document { media_type, data } => (media_type, data, self.document_bytes),
        };
        if data.len() > limit {
            return Err(MediaProblem::TooLarge {
                media_type: media_type.clone(),
                bytes: data.len(),
                limit,
            });
        }
        let Some(format) = MediaFormat::of_media_type(media_type) else {
            return Ok(());
        };
        let found = MediaFormat::detect(data);
        if found != Some(format) {
            return Err(MediaProblem::WrongType {
                said: media_type.clone(),
                found,
            });
        }
        match pixels(data) {
            _ if !format.is_image() => Ok(()),
            None | Some((0, _) | (_, 0)) => Err(MediaProblem::Damaged { format }),
            Some((width, height)) if width.max(height) > self.image_side_pixels => {
                Err(MediaProblem::TooManyPixels {
                    width,
                    height,
                    limit: self.image_side_pixels,
                })
            }
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_what_every_known_service_takes() {
        let limits = MediaLimits::default();
        assert_eq!(
            (limits.attachments, limits.attachments_bytes),
            (ATTACHMENTS, ATTACHMENTS_BYTES)
        );
        // In base64, a third more, and a lot of text.
        const { assert!(ATTACHMENTS_BYTES / 3 * 4 < 28_000_000) };
        assert_eq!(
            (limits.many_images, limits.many_images_side_pixels),
            (MANY_IMAGES, MANY_IMAGES_SIDE_PIXELS)
        );
        for format in MediaFormat::ALL {
            assert!(limits.takes(format.media_type()), "{format}");
        }
        assert!(limits.takes("Image/PNG; q=1") && !limits.takes("image/heic"));
    }

    #[test]
    fn capabilities_are_data_and_what_is_left_out_is_the_default() {
        let capabilities = ProviderCapabilities::new()
            .with_structured_output()
            .with_media(MediaLimits {
                media_types: vec!["image/png".into()],
                attachments: 3,
                ..MediaLimits::default()
            });
        let json = serde_json::to_string(&capabilities).unwrap();
        let read: ProviderCapabilities = serde_json::from_str(&json).unwrap();
        assert_eq!(read, capabilities);
        let read: ProviderCapabilities =
            serde_json::from_str(r#"{"media":{"attachments":3}}"#).unwrap();
        assert_eq!(
            read.media,
            MediaLimits {
                attachments: 3,
                ..MediaLimits::default()
            }
        );
    }
}
