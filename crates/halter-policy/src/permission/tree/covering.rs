//! Every rule that covers a call, whether it decides or not: for people who
//! want to know why.

use halter_protocol::{CallToJudge, RuleEffect, RuleSubject};

use super::{CompiledRule, PermissionTree, PlacedCall, ResolvedCall};
use crate::permission::{SourcedRule, command};

/// A rule that covers a call, and the part of the call it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveringRule {
    /// The rule.
    pub rule: SourcedRule,
    /// The part, if it is not the whole call.
    pub fragment: Option<String>,
}

impl PermissionTree {
    /// The rules that cover a call or a part of it, those that deny first.
    #[must_use]
    pub fn covering(&self, call: &CallToJudge) -> Vec<CoveringRule> {
        let here = PlacedCall {
            call,
            elsewhere: None,
        };
        let request = ResolvedCall::take(self, here, true);
        let mut found: Vec<CoveringRule> = self
            .rules
            .iter()
            .filter_map(|rule| {
                let fragment = match rule.rule.effect {
                    RuleEffect::Allow => opened_part(rule, &request)?,
                    RuleEffect::Ask | RuleEffect::Deny => self.closed_by(rule, &request)?,
                };
                Some(CoveringRule {
                    rule: rule.rule.clone(),
                    fragment,
                })
            })
            .collect();
        found.sort_by_key(|it| std::cmp::Reverse(it.rule.effect));
        found
    }
}

/// `Some`: the allow rule covers the call, or this part of it.
fn opened_part(rule: &CompiledRule, request: &ResolvedCall<'_>) -> Option<Option<String>> {
    let path = |change: bool| {
        let pattern = rule.paths.as_ref()?;
        let mut paths = request.paths.iter().filter(|it| it.changes == change);
        let found = paths.find(|it| pattern.covers(&it.spelled, &it.real))?;
        Some(Some(found.spelled.display().to_string()))
    };
    match rule.rule.rule.subject() {
        RuleSubject::Tool(tool) => {
            let definition = request.subject.definition.as_ref();
            let definition = definition.map(|it| it.digest.as_str());
            let name = request.subject.call.name.as_str();
            tool.matches_defined(name, definition).then_some(None)
        }
        RuleSubject::Command(pattern) => {
            let mut parts = request.commands.iter().flat_map(|it| &it.parts);
            let part = parts.find(|part| command::opens(pattern, part))?;
            Some(Some(part.to_string()))
        }
        RuleSubject::Read(_) => path(false),
        RuleSubject::Edit(_) => path(true),
        RuleSubject::Domain(_) => rule.reached(&request.subject.actions).map(Some),
        _ => None,
    }
}
