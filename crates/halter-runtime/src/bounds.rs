//! A session's policy: that of its harness, narrowed.
//!
//! Asking for more than the harness has is refused when a session starts. What
//! is applied is the intersection all the same, each time: the harness of a
//! later process may have less.

mod hosts;
#[cfg(test)]
mod subset_tests;

use crate::error::HalterError;
use crate::subagents::AgentType;
use halter_protocol::{PermissionMode, SessionBounds, ToolName};
use halter_tools::policy::PolicySettings;
use std::path::{Component, Path, PathBuf};

/// The error of a session that asks for more than its harness has.
pub(crate) fn exceeds(what: &str, asked: &str) -> HalterError {
    let message = format!("a session cannot have the {what} '{asked}': its harness does not");
    HalterError::new("session_exceeds_harness", message)
        .with_hint("give it to the harness, or ask for less")
}

/// The bounds of a subagent: those of its parent, with these tools and a mode
/// that is no wider.
pub(crate) fn child_bounds(
    parent: &SessionBounds,
    agent_type: &AgentType,
    tools: &[ToolName],
) -> SessionBounds {
    let modes = [parent.permission_mode, agent_type.permission_mode];
    SessionBounds {
        tools: Some(tools.to_vec()),
        permission_mode: modes.into_iter().flatten().min(),
        ..parent.clone()
    }
}

/// Checks that a subagent has nothing that its parent has not. `mode` is that
/// of the harness.
pub(crate) fn check_child(
    parent: &SessionBounds,
    child: &SessionBounds,
    mode: PermissionMode,
) -> Result<(), HalterError> {
    let exceeds = |what: &str| {
        let message = format!("a subagent cannot have more {what} than the session that starts it");
        HalterError::new("subagent_exceeds_parent", message)
            .with_hint("this is a defect of the harness: report it")
    };
    if let Some(allowed) = &parent.tools {
        let mut asked = child.tools.iter().flatten();
        if child.tools.is_none() || asked.any(|it| !allowed.contains(it)) {
            return Err(exceeds("tools"));
        }
    }
    let widest = |bounds: &SessionBounds| bounds.permission_mode.map_or(mode, |it| it.min(mode));
    if widest(child) > widest(parent) {
        return Err(exceeds("permissions"));
    }
    let rest = |bounds: &SessionBounds| SessionBounds {
        tools: None,
        permission_mode: None,
        ..bounds.clone()
    };
    match rest(parent) == rest(child) {
        true => Ok(()),
        false => Err(exceeds("rights")),
    }
}

/// Checks that bounds give no more than the settings. Blocking: directories
/// are resolved.
pub(crate) fn check(
    bounds: &SessionBounds,
    settings: &PolicySettings,
    working_dir: &Path,
) -> Result<(), HalterError> {
    for program in bounds.programs.iter().flatten() {
        if !lists(settings.allowed_shell_commands.names(), program) {
            return Err(exceeds("program", program));
        }
    }
    for host in bounds.hosts.iter().flatten() {
        if !hosts::lists(settings, host) {
            return Err(exceeds("host", host));
        }
    }
    let roots = Roots::of(settings, working_dir);
    for root in bounds.write_roots.iter().flatten() {
        if !roots.may_write(root) {
            return Err(exceeds("write root", &root.display().to_string()));
        }
    }
    for root in bounds.read_roots.iter().flatten() {
        if !roots.may_read(root) {
            return Err(exceeds("read root", &root.display().to_string()));
        }
    }
    let mode = settings.permissions.mode;
    if let Some(asked) = bounds.permission_mode.filter(|asked| *asked > mode) {
        return Err(exceeds("permission mode", asked.as_str()));
    }
    let limits = [
        (
            "max_read_bytes",
            bounds.max_read_bytes,
            settings.max_read_bytes,
        ),
        (
            "shell_timeout_secs",
            bounds.shell_timeout_secs,
            settings.shell_timeout_secs,
        ),
    ];
    for (name, asked, limit) in limits {
        if let Some(asked) = asked.filter(|asked| *asked > limit) {
            return Err(exceeds(name, &asked.to_string()));
        }
    }
    Ok(())
}

