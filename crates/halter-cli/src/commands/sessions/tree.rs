//! The subagents of a stored session, and theirs.

use crate::failure::Failure;
use crate::limits::TITLE_COLUMNS;
use crate::terminal::{fitted, safe_line};
use crate::view::used;
use halter_protocol::{SessionId, SubagentStatus};
use halter_session::{SessionStore, StoreError, StoredState};
use std::sync::Arc;

/// A subagent, and how deep it is.
struct Node {
    depth: usize,
    subagent: Arc<SubagentStatus>,
}

/// Everything below a session, each followed by its own.
async fn nodes(store: &dyn SessionStore, id: &SessionId) -> Result<Vec<Node>, Failure> {
    let mut nodes = Vec::new();
    let mut waiting = children(store, id, 0).await?;
    while let Some(node) = waiting.pop() {
        let below = &node.subagent.session_id;
        waiting.append(&mut children(store, below, node.depth + 1).await?);
        nodes.push(node);
    }
    Ok(nodes)
}

/// The subagents of one session, the last one first.
async fn children(
    store: &dyn SessionStore,
    id: &SessionId,
    depth: usize,
) -> Result<Vec<Node>, Failure> {
    let stored = match StoredState::read(store, id).await {
        Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
        stored => stored?,
    };
    let subagents = stored.state.subagents.into_values().rev();
    let nodes = subagents.map(|subagent| Node { depth, subagent });
    Ok(nodes.collect())
}

/// The sessions below one.
pub async fn below(store: &dyn SessionStore, id: &SessionId) -> Result<Vec<SessionId>, Failure> {
    let nodes = nodes(store, id).await?;
    let ids = nodes.iter().map(|it| it.subagent.session_id.clone());
    Ok(ids.collect())
}

/// The tree as lines; none if there are no subagents.
pub async fn lines(store: &dyn SessionStore, id: &SessionId) -> Result<Vec<String>, Failure> {
    let nodes = nodes(store, id).await?;
    let head = (!nodes.is_empty()).then(|| "subagents".to_owned());
    Ok(head.into_iter().chain(nodes.iter().map(line)).collect())
}

fn line(node: &Node) -> String {
    let Node { depth, subagent } = node;
    let indent = "  ".repeat(depth + 1);
    let kind = safe_line(subagent.agent_type.as_deref().unwrap_or("general"));
    let task = safe_line(subagent.task.lines().next().unwrap_or_default());
    let task = fitted(&task, TITLE_COLUMNS);
    let usage = subagent.usage.filter(|it| !it.is_zero());
    let usage = usage.map(|it| format!("  {}", used(&it)));
    let (id, state, session) = (&subagent.agent_id, &subagent.state, &subagent.session_id);
    let usage = usage.unwrap_or_default();
    format!("{indent}{id} {kind} {state}  {session}  {task}{usage}")
}
