//! The tools of a session.

use crate::error::HalterError;
use halter_protocol::{Revision, SessionBounds, ToolName, ToolSpec};
use halter_session::BlobHash;
use halter_tools::{Tool, ToolRuntime};
use std::sync::Arc;

/// Tools, as models are told of them.
#[derive(Debug, Clone)]
pub struct Toolset {
    /// The tools and how calls reach them.
    pub tools: ToolRuntime,
    /// Their specs, shared by all requests.
    pub specs: Arc<[ToolSpec]>,
    /// Names them: equal for equal tools.
    pub revision: Revision,
}

impl Toolset {
    /// The set of these tools.
    pub fn new(tools: ToolRuntime) -> Self {
        let specs: Arc<[ToolSpec]> = tools.specs().into();
        let written = serde_json::to_vec(&*specs).unwrap_or_default();
        Self {
            tools,
            specs,
            revision: Revision(BlobHash::of(&written).to_string()),
        }
    }

    /// The tools of a session: those of its harness that its bounds name, and
    /// its own.
    pub(crate) fn of_session(
        harness: &Arc<Self>,
        bounds: &SessionBounds,
        own: &[Arc<dyn Tool>],
    ) -> Arc<Self> {
        if bounds.tools.is_none() && own.is_empty() {
            return harness.clone();
        }
        let kept = |name: &ToolName| bounds.tools.as_ref().is_none_or(|it| it.contains(name));
        let mut tools = harness.tools.only(kept);
        for tool in own {
            tools.register(tool.clone());
        }
        Arc::new(Self::new(tools))
    }

    /// Checks that the harness has the tools that bounds name.
    pub(crate) fn check(&self, bounds: &SessionBounds) -> Result<(), HalterError> {
        for name in bounds.tools.iter().flatten() {
            if self.tools.spec(name.as_str()).is_none() {
                return Err(crate::bounds::exceeds("tool", name.as_str()));
            }
        }
        Ok(())
    }
}
