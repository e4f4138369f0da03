//! Sessions and commands of a runtime that crashed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::job::{Admission, Job};
use super::order::BESIDE;
use super::sessions::{SessionNote, parameters};
use super::{Service, lock};
use crate::exec::{AdoptedSession, Exec, ExecState};
use crate::session::{Moment, Session};

impl Service {
    pub(super) fn adopt(&self, adopted: AdoptedSession) {
        let note: SessionNote = serde_json::from_slice(&adopted.spec.note).unwrap_or_default();
        let timeout = note.timeout_ms.map(Duration::from_millis);
        let parameters = parameters(&adopted.spec, note.name, timeout);
        let created = self.earlier(SystemTime::UNIX_EPOCH + Duration::from_millis(note.created_ms));
        let running = adopted
            .execs
            .iter()
            .map(Exec::info)
            .filter(|info| info.state == ExecState::Running && info.note != BESIDE);
        let before = adopted.commands.saturating_sub(running.count() as u64);
        let session = self
            .inner
            .pool
            .adopt(adopted.id, parameters, before, created);
        tracing::info!(session = %session.id, commands = adopted.execs.len(), "session adopted");
        self.watch_lease(&session);
        for exec in adopted.execs {
            self.adopt_exec(&session, exec);
        }
    }

    fn adopt_exec(&self, session: &Arc<Session>, exec: Exec) {
        let info = exec.info();
        let admission = match info.note == BESIDE {
            true => Admission::Beside,
            false => Admission::Turn,
        };
        // Its client may come back for it, whether it named the command or not.
        let job = Job::new(
            info.id.clone(),
            Arc::clone(session),
            info.what.clone(),
            true,
            info.pty,
            admission,
            self.earlier(info.started),
        );
        lock(&self.inner.jobs).insert(info.id.clone(), Arc::clone(&job));
        let turn = match info.state {
            ExecState::Running if admission == Admission::Turn => session.try_turn().ok(),
            ExecState::Running | ExecState::Ended => None,
        };
        let begun = turn.filter(|turn| {
            let shown = Arc::clone(&job.shown);
            session
                .begin(turn, info.id.clone(), shown, job.asked, None)
                .is_ok()
        });
        job.begin(Ok(exec.clone()));
        let service = self.clone();
        self.inner.tasks.spawn(async move {
            let end = exec.ended().await;
            // The oldest are forgotten first, also of those that had ended
            // before this runtime began.
            let at = match (&end, info.state) {
                (Ok(end), ExecState::Ended) => service.earlier(info.started + end.duration),
                _ => service.inner.clock.now(),
            };
            service.over(&job, end, at, begun);
        });
    }

    /// A time before this runtime was started, on both clocks.
    fn earlier(&self, wall: SystemTime) -> Moment {
        let now = self.inner.clock.now();
        let ago = now.wall.duration_since(wall).unwrap_or_default();
        Moment {
            monotonic: now.monotonic.checked_sub(ago).unwrap_or(now.monotonic),
            wall,
        }
    }
}
