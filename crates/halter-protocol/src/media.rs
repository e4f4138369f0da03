//! Images and documents by their bytes: what they are, and whether model
//! services take them.
//!
//! A name or a declared type may be wrong, and a service refuses what does not
//! fit its type; so the first bytes decide.

use crate::capability::MediaLimits;
use crate::content::ContentPart;
use crate::limits::{DOCUMENT_BYTES, IMAGE_BYTES};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A format that models look at themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediaFormat {
    /// A PNG image.
    Png,
    /// A JPEG image.
    Jpeg,
    /// A GIF image.
    Gif,
    /// A WebP image.
    WebP,
    /// A PDF document.
    Pdf,
}

impl MediaFormat {
    /// Bytes at the start of a file that are enough for [`detect`](Self::detect).
    pub const SNIFF_BYTES: usize = 16;

    /// Every format.
    pub const ALL: [Self; 5] = [Self::Png, Self::Jpeg, Self::Gif, Self::WebP, Self::Pdf];

    /// The format of a file by its first bytes.
    ///
    /// ```
    /// use halter_protocol::MediaFormat;
    ///
    /// assert_eq!(MediaFormat::detect(b"\x89PNG\r\n\x1a\n"), Some(MediaFormat::Png));
    /// assert_eq!(MediaFormat::detect(b"GIF89a is a format"), None);
    /// ```
    pub fn detect(start: &[u8]) -> Option<Self> {
        match start {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', screen @ ..] if is_screen(screen) => {
                Some(Self::Gif)
            }
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => Some(Self::WebP),
            [b'%', b'P', b'D', b'F', b'-', b'0'..=b'9', b'.', ..] => Some(Self::Pdf),
            _ => None,
        }
    }

    /// The format that a media type names.
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        let essence = essence(media_type);
        let named = |format: &Self| format.media_type().eq_ignore_ascii_case(essence);
        Self::ALL.into_iter().find(named)
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
            Self::Pdf => "application/pdf",
        }
    }

    /// True if it is an image.
    pub const fn is_image(self) -> bool {
        !matches!(self, Self::Pdf)
    }

    /// Bytes that a file of this format may have.
    pub const fn max_bytes(self) -> usize {
        match self.is_image() {
            true => IMAGE_BYTES,
            false => DOCUMENT_BYTES,
        }
    }

    /// A part of this format.
    pub fn part(self, data: impl Into<Arc<[u8]>>) -> ContentPart {
        match self.is_image() {
            true => ContentPart::image(self.media_type(), data),
            false => ContentPart::document(self.media_type(), data),
        }
    }
}

impl fmt::Display for MediaFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.media_type())
    }
}

/// A media type without its parameters.
pub(crate) fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

/// Whether the rest of a GIF's header is no text. The last of its bytes, or the
/// high ones of its sizes, are hardly ever letters.
fn is_screen(rest: &[u8]) -> bool {
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e);
    rest.get(..7)
        .is_some_and(|screen| !screen.iter().all(is_text))
}

/// The type of a text by its name.
fn text_type(name: &Path) -> &'static str {
    let extension = name.extension().and_then(|extension| extension.to_str());
    match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
        "md" | "markdown" => "text/markdown",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "json" => "application/json",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        _ => "text/plain",
    }
}

/// Width and height of an image in pixels, as its header says; none if it is
/// no image or its header is damaged.
pub fn pixels(data: &[u8]) -> Option<(u32, u32)> {
    MediaFormat::detect(data).filter(|format| format.is_image())?;
    let size = imagesize::blob_size(data).ok()?;
    Some((
        u32::try_from(size.width).ok()?,
        u32::try_from(size.height).ok()?,
    ))
}

/// Why model services do not take an image or a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MediaProblem {
    /// It is too large.
    #[error(
        "it has {bytes} bytes, and {media_type} may have {limit}; make it smaller, \
         for example by scaling it down or taking a part of it"
    )]
    TooLarge {
        /// Its media type.
        media_type: String,
        /// Its size in bytes.
        bytes: usize,
        /// The most it may have.
        limit: usize,
    },
    /// It is too wide or too high.
    #[error(
        "it has {width}x{height} pixels, and an image may have {limit} on each side; \
         scale it down or take a part of it"
    )]
    TooManyPixels {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
        /// The most each side may have.
        limit: u32,
    },
    /// It is something else than it is said to be.
    #[error("it is said to be {said} and is not{}", found.map_or(String::new(), |found| format!("; it is {found}")))]
    WrongType {
        /// The type it is said to have.
        said: String,
        /// What it is, if that is a known format.
        found: Option<MediaFormat>,
    },
    /// Its header cannot be read.
    #[error("it is a damaged {format} file: its header cannot be read; make or save it anew")]
    Damaged {
        /// What it is said to be.
        format: MediaFormat,
    },
}

