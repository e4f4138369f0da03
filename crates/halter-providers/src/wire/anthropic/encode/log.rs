//! The messages of a conversation as one growing text, and the pieces of JSON it
//! is written in.

use crate::wire::body::write_json;

/// The member that marks a block for the service's prompt cache, with the
/// comma before it.
pub(super) const CACHE_MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
}

/// Message after message, appended and never changed.
#[derive(Debug, Default)]
pub(super) struct MessageLog {
    /// The elements of `messages`; the last one lacks its end.
    json: Vec<u8>,
    blocks: Vec<Block>,
    role: Option<Role>,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    /// Where its closing brace stands.
    end: usize,
    markable: bool,
}

impl MessageLog {
    /// Appends a block, an object that `write` writes, to the last message if
    /// that has the role, else to a new one.
    pub fn append(&mut self, role: Role, markable: bool, write: impl FnOnce(&mut Vec<u8>)) {
        if self.role == Some(role) {
            put(&mut self.json, ",");
        } else {
            if self.role.is_some() {
                put(&mut self.json, "]},");
            }
            put(
                &mut self.json,
                match role {
                    Role::User => "{\"role\":\"user\",\"content\":[",
                    Role::Assistant => "{\"role\":\"assistant\",\"content\":[",
                },
            );
            self.role = Some(role);
        }
        write(&mut self.json);
        self.blocks.push(Block {
            end: self.json.len().saturating_sub(1),
            markable,
        });
    }

    pub fn last_role(&self) -> Option<Role> {
        self.role
    }

    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    pub fn len(&self) -> usize {
        self.json.len()
    }

    /// The last of the first `count` blocks that may carry a cache mark.
    pub fn last_markable(&self, count: usize) -> Option<usize> {
        let blocks = self.blocks.get(..count)?;
        blocks.iter().rposition(|block| block.markable)
    }

    /// Copies everything out with marks on the given blocks, in order.
    pub fn write(&self, out: &mut Vec<u8>, marked: &[usize]) {
        let mut rest = self.json.as_slice();
        let mut copied = 0;
        for block in marked.iter().filter_map(|index| self.blocks.get(*index)) {
            let (before, after) = rest
                .split_at_checked(block.end - copied)
                .unwrap_or((rest, &[]));
            out.extend_from_slice(before);
            put(out, CACHE_MARK);
            rest = after;
            copied = block.end;
        }
        out.extend_from_slice(rest);
        if self.role.is_some() {
            put(out, "]}");
        }
    }
}

/// Appends text as it is.
pub(super) fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a text block.
pub(super) fn put_text_block(out: &mut Vec<u8>, text: &str) {
    put(out, "{\"type\":\"text\",\"text\":");
    write_json(out, text);
    put(out, "}");
}
