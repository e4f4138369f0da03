//! What holds sessions and commands together on this machine.

use halter_exec::{LevelState, isolation_ladder};

use super::order::{DockerSettings, Isolation, IsolationLevel, IsolationState};

/// Looks at every level.
pub(super) fn look(docker: &DockerSettings) -> Isolation {
    let mut levels: Vec<IsolationLevel> = isolation_ladder()
        .into_iter()
        .map(|level| IsolationLevel {
            name: level.name,
            state: match level.state {
                LevelState::Enforced { .. } => IsolationState::Enforced,
                LevelState::Unavailable { reason } => IsolationState::Unavailable { reason },
                _ => IsolationState::Unavailable {
                    reason: "not known to this version".to_owned(),
                },
            },
        })
        .collect();
    levels.push(IsolationLevel {
        name: "container",
        state: container(docker),
    });
    Isolation { levels }
}

fn container(docker: &DockerSettings) -> IsolationState {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let environment = halter_exec::Environment::new().with("PATH", path);
    let program = docker.program.as_os_str();
    match halter_exec::find_program(program, &environment, "/".as_ref()) {
        Ok(found) if found.exists() => IsolationState::Enforced,
        Ok(_) | Err(_) => IsolationState::Unavailable {
            reason: format!("there is no program `{}`", docker.program.display()),
        },
    }
}

/// Resident memory of this process, in bytes.
pub(super) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Descriptors this process has open.
pub(super) fn open_descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}
