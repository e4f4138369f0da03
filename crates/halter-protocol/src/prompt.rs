//! The system prompt as ordered blocks.

use crate::ids::PromptSegmentId;
use crate::open_enum::open_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

open_enum! {
    /// What a prompt segment says, which also fixes its place.
    pub enum PromptSegmentKind {
        /// Guidance, first.
        System = "system",
        /// Text appended to the guidance by configuration or the session.
        Append = "append",
        /// The list of skills, last of the static part.
        Skill = "skill",
        /// Instruction files as found when the session started; after the
        /// boundary.
        Instructions = "instructions",
        /// The environment as found when the session started; after the boundary.
        Environment = "environment",
    }
}

impl PromptSegmentKind {
    /// True if the segment is the same for every session of a configuration,
    /// so that a provider may cache everything up to it.
    pub fn is_static(&self) -> bool {
        matches!(self, Self::System | Self::Append | Self::Skill)
    }
}

/// One block of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptSegment {
    /// Names the segment; stable for the same text of the same kind.
    pub id: PromptSegmentId,
    /// What it says.
    pub kind: PromptSegmentKind,
    /// The text a model reads.
    pub text: Arc<str>,
}

impl PromptSegment {
    /// A segment whose id is its kind.
    pub fn new(kind: PromptSegmentKind, text: impl Into<Arc<str>>) -> Self {
        Self {
            id: PromptSegmentId(format!("seg_{kind}")),
            kind,
            text: text.into(),
        }
    }
}

/// The system prompt of a request: static blocks first, then the dynamic ones.
///
/// The boundary between them is a position, never a text a model could see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AssembledPrompt {
    segments: Arc<[PromptSegment]>,
    boundary: usize,
}

impl AssembledPrompt {
    /// Orders segments: the static ones first, each part in the order given.
    pub fn new(segments: impl IntoIterator<Item = PromptSegment>) -> Self {
        let (fixed, dynamic): (Vec<_>, Vec<_>) = segments
            .into_iter()
            .partition(|segment| segment.kind.is_static());
        let boundary = fixed.len();
        Self {
            segments: fixed.into_iter().chain(dynamic).collect(),
            boundary,
        }
    }

    /// The blocks a provider may cache across sessions.
    pub fn static_segments(&self) -> &[PromptSegment] {
        self.segments.get(..self.boundary).unwrap_or(&[])
    }

    /// The blocks that belong to this session.
    pub fn dynamic_segments(&self) -> &[PromptSegment] {
        self.segments.get(self.boundary..).unwrap_or(&[])
    }

    /// All blocks in order.
    pub fn segments(&self) -> &[PromptSegment] {
        &self.segments
    }

    /// The whole text, blocks separated by a blank line, for providers that
    /// take one string.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.segments.iter().map(|s| s.text.as_ref()).collect();
        texts.join("\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_blocks_come_before_the_boundary_in_given_order() {
        let prompt = AssembledPrompt::new([
            PromptSegment::new(PromptSegmentKind::System, "guidance"),
            PromptSegment::new(PromptSegmentKind::Environment, "today"),
            PromptSegment::new(PromptSegmentKind::Skill, "skills"),
        ]);
        assert_eq!(prompt.static_segments().len(), 2);
        assert_eq!(prompt.text(), "guidance\n\nskills\n\ntoday");
    }
}
