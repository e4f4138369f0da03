//! The hooks of a harness, in order, each with a stable id.

use crate::condition::Condition;
use crate::error::HookError;
use crate::event::HookEventName;
use crate::file::{HookLayer, HookOrigin, ParsedHooks};
use crate::hook::Hook;
use crate::limits::{MAX_HOOKS, MAX_TIMEOUT};
use crate::warning::HookWarning;
use halter_protocol::{HookHandlerType, PluginId};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// When an in-process hook runs, relative to the hooks of plugins. Hooks of a
/// later priority see what those of an earlier one rewrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum RegisteredHookPriority {
    /// Before the hooks of plugins: a rewrite of theirs loses against this
    /// one's.
    BeforePlugins,
    /// After the hooks of plugins.
    #[default]
    AfterPlugins,
}

/// When hooks run: those of a program around those of files, and these by
/// whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RunOrder {
    BeforePlugins,
    File(HookLayer),
    AfterPlugins,
}

/// Which hooks of files do not run because a file says `disableAllHooks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum SwitchedOff {
    #[default]
    Nothing,
    /// Those of projects: what a project says is about its own.
    OfProjects,
    /// All of them.
    OfFiles,
}

impl SwitchedOff {
    /// What a file that says so switches off; none if it is not its business.
    fn by(origin: &HookOrigin) -> Option<Self> {
        match origin.layer {
            HookLayer::User => Some(Self::OfFiles),
            HookLayer::Project => Some(Self::OfProjects),
            HookLayer::Plugin => None,
        }
    }

    /// Hooks of a program always run.
    fn covers(self, hook: &Hook) -> bool {
        hook.file().is_some_and(|file| match self {
            Self::Nothing => false,
            Self::OfProjects => file.origin.project_dir.is_some(),
            Self::OfFiles => true,
        })
    }
}

impl From<RegisteredHookPriority> for RunOrder {
    fn from(priority: RegisteredHookPriority) -> Self {
        match priority {
            RegisteredHookPriority::BeforePlugins => Self::BeforePlugins,
            RegisteredHookPriority::AfterPlugins => Self::AfterPlugins,
        }
    }
}

/// A hook of a registry, for people to read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookListing {
    /// Names the hook in events.
    pub id: String,
    /// Its event.
    pub event: HookEventName,
    /// Who registered it.
    pub owner: PluginId,
    /// What kind of handler it has.
    pub handler_type: HookHandlerType,
    /// Where it is written; absent for a hook of a program.
    pub place: Option<String>,
    /// Whose file that is.
    pub layer: Option<HookLayer>,
    /// The skill or agent with which it comes into force; absent: it always is.
    pub with: Option<String>,
    /// What it is for, as written; absent: everything.
    pub matcher: Option<String>,
    /// The rule of its `if`.
    pub condition: Option<String>,
    /// What it runs; absent for a hook of a program.
    pub runs: Option<String>,
    /// How long it may run.
    pub timeout: Duration,
    /// It runs at most once in a session.
    pub once: bool,
    /// It runs beside the turn and decides nothing.
    pub runs_beside: bool,
}

/// The hooks of a harness. Cheap to clone.
///
/// Hooks run by priority, then in the order they were registered. A hook's id
/// is `plugin/event/index`, counting the hooks of that plugin and event, so it
/// is the same in every process that registers the same hooks.
///
/// ```
/// use halter_hooks::{Hook, HookEventName, HookResponse, Hooks, RegisteredHookPriority};
/// use halter_protocol::PluginId;
///
/// let mut hooks = Hooks::new();
/// let id = hooks.register(
///     PluginId::from("sdk-policy"),
///     RegisteredHookPriority::default(),
///     Hook::callback(HookEventName::Stop, |_| async { HookResponse::passthrough() }),
/// )?;
/// assert_eq!(id, "sdk-policy/Stop/0");
/// # Ok::<(), halter_hooks::HookError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Hooks {
    /// Sorted by priority, then registration.
    entries: Vec<Arc<RegisteredHook>>,
    off: SwitchedOff,
}

