//! How long `process` and `pty` wait for what a program prints, by a clock that stands still
//! while anything is done and jumps to the next moment something is due.

use crate::support::Workspace;
use async_trait::async_trait;
use halter_tools::exec::{
    BackgroundCommand, BackgroundProgress, ExecBackend, ExecCommand, ExecSession, ExecSessionSpec,
    FinishedCommand, KillOutcome, OutputPiece, RunningCommand, SessionProcesses, StartedCommand,
    TerminalSize, TextListener,
};
use halter_tools::limits::{JOB_POLL_WAIT, JOB_SETTLE_TIME};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A place whose background commands print a byte at every beat, so many
/// times, and run on.
#[derive(Debug, Clone, Copy)]
struct Metronome {
    beat: Duration,
    beats: u64,
}

struct Ticking {
    metronome: Metronome,
    started: Instant,
}

impl ExecBackend for Metronome {
    fn open(&self, _: ExecSessionSpec) -> Arc<dyn ExecSession> {
        Arc::new(*self)
    }
}

#[async_trait]
impl ExecSession for Metronome {
    async fn run(
        &self,
        _: ExecCommand,
        _: &CancellationToken,
        _: &TextListener<'_>,
    ) -> anyhow::Result<FinishedCommand> {
        anyhow::bail!("it only ticks")
    }

    async fn start(&self, _: BackgroundCommand) -> anyhow::Result<StartedCommand> {
        Ok(StartedCommand {
            command: Arc::new(Ticking {
                metronome: *self,
                started: Instant::now(),
            }),
            sandbox_note: None,
        })
    }

    async fn processes(&self, _: Option<i32>) -> anyhow::Result<SessionProcesses> {
        anyhow::bail!("it has no processes")
    }

    async fn signal_tree(&self, _: i32, _: i32) -> anyhow::Result<Vec<KillOutcome>> {
        anyhow::bail!("it has no processes")
    }

    async fn close(&self) {}
}

#[async_trait]
impl RunningCommand for Ticking {
    fn pid(&self) -> Option<i32> {
        None
    }

    fn progress(&self) -> BackgroundProgress {
        let beats = self.started.elapsed().as_millis() / self.metronome.beat.as_millis();
        BackgroundProgress {
            printed: (beats as u64).min(self.metronome.beats),
            end: None,
        }
    }

    async fn printed_more_than(&self, bytes: u64) -> BackgroundProgress {
        if bytes >= self.metronome.beats {
            std::future::pending::<()>().await;
        }
        let next = self.metronome.beat * (bytes as u32 + 1);
        tokio::time::sleep_until(self.started + next).await;
        self.progress()
    }

    async fn read(&self, offset: u64, most: usize) -> anyhow::Result<OutputPiece> {
        let rest = self.progress().printed.saturating_sub(offset) as usize;
        let bytes = vec![b'x'; rest.min(most)];
        Ok(OutputPiece { offset, bytes })
    }

    async fn write(&self, _: &[u8]) -> anyhow::Result<()> {
        Ok(())
    }

    async fn end_input(&self) {}

    async fn resize(&self, _: TerminalSize) -> anyhow::Result<()> {
        anyhow::bail!("it has no terminal")
    }

    async fn signal(&self, _: i32) -> anyhow::Result<()> {
        anyhow::bail!("it takes no signals")
    }

    async fn stop(&self) {}
}

/// How long one `poll` of a job takes, and how many bytes it shows.
async fn poll(beat: Duration, beats: u64) -> (Duration, usize) {
    let workspace = Workspace::with_open_shell_in(Arc::new(Metronome { beat, beats }));
    let call = json!({"command": "tick", "background": true});
    workspace.ok("shell", call).await;
    let started = Instant::now();
    let call = json!({"action": "poll", "job_id": "job_1"});
    let answer = workspace.ok("process", call).await;
    let waited = started.elapsed();
    assert_eq!(answer["state"], "running");
    workspace.store.close().await;
    (waited, answer["output"].as_str().unwrap().len())
}

