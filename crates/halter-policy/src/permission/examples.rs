//! Examples that a rule carries, checked when it is loaded: a rule that does
//! not do what its author thinks is found before it matters.

use std::path::Path;

use halter_protocol::{RuleEffect, RuleSubject};
use serde_json::Value;

use super::paths::resolved;
use super::tree::CompiledRule;
use super::{PathPattern, RuleAnchors, SourcedRule};
use crate::network::DomainPattern;
use crate::shell;

/// What an example says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Example {
    /// The rule covers it.
    Match,
    /// The rule does not cover it.
    NotMatch,
}

/// A rule does not do what its example says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExampleError {
    /// The rule does not cover an example of `match`.
    #[error("{rule} does not cover its example {example:?}")]
    NotCovered {
        /// The rule.
        rule: String,
        /// The example.
        example: String,
    },
    /// The rule covers an example of `not_match`.
    #[error("{rule} covers {example:?}, which is an example of what it does not cover")]
    Covered {
        /// The rule.
        rule: String,
        /// The example.
        example: String,
    },
    /// The rule cannot be used.
    #[error("{0}")]
    Rule(String),
}

/// Holds a rule against an example: a command line, a path, a host or the name
/// of a tool, as the rule takes.
///
/// # Errors
/// The rule does not do what the example says.
pub fn check_example(
    rule: &SourcedRule,
    example: &str,
    says: Example,
    working_dir: &Path,
    home: Option<&Path>,
) -> Result<(), ExampleError> {
    let anchors = RuleAnchors::new(working_dir, home.map(Path::to_path_buf));
    let covers = covers(rule, example, &anchors)?;
    let (rule, example) = (rule.described(), example.to_owned());
    match (says, covers) {
        (Example::Match, false) => Err(ExampleError::NotCovered { rule, example }),
        (Example::NotMatch, true) => Err(ExampleError::Covered { rule, example }),
        _ => Ok(()),
    }
}

fn covers(rule: &SourcedRule, example: &str, anchors: &RuleAnchors) -> Result<bool, ExampleError> {
    Ok(match rule.rule.subject() {
        RuleSubject::Tool(tool) => tool.matches(example),
        RuleSubject::Command(pattern) => {
            let parts = shell::parts(example)
                .map_err(|it| ExampleError::Rule(format!("{example:?}: {}", it.message)))?;
            let mut parts = parts.parts.iter().filter(|part| !part.words.is_empty());
            match rule.effect {
                RuleEffect::Allow => parts.all(|part| super::command::opens(pattern, part)),
                _ => parts.any(|part| super::command::closes(pattern, part)),
            }
        }
        RuleSubject::Read(pattern) | RuleSubject::Edit(pattern) => {
            let pattern = PathPattern::compile(pattern, rule, anchors)
                .map_err(|error| ExampleError::Rule(error.to_string()))?;
            let spelled = anchors.spelled(Path::new(example));
            pattern.covers(&spelled, &resolved(&spelled))
        }
        RuleSubject::Domain(pattern) => DomainPattern::new(pattern).covers_text(example),
        RuleSubject::Argument { name, value, .. } => {
            let given = example
                .strip_prefix(name)
                .and_then(|it| it.strip_prefix(':'));
            let given = Value::from(given.unwrap_or(example));
            CompiledRule::argument_fits(value, &given)
        }
        _ => false,
    })
}
