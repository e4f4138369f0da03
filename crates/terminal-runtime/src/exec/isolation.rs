//! What holds sessions and commands together on this machine.

use halter_exec::{LevelState, isolation_ladder};

use super::order::{DockerSettings, Isolation, IsolationLevel, IsolationState};
use crate::sys;

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
    if let Err(reason) = sys::sees_containers() {
        return IsolationState::Unavailable {
            reason: reason.to_owned(),
        };
    }
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
