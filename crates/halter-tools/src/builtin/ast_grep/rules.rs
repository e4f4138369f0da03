//! Patterns and rewrites of a call, made ready for a language.

use super::language::AstLanguage;
use crate::suggest::shortened;
use ast_grep_core::matcher::Pattern;
use ast_grep_core::replacer::TemplateFix;
use ast_grep_core::{MatchStrictness, PatternError};
use schemars::JsonSchema;
use serde::Deserialize;

/// What may differ between a pattern and code.
#[derive(Deserialize, JsonSchema, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum AstStrictness {
    Cst,
    #[default]
    Smart,
    Ast,
    Relaxed,
    Signature,
}

impl serde::Serialize for AstStrictness {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Cst => "cst",
            Self::Smart => "smart",
            Self::Ast => "ast",
            Self::Relaxed => "relaxed",
            Self::Signature => "signature",
        })
    }
}

impl AstStrictness {
    fn of_matcher(self) -> MatchStrictness {
        match self {
            Self::Cst => MatchStrictness::Cst,
            Self::Smart => MatchStrictness::Smart,
            Self::Ast => MatchStrictness::Ast,
            Self::Relaxed => MatchStrictness::Relaxed,
            Self::Signature => MatchStrictness::Signature,
        }
    }
}

/// A pattern as it was asked for, and what shall stand in its place.
pub(super) struct Rule<'a> {
    pub(super) pattern: &'a str,
    pub(super) rewrite: Option<&'a String>,
}

/// A pattern for one language.
pub(super) struct ReadyRule {
    pub(super) pattern: Pattern,
    pub(super) rewrite: Option<TemplateFix>,
    /// The place of the rule among those of the call.
    pub(super) index: usize,
    /// A text without which nothing matches; may be empty.
    needed_text: String,
}

impl ReadyRule {
    /// Whether a text may hold a match, without parsing it.
    pub(super) fn may_match(&self, source: &str) -> bool {
        source.contains(&self.needed_text)
    }
}

/// All rules for a language, or why one of them is none there.
pub(super) fn ready(
    rules: &[Rule<'_>],
    language: AstLanguage,
    selector: Option<&str>,
    strictness: AstStrictness,
) -> Result<Vec<ReadyRule>, String> {
    let one = |(index, rule): (usize, &Rule<'_>)| {
        let pattern = pattern(rule, language, selector)?;
        let rewrite = rule.rewrite.map(|text| rewrite(text, &pattern, language));
        let pattern = pattern.with_strictness(strictness.of_matcher());
        let needed_text = match strictness {
            AstStrictness::Signature => String::new(),
            _ => pattern.fixed_string().into_owned(),
        };
        Ok(ReadyRule {
            pattern,
            rewrite: rewrite.transpose()?,
            index,
            needed_text,
        })
    };
    rules.iter().enumerate().map(one).collect()
}

fn pattern(
    rule: &Rule<'_>,
    language: AstLanguage,
    selector: Option<&str>,
) -> Result<Pattern, String> {
    let grammar = language.grammar();
    let shown = shortened(rule.pattern);
    let name = language.name();
    let parsed = match selector {
        Some(selector) => Pattern::contextual(rule.pattern, selector, grammar),
        None => Pattern::try_new(rule.pattern, grammar),
    };
    let pattern = parsed.map_err(|error| {
        let why = match error {
            PatternError::MultipleNode(_) => {
                "it is several pieces of code; write one, or several patterns".to_owned()
            }
            PatternError::NoContent(_) => "it holds no code".to_owned(),
            PatternError::RootMultiMetaVar(_) => {
                "`$$$NAME` alone matches nothing; write code around it".to_owned()
            }
            PatternError::InvalidKind(_) => {
                "the grammar has no node of the kind `selector` names".to_owned()
            }
            PatternError::NoSelectorInContext { .. } => {
                "it holds no node of the kind `selector` names".to_owned()
            }
            other => other.to_string(),
        };
        format!("the pattern `{shown}` cannot be searched for in {name}: {why}")
    })?;
    match pattern.has_error() {
        true => Err(format!(
            "the pattern `{shown}` is not code in {name}; write it as it would stand in a file, \
             and use `selector` if it needs surroundings"
        )),
        false => Ok(pattern),
    }
}

fn rewrite(text: &str, pattern: &Pattern, language: AstLanguage) -> Result<TemplateFix, String> {
    let template = TemplateFix::try_new(text, &language.grammar())
        .map_err(|error| format!("the rewrite `{}` cannot be used: {error}", shortened(text)))?;
    let known = pattern.defined_vars();
    let unknown = template
        .used_vars()
        .into_iter()
        .find(|it| !known.contains(it));
    match unknown {
        Some(name) => Err(format!(
            "the rewrite `{}` uses `${name}`, which its pattern does not have",
            shortened(text)
        )),
        None => Ok(template),
    }
}