impl MediaProblem {
    /// A stable name of the problem.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "media_too_large",
            Self::TooManyPixels { .. } => "media_too_many_pixels",
            Self::WrongType { .. } => "media_wrong_type",
            Self::Damaged { .. } => "media_damaged",
        }
    }
}

impl ContentPart {
    /// The image or PDF that the bytes are; none if they are something else.
    ///
    /// ```
    /// use halter_protocol::ContentPart;
    ///
    /// let part = ContentPart::detect(*b"%PDF-1.7 ...").unwrap();
    /// assert_eq!(part, ContentPart::document("application/pdf", *b"%PDF-1.7 ..."));
    /// assert_eq!(ContentPart::detect(*b"plain words"), None);
    /// ```
    pub fn detect(data: impl Into<Arc<[u8]>>) -> Option<Self> {
        let data = data.into();
        MediaFormat::detect(&data).map(|format| format.part(data))
    }

    /// The image or document that a file is: an image or PDF by its bytes, a
    /// text as a document of the type its name tells; none if it is anything
    /// else.
    ///
    /// ```
    /// use halter_protocol::ContentPart;
    /// use std::path::Path;
    ///
    /// let part = ContentPart::from_file_bytes(Path::new("plan.md"), *b"# The plan").unwrap();
    /// assert_eq!(part, ContentPart::document("text/markdown", *b"# The plan"));
    /// assert_eq!(ContentPart::from_file_bytes(Path::new("a.zip"), *b"PK\x03\x04\0"), None);
    /// ```
    pub fn from_file_bytes(name: &Path, data: impl Into<Arc<[u8]>>) -> Option<Self> {
        let data = data.into();
        if let Some(format) = MediaFormat::detect(&data) {
            return Some(format.part(data));
        }
        let is_text = std::str::from_utf8(&data).is_ok() && !data.contains(&0);
        is_text.then(|| Self::document(text_type(name), data))
    }

