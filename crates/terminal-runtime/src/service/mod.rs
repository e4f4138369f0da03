//! What the protocol's methods do: from a call to its answer.
//!
//! Owns: the sessions and commands clients know by name. Never: knows which
//! transport a client came by.

mod adopt;
mod answer;
mod execs;
mod files;
mod job;
mod lease;
mod order;
mod processes;
mod result;
mod run;
mod sessions;
mod stream;
mod upkeep;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use halter_exec::{IsolationLevel, LevelState};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use answer::{CallAnswer, Client};
pub use stream::{Outlet, StreamOrder};

use self::job::Job;
use crate::discovery::FoundRuntime;
use crate::exec::{Core, CoreError, CoreSettings, DockerSettings, ExecId};
use crate::fs::{self, Files};
use crate::lock::lock;
use crate::protocol::{
    Call, DescribedLevel, DescribedLimits, DescribedTransport, Description, ErrorCode, FEATURES,
    Greeting, Ping, RequestId, Stats, WireError, failure, success,
};
use crate::session::{Clock, Moment, SessionPool};
use crate::settings::Settings;

/// The version of this runtime.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A runtime without its transports. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    transports: Mutex<Vec<DescribedTransport>>,
    core: Core,
    pool: SessionPool,
    jobs: Mutex<HashMap<ExecId, Arc<Job>>>,
    clock: Arc<dyn Clock>,
    started: Moment,
    /// Makes the names of commands and streams.
    names: RandomState,
    named: AtomicU64,
    draining: AtomicBool,
    memory: Mutex<Option<(Moment, u64)>>,
    /// Everything that runs commands, however their clients fare.
    tasks: TaskTracker,
    files: Arc<Files>,
    /// Set when no more requests are taken: connections finish.
    closing: CancellationToken,
    /// Set when the runtime ends: nobody waits for anything any more.
    ended: CancellationToken,
}

