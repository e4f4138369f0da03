//! Tools that a model is not sent until it asks for them: what it is told of
//! them, and how it finds one.

use async_trait::async_trait;
use halter_protocol::{ToolName, ToolSpec};
use std::sync::Arc;

pub use halter_protocol::TOOL_SEARCH;

/// A tool whose schema is not sent until the model asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferredTool {
    /// The tool.
    pub spec: Arc<ToolSpec>,
    /// What it does, in one line.
    pub summary: String,
    /// What its source says of the use of its tools.
    pub instructions: Option<SourceInstructions>,
}

/// What a source of tools outside of this program, such as a server, says of
/// their use. A model is told with the first of them that it loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceInstructions {
    /// Whose words these are, for a model to read.
    pub source: String,
    /// Its words, bounded.
    pub text: Arc<str>,
}

/// The deferred tools of a session, as a call of `tool_search` finds them.
#[async_trait]
pub trait ToolDirectory: Send + Sync {
    /// All of them, those that are loaded included.
    fn deferred(&self) -> Vec<DeferredTool>;

    /// The tools that every request holds, which need no loading.
    fn sent(&self) -> Vec<ToolName> {
        Vec::new()
    }

    /// Sources of tools that have not said yet what they have.
    fn starting(&self) -> Vec<String>;

    /// What is wrong with sources of tools.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// Waits until fewer of them than that are left. False if there is none
    /// that is worth waiting for. Cancel safe.
    async fn waits(&self, starting: usize) -> bool;
}

/// A session without deferred tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDeferredTools;

#[async_trait]
impl ToolDirectory for NoDeferredTools {
    fn deferred(&self) -> Vec<DeferredTool> {
        Vec::new()
    }

    fn starting(&self) -> Vec<String> {
        Vec::new()
    }

    async fn waits(&self, _starting: usize) -> bool {
        false
    }
}

/// The first sentence of a description, for a list of tools.
pub fn first_sentence(description: &str) -> String {
    let line = description.lines().next().unwrap_or_default();
    let sentence = line.split_inclusive(". ").next().unwrap_or(line).trim();
    sentence.to_owned()
}

/// The tools that a query asks for, the best first, at most `most`.
///
/// `select:a,b` names tools. Otherwise each word counts: one with `+` before it
/// must occur in the name or the description, and a name counts for more than a
/// description.
pub(crate) fn search(tools: Vec<DeferredTool>, query: &str, most: usize) -> Vec<DeferredTool> {
    let query = query.trim();
    let mut found = match query.strip_prefix("select:") {
        Some(names) => selected(tools, names),
        None => ranked(tools, query),
    };
    found.truncate(most);
    found
}

fn selected(tools: Vec<DeferredTool>, names: &str) -> Vec<DeferredTool> {
    let mut found: Vec<DeferredTool> = Vec::new();
    for name in names.split(',').map(canonical) {
        let tool = tools
            .iter()
            .find(|tool| canonical(tool.spec.name.as_str()) == name);
        if let Some(tool) = tool.filter(|tool| !found.contains(tool)) {
            found.push(tool.clone());
        }
    }
    found
}

fn ranked(tools: Vec<DeferredTool>, query: &str) -> Vec<DeferredTool> {
    let terms: Vec<(bool, String)> = query
        .split_whitespace()
        .map(|word| match word.strip_prefix('+') {
            Some(required) => (true, required.to_lowercase()),
            None => (false, word.to_lowercase()),
        })
        .filter(|(_, term)| !term.is_empty())
        .collect();
    let mut scored: Vec<(usize, DeferredTool)> = tools
        .into_iter()
        .filter_map(|tool| Some((score(&tool, &terms)?, tool)))
        .collect();
    scored.sort_by(|(one, tool), (other, another)| {
        let by_name = || tool.spec.name.as_str().cmp(another.spec.name.as_str());
        other.cmp(one).then_with(by_name)
    });
    scored.into_iter().map(|(_, tool)| tool).collect()
}

/// How well a tool fits; none if it does not, or lacks a required word.
fn score(tool: &DeferredTool, terms: &[(bool, String)]) -> Option<usize> {
    let name = tool.spec.name.as_str().to_lowercase();
    let about = format!("{} {}", tool.summary, tool.spec.description).to_lowercase();
    let mut total = 0;
    for (required, term) in terms {
        let same = canonical(&name) == canonical(term);
        let points = usize::from(same) * 16
            + usize::from(name.contains(term.as_str())) * 6
            + usize::from(about.contains(term.as_str())) * 2;
        if *required && points == 0 {
            return None;
        }
        total += points;
    }
    (total > 0).then_some(total)
}

/// A name without what people spell differently.
pub(crate) fn canonical(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, summary: &str) -> DeferredTool {
        DeferredTool {
            spec: Arc::new(ToolSpec {
                name: name.into(),
                description: format!("{summary}. More words."),
                input_schema: serde_json::json!({}),
                concurrency: Default::default(),
                capabilities: Default::default(),
                provider_aliases: Default::default(),
            }),
            summary: summary.to_owned(),
            instructions: None,
        }
    }

    fn found(query: &str) -> Vec<String> {
        let tools = vec![
            tool("apply_patch", "Change several files with a patch"),
            tool("mcp__git__log", "List commits of a file"),
            tool("image", "Crop, resize or convert an image file"),
        ];
        let found = search(tools, query, 2).into_iter();
        found.map(|tool| tool.spec.name.to_string()).collect()
    }

    #[test]
    fn tools_are_selected_by_name_in_the_order_asked() {
        assert_eq!(
            found("select: Image, apply-patch,nothing"),
            ["image", "apply_patch"]
        );
        assert_eq!(found("select:image,image"), ["image"]);
        assert!(found("select:").is_empty());
    }

    #[test]
    fn words_rank_names_above_descriptions_and_required_ones_must_occur() {
        assert_eq!(found("image"), ["image"]);
        assert_eq!(found("patch image"), ["image", "apply_patch"]);
        assert_eq!(found("+git commits file"), ["mcp__git__log"]);
        assert_eq!(found("file"), ["apply_patch", "image"], "ties by name, cut");
        assert!(found("+git +crop").is_empty());
        assert!(found("+").is_empty());
    }

    #[test]
    fn a_first_sentence_ends_where_it_ends() {
        assert_eq!(
            first_sentence("Read v1.2 files. Then more."),
            "Read v1.2 files."
        );
        assert_eq!(first_sentence("One line\nand another"), "One line");
    }
}
