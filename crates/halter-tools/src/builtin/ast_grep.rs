//! `ast_grep`: code by its structure, found and rewritten.
//!
//! Files are found, read and bounded as by `grep`; a rewrite changes all files
//! it touches or none, as a patch does. Parsing stops when the call is cancelled
//! or its time is up.

mod language;
mod report;
mod rules;
mod scan;

use self::language::AstLanguage;
use self::report::{FoundPage, found_row, remarks, rewritten_row};
use self::rules::{AstStrictness, Rule};
use self::scan::{Scan, ScanEnd};
use super::file_set::{change_files, diff_files};
use super::support::{CHANGES, blocking, path_in};
use crate::context::ToolContext;
use crate::limits::{
    AST_DEFAULT_MATCHES, AST_MAX_MATCHES, AST_PATTERNS, AST_REPLACEMENTS, CHANGED_FILES,
    PATTERN_CHARS,
};
use crate::typed::TypedTool;
use anyhow::{anyhow, bail};
use async_trait::async_trait;
use halter_protocol::encoding::escape_path;
use halter_protocol::{Action, ToolCapabilities, ToolError, ToolErrorCode, ToolResult};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;

/// Bytes of the stack of a search; what is not used costs nothing.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Find or rewrite code by its structure, where `grep` and `edit` would stumble
/// over layout. A pattern is code in which `$NAME` stands for one piece and
/// `$$$NAME` for any number: `foo($A, $$$REST)`. Rust, TypeScript, TSX,
/// JavaScript, Python, Go, Java, C, C++ and Bash. `replace` only shows what it
/// would change until `dry_run` is false; then all files change, or none.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct AstGrepInput {
    /// What to do.
    action: AstAction,
    /// What `find` looks for.
    #[serde(default)]
    #[schemars(length(max = AST_PATTERNS), inner(length(min = 1, max = PATTERN_CHARS)))]
    patterns: Vec<String>,
    /// What `replace` puts in the place of each pattern: `{"foo($A)": "bar($A)"}`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = AST_PATTERNS))]
    rewrites: IndexMap<String, String>,
    /// The file or directory; the working directory if left out.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// Only files that match, such as `src/**/*.ts`.
    #[schemars(length(min = 1, max = PATTERN_CHARS))]
    glob: Option<String>,
    /// The language; by the names of files if left out.
    lang: Option<AstLanguage>,
    /// The kind of node within the pattern that is meant, where a pattern needs
    /// surroundings: `call_expression` for `f($A);` in C.
    #[schemars(length(min = 1))]
    selector: Option<String>,
    /// What may differ: `cst` nothing, `smart` unnamed nodes, `ast` and
    /// `relaxed` also those of the pattern and comments, `signature` also text.
    #[serde(default)]
    strictness: AstStrictness,
    /// How many matches or changes to list at most.
    #[serde(default = "default_matches")]
    #[schemars(range(min = 1, max = AST_MAX_MATCHES))]
    limit: u64,
    /// How many to skip: go on with `next_offset` of the last result.
    #[serde(default)]
    offset: u64,
    /// Also return what each `$NAME` stands for.
    #[serde(default)]
    include_meta: bool,
    /// Only show what `replace` would change.
    #[serde(default = "yes")]
    dry_run: bool,
    /// Stop `replace` after so many changes.
    #[serde(default = "all_replacements")]
    #[schemars(range(min = 1, max = AST_REPLACEMENTS))]
    max_replacements: u64,
    /// Stop `replace` after so many files.
    #[serde(default = "all_files")]
    #[schemars(range(min = 1, max = CHANGED_FILES))]
    max_files: u64,
    /// Refuse if a file that matches has syntax errors.
    #[serde(default)]
    fail_on_parse_error: bool,
}

fn default_matches() -> u64 {
    AST_DEFAULT_MATCHES as u64
}

fn yes() -> bool {
    true
}

fn all_replacements() -> u64 {
    AST_REPLACEMENTS as u64
}

fn all_files() -> u64 {
    CHANGED_FILES as u64
}

#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum AstAction {
    Find,
    Replace,
}

pub(crate) struct AstGrepTool;

#[async_trait]
impl TypedTool for AstGrepTool {
    type Input = AstGrepInput;
    const NAME: &'static str = "ast_grep";
    const SUMMARY: Option<&'static str> = Some("search and rewrite code by syntax");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        CHANGES
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let path = path_in(input, "path").unwrap_or_else(|| ".".into());
        let replaces = input.get("action").and_then(Value::as_str) == Some("replace");
        let applies = input.get("dry_run").and_then(Value::as_bool) == Some(false);
        let effect = match replaces && applies {
            true => Action::Write { path: path.clone() },
            false => Action::Other { mutating: false },
        };
        vec![Action::Read { path }, effect]
    }

    async fn diff(&self, context: ToolContext, input: AstGrepInput) -> Option<String> {
        if input.action != AstAction::Replace || input.dry_run {
            return None;
        }
        let for_scan = context.clone();
        let plan = on_large_stack(move || plan(&for_scan, &input)).await.ok()?;
        diff_files(context, move |files| plan.put(files)).await
    }

    async fn run(&self, context: ToolContext, input: AstGrepInput) -> anyhow::Result<ToolResult> {
        if input.action == AstAction::Find {
            return on_large_stack(move || find(&context, &input)).await;
        }
        let dry_run = input.dry_run;
        let for_scan = context.clone();
        let mut plan = on_large_stack(move || plan(&for_scan, &input)).await?;
        let mut result = std::mem::take(&mut plan.result);
        if !dry_run && !plan.files.is_empty() {
            let paths = plan.files.iter().map(|file| file.path.clone()).collect();
            let (_, changed) = change_files(context, paths, move |files| plan.put(files)).await?;
            result.insert("file_changes".into(), json!(changed));
        }
        result.insert("applied".into(), (!dry_run).into());
        Ok(ToolResult::json(Value::Object(result)))
    }
}

