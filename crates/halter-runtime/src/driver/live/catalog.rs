//! What the engine asks about the tools and hooks in force.

use crate::engine::{Catalog, HookPointKind, ToolTraits};
use crate::services::{ResourceCell, Resources, RuntimeServices};
use halter_hooks::HookEventName;
use halter_protocol::{ToolCall, ToolError};
use std::sync::Arc;

/// The tools of the runtime and the hooks a session has taken up.
pub(crate) struct LiveCatalog {
    services: Arc<RuntimeServices>,
    resources: ResourceCell,
}

impl LiveCatalog {
    pub fn new(services: Arc<RuntimeServices>, resources: Arc<Resources>) -> Self {
        let cell = ResourceCell::default();
        cell.set(resources);
        Self {
            services,
            resources: cell,
        }
    }

    /// Takes up other hooks.
    pub fn take_up(&self, resources: Arc<Resources>) {
        self.resources.set(resources);
    }
}

impl Catalog for LiveCatalog {
    fn traits_of(&self, tool: &str) -> Option<ToolTraits> {
        self.services.tools.spec(tool).map(|spec| ToolTraits {
            concurrency: spec.concurrency,
            capabilities: spec.capabilities,
        })
    }

    fn validate(&self, call: &ToolCall) -> Result<(), ToolError> {
        self.services.tools.validate(call)
    }

    fn is_polling(&self, call: &ToolCall) -> bool {
        self.services
            .tools
            .get(call.name.as_str())
            .is_some_and(|tool| tool.is_polling(&call.arguments))
    }

    fn has_hooks(&self, point: HookPointKind) -> bool {
        self.resources.get().hooks.listens_to(event_name(point))
    }
}

pub(super) fn event_name(point: HookPointKind) -> HookEventName {
    match point {
        HookPointKind::SessionStart => HookEventName::SessionStart,
        HookPointKind::SessionEnd => HookEventName::SessionEnd,
        HookPointKind::UserPromptSubmit => HookEventName::UserPromptSubmit,
        HookPointKind::PreToolUse => HookEventName::PreToolUse,
        HookPointKind::PostToolUse => HookEventName::PostToolUse,
        HookPointKind::PostToolUseFailure => HookEventName::PostToolUseFailure,
        HookPointKind::Notification => HookEventName::Notification,
        HookPointKind::Stop => HookEventName::Stop,
    }
}
