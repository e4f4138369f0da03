//! A process that outlives a program that was killed, for as long as it takes
//! to end what that program has started.
//!
//! A server ends when its input does, if it is well behaved. For the others a
//! shell waits for the end of its own input, which comes when this program
//! ends, however that happens; then it kills every process that carries the
//! mark of this program in its environment.

use halter_exec::{Command, Environment, ExecError, Process};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// The variable that marks the processes to be ended. Its value is random.
pub const MARK: &str = "HALTER_MCP_GUARD";

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

/// Watches over all servers of a harness. Dropping it ends the watch: by then
/// they have ended.
pub struct Guard {
    mark: String,
    // Its input ends when it is dropped, or when this program dies.
    _input: Option<Arc<halter_exec::host::InputSpool>>,
    _process: Option<Process>,
}

impl Guard {
    /// Starts to watch. Where there is no shell or no `/proc`, nothing does.
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn start() -> std::io::Result<Self> {
        let mut bytes = [0_u8; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let mark: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match watch(&mark) {
            Ok((process, input)) => Ok(Self {
                mark,
                _input: Some(input),
                _process: Some(process),
            }),
            Err(error) => {
                tracing::warn!(%error, "servers are not watched over: one that ignores the end of its input outlives a kill");
                Ok(Self {
                    mark,
                    _input: None,
                    _process: None,
                })
            }
        }
    }

    /// The variable to give to whatever shall end with this program.
    pub fn mark(&self) -> (&'static str, &str) {
        (MARK, &self.mark)
    }
}

fn watch(mark: &str) -> Result<(Process, Arc<halter_exec::host::InputSpool>), ExecError> {
    let environment = Environment::from_iter([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    let command = Command::new("/bin/sh", "/")
        .args(["-c", SCRIPT, "sh", mark])
        .environment(environment)
        .streamed_stdin();
    let (process, streams) = Process::spawn(&command)?;
    // It is never written to; holding it is what counts.
    let input = streams.stdin.ok_or(ExecError::StatusLost { pid: 0 })?;
    Ok((process, Arc::new(input)))
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guard").finish_non_exhaustive()
    }
}
