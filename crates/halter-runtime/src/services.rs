//! What sessions of a runtime share.

use crate::approvals::Approvals;
use crate::budget::SharedLedger;
use crate::clock::{Clock, SystemClock};
use crate::context::{ContextManager, StandardContext};
use crate::hub::{HubFactory, StandardHubs};
use crate::init::SessionInit;
use crate::instructions::InstructionSettings;
use crate::limits::{FORWARDED_EVENTS, KEPT_SNAPSHOT_BYTES};
use crate::prompt::{EnvironmentProbe, PromptAssembler, PromptSettings, StandardPromptAssembler};
use crate::toolset::{ToolDeferral, Toolset};
use halter_hooks::Hooks;
use halter_hooks::file::{HookOutside, NothingOutside};
use halter_protocol::{
    IdSource, OutputStyleDef, PromptSegment, ResourceSnapshot, SubagentEventForwarding, SystemIds,
};
use halter_providers::ModelRegistry;
use halter_session::{DurabilityPolicy, SessionStore, TraceRecorder};
use halter_tools::policy::{PolicyBinder, PolicySettings, RuleStore, StandardPolicies};
use halter_tools::{ExecBackend, LateTools, LocalExec, PathLockMap, ToolRuntime};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Everything a runtime is made of. Start from [`RuntimeServices::new`] and
/// replace what you need; every field has a default that works.
pub struct RuntimeServices {
    /// The models and who serves them.
    pub models: ModelRegistry,
    /// The tools of the harness; sessions may have fewer, and some of their
    /// own.
    pub tools: ToolRuntime,
    /// Which of them models are not sent until they ask.
    pub deferral: ToolDeferral,
    /// Tools that join while sessions run; without it, none does.
    pub late_tools: Option<Arc<LateTools>>,
    /// Where sessions are kept.
    pub store: Arc<dyn SessionStore>,
    /// What "durable" means for them.
    pub durability: DurabilityPolicy,
    /// What tools may do; sessions may narrow it.
    pub policy: PolicySettings,
    /// Makes what judges and opens doors for a session's tools.
    pub policies: Arc<dyn PolicyBinder>,
    /// Who is asked when policy or a hook wants a person to decide.
    pub approvals: Approvals,
    /// Where permission rules are kept that a person wants to hold for good;
    /// without one, `always` is not offered.
    pub rule_store: Option<Arc<dyn RuleStore>>,
    /// Files of the harness itself that no tool may touch.
    pub protected_paths: Vec<PathBuf>,
    /// The guidance sessions start from.
    pub prompts: PromptSettings,
    /// Makes system prompts.
    pub prompt_assembler: Arc<dyn PromptAssembler>,
    /// Instruction files such as `AGENTS.md`; without it, sessions have none.
    pub instructions: Option<InstructionSettings>,
    /// Decides what of a transcript requests hold.
    pub context_manager: Arc<dyn ContextManager>,
    /// What sessions may spend, and what they have spent.
    pub ledger: SharedLedger,
    /// Looks at a session's surroundings.
    pub probe: EnvironmentProbe,
    /// Where private scratch directories of sessions are made.
    pub scratch_root: PathBuf,
    /// Where commands of sessions run.
    pub exec: Arc<dyn ExecBackend>,
    /// The environment commands of sessions start with.
    pub base_environment: Arc<BTreeMap<OsString, OsString>>,
    /// What handlers of hook files reach the outside by.
    pub hook_outside: Arc<dyn HookOutside>,
    /// Whether event streams carry the events of subagents, where a session says
    /// nothing else.
    pub subagent_event_forwarding: SubagentEventForwarding,
    /// How many events of subagents one turn forwards; 0: no limit.
    pub subagent_event_forwarding_cap: u64,
    /// Carries events to subscribers.
    pub hubs: Arc<dyn HubFactory>,
    /// What writes live traces, if anything does.
    pub traces: Option<TraceRecorder>,
    /// The clock of events.
    pub clock: Arc<dyn Clock>,
    /// The source of ids.
    pub ids: Arc<dyn IdSource>,
    /// Skills and hooks; replaceable while sessions live.
    pub resources: ResourceCell,
    /// Locks on files, shared by all sessions.
    pub path_locks: Arc<PathLockMap>,
    shared: Shared,
}

/// What is the same for all sessions and made once, with the first of them.
#[derive(Default)]
struct Shared {
    toolset: OnceLock<Arc<Toolset>>,
    guidance: OnceLock<Vec<PromptSegment>>,
    snapshot_text: Mutex<Option<SnapshotText>>,
}

/// The resources in force as logs keep them, made once for all sessions.
struct SnapshotText {
    of: Arc<ResourceSnapshot>,
    text: Option<Arc<str>>,
}

