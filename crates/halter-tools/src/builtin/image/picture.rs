//! Pictures in memory: decoded, cut, scaled, encoded. No files.

use crate::limits::{IMAGE_DECODED_BYTES, IMAGE_PIXELS, IMAGE_RESULT_SIDE_PIXELS, WRITE_BYTES};
use anyhow::{Context as _, anyhow, bail};
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use image::codecs::bmp::BmpEncoder;
use image::codecs::gif::GifEncoder;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::webp::WebPEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, Rgb, RgbImage};
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::Cursor;

/// A format that is read and written.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum PictureFormat {
    Png,
    Jpeg,
    Gif,
    WebP,
    Bmp,
}

impl PictureFormat {
    const ALL: [Self; 5] = [Self::Png, Self::Jpeg, Self::Gif, Self::WebP, Self::Bmp];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Gif => "gif",
            Self::WebP => "webp",
            Self::Bmp => "bmp",
        }
    }

    pub(super) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    pub(super) fn of_extension(extension: &str) -> Option<Self> {
        let extension = extension.to_ascii_lowercase();
        match extension.as_str() {
            "jpg" | "jpe" => Some(Self::Jpeg),
            "dib" => Some(Self::Bmp),
            other => Self::ALL.into_iter().find(|format| format.name() == other),
        }
    }

    fn of(format: ImageFormat) -> Option<Self> {
        Some(match format {
            ImageFormat::Png => Self::Png,
            ImageFormat::Jpeg => Self::Jpeg,
            ImageFormat::Gif => Self::Gif,
            ImageFormat::WebP => Self::WebP,
            ImageFormat::Bmp => Self::Bmp,
            _ => return None,
        })
    }
}

/// How the pixels of another size are computed.
#[derive(Deserialize, JsonSchema, Clone, Copy, Default)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum ResizeFilter {
    Nearest,
    Triangle,
    CatmullRom,
    Gaussian,
    #[default]
    Lanczos3,
}

impl serde::Serialize for ResizeFilter {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Nearest => "nearest",
            Self::Triangle => "triangle",
            Self::CatmullRom => "catmullrom",
            Self::Gaussian => "gaussian",
            Self::Lanczos3 => "lanczos3",
        })
    }
}

impl ResizeFilter {
    fn algorithm(self) -> ResizeAlg {
        let filter = match self {
            Self::Nearest => return ResizeAlg::Nearest,
            Self::Triangle => FilterType::Bilinear,
            Self::CatmullRom => FilterType::CatmullRom,
            Self::Gaussian => FilterType::Gaussian,
            Self::Lanczos3 => FilterType::Lanczos3,
        };
        ResizeAlg::Convolution(filter)
    }
}

/// What the header of an image says.
pub(super) struct AboutPicture {
    pub(super) format: PictureFormat,
    /// Width and height as it is looked at: cameras store turned pictures.
    pub(super) size: (u32, u32),
    /// Its kind of pixels, such as `rgba8`.
    pub(super) color: String,
}

/// A decoded picture, as it is looked at.
pub(super) struct Picture(DynamicImage);

impl Picture {
    /// What the header says. Decodes no pixels.
    pub(super) fn about(data: &[u8]) -> anyhow::Result<AboutPicture> {
        let (format, mut decoder) = decoder(data)?;
        let (width, height) = decoder.dimensions();
        let color = format!("{:?}", decoder.color_type()).to_lowercase();
        let turned = matches!(
            orientation(&mut decoder),
            Orientation::Rotate90
                | Orientation::Rotate270
                | Orientation::Rotate90FlipH
                | Orientation::Rotate270FlipH
        );
        let size = match turned {
            true => (height, width),
            false => (width, height),
        };
        Ok(AboutPicture {
            format,
            size,
            color,
        })
    }

