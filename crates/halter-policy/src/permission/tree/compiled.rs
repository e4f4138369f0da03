//! A rule ready to be held against calls.

use halter_protocol::RuleSubject;
use halter_protocol::permission::wildcard_matches;
use serde_json::Value;

use crate::error::PolicyError;
use crate::permission::{PathPattern, RuleAnchors, SourcedRule, command};

/// A rule ready to be held against calls.
#[derive(Debug)]
pub(in crate::permission) struct CompiledRule {
    pub(super) rule: SourcedRule,
    pub(super) paths: Option<PathPattern>,
    /// The rule's own command destroys something.
    pub(super) names_destruction: bool,
}

impl CompiledRule {
    pub(super) fn compile(rule: SourcedRule, anchors: &RuleAnchors) -> Result<Self, PolicyError> {
        let paths = match rule.rule.subject() {
            RuleSubject::Read(pattern) | RuleSubject::Edit(pattern) => {
                Some(PathPattern::compile(pattern, &rule, anchors)?)
            }
            _ => None,
        };
        let names_destruction = match rule.rule.subject() {
            RuleSubject::Command(pattern) => command::names_destruction(pattern),
            _ => false,
        };
        Ok(Self {
            rule,
            paths,
            names_destruction,
        })
    }

    pub(in crate::permission) fn domain_covers(pattern: &str, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_lowercase();
        let (mut left, mut right) = (pattern.rsplit('.'), host.rsplit('.'));
        if let Some(parent) = pattern.strip_prefix("*.") {
            let below = host.strip_suffix(parent);
            return below.is_some_and(|it| it.len() > 1 && it.ends_with('.'));
        }
        // A star does not reach over a dot.
        loop {
            match (left.next(), right.next()) {
                (None, None) => return true,
                (Some(label), Some(given)) if wildcard_matches(label, given) => {}
                _ => return false,
            }
        }
    }

    pub(in crate::permission) fn argument_fits(pattern: &str, value: &Value) -> bool {
        match value {
            Value::String(text) => wildcard_matches(pattern, text),
            Value::Bool(_) | Value::Number(_) => wildcard_matches(pattern, &value.to_string()),
            _ => false,
        }
    }
}
