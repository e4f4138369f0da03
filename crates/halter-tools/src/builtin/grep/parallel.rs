//! Searching files with several threads: all are counted at once, then the few
//! whose lines are shown are read again, in order.

use super::collect::{Collector, WantedPage};
use super::filter::FileFilter;
use super::{GrepInput, GrepOutput, LookedAt, Search, look_at, next_file, searcher, shown, wanted};
use crate::builtin::walk::Walker;
use crate::context::ToolContext;
use grep_regex::RegexMatcher;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Threads that search files at most: more gain little and take the machine
/// from others.
const MAX_THREADS: usize = 8;

impl Search<'_> {
    /// As `files_one_by_one`, with the same result.
    pub(super) fn files_with_threads(
        &mut self,
        mut walker: Walker,
        root: &Path,
        filter: &FileFilter,
    ) -> anyhow::Result<()> {
        let mut files = Vec::new();
        while let Some(path) = next_file(&mut walker, root, filter)? {
            files.push(path);
        }
        for (path, looked) in
            files
                .iter()
                .zip(count(self.context, self.input, &self.matcher, &files)?)
        {
            match looked {
                LookedAt::Searched(file, _) if self.collector.wants_lines_of(&file) => {
                    let looked = self.look_at(path)?;
                    self.add(looked);
                }
                LookedAt::Searched(file, resolved) => {
                    let door = self.context.policy.door();
                    self.collector.add_counted(file, || shown(door, &resolved));
                }
                other => self.skip(&other),
            }
        }
        self.left_out(&walker);
        Ok(())
    }
}

/// What each file holds, without its lines.
fn count(
    context: &ToolContext,
    input: &GrepInput,
    matcher: &RegexMatcher,
    files: &[PathBuf],
) -> anyhow::Result<Vec<LookedAt>> {
    let next = AtomicUsize::new(0);
    let count_some = || -> anyhow::Result<Vec<(usize, LookedAt)>> {
        let (mut searcher, matcher) = (searcher(input), matcher.clone());
        let nothing_shown = Collector::new(WantedPage {
            mode: GrepOutput::Count,
            ..wanted(input)
        });
        let mut looked = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = files.get(index) else {
                return Ok(looked);
            };
            let found = look_at(context, &mut searcher, &matcher, &nothing_shown, path)?;
            looked.push((index, found));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(MAX_THREADS).min(files.len());
    let mut looked = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(count_some)).collect();
        let mut looked = Vec::with_capacity(files.len());
        for worker in workers {
            match worker.join() {
                Ok(part) => looked.extend(part?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        anyhow::Ok(looked)
    })?;
    looked.sort_unstable_by_key(|(index, _)| *index);
    Ok(looked.into_iter().map(|(_, looked)| looked).collect())
}

#[cfg(test)]
mod tests;
