//! Going through files, parsing those that may match.

use super::AstGrepInput;
use super::language::{AstLanguage, SearchStop, Tree};
use super::rules::{ReadyRule, Rule, ready};
use crate::builtin::grep::filter::FileFilter;
use crate::builtin::support::{shown, spelled};
use crate::builtin::walk::{WalkPlan, Walker, below};
use crate::context::ToolContext;
use crate::limits::{AST_DEPTH, AST_FILE_BYTES, AST_LISTED_FILES};
use anyhow::{anyhow, bail};
use ast_grep_core::NodeMatch;
use ast_grep_core::matcher::MatcherExt;
use ast_grep_core::tree_sitter::StrDoc;
use ast_grep_language::SupportLang;
use halter_policy::{PolicyError, ReadHandle};
use indexmap::IndexMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Nodes that are looked at before the next look at the clock.
const NODES_BETWEEN_CHECKS: usize = 4_096;

/// A match in a tree.
pub(super) type Match<'t> = NodeMatch<'t, StrDoc<SupportLang>>;

/// One search over one or many files.
pub(super) struct Scan<'a> {
    context: &'a ToolContext,
    input: &'a AstGrepInput,
    rules: Vec<Rule<'a>>,
    stop: SearchStop,
    ready: IndexMap<AstLanguage, Result<Vec<ReadyRule>, String>>,
    pub(super) files_searched: u64,
    /// Files of the searched languages that were not looked into.
    pub(super) skipped: SkippedFiles,
    /// The files that have syntax errors, with the first line that has one.
    pub(super) parse_errors: Vec<String>,
    /// Files with syntax errors beyond those that are listed.
    pub(super) more_parse_errors: u64,
}

#[derive(Default)]
pub(super) struct SkippedFiles {
    pub(super) by_policy: usize,
    pub(super) unreadable: usize,
    pub(super) too_large: usize,
    pub(super) not_text: usize,
    /// Their code is nested deeper than is compared.
    pub(super) too_deep: usize,
}

