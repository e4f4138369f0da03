//! The languages, and parsing that can be stopped.

use crate::context::cancelled;
use crate::limits::AST_TIME;
use anyhow::anyhow;
use ast_grep_core::tree_sitter::{LanguageExt, StrDoc};
use ast_grep_core::{AstGrep, Language};
use ast_grep_language::SupportLang;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;
use tokio_util::sync::CancellationToken;
use tree_sitter::{ParseOptions, Parser};

/// A parsed file.
pub(super) type Tree = AstGrep<StrDoc<SupportLang>>;

/// A language whose grammar is built in.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum AstLanguage {
    Rust,
    TypeScript,
    Tsx,
    JavaScript,
    Python,
    Go,
    Java,
    C,
    Cpp,
    Bash,
}

impl AstLanguage {
    const ALL: [Self; 10] = [
        Self::Rust,
        Self::TypeScript,
        Self::Tsx,
        Self::JavaScript,
        Self::Python,
        Self::Go,
        Self::Java,
        Self::C,
        Self::Cpp,
        Self::Bash,
    ];

    pub(super) fn grammar(self) -> SupportLang {
        match self {
            Self::Rust => SupportLang::Rust,
            Self::TypeScript => SupportLang::TypeScript,
            Self::Tsx => SupportLang::Tsx,
            Self::JavaScript => SupportLang::JavaScript,
            Self::Python => SupportLang::Python,
            Self::Go => SupportLang::Go,
            Self::Java => SupportLang::Java,
            Self::C => SupportLang::C,
            Self::Cpp => SupportLang::Cpp,
            Self::Bash => SupportLang::Bash,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::TypeScript => "typescript",
            Self::Tsx => "tsx",
            Self::JavaScript => "javascript",
            Self::Python => "python",
            Self::Go => "go",
            Self::Java => "java",
            Self::C => "c",
            Self::Cpp => "cpp",
            Self::Bash => "bash",
        }
    }

    /// The language of a file by its name.
    pub(super) fn of_path(path: &Path) -> Option<Self> {
        let grammar = SupportLang::from_path(path)?;
        Self::ALL.into_iter().find(|it| it.grammar() == grammar)
    }

    /// Whether a file of this name may hold the language: a header is C or C++.
    pub(super) fn fits(self, path: &Path) -> bool {
        let named = Self::of_path(path);
        let is_header = || path.extension().is_some_and(|extension| extension == "h");
        named == Some(self) || (self == Self::Cpp && is_header())
    }
}

/// When to stop searching.
pub(super) struct SearchStop {
    cancel: CancellationToken,
    deadline: Instant,
}

impl SearchStop {
    pub(super) fn new(cancel: &CancellationToken) -> Self {
        Self {
            cancel: cancel.clone(),
            deadline: Instant::now() + AST_TIME,
        }
    }

    /// One whose time is up.
    #[cfg(test)]
    pub(super) fn past() -> Self {
        Self {
            cancel: CancellationToken::new(),
            deadline: Instant::now(),
        }
    }

    /// Breaks when the time is up; fails when the call is cancelled.
    pub(super) fn check(&self) -> anyhow::Result<ControlFlow<()>> {
        if self.cancel.is_cancelled() {
            return Err(cancelled().into());
        }
        Ok(match Instant::now() >= self.deadline {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    /// The tree of a text, or none if the time was up before.
    pub(super) fn parse(
        &self,
        source: String,
        language: AstLanguage,
    ) -> anyhow::Result<Option<Tree>> {
        let grammar = language.grammar();
        let mut parser = Parser::new();
        parser.set_language(&grammar.get_ts_language())?;
        let mut progress = |_: &_| match self.check() {
            Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let bytes = source.as_bytes();
        let mut text = |at: usize, _| bytes.get(at..).unwrap_or_default();
        let tree = parser.parse_with_options(&mut text, None, Some(options));
        match (tree, self.check()?) {
            (Some(tree), _) => Ok(Some(Tree::doc(StrDoc {
                src: source,
                lang: grammar,
                tree,
            }))),
            (None, ControlFlow::Break(())) => Ok(None),
            (None, ControlFlow::Continue(())) => {
                Err(anyhow!("a {} file could not be parsed", language.name()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_has_its_time_and_no_more() {
        let earliest = Instant::now() + AST_TIME;
        let stop = SearchStop::new(&CancellationToken::new());
        let latest = Instant::now() + AST_TIME;
        assert!((earliest..=latest).contains(&stop.deadline));
    }

    /// Parsing itself ends, not only the search after it.
    #[test]
    fn parsing_stops_when_the_time_is_up() {
        let source = "f(1);\n".repeat(10_000);
        let language = AstLanguage::JavaScript;
        let in_time = SearchStop::new(&CancellationToken::new());
        assert!(in_time.parse(source.clone(), language).unwrap().is_some());
        assert!(
            SearchStop::past()
                .parse(source, language)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn names_tell_languages() {
        for (name, language) in [
            ("a.rs", Some(AstLanguage::Rust)),
            ("a.tsx", Some(AstLanguage::Tsx)),
            ("a.mjs", Some(AstLanguage::JavaScript)),
            ("a.h", Some(AstLanguage::C)),
            ("a.hpp", Some(AstLanguage::Cpp)),
            ("a.sh", Some(AstLanguage::Bash)),
            ("a.php", None),
            ("Makefile", None),
        ] {
            assert_eq!(AstLanguage::of_path(Path::new(name)), language, "{name}");
        }
        assert!(AstLanguage::Cpp.fits(Path::new("a.h")));
        assert!(!AstLanguage::Cpp.fits(Path::new("a.c")));
    }
}
