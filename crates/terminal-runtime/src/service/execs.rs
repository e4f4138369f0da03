//! The methods of commands that are there already: `exec.*` but for those that
//! start one.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::answer::{CallAnswer, Client, ResultOrder, ResultShape};
use super::job::{Job, JobState};
use super::order::{core_error, exec_id, pool_error, signal, terminal_size};
use super::stream::StreamOrder;
use super::{Service, lock};
use crate::exec::{Chunk, CoreError, Exec, Scope, Stream};
use crate::limits::{DEFAULT_READ_BYTES, MAX_READ_BYTES, MAX_WAIT};
use crate::protocol::{
    AttachParams, CancelParams, Cancelled, Encoding, ErrorCode, ExecListing, ExecStatus,
    ExecSummary, Gap, Nothing, PtyParams, ReadData, ReadParams, ResizeParams, SignalParams,
    SignalScope, StreamName, WaitParams, WireError, WriteParams, Written, encode_bytes,
};
use crate::session::{Session, SessionId, SessionState};

impl From<StreamName> for Stream {
    fn from(name: StreamName) -> Self {
        match name {
            StreamName::Stdout => Self::Stdout,
            StreamName::Stderr => Self::Stderr,
        }
    }
}

impl Service {
    pub(super) fn find_session(&self, name: &str) -> Result<Arc<Session>, WireError> {
        let found = self.inner.pool.find(name);
        found.map_err(|error| match SessionId::parse(name) {
            Some(id) if self.inner.core.has_lost(&id) => WireError::new(
                ErrorCode::SessionNotFound,
                format!(
                    "session {id} has ended: the holder of its processes was lost, and every \
                     command with it; create a new session"
                ),
            )
            .with_reason("holder_lost"),
            _ => pool_error(&error),
        })
    }

    fn find_job(&self, name: &str) -> Result<Arc<Job>, WireError> {
        let found = exec_id(name)
            .ok()
            .and_then(|id| lock(&self.inner.jobs).get(&id).cloned());
        found.ok_or_else(|| {
            let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
            WireError::new(
                ErrorCode::ExecNotFound,
                format!("command `{shown}` does not exist or is no longer kept; exec.list shows those that are"),
            )
        })
    }

    /// The command meant by a name, or by the session it runs in; `None` if
    /// nothing runs there.
    fn target(
        &self,
        exec: Option<&str>,
        session: Option<&str>,
    ) -> Result<Option<Arc<Job>>, WireError> {
        match (exec, session) {
            (Some(name), None) => self.find_job(name).map(Some),
            (None, Some(name)) => match self.find_session(name)?.state() {
                SessionState::Running { exec, .. } => {
                    Ok(lock(&self.inner.jobs).get(&exec).cloned())
                }
                _ => Ok(None),
            },
            _ => Err(WireError::invalid(
                "name the command by exec_id or by session_id",
            )),
        }
    }

    fn running_target(&self, exec: Option<&str>, session: Option<&str>) -> Result<Exec, WireError> {
        let job = self.target(exec, session)?;
        match job.map(|job| job.state()) {
            Some(JobState::Running(exec)) => Ok(exec),
            _ => Err(WireError::invalid("the command does not run").with_reason("not_running")),
        }
    }

    pub(super) async fn wait(
        &self,
        params: &WaitParams,
        client: &Client,
    ) -> Result<CallAnswer, WireError> {
        let job = self.find_job(&params.exec_id)?;
        let span = wait_span(params.timeout_s)?;
        tokio::select! {
            _ = tokio::time::timeout(span, job.over()) => {}
            () = client.gone().cancelled() => return Ok(CallAnswer::Nobody),
        }
        Ok(CallAnswer::Result(ResultOrder {
            job,
            shape: ResultShape::Wait,
        }))
    }

