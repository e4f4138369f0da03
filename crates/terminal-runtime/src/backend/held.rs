//! What a place holds of what a session's sandbox is asked to.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use halter_exec::{ContainmentRung, ToolFiles};
use halter_protocol::encoding::unescape_path;
use halter_tools::exec::{CHANGES_REPORTED, not_held};
use halter_tools::policy::{ElsewhereBounds, SandboxBounds, SandboxMode};

use super::container::not_held_in_a_container;
use super::files::rules_params;
use super::{FilesAt, Shared};
use crate::client::Target;
use crate::protocol::{DescribedLevel, Description, FileBoundsParams};

/// What a session of the runtime is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionLocation {
    /// On this machine, in a sandbox where one is wanted.
    Here,
    /// In a container.
    Container,
    /// With the files of another machine, or of what counts as one.
    Elsewhere,
}

/// What holds sessions on this machine, strongest first.
pub(super) const RUNGS: [ContainmentRung; 2] =
    [ContainmentRung::Namespaces, ContainmentRung::Landlock];

/// What a sandbox is to hold, once the files were searched for it.
#[derive(Debug)]
pub(super) struct SearchedBounds {
    pub bounds: SandboxBounds,
    /// What programs need of the runtime's machine; absent where that is this
    /// one.
    pub tools: Option<ToolFiles>,
}

impl Shared {
    /// What sessions in a directory are in. One whose files are not this
    /// machine's is somewhere else, however it is reached.
    pub(super) fn location(&self, directory: &Path) -> SessionLocation {
        match (self.files_at(directory), self.client.target()) {
            _ if self.settings.container.is_some() => SessionLocation::Container,
            (Some(FilesAt::Runtime), _) => SessionLocation::Elsewhere,
            (Some(FilesAt::Here), _) | (None, Target::Socket(_)) => SessionLocation::Here,
            (None, _) => SessionLocation::Elsewhere,
        }
    }

    /// What the runtime says it can hold commands with.
    pub(super) async fn levels(&self) -> anyhow::Result<&[DescribedLevel]> {
        Ok(&self.described().await?.isolation)
    }

    async fn described(&self) -> anyhow::Result<&Description> {
        let described = || self.called(self.client.describe());
        self.described.get_or_try_init(described).await
    }

    /// The bounds with what is hidden and protected, which the runtime finds
    /// where it has the files.
    pub(super) async fn searched(
        &self,
        mut bounds: SandboxBounds,
    ) -> anyhow::Result<SearchedBounds> {
        let Some(elsewhere) = &bounds.elsewhere else {
            let tools = None;
            return Ok(SearchedBounds { bounds, tools });
        };
        let params = FileBoundsParams {
            rules: rules_params(&elsewhere.rules),
            programs: bounds.programs.clone(),
            required: bounds.mode == SandboxMode::Require,
        };
        let found = self.called(self.client.file_bounds(&params)).await?;
        bounds.writable = paths(&found.writable)?;
        bounds.hidden = paths(&found.hidden)?;
        bounds.protected = paths(&found.protected)?;
        bounds.more_repositories = usize::try_from(found.more_repositories).unwrap_or(usize::MAX);
        bounds.partly_searched = paths(&found.partly_searched)?;
        let executables = found.executables.as_deref().map(paths).transpose()?;
        let caches = paths(&found.caches)?;
        Ok(SearchedBounds {
            bounds,
            tools: Some(ToolFiles {
                executables,
                caches,
            }),
        })
    }

    /// What of these bounds is not held in such a place, in words.
    ///
    /// # Errors
    /// If the policy requires what no rung of the runtime holds.
    pub(super) async fn not_held(
        &self,
        location: SessionLocation,
        bounds: &SandboxBounds,
    ) -> anyhow::Result<Vec<String>> {
        match location {
            SessionLocation::Elsewhere if bounds.elsewhere.is_none() => {
                return Ok(vec!["anything: there is no sandbox".to_owned()]);
            }
            SessionLocation::Container => return Ok(not_held_in_a_container(bounds)),
            SessionLocation::Here | SessionLocation::Elsewhere => {}
        }
        let levels = self.levels().await?;
        let mut reasons = RungReasons::default();
        for rung in RUNGS {
            let missing = not_held_there(rung, bounds);
            if let Some(reason) = unavailable(levels, rung) {
                reasons.add(rung, &reason);
            } else if bounds.mode == SandboxMode::Require && !missing.is_empty() {
                reasons.add(rung, &does_not_hold(&missing));
            } else {
                return Ok(missing);
            }
        }
        match bounds.mode {
            SandboxMode::Require => bail!(self.required(&reasons.0.join("; "))),
            _ => Ok(vec![format!(
                "anything: there is no sandbox ({})",
                reasons.0.join("; ")
            )]),
        }
    }

    pub(super) fn required(&self, reasons: &str) -> String {
        format!(
            "policy.sandbox = \"require\", and the runtime at {} does not hold what is asked: \
             {reasons}; set exec.backend to \"local\", or policy.sandbox to \"prefer\"",
            self.client.target()
        )
    }