#[tokio::test(start_paused = true)]
async fn a_silent_job_is_waited_for_so_long() {
    let waited = poll(Duration::from_secs(1), 0).await;
    assert_eq!(waited, (JOB_POLL_WAIT, 0));
}

#[tokio::test(start_paused = true)]
async fn news_are_shown_once_a_job_pauses() {
    let beat = Duration::from_secs(1);
    assert!(beat > JOB_SETTLE_TIME);
    let waited = poll(beat, 5).await;
    assert_eq!(waited, (beat + JOB_SETTLE_TIME, 1));
    // What follows at once is shown with it.
    let beat = JOB_SETTLE_TIME / 2;
    let waited = poll(beat, 5).await;
    assert_eq!(waited, (beat * 5 + JOB_SETTLE_TIME, 5));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_never_pauses_is_shown_when_the_wait_is_over() {
    let beat = JOB_SETTLE_TIME / 2;
    let (waited, shown) = poll(beat, u64::MAX).await;
    assert_eq!(waited, JOB_POLL_WAIT);
    assert_eq!(shown as u128, waited.as_millis() / beat.as_millis());
}

#[cfg(feature = "pty")]
mod terminals {
    use super::{Metronome, Workspace};
    use halter_tools::limits::{
        PTY_DEFAULT_WAIT_MS, PTY_FIRST_OUTPUT_TIME, PTY_MAX_WAIT_MS, PTY_READ_BYTES,
        PTY_SETTLE_TIME,
    };
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::Instant;

    const SECOND: Duration = Duration::from_secs(1);

    fn workspace(beat: Duration, beats: u64) -> Workspace {
        Workspace::with_open_shell_in(Arc::new(Metronome { beat, beats }))
    }

    /// How long a call takes.
    async fn waited(workspace: &Workspace, call: Value) -> Duration {
        let started = Instant::now();
        workspace.ok("pty", call).await;
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_program_is_waited_for_so_long() {
        let silent = workspace(SECOND, 0);
        let start = json!({"action": "start", "command": "tick"});
        let unsaid = Duration::from_millis(PTY_DEFAULT_WAIT_MS);
        assert_eq!(waited(&silent, start).await, unsaid);
        // It may never react to what is typed.
        let write = json!({"action": "write", "input": "x"});
        assert_eq!(waited(&silent, write).await, PTY_FIRST_OUTPUT_TIME);
        let read = json!({"action": "read"});
        assert_eq!(waited(&silent, read).await, PTY_SETTLE_TIME);
        let most = json!({
            "action": "read", "wait_for": "never", "timeout_ms": PTY_MAX_WAIT_MS,
        });
        let longest = Duration::from_millis(PTY_MAX_WAIT_MS);
        assert_eq!(waited(&silent, most).await, longest);
        silent.store.close().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_screen_is_shown_once_it_rests() {
        let start = json!({"action": "start", "command": "tick"});
        let slow = workspace(SECOND, 3);
        let once = waited(&slow, start.clone()).await;
        assert_eq!(once, SECOND + PTY_SETTLE_TIME);
        let beat = PTY_SETTLE_TIME / 2;
        let quick = waited(&workspace(beat, 3), start).await;
        assert_eq!(quick, beat * 3 + PTY_SETTLE_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn so_much_raw_output_is_read_at_once() {
        let long = PTY_READ_BYTES as u64 + 1;
        let workspace = workspace(Duration::from_millis(1), long);
        let start = json!({"action": "start", "command": "tick", "timeout_ms": 0});
        workspace.ok("pty", start).await;
        tokio::time::advance(Duration::from_millis(long)).await;
        let read = json!({"action": "read", "raw_offset": 0});
        let answer = workspace.ok("pty", read).await;
        assert_eq!(answer["raw"].as_str().unwrap().len(), PTY_READ_BYTES);
        assert_eq!(answer["next_offset"], PTY_READ_BYTES);
        workspace.store.close().await;
    }
}
