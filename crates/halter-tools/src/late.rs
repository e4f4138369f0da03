//! Tools that join while sessions run: those of servers that are still
//! starting, or whose list changes.

use crate::limits::{LATE_PROBLEM_BYTES, LATE_TOOLS_WAIT};
use crate::tool::Tool;
use indexmap::IndexMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

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
/// assert!(late.waits(1).await);
/// assert!(!late.waits(0).await);
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
    sources: IndexMap<String, Source>,
    /// What is wrong with sources now, by source.
    problems: IndexMap<String, Problem>,
    /// The revision up to which problems were told elsewhere.
    told: u64,
}

#[derive(Clone)]
struct Problem {
    /// When it was reported.
    revision: u64,
    message: Arc<str>,
    /// Whether sessions are of no use meanwhile.
    fatal: bool,
}

#[derive(Clone)]
enum Source {
    /// It has not said yet what it has, and is waited for until then.
    Starting(Instant),
    Known(Arc<[Arc<dyn Tool>]>),
}

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
    /// for tools waits for it, for [`LATE_TOOLS_WAIT`].
    pub fn starting(&self, source: &str) {
        self.starting_within(source, LATE_TOOLS_WAIT);
    }

    /// The same for a source that has so much time to start.
    pub fn starting_within(&self, source: &str, time: Duration) {
        let until = Instant::now() + time;
        self.current.send_if_modified(|set| {
            let known = set.sources.contains_key(source);
            if !known {
                let starting = Source::Starting(until);
                set.sources.insert(source.to_owned(), starting);
                set.revision += 1;
            }
            !known
        });
    }

    /// A source has these tools from now on, and no others.
    pub fn set(&self, source: &str, tools: Vec<Arc<dyn Tool>>) {
        self.current.send_modify(|set| {
            let known = Source::Known(tools.into());
            set.sources.insert(source.to_owned(), known);
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

    /// Something is wrong with a source: sessions say so, each once, until
    /// [`recovered`](Self::recovered).
    pub fn report(&self, source: &str, message: &str) {
        self.add_problem(source, message, false);
    }

    /// A source has failed that sessions are of no use without: turns fail
    /// until [`recovered`](Self::recovered).
    pub fn fail(&self, source: &str, message: &str) {
        self.add_problem(source, message, true);
    }

    fn add_problem(&self, source: &str, message: &str, fatal: bool) {
        let kept = message.floor_char_boundary(LATE_PROBLEM_BYTES);
        let message: Arc<str> = message.get(..kept).unwrap_or_default().into();
        self.current.send_if_modified(|set| {
            let same = |it: &Problem| it.message == message && it.fatal == fatal;
            let is_new = !set.problems.get(source).is_some_and(same);
            if is_new {
                set.revision += 1;
                let revision = set.revision;
                let problem = Problem {
                    revision,
                    message,
                    fatal,
                };
                set.problems.insert(source.to_owned(), problem);
            }
            is_new
        });
    }

    /// Nothing is wrong with a source any more.
    pub fn recovered(&self, source: &str) {
        self.current.send_if_modified(|set| {
            let known = set.problems.shift_remove(source).is_some();
            set.revision += u64::from(known);
            known
        });
    }

    /// Whoever started the sources has said what was wrong with them so far.
    pub fn problems_told(&self) {
        self.current.send_modify(|set| set.told = set.revision);
    }

    /// What there is now.
    pub fn current(&self) -> LateToolSet {
        self.current.borrow().clone()
    }

    /// Hears of every change from now on.
    pub fn subscribe(&self) -> watch::Receiver<LateToolSet> {
        self.current.subscribe()
    }

    /// Waits until fewer sources than that are starting. False if none of them
    /// has time left in which it is worth waiting for. Cancel safe.
    pub async fn waits(&self, starting: usize) -> bool {
        let mut receiver = self.current.subscribe();
        let until = receiver.borrow().awaited_until();
        match until {
            Some(until) => {
                let fewer = receiver.wait_for(|set| set.starting().len() < starting);
                tokio::time::timeout_at(until, fewer).await.is_ok()
            }
            // They may all have said so meanwhile.
            None => receiver.borrow().starting().len() < starting,
        }
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
            let tools = match tools {
                Source::Known(tools) => tools.as_ref(),
                Source::Starting(_) => &[],
            };
            tools.iter().map(move |tool| (source.as_str(), tool))
        })
    }

    /// The sources that have not said yet what they have.
    pub fn starting(&self) -> Vec<&str> {
        let is_starting = |source: &Source| matches!(source, Source::Starting(_));
        let starting = self.sources.iter().filter(|(_, it)| is_starting(it));
        starting.map(|(source, _)| source.as_str()).collect()
    }

    /// What is wrong with sources now.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.problems.values().map(|problem| &*problem.message)
    }

    /// What was reported after a revision and not told elsewhere.
    pub fn problems_since(&self, revision: u64) -> impl Iterator<Item = &str> {
        let since = revision.max(self.told);
        let problems = self.problems.values();
        let new = problems.filter(move |problem| problem.revision > since);
        new.map(|problem| &*problem.message)
    }

    /// Why sessions are of no use now, if they are not.
    pub fn failure(&self) -> Option<&str> {
        let mut problems = self.problems.values();
        let fatal = problems.find(|problem| problem.fatal)?;
        Some(&fatal.message)
    }

    /// How long sources that start are waited for; none if no one is.
    fn awaited_until(&self) -> Option<Instant> {
        let untils = self.sources.values().filter_map(|source| match source {
            Source::Starting(until) => Some(*until),
            Source::Known(_) => None,
        });
        untils.max().filter(|until| *until > Instant::now())
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
        assert!(!late.waits(0).await);
        late.starting("one");
        late.starting("two");
        let waiting = tokio::spawn({
            let late = late.clone();
            async move { late.waits(1).await }
        });
        late.set("one", Vec::new());
        // A source that has said what it has does not start again.
        late.starting("one");
        assert_eq!(late.current().starting(), ["two"]);
        late.remove("two");
        assert!(waiting.await.unwrap());
        assert!(late.waits(1).await, "there is none any more");
        assert_eq!(late.current().revision(), 4);
    }

    #[test]
    fn a_problem_is_told_once_until_it_is_another() {
        let late = LateTools::new();
        let since = |revision: u64| {
            let set = late.current();
            let new: Vec<String> = set.problems_since(revision).map(str::to_owned).collect();
            (set.revision(), new)
        };
        late.report("a", "a is slow");
        late.problems_told();
        let (seen, new) = since(0);
        assert!(new.is_empty(), "{new:?}");
        late.report("a", "a is slow");
        late.report("b", "b ended");
        late.fail("c", &"c".repeat(LATE_PROBLEM_BYTES + 1));
        let (seen, new) = since(seen);
        assert_eq!(new, ["b ended".to_owned(), "c".repeat(LATE_PROBLEM_BYTES)]);
        assert_eq!(since(seen).1, Vec::<String>::new());
        assert_eq!(late.current().problems().count(), 3);
        assert!(late.current().failure().is_some());
        late.recovered("c");
        assert!(late.current().failure().is_none());
    }
}