    /// What there is to say about commands there, in this directory.
    ///
    /// # Errors
    /// If the policy requires a sandbox that the place does not give.
    pub(super) async fn lacks(
        &self,
        directory: &Path,
        bounds: &SandboxBounds,
    ) -> anyhow::Result<Vec<String>> {
        let mut lacks = Vec::new();
        let location = self.location(directory);
        let missing = match bounds.mode {
            SandboxMode::Off => Vec::new(),
            _ => {
                let searched = self.searched(bounds.clone()).await?;
                self.not_held(location, &searched.bounds).await?
            }
        };
        if bounds.mode == SandboxMode::Require && !missing.is_empty() {
            bail!(self.required(&does_not_hold(&missing)));
        }
        if !missing.is_empty() {
            lacks.push(format!(
                "the sandbox there does not hold: {}",
                missing.join(", ")
            ));
        }
        if bounds.mode != SandboxMode::Off {
            lacks.push(match location {
                SessionLocation::Container => "no command is let out of its container".to_owned(),
                _ => "a command that is let out of the sandbox has a shell of its own there, \
                      whose state is not kept, and cannot run in the background"
                    .to_owned(),
            });
        }
        lacks.push("hosts that commands do not reach are not named".to_owned());
        if bounds.mode != SandboxMode::Off && bounds.elsewhere.is_some() {
            lacks.push(
                "hooks and settings of repositories that commands make there are protected from \
                 the next session on"
                    .to_owned(),
            );
        }
        // One that does not describe itself has other faults, which are told.
        if let Ok(described) = self.described().await {
            lacks.extend(limits_there(described, location));
        }
        if location != SessionLocation::Here {
            lacks.push(
                "commands have the variables of that place, without secrets; of this machine's \
                 only those of languages, times and git, and what policy.shell.env.add names"
                    .to_owned(),
            );
        }
        if !self.has_file_methods() && !matches!(self.client.target(), Target::Socket(_)) {
            lacks.push(
                "it has no file methods, so files of tools are this machine's: the session's \
                 directory must be the same there, by a shared file system"
                    .to_owned(),
            );
        }
        Ok(lacks)
    }
}

/// What commands may use there, what is not limited, and what limits them only
/// in part, for people.
fn limits_there(described: &Description, location: SessionLocation) -> Vec<String> {
    let limits = &described.limits;
    let all = [
        (
            "memory",
            "limit_memory",
            limits.child_memory_bytes,
            "bytes of memory together",
        ),
        (
            "processes",
            "limit_processes",
            limits.child_processes,
            "processes at a time",
        ),
        (
            "CPU time",
            "limit_cpu",
            limits.child_cpu_s,
            "s of CPU time of each process",
        ),
    ];
    let (set, unset): (Vec<_>, Vec<_>) = all.into_iter().partition(|limit| limit.2 != 0);
    let mut said = Vec::new();
    let named = set.iter().map(|(_, _, most, of)| format!("{most} {of}"));
    let output = (limits.spool_quota_bytes != 0)
        .then(|| format!("{} bytes of each stream kept", limits.spool_quota_bytes));
    let named: Vec<String> = named.chain(output).collect();
    if !named.is_empty() {
        said.push(format!(
            "commands of a session have there: {}",
            named.join(", ")
        ));
    }
    if !unset.is_empty() {
        let names: Vec<&str> = unset.iter().map(|limit| limit.0).collect();
        said.push(format!(
            "the runtime does not limit there: {}",
            names.join(", ")
        ));
    }
    // The engine of containers has its own means.
    let is_held_by_engine = location == SessionLocation::Container;
    for (name, level, _, _) in set.into_iter().filter(|_| !is_held_by_engine) {
        let level = described.isolation.iter().find(|it| it.name == level);
        if let Some(level) = level.filter(|level| level.state != "enforced") {
            said.push(format!(
                "the limit on {name} is {} there: {}",
                level.state,
                level.reason.as_deref().unwrap_or("it does not say why")
            ));
        }
    }
    said
}

/// Why each rung does not do.
#[derive(Debug, Default)]
pub(super) struct RungReasons(pub Vec<String>);

impl RungReasons {
    pub(super) fn add(&mut self, rung: ContainmentRung, reason: &str) {
        self.0.push(format!("{}: {reason}", rung.name()));
    }
}

/// What a rung of a runtime does not hold of these bounds.
pub(super) fn not_held_there(rung: ContainmentRung, bounds: &SandboxBounds) -> Vec<String> {
    let mut missing = not_held(rung, bounds);
    if let Some(elsewhere) = &bounds.elsewhere {
        // Nobody looks at them there.
        for held in &mut missing {
            if let Some(short) = held.strip_suffix(CHANGES_REPORTED) {
                *held = short.to_owned();
            }
        }
        missing.extend(not_told(elsewhere));
    }
    if bounds.network && rung == ContainmentRung::Namespaces {
        missing.push("the list of hosts, for programs (the network is the host's)".to_owned());
    }
    missing
}

/// Why the runtime has not got a rung, if it has not.
fn unavailable(levels: &[DescribedLevel], rung: ContainmentRung) -> Option<String> {
    let level = levels.iter().find(|level| level.name == rung.name());
    match level {
        Some(level) if level.state == "enforced" => None,
        Some(level) => Some(level.reason.clone().unwrap_or_else(|| level.state.clone())),
        None => Some("the runtime does not know it".to_owned()),
    }
}

/// What the runtime was not told of the policy.
pub(super) fn not_told(elsewhere: &ElsewhereBounds) -> Option<String> {
    (elsewhere.deny_rules > 0).then(|| {
        format!(
            "what {} deny rules close, for programs",
            elsewhere.deny_rules
        )
    })
}

pub(super) fn does_not_hold(missing: &[String]) -> String {
    format!("it does not hold: {}", missing.join(", "))
}

/// Paths as the runtime's file methods name them.
fn paths(texts: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let path = |text: &String| {
        unescape_path(text).with_context(|| format!("'{text}' is no path of a runtime"))
    };
    texts.iter().map(path).collect()
}