#[derive(Debug)]
pub(crate) struct RegisteredHook {
    pub id: String,
    pub plugin_id: PluginId,
    pub order: RunOrder,
    pub matcher: Option<Regex>,
    pub condition: Option<Condition>,
    pub hook: Arc<Hook>,
}

impl RegisteredHook {
    /// Whether the hook is for this payload, as rewritten so far.
    pub fn is_for(&self, payload: &Value, cwd: &Path) -> bool {
        if let Some(file) = self.hook.file() {
            let condition = file.condition.as_ref();
            return file.matcher.means_call(self.hook.event, payload)
                && condition.is_none_or(|condition| condition.holds(payload, cwd));
        }
        self.condition
            .as_ref()
            .is_none_or(|condition| condition.holds(payload))
    }

    pub fn applies_to(&self, event: HookEventName, matcher_value: Option<&str>) -> bool {
        // Nothing to compare with: a guard runs rather than not.
        let Some(value) = matcher_value else {
            return self.hook.event == event;
        };
        self.hook.event == event
            && match (self.hook.file(), &self.matcher) {
                (Some(file), _) => file.matcher.matches(event, value, None),
                (None, Some(pattern)) => pattern.is_match(value),
                (None, None) => true,
            }
    }

    fn listing(&self) -> HookListing {
        let file = self.hook.file();
        HookListing {
            id: self.id.clone(),
            event: self.hook.event,
            owner: self.plugin_id.clone(),
            handler_type: self.hook.handler_type(),
            place: file.map(|file| file.origin.place.clone()),
            layer: file.map(|file| file.origin.layer),
            with: None,
            matcher: match file {
                Some(file) => file.matcher_text.clone(),
                None => self.hook.matcher.clone(),
            },
            condition: match file {
                Some(file) => file.condition.as_ref().map(ToString::to_string),
                None => self.hook.condition.clone(),
            },
            runs: file.map(|file| file.describe()),
            timeout: self.hook.timeout,
            once: self.hook.once,
            runs_beside: file.is_some_and(|file| file.runs_beside),
        }
    }
}

impl Hooks {
    /// No hooks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a hook after those of its priority and returns its id.
    ///
    /// # Errors
    /// If its matcher is not a regular expression or has nothing to match, its
    /// condition cannot be used, its timeout is out of range, or the registry is full.
    pub fn register(
        &mut self,
        plugin_id: PluginId,
        priority: RegisteredHookPriority,
        hook: Hook,
    ) -> Result<String, HookError> {
        self.insert(plugin_id, priority.into(), Arc::new(hook))
    }

    /// Adds the hooks of a file, and says what of it is not used: what reading
    /// it found, and hooks that found no room.
    pub fn add_file(&mut self, parsed: ParsedHooks) -> Vec<HookWarning> {
        let ParsedHooks {
            origin,
            hooks,
            switches_off,
            mut warnings,
        } = parsed;
        if switches_off {
            let place = origin.place.clone();
            match SwitchedOff::by(&origin) {
                Some(off) => {
                    self.switch_off(off);
                    let of_project = off == SwitchedOff::OfProjects;
                    warnings.push(HookWarning::SwitchedOff { place, of_project });
                }
                None => warnings.push(HookWarning::NotAsWritten {
                    place,
                    at: "disableAllHooks".to_owned(),
                    reason: "it has no effect: it is for files of the user or of a project"
                        .to_owned(),
                }),
            }
        }
        for hook in hooks {
            if self.off.covers(&hook) {
                continue;
            }
            let order = RunOrder::File(origin.layer);
            if let Err(error) = self.insert(origin.owner.clone(), order, Arc::new(hook)) {
                warnings.push(HookWarning::FileRefused {
                    place: origin.place.clone(),
                    reason: error.to_string(),
                });
                break;
            }
        }
        warnings
    }

    /// These hooks and, after those of the same priority, the others'.
    ///
    /// # Errors
    /// If they are too many together.
    pub fn merged(&self, others: &Self) -> Result<Self, HookError> {
        let mut all = self.clone();
        all.switch_off(others.off);
        for other in &others.entries {
            if all.off.covers(&other.hook) {
                continue;
            }
            all.insert(other.plugin_id.clone(), other.order, other.hook.clone())?;
        }
        Ok(all)
    }

