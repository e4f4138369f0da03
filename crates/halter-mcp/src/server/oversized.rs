//! The id of a message that is too long to be kept.

/// The longest id that is answered, in bytes of JSON.
const ID_BYTES: usize = 256;

/// Finds the `id` of a JSON object in bytes that pass by, wherever in the
/// object it stands. What is no object has none.
#[derive(Debug, Default)]
pub(super) struct IdScanner {
    depth: usize,
    in_string: bool,
    escaped: bool,
    in_value: bool,
    key: Vec<u8>,
    id: Vec<u8>,
}

impl IdScanner {
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    /// The id as JSON, once the object has ended.
    pub fn into_id(self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.id).ok()
    }

    fn step(&mut self, byte: u8) {
        let was_string = self.in_string;
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ if self.in_string => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 => {
                self.in_value = true;
                return;
            }
            b',' if self.depth == 1 => {
                self.in_value = false;
                self.key.clear();
                return;
            }
            _ => {}
        }
        if self.depth != 1 {
            return;
        }
        if self.in_value {
            if self.key == b"id" && self.id.len() < ID_BYTES {
                self.id.push(byte);
            }
        } else if was_string && self.in_string && self.key.len() < ID_BYTES {
            self.key.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn found(text: &str) -> Option<Value> {
        let mut scanner = IdScanner::default();
        // In pieces, as it comes from a pipe.
        text.as_bytes()
            .chunks(3)
            .for_each(|piece| scanner.feed(piece));
        scanner.into_id()
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        let long = "x".repeat(1000);
        for (text, id) in [
            (
                format!(r#"{{"jsonrpc":"2.0","id":7,"params":"{long}"}}"#),
                json!(7),
            ),
            (
                format!(r#"{{"params":{{"id":1,"a":"\"id\":2"}},"b":"{long}","id":"a,\"b"}}"#),
                json!("a,\"b"),
            ),
            (r#"{"params":[{"id":1}], "id" : 3 }"#.to_owned(), json!(3)),
        ] {
            assert_eq!(found(&text), Some(id), "{text}");
        }
        assert_eq!(found(r#"{"params":{"id":1}}"#), None);
        assert_eq!(found(&"x".repeat(100)), None);
        assert_eq!(
            found(&format!(r#"{{"id":"{}"}}"#, "x".repeat(ID_BYTES))),
            None
        );
    }
}