impl Service {
    /// Starts a runtime with an empty pool, or with the sessions of an
    /// earlier one that crashed.
    ///
    /// # Errors
    /// If its state directory cannot be used.
    pub async fn start(
        settings: Settings,
        core: CoreSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CoreError> {
        let (core, adopted) = Core::start(core).await?;
        let service = Self {
            inner: Arc::new(Inner {
                pool: SessionPool::new(settings.max_sessions, Arc::clone(&clock)),
                settings,
                transports: Mutex::default(),
                core,
                jobs: Mutex::default(),
                started: clock.now(),
                clock,
                names: RandomState::new(),
                named: AtomicU64::new(0),
                draining: AtomicBool::new(false),
                memory: Mutex::default(),
                tasks: TaskTracker::new(),
                files: Arc::default(),
                closing: CancellationToken::new(),
                ended: CancellationToken::new(),
            }),
        };
        for session in adopted {
            service.adopt(session);
        }
        Ok(service)
    }

    /// Notes a way by which the runtime can be reached.
    pub fn reachable_by(&self, transport: DescribedTransport) {
        lock(&self.inner.transports).push(transport);
    }

    /// What the runtime was started with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Set when connections take no more requests, and end once everything is
    /// answered.
    #[must_use]
    pub fn closing(&self) -> CancellationToken {
        self.inner.closing.clone()
    }

    /// Set when the runtime has ended and connections must go.
    #[must_use]
    pub fn ended(&self) -> CancellationToken {
        self.inner.ended.clone()
    }

    /// Answers a call. Returns when the answer is there, which for a command
    /// is its end; a client that goes meanwhile gets [`CallAnswer::Nobody`].
    pub async fn call(&self, id: &RequestId, call: Call, client: &Client) -> CallAnswer {
        let answer = match call {
            Call::SessionCreate(params) => line(id, Box::pin(self.create(*params)).await),
            Call::SessionDestroy(params) => line(id, Box::pin(self.destroy(&params)).await),
            Call::ExecRun(params) => self.run(*params, client).await,
            Call::ExecStream(params) => Box::pin(self.stream(*params, client)).await,
            Call::ExecWait(params) => Box::pin(self.wait(&params, client)).await,
            Call::ExecRead(params) => line(id, Box::pin(self.read(&params, client)).await),
            Call::ExecAttach(params) => self.attach(&params),
            Call::ExecWrite(params) => line(id, Box::pin(self.write(&params)).await),
            Call::ExecCancel(params) => line(id, Box::pin(self.cancel(&params)).await),
            Call::FsStat(params) => line(id, self.on_files(move |files| files.stat(&params)).await),
            Call::FsRead(params) => line(id, self.on_files(move |files| files.read(&params)).await),
            Call::FsWrite(params) => {
                line(id, self.on_files(move |files| files.write(*params)).await)
            }
            Call::FsList(params) => line(id, self.on_files(move |files| files.list(&params)).await),
            Call::FsWalk(params) => line(id, self.on_files(move |files| files.walk(&params)).await),
            Call::FsRemove(params) => {
                line(id, self.on_files(move |files| files.remove(&params)).await)
            }
            Call::FsRename(params) => {
                line(id, self.on_files(move |files| files.rename(&params)).await)
            }
            Call::FsMkdir(params) => {
                line(id, self.on_files(move |files| files.mkdir(&params)).await)
            }
            Call::FsBounds(params) => {
                let environment = self.inner.core.environment().clone();
                let bounds = move |_: &Files| fs::bounds(&params, &environment);
                line(id, self.on_files(bounds).await)
            }
            Call::ProcessList(params) => line(id, Box::pin(self.list_processes(&params)).await),
            Call::ProcessSignal(params) => line(id, Box::pin(self.signal_process(&params)).await),
            Call::Describe => line(id, Ok(Box::pin(self.describe()).await)),
            quick => Ok(self.call_now(id, quick, client)),
        };
        answer.unwrap_or_else(|error| CallAnswer::Line(failure(id, &error)))
    }

    /// Answers a call that waits for nothing.
    #[must_use]
    pub fn call_now(&self, id: &RequestId, call: Call, client: &Client) -> CallAnswer {
        let answer = match call {
            Call::Ping => line(id, Ok(self.ping())),
            Call::Hello(params) => {
                client.set_frames(params.frames);
                let greeting = Greeting {
                    version: VERSION.to_owned(),
                    frames: client.frames(),
                    features: FEATURES.iter().map(|name| (*name).to_owned()).collect(),
                };
                line(id, Ok(greeting))
            }
            Call::Stats => line(id, Ok(self.stats())),
            Call::SessionList => line(id, Ok(self.list_sessions())),
            Call::SessionInfo(params) => line(id, self.session_info(&params)),
            Call::SessionRenew(params) => line(id, self.renew(&params)),
            Call::ExecResize(params) => line(id, self.resize(&params)),
            Call::ExecSignal(params) => line(id, self.signal(&params)),
            Call::ExecList => line(id, Ok(self.list_execs())),
            _ => Err(WireError::new(
                ErrorCode::InternalError,
                "the call has to wait and was not let",
            )),
        };
        answer.unwrap_or_else(|error| CallAnswer::Line(failure(id, &error)))
    }

    fn uptime_s(&self) -> u64 {
        self.inner.clock.now().since(self.inner.started).as_secs()
    }

    fn ping(&self) -> Ping {
        Ping {
            uptime_s: self.uptime_s(),
            version: VERSION.to_owned(),
        }
    }

    fn stats(&self) -> Stats {
        let core = self.inner.core.stats();
        Stats {
            active_sessions: self.inner.pool.len() as u64,
            running_commands: core.running,
            total_commands_run: core.total_commands,
            uptime_s: self.uptime_s(),
            memory_rss_bytes: core.memory_rss_bytes,
            open_fds: core.open_fds,
        }
    }

    /// What a client that looks for runtimes finds of this one.
    #[must_use]
    pub fn found(&self) -> FoundRuntime {
        FoundRuntime {
            version: VERSION.to_owned(),
            pid: std::process::id(),
            started_at: self.inner.started.shown(),
            transports: lock(&self.inner.transports).clone(),
        }
    }

    /// What a client learns about this runtime.
    pub async fn describe(&self) -> Description {
        let settings = &self.inner.settings;
        let isolation = self.inner.core.isolation().await;
        let FoundRuntime {
            version,
            pid,
            started_at,
            transports,
        } = self.found();
        let seconds = |span: Option<std::time::Duration>| span.map_or(0, |span| span.as_secs());
        Description {
            version,
            platform: std::env::consts::OS.to_owned(),
            pid,
            started_at,
            transports,
            features: FEATURES.iter().map(|name| (*name).to_owned()).collect(),
            isolation: isolation.iter().map(described).collect(),
            limits: DescribedLimits {
                max_sessions: settings.max_sessions as u64,
                session_max_commands: settings.session_max_commands.unwrap_or(0),
                default_timeout_s: settings
                    .default_timeout
                    .map_or(0.0, |span| span.as_secs_f64()),
                max_output_bytes: settings.max_output_bytes as u64,
                spool_quota_bytes: settings.spool_quota_bytes,
                max_file_write_bytes: crate::limits::MAX_FILE_WRITE_BYTES as u64,
                max_request_bytes: crate::limits::MAX_REQUEST_BYTES as u64,
                max_idle_s: seconds(settings.max_idle),
                session_ttl_s: seconds(settings.session_ttl),
                child_memory_bytes: settings.child_memory_bytes.unwrap_or(0),
                child_processes: settings.child_nproc.unwrap_or(0),
                child_cpu_s: settings.child_cpu_sec.unwrap_or(0),
            },
        }
    }

    /// A name no other command or stream of this runtime has.
    fn fresh_number(&self) -> u64 {
        let count = self.inner.named.fetch_add(1, Ordering::Relaxed);
        // The low half counts, so that names differ; the high half does not
        // tell what comes next.
        (self.inner.names.hash_one(count) << 32) | (count & 0xffff_ffff)
    }

    fn fail_if_draining(&self) -> Result<(), WireError> {
        if self.inner.draining.load(Ordering::Relaxed) {
            return Err(WireError::new(
                ErrorCode::ShuttingDown,
                "the runtime is about to end and starts nothing new; connect again later",
            ));
        }
        Ok(())
    }
}

/// The core's settings that follow from the user's. `program` is this very
/// program, which is also the holder.
#[must_use]
pub fn core_settings(
    settings: &Settings,
    environment: halter_exec::Environment,
    state_dir: std::path::PathBuf,
    program: std::path::PathBuf,
) -> CoreSettings {
    CoreSettings {
        state_dir,
        program,
        pid_namespace: settings.pid_namespace,
        environment,
        spool_quota_bytes: settings.spool_quota_bytes,
        grace: settings.grace,
        docker: DockerSettings {
            program: settings.docker_program.clone(),
        },
    }
}

fn described(level: &IsolationLevel) -> DescribedLevel {
    let (state, by, reason) = match &level.state {
        LevelState::Enforced { by } => ("enforced", Some(by), None),
        LevelState::Weaker { by, reason } => ("weaker", Some(by), Some(reason)),
        LevelState::Unavailable { reason } => ("unavailable", None, Some(reason)),
        _ => ("unavailable", None, None),
    };
    DescribedLevel {
        name: level.name.to_owned(),
        state: state.to_owned(),
        by: by.cloned(),
        reason: reason.cloned(),
    }
}

fn line<Data: serde::Serialize>(
    id: &RequestId,
    data: Result<Data, WireError>,
) -> Result<CallAnswer, WireError> {
    data.map(|data| CallAnswer::Line(success(id, &data)))
}