    /// Decodes an image whose header promises few enough pixels.
    pub(super) fn decode(data: &[u8]) -> anyhow::Result<Self> {
        let (format, mut decoder) = decoder(data)?;
        let (width, height) = decoder.dimensions();
        if decoder.total_bytes() > IMAGE_DECODED_BYTES
            || u64::from(width) * u64::from(height) > IMAGE_PIXELS
        {
            bail!(
                "it has {width}x{height} pixels, {} bytes when decoded; {IMAGE_PIXELS} pixels and \
                 {IMAGE_DECODED_BYTES} bytes are the most that is decoded",
                decoder.total_bytes()
            );
        }
        let orientation = orientation(&mut decoder);
        let mut image = DynamicImage::from_decoder(decoder).with_context(|| {
            format!(
                "it is a damaged {} file; make or save it anew",
                format.name()
            )
        })?;
        image.apply_orientation(orientation);
        Ok(Self(image))
    }

    /// Width and height in pixels.
    pub(super) fn size(&self) -> (u32, u32) {
        (self.0.width(), self.0.height())
    }

    /// The part of the picture from this point on.
    pub(super) fn crop(&self, from: (u32, u32), size: (u32, u32)) -> anyhow::Result<Self> {
        let (width, height) = self.size();
        let fits = |start: u32, length: u32, side: u32| {
            start.checked_add(length).is_some_and(|end| end <= side)
        };
        if !fits(from.0, size.0, width) || !fits(from.1, size.1, height) {
            bail!(
                "the part of {}x{} pixels at {},{} is not inside of the image, which has \
                 {width}x{height}",
                size.0,
                size.1,
                from.0,
                from.1
            );
        }
        Ok(Self(self.0.crop_imm(from.0, from.1, size.0, size.1)))
    }

    /// The picture in another size. A side that is not given follows the other.
    pub(super) fn resize(
        &self,
        width: Option<u32>,
        height: Option<u32>,
        filter: ResizeFilter,
    ) -> anyhow::Result<Self> {
        let (old_width, old_height) = self.size();
        let size = match (width, height) {
            (Some(width), Some(height)) => (width, height),
            (Some(width), None) => (width, in_proportion(old_height, width, old_width)),
            (None, Some(height)) => (in_proportion(old_width, height, old_height), height),
            (None, None) => (old_width, old_height),
        };
        self.scaled(size, filter)
    }

    /// The picture with no side longer than `side`, in its proportions.
    pub(super) fn within(&self, side: u32, filter: ResizeFilter) -> anyhow::Result<Self> {
        let (width, height) = self.size();
        match width.max(height) <= side {
            true => Ok(Self(self.0.clone())),
            false if width >= height => self.resize(Some(side), None, filter),
            false => self.resize(None, Some(side), filter),
        }
    }

    fn scaled(&self, (width, height): (u32, u32), filter: ResizeFilter) -> anyhow::Result<Self> {
        let (old_width, old_height) = self.size();
        if width.max(height) > IMAGE_RESULT_SIDE_PIXELS {
            bail!(
                "scaling {old_width}x{old_height} pixels makes {width}x{height}, over the \
                 {IMAGE_RESULT_SIDE_PIXELS} of a side; choose a smaller size"
            );
        }
        // One side is scaled after the other: the picture in between counts.
        let area = |a: u32, b: u32| u64::from(a) * u64::from(b);
        let most = area(width, height)
            .max(area(old_width, height))
            .max(area(width, old_height));
        if most > IMAGE_PIXELS {
            bail!(
                "scaling {old_width}x{old_height} to {width}x{height} pixels takes {most} at once, \
                 over the limit of {IMAGE_PIXELS}; choose a smaller size, or `crop` first"
            );
        }
        let mut scaled = DynamicImage::new(width, height, self.0.color());
        let options = ResizeOptions::new().resize_alg(filter.algorithm());
        Resizer::new()
            .resize(&self.0, &mut scaled, &options)
            .map_err(|error| anyhow!("the image cannot be scaled: {error}"))?;
        Ok(Self(scaled))
    }