    /// Checks what some model service would refuse: [`MediaLimits::check`] with
    /// the limits that every known service keeps.
    ///
    /// # Errors
    /// If a service would refuse it.
    pub fn check(&self) -> Result<(), MediaProblem> {
        MediaLimits::default().check(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::IMAGE_SIDE_PIXELS;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut data = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        data.extend(width.to_be_bytes());
        data.extend(height.to_be_bytes());
        data.extend([8, 6, 0, 0, 0]);
        data
    }

    fn gif(width: u16, height: u16) -> Vec<u8> {
        let mut data = b"GIF89a".to_vec();
        data.extend(width.to_le_bytes());
        data.extend(height.to_le_bytes());
        data.extend([0x80, 0, 0]);
        data
    }

    fn jpeg(width: u16, height: u16) -> Vec<u8> {
        let mut data = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec();
        data.extend(b"\xff\xc0\0\x11\x08");
        data.extend(height.to_be_bytes());
        data.extend(width.to_be_bytes());
        data.extend(b"\x03\x01\x22\0\x02\x11\x01\x03\x11\x01\xff\xd9");
        data
    }

    fn webp(width: u32, height: u32) -> Vec<u8> {
        let mut data = b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0".to_vec();
        data.extend((width - 1).to_le_bytes().iter().take(3));
        data.extend((height - 1).to_le_bytes().iter().take(3));
        data
    }

    #[test]
    fn formats_are_known_by_their_bytes() {
        let files = [
            (png(3, 2), MediaFormat::Png),
            (gif(3, 2), MediaFormat::Gif),
            (jpeg(3, 2), MediaFormat::Jpeg),
            (webp(3, 2), MediaFormat::WebP),
        ];
        for (data, format) in files {
            let start = data.get(..MediaFormat::SNIFF_BYTES.min(data.len()));
            assert_eq!(MediaFormat::detect(start.unwrap()), Some(format));
            assert_eq!(pixels(&data), Some((3, 2)), "{format}");
            assert_eq!(format.part(data).check(), Ok(()));
            assert_eq!(
                MediaFormat::of_media_type(format.media_type()),
                Some(format)
            );
        }
        let pdf = b"%PDF-1.4\n";
        assert_eq!(MediaFormat::detect(pdf), Some(MediaFormat::Pdf));
        assert_eq!(
            (pixels(pdf), MediaFormat::Pdf.part(*pdf).check()),
            (None, Ok(()))
        );
    }

    #[test]
    fn words_about_a_format_are_text() {
        for text in [
            &b""[..],
            b"GIF89a is a format",
            b"GIF89a",
            b"%PDF- is how one starts",
            b"RIFF and WAVE",
            b"PNG",
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        ] {
            assert_eq!(MediaFormat::detect(text), None, "{}", text.escape_ascii());
        }
        assert_eq!(MediaFormat::of_media_type("image/svg+xml"), None);
        assert_eq!(
            MediaFormat::of_media_type("Image/PNG; q=1"),
            Some(MediaFormat::Png)
        );
    }

    #[test]
    fn a_file_is_what_its_bytes_are_and_a_text_what_its_name_says() {
        let file = |name: &str, data: &[u8]| {
            let part = ContentPart::from_file_bytes(Path::new(name), data);
            part.map(|part| part.media().unwrap().0.to_owned())
        };
        for (name, data, media_type) in [
            ("notes", &b"words"[..], "text/plain"),
            ("main.rs", b"fn main() {}", "text/plain"),
            ("A.MD", b"# words", "text/markdown"),
            ("drawing.svg", b"<svg/>", "image/svg+xml"),
            ("table.csv", b"a,b", "text/csv"),
            ("lies.txt", &png(1, 1), "image/png"),
            ("empty.json", b"", "application/json"),
        ] {
            assert_eq!(file(name, data).as_deref(), Some(media_type), "{name}");
        }
        assert_eq!(file("latin.txt", b"caf\xe9"), None);
        assert_eq!(file("zero.txt", b"a\0b"), None);
    }

    #[test]
    fn sizes_hold_at_their_edge() {
        let padded = |mut data: Vec<u8>, length| {
            data.resize(length, 0);
            data
        };
        let check = |data: Vec<u8>| ContentPart::detect(data).unwrap().check();
        assert_eq!(check(padded(png(1, 1), IMAGE_BYTES)), Ok(()));
        let problem = check(padded(png(1, 1), IMAGE_BYTES + 1)).unwrap_err();
        assert_eq!(problem.code(), "media_too_large");
        assert_eq!(IMAGE_BYTES.div_ceil(3) * 4, 5 * 1024 * 1024, "in base64");

        let pdf = || b"%PDF-1.4\n".to_vec();
        assert_eq!(check(padded(pdf(), DOCUMENT_BYTES)), Ok(()));
        let problem = check(padded(pdf(), DOCUMENT_BYTES + 1)).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "it has 10485761 bytes, and application/pdf may have 10485760; make it smaller, \
             for example by scaling it down or taking a part of it"
        );

        assert_eq!(check(png(IMAGE_SIDE_PIXELS, 1)), Ok(()));
        let problem = check(png(1, IMAGE_SIDE_PIXELS + 1)).unwrap_err();
        assert_eq!(problem.code(), "media_too_many_pixels");
    }

    #[test]
    fn what_is_not_what_it_is_said_to_be_is_found_out() {
        let problem = ContentPart::image("image/png", jpeg(1, 1)).check();
        assert_eq!(
            problem.unwrap_err().to_string(),
            "it is said to be image/png and is not; it is image/jpeg"
        );
        let problem = ContentPart::document("application/pdf", *b"words").check();
        assert_eq!(problem.unwrap_err().code(), "media_wrong_type");
        for damaged in [png(0, 1), b"\x89PNG\r\n\x1a\n".to_vec()] {
            let problem = ContentPart::image("image/png", damaged).check();
            assert_eq!(problem.unwrap_err().code(), "media_damaged");
        }
        // What models do not look at themselves is left to the wires.
        assert_eq!(
            ContentPart::image("image/svg+xml", *b"<svg/>").check(),
            Ok(())
        );
        assert_eq!(ContentPart::document("text/plain", *b"hi").check(), Ok(()));
        assert_eq!(ContentPart::text("hi").check(), Ok(()));
    }
}
