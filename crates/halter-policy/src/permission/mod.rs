//! The permission tree: what runs without a question inside of what the policy
//! allows, what a person decides, and what never runs.
//!
//! ```text
//! deny rule > hook's ask > ask rule > allow rule > mode
//! ```
//!
//! What a hook denies does not come here. A hook's allow lifts none of these; it spares the question of a tool that
//! requires approval. Rules of all sources count alike, whatever their order. A
//! command line is judged part by part: a deny or ask rule that covers one part
//! covers the line, an allow rule has to cover every part that needs one.
//!
//! | mode | reading | a change | beyond roots that nobody has set, an unlisted program, a destructive form, a tool that requires approval | where a rule or a hook asks |
//! |---|---|---|---|---|
//! | `read_only` | runs | is denied, whatever a rule allows | is denied | is denied |
//! | `prompt` | runs | is asked | is asked | is asked |
//! | `workspace_write` | runs | runs | is asked | is asked |
//! | `full_access` | runs | runs | runs | is asked |
//! | `allow` | runs | runs | runs | is denied: nobody is asked |
//!
//! A host that nobody has set anything about is asked about in every mode that
//! asks, unless an allow rule covers it, and denied in the others: the network
//! is off.
//!
//! A command that would run outside the sandbox is asked about in every mode
//! that asks, whatever a rule allows, and denied in the others.
//!
//! Before the tree stands the policy the user has set: what that denies, no
//! rule, hook, mode or answer brings back.

mod command;
mod decision;
mod examples;
mod paths;
mod reading;
mod store;
pub(crate) mod suggest;
mod tree;

use std::path::PathBuf;

use halter_protocol::{
    PermissionMode, PermissionRule, RuleEffect, RuleError, RuleSource, RuleSubject,
};

pub use decision::{DecidedBy, Decision, Verdict};
pub use examples::{Example, ExampleError, check_example};
pub use store::{RuleStore, RuleStoreError};
pub use suggest::opens_every_command;
pub use tree::{AskedBelow, CoveringRule, PermissionTree};

pub(crate) use decision::{BEYOND_ROOTS, LEAVES_SANDBOX};
pub(crate) use paths::{PathPattern, RuleAnchors, resolved};
pub(crate) use tree::{PlacedCall, SoftLimits};

/// The mode and the rules of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// What happens where no rule decides.
    pub mode: PermissionMode,
    /// The rules of all sources, in any order.
    pub rules: Vec<SourcedRule>,
    /// What `~/` in a rule stands for.
    pub home: Option<PathBuf>,
}

/// A rule with who wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcedRule {
    /// What it does with the calls it covers.
    pub effect: RuleEffect,
    /// The rule.
    pub rule: PermissionRule,
    /// Who wrote it.
    pub source: RuleSource,
    /// Where it is written, for people: a file and a line, or a flag.
    pub place: Option<String>,
    /// Where a path that starts with `/` starts: the directory of the file it
    /// is written in; absent: the session's.
    pub base: Option<PathBuf>,
}

impl SourcedRule {
    /// Reads a rule.
    ///
    /// # Errors
    /// The text is no rule of this effect.
    pub fn new(effect: RuleEffect, text: &str, source: RuleSource) -> Result<Self, RuleError> {
        Ok(Self {
            effect,
            rule: PermissionRule::parse(text, effect)?,
            source,
            place: None,
            base: None,
        })
    }

    /// The rule with its source, for messages: ``the deny rule `Bash(rm:*)`
    /// (user, halter.toml:3)``.
    #[must_use]
    pub fn described(&self) -> String {
        let (effect, rule) = (self.effect.as_str(), &self.rule);
        match &self.place {
            Some(place) => format!("the {effect} rule `{rule}` ({}, {place})", self.source),
            None => format!("the {effect} rule `{rule}` ({})", self.source),
        }
    }
}

impl Permissions {
    /// The rule that denies every call of a tool.
    #[must_use]
    pub fn denying_tool(&self, name: &str) -> Option<&SourcedRule> {
        self.rules.iter().find(|rule| match rule.rule.subject() {
            RuleSubject::Tool(tool) => rule.effect == RuleEffect::Deny && tool.matches(name),
            _ => false,
        })
    }

    /// How many rules deny reading files.
    pub(crate) fn denied_to_read(&self) -> usize {
        let denies = |rule: &&SourcedRule| {
            let is_read = matches!(rule.rule.subject(), RuleSubject::Read(_));
            is_read && rule.effect == RuleEffect::Deny
        };
        self.rules.iter().filter(denies).count()
    }

    /// The permissions with a mode that is no wider.
    #[must_use]
    pub fn narrowed_to(mut self, mode: PermissionMode) -> Self {
        self.mode = self.mode.min(mode);
        self
    }
}
