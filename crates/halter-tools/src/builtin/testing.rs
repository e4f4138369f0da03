//! What the tests within this crate need of a session.

use crate::context::{MemoryChanges, NoEarlierMessages, NoopToolEventSink, ToolContext};
use crate::{NoDeferredTools, NobodyToAsk, PathLockMap, ScratchDir, ToolSessionStore};
use halter_policy::{PolicySettings, SessionScope, StandardPolicy};
use halter_protocol::ResourceSnapshot;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A call of a session in this directory.
pub(super) fn context(directory: &Path) -> ToolContext {
    let scope = SessionScope {
        working_dir: directory.to_owned(),
        ..SessionScope::default()
    };
    let policy = StandardPolicy::bind(PolicySettings::default(), scope).unwrap();
    let scratch = ScratchDir::new(directory.join("no-scratch"));
    ToolContext {
        session_id: "ses_test".into(),
        call_id: "call_test".into(),
        working_dir: directory.to_owned(),
        path_locks: Arc::new(PathLockMap::new()),
        memory: Arc::default(),
        remembered: MemoryChanges::default(),
        earlier: Arc::new(NoEarlierMessages),
        tool_sessions: Arc::new(ToolSessionStore::new(scratch)),
        asker: Arc::new(NobodyToAsk),
        hosts: None,
        tools: Arc::new(NoDeferredTools),
        snapshot: Arc::new(ResourceSnapshot::empty()),
        cancel: CancellationToken::new(),
        emit: Arc::new(NoopToolEventSink),
        policy: Arc::new(policy),
        subagents: None,
        models: None,
        shell_timeout_secs: 1,
    }
}
