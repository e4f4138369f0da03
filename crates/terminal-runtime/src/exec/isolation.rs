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
                LevelState::Enforced { by } => IsolationState::Enforced { by },
                LevelState::Unavailable { reason } => IsolationState::Unavailable { reason },
                _ => IsolationState::Unavailable {
                    reason: "not known to this version".to_owned(),
                },
            },
        })
        .collect();
    levels.extend(sys::guarantees().map(|(name, found)| IsolationLevel {
        name,
        state: state(found.map(str::to_owned).map_err(str::to_owned)),
    }));
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
    let found =
        sys::sees_containers().map_err(str::to_owned).and_then(
            |()| match halter_exec::find_program(program, &environment, "/".as_ref()) {
                Ok(found) if found.exists() => Ok(found.display().to_string()),
                _ => Err(format!(
                    "there is no program `{}`",
                    docker.program.display()
                )),
            },
        );
    state(found)
}

fn state(found: Result<String, String>) -> IsolationState {
    match found {
        Ok(by) => IsolationState::Enforced { by },
        Err(reason) => IsolationState::Unavailable { reason },
    }
}
