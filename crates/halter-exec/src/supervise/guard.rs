//! A process that outlives a program that was killed, for as long as it takes
//! to end what that program has started.
//!
//! A server ends when its input does, if it is well behaved. For the others a
//! shell waits for the end of its own input, which comes when this program
//! ends, however that happens; then it kills every process that carries the
//! mark of this program in its environment.

use crate::environment::Environment;
use crate::error::ExecError;
use crate::input::InputSpool;
use crate::nonce;
use crate::process::{Command, Process};
use std::fmt;

/// The variable that marks the processes to be ended. Its value is random.
pub const MARK: &str = "HALTER_GUARD";

/// Waits for the end of input; then kills what is marked until several looks
/// around in a row find nothing: what was being started at the end gets its
/// environment a moment later. The mark is an argument, so that the guard does
/// not have it.
const SCRIPT: &str = r#"read -r nothing
rounds=0
quiet=0
while [ "$rounds" -lt 100 ] && [ "$quiet" -lt 10 ]; do
  quiet=$((quiet + 1))
  for file in $(grep -lsF "$1" /proc/[0-9]*/environ); do
    number=${file#/proc/}
    kill -KILL "${number%/environ}" 2>/dev/null && quiet=0
  done
  rounds=$((rounds + 1))
  sleep 0.1
done"#;

/// Watches over the servers of a program. Dropping it ends the watch: by then
/// they have ended.
pub struct Guard {
    mark: String,
    // Its input ends when it is dropped, or when this program dies.
    _watch: Option<(Process, InputSpool)>,
}

impl Guard {
    /// Starts to watch. Where there is no shell or no `/proc`, nothing does.
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn start() -> Result<Self, ExecError> {
        let mark = nonce::random()?;
        let watch = watch(&mark).inspect_err(|error| {
            tracing::warn!(%error, "servers are not watched over: one that ignores the end of its input outlives a kill");
        });
        Ok(Self {
            mark,
            _watch: watch.ok(),
        })
    }

    /// The variable to give to whatever shall end with this program.
    pub fn mark(&self) -> (&'static str, &str) {
        (MARK, &self.mark)
    }
}

fn watch(mark: &str) -> Result<(Process, InputSpool), ExecError> {
    let environment = Environment::from_iter([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    let command = Command::new("/bin/sh", "/")
        .args(["-c", SCRIPT, "sh", mark])
        .environment(environment)
        .streamed_stdin();
    let (process, streams) = Process::spawn(&command)?;
    // It is never written to; holding it is what counts.
    let lost = ExecError::StatusLost { pid: process.pid() };
    Ok((process, streams.stdin.ok_or(lost)?))
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guard").finish_non_exhaustive()
    }
}
