//! `task`: a list of things to do, kept for the session.

use crate::context::ToolContext;
use crate::limits::{TASK_DESCRIPTION_CHARS, TASK_SUBJECT_CHARS, TASKS};
use crate::session::ToolSessionState;
use crate::typed::TypedTool;
use anyhow::bail;
use async_trait::async_trait;
use halter_protocol::ToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};

/// Keep a list of the steps of your work. Create a task for each step of work
/// with three or more steps, complete each as soon as it is done, and list them
/// to see what is left. The list lasts as long as the session is open.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct TaskInput {
    /// `create` needs `subject`, `complete` needs `id`.
    action: TaskAction,
    /// What is to be done, in one line.
    #[schemars(length(min = 1, max = TASK_SUBJECT_CHARS))]
    subject: Option<String>,
    /// Details worth keeping.
    #[schemars(length(max = TASK_DESCRIPTION_CHARS))]
    description: Option<String>,
    /// The task, as `create` and `list` number it.
    #[schemars(range(min = 1))]
    id: Option<u64>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum TaskAction {
    Create,
    List,
    Complete,
}

#[derive(Clone, Serialize)]
struct Task {
    id: u64,
    subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    status: TaskStatus,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum TaskStatus {
    Pending,
    Completed,
}

#[derive(Default)]
pub(crate) struct TaskList(Mutex<Vec<Task>>);

impl ToolSessionState for TaskList {}

pub(crate) struct TaskTool;

#[async_trait]
impl TypedTool for TaskTool {
    type Input = TaskInput;
    const NAME: &'static str = "task";

    async fn run(&self, context: ToolContext, input: TaskInput) -> anyhow::Result<ToolResult> {
        let list = context
            .tool_sessions
            .get_or_insert_with(TaskList::default)?;
        let mut tasks = list.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = match input.action {
            TaskAction::Create => create(&mut tasks, input)?,
            TaskAction::Complete => complete(&mut tasks, input)?,
            TaskAction::List => json!({"tasks": *tasks, "summary": summary(&tasks)}),
        };
        Ok(ToolResult::json(value))
    }
}

fn create(tasks: &mut Vec<Task>, input: TaskInput) -> anyhow::Result<Value> {
    let subject = match input.subject.as_deref().map(str::trim) {
        Some(subject) if !subject.is_empty() => subject.to_owned(),
        _ => bail!("`create` needs `subject`: say in one line what is to be done"),
    };
    if tasks.len() >= TASKS {
        bail!("the list is full: it holds {TASKS} tasks, so put several steps into one");
    }
    let task = Task {
        id: tasks.len() as u64 + 1,
        subject,
        description: input.description,
        status: TaskStatus::Pending,
    };
    tasks.push(task.clone());
    Ok(json!({"task": task, "summary": summary(tasks)}))
}

fn complete(tasks: &mut [Task], input: TaskInput) -> anyhow::Result<Value> {
    let Some(id) = input.id else {
        bail!("`complete` needs `id`: call `list` to see the ids");
    };
    let Some(task) = tasks.iter_mut().find(|task| task.id == id) else {
        bail!(
            "there is no task {id}: {}",
            match tasks.len() {
                0 => "the list is empty".to_owned(),
                count => format!("ids go from 1 to {count}"),
            }
        );
    };
    task.status = TaskStatus::Completed;
    let task = task.clone();
    Ok(json!({"task": task, "summary": summary(tasks)}))
}

fn summary(tasks: &[Task]) -> Value {
    let completed = tasks
        .iter()
        .filter(|task| task.status == TaskStatus::Completed)
        .count();
    json!({
        "total": tasks.len(),
        "pending": tasks.len() - completed,
        "completed": completed,
    })
}