/// Why a search ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanEnd {
    Complete,
    /// Whoever looked at the files has seen enough.
    Enough,
    OutOfTime,
    /// The directory has too many entries.
    TooManyEntries,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        context: &'a ToolContext,
        input: &'a AstGrepInput,
        rules: Vec<Rule<'a>>,
    ) -> anyhow::Result<Self> {
        let mut scan = Self {
            context,
            input,
            rules,
            stop: SearchStop::new(&context.cancel),
            ready: IndexMap::new(),
            files_searched: 0,
            skipped: SkippedFiles::default(),
            parse_errors: Vec::new(),
            more_parse_errors: 0,
        };
        if let Some(language) = input.lang {
            scan.make_ready(language).map_err(|why| anyhow!(why))?;
        }
        Ok(scan)
    }

    /// Hands every file that may hold a match to `visit`, in the order of names.
    pub(super) fn run(
        &mut self,
        mut visit: impl FnMut(&ParsedFile<'_>) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<ScanEnd> {
        let target = spelled(self.input.path.as_deref().unwrap_or("."));
        let end = match self.context.policy.door().open_dir(&target) {
            Ok(directory) => self.directory(directory.path(), &mut visit)?,
            Err(PolicyError::NotADirectory { .. }) => {
                let handle = self.context.policy.door().open_read(&target)?;
                let Some(language) = self.input.lang.or_else(|| AstLanguage::of_path(&target))
                else {
                    bail!(
                        "the name '{}' tells no known language; set `lang`",
                        target.display()
                    );
                };
                self.file(handle, language, &mut visit)?
            }
            Err(error) => return Err(error.into()),
        };
        // A pattern may be code in one language and not in another; in one it
        // has to be.
        let usable = self.ready.values().any(Result::is_ok);
        match self.ready.values().find_map(|it| it.as_ref().err()) {
            Some(why) if !usable => bail!("{why}"),
            _ => Ok(end.unwrap_or(ScanEnd::Complete)),
        }
    }

    /// Why the rules were not searched for in some languages.
    pub(super) fn unusable(&self) -> impl Iterator<Item = &String> {
        self.ready.values().filter_map(|it| it.as_ref().err())
    }

    fn directory(
        &mut self,
        root: &Path,
        visit: &mut impl FnMut(&ParsedFile<'_>) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<Option<ScanEnd>> {
        let filter = FileFilter::new(self.input.glob.as_deref(), None)?;
        let plan = WalkPlan {
            hidden: filter.hidden(),
            types: None,
            max_depth: None,
        };
        let mut walker = Walker::new(self.context, root, plan)?;
        let mut end = None;
        while let Some(entry) = walker.next_entry()? {
            let path = entry.path();
            let below = below(root, path);
            let is_file = entry.is_file();
            let Some(language) = self.language_of(path).filter(|_| is_file) else {
                continue;
            };
            if !filter.admits(below) || !walker.admits(path) {
                continue;
            }
            end = match self.context.policy.door().open_read(path) {
                Ok(handle) => self.file(handle, language, visit)?,
                Err(error @ PolicyError::OutOfDescriptors { .. }) => return Err(error.into()),
                Err(error) => {
                    match error.is_denial() {
                        true => self.skipped.by_policy += 1,
                        false => self.skipped.unreadable += 1,
                    }
                    None
                }
            };
            if end.is_some() {
                break;
            }
        }
        self.skipped.by_policy += walker.sensitive();
        self.skipped.unreadable += walker.unreadable;
        Ok(end.or(walker.is_cut.then_some(ScanEnd::TooManyEntries)))
    }

    fn language_of(&self, path: &Path) -> Option<AstLanguage> {
        match self.input.lang {
            Some(language) => language.fits(path).then_some(language),
            None => AstLanguage::of_path(path),
        }
    }

    fn file(
        &mut self,
        mut handle: ReadHandle,
        language: AstLanguage,
        visit: &mut impl FnMut(&ParsedFile<'_>) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<Option<ScanEnd>> {
        if self.stop.check()?.is_break() {
            return Ok(Some(ScanEnd::OutOfTime));
        }
        if self.make_ready(language).is_err() {
            return Ok(None);
        }
        let resolved = handle.resolved().to_owned();
        let shown = shown(self.context.policy.door(), &resolved);
        let Some(source) = self.read(&mut handle) else {
            return Ok(None);
        };
        self.files_searched += 1;
        let Some(Ok(rules)) = self.ready.get(&language) else {
            return Ok(None);
        };
        if !rules.iter().any(|rule| rule.may_match(&source)) {
            return Ok(None);
        }
        let Some(tree) = self.stop.parse(source, language)? else {
            return Ok(Some(ScanEnd::OutOfTime));
        };
        if is_too_deep(&tree) {
            self.skipped.too_deep += 1;
            return Ok(None);
        }
        let file = ParsedFile {
            shown,
            resolved,
            tree,
            rules,
            stop: &self.stop,
        };
        let error_line = file.first_error_line();
        let seen = visit(&file);
        let shown = file.shown;
        if let Some(line) = error_line {
            match self.parse_errors.len() < AST_LISTED_FILES {
                true => self.parse_errors.push(format!("{shown}:{line}")),
                false => self.more_parse_errors += 1,
            }
        }
        match seen {
            Ok(ControlFlow::Continue(())) => Ok(None),
            Ok(ControlFlow::Break(())) => Ok(Some(ScanEnd::Enough)),
            Err(error) if error.is::<OutOfTime>() => Ok(Some(ScanEnd::OutOfTime)),
            Err(error) => Err(error),
        }
    }

    /// The text of a file, if it is one and not too long.
    fn read(&mut self, handle: &mut ReadHandle) -> Option<String> {
        match handle.read_bounded(AST_FILE_BYTES) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => return Some(text),
                Err(_) => self.skipped.not_text += 1,
            },
            Err(PolicyError::ReadTooLarge { .. }) => self.skipped.too_large += 1,
            Err(_) => self.skipped.unreadable += 1,
        }
        None
    }

    fn make_ready(&mut self, language: AstLanguage) -> Result<(), String> {
        let (rules, input) = (&self.rules, self.input);
        let made = self
            .ready
            .entry(language)
            .or_insert_with(|| ready(rules, language, input.selector.as_deref(), input.strictness));
        made.as_ref().map(drop).map_err(Clone::clone)
    }
}

fn is_too_deep(tree: &Tree) -> bool {
    let root = tree.root();
    let mut cursor = root.get_inner_node().walk();
    loop {
        if cursor.depth() as usize > AST_DEPTH {
            return true;
        }
        if cursor.goto_first_child() || cursor.goto_next_sibling() {
            continue;
        }
        loop {
            if !cursor.goto_parent() {
                return false;
            }
            if cursor.goto_next_sibling() {
                break;
            }
        }
    }
}