    /// Those of the others that would run beside these: no file has switched
    /// them off.
    #[must_use]
    pub fn admitted(&self, others: &Self) -> Self {
        let mut admitted = others.clone();
        admitted.switch_off(self.off);
        admitted
    }

    /// The hooks of some events.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(HookEventName) -> bool) -> Self {
        let entries = self.entries.iter();
        let entries = entries.filter(|entry| wanted(entry.hook.event));
        Self {
            entries: entries.cloned().collect(),
            off: self.off,
        }
    }

    /// From now on, no matter what joins.
    fn switch_off(&mut self, off: SwitchedOff) {
        self.off = self.off.max(off);
        self.entries.retain(|entry| !self.off.covers(&entry.hook));
    }

    /// The hooks as they hold in a subagent, whose work ends with the event
    /// `SubagentStop`: those for `Stop` run then.
    #[must_use]
    pub fn for_subagent(&self) -> Self {
        let mut hooks = Self {
            off: self.off,
            ..Self::new()
        };
        for entry in &self.entries {
            let mut hook = entry.hook.clone();
            if hook.event == HookEventName::Stop {
                Arc::make_mut(&mut hook).event = HookEventName::SubagentStop;
            }
            // There is room: they are as many as before.
            let _ = hooks.insert(entry.plugin_id.clone(), entry.order, hook);
        }
        hooks
    }

    /// How many hooks there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// True if any hook is bound to the event, whatever its matcher: a caller
    /// need not build a payload nobody reads.
    pub fn listens_to(&self, event: HookEventName) -> bool {
        self.entries.iter().any(|entry| entry.hook.event == event)
    }

    /// True if a hook is bound to the event and its matcher takes this tool,
    /// whatever its other conditions.
    pub fn listens_to_call(&self, event: HookEventName, tool: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.applies_to(event, Some(tool)))
    }

    /// True if handlers of files are bound to the event.
    pub fn runs_files(&self, event: HookEventName) -> bool {
        let mut bound = self.entries.iter().filter(|it| it.hook.event == event);
        bound.any(|entry| entry.hook.file().is_some())
    }

    /// All hooks, in the order they run; those of one file layer side by side.
    pub fn listings(&self) -> impl Iterator<Item = HookListing> {
        self.entries.iter().map(|entry| entry.listing())
    }

    /// The files that commands of hook files name by a path and that are there,
    /// for a session in a directory. Blocks on the file system.
    pub fn named_files(&self, cwd: &Path, project_dir: &Path) -> BTreeSet<PathBuf> {
        let handlers = self.entries.iter().filter_map(|entry| entry.hook.file());
        let files = handlers.flat_map(|handler| handler.named_files(cwd, project_dir));
        files.collect()
    }

    /// The files that hooks are written in and that are there. Blocks on the
    /// file system.
    pub fn written_in(&self) -> BTreeSet<PathBuf> {
        let handlers = self.entries.iter().filter_map(|entry| entry.hook.file());
        let files = handlers.map(|handler| PathBuf::from(&handler.origin.place));
        files
            .filter(|path| path.is_absolute() && path.is_file())
            .collect()
    }

    /// The ids of all hooks, in the order they run.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.id.as_str())
    }

    pub(crate) fn matching<'a>(
        &'a self,
        event: HookEventName,
        matcher_value: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<RegisteredHook>> {
        self.entries
            .iter()
            .filter(move |entry| entry.applies_to(event, matcher_value))
    }

    fn insert(
        &mut self,
        plugin_id: PluginId,
        order: RunOrder,
        hook: Arc<Hook>,
    ) -> Result<String, HookError> {
        let index = self
            .entries
            .iter()
            .filter(|entry| entry.plugin_id == plugin_id && entry.hook.event == hook.event)
            .count();
        let id = format!("{plugin_id}/{}/{index}", hook.event);
        if self.entries.len() >= MAX_HOOKS {
            return Err(HookError::TooManyHooks { hook_id: id });
        }
        if hook.timeout.is_zero() || hook.timeout > MAX_TIMEOUT {
            return Err(HookError::TimeoutOutOfRange {
                hook_id: id,
                timeout: hook.timeout,
            });
        }
        let matcher = compile_matcher(&id, &hook)?;
        let condition = read_condition(&id, &hook)?;
        let place = self.entries.partition_point(|entry| entry.order <= order);
        self.entries.insert(
            place,
            Arc::new(RegisteredHook {
                id: id.clone(),
                plugin_id,
                order,
                matcher,
                condition,
                hook,
            }),
        );
        Ok(id)
    }
}

