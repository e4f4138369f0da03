//! `task`: a list of things to do, kept for the session.

use crate::context::ToolContext;
use crate::limits::{TASK_DESCRIPTION_CHARS, TASK_SUBJECT_CHARS};
use crate::typed::TypedTool;
use anyhow::bail;
use async_trait::async_trait;
use halter_protocol::limits::TASKS;
use halter_protocol::{MemoryChange, Task, TaskStatus, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Keep a list of the steps of your work. Create a task for each step of work
/// with three or more steps, complete each as soon as it is done, and list them
/// to see what is left. The list lasts as long as the session.
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

pub(crate) struct TaskTool;

#[async_trait]
impl TypedTool for TaskTool {
    type Input = TaskInput;
    const NAME: &'static str = "task";
    const SUMMARY: Option<&'static str> = Some("list the steps of your work");
    const RARE: bool = true;

    async fn run(&self, context: ToolContext, input: TaskInput) -> anyhow::Result<ToolResult> {
        let value = match input.action {
            TaskAction::Create => create(&context, input)?,
            TaskAction::Complete => complete(&context, input)?,
            TaskAction::List => {
                let tasks = &context.memory.tasks;
                json!({"tasks": tasks, "summary": summary(tasks, None)})
            }
        };
        Ok(ToolResult::json(value))
    }
}

fn create(context: &ToolContext, input: TaskInput) -> anyhow::Result<Value> {
    let tasks = &context.memory.tasks;
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
    Ok(changed(context, task))
}

fn complete(context: &ToolContext, input: TaskInput) -> anyhow::Result<Value> {
    let tasks = &context.memory.tasks;
    let Some(id) = input.id else {
        bail!("`complete` needs `id`: call `list` to see the ids");
    };
    let Some(task) = tasks.iter().find(|task| task.id == id) else {
        bail!(
            "there is no task {id}: {}",
            match tasks.len() {
                0 => "the list is empty".to_owned(),
                count => format!("ids go from 1 to {count}"),
            }
        );
    };
    let task = Task {
        status: TaskStatus::Completed,
        ..Task::clone(task)
    };
    Ok(changed(context, task))
}

/// Hands the task back as it is now, and says so.
fn changed(context: &ToolContext, task: Task) -> Value {
    let value = json!({"task": task, "summary": summary(&context.memory.tasks, Some(&task))});
    context.remember(MemoryChange::Task { task });
    value
}

/// Counts the tasks, `changed` as it is now.
fn summary(tasks: &[Arc<Task>], changed: Option<&Task>) -> Value {
    let others = tasks
        .iter()
        .map(|task| &**task)
        .filter(|task| changed.is_none_or(|changed| changed.id != task.id));
    let (mut total, mut completed) = (0, 0);
    for task in others.chain(changed) {
        total += 1;
        completed += usize::from(task.status == TaskStatus::Completed);
    }
    json!({
        "total": total,
        "pending": total - completed,
        "completed": completed,
    })
}
