//! What reads bytes from outside, fed with any bytes at all. Also the bodies
//! of the targets in `fuzz/`.

use halter_protocol::limits::IMAGE_SIDE_PIXELS;
use halter_protocol::media::pixels;
use halter_protocol::{ContentPart, MediaFormat};

/// Any bytes as a file that somebody wants to show a model.
pub fn media(data: &[u8]) {
    let format = MediaFormat::detect(data);
    let start = data.get(..MediaFormat::SNIFF_BYTES).unwrap_or(data);
    assert_eq!(MediaFormat::detect(start), format, "the start decides");
    let Some(part) = ContentPart::detect(data) else {
        assert_eq!(format, None);
        assert_eq!(pixels(data), None);
        return;
    };
    let is_image = matches!(part, ContentPart::Image { .. });
    assert_eq!(format.map(MediaFormat::is_image), Some(is_image));
    match (part.check(), pixels(data)) {
        (Ok(()), Some((width, height))) => {
            let sides = 1..=IMAGE_SIDE_PIXELS;
            assert!(sides.contains(&width) && sides.contains(&height));
        }
        (Ok(()), None) => assert!(!is_image, "a good image has a size"),
        (Err(problem), _) => assert!(!problem.to_string().is_empty()),
    }
}
