//! Tools that join while sessions run: those of servers that are still
//! starting, or whose list changes.

use crate::tool::Tool;
use indexmap::IndexMap;
use std::sync::Arc;
use tokio::sync::watch;

/// Where sources put tools that join late, and sessions find them.
///
/// Such tools are deferred: a model is told of them in a message and loads them
/// with `tool_search`, so that no request begins otherwise than the one before.
/// A running session hears of a change at once, an idle one with its next turn.
///
/// ```
/// use halter_tools::LateTools;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let late = LateTools::new();
/// late.starting("tracker");
/// assert_eq!(late.current().starting(), ["tracker"]);
/// late.set("tracker", Vec::new());
/// late.settled().await;
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct LateTools {
    current: Arc<watch::Sender<LateToolSet>>,
}

/// The late tools at a moment. Cheap to clone.
#[derive(Clone, Default)]
pub struct LateToolSet {
    revision: u64,
    /// By source; none of those that have not said yet what they have.
    sources: IndexMap<String, Option<SourceTools>>,
}

type SourceTools = Arc<[Arc<dyn Tool>]>;

impl Default for LateTools {
    fn default() -> Self {
        Self::new()
    }
}

impl LateTools {
    /// No source yet.
    pub fn new() -> Self {
        Self {
            current: Arc::new(watch::Sender::new(LateToolSet::default())),
        }
    }

    /// A source has started and has not said yet which tools it has. A search
    /// for tools waits for it, within a bound.
    pub fn starting(&self, source: &str) {
        self.current.send_if_modified(|set| {
            let known = set.sources.contains_key(source);
            if !known {
                set.sources.insert(source.to_owned(), None);
                set.revision += 1;
            }
            !known
        });
    }

    /// A source has these tools from now on, and no others.
    pub fn set(&self, source: &str, tools: Vec<Arc<dyn Tool>>) {
        self.current.send_modify(|set| {
            set.sources.insert(source.to_owned(), Some(tools.into()));
            set.revision += 1;
        });
    }

    /// A source has ended, or could not start.
    pub fn remove(&self, source: &str) {
        self.current.send_if_modified(|set| {
            let known = set.sources.shift_remove(source).is_some();
            set.revision += u64::from(known);
            known
        });
    }

    /// What there is now.
    pub fn current(&self) -> LateToolSet {
        self.current.borrow().clone()
    }

    /// Hears of every change from now on.
    pub fn subscribe(&self) -> watch::Receiver<LateToolSet> {
        self.current.subscribe()
    }

    /// Waits until every source has said what it has. Cancel safe.
    pub async fn settled(&self) {
        let mut receiver = self.current.subscribe();
        // The sender is ours, so it is not gone.
        let _ = receiver.wait_for(|set| set.starting().is_empty()).await;
    }
}

impl LateToolSet {
    /// Counts the changes.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The tools, by source in the order sources came.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &Arc<dyn Tool>)> {
        self.sources.iter().flat_map(|(source, tools)| {
            let tools = tools.iter().flat_map(|tools| tools.iter());
            tools.map(move |tool| (source.as_str(), tool))
        })
    }

    /// The sources that have not said yet what they have.
    pub fn starting(&self) -> Vec<&str> {
        let starting = self.sources.iter().filter(|(_, tools)| tools.is_none());
        starting.map(|(source, _)| source.as_str()).collect()
    }
}

impl std::fmt::Debug for LateToolSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LateToolSet")
            .field("revision", &self.revision)
            .field("sources", &self.sources.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_is_told_when_the_last_source_has_said_what_it_has() {
        let late = LateTools::new();
        late.settled().await;
        late.starting("one");
        late.starting("two");
        let waiting = tokio::spawn({
            let late = late.clone();
            async move { late.settled().await }
        });
        late.set("one", Vec::new());
        // A source that has said what it has does not start again.
        late.starting("one");
        assert_eq!(late.current().starting(), ["two"]);
        late.remove("two");
        waiting.await.unwrap();
        assert_eq!(late.current().revision(), 4);
    }
}