    pub(super) async fn read(
        &self,
        params: &ReadParams,
        client: &Client,
    ) -> Result<ReadData, WireError> {
        let job = self.find_job(&params.exec_id)?;
        let max = read_size(params.max);
        let wait = Duration::from_millis(params.wait_ms.unwrap_or(0)).min(MAX_WAIT);
        let stream = params.stream.unwrap_or(StreamName::Stdout).into();
        let nothing = ReadData {
            data: String::new(),
            encoding: None,
            offset: params.offset,
            next_offset: params.offset,
            eof: false,
            gap: None,
        };
        let chunk = async {
            let exec = match job.started().await {
                JobState::Running(exec) | JobState::Ended { exec, .. } => exec,
                JobState::Refused(error) => return Err(error),
                JobState::Waiting => return Err(unreachable_state()),
            };
            let mut reader = exec.reader(stream, params.offset);
            let chunk = match reader.try_next(max).map_err(|error| core_error(&error))? {
                Some(chunk) => chunk,
                None => reader.next(max).await.map_err(|error| core_error(&error))?,
            };
            let last = |reader: &mut crate::exec::SpoolReader| {
                matches!(reader.try_next(1), Ok(Some(Chunk::End { .. })))
            };
            let eof = matches!(chunk, Chunk::End { .. }) || last(&mut reader);
            Ok((chunk, eof))
        };
        // Even without waiting, what is there already is returned.
        let found = tokio::select! {
            biased;
            found = chunk => found?,
            () = tokio::time::sleep(wait) => return Ok(nothing),
            () = client.gone().cancelled() => return Ok(nothing),
        };
        Ok(read_data(found.0, found.1, nothing))
    }

    pub(super) fn attach(&self, params: &AttachParams) -> Result<CallAnswer, WireError> {
        let job = self.find_job(&params.exec_id)?;
        let offsets = [params.offset, params.stderr_offset];
        Ok(CallAnswer::Stream(StreamOrder::new(
            job,
            self.fresh_number(),
            offsets,
            false,
        )))
    }

    pub(super) async fn write(&self, params: &WriteParams) -> Result<Written, WireError> {
        let job = self.find_job(&params.exec_id)?;
        let data = match params.encoding {
            None => Bytes::copy_from_slice(params.data.as_bytes()),
            Some(Encoding::Base64) => STANDARD
                .decode(&params.data)
                .map(Bytes::from)
                .map_err(|_| WireError::invalid("data is not base64"))?,
        };
        match job.started().await {
            JobState::Running(exec) => {
                let written = exec.write(params.offset, data, params.eof).await;
                written
                    .map(|offset| Written { offset })
                    .map_err(|error| core_error(&error))
            }
            JobState::Ended { .. } => Err(core_error(&CoreError::Ended)),
            JobState::Refused(error) => Err(error),
            JobState::Waiting => Err(unreachable_state()),
        }
    }

    pub(super) fn resize(&self, params: &ResizeParams) -> Result<Nothing, WireError> {
        let size = terminal_size(PtyParams {
            cols: params.cols,
            rows: params.rows,
        })?;
        let exec = self.running_target(params.exec_id.as_deref(), params.session_id.as_deref())?;
        exec.resize(size).map_err(|error| core_error(&error))?;
        Ok(Nothing {})
    }

    pub(super) fn signal(&self, params: &SignalParams) -> Result<Nothing, WireError> {
        let signal = signal(&params.signal)?;
        let exec = self.running_target(params.exec_id.as_deref(), params.session_id.as_deref())?;
        let scope = match params.scope {
            SignalScope::Leader => Scope::Leader,
            SignalScope::Group => Scope::Group,
            SignalScope::Tree => Scope::Tree,
        };
        exec.signal(signal, scope)
            .map_err(|error| core_error(&error))?;
        Ok(Nothing {})
    }

    pub(super) async fn cancel(&self, params: &CancelParams) -> Result<Cancelled, WireError> {
        let signal = params.signal.as_ref().map(signal).transpose()?;
        let job = self.target(params.exec_id.as_deref(), params.session_id.as_deref())?;
        let Some(job) = job else {
            return Ok(Cancelled {
                exec_id: None,
                cancelled: false,
            });
        };
        let cancelled = !job.is_over();
        job.stop(signal).await;
        Ok(Cancelled {
            exec_id: Some(job.id.to_string()),
            cancelled,
        })
    }

    pub(super) fn list_execs(&self) -> ExecListing {
        let mut jobs: Vec<Arc<Job>> = lock(&self.inner.jobs).values().cloned().collect();
        jobs.sort_by_key(|job| (job.asked.monotonic, job.id.clone()));
        ExecListing {
            execs: jobs.iter().map(|job| summary(job)).collect(),
        }
    }
}