/// The settings within the bounds. Blocking: directories are resolved.
pub(crate) fn narrowed(
    settings: &PolicySettings,
    bounds: &SessionBounds,
    working_dir: &Path,
) -> PolicySettings {
    let mut narrowed = settings.clone();
    if bounds.is_unbounded() {
        return narrowed;
    }
    if let Some(programs) = &bounds.programs {
        let listed = |it: &&String| lists(settings.allowed_shell_commands.names(), it);
        let programs: Vec<_> = programs.iter().filter(listed).cloned().collect();
        narrowed.allowed_shell_commands = programs.into();
        narrowed.fixed_lists.programs = true;
    }
    if let Some(hosts) = &bounds.hosts {
        hosts::narrow(&mut narrowed, hosts);
        narrowed.fixed_lists.hosts = true;
    }
    let roots = Roots::of(settings, working_dir);
    if let Some(write) = &bounds.write_roots {
        let inside = |it: &&PathBuf| roots.may_write(it);
        narrowed.allowed_write_roots = write.iter().filter(inside).cloned().collect();
        narrowed.soft_roots.write = false;
    }
    if let Some(read) = &bounds.read_roots {
        let inside = |it: &&PathBuf| roots.may_read(it);
        narrowed.allowed_read_roots = read.iter().filter(inside).cloned().collect();
        narrowed.soft_roots.read = false;
    }
    let least = |asked: Option<u64>, limit: u64| asked.map_or(limit, |asked| asked.min(limit));
    narrowed.max_read_bytes = least(bounds.max_read_bytes, settings.max_read_bytes);
    if let Some(mode) = bounds.permission_mode {
        narrowed.permissions = narrowed.permissions.narrowed_to(mode);
    }
    narrowed.shell_timeout_secs = least(bounds.shell_timeout_secs, settings.shell_timeout_secs);
    narrowed
}

fn lists(allowed: &[String], asked: &str) -> bool {
    allowed.iter().any(|it| it == "*" || it == asked)
}

/// The directories of a harness, free of links.
struct Roots {
    working_dir: PathBuf,
    write: Vec<PathBuf>,
    read: Vec<PathBuf>,
}

impl Roots {
    fn of(settings: &PolicySettings, working_dir: &Path) -> Self {
        let real = |root: &PathBuf| real(&working_dir.join(root));
        let read = match settings.allowed_read_roots.as_slice() {
            [] => vec![self::real(working_dir)],
            roots => roots.iter().map(real).collect(),
        };
        Self {
            working_dir: working_dir.to_owned(),
            write: settings.allowed_write_roots.iter().map(real).collect(),
            read,
        }
    }

    fn may_write(&self, root: &Path) -> bool {
        let root = real(&self.working_dir.join(root));
        self.write.iter().any(|it| root.starts_with(it))
    }

    fn may_read(&self, root: &Path) -> bool {
        let resolved = real(&self.working_dir.join(root));
        self.read.iter().any(|it| resolved.starts_with(it)) || self.may_write(root)
    }
}

