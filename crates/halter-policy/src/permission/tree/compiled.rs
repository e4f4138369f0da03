//! A rule ready to be held against calls.

use halter_protocol::permission::wildcard_matches;
use halter_protocol::{Action, RuleSubject};
use serde_json::Value;

use crate::error::PolicyError;
use crate::network::DomainPattern;
use crate::permission::{PathPattern, RuleAnchors, SourcedRule, command};

/// A rule ready to be held against calls.
#[derive(Debug)]
pub(in crate::permission) struct CompiledRule {
    pub(super) rule: SourcedRule,
    pub(super) paths: Option<PathPattern>,
    pub(super) domain: Option<DomainPattern>,
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
        let domain = match rule.rule.subject() {
            RuleSubject::Domain(host) => Some(DomainPattern::new(host)),
            _ => None,
        };
        let names_destruction = match rule.rule.subject() {
            RuleSubject::Command(pattern) => command::names_destruction(pattern),
            _ => false,
        };
        Ok(Self {
            rule,
            paths,
            domain,
            names_destruction,
        })
    }

    /// The host that a call reaches and the rule covers.
    pub(super) fn reached(&self, actions: &[Action]) -> Option<String> {
        let domain = self.domain.as_ref()?;
        actions.iter().find_map(|action| match action {
            Action::Reach { host } => domain.covers_text(host).then(|| host.clone()),
            _ => None,
        })
    }

    pub(in crate::permission) fn argument_fits(pattern: &str, value: &Value) -> bool {
        match value {
            Value::String(text) => wildcard_matches(pattern, text),
            Value::Bool(_) | Value::Number(_) => wildcard_matches(pattern, &value.to_string()),
            _ => false,
        }
    }
}
