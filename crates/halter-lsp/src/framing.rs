//! Messages with a head that says how long they are.

use crate::limits::{HEAD_BYTES, MESSAGE_BYTES};
use serde_json::Value;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// A message as bytes.
pub(crate) fn framed(message: &Value) -> Vec<u8> {
    let body = message.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// What a server sent that is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FramingError {
    #[error("the head of a message is longer than {HEAD_BYTES} bytes or says no length")]
    Head,
    #[error("a message of {0} bytes is longer than {MESSAGE_BYTES}")]
    TooLong(usize),
    #[error("a message is not JSON")]
    Json,
}

/// Takes messages out of bytes as they come.
#[derive(Debug, Default)]
pub(crate) struct MessageReader {
    bytes: Vec<u8>,
    /// The length of the message whose head was read.
    length: Option<usize>,
}

impl MessageReader {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message. After an error nothing can be read any more.
    pub fn next(&mut self) -> Result<Option<Value>, FramingError> {
        let length = match self.length {
            Some(length) => length,
            None => match self.head()? {
                Some(length) => length,
                None => return Ok(None),
            },
        };
        self.length = Some(length);
        if self.bytes.len() < length {
            return Ok(None);
        }
        let rest = self.bytes.split_off(length);
        let message = std::mem::replace(&mut self.bytes, rest);
        self.length = None;
        serde_json::from_slice(&message)
            .map(Some)
            .map_err(|_| FramingError::Json)
    }

    fn head(&mut self) -> Result<Option<usize>, FramingError> {
        let end = self
            .bytes
            .windows(HEAD_END.len())
            .take(HEAD_BYTES)
            .position(|it| it == HEAD_END);
        let Some(end) = end else {
            return match self.bytes.len() > HEAD_BYTES {
                true => Err(FramingError::Head),
                false => Ok(None),
            };
        };
        let rest = self.bytes.split_off(end + HEAD_END.len());
        let head = std::mem::replace(&mut self.bytes, rest);
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        let length = length.and_then(|it| it.trim().parse::<usize>().ok());
        match length {
            None => Err(FramingError::Head),
            Some(length) if length > MESSAGE_BYTES => Err(FramingError::TooLong(length)),
            Some(length) => Ok(Some(length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_come_through_in_any_pieces() {
        let messages = [json!({"id": 1}), json!({"text": "é\r\n\r\n"}), json!([])];
        let bytes: Vec<u8> = messages.iter().flat_map(framed).collect();
        for size in 1..bytes.len() {
            let mut reader = MessageReader::default();
            let mut read = Vec::new();
            for piece in bytes.chunks(size) {
                reader.feed(piece);
                while let Some(message) = reader.next().unwrap() {
                    read.push(message);
                }
            }
            assert_eq!(read, messages);
        }
    }

    #[test]
    fn heads_and_messages_are_bounded() {
        let read = |bytes: &[u8]| {
            let mut reader = MessageReader::default();
            reader.feed(bytes);
            reader.next()
        };
        let fits = format!("Content-Length: {MESSAGE_BYTES}\r\n\r\n");
        assert_eq!(read(fits.as_bytes()), Ok(None));
        let long = MESSAGE_BYTES + 1;
        let long_head = format!("Content-Length: {long}\r\n\r\n");
        assert_eq!(read(long_head.as_bytes()), Err(FramingError::TooLong(long)));
        assert_eq!(read(&vec![b'x'; HEAD_BYTES]), Ok(None));
        assert_eq!(read(&vec![b'x'; HEAD_BYTES + 1]), Err(FramingError::Head));
        assert_eq!(
            read(b"Content-Length: many\r\n\r\n"),
            Err(FramingError::Head)
        );
        assert_eq!(
            read(b"Content-Length: 2\r\n\r\nno"),
            Err(FramingError::Json)
        );
    }
}
