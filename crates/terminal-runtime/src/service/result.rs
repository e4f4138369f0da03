//! The result of a command, put together from what was kept of its output.

use super::Service;
use super::answer::{ResultOrder, ResultShape};
use super::job::{Job, JobState};
use crate::exec::{Chunk, CommandUsage, Exec, ExecEnd, Stream};
use crate::limits::STREAM_CHUNK_BYTES;
use crate::protocol::{
    ExecResult, ExecStatus, RequestId, UsageData, WaitData, WireError, cut_character, encode_bytes,
    success,
};

impl Service {
    /// The line with a result. For a command nobody else can ask for, this
    /// is its last use.
    #[must_use]
    pub fn result_line(&self, id: &RequestId, order: &ResultOrder) -> Vec<u8> {
        let job = &order.job;
        let wait = |state, result: Option<ExecResult>, error: Option<WireError>| WaitData {
            exec_id: job.id.to_string(),
            state,
            result: result.map(Box::new),
            error,
        };
        let (state, result, error) = match job.state() {
            JobState::Waiting => (ExecStatus::Queued, None, None),
            JobState::Running(_) => (ExecStatus::Running, None, None),
            JobState::Refused(error)
            | JobState::Ended {
                end: Err(error), ..
            } => (ExecStatus::Ended, None, Some(error)),
            JobState::Ended {
                exec, end: Ok(end), ..
            } => (ExecStatus::Ended, Some(self.result(job, &exec, &end)), None),
        };
        match (order.shape, result) {
            (ResultShape::Run, Some(result)) => {
                let line = success(id, &result);
                if result.truncated {
                    // What is missing here can be read for a while.
                    Self::keep(job);
                } else {
                    self.forget_unless_kept(job);
                }
                line
            }
            (_, result) => success(id, &wait(state, result, error)),
        }
    }

    fn result(&self, job: &Job, exec: &Exec, end: &ExecEnd) -> ExecResult {
        let max = self.inner.settings.max_output_bytes;
        let (stdout, stdout_cut) = collect(exec, Stream::Stdout, max);
        let (stderr, stderr_cut) = collect(exec, Stream::Stderr, max);
        let (stdout, stderr) = (encode_bytes(stdout), encode_bytes(stderr));
        ExecResult {
            exec_id: job.id.to_string(),
            stdout: stdout.data,
            stderr: stderr.data,
            stdout_encoding: stdout.encoding,
            stderr_encoding: stderr.encoding,
            exit_code: end.exit_code.unwrap_or(-1),
            signal: end.signal,
            duration_ms: u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX),
            timed_out: end.timed_out,
            cancelled: end.cancelled,
            truncated: stdout_cut || stderr_cut,
            cwd: end
                .cwd
                .as_ref()
                .map(|cwd| cwd.to_string_lossy().into_owned()),
            usage: end.usage.map(usage),
            limit: end.limit.clone(),
        }
    }
}

fn usage(usage: CommandUsage) -> UsageData {
    let micros = |span: std::time::Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    UsageData {
        user_us: micros(usage.user_time),
        system_us: micros(usage.system_time),
        max_rss_bytes: usage.max_resident_bytes,
    }
}

/// The first `max` bytes of a stream that has ended, and whether there are
/// more.
fn collect(exec: &Exec, stream: Stream, max: usize) -> (Vec<u8>, bool) {
    let mut reader = exec.reader(stream, 0);
    let mut bytes = Vec::new();
    loop {
        let room = max.saturating_sub(bytes.len());
        match reader.try_next(room.clamp(1, STREAM_CHUNK_BYTES)) {
            Ok(Some(Chunk::Data { .. })) if room == 0 => break,
            Ok(Some(Chunk::Data { bytes: more, .. })) => bytes.extend_from_slice(&more),
            Ok(Some(Chunk::End { .. })) => return (bytes, false),
            Ok(Some(Chunk::Gap { .. }) | None) | Err(_) => break,
        }
    }
    // Cut at the edge of a character, if it is text.
    let whole = bytes.len() - cut_character(&bytes);
    bytes.truncate(whole);
    (bytes, true)
}
