//! What the model must not forget: tasks, and files as it last saw them.
//!
//! Tools hand changes back with their results; the fold applies them. Clones
//! share everything, so a call gets the memory as of its start for free.

use crate::limits::{FILE_VIEWS, TASKS};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a session remembers for its tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionMemory {
    /// Steps of the work, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Arc<Task>>,
    /// The hash of each file as the session last read or wrote it, by its
    /// escaped path, oldest first.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub file_views: IndexMap<Arc<str>, Arc<str>>,
}

/// A step of the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Its number, from 1.
    pub id: u64,
    /// What is to be done, in one line.
    pub subject: String,
    /// Details worth keeping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How far it has come.
    pub status: TaskStatus,
}

/// How far a task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// It is to be done.
    Pending,
    /// It is done.
    Completed,
}

/// A change of what a session remembers, handed back with a call's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MemoryChange {
    /// A task is new, or has changed.
    Task {
        /// The task as it is now.
        task: Task,
    },
    /// A file was read or written.
    FileSeen {
        /// Its resolved path, escaped.
        path: String,
        /// The hash of its content.
        sha256: String,
    },
}

impl SessionMemory {
    /// True if there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.file_views.is_empty()
    }

    /// The hash of a file as the session last knew it.
    pub fn file_view(&self, escaped_path: &str) -> Option<&str> {
        self.file_views.get(escaped_path).map(|hash| &**hash)
    }

    /// Applies a change. Above [`FILE_VIEWS`] the oldest view is forgotten;
    /// above [`TASKS`] a new task is not kept.
    pub fn apply(&mut self, change: &MemoryChange) {
        match change {
            MemoryChange::Task { task } => {
                let task = Arc::new(task.clone());
                match self.tasks.iter_mut().find(|known| known.id == task.id) {
                    Some(known) => *known = task,
                    None => {
                        self.tasks.push(task);
                        self.tasks.truncate(TASKS);
                    }
                }
            }
            MemoryChange::FileSeen { path, sha256 } => {
                self.file_views.shift_remove(path.as_str());
                if self.file_views.len() >= FILE_VIEWS {
                    self.file_views.shift_remove_index(0);
                }
                self.file_views
                    .insert(path.as_str().into(), sha256.as_str().into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: usize, sha256: &str) -> MemoryChange {
        MemoryChange::FileSeen {
            path: format!("/{path}"),
            sha256: sha256.to_owned(),
        }
    }

    #[test]
    fn the_oldest_view_is_forgotten_first() {
        let mut memory = SessionMemory::default();
        for path in 0..FILE_VIEWS {
            memory.apply(&seen(path, "h"));
        }
        memory.apply(&seen(0, "h2"));
        assert!(memory.file_view("/1").is_some());
        memory.apply(&seen(FILE_VIEWS, "h"));
        assert_eq!(memory.file_view("/1"), None);
        assert_eq!(memory.file_view("/0"), Some("h2"));
        assert_eq!(memory.file_views.len(), FILE_VIEWS);
    }

    #[test]
    fn so_many_tasks_are_kept_and_no_more() {
        let mut memory = SessionMemory::default();
        let task = |id: usize, status| MemoryChange::Task {
            task: Task {
                id: id as u64,
                subject: "s".into(),
                description: None,
                status,
            },
        };
        for id in 1..=TASKS + 1 {
            memory.apply(&task(id, TaskStatus::Pending));
        }
        assert_eq!(memory.tasks.len(), TASKS);
        memory.apply(&task(TASKS, TaskStatus::Completed));
        let last = memory.tasks.last().unwrap();
        assert_eq!(last.status, TaskStatus::Completed);
    }
}
