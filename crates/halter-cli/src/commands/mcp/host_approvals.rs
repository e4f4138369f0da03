//! Approvals of sessions that work for hosts: asked through the host.

use async_trait::async_trait;
use halter::ApprovalHandler;
use halter_mcp::server::HostLink;
use halter_protocol::{ApprovalAnswer, ApprovalRequest, SessionId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Knows which host each session works for.
#[derive(Default)]
pub struct HostApprovals {
    hosts: Mutex<HashMap<SessionId, HostLink>>,
}

impl HostApprovals {
    fn hosts(&self) -> MutexGuard<'_, HashMap<SessionId, HostLink>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a session ask a host until the guard is dropped. None if it works
    /// for one already.
    pub fn serve(self: &Arc<Self>, session_id: &SessionId, host: &HostLink) -> Option<ServedHost> {
        let mut hosts = self.hosts();
        if hosts.contains_key(session_id) {
            return None;
        }
        hosts.insert(session_id.clone(), host.clone());
        Some(ServedHost {
            approvals: self.clone(),
            session_id: session_id.clone(),
        })
    }
}

/// A session works for a host.
pub struct ServedHost {
    approvals: Arc<HostApprovals>,
    session_id: SessionId,
}

impl Drop for ServedHost {
    fn drop(&mut self) {
        self.approvals.hosts().remove(&self.session_id);
    }
}

#[async_trait]
impl ApprovalHandler for HostApprovals {
    async fn decide(&self, session_id: &SessionId, request: &ApprovalRequest) -> ApprovalAnswer {
        let host = self.hosts().get(session_id).cloned();
        match host {
            Some(host) => host.ask(Arc::new(request.clone())).await,
            None => ApprovalAnswer::deny("no host is there that could ask a person"),
        }
    }
}
