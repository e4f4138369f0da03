//! The tools of a session.

use crate::engine::LateTool;
use crate::error::HalterError;
use crate::limits::{AUTO_DEFERRED_BYTES, LATE_SUMMARY_BYTES};
use async_trait::async_trait;
use halter_protocol::limits::TOLD_TOOLS;
use halter_protocol::{Revision, SessionBounds, ToolName, ToolSpec};
use halter_session::BlobHash;
use halter_tools::{
    AgentTypeLine, DeferredTool, LateToolSet, LateTools, TOOL_SEARCH, Tool, ToolDirectory,
    ToolRuntime, tool_search,
};
use std::sync::Arc;

/// Which tools models are not sent until they ask for them with `tool_search`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolDeferral {
    /// Those that say of themselves to be rare, where that saves more than it
    /// costs.
    #[default]
    Auto,
    /// These.
    Only(Vec<ToolName>),
    /// None but those that join late.
    Off,
}

/// Tools, as models are told of them.
#[derive(Debug, Clone)]
pub struct Toolset {
    /// All tools and how calls reach them.
    pub tools: ToolRuntime,
    /// The specs that every request holds, shared by all of them.
    pub specs: Arc<[ToolSpec]>,
    /// The specs of all tools that may be called.
    pub callable: Arc<[ToolSpec]>,
    /// The tools that are sent once they are loaded.
    pub deferred: Arc<[DeferredTool]>,
    /// Those that joined late, which are deferred, too.
    pub late: Arc<[LateTool]>,
    /// Names what every request holds: equal for equal tools.
    pub revision: Revision,
    deferral: ToolDeferral,
    /// Tools may join late.
    grows: bool,
}

impl Toolset {
    /// The set of these tools, to which others may be added late.
    pub fn new(tools: ToolRuntime, deferral: ToolDeferral, grows: bool) -> Self {
        let mut tools = tools.only(|name| name.as_str() != TOOL_SEARCH);
        let deferred = deferred(&tools, &deferral);
        if grows || !deferred.is_empty() {
            tools.register(tool_search(&deferred));
        }
        let is_deferred = |spec: &ToolSpec| deferred.iter().any(|it| it.spec.name == spec.name);
        let callable: Arc<[ToolSpec]> = tools.sent_specs().into();
        let sent = callable.iter().filter(|spec| !is_deferred(spec));
        let specs: Arc<[ToolSpec]> = sent.cloned().collect();
        let written = serde_json::to_vec(&*specs).unwrap_or_default();
        Self {
            tools,
            specs,
            callable,
            deferred: deferred.into(),
            late: Arc::default(),
            revision: Revision(BlobHash::of(&written).to_string()),
            deferral,
            grows,
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
        let mut tools = harness.tools.only(|name| allows(bounds, name));
        for tool in own {
            tools.register(tool.clone());
        }
        let deferral = harness.deferral.clone();
        Arc::new(Self::new(tools, deferral, harness.grows))
    }

    /// The same set with these tools beside its own, and what the user should
    /// know of those that are left out. What requests begin with stays.
    pub(crate) fn with_late(
        &self,
        late: &LateToolSet,
        bounds: &SessionBounds,
    ) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        let mut set = Self {
            late: Arc::default(),
            ..self.clone()
        };
        let mut joined: Vec<LateTool> = Vec::new();
        for (source, tool) in late.tools() {
            let spec = tool.spec();
            if !allows(bounds, &spec.name) {
                continue;
            }
            let name = spec.name.clone();
            if set.tools.spec(name.as_str()).is_some() {
                warnings.push(format!(
                    "the tool '{name}' of '{source}' is left out: there is another of that name"
                ));
                continue;
            }
            if joined.len() >= TOLD_TOOLS {
                warnings.push(format!(
                    "tools of '{source}' are left out: {TOLD_TOOLS} may join a session"
                ));
                break;
            }
            set.tools.register(tool.clone());
            joined.extend(set.tools.deferred(name.as_str()).map(late_tool));
        }
        set.late = joined.into();
        (set, warnings)
    }

    /// The same set without those that joined late.
    pub(crate) fn without_late(&self) -> Self {
        let is_late = |name: &ToolName| self.late.iter().any(|tool| tool.spec.name == *name);
        Self {
            tools: self.tools.only(|name| !is_late(name)),
            late: Arc::default(),
            ..self.clone()
        }
    }

    /// A deferred tool, as a model that calls it is sent it.
    pub(crate) fn deferred_spec(&self, name: &ToolName) -> Option<Arc<ToolSpec>> {
        let deferred = self.deferred.iter().map(|tool| &tool.spec);
        let mut all = deferred.chain(self.late.iter().map(|tool| &tool.spec));
        all.find(|spec| spec.name == *name).cloned()
    }