    /// The picture as a file of this format.
    pub(super) fn encode(&self, format: PictureFormat, quality: u8) -> anyhow::Result<Vec<u8>> {
        let mut data = Vec::new();
        let encoded = match format {
            PictureFormat::Png => self.0.write_with_encoder(PngEncoder::new(&mut data)),
            PictureFormat::Jpeg => {
                let encoder = JpegEncoder::new_with_quality(&mut data, quality);
                on_white(&self.0).write_with_encoder(encoder)
            }
            PictureFormat::Gif => {
                GifEncoder::new(&mut data).encode_frame(image::Frame::new(self.0.to_rgba8()))
            }
            PictureFormat::WebP => {
                let encoder = WebPEncoder::new_lossless(&mut data);
                self.in_eight_bits().write_with_encoder(encoder)
            }
            PictureFormat::Bmp => {
                let encoder = BmpEncoder::new(&mut data);
                self.in_eight_bits().write_with_encoder(encoder)
            }
        };
        let (width, height) = self.size();
        encoded.with_context(|| {
            let name = format.name();
            format!("{width}x{height} pixels cannot be written as {name}; choose another format")
        })?;
        if data.len() > WRITE_BYTES {
            bail!(
                "the result has {} bytes as {}, over the limit of {WRITE_BYTES}; choose a smaller \
                 size or `jpeg`",
                data.len(),
                format.name()
            );
        }
        Ok(data)
    }

    fn in_eight_bits(&self) -> DynamicImage {
        match self.0.color().has_alpha() {
            true => self.0.to_rgba8().into(),
            false => self.0.to_rgb8().into(),
        }
    }
}

/// A decoder for one of our formats, within bounds.
fn decoder(data: &[u8]) -> anyhow::Result<(PictureFormat, impl ImageDecoder + '_)> {
    let mut reader = ImageReader::new(Cursor::new(data)).with_guessed_format()?;
    let Some(format) = reader.format().and_then(PictureFormat::of) else {
        bail!(
            "it is no image of a known format ({}); convert it with a program first",
            PictureFormat::names()
        );
    };
    let mut limits = Limits::default();
    limits.max_alloc = Some(IMAGE_DECODED_BYTES);
    reader.limits(limits);
    let decoder = reader.into_decoder().with_context(|| {
        format!(
            "it is a damaged {} file, or larger than is decoded",
            format.name()
        )
    })?;
    Ok((format, decoder))
}

/// How it was stored. What cannot be read is left as it is.
fn orientation(decoder: &mut impl ImageDecoder) -> Orientation {
    decoder.orientation().unwrap_or(Orientation::NoTransforms)
}

/// `side` times `new / old`, and at least one.
fn in_proportion(side: u32, new: u32, old: u32) -> u32 {
    let old = u64::from(old.max(1));
    let scaled = (u64::from(side) * u64::from(new) + old / 2) / old;
    u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
}

/// The picture without transparency, which JPEG does not have.
fn on_white(image: &DynamicImage) -> DynamicImage {
    if !image.color().has_alpha() {
        return image.to_rgb8().into();
    }
    let clear = image.to_rgba8();
    let over = |value: u8, alpha: u8| {
        let (value, alpha) = (u16::from(value), u16::from(alpha));
        u8::try_from((value * alpha + 255 * (255 - alpha)) / 255).unwrap_or(u8::MAX)
    };
    let mut solid = RgbImage::new(clear.width(), clear.height());
    for (to, from) in solid.pixels_mut().zip(clear.pixels()) {
        let [red, green, blue, alpha] = from.0;
        *to = Rgb([over(red, alpha), over(green, alpha), over(blue, alpha)]);
    }
    solid.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_follows_the_other() {
        assert_eq!(in_proportion(200, 50, 100), 100);
        assert_eq!(in_proportion(1, 1, 8_000), 1);
        assert_eq!(in_proportion(u32::MAX, u32::MAX, 1), u32::MAX);
    }

    #[test]
    fn what_is_transparent_is_white_where_nothing_is() {
        let clear = image::RgbaImage::from_raw(2, 1, vec![0, 0, 0, 0, 10, 20, 30, 255]).unwrap();
        let solid = on_white(&clear.into()).to_rgb8();
        assert_eq!(solid.into_raw(), [255, 255, 255, 10, 20, 30]);
    }

    #[test]
    fn names_tell_formats() {
        for (extension, format) in [
            ("JPG", Some(PictureFormat::Jpeg)),
            ("webp", Some(PictureFormat::WebP)),
            ("tiff", None),
        ] {
            assert_eq!(PictureFormat::of_extension(extension), format);
        }
    }
}
