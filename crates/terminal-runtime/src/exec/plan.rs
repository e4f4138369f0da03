//! The process of a command: its program, and what it finds around it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use halter_exec::{Environment, LaunchFailure, LaunchPlan, PlanFrame, find_program_in};

use super::core::CoreInner;
use super::docker;
use super::error::CoreError;
use super::handle::Exec;
use super::lock;
use super::order::{ExecOrder, ExecStdin, ExecWhat};
use super::record::Grip;
use super::session::Session;
use crate::limits::KEPT_FRAMES;
use crate::session::SessionId;

/// A process that is to be put into a tree.
pub(super) enum Planned {
    /// As the others of its session, but for its program.
    Alike { program: PathBuf },
    /// With variables of its own, a terminal or a container.
    Apart(Box<LaunchPlan>),
}

/// What processes that are alike have in common, for the sessions that
/// started some last.
#[derive(Debug, Default)]
pub(super) struct Frames {
    kept: Mutex<Vec<(SessionId, Arc<str>, PlanFrame)>>,
}

impl Frames {
    /// That of the processes in this group of a session.
    fn find(&self, session: SessionId, group: &Arc<str>) -> Option<PlanFrame> {
        let mut kept = lock(&self.kept);
        let place = kept
            .iter()
            .rposition(|(of, name, _)| (*of, name) == (session, group))?;
        let found = kept.remove(place);
        let frame = found.2.clone();
        kept.push(found);
        Some(frame)
    }

    fn keep(&self, session: SessionId, group: &Arc<str>, frame: PlanFrame) {
        let (most, most_bytes) = KEPT_FRAMES;
        if frame.size() > most_bytes {
            return;
        }
        let mut kept = lock(&self.kept);
        if kept.len() >= most {
            kept.remove(0);
        }
        kept.push((session, Arc::clone(group), frame));
    }

    /// Drops those of a session that is closed: its variables are in them.
    pub(super) fn forget(&self, session: SessionId) {
        lock(&self.kept).retain(|(of, ..)| *of != session);
    }
}

impl CoreInner {
    /// The process of a command, or why there can be none.
    pub(super) fn planned(
        &self,
        session: &Session,
        order: &ExecOrder,
    ) -> Result<Planned, CoreError> {
        let apart =
            !order.environment.is_empty() || order.pty.is_some() || session.container.is_some();
        if apart {
            let mut plan = self.plan(session, order)?;
            plan.terminal = order.pty.map(|_| 0);
            return Ok(Planned::Apart(Box::new(plan)));
        }
        let spec = &session.spec;
        let environment = match spec.environment.get("PATH") {
            Some(_) => &spec.environment,
            None => &self.settings.environment,
        };
        let words = words(session, &order.what);
        let program = words.first().copied().unwrap_or_default();
        let root = spec.chroot.as_deref();
        Ok(Planned::Alike {
            program: find_program_in(root, program, environment, &spec.working_dir)?,
        })
    }

    /// Puts a process into a tree of its own, and says how that is found
    /// again.
    pub(super) fn planted(
        &self,
        session: &Session,
        order: &ExecOrder,
        planned: Planned,
    ) -> Result<(Vec<u8>, Grip), CoreError> {
        let program = match planned {
            Planned::Alike { program } => program,
            Planned::Apart(mut plan) => {
                let terminal = order.pty.is_some();
                let grip = session.plant(&self.settings, &mut plan, terminal)?;
                return Ok((plan.encode(), grip));
            }
        };
        let trees = &session.trees;
        let grip = trees.new_grip(&session.spec)?;
        let words = words(session, &order.what);
        if let Grip::Cgroup(group) = &grip
            && let Some(frame) = self.frames.find(session.id, group)
        {
            return Ok((frame.encode(&program, words), grip));
        }
        let environment = session.environment(&self.settings);
        let mut plan = process(session, program, &words, environment);
        trees.confine(&session.spec, &mut plan, &grip)?;
        if let Grip::Cgroup(group) = &grip {
            self.frames.keep(session.id, group, plan.frame());
        }
        Ok((plan.encode(), grip))
    }

