//! Pictures and documents that are what they say.

/// A grey PNG image of a size in pixels, which any decoder takes.
///
/// ```
/// let image = halter_testkit::png(3, 2);
/// assert_eq!(halter_protocol::media::pixels(&image), Some((3, 2)));
/// ```
pub fn png(width: u32, height: u32) -> Vec<u8> {
    let row: Vec<u8> = std::iter::once(0).chain((0..width).map(|_| 0x80)).collect();
    let rows = row.repeat(height as usize);
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    // Eight bits of grey, and the only methods there are.
    header.extend([8, 0, 0, 0, 0]);
    let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, content) in [
        (b"IHDR", header),
        (b"IDAT", stored(&rows)),
        (b"IEND", Vec::new()),
    ] {
        image.extend((content.len() as u32).to_be_bytes());
        let chunk = [&kind[..], &content].concat();
        image.extend(&chunk);
        image.extend(crc32(&chunk).to_be_bytes());
    }
    image
}

/// A PDF of one empty page.
pub fn pdf() -> Vec<u8> {
    b"%PDF-1.4\n\
      1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n\
      2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
      3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 72 72]>>endobj\n\
      trailer<</Root 1 0 R>>\n%%EOF\n"
        .to_vec()
}

/// The data as a zlib stream that does not compress.
fn stored(data: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = data.chunks(u16::MAX.into()).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        stream.push(blocks.peek().is_none().into());
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    let (mut low, mut high) = (1, 0);
    for byte in data {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    stream.extend((high << 16 | low).to_be_bytes());
    stream
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_the_well_known_ones() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert!(stored(b"Wikipedia").ends_with(&0x11e6_0398_u32.to_be_bytes()));
    }

    #[test]
    fn they_are_what_they_say() {
        for part in [png(300, 300), pdf()] {
            let part = halter_protocol::ContentPart::detect(part).expect("a known format");
            assert_eq!(part.check(), Ok(()));
        }
    }
}
