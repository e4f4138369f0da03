//! A process that outlives a program that was killed, for as long as it takes
//! to end what that program has started.
//!
//! A server ends when its input does, if it is well behaved. For the others a
//! shell waits for the end of its own input, which comes when this program
//! ends, however that happens; then it kills every process that carries the
//! mark of this program in its environment, and what it was told to watch: some
//! programs clear their environment.

use super::program::Program;
use crate::environment::Environment;
use crate::error::ExecError;
use crate::input::InputSpool;
use crate::nonce;
use crate::process::{Command, Process};
use crate::sys::process_table;
use std::fmt;

/// The variable that marks the processes to be ended. Its value is random.
pub const MARK: &str = "HALTER_GUARD";

/// Reads what is watched, as `PID:START`, until the end of input; then kills
/// that, with all below it, and what is marked, until several looks around in a
/// row find nothing: what was being started at the end gets its environment a
/// moment later. The mark is an argument, so that the guard does not have it.
const SCRIPT: &str = r#"exec 2>/dev/null
known=
while read -r line; do
  known="$known $line"
done
# When a process started; nothing if it has ended.
started() {
  read -r stat <"/proc/$1/stat" && set -- ${stat##*) } && [ "$1" != Z ] && echo "${20}"
}
# Stopped first, so that it starts nothing meanwhile.
end() {
  kill -STOP "$1"
  for child in $(cat "/proc/$1/task/"*/children); do
    end "$child"
  done
  kill -KILL "$1"
}
rounds=0
quiet=0
while [ "$rounds" -lt 100 ] && [ "$quiet" -lt 10 ]; do
  quiet=$((quiet + 1))
  for one in $known; do
    [ "$(started "${one%:*}")" = "${one#*:}" ] && end "${one%:*}" && quiet=0
  done
  for file in $(grep -lsF "$1" /proc/[0-9]*/environ); do
    number=${file#/proc/}
    kill -KILL "${number%/environ}" && quiet=0
  done
  rounds=$((rounds + 1))
  sleep 0.1
done"#;

/// Watches over the servers of a program. Dropping it ends the watch: by then
/// they have ended.
pub struct Guard {
    mark: String,
    // Its input ends when it is dropped, or when this program dies.
    shell: Option<(Process, InputSpool)>,
}

impl Guard {
    /// Starts to watch. Where there is no shell or no `/proc`, nothing does.
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn start() -> Result<Self, ExecError> {
        let mark = nonce::random()?;
        let shell = shell(&mark).inspect_err(|error| {
            tracing::warn!(%error, "servers are not watched over: one that ignores the end of its input outlives a kill");
        });
        Ok(Self {
            mark,
            shell: shell.ok(),
        })
    }

    /// Has a program end with this one, with all below it, also if it has lost
    /// the mark. Only where processes are those of Linux's `/proc`.
    pub fn watch(&self, program: &Program) {
        let pid = program.pid();
        let (Some((_, input)), Some(stat)) = (&self.shell, process_table::stat(pid)) else {
            return;
        };
        let line = format!("{pid}:{}\n", stat.start_time);
        // The shell reads all the time: there is room for a line.
        let told = input.accept(None, line.as_bytes());
        let told = told.map_err(std::io::Error::other);
        if let Err(error) = told.and_then(|_| input.deliver()) {
            tracing::debug!(%error, "a server is watched over by its mark only");
        }
    }

    /// The variable to give to whatever shall end with this program.
    pub fn mark(&self) -> (&'static str, &str) {
        (MARK, &self.mark)
    }
}

fn shell(mark: &str) -> Result<(Process, InputSpool), ExecError> {
    let environment = Environment::from_iter([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    let command = Command::new("/bin/sh", "/")
        .args(["-c", SCRIPT, "sh", mark])
        .environment(environment)
        .streamed_stdin();
    let (process, streams) = Process::spawn(&command)?;
    let lost = ExecError::StatusLost { pid: process.pid() };
    Ok((process, streams.stdin.ok_or(lost)?))
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guard").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervise::ProgramSettings;

    #[tokio::test]
    #[cfg_attr(
        any(not(target_os = "linux"), halter_portable),
        ignore = "its times of starts are not those of /proc"
    )]
    async fn what_has_lost_its_mark_ends_with_the_guard_and_all_below_it() {
        let script = "env -i setsid sleep 1000 & echo $!; while :; do sleep 1; done";
        let mut started = Program::start(&ProgramSettings {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: Environment::from_iter([("PATH", "/usr/bin:/bin")]),
            directory: "/".into(),
            sandbox: None,
        })
        .unwrap();
        let child = started.output.next_line(20).await.unwrap().unwrap();
        let child: i32 = str::from_utf8(&child).unwrap().parse().unwrap();
        let mut guard = Guard::start().unwrap();
        guard.watch(&started.program);
        // As if this program had ended.
        let (_shell, input) = guard.shell.take().unwrap();
        drop(input);
        started.program.ended().await;
        while process_table::stat(child).is_some_and(|it| !it.is_dead()) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}
