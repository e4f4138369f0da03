//! The order in which rules, hooks and the mode decide about a call.

mod asked;
mod below;
mod compiled;
mod covering;
mod questions;
mod request;

use std::path::Path;
use std::sync::{PoisonError, RwLock};

use halter_protocol::{
    CallToJudge, HookOpinion, PermissionMode, RuleEffect, RuleSource, RuleSubject,
};

use super::command::{self, is_destructive};
use super::decision::{BEYOND_ROOTS, DecidedBy, Decision, Verdict};
use super::paths::RuleAnchors;
use super::reading::only_reads;
use super::{Permissions, SourcedRule, suggest};
use crate::door::FileDoor;
use crate::error::PolicyError;
use crate::network::{DomainPattern, HostRefusal};
use crate::policy::BeyondRoots;
use crate::settings::ProgramList;
use crate::shell::{ShellDecision, ShellRefusal};

pub use asked::AskedBelow;
pub(super) use compiled::CompiledRule;
pub use covering::CoveringRule;
use request::ResolvedCall;

/// The rules of a session, bound to its directory.
#[derive(Debug)]
pub struct PermissionTree {
    mode: PermissionMode,
    rules: Vec<CompiledRule>,
    session: RwLock<SessionRules>,
    anchors: RuleAnchors,
    programs: ProgramList,
}

/// Allow rules of answers that hold for the session.
#[derive(Debug, Default)]
struct SessionRules {
    /// All of them, also those that cannot be used.
    texts: Vec<String>,
    rules: Vec<CompiledRule>,
}

/// What a call would touch beyond limits that nobody has set: a person, a rule
/// or the mode decides.
pub(crate) struct SoftLimits<'a> {
    /// What the shell judge says about its commands, if it runs any.
    pub(crate) shell: Option<&'a ShellDecision>,
    /// Files outside of the roots.
    pub(crate) files: &'a [BeyondRoots],
    /// Hosts, while the network is off.
    pub(crate) hosts: &'a [HostRefusal],
    /// Whether it would run outside the sandbox.
    pub(crate) leaves_sandbox: bool,
    /// Programs that a list which was set does not name, each as it was refused.
    pub(crate) joins: &'a [ShellRefusal],
}

/// A call to decide about, and where the files are that it names.
#[derive(Clone, Copy)]
pub(crate) struct PlacedCall<'a> {
    pub(crate) call: &'a CallToJudge,
    /// The door to them, if they are not this machine's.
    pub(crate) elsewhere: Option<&'a FileDoor>,
}

impl PermissionTree {
    /// Binds the rules to a session's directory.
    ///
    /// # Errors
    /// [`PolicyError::InvalidRule`] for a path pattern that cannot be used.
    pub fn bind(
        permissions: &Permissions,
        programs: ProgramList,
        working_dir: &Path,
    ) -> Result<Self, PolicyError> {
        let anchors = RuleAnchors::new(working_dir, permissions.home.clone());
        let compile = |rule: &SourcedRule| CompiledRule::compile(rule.clone(), &anchors);
        Ok(Self {
            mode: permissions.mode,
            rules: permissions
                .rules
                .iter()
                .map(compile)
                .collect::<Result<_, _>>()?,
            session: RwLock::default(),
            programs,
            anchors,
        })
    }

