//! Looking at the hooks of a harness, and trying those of an event.

use crate::harness::Halter;
use halter_hooks::{
    HookDispatch, HookEventName, HookListing, HookObserver, HookVerdict, SessionHooks,
};
use halter_protocol::public_tools::{our_input, our_tool_name};
use halter_protocol::{HookRunSummary, Timestamp};
use halter_resources::project_top;
use halter_runtime::frontmatter_hooks;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// What hooks did when they were tried.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HookTrial {
    /// The runs, in the order they ended.
    pub runs: Vec<HookRunSummary>,
    /// What they add up to.
    pub verdict: HookVerdict,
}

impl Halter {
    /// The hooks in force, in the order they run, and those that come into
    /// force with a skill or an agent.
    pub fn hooks(&self) -> Vec<HookListing> {
        let resources = self.runtime().services().resources.get();
        let (scoped, _) = frontmatter_hooks(&resources.snapshot);
        let scoped = resources.hooks.admitted(&scoped);
        let scoped = scoped.listings().map(|mut hook| {
            hook.with = Some(hook.owner.to_string());
            hook
        });
        resources.hooks.listings().chain(scoped).collect()
    }

    /// What is amiss with resources and hook files, in words.
    pub fn resource_warnings(&self) -> Vec<String> {
        self.runtime().services().resources.get().warnings.clone()
    }

    /// Runs the hooks of an event as a session in a directory would, without
    /// one. `payload` has the fields of the event, with the names of public
    /// files or ours; what is missing of those that every event has is filled
    /// in.
    pub async fn try_hooks(
        &self,
        event: HookEventName,
        payload: Map<String, Value>,
        directory: &Path,
    ) -> HookTrial {
        let services = self.runtime().services();
        let resources = services.resources.get();
        let seen = Seen::default();
        let clock = || services.clock.now();
        let context = HookDispatch {
            session: &SessionHooks::new(),
            fired: &BTreeSet::new(),
            ids: services.ids.as_ref(),
            clock: &clock as &(dyn Fn() -> Timestamp + Send + Sync),
            cancel: &CancellationToken::new(),
            observer: &seen,
            cwd: directory,
            project_dir: project_top(directory),
            outside: &services.hook_outside,
        };
        let payload = self.completed(event, payload, directory);
        let hooks = &resources.hooks;
        let verdict = hooks.dispatch(event, payload, None, context).await;
        let runs = seen.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        HookTrial { runs, verdict }
    }

    fn completed(
        &self,
        event: HookEventName,
        mut payload: Map<String, Value>,
        directory: &Path,
    ) -> Value {
        let tool = payload.get("tool_name").and_then(Value::as_str);
        let tool = tool.map(|name| our_tool_name(name).to_owned());
        if let Some(tool) = tool {
            let input = payload.remove("tool_input").unwrap_or_else(|| json!({}));
            let input = our_input(&tool, input, &Value::Null, directory);
            payload.insert("tool_input".to_owned(), input);
            payload.insert("tool_name".to_owned(), tool.into());
        }
        let mode = self.runtime().services().policy.permissions.mode;
        for (name, value) in [
            ("hook_event_name", json!(event.as_str())),
            ("session_id", json!("ses_trial")),
            ("cwd", json!(directory)),
            ("permission_mode", json!(mode)),
        ] {
            payload.entry(name).or_insert(value);
        }
        Value::Object(payload)
    }
}

/// Remembers the runs that ended.
#[derive(Default)]
struct Seen(Mutex<Vec<HookRunSummary>>);

impl HookObserver for Seen {
    fn started(&self, _run: &HookRunSummary) {}

    fn completed(&self, run: &HookRunSummary) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push(run.clone());
    }
}
