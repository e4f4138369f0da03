//! Writes the body of a request piece by piece, so that what was encoded
//! before is copied and not encoded again.

use halter_protocol::{ProviderError, ProviderErrorKind};
use serde::Serialize;
use serde::de::IgnoredAny;
use std::collections::HashMap;

/// Appends a value as JSON.
pub(super) fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    // Only a map with keys that are no strings can fail here; a body stays
    // valid JSON even then.
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// The value as JSON text.
pub(super) fn to_json<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    write_json(&mut out, value);
    out
}

/// The elements of a JSON array that only grows: bytes once written stay.
#[derive(Debug, Clone, Default)]
pub(super) struct Elements {
    bytes: Vec<u8>,
}

impl Elements {
    /// Appends one element.
    pub fn push<T: Serialize + ?Sized>(&mut self, element: &T) {
        self.separate();
        write_json(&mut self.bytes, element);
    }

    /// Appends one element, or several with commas between, that are JSON text
    /// already.
    pub fn push_text(&mut self, element: &str) {
        self.push_written(element.as_bytes());
    }

    /// The same, as bytes.
    pub fn push_written(&mut self, element: &[u8]) {
        self.separate();
        self.bytes.extend_from_slice(element);
    }

    /// The elements, separated by commas.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn separate(&mut self) {
        if !self.bytes.is_empty() {
            self.bytes.push(b',');
        }
    }
}

/// An object that is written member by member.
pub(super) struct ObjectWriter {
    bytes: Vec<u8>,
}

impl ObjectWriter {
    /// An object of about that many bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.push(b'{');
        Self { bytes }
    }

    /// Adds a member.
    pub fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.name(name);
        write_json(&mut self.bytes, value);
    }

    /// Adds a member whose value is JSON text already.
    pub fn member_text(&mut self, name: &str, value: &[u8]) {
        self.name(name);
        self.bytes.extend_from_slice(value);
    }

    /// Adds an array of the elements of several lists.
    pub fn array(&mut self, name: &str, lists: &[&Elements]) {
        self.name(name);
        self.bytes.push(b'[');
        for (position, list) in lists.iter().filter(|list| !list.is_empty()).enumerate() {
            if position > 0 {
                self.bytes.push(b',');
            }
            self.bytes.extend_from_slice(list.bytes());
        }
        self.bytes.push(b']');
    }

    /// Adds members that a caller wrote as the inside of an object.
    pub fn written_members(&mut self, members: &str) -> Result<(), ProviderError> {
        let object = format!("{{{members}}}");
        let parsed: Result<HashMap<String, IgnoredAny>, _> = serde_json::from_str(&object);
        match parsed {
            Ok(parsed) if parsed.is_empty() => Ok(()),
            Ok(_) => {
                self.separate();
                self.bytes.extend_from_slice(members.as_bytes());
                Ok(())
            }
            Err(error) => Err(ProviderError::new(
                format!("the extra members of the request are not JSON: {error}"),
                ProviderErrorKind::Fatal,
            )
            .with_hint("correct the provider's routing in the configuration")),
        }
    }

    /// The object.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(b'}');
        self.bytes
    }

    fn name(&mut self, name: &str) {
        self.separate();
        write_json(&mut self.bytes, name);
        self.bytes.push(b':');
    }

    fn separate(&mut self) {
        if self.bytes.len() > 1 {
            self.bytes.push(b',');
        }
    }
}

/// Warnings of one conversation, each given once.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    said: Vec<String>,
    taken: usize,
}

impl Warnings {
    /// Adds a warning, unless it was given before.
    pub fn add(&mut self, warning: String) {
        if !self.said.contains(&warning) {
            self.said.push(warning);
        }
    }

    /// Those that were not taken yet.
    pub fn take_new(&mut self) -> Vec<String> {
        let new = self.said.get(self.taken..).unwrap_or(&[]).to_vec();
        self.taken = self.said.len();
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_written_member_by_member() {
        let mut first = Elements::default();
        first.push("a");
        first.push_text(r#"{ "b": 1 }"#);
        let mut second = Elements::default();
        second.push(&2);
        let mut object = ObjectWriter::with_capacity(0);
        object.member("model", "m\"x");
        object.written_members(r#""order":["x"]"#).unwrap();
        object.written_members("  ").unwrap();
        object.member_text("tools", b"[]");
        object.array("input", &[&first, &Elements::default(), &second]);
        assert_eq!(
            String::from_utf8(object.finish()).unwrap(),
            r#"{"model":"m\"x","order":["x"],"tools":[],"input":["a",{ "b": 1 },2]}"#
        );
    }

    #[test]
    fn members_that_are_not_json_are_refused() {
        for wrong in [r#""a":"#, r#""a":1},{"b":2"#, "a"] {
            let mut object = ObjectWriter::with_capacity(0);
            let error = object.written_members(wrong).unwrap_err();
            assert_eq!(error.kind, ProviderErrorKind::Fatal, "{wrong}");
        }
    }

    #[test]
    fn a_warning_is_given_once() {
        let mut warnings = Warnings::default();
        warnings.add("a".to_owned());
        warnings.add("a".to_owned());
        assert_eq!(warnings.take_new(), ["a"]);
        warnings.add("a".to_owned());
        warnings.add("b".to_owned());
        assert_eq!(warnings.take_new(), ["b"]);
        assert!(warnings.take_new().is_empty());
    }
}