    /// The mode.
    #[must_use]
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// Has these allow rules, and no others, hold because a person approved
    /// them for the session. One that cannot be used allows nothing; what is
    /// wrong with it is returned once.
    pub fn hold_session_rules(&self, texts: &[String]) -> Vec<String> {
        let held = self.session.read().unwrap_or_else(PoisonError::into_inner);
        if held.texts == texts {
            return Vec::new();
        }
        drop(held);
        let mut held = self.session.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut held.texts, texts.to_vec());
        held.rules.clear();
        let mut problems = Vec::new();
        for text in texts {
            match self.session_rule(text) {
                Ok(rule) => held.rules.push(rule),
                Err(_) if before.contains(text) => {}
                Err(reason) => problems.push(format!(
                    "the rule `{text}`, approved for this session, cannot be used and allows \
                     nothing: {reason}"
                )),
            }
        }
        problems
    }

    fn session_rule(&self, text: &str) -> Result<CompiledRule, String> {
        let rule = SourcedRule::new(RuleEffect::Allow, text, RuleSource::Session);
        let rule = rule.map_err(|error| error.to_string())?;
        CompiledRule::compile(rule, &self.anchors).map_err(|error| error.to_string())
    }

    /// Decides about a call that the policy lets through, but for limits that
    /// nobody has set.
    #[must_use]
    pub(crate) fn decide(&self, placed: PlacedCall<'_>, limits: &SoftLimits<'_>) -> Decision {
        let call = placed.call;
        let asks = matches!(limits.shell, Some(ShellDecision::Ask(_))) || !limits.joins.is_empty();
        let request = ResolvedCall::take(self, placed, asks);
        if let Some((rule, fragment)) = self.closing(&request, RuleEffect::Deny) {
            let why = format!("{} forbids this", rule.described());
            return self.refused(DecidedBy::Rule(rule.clone()), why, fragment);
        }
        if let HookOpinion::Ask(reason) = &call.hook {
            return self.asked(DecidedBy::Hook, reason.clone(), None, None);
        }
        if let Some(line) = self.unreadable(&request) {
            let why = "the command cannot be taken apart, so rules about commands cannot be \
                       checked";
            let mode = DecidedBy::Mode(self.mode);
            return self.asked(mode, why.to_owned(), Some(line), None);
        }
        if let Some((rule, fragment)) = self.closing(&request, RuleEffect::Ask) {
            let why = format!("{} wants a person to decide", rule.described());
            return self.asked(DecidedBy::Rule(rule.clone()), why, fragment, None);
        }
        if limits.leaves_sandbox {
            let why = "it would run outside the sandbox, with all rights of the user";
            return self.asked(DecidedBy::LeavesSandbox, why.to_owned(), None, None);
        }
        if let Some(question) = self.joins_ask(&request, limits.joins) {
            return question;
        }
        if let Some(question) = self.hosts_ask(limits.hosts) {
            return question;
        }
        self.by_allow_and_mode(&request, limits.shell, limits.files)
    }

    fn has_patterns(&self) -> bool {
        let has = |rule: &CompiledRule| rule.paths.is_some();
        let session = self.session.read().unwrap_or_else(PoisonError::into_inner);
        self.rules.iter().any(has) || session.rules.iter().any(has)
    }

    /// A command that a rule or the mode would have to know the parts of.
    fn unreadable(&self, request: &ResolvedCall<'_>) -> Option<String> {
        let line = request.commands.iter().find(|it| it.unreadable)?;
        let about_commands = |rule: &CompiledRule| {
            rule.rule.effect != RuleEffect::Allow
                && !matches!(rule.rule.rule.subject(), RuleSubject::Tool(_))
        };
        let by_mode = matches!(self.mode, PermissionMode::ReadOnly | PermissionMode::Prompt);
        let concerns = by_mode || self.rules.iter().any(about_commands);
        concerns.then(|| line.line.clone())
    }

    /// What the allow rules and the mode say where nothing else decided.
    fn by_allow_and_mode(
        &self,
        request: &ResolvedCall<'_>,
        shell: Option<&ShellDecision>,
        beyond: &[BeyondRoots],
    ) -> Decision {
        let subject = request.subject;
        let requires_approval = subject.capabilities.requires_approval;
        let mode = DecidedBy::Mode(self.mode);
        match self.mode {
            PermissionMode::FullAccess | PermissionMode::Allow => return Decision::allow(mode),
            PermissionMode::ReadOnly => return self.read_only(request, shell, beyond),
            PermissionMode::Prompt | PermissionMode::WorkspaceWrite => {}
        }
        if let Some(question) = self.beyond_asks(beyond) {
            return question;
        }
        let named = |rule: &str| is_destructive(rule) || rule == BEYOND_ROOTS;
        if let Some(rule) = self.whole_tool(subject)
            && !matches!(shell, Some(ShellDecision::Ask(refusal)) if named(refusal.rule))
        {
            return Decision::allow(DecidedBy::Rule(rule));
        }
        if let Some(question) = self.commands_ask(request, shell) {
            return question;
        }
        if let Some(question) = self.changes_ask(request) {
            return question;
        }
        // A list that names its programs, or a rule for them, has allowed a
        // command already.
        let allowed_already = !request.commands.is_empty();
        // What a server says of a tool narrows: a hook does not spare the
        // question of one that says that it destroys.
        let destroys = subject.definition.as_ref().is_some_and(|it| it.destructive);
        let spared = subject.hook == HookOpinion::Allow && !destroys;
        if requires_approval && !allowed_already && !spared {
            let name = subject.call.name.as_str();
            let (by, why) = match destroys {
                true => (
                    DecidedBy::DestructiveTool,
                    format!("the tool '{name}' may destroy something, as its server says"),
                ),
                false => (
                    DecidedBy::RequiresApproval,
                    format!("the tool '{name}' wants a person to approve each call"),
                ),
            };
            let why = self.with_lost_approval(subject, why);
            return self.asked(by, why, None, suggest::for_tool(subject));
        }
        Decision::allow(mode)
    }

    fn read_only(
        &self,
        request: &ResolvedCall<'_>,
        shell: Option<&ShellDecision>,
        beyond: &[BeyondRoots],
    ) -> Decision {
        let by = DecidedBy::Mode(self.mode);
        let denied = |what: &str, fragment: Option<String>| {
            let why = format!("the permission mode is read_only, and {what}");
            self.refused(by.clone(), why, fragment)
        };
        if let Some(outside) = beyond.first() {
            let shown = outside.path.display().to_string();
            return denied(&outside.message, Some(shown));
        }
        for commands in &request.commands {
            if let Some(part) = commands.parts.iter().find(|part| !only_reads(part)) {
                let what = format!("`{part}` is not known to change nothing");
                return denied(&what, Some(part.to_string()));
            }
        }
        if let Some(ShellDecision::Ask(refusal)) = shell {
            return denied(&refusal.message, Some(refusal.fragment.clone()));
        }
        if let Some(path) = request.changed().next() {
            let path = self.anchors.shown(&path.spelled);
            return denied("this changes a file", Some(path));
        }
        if request.changes_otherwise() {
            return denied("this changes something", None);
        }
        if request.subject.capabilities.requires_approval && request.commands.is_empty() {
            return denied("this tool wants a person to approve it", None);
        }
        Decision::allow(by)
    }

    fn whole_tool(&self, call: &CallToJudge) -> Option<SourcedRule> {
        let name = call.call.name.as_str();
        let definition = call.definition.as_ref().map(|it| it.digest.as_str());
        self.any_allow(|rule| match rule.rule.rule.subject() {
            RuleSubject::Tool(tool) => tool.matches_defined(name, definition),
            _ => false,
        })
    }

    /// Why a call is asked about, and that an approval of it is lost.
    fn with_lost_approval(&self, call: &CallToJudge, why: String) -> String {
        let name = call.call.name.as_str();
        let Some(definition) = &call.definition else {
            return why;
        };
        let lost = self.any_allow(|rule| match rule.rule.rule.subject() {
            RuleSubject::Tool(tool) => tool.wants_another(name, &definition.digest),
            _ => false,
        });
        match lost {
            Some(rule) => format!(
                "the server has changed the tool '{name}' since it was approved by {}, so that \
                 does not count any more; {why}",
                rule.described()
            ),
            None => why,
        }
    }

    fn any_allow(&self, covers: impl Fn(&CompiledRule) -> bool) -> Option<SourcedRule> {
        let wanted = |rule: &&CompiledRule| rule.rule.effect == RuleEffect::Allow && covers(rule);
        if let Some(found) = self.rules.iter().find(wanted) {
            return Some(found.rule.clone());
        }
        let session = self.session.read().unwrap_or_else(PoisonError::into_inner);
        let found = session.rules.iter().find(wanted);
        found.map(|found| found.rule.clone())
    }

    /// Whether a person approved such a rule for the session. No other rule
    /// widens a list that was set.
    fn any_approved(&self, covers: impl Fn(&CompiledRule) -> bool) -> bool {
        let session = self.session.read().unwrap_or_else(PoisonError::into_inner);
        session.rules.iter().any(covers)
    }

    /// The texts of the rules that a person approved for the session.
    pub(crate) fn session_rules(&self) -> Vec<String> {
        let session = self.session.read().unwrap_or_else(PoisonError::into_inner);
        session.texts.clone()
    }

    /// The hosts that a person approved for the session.
    pub(crate) fn approved_hosts(&self) -> Vec<DomainPattern> {
        let session = self.session.read().unwrap_or_else(PoisonError::into_inner);
        let domains = session.rules.iter().filter_map(|it| it.domain.clone());
        domains.collect()
    }

    /// The first rule that asks or denies and covers the call, with the part it
    /// covers.
    fn closing(
        &self,
        request: &ResolvedCall<'_>,
        effect: RuleEffect,
    ) -> Option<(&SourcedRule, Option<String>)> {
        self.rules
            .iter()
            .filter(|rule| rule.rule.effect == effect)
            .find_map(|rule| Some((&rule.rule, self.closed_by(rule, request)?)))
    }

    /// `Some`: the rule covers the call, in this part of it.
    fn closed_by(&self, rule: &CompiledRule, request: &ResolvedCall<'_>) -> Option<Option<String>> {
        let call = &request.subject.call;
        match rule.rule.rule.subject() {
            // Who closes the shell closes it for every tool that runs commands.
            RuleSubject::Tool(tool) => {
                let runs = !request.commands.is_empty() && tool.matches("shell");
                (runs || tool.matches(call.name.as_str())).then_some(None)
            }
            RuleSubject::Command(pattern) => request.commands.iter().find_map(|commands| {
                let mut parts = commands.parts.iter();
                let part = parts.find(|part| command::closes(pattern, part));
                let whole = || {
                    pattern
                        .matches(&commands.line)
                        .then(|| commands.line.clone())
                };
                part.map(ToString::to_string).or_else(whole).map(Some)
            }),
            RuleSubject::Read(_) => self.closed_path(rule, request, |_| true),
            RuleSubject::Edit(_) => self.closed_path(rule, request, |change| change),
            RuleSubject::Domain(_) => rule.reached(&request.subject.actions).map(Some),
            RuleSubject::Argument { tool, name, value } => {
                let given = call.arguments.get(name)?;
                let fits = tool.matches(call.name.as_str());
                (fits && CompiledRule::argument_fits(value, given))
                    .then(|| Some(format!("{name}: {given}")))
            }
            _ => None,
        }
    }

    fn closed_path(
        &self,
        rule: &CompiledRule,
        request: &ResolvedCall<'_>,
        concerns: impl Fn(bool) -> bool,
    ) -> Option<Option<String>> {
        let pattern = rule.paths.as_ref()?;
        let mut paths = request.paths.iter().filter(|it| concerns(it.changes));
        let found = paths.find_map(|it| {
            if pattern.covers(&it.spelled, &it.real) {
                return Some(self.anchors.shown(&it.spelled));
            }
            // Of a rule that denies, the door keeps what is below.
            let looks_below = it.with_all_below && rule.rule.effect == RuleEffect::Ask;
            let below =
                looks_below.then(|| below::first_covered(pattern, it, request.elsewhere))??;
            Some(below.described(&self.anchors))
        });
        found.map(Some)
    }

    fn refused(&self, by: DecidedBy, why: String, fragment: Option<String>) -> Decision {
        Decision {
            verdict: Verdict::Deny,
            by,
            why,
            fragment,
            always: None,
        }
    }

    /// A question, where the mode has anybody asked.
    fn asked(
        &self,
        by: DecidedBy,
        why: String,
        fragment: Option<String>,
        always: Option<String>,
    ) -> Decision {
        if !self.mode.asks() {
            let why = format!("{why}, and in the mode {} nobody is asked", self.mode);
            return self.refused(by, why, fragment);
        }
        Decision {
            verdict: Verdict::Ask,
            by,
            why,
            fragment,
            always,
        }
    }
}