/// Runs a search on a thread whose stack holds trees of [`AST_DEPTH`](crate::limits::AST_DEPTH): nodes are
/// compared by recursion.
async fn on_large_stack<T: Send + 'static>(
    search: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    blocking(move || {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        match thread.spawn(search)?.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
    .await
}

fn find(context: &ToolContext, input: &AstGrepInput) -> anyhow::Result<ToolResult> {
    if input.patterns.is_empty() || !input.rewrites.is_empty() {
        bail!("`find` needs `patterns`, and `rewrites` are for `replace`");
    }
    let rules = input.patterns.iter().map(|pattern| Rule {
        pattern,
        rewrite: None,
    });
    let mut scan = Scan::new(context, input, rules.collect())?;
    let mut page = FoundPage::new(input.offset, input.limit);
    let mut files_with_matches = 0u64;
    let end = scan.run(|file| {
        let mut has_matches = false;
        file.matches(|found| {
            has_matches = true;
            page.add(|| found_row(&file.shown, input, found));
            Ok(ControlFlow::Continue(()))
        })?;
        files_with_matches += u64::from(has_matches);
        Ok(ControlFlow::Continue(()))
    })?;
    let total = page.total;
    let mut result = page.into_map("matches");
    result.insert("total_matches".into(), total.into());
    result.insert("files_searched".into(), scan.files_searched.into());
    result.insert("files_with_matches".into(), files_with_matches.into());
    remarks(&mut result, &scan, end);
    Ok(ToolResult::json(Value::Object(result)))
}

/// What `replace` makes of files. Nothing has changed yet.
struct RewritePlan {
    files: Vec<RewrittenFile>,
    result: Map<String, Value>,
}

struct RewrittenFile {
    /// The path, absolute and escaped.
    path: String,
    before: String,
    after: String,
}

impl RewritePlan {
    fn put(self, files: &mut super::file_set::FileSet) -> anyhow::Result<()> {
        for file in self.files {
            let key = files.open(&file.path)?;
            if files.text(&key)? != file.before {
                bail!(
                    "'{}' has changed while it was searched; nothing was rewritten, repeat the \
                     call",
                    files.shown(&key)
                );
            }
            files.put(&key, file.after)?;
        }
        Ok(())
    }
}

fn plan(context: &ToolContext, input: &AstGrepInput) -> anyhow::Result<RewritePlan> {
    if input.rewrites.is_empty() || !input.patterns.is_empty() {
        bail!(
            "`replace` needs `rewrites`, an object of patterns and what to put in their place; \
             `patterns` are for `find`"
        );
    }
    let rules = input.rewrites.iter().map(|(pattern, rewrite)| Rule {
        pattern,
        rewrite: Some(rewrite),
    });
    let mut scan = Scan::new(context, input, rules.collect())?;
    let mut page = FoundPage::new(input.offset, input.limit);
    let mut files = Vec::new();
    let mut touched = Vec::new();
    let mut limit_reached = false;
    let end = scan.run(|file| {
        if files.len() as u64 == input.max_files || page.total == input.max_replacements {
            limit_reached |= file.has_match()?;
            return Ok(match limit_reached {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
        }
        let before = page.total;
        let after = file.rewritten(|found, rewrite| {
            if page.total == input.max_replacements {
                limit_reached = true;
                return false;
            }
            page.add(|| rewritten_row(&file.shown, found, rewrite));
            true
        })?;
        if let Some(after) = after {
            let replacements = page.total - before;
            touched.push(json!({"path": file.shown, "replacements": replacements}));
            files.push(RewrittenFile {
                path: escape_path(&file.resolved),
                before: file.source().to_owned(),
                after,
            });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if end == ScanEnd::OutOfTime {
        return Err(ToolError::new(
            ToolErrorCode::TimedOut,
            "searching took too long, and nothing was rewritten; name a smaller `path` or a `glob`",
        )
        .into());
    }
    if input.fail_on_parse_error && !scan.parse_errors.is_empty() {
        let named = scan.parse_errors.join(", ");
        return Err(anyhow!(
            "there are syntax errors, and nothing was rewritten: {named}"
        ));
    }
    let total = page.total;
    let mut result = page.into_map("changes");
    result.insert("file_changes".into(), touched.into());
    result.insert("total_replacements".into(), total.into());
    result.insert("files_touched".into(), files.len().into());
    result.insert("limit_reached".into(), limit_reached.into());
    remarks(&mut result, &scan, end);
    Ok(RewritePlan { files, result })
}