fn read_condition(hook_id: &str, hook: &Hook) -> Result<Option<Condition>, HookError> {
    let Some(condition) = &hook.condition else {
        return Ok(None);
    };
    let read = match hook.event.matcher_field() {
        Some("tool_name") => Condition::parse(condition),
        _ => Err(format!("{} has no tool call to compare with", hook.event)),
    };
    read.map(Some)
        .map_err(|reason| HookError::InvalidCondition {
            hook_id: hook_id.to_owned(),
            condition: condition.clone(),
            reason,
        })
}

fn compile_matcher(hook_id: &str, hook: &Hook) -> Result<Option<Regex>, HookError> {
    let pattern = match hook.matcher.as_deref() {
        None | Some("" | "*") => return Ok(None),
        Some(pattern) => pattern,
    };
    if hook.event.matcher_field().is_none() {
        return Err(HookError::MatcherWithoutSubject {
            hook_id: hook_id.to_owned(),
            event: hook.event,
        });
    }
    Regex::new(pattern)
        .map(Some)
        .map_err(|source| HookError::InvalidMatcher {
            hook_id: hook_id.to_owned(),
            pattern: pattern.to_owned(),
            source: Box::new(source),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_cannot_be_used_is_refused() {
        for (event, condition) in [
            (HookEventName::PreToolUse, "shell(git"),
            (HookEventName::Stop, "shell"),
            (HookEventName::Notification, "shell"),
        ] {
            let hook = Hook::callback(event, |_| async { HookResponse::passthrough() })
                .with_if_condition(condition);
            let error = Hooks::new()
                .register("p".into(), RegisteredHookPriority::default(), hook)
                .unwrap_err();
            assert_eq!(error.code(), "hook_condition_invalid", "{error}");
            assert!(error.to_string().contains("tool(input)"), "{error}");
        }
    }
    use crate::response::HookResponse;
    use std::time::Duration;

    fn hook(event: HookEventName) -> Hook {
        Hook::callback(event, |_| async { HookResponse::passthrough() })
    }

    fn add(hooks: &mut Hooks, plugin: &str, hook: Hook) -> Result<String, HookError> {
        hooks.register(plugin.into(), RegisteredHookPriority::AfterPlugins, hook)
    }

    #[test]
    fn ids_count_per_plugin_and_event_and_order_follows_priority() {
        let mut hooks = Hooks::new();
        add(&mut hooks, "a", hook(HookEventName::PreToolUse)).unwrap();
        add(&mut hooks, "b", hook(HookEventName::PreToolUse)).unwrap();
        add(&mut hooks, "a", hook(HookEventName::Stop)).unwrap();
        hooks
            .register(
                "a".into(),
                RegisteredHookPriority::BeforePlugins,
                hook(HookEventName::PreToolUse),
            )
            .unwrap();
        add(&mut hooks, "a", hook(HookEventName::PreToolUse)).unwrap();
        let ids: Vec<_> = hooks.ids().collect();
        assert_eq!(
            ids,
            [
                "a/PreToolUse/1",
                "a/PreToolUse/0",
                "b/PreToolUse/0",
                "a/Stop/0",
                "a/PreToolUse/2"
            ]
        );
    }

    #[test]
    fn a_file_that_switches_hooks_off_leaves_those_of_the_program() {
        let guard = r#"{"hooks": {"PreToolUse": [
            {"hooks": [{"type": "command", "command": "true"}]}
        ]}}"#;
        let parse = |text| crate::file::parse_text(text, &HookOrigin::user("u"));
        let mut hooks = Hooks::new();
        add(&mut hooks, "sdk", hook(HookEventName::PreToolUse)).unwrap();
        assert!(hooks.add_file(parse(guard)).is_empty());
        assert_eq!(hooks.ids().count(), 2);
        hooks.add_file(parse(r#"{"disableAllHooks": true}"#));
        // Whatever joins later, too.
        hooks.add_file(parse(guard));
        add(&mut hooks, "late", hook(HookEventName::PreToolUse)).unwrap();
        let mut others = Hooks::new();
        others.add_file(parse(guard));
        let merged = hooks.merged(&others).unwrap();
        let ids: Vec<_> = merged.ids().collect();
        assert_eq!(ids, ["sdk/PreToolUse/0", "late/PreToolUse/0"]);
    }

    #[test]
    fn a_bad_matcher_is_refused_by_name() {
        let mut hooks = Hooks::new();
        let broken = hook(HookEventName::PreToolUse).with_matcher("(");
        let error = add(&mut hooks, "p", broken).unwrap_err();
        assert_eq!(error.code(), "hook_matcher_invalid");
        assert!(error.to_string().contains("p/PreToolUse/0"));
        assert!(hooks.is_empty());
    }

    #[test]
    fn a_matcher_needs_something_to_match() {
        let mut hooks = Hooks::new();
        let error = add(
            &mut hooks,
            "p",
            hook(HookEventName::Stop).with_matcher("end"),
        )
        .unwrap_err();
        assert_eq!(error.code(), "hook_matcher_unused");
        for everything in ["", "*"] {
            let harmless = hook(HookEventName::Stop).with_matcher(everything);
            add(&mut hooks, "p", harmless).unwrap();
        }
    }

    #[test]
    fn timeouts_are_bounded() {
        let mut hooks = Hooks::new();
        let timed = |timeout| hook(HookEventName::Stop).with_timeout(timeout);
        for wrong in [Duration::ZERO, MAX_TIMEOUT + Duration::from_nanos(1)] {
            let error = add(&mut hooks, "p", timed(wrong)).unwrap_err();
            assert_eq!(error.code(), "hook_timeout_out_of_range");
        }
        add(&mut hooks, "p", timed(MAX_TIMEOUT)).unwrap();
    }

    #[test]
    fn the_registry_is_bounded() {
        let mut hooks = Hooks::new();
        for _ in 0..MAX_HOOKS {
            add(&mut hooks, "p", hook(HookEventName::Stop)).unwrap();
        }
        let error = add(&mut hooks, "p", hook(HookEventName::Stop)).unwrap_err();
        assert_eq!(error.code(), "too_many_hooks");
        let one = {
            let mut one = Hooks::new();
            add(&mut one, "p", hook(HookEventName::Stop)).unwrap();
            one
        };
        assert!(hooks.merged(&one).is_err());
    }

    #[test]
    fn merging_keeps_priorities_and_gives_fresh_ids() {
        let mut files = Hooks::new();
        add(&mut files, "p", hook(HookEventName::Stop)).unwrap();
        let mut sdk = Hooks::new();
        add(&mut sdk, "p", hook(HookEventName::Stop)).unwrap();
        sdk.register(
            "q".into(),
            RegisteredHookPriority::BeforePlugins,
            hook(HookEventName::Stop),
        )
        .unwrap();
        let both = files.merged(&sdk).unwrap();
        let ids: Vec<_> = both.ids().collect();
        assert_eq!(ids, ["q/Stop/0", "p/Stop/0", "p/Stop/1"]);
    }

    #[test]
    fn matchers_are_unanchored_and_guards_run_without_a_value() {
        let mut hooks = Hooks::new();
        let guard = hook(HookEventName::PreToolUse).with_matcher("read|write");
        add(&mut hooks, "p", guard).unwrap();
        let runs = |value| hooks.matching(HookEventName::PreToolUse, value).count();
        assert_eq!(runs(Some("read")), 1);
        assert_eq!(runs(Some("overwrite")), 1);
        assert_eq!(runs(Some("shell")), 0);
        assert_eq!(runs(None), 1);
        assert!(hooks.listens_to(HookEventName::PreToolUse));
        assert!(!hooks.listens_to(HookEventName::Stop));
    }
}
