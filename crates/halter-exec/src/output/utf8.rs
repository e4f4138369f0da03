//! Text out of bytes that arrive in pieces.

/// Decodes UTF-8 chunk by chunk. A character cut by a chunk's end is held
/// back (at most three bytes) until the rest arrives; bytes that are no UTF-8
/// become U+FFFD. The bytes themselves are never altered anywhere else: this
/// is a view for people.
///
/// ```
/// use halter_exec::Utf8Decoder;
///
/// let mut decoder = Utf8Decoder::new();
/// let mut text = decoder.push(b"caf\xc3");
/// text += &decoder.push(b"\xa9");
/// text += &decoder.finish();
/// assert_eq!(text, "café");
/// ```
#[derive(Debug, Default, Clone)]
pub struct Utf8Decoder {
    held: Vec<u8>,
}

impl Utf8Decoder {
    /// A decoder that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The text that is complete with this chunk.
    pub fn push(&mut self, chunk: &[u8]) -> String {
        self.held.extend_from_slice(chunk);
        let mut text = String::with_capacity(self.held.len());
        let mut rest = self.held.as_slice();
        let cut = loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    break &[][..];
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(bad) = error.error_len() else {
                        break after;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = after.get(bad..).unwrap_or_default();
                }
            }
        };
        self.held = cut.to_vec();
        text
    }

    /// The end: what is held back can no longer become a character.
    pub fn finish(&mut self) -> String {
        if std::mem::take(&mut self.held).is_empty() {
            String::new()
        } else {
            char::REPLACEMENT_CHARACTER.to_string()
        }
    }

    /// How many bytes wait for the rest of their character.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Utf8Decoder;

    #[test]
    fn any_split_gives_the_same_text_as_no_split() {
        let samples: [&[u8]; 5] = [
            "añ€😀z".as_bytes(),
            b"bin\xff\xfe\x00tail",
            b"\xf0\x9f\x98",
            b"\xe2\x82\xe2\x82\xac",
            b"\xc3\x28ok\xf0\x28\x8c\x28",
        ];
        for bytes in samples {
            let whole = String::from_utf8_lossy(bytes);
            for split in 0..=bytes.len() {
                let (left, right) = bytes.split_at(split);
                let mut decoder = Utf8Decoder::new();
                let mut text = decoder.push(left);
                assert!(decoder.held() <= 3);
                text += &decoder.push(right);
                text += &decoder.finish();
                assert_eq!(text, whole, "{bytes:?} split at {split}");
            }
        }
    }

    #[test]
    fn byte_by_byte_holds_at_most_three() {
        let mut decoder = Utf8Decoder::new();
        let mut text = String::new();
        for byte in "x😀y".bytes() {
            text += &decoder.push(&[byte]);
            assert!(decoder.held() <= 3);
        }
        assert_eq!(text, "x😀y");
        assert_eq!(decoder.finish(), "");
    }
}