    /// The same tools for a session with these types of subagents.
    pub(crate) fn with_agent_types(self: &Arc<Self>, types: &[AgentTypeLine]) -> Arc<Self> {
        let own = self.without_late();
        let mut adapted = own.tools.clone();
        let mut changed = false;
        let names: Vec<ToolName> = own.tools.names().cloned().collect();
        for name in names {
            let tool = self.tools.get(name.as_str());
            let fitting = tool.and_then(|it| it.for_agent_types(types));
            if let Some(fitting) = fitting
                && self.tools.spec(name.as_str()) != Some(&fitting.spec())
            {
                adapted.register(fitting);
                changed = true;
            }
        }
        match changed {
            true => Arc::new(Self::new(adapted, self.deferral.clone(), self.grows)),
            false => self.clone(),
        }
    }

    /// These of its tools, without those that joined late: whoever has the set
    /// takes them up by itself.
    pub(crate) fn only(&self, names: &[ToolName]) -> Arc<Self> {
        let own = self.without_late();
        let kept = own.tools.only(|name| names.contains(name));
        Arc::new(Self::new(kept, self.deferral.clone(), self.grows))
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

fn allows(bounds: &SessionBounds, name: &ToolName) -> bool {
    bounds.tools.as_ref().is_none_or(|it| it.contains(name))
}

fn deferred(tools: &ToolRuntime, deferral: &ToolDeferral) -> Vec<DeferredTool> {
    let is_wanted = |name: &ToolName| match deferral {
        ToolDeferral::Auto => tools.get(name.as_str()).is_some_and(|tool| tool.is_rare()),
        ToolDeferral::Only(names) => names.contains(name),
        ToolDeferral::Off => false,
    };
    let wanted = tools.names().filter(|name| is_wanted(name));
    let deferred: Vec<DeferredTool> = wanted
        .filter_map(|name| tools.deferred(name.as_str()))
        .collect();
    let bytes = deferred.iter().map(|tool| bytes_of(&tool.spec));
    if *deferral == ToolDeferral::Auto && bytes.sum::<usize>() <= AUTO_DEFERRED_BYTES {
        return Vec::new();
    }
    deferred
}

fn bytes_of(spec: &ToolSpec) -> usize {
    spec.description.len() + spec.input_schema.to_string().len()
}

fn late_tool(tool: DeferredTool) -> LateTool {
    let DeferredTool {
        spec, mut summary, ..
    } = tool;
    summary.truncate(summary.floor_char_boundary(LATE_SUMMARY_BYTES));
    let written = serde_json::to_vec(&spec).unwrap_or_default();
    LateTool {
        spec,
        summary,
        revision: Revision(BlobHash::of(&written).to_string()),
    }
}

/// The deferred tools of a session, for its `tool_search`.
pub(crate) struct SessionDirectory {
    pub tools: Arc<Toolset>,
    pub late: Option<Arc<LateTools>>,
    pub bounds: SessionBounds,
}

#[async_trait]
impl ToolDirectory for SessionDirectory {
    fn deferred(&self) -> Vec<DeferredTool> {
        // Tools may have joined since the call started.
        let now = self.late.as_ref().map(|late| {
            let own = self.tools.without_late();
            own.with_late(&late.current(), &self.bounds).0
        });
        let now = now.as_ref().unwrap_or(&self.tools);
        let late = now.late.iter().map(|tool| {
            let served = now.tools.get(tool.spec.name.as_str());
            DeferredTool {
                spec: tool.spec.clone(),
                summary: tool.summary.clone(),
                instructions: served.and_then(|it| it.source_instructions()),
            }
        });
        self.tools.deferred.iter().cloned().chain(late).collect()
    }

    fn sent(&self) -> Vec<ToolName> {
        let sent = self.tools.specs.iter();
        sent.map(|spec| spec.name.clone()).collect()
    }

    fn starting(&self) -> Vec<String> {
        let current = self.late.as_ref().map(|late| late.current());
        let starting = current.iter().flat_map(|set| set.starting());
        starting.map(str::to_owned).collect()
    }

    fn problems(&self) -> Vec<String> {
        let current = self.late.as_ref().map(|late| late.current());
        let problems = current.iter().flat_map(|set| set.problems());
        problems.map(str::to_owned).collect()
    }

    async fn waits(&self, starting: usize) -> bool {
        match &self.late {
            Some(late) => late.waits(starting).await,
            None => false,
        }
    }
}
