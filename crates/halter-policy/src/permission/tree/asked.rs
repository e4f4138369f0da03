//! What a search of a directory leaves out because a person would have to be
//! asked about it.

use std::path::Path;

use halter_protocol::{RuleEffect, RuleSubject};

use super::PermissionTree;
use crate::permission::PathPattern;

/// Files below a directory that rules ask about before they are read.
#[derive(Debug)]
pub struct AskedBelow(Vec<PathPattern>);

impl AskedBelow {
    /// Whether a path, free of links, is one of them or in one of them.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        self.0.iter().any(|pattern| pattern.covers(path, path))
    }
}

impl PermissionTree {
    /// What a search of a directory, free of links, has to leave out: files that
    /// rules ask about, unless the rule covers the directory, so that the search
    /// itself was asked about. Absent if there are no such rules.
    #[must_use]
    pub fn asked_below(&self, directory: &Path) -> Option<AskedBelow> {
        let asks = self.rules.iter().filter(|rule| {
            rule.rule.effect == RuleEffect::Ask
                && matches!(rule.rule.rule.subject(), RuleSubject::Read(_))
        });
        let patterns = asks.filter_map(|rule| rule.paths.clone());
        let patterns: Vec<_> = patterns
            .filter(|pattern| !pattern.covers(directory, directory))
            .collect();
        (!patterns.is_empty()).then_some(AskedBelow(patterns))
    }
}