impl RuntimeServices {
    /// Services without tools, hooks, skills or instruction files. Scratch directories are made
    /// under `scratch_root`.
    pub fn new(
        models: ModelRegistry,
        store: Arc<dyn SessionStore>,
        scratch_root: impl Into<PathBuf>,
    ) -> Self {
        Self {
            models,
            tools: ToolRuntime::new(),
            deferral: ToolDeferral::Off,
            late_tools: None,
            store,
            durability: DurabilityPolicy::default(),
            policy: PolicySettings::default(),
            policies: Arc::new(StandardPolicies),
            approvals: Approvals::default(),
            rule_store: None,
            protected_paths: Vec::new(),
            prompts: PromptSettings::default(),
            prompt_assembler: Arc::new(StandardPromptAssembler),
            instructions: None,
            context_manager: Arc::new(StandardContext::default()),
            ledger: SharedLedger::default(),
            probe: EnvironmentProbe::default(),
            scratch_root: scratch_root.into(),
            exec: Arc::new(LocalExec),
            base_environment: Arc::default(),
            hook_outside: Arc::new(NothingOutside),
            subagent_event_forwarding: SubagentEventForwarding::Off,
            subagent_event_forwarding_cap: FORWARDED_EVENTS,
            hubs: Arc::new(StandardHubs),
            traces: None,
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
            resources: ResourceCell::default(),
            path_locks: Arc::new(PathLockMap::new()),
            shared: Shared::default(),
        }
    }

    /// The tools of sessions that ask for no others.
    pub fn toolset(&self) -> Arc<Toolset> {
        let toolset = || {
            let grows = self.late_tools.is_some();
            Arc::new(Toolset::new(
                self.tools.clone(),
                self.deferral.clone(),
                grows,
            ))
        };
        self.shared.toolset.get_or_init(toolset).clone()
    }

    /// Resources as a log keeps them; none if they are larger than
    /// [`KEPT_SNAPSHOT_BYTES`].
    pub(crate) fn kept_text(&self, of: &Arc<ResourceSnapshot>) -> Option<Arc<str>> {
        let cell = &self.shared.snapshot_text;
        let mut known = cell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|it| Arc::ptr_eq(&it.of, of)) {
            return known.text.clone();
        }
        let text = serde_json::to_string(of.as_ref()).ok();
        let text = text.filter(|text| text.len() <= KEPT_SNAPSHOT_BYTES);
        let text: Option<Arc<str>> = text.map(Arc::from);
        let of = of.clone();
        *known = Some(SnapshotText {
            of,
            text: text.clone(),
        });
        text
    }

    /// The guidance of a session.
    pub(crate) fn guidance(&self, init: &SessionInit) -> Vec<PromptSegment> {
        let own_prompt = init.system_prompt.as_deref();
        if own_prompt.is_none() && init.append_system_prompt.is_empty() {
            let common = || self.prompts.segments(None, &[]);
            return self.shared.guidance.get_or_init(common).clone();
        }
        self.prompts
            .segments(own_prompt, &init.append_system_prompt)
    }

    /// All that no tool may touch now.
    pub fn protected(&self) -> Vec<PathBuf> {
        self.protected_with(&self.resources.get())
    }

    /// All that no tool may touch while `resources` are in force.
    pub(crate) fn protected_with(&self, resources: &Resources) -> Vec<PathBuf> {
        [&self.protected_paths[..], &resources.protected].concat()
    }
}

/// Skills and hooks in force, replaced as one.
#[derive(Debug, Default)]
pub struct Resources {
    /// The skills and plugins.
    pub snapshot: Arc<ResourceSnapshot>,
    /// The output style that all sessions start from.
    pub style: Option<OutputStyleDef>,
    /// The hooks.
    pub hooks: Arc<Hooks>,
    /// What the user should know about them.
    pub warnings: Vec<String>,
    /// Files that no tool may touch while these are in force, beside those of
    /// the services: what came with hooks after the runtime was made.
    pub protected: Vec<PathBuf>,
}

/// The resources of a runtime; sessions take them up at their next turn.
#[derive(Debug, Default)]
pub struct ResourceCell(RwLock<Arc<Resources>>);

impl ResourceCell {
    /// A cell that holds `resources`.
    pub fn new(resources: Resources) -> Self {
        Self(RwLock::new(Arc::new(resources)))
    }

    /// What is in force.
    pub fn get(&self) -> Arc<Resources> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Puts others in force.
    pub fn replace(&self, resources: Resources) {
        self.set(Arc::new(resources));
    }

    pub(crate) fn set(&self, resources: Arc<Resources>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = resources;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::SkillDef;
    use halter_session::InMemorySessionStore;

    #[test]
    fn resources_are_kept_up_to_a_size() {
        let store = Arc::new(InMemorySessionStore::new());
        let services = RuntimeServices::new(ModelRegistry::default(), store, "/tmp");
        let with_body = |bytes: usize| {
            let mut snapshot = ResourceSnapshot::empty();
            let body = "x".repeat(bytes);
            let skill = SkillDef::new("skl", "s", "d", "/s/SKILL.md", body);
            snapshot.skills.insert(skill.name.clone(), skill);
            Arc::new(snapshot)
        };
        let frame = services.kept_text(&with_body(0)).unwrap().len();
        let fits = with_body(KEPT_SNAPSHOT_BYTES - frame);
        let text = services.kept_text(&fits).unwrap();
        assert_eq!(text.len(), KEPT_SNAPSHOT_BYTES);
        let again = services.kept_text(&fits).unwrap();
        assert!(Arc::ptr_eq(&text, &again), "made once for all sessions");
        let above = with_body(KEPT_SNAPSHOT_BYTES - frame + 1);
        assert_eq!(services.kept_text(&above), None);
    }
}