fn summary(job: &Job) -> ExecSummary {
    let state = match job.state() {
        JobState::Waiting => ExecStatus::Queued,
        JobState::Running(_) => ExecStatus::Running,
        JobState::Ended { .. } | JobState::Refused(_) => ExecStatus::Ended,
    };
    ExecSummary {
        exec_id: job.id.to_string(),
        session_id: job.session.id.to_string(),
        state,
        command: job.shown.to_string(),
        started_at: job.asked.shown(),
        pid: job.exec().and_then(|exec| exec.info().pid),
        pty: job.pty,
    }
}

fn read_data(chunk: Chunk, eof: bool, nothing: ReadData) -> ReadData {
    match chunk {
        Chunk::End { .. } => ReadData { eof, ..nothing },
        Chunk::Gap { from, to } => ReadData {
            next_offset: to,
            eof,
            gap: Some(Gap { from, to }),
            ..nothing
        },
        Chunk::Data { offset, bytes } => {
            let cut = crate::protocol::cut_character(&bytes);
            // A character that is cut off waits for its rest, unless it is
            // all there is.
            let keep = if cut < bytes.len() {
                bytes.len() - cut
            } else {
                bytes.len()
            };
            let piece = encode_bytes(bytes.slice(..keep).to_vec());
            ReadData {
                data: piece.data,
                encoding: piece.encoding,
                offset,
                next_offset: offset + keep as u64,
                eof: eof && keep == bytes.len(),
                gap: None,
            }
        }
    }
}

/// How long `exec.wait` waits.
fn wait_span(seconds: Option<f64>) -> Result<Duration, WireError> {
    match seconds {
        None => Ok(MAX_WAIT),
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .map(|span| span.min(MAX_WAIT))
            .map_err(|_| WireError::invalid("timeout_s must be a number that is not negative")),
    }
}

/// How many bytes `exec.read` returns at most.
fn read_size(wanted: Option<usize>) -> usize {
    wanted
        .unwrap_or(DEFAULT_READ_BYTES)
        .clamp(1, MAX_READ_BYTES)
}

pub(super) fn unreachable_state() -> WireError {
    WireError::new(
        ErrorCode::InternalError,
        "the command is in a state it cannot be in",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_longer_than_the_limit() {
        assert_eq!(wait_span(None), Ok(MAX_WAIT));
        assert_eq!(wait_span(Some(MAX_WAIT.as_secs_f64())), Ok(MAX_WAIT));
        assert_eq!(wait_span(Some(MAX_WAIT.as_secs_f64() + 1.0)), Ok(MAX_WAIT));
        assert_eq!(wait_span(Some(0.5)), Ok(Duration::from_millis(500)));
        for wrong in [-1.0, f64::NAN] {
            assert!(wait_span(Some(wrong)).is_err());
        }
    }

    #[test]
    fn nobody_reads_more_than_the_limit_at_once() {
        assert_eq!(read_size(None), DEFAULT_READ_BYTES);
        assert_eq!(read_size(Some(MAX_READ_BYTES)), MAX_READ_BYTES);
        assert_eq!(read_size(Some(MAX_READ_BYTES + 1)), MAX_READ_BYTES);
        assert_eq!(read_size(Some(0)), 1);
    }

    fn data(bytes: &'static [u8], eof: bool) -> ReadData {
        let nothing = ReadData {
            data: String::new(),
            encoding: None,
            offset: 0,
            next_offset: 0,
            eof: false,
            gap: None,
        };
        let bytes = Bytes::from_static(bytes);
        read_data(Chunk::Data { offset: 10, bytes }, eof, nothing)
    }

    #[test]
    fn a_piece_ends_where_a_character_does() {
        let whole = data("gr\u{fc}n".as_bytes(), true);
        assert_eq!(
            (whole.data.as_str(), whole.next_offset, whole.eof),
            ("gr\u{fc}n", 15, true)
        );
        let cut = data(b"gr\xc3", true);
        assert_eq!(
            (cut.data.as_str(), cut.next_offset, cut.eof),
            ("gr", 12, false)
        );
        let rest = data(b"\xc3", true);
        assert_eq!(
            (rest.encoding, rest.next_offset, rest.eof),
            (Some(Encoding::Base64), 11, true)
        );
    }
}