/// A file that may hold matches.
pub(super) struct ParsedFile<'a> {
    /// The path as results show it.
    pub(super) shown: String,
    pub(super) resolved: PathBuf,
    tree: Tree,
    rules: &'a [ReadyRule],
    stop: &'a SearchStop,
}

/// The time of the search was up.
#[derive(Debug, thiserror::Error)]
#[error("searching took too long")]
struct OutOfTime;

/// A match, and the rule it matches.
pub(super) struct FoundMatch<'t> {
    pub(super) node: Match<'t>,
    pub(super) rule: &'t ReadyRule,
}

impl ParsedFile<'_> {
    pub(super) fn source(&self) -> &str {
        self.tree.source()
    }

    /// Calls `found` for every match, in the order of the text, inner ones too.
    pub(super) fn matches<'s>(
        &'s self,
        mut found: impl FnMut(FoundMatch<'s>) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<()> {
        for (count, node) in self.tree.root().dfs().enumerate() {
            if count % NODES_BETWEEN_CHECKS == 0 && self.stop.check()?.is_break() {
                return Err(OutOfTime.into());
            }
            for rule in self.rules {
                let Some(node) = rule.pattern.match_node(node.clone()) else {
                    continue;
                };
                if found(FoundMatch { node, rule })?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(super) fn has_match(&self) -> anyhow::Result<bool> {
        let mut has_match = false;
        self.matches(|_| {
            has_match = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(has_match)
    }

    /// The text with its matches rewritten, outer ones before those in them, as
    /// far as `wanted` says yes; none if nothing is.
    pub(super) fn rewritten(
        &self,
        mut wanted: impl FnMut(&Match<'_>, &str) -> bool,
    ) -> anyhow::Result<Option<String>> {
        let source = self.source();
        let mut text = String::new();
        let mut done = 0;
        let mut end_of_last = None;
        self.matches(|FoundMatch { node, rule }| {
            let Some(rewrite) = &rule.rewrite else {
                return Ok(ControlFlow::Continue(()));
            };
            let edit = node.make_edit(&rule.pattern, rewrite);
            if end_of_last.is_some_and(|end| edit.position < end) {
                return Ok(ControlFlow::Continue(()));
            }
            let inserted = String::from_utf8(edit.inserted_text)?;
            if !wanted(&node, &inserted) {
                return Ok(ControlFlow::Break(()));
            }
            text.push_str(source.get(done..edit.position).unwrap_or_default());
            text.push_str(&inserted);
            done = edit.position + edit.deleted_length;
            end_of_last = Some(node.range().end.max(done));
            Ok(ControlFlow::Continue(()))
        })?;
        text.push_str(source.get(done..).unwrap_or_default());
        Ok(end_of_last.map(|_| text).filter(|text| text != source))
    }

    /// The line of the first syntax error, counted from 1.
    fn first_error_line(&self) -> Option<usize> {
        let root = self.tree.root();
        if !root.get_inner_node().has_error() {
            return None;
        }
        let line = root
            .dfs()
            .find(|node| node.is_error() || node.is_missing())
            .map(|node| node.start_pos().line() + 1);
        Some(line.unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::testing::context;

    #[test]
    fn a_search_ends_before_the_next_file_when_its_time_is_up() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.js", "b.js"] {
            std::fs::write(directory.path().join(name), "f(1);").unwrap();
        }
        let context = context(directory.path());
        let input = serde_json::json!({"action": "find", "patterns": ["f($A)"]});
        let input: AstGrepInput = serde_json::from_value(input).unwrap();
        let rule = || Rule {
            pattern: "f($A)",
            rewrite: None,
        };
        let mut scan = Scan::new(&context, &input, vec![rule()]).unwrap();
        let mut visited = 0;
        let end = scan.run(|_| {
            visited += 1;
            Ok(ControlFlow::Continue(()))
        });
        assert!(end.unwrap() == ScanEnd::Complete);
        assert_eq!(visited, 2);

        let mut scan = Scan::new(&context, &input, vec![rule()]).unwrap();
        scan.stop = SearchStop::past();
        let end = scan.run(|file| panic!("{} was looked into", file.shown));
        assert!(end.unwrap() == ScanEnd::OutOfTime);
    }
}
