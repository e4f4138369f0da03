//! What the runtime does on its own: ending what has lived long enough,
//! shedding sessions when memory is short, ending itself.

use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use super::job::{Job, JobState};
use super::{Service, lock};
use crate::limits::{
    EXEC_RETENTION, MAX_KEPT_EXECS, PRESSURE_EVICTIONS, PRESSURE_MEMORY_AGE, SPARE_DESCRIPTORS,
    SWEEP_PERIOD,
};
use crate::protocol::{ErrorCode, WireError};
use crate::session::{Lifetimes, SessionEvent, SessionId};

/// How often to look: often enough for the shortest life, never in a hurry.
fn sweep_period(lifetimes: [Option<Duration>; 2]) -> Duration {
    let shortest = lifetimes
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(SWEEP_PERIOD);
    shortest.clamp(Duration::from_millis(100), SWEEP_PERIOD)
}

fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

impl Service {
    /// Looks after sessions and kept commands until the runtime ends.
    pub async fn keep_up(&self) {
        let settings = &self.inner.settings;
        let period = sweep_period([settings.max_idle, settings.session_ttl]);
        loop {
            tokio::select! {
                () = tokio::time::sleep(period) => self.sweep().await,
                id = self.inner.core.next_lost_session() => {
                    if let Ok(session) = self.find_session(&id.to_string()) {
                        let _ = self.end_session(&session, SessionEvent::DestroyByForce).await;
                    }
                }
                () = self.inner.ended.cancelled() => return,
            }
        }
    }

    /// One look at everything.
    pub async fn sweep(&self) {
        let lifetimes = Lifetimes {
            max_idle: self.inner.settings.max_idle,
            ttl: self.inner.settings.session_ttl,
        };
        for (session, expiry) in self.inner.pool.expired(lifetimes) {
            if self.runs_beside(session.id) {
                session.used(self.inner.clock.now());
                continue;
            }
            // Refused if a command has begun since: then it is in use.
            if self
                .end_session(&session, SessionEvent::Destroy)
                .await
                .is_ok()
            {
                tracing::info!(session = %session.id, reason = ?expiry, "session expired");
            }
        }
        self.forget_old();
        let stats = self.inner.core.stats();
        *lock(&self.inner.memory) = Some((self.inner.clock.now(), stats.memory_rss_bytes));
        if let Some(threshold) = self.inner.settings.fd_warning_threshold
            && stats.open_fds >= threshold
        {
            tracing::warn!(
                open_fds = stats.open_fds,
                threshold,
                "many descriptors are open"
            );
        }
        if self.is_short_of_memory() {
            self.shed().await;
        }
    }

    /// Whether something runs beside a session's shell.
    fn runs_beside(&self, id: SessionId) -> bool {
        let jobs = lock(&self.inner.jobs);
        let its = |job: &Arc<Job>| job.runs_beside() && job.session.id == id;
        jobs.values().any(its)
    }

    fn forget_old(&self) {
        let now = self.inner.clock.now();
        let jobs: Vec<Arc<Job>> = lock(&self.inner.jobs).values().cloned().collect();
        let mut ended: Vec<(Duration, Arc<Job>)> = Vec::new();
        for job in jobs {
            match job.state() {
                JobState::Ended { at, .. } => ended.push((now.since(at), job)),
                JobState::Refused(_) => ended.push((now.since(job.asked), job)),
                JobState::Waiting | JobState::Running(_) => {}
            }
        }
        ended.sort_by_key(|(age, _)| *age);
        for (rank, (age, job)) in ended.iter().enumerate() {
            if rank >= MAX_KEPT_EXECS || *age >= EXEC_RETENTION {
                self.forget(job);
            }
        }
    }

    fn is_short_of_memory(&self) -> bool {
        let Some(limit) = self.inner.settings.memory_pressure_bytes else {
            return false;
        };
        let now = self.inner.clock.now();
        let mut measured = lock(&self.inner.memory);
        let used = match *measured {
            Some((at, used)) if now.since(at) < PRESSURE_MEMORY_AGE => used,
            _ => {
                let used = self.inner.core.stats().memory_rss_bytes;
                *measured = Some((now, used));
                used
            }
        };
        used >= limit
    }

    async fn shed(&self) -> usize {
        let mut shed = 0;
        for session in self.inner.pool.least_used(PRESSURE_EVICTIONS) {
            if self.runs_beside(session.id) {
                continue;
            }
            if self
                .end_session(&session, SessionEvent::Destroy)
                .await
                .is_ok()
            {
                tracing::warn!(session = %session.id, "session ended because memory is short");
                shed += 1;
            }
        }
        shed
    }

    pub(super) async fn fail_under_pressure(&self) -> Result<(), WireError> {
        if self.is_short_of_memory() && self.shed().await == 0 {
            return Err(WireError::new(
                ErrorCode::ResourcePressure,
                "the runtime is short of memory and has no idle session to end; \
                 destroy a session, or raise TRL_MEMORY_PRESSURE_MB",
            ));
        }
        Ok(())
    }

    /// Refuses what needs descriptors while there are still some for what runs.
    pub(super) fn fail_without_descriptors(&self) -> Result<(), WireError> {
        let limit = descriptor_limit();
        let jobs = lock(&self.inner.jobs).len();
        if jobs > MAX_KEPT_EXECS {
            self.forget_old();
        }
        // The lowest number that is free tells how many are in use, at little
        // cost.
        let next = std::io::pipe().map(|(reader, _)| reader.as_raw_fd());
        let next = next.ok().and_then(|number| u64::try_from(number).ok());
        if next.is_some_and(|next| next + SPARE_DESCRIPTORS < limit) {
            return Ok(());
        }
        Err(WireError::new(
            ErrorCode::ResourcePressure,
            format!(
                "the runtime has nearly all of the {limit} descriptors open that it may have; \
                 destroy sessions, or start it with more (`ulimit -n`, LimitNOFILE=)"
            ),
        ))
    }

    /// Starts nothing new from now on.
    pub fn begin_drain(&self) {
        self.inner.draining.store(true, Ordering::Relaxed);
    }

    /// Waits until nothing runs any more, at most as long as settings say,
    /// and then ends what does.
    pub async fn drain(&self) {
        self.begin_drain();
        self.inner.core.drain(self.inner.settings.drain).await;
        let jobs: Vec<Arc<Job>> = lock(&self.inner.jobs).values().cloned().collect();
        futures::future::join_all(jobs.iter().map(|job| job.stop(None))).await;
    }

    /// Kills what still runs and removes everything that was kept. From then
    /// on connections only finish what they have begun.
    pub async fn shut_down(&self) {
        self.begin_drain();
        for session in self.inner.pool.list() {
            let _ = self
                .end_session(&session, SessionEvent::DestroyByForce)
                .await;
        }
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        self.inner.closing.cancel();
    }

    /// Lets go of the connections that are left, and of the holder.
    pub async fn end(&self) {
        self.inner.ended.cancel();
        self.inner.core.clone().shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_looked_at_as_often_as_the_shortest_life_needs() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(sweep_period([None, None]), SWEEP_PERIOD);
        assert_eq!(sweep_period([seconds(3600), seconds(86400)]), SWEEP_PERIOD);
        assert_eq!(
            sweep_period([seconds(3600), seconds(5)]),
            Duration::from_secs(5)
        );
        assert_eq!(
            sweep_period([Some(Duration::ZERO), None]),
            Duration::from_millis(100)
        );
    }
}