    /// The process of a command that is not given to the persistent shell. A
    /// terminal is led by a process of its own, so a line for the shell runs
    /// in a new one there.
    fn plan(&self, session: &Session, order: &ExecOrder) -> Result<LaunchPlan, CoreError> {
        let spec = &session.spec;
        let environment = match session.container {
            Some(_) => docker::environment(spec, order),
            None => {
                let mut environment = session.environment(&self.settings);
                environment.extend(order.environment.iter());
                environment
            }
        };
        let words = words(session, &order.what);
        let program = match session.container {
            // Looked for inside, by the one who runs it there.
            Some(_) => PathBuf::new(),
            None => {
                let program = words.first().copied().unwrap_or_default();
                let root = spec.chroot.as_deref();
                find_program_in(root, program, &environment, &spec.working_dir)?
            }
        };
        Ok(process(session, program, &words, environment))
    }
}

/// A process of a session that is in no tree yet.
fn process(
    session: &Session,
    program: PathBuf,
    words: &[&OsStr],
    environment: Environment,
) -> LaunchPlan {
    let mut plan = LaunchPlan::new(program, &session.spec.working_dir).standard_streams();
    plan.arguments = words.iter().map(OsString::from).collect();
    plan.environment = environment;
    plan
}

/// A command as the words of its process.
fn words<'a>(session: &'a Session, what: &'a ExecWhat) -> Vec<&'a OsStr> {
    match what {
        ExecWhat::Command(text) | ExecWhat::Fresh(text) => {
            vec![
                session.spec.shell.as_os_str(),
                "-c".as_ref(),
                (**text).as_ref(),
            ]
        }
        ExecWhat::Argv(words) => words.iter().map(AsRef::as_ref).collect(),
    }
}

impl Exec {
    /// Why it could not be started, in words.
    pub(super) fn explain(&self, failure: LaunchFailure) -> CoreError {
        let Some(core) = self.inner.core.upgrade() else {
            return super::drive::lost();
        };
        let what = lock(&self.inner.record).what.clone();
        let order = ExecOrder {
            id: self.inner.id.clone(),
            what,
            environment: Environment::new(),
            stdin: ExecStdin::Null,
            timeout: None,
            pty: None,
            kept: false,
            note: bytes::Bytes::new(),
        };
        match core.plan(&self.inner.session, &order) {
            Ok(mut plan) => {
                plan.root.clone_from(&self.inner.session.spec.chroot);
                let program = plan.arguments.first().cloned().unwrap_or_default();
                failure.explain(&plan, &program.to_string_lossy()).into()
            }
            Err(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: usize) -> PlanFrame {
        let with = |text: &str| {
            let mut plan = LaunchPlan::new("", "/");
            plan.environment.set("A", text);
            plan.frame()
        };
        // A longer text takes two more bytes to say how long it is.
        let others = with("").size() + 2;
        with(&"x".repeat(bytes - others))
    }

    #[test]
    fn so_much_is_kept_ready_and_what_was_not_used_for_longest_goes() {
        let (most, most_bytes) = KEPT_FRAMES;
        assert_eq!((most, most_bytes), (8, 64 * 1024));
        let frames = Frames::default();
        let session = |number: usize| SessionId::from_number(number as u32);
        let group: Arc<str> = "t1".into();
        let other: Arc<str> = "t2".into();
        let large = frame(most_bytes);
        assert_eq!(large.size(), most_bytes);
        for number in 0..most {
            frames.keep(session(number), &group, large.clone());
        }
        assert!(frames.find(session(0), &group).is_some());
        assert!(frames.find(session(0), &other).is_none());
        frames.keep(session(most), &group, frame(most_bytes + 1));
        assert!(frames.find(session(most), &group).is_none());
        frames.keep(session(most), &group, large);
        assert!(frames.find(session(0), &group).is_some());
        assert!(frames.find(session(1), &group).is_none());
        assert!(frames.find(session(most), &group).is_some());
        frames.forget(session(most));
        assert!(frames.find(session(most), &group).is_none());
        assert!(frames.find(session(0), &group).is_some());
    }
}
