//! What the model must not forget: tasks, files as it last saw them, background
//! jobs, and tools that were loaded for it.
//!
//! Tools hand changes back with their results; the fold applies them. Clones
//! share everything, so a call gets the memory as of its start for free.

use crate::ids::ToolName;
use crate::limits::{FILE_VIEWS, JOBS, LOADED_TOOLS, TASKS};
use crate::tool::ToolSpec;
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
    /// Background jobs as they were last looked at, oldest first. None
    /// outlives the process that started it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Arc<BackgroundJob>>,
    /// Deferred tools that the model may call, in the order they were loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded_tools: Vec<LoadedTool>,
}

/// A deferred tool that the model may call. Requests hold it as it was loaded,
/// so that they begin alike; a compaction cuts anyway, and brings it up to date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadedTool {
    /// The tool as requests have it.
    pub spec: Arc<ToolSpec>,
    /// The tool as it is now, where that is otherwise; the model was told so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Arc<ToolSpec>>,
    /// True if the session has it no longer; the model was told so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
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

/// A command that runs in the background, or did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackgroundJob {
    /// Its number in the session, from 1.
    pub number: u64,
    /// The command line, maybe shortened.
    pub command: String,
    /// Whether it was running when it was last looked at.
    pub running: bool,
    /// What it ended with, as a shell reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
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
    /// A background job is new, or has ended.
    Job {
        /// The job as it is now.
        job: BackgroundJob,
    },
    /// A deferred tool was loaded: the model may call it from here on.
    ToolLoaded {
        /// The tool.
        spec: Arc<ToolSpec>,
    },
}

impl SessionMemory {
    /// True if there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
            && self.file_views.is_empty()
            && self.jobs.is_empty()
            && self.loaded_tools.is_empty()
    }

    /// A tool that was loaded.
    pub fn loaded_tool(&self, name: &ToolName) -> Option<&LoadedTool> {
        self.loaded_tools.iter().find(|it| it.spec.name == *name)
    }

    /// Brings loaded tools up to date: requests begin anew anyway.
    pub(crate) fn renew_loaded_tools(&mut self) {
        self.loaded_tools.retain(|tool| !tool.gone);
        for tool in &mut self.loaded_tools {
            if let Some(changed) = tool.changed.take() {
                tool.spec = changed;
            }
        }
    }

    /// The hash of a file as the session last knew it.
    pub fn file_view(&self, escaped_path: &str) -> Option<&str> {
        self.file_views.get(escaped_path).map(|hash| &**hash)
    }

    /// Applies a change. Above [`FILE_VIEWS`] the oldest view is forgotten,
    /// above [`JOBS`] the oldest job; above [`TASKS`] a new task is not kept, nor
    /// is a new tool above [`LOADED_TOOLS`]. A tool that was loaded stays as it is.
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
            MemoryChange::Job { job } => {
                let job = Arc::new(job.clone());
                match self.jobs.iter_mut().find(|it| it.number == job.number) {
                    Some(known) => *known = job,
                    None => {
                        self.jobs.push(job);
                        let excess = self.jobs.len().saturating_sub(JOBS);
                        self.jobs.drain(..excess);
                    }
                }
            }
            MemoryChange::ToolLoaded { spec } => {
                let room = self.loaded_tools.len() < LOADED_TOOLS;
                if room && self.loaded_tool(&spec.name).is_none() {
                    self.loaded_tools.push(LoadedTool {
                        spec: spec.clone(),
                        changed: None,
                        gone: false,
                    });
                }
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

    #[test]
    fn so_many_tools_are_loaded_and_no_more() {
        let mut memory = SessionMemory::default();
        let tool = |number: usize, description: &str| MemoryChange::ToolLoaded {
            spec: Arc::new(ToolSpec {
                name: format!("t{number}").into(),
                description: description.to_owned(),
                input_schema: serde_json::json!({}),
                concurrency: Default::default(),
                capabilities: Default::default(),
                provider_aliases: Default::default(),
            }),
        };
        for number in 0..=LOADED_TOOLS {
            memory.apply(&tool(number, "as it was"));
        }
        memory.apply(&tool(0, "otherwise"));
        assert_eq!(memory.loaded_tools.len(), LOADED_TOOLS);
        assert_eq!(memory.loaded_tools[0].spec.description, "as it was");
    }

    #[test]
    fn the_oldest_job_is_forgotten_first() {
        let mut memory = SessionMemory::default();
        let job = |number: usize, running| MemoryChange::Job {
            job: BackgroundJob {
                number: number as u64,
                command: "c".into(),
                running,
                exit_code: None,
            },
        };
        for number in 1..=JOBS + 1 {
            memory.apply(&job(number, true));
        }
        memory.apply(&job(2, false));
        let numbers: Vec<u64> = memory.jobs.iter().map(|it| it.number).collect();
        assert_eq!(numbers, (2..=JOBS as u64 + 1).collect::<Vec<_>>());
        assert!(!memory.jobs[0].running && memory.jobs[1].running);
    }
}
