//! The shared, append-only list of messages.

use crate::message::Message;
use schemars::JsonSchema;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// Messages per sealed chunk: what a push may copy when the tail is shared.
const CHUNK: usize = 32;

/// A persistent list of messages: cloning and appending cost the same however
/// long the list is, and clones share everything.
///
/// ```
/// use halter_protocol::{Message, Transcript, UserMessage};
///
/// let mut transcript = Transcript::default();
/// transcript.push(Message::User(UserMessage::text("hello")));
/// let snapshot = transcript.clone();
/// transcript.push(Message::User(UserMessage::text("again")));
/// assert_eq!((snapshot.len(), transcript.len()), (1, 2));
/// ```
#[derive(Clone, Default)]
pub struct Transcript {
    sealed: Option<Arc<Chunk>>,
    tail: Arc<Vec<Arc<Message>>>,
    sealed_len: usize,
}

struct Chunk {
    before: Option<Arc<Chunk>>,
    messages: Vec<Arc<Message>>,
}

impl Drop for Chunk {
    /// Unlinks iteratively: a long list must not overflow the stack.
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(chunk) = next {
            next = Arc::into_inner(chunk).and_then(|mut chunk| chunk.before.take());
        }
    }
}

impl Transcript {
    /// Appends a message.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) {
        if self.tail.len() >= CHUNK {
            let full = std::mem::take(&mut self.tail);
            self.sealed_len += full.len();
            self.sealed = Some(Arc::new(Chunk {
                before: self.sealed.take(),
                messages: Arc::unwrap_or_clone(full),
            }));
        }
        Arc::make_mut(&mut self.tail).push(message.into());
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.sealed_len + self.tail.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest message.
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.iter_newest_first().next()
    }

    /// From the newest message to the oldest; reading a few costs a few.
    pub fn iter_newest_first(&self) -> impl Iterator<Item = &Arc<Message>> {
        let mut chunk = self.sealed.as_deref();
        let sealed = std::iter::from_fn(move || {
            let current = chunk?;
            chunk = current.before.as_deref();
            Some(current.messages.iter().rev())
        });
        self.tail.iter().rev().chain(sealed.flatten())
    }

    /// From the oldest message to the newest.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Message>> {
        let mut chunks = Vec::with_capacity(self.sealed_len / CHUNK);
        let mut chunk = self.sealed.as_deref();
        while let Some(current) = chunk {
            chunks.push(current);
            chunk = current.before.as_deref();
        }
        chunks
            .into_iter()
            .rev()
            .flat_map(|chunk| chunk.messages.iter())
            .chain(self.tail.iter())
    }

    /// True if it has all messages of `prefix`, in their places. Costs what is
    /// new where it grew from `prefix`, and a comparison of all otherwise.
    pub fn starts_with(&self, prefix: &Self) -> bool {
        let same = |(ours, theirs): (&Arc<Message>, &Arc<Message>)| {
            Arc::ptr_eq(ours, theirs) || ours == theirs
        };
        if prefix.len() > self.len() {
            return false;
        }
        if self.shares(prefix.sealed.as_ref()) {
            let new = self.since(prefix.sealed_len);
            return new.iter().zip(prefix.tail.iter()).all(same);
        }
        self.iter().zip(prefix.iter()).all(same)
    }

    /// True if it grew from this chunk; also if there is none.
    fn shares(&self, wanted: Option<&Arc<Chunk>>) -> bool {
        let Some(wanted) = wanted else { return true };
        let mut chunk = self.sealed.as_ref();
        while let Some(current) = chunk {
            if Arc::ptr_eq(current, wanted) {
                return true;
            }
            chunk = current.before.as_ref();
        }
        false
    }

    /// The messages after the first `count`, oldest first, at the cost of
    /// those messages alone.
    pub fn since(&self, count: usize) -> Vec<Arc<Message>> {
        let new = self.len().saturating_sub(count);
        let mut messages: Vec<_> = self.iter_newest_first().take(new).cloned().collect();
        messages.reverse();
        messages
    }
}

impl<M: Into<Arc<Message>>> FromIterator<M> for Transcript {
    fn from_iter<I: IntoIterator<Item = M>>(messages: I) -> Self {
        let mut transcript = Self::default();
        for message in messages {
            transcript.push(message);
        }
        transcript
    }
}

impl PartialEq for Transcript {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl std::fmt::Debug for Transcript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Transcript {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Transcript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Messages;
        impl<'de> Visitor<'de> for Messages {
            type Value = Transcript;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Transcript, A::Error> {
                let mut transcript = Transcript::default();
                while let Some(message) = seq.next_element::<Message>()? {
                    transcript.push(message);
                }
                Ok(transcript)
            }
        }
        deserializer.deserialize_seq(Messages)
    }
}

impl JsonSchema for Transcript {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Transcript".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <Vec<Message>>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserMessage;
    use proptest::prelude::*;

    fn message(text: usize) -> Arc<Message> {
        Arc::new(Message::User(UserMessage::text(text.to_string())))
    }

    proptest! {
        #[test]
        fn behaves_like_a_vector(count in 0usize..200, snapshot_at in 0usize..200, since in 0usize..210) {
            let mut transcript = Transcript::default();
            let mut plain = Vec::new();
            let mut snapshot = None;
            for index in 0..count {
                if index == snapshot_at {
                    snapshot = Some((transcript.clone(), plain.clone()));
                }
                let message = message(index);
                transcript.push(message.clone());
                plain.push(message);
            }
            prop_assert!(transcript.iter().eq(plain.iter()));
            prop_assert!(transcript.iter_newest_first().eq(plain.iter().rev()));
            prop_assert_eq!(transcript.len(), plain.len());
            let from = since.min(plain.len());
            prop_assert_eq!(transcript.since(since), &plain[from..]);
            if let Some((shared, expected)) = &snapshot {
                prop_assert!(shared.iter().eq(expected.iter()));
            }
            if let Some((shared, expected)) = &snapshot {
                prop_assert!(transcript.starts_with(shared));
                prop_assert_eq!(shared.starts_with(&transcript), plain.len() == expected.len());
                let apart: Transcript = plain.iter().map(|it| Message::clone(it)).collect();
                prop_assert!(apart.starts_with(shared), "equal messages count as the same");
                let cut: Transcript = plain.iter().skip(1).cloned().collect();
                let empty = expected.is_empty();
                prop_assert_eq!(cut.starts_with(shared), empty);
            }
            let text = serde_json::to_string(&transcript).unwrap();
            prop_assert_eq!(serde_json::from_str::<Transcript>(&text).unwrap(), transcript);
        }
    }

    #[test]
    fn a_very_long_list_drops_without_recursion() {
        let shared = message(0);
        let transcript: Transcript = (0..500_000).map(|_| shared.clone()).collect();
        drop(transcript);
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}
