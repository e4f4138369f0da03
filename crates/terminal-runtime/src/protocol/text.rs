//! Bytes as JSON strings: text where they are UTF-8, base64 where not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::data::Encoding;

/// Bytes in a JSON string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The string.
    pub data: String,
    /// How it stands for the bytes; `None` for the UTF-8 text itself.
    pub encoding: Option<Encoding>,
}

/// The bytes as a string.
#[must_use]
pub fn encode_bytes(bytes: Vec<u8>) -> Piece {
    match String::from_utf8(bytes) {
        Ok(data) => Piece {
            data,
            encoding: None,
        },
        Err(error) => Piece {
            data: STANDARD.encode(error.as_bytes()),
            encoding: Some(Encoding::Base64),
        },
    }
}

/// How many bytes at the end are the beginning of a character that is cut
/// off there.
pub(crate) fn cut_character(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        Err(_) => {
            // Broken earlier on: look at the last three bytes alone.
            let tail = bytes.get(bytes.len().saturating_sub(3)..).unwrap_or(bytes);
            let start = tail.iter().rposition(|byte| byte & 0xc0 != 0x80);
            let last = start
                .and_then(|start| tail.get(start..))
                .unwrap_or_default();
            match std::str::from_utf8(last) {
                Err(error) if error.error_len().is_none() => last.len(),
                _ => 0,
            }
        }
        Ok(_) => 0,
    }
}

/// Cuts a stream of bytes into pieces at character boundaries. Holds back
/// three bytes at most.
#[derive(Debug, Default)]
pub struct TextCutter {
    held: Vec<u8>,
}

impl TextCutter {
    /// The next bytes, the first of which is number `offset` of the stream.
    /// Returns what can be sent and where it starts.
    pub fn push(&mut self, offset: u64, bytes: &[u8]) -> Option<(u64, Piece)> {
        let offset = offset.saturating_sub(self.held.len() as u64);
        let mut whole = std::mem::take(&mut self.held);
        whole.extend_from_slice(bytes);
        let keep = whole.len() - cut_character(&whole);
        self.held = whole.split_off(keep);
        (!whole.is_empty()).then(|| (offset, encode_bytes(whole)))
    }

    /// What is left when the stream ends or has a gap at `offset`.
    pub fn finish(&mut self, offset: u64) -> Option<(u64, Piece)> {
        let held = std::mem::take(&mut self.held);
        let start = offset.saturating_sub(held.len() as u64);
        (!held.is_empty()).then(|| (start, encode_bytes(held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(data: &str) -> Piece {
        Piece {
            data: data.to_owned(),
            encoding: None,
        }
    }

    #[test]
    fn a_character_split_over_pieces_stays_text() {
        let mut cutter = TextCutter::default();
        let euro = "a€".as_bytes();
        assert_eq!(cutter.push(0, &euro[..2]), Some((0, text("a"))));
        assert_eq!(cutter.push(2, &euro[2..3]), None);
        assert_eq!(cutter.push(3, &euro[3..]), Some((1, text("€"))));
        assert_eq!(cutter.finish(4), None);
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_exactly() {
        let mut cutter = TextCutter::default();
        let (offset, piece) = cutter.push(0, b"a\xff\0b").unwrap();
        assert_eq!((offset, piece.encoding), (0, Some(Encoding::Base64)));
        assert_eq!(STANDARD.decode(piece.data).unwrap(), b"a\xff\0b");
    }

    #[test]
    fn half_a_character_at_the_end_is_not_lost() {
        let mut cutter = TextCutter::default();
        assert_eq!(cutter.push(0, b"\xe2\x82"), None);
        let (offset, piece) = cutter.finish(2).unwrap();
        assert_eq!((offset, piece.encoding), (0, Some(Encoding::Base64)));
    }

    fn bytes_of(piece: &Piece) -> Vec<u8> {
        match piece.encoding {
            None => piece.data.clone().into_bytes(),
            Some(Encoding::Base64) => STANDARD.decode(&piece.data).unwrap(),
        }
    }

    proptest! {
        #[test]
        fn pieces_join_to_the_stream(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9)) {
            let mut cutter = TextCutter::default();
            let (mut joined, mut sent) = (Vec::new(), 0_u64);
            let take = |joined: &mut Vec<u8>, found: Option<(u64, Piece)>| {
                if let Some((offset, piece)) = found {
                    assert_eq!(offset, joined.len() as u64);
                    joined.extend(bytes_of(&piece));
                }
            };
            for chunk in &chunks {
                let found = cutter.push(sent, chunk);
                sent += chunk.len() as u64;
                take(&mut joined, found);
                assert!(cutter.held.len() <= 3);
            }
            let found = cutter.finish(sent);
            take(&mut joined, found);
            prop_assert_eq!(joined, chunks.concat());
        }

        #[test]
        fn text_is_never_sent_as_base64(text in "\\PC{0,40}", size in 1_usize..7) {
            let mut cutter = TextCutter::default();
            let mut sent = 0_u64;
            for chunk in text.as_bytes().chunks(size) {
                if let Some((_, piece)) = cutter.push(sent, chunk) {
                    prop_assert_eq!(piece.encoding, None);
                }
                sent += chunk.len() as u64;
            }
            prop_assert!(cutter.finish(sent).is_none());
        }
    }
}
