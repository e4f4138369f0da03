//! A session's worth of context, and an observer that remembers.

use halter_hooks::file::{HookOutside, NothingOutside};
use halter_hooks::{
    Hook, HookDispatch, HookEventName, HookObserver, HookVerdict, Hooks, RegisteredHookPriority,
    SessionHooks,
};
use halter_protocol::{HookRunStatus, HookRunSummary, SeededIds, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

pub struct World {
    pub session: SessionHooks,
    pub fired: BTreeSet<String>,
    pub cancel: CancellationToken,
    pub seen: Recorder,
    pub cwd: PathBuf,
    pub project_dir: PathBuf,
    pub outside: Arc<dyn HookOutside>,
    pub ids: SeededIds,
    ticks: AtomicI64,
}

impl World {
    pub fn new() -> Self {
        Self {
            session: SessionHooks::new(),
            fired: BTreeSet::new(),
            cancel: CancellationToken::new(),
            seen: Recorder::default(),
            cwd: PathBuf::from("/"),
            project_dir: PathBuf::from("/"),
            outside: Arc::new(NothingOutside),
            ids: SeededIds::new(1),
            ticks: AtomicI64::new(0),
        }
    }

    /// Each look at the clock is a second later than the one before.
    pub async fn dispatch(
        &self,
        hooks: &Hooks,
        event: HookEventName,
        payload: Value,
    ) -> HookVerdict {
        let clock = || {
            let tick = self.ticks.fetch_add(1, Ordering::Relaxed);
            Timestamp::from_second(tick).unwrap()
        };
        let context = HookDispatch {
            session: &self.session,
            fired: &self.fired,
            ids: &self.ids,
            clock: &clock,
            cancel: &self.cancel,
            observer: &self.seen,
            cwd: &self.cwd,
            project_dir: &self.project_dir,
            outside: &self.outside,
        };
        hooks.dispatch(event, payload, None, context).await
    }

    pub async fn pre_tool_use(&self, hooks: &Hooks) -> HookVerdict {
        self.dispatch(hooks, HookEventName::PreToolUse, call("shell"))
            .await
    }
}

pub fn call(tool: &str) -> Value {
    json!({"tool_name": tool, "tool_input": {"command": "ls"}, "tool_use_id": "call_1"})
}

/// Registers under the plugins `p0`, `p1`, … so that each id tells its hook.
pub fn hooks(list: impl IntoIterator<Item = Hook>) -> Hooks {
    prioritized(
        list.into_iter()
            .map(|hook| (RegisteredHookPriority::AfterPlugins, hook)),
    )
}

pub fn prioritized(list: impl IntoIterator<Item = (RegisteredHookPriority, Hook)>) -> Hooks {
    let mut hooks = Hooks::new();
    for (index, (priority, hook)) in list.into_iter().enumerate() {
        hooks
            .register(format!("p{index}").into(), priority, hook)
            .unwrap();
    }
    hooks
}

#[derive(Default)]
pub struct Recorder {
    started: Mutex<Vec<HookRunSummary>>,
    completed: Mutex<Vec<HookRunSummary>>,
}

impl Recorder {
    pub fn started(&self) -> Vec<HookRunSummary> {
        self.started.lock().unwrap().clone()
    }

    pub fn completed(&self) -> Vec<HookRunSummary> {
        self.completed.lock().unwrap().clone()
    }

    pub fn statuses(&self) -> Vec<(String, HookRunStatus)> {
        self.completed()
            .into_iter()
            .map(|run| (run.hook_id, run.status))
            .collect()
    }

    pub fn words(&self) -> Vec<String> {
        self.completed()
            .into_iter()
            .flat_map(|run| run.entries)
            .map(|entry| format!("{}: {}", entry.kind, entry.text))
            .collect()
    }
}

impl HookObserver for Recorder {
    fn started(&self, run: &HookRunSummary) {
        self.started.lock().unwrap().push(run.clone());
    }

    fn completed(&self, run: &HookRunSummary) {
        self.completed.lock().unwrap().push(run.clone());
    }
}
