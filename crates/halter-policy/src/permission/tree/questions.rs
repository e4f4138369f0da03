//! What a person is asked where no rule decides.

use halter_protocol::action::{HOST_NOT_LISTED, PROGRAM_NOT_LISTED};
use halter_protocol::{PermissionMode, RuleSubject};

use super::request::{ResolvedCall, TouchedPath};
use super::{CompiledRule, PermissionTree};
use crate::error::Access;
use crate::network::HostRefusal;
use crate::permission::command::{self, is_destructive};
use crate::permission::decision::{DecidedBy, Decision};
use crate::permission::reading::{TRANSPARENT, only_reads};
use crate::permission::suggest;
use crate::policy::BeyondRoots;
use crate::shell::{CommandPart, IN_PLACE, PathAccess, ShellDecision, ShellRefusal, UNLISTED};

impl PermissionTree {
    /// A question about a file beyond the roots that no rule names.
    pub(super) fn beyond_asks(&self, beyond: &[BeyondRoots]) -> Option<Decision> {
        let covered = |it: &BeyondRoots| {
            let covers = |rule: &CompiledRule| {
                let opens = match rule.rule.rule.subject() {
                    RuleSubject::Read(_) => it.access == Access::Read,
                    RuleSubject::Edit(_) => true,
                    _ => false,
                };
                let pattern = rule.paths.as_ref();
                opens && pattern.is_some_and(|paths| paths.covers(&it.path, &it.real))
            };
            self.any_allow(covers).is_some()
        };
        let asked = beyond.iter().find(|it| !covered(it))?;
        let shown = asked.path.display().to_string();
        let always = match asked.access {
            Access::Read => suggest::for_read(&shown),
            Access::Write => suggest::for_write(&shown),
        };
        let why = match asked.real == asked.path {
            true => asked.message.clone(),
            false => format!("{} (it leads to '{}')", asked.message, asked.real.display()),
        };
        Some(self.asked(DecidedBy::BeyondRoots, why, Some(shown), always))
    }

    /// A question about a host that no rule names, while nobody has set anything
    /// about the network, or that a list which was set does not name.
    pub(super) fn hosts_ask(&self, hosts: &[HostRefusal]) -> Option<Decision> {
        let covered = |it: &HostRefusal| {
            let covers = |rule: &CompiledRule| {
                let domain = rule.domain.as_ref();
                domain.is_some_and(|domain| domain.covers_text(&it.host))
            };
            match it.rule {
                HOST_NOT_LISTED => self.any_approved(covers),
                _ => self.any_allow(covers).is_some(),
            }
        };
        let asked = hosts.iter().find(|it| !covered(it))?;
        let by = DecidedBy::Network(asked.rule);
        let why = format!("it would reach '{}': {}", asked.host, asked.reason);
        let always = suggest::for_host(&asked.host);
        Some(self.asked(by, why, Some(asked.host.clone()), always))
    }

    /// A question about programs that would join a list which was set, unless a
    /// person approved such commands for the session. Neither a rule of a file
    /// nor the mode answers it.
    pub(super) fn joins_ask(
        &self,
        request: &ResolvedCall<'_>,
        joins: &[ShellRefusal],
    ) -> Option<Decision> {
        let parts: Vec<&CommandPart> = request.commands.iter().flat_map(|it| &it.parts).collect();
        let approved = |part: &CommandPart| {
            self.any_approved(|rule| match rule.rule.rule.subject() {
                RuleSubject::Command(pattern) => command::opens(pattern, part),
                _ => false,
            })
        };
        let mut asked = Vec::new();
        let mut suggested = Vec::new();
        for join in joins {
            let of_program = |part: &&&CommandPart| {
                let name = join.fragment.as_str();
                part.program() == Some(name) || part.wrappers.iter().any(|it| it == name)
            };
            let of_program: Vec<_> = parts.iter().filter(of_program).collect();
            let covered = !of_program.is_empty() && of_program.iter().all(|part| approved(part));
            if !covered {
                let rules = of_program.iter().map(|part| suggest::for_part(part));
                suggested.push(common(rules));
                asked.push(join);
            }
        }
        let first = asked.first()?;
        let names: Vec<String> = asked
            .iter()
            .map(|it| format!("`{}`", it.fragment))
            .collect();
        let what = match names.len() {
            1 => "it runs",
            _ => "they run",
        };
        let why = format!(
            "policy.shell.allow does not list {}; {what} only if a person lets {} join for this \
             call or session",
            names.join(", "),
            if names.len() == 1 { "it" } else { "them" },
        );
        let by = DecidedBy::Shell(PROGRAM_NOT_LISTED);
        let always = common(suggested.into_iter());
        Some(self.asked(by, why, Some(first.fragment.clone()), always))
    }

