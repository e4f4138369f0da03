//! The daemon in the foreground.

use std::io::{self, IsTerminal as _};

use terminal_runtime::daemon::{Daemon, ShutdownRequest};
use terminal_runtime::settings::{
    EnvFile, LogFormat, Settings, TOKEN_VARIABLE, Token, child_environment,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::failure::Failure;
use super::token_handover;

/// The beginning of the name of the control group that the daemon and the
/// holder move into.
const GROUP_PREFIX: &str = "terminal-runtime-";

pub fn run(mut settings: Settings, file: &EnvFile) -> Result<u8, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("this program cannot find itself: {error}")))?;
    let in_file = file.setting(TOKEN_VARIABLE).and_then(Token::new);
    settings.auth_token = token_handover::token(&program)?.or(in_file);
    let settings = settings.completed()?;
    let environment = child_environment(file);
    start_log(&settings);
    for name in file.ignored() {
        tracing::warn!(
            name,
            file = %file.path().display(),
            "not used: settings count only in a file that --env-file names"
        );
    }
    halter_exec::host::system::raise_descriptor_limit();
    // Before anything is started, and given back after everything has ended.
    let _group = halter_exec::host::OwnGroup::claim(GROUP_PREFIX);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("the runtime cannot start: {error}")))?;
    let served = runtime.block_on(async {
        // Before anything is started that a signal would have to end.
        let signals = Signals::listen()
            .map_err(|error| Failure::new(format!("signals cannot be listened for: {error}")))?;
        let daemon = Daemon::start(settings, environment, program)
            .await
            .map_err(|error| Failure {
                message: error.to_string(),
                code: 1,
            })?;
        let stop = ShutdownRequest::default();
        tokio::select! {
            () = daemon.serve(stop.clone()) => {}
            () = signals.obey(&stop) => {}
        }
        Ok(0)
    });
    // A read of standard input that nobody will end must not keep us.
    runtime.shutdown_background();
    served
}

/// The signals that end the daemon. One that was ignored when it was started,
/// as `nohup` does, stays ignored.
struct Signals {
    terminate: Signal,
    interrupt: Option<Signal>,
    hang_up: Option<Signal>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let unless_ignored = |kind: SignalKind| match is_ignored(kind) {
            true => Ok(None),
            false => signal(kind).map(Some),
        };
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: unless_ignored(SignalKind::interrupt())?,
            hang_up: unless_ignored(SignalKind::hangup())?,
        })
    }

    /// The first signal ends gently, the second at once.
    async fn obey(mut self, stop: &ShutdownRequest) {
        self.next().await;
        stop.graceful.cancel();
        self.next().await;
        stop.immediate.cancel();
        std::future::pending().await
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            () = received(&mut self.interrupt) => {}
            () = received(&mut self.hang_up) => {}
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether whoever started us wanted us to ignore a signal.
fn is_ignored(kind: SignalKind) -> bool {
    halter_exec::Signal::new(kind.as_raw_value()).is_ok_and(halter_exec::host::system::is_ignored)
}

fn start_log(settings: &Settings) {
    let registry = tracing_subscriber::registry();
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    // Already set only if someone else did, who then has the say.
    let _ = match settings.log_format {
        LogFormat::Text => registry
            .with(layer.with_filter(settings.log_level))
            .try_init(),
        LogFormat::Json => registry
            .with(
                layer
                    .json()
                    .flatten_event(true)
                    .with_filter(settings.log_level),
            )
            .try_init(),
    };
}