/// The path with its links followed as far as it exists. What does not exist
/// has no links; a `..` in it leads nowhere that is allowed.
fn real(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(mut real) = std::fs::canonicalize(existing) {
            real.extend(missing.iter().rev());
            return real;
        }
        match (existing.components().next_back(), existing.parent()) {
            (Some(Component::Normal(name)), Some(parent)) => {
                missing.push(name.to_owned());
                existing = parent;
            }
            (Some(Component::CurDir), Some(parent)) => existing = parent,
            _ => return PathBuf::from("/nowhere"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_tools::policy::NetworkSwitch;

    fn settings() -> PolicySettings {
        PolicySettings {
            network: NetworkSwitch::On,
            allowed_hosts: vec!["a.example".into()],
            ..PolicySettings::default()
        }
    }

    /// What is asked for, and how the refusal calls it.
    fn more() -> Vec<(SessionBounds, &'static str)> {
        let bounds = SessionBounds::default;
        vec![
            (
                SessionBounds {
                    programs: Some(vec!["rm".into()]),
                    ..bounds()
                },
                "program 'rm'",
            ),
            (
                SessionBounds {
                    programs: Some(vec!["*".into()]),
                    ..bounds()
                },
                "program '*'",
            ),
            (
                SessionBounds {
                    hosts: Some(vec!["b.example".into()]),
                    ..bounds()
                },
                "host 'b.example'",
            ),
            (
                SessionBounds {
                    write_roots: Some(vec!["link".into()]),
                    ..bounds()
                },
                "write root 'link'",
            ),
            (
                SessionBounds {
                    write_roots: Some(vec!["new/../../x".into()]),
                    ..bounds()
                },
                "write root",
            ),
            (
                SessionBounds {
                    read_roots: Some(vec!["..".into()]),
                    ..bounds()
                },
                "read root '..'",
            ),
            (
                SessionBounds {
                    permission_mode: Some(PermissionMode::FullAccess),
                    ..bounds()
                },
                "permission mode 'full_access'",
            ),
            (
                SessionBounds {
                    max_read_bytes: Some(u64::MAX),
                    ..bounds()
                },
                "max_read_bytes",
            ),
            (
                SessionBounds {
                    shell_timeout_secs: Some(u64::MAX),
                    ..bounds()
                },
                "shell_timeout_secs",
            ),
        ]
    }

    #[test]
    fn more_than_the_harness_has_is_refused_and_never_applied() {
        let outside = tempfile::tempdir().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        std::os::unix::fs::symlink(outside.path(), here.join("link")).unwrap();
        for (bounds, what) in more() {
            let error = check(&bounds, &settings(), here).unwrap_err();
            assert_eq!(error.code(), "session_exceeds_harness");
            assert!(error.to_string().contains(what), "{error}");
            let applied = narrowed(&settings(), &bounds, here);
            let all = settings();
            let programs = applied.allowed_shell_commands.names();
            assert!(programs.len() <= all.allowed_shell_commands.names().len());
            assert!(!programs.contains(&"*".to_owned()));
            assert!(applied.allowed_hosts.iter().all(|it| it == "a.example"));
            let own = |it: &PathBuf| it.as_path() == Path::new(".");
            assert!(applied.allowed_write_roots.iter().all(own));
            assert!(applied.permissions.mode <= all.permissions.mode);
            assert!(applied.max_read_bytes <= all.max_read_bytes);
            assert!(applied.shell_timeout_secs <= all.shell_timeout_secs);
        }
    }

    #[test]
    fn less_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let bounds = SessionBounds {
            write_roots: Some(vec!["new/sub".into()]),
            read_roots: Some(vec![".".into()]),
            programs: Some(vec!["git".into()]),
            hosts: Some(Vec::new()),
            max_read_bytes: Some(10),
            shell_timeout_secs: Some(1),
            permission_mode: Some(PermissionMode::ReadOnly),
            ..SessionBounds::default()
        };
        check(&bounds, &settings(), directory.path()).unwrap();
        let applied = narrowed(&settings(), &bounds, directory.path());
        assert_eq!(applied.allowed_write_roots, [PathBuf::from("new/sub")]);
        assert_eq!(applied.allowed_shell_commands.names(), ["git"]);
        assert!(applied.allowed_hosts.is_empty());
        assert_eq!(applied.permissions.mode, PermissionMode::ReadOnly);
        assert_eq!(
            (applied.max_read_bytes, applied.shell_timeout_secs),
            (10, 1)
        );
    }
}