    /// A question about a command that neither the list nor a rule covers.
    pub(super) fn commands_ask(
        &self,
        request: &ResolvedCall<'_>,
        shell: Option<&ShellDecision>,
    ) -> Option<Decision> {
        let refusal = match shell {
            Some(ShellDecision::Ask(refusal)) => Some(refusal),
            _ => None,
        };
        for commands in &request.commands {
            let parts = &commands.parts;
            if refusal.is_none() && self.mode == PermissionMode::WorkspaceWrite {
                continue;
            }
            let uncovered: Vec<&CommandPart> = parts
                .iter()
                .filter(|part| self.needs_question(part, parts, refusal))
                .collect();
            let first = match (uncovered.first(), refusal) {
                (Some(first), _) => *first,
                // Asked for a reason that no rule about a part answers.
                (None, Some(other)) if !is_answerable(other) => {
                    let fragment = Some(other.fragment.clone());
                    let by = DecidedBy::Shell(other.rule);
                    return Some(self.asked(by, other.message.clone(), fragment, None));
                }
                (None, _) => continue,
            };
            let always = common(uncovered.iter().map(|part| suggest::for_part(part)));
            let (by, why) = match refusal {
                Some(refusal) => (DecidedBy::Shell(refusal.rule), refusal.message.clone()),
                None => (
                    DecidedBy::Mode(self.mode),
                    format!(
                        "the mode {} asks about every change, and `{first}` may make one",
                        self.mode
                    ),
                ),
            };
            let always =
                always.filter(|rule| !self.is_destruction(refusal) || !rule.ends_with(":*)"));
            return Some(self.asked(by, why, Some(first.to_string()), always));
        }
        None
    }

    fn is_destruction(&self, refusal: Option<&ShellRefusal>) -> bool {
        refusal.is_some_and(|refusal| is_destructive(refusal.rule))
    }

    fn needs_question(
        &self,
        part: &CommandPart,
        all: &[CommandPart],
        refusal: Option<&ShellRefusal>,
    ) -> bool {
        if part.words.is_empty() && only_reads(part) {
            return false;
        }
        let program = part.program().unwrap_or_default();
        // What a wrapper runs is a part of its own, which decides.
        let transparent = TRANSPARENT.contains(&program)
            && all
                .iter()
                .any(|it| it.wrappers.iter().any(|name| name == program));
        if transparent {
            return false;
        }
        let destroys = refusal.is_some() && command::destroys(&command::quoted_line(part), program);
        if self.opened(part, destroys) {
            return false;
        }
        let listed = self
            .programs
            .names()
            .iter()
            .any(|name| name == program || name == "*");
        let needs = match self.mode {
            PermissionMode::Prompt => !(listed && only_reads(part)),
            _ => !listed,
        };
        let in_place = refusal.is_some_and(|it| it.rule == IN_PLACE)
            && part.paths.iter().any(|it| it.access == PathAccess::Write);
        needs || destroys || in_place
    }

    /// Whether an allow rule covers a part; one that destroys something has to
    /// be named.
    fn opened(&self, part: &CommandPart, destroys: bool) -> bool {
        let opens = |rule: &CompiledRule| match rule.rule.rule.subject() {
            RuleSubject::Command(pattern) => {
                command::opens(pattern, part) && (!destroys || rule.names_destruction)
            }
            RuleSubject::Tool(tool) => tool.matches("shell") && !destroys,
            _ => false,
        };
        self.any_allow(opens).is_some()
    }

    /// A question about a change that no rule covers, in the mode that asks
    /// about all of them.
    pub(super) fn changes_ask(&self, request: &ResolvedCall<'_>) -> Option<Decision> {
        if self.mode != PermissionMode::Prompt {
            return None;
        }
        let by = DecidedBy::Mode(self.mode);
        let why = |what: &str| {
            format!(
                "the mode {} asks about every change, and this {what}",
                self.mode
            )
        };
        let covered = |path: &TouchedPath| {
            let covers = |rule: &CompiledRule| {
                let pattern = rule.paths.as_ref();
                matches!(rule.rule.rule.subject(), RuleSubject::Edit(_))
                    && pattern.is_some_and(|it| it.covers(&path.spelled, &path.real))
            };
            self.any_allow(covers).is_some()
        };
        if let Some(path) = request.changed().find(|path| !covered(path)) {
            let shown = self.anchors.shown(&path.spelled);
            let always = suggest::for_write(&shown);
            return Some(self.asked(by, why("changes a file"), Some(shown), always));
        }
        if request.changes_otherwise() {
            let always = suggest::for_tool(request.subject);
            let why = self.with_lost_approval(request.subject, why("changes something"));
            return Some(self.asked(by, why, None, always));
        }
        None
    }
}

/// Whether a rule about the parts of a line can answer the judge's question.
fn is_answerable(refusal: &ShellRefusal) -> bool {
    is_destructive(refusal.rule) || [UNLISTED, IN_PLACE].contains(&refusal.rule)
}

/// The one value of all; none if they differ or one is absent.
fn common(mut values: impl Iterator<Item = Option<String>>) -> Option<String> {
    let first = values.next()??;
    values
        .all(|it| it.as_ref() == Some(&first))
        .then_some(first)
}
