//! Traces written while sessions run, by a thread of their own.

use super::{Line, line};
use crate::limits::{TRACE_OPEN_FILES, TRACE_QUEUE_BYTES, TRACE_QUEUE_LINES};
use halter_protocol::{PendingEvent, SessionBlueprint, SessionEvent, SessionId, Timestamp};
use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// A trace is not complete. The session goes on.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The disk refused a line; the trace of this session stops there.
    #[error(
        "the trace '{}' stopped: {source}; make room or fix the directory, then resume the \
         session to go on tracing",
        path.display()
    )]
    Stopped {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The disk is slower than the session; lines are missing.
    #[error(
        "the trace '{}' has gaps because its disk is too slow; each gap is marked in the file, \
         the session's log is complete",
        path.display()
    )]
    Overrun {
        /// The file.
        path: PathBuf,
    },
    /// The system gave no thread to write traces.
    #[error("traces cannot be written: the system started no thread ({source})")]
    NoThread {
        /// What the system said.
        source: Arc<io::Error>,
    },
}

impl TraceError {
    /// Stable, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Stopped { .. } => "trace_stopped",
            Self::Overrun { .. } => "trace_overrun",
            Self::NoThread { .. } => "trace_no_thread",
        }
    }
}

/// Whether a trace begins with its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceStart {
    /// The session is new.
    New,
    /// The session had events before.
    Resumed {
        /// The last of them.
        head_sequence: u64,
    },
}

/// Writes the traces of any number of sessions into one directory. Never
/// blocks its callers: lines the disk is too slow for are dropped and counted.
///
/// The thread ends when the recorder and all its writers are gone.
#[derive(Debug, Clone)]
pub struct TraceRecorder {
    directory: Arc<Path>,
    queue: mpsc::Sender<RecorderMessage>,
    queued_bytes: Arc<AtomicUsize>,
}

impl TraceRecorder {
    /// Starts the thread; the directory is created with the first line.
    pub fn start(directory: impl Into<PathBuf>) -> Result<Self, TraceError> {
        let (queue, requests) = mpsc::channel(TRACE_QUEUE_LINES);
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let files = TraceFiles {
            queued_bytes: queued_bytes.clone(),
            open: HashMap::new(),
            clock: 0,
        };
        std::thread::Builder::new()
            .name("halter-trace".into())
            .spawn(move || files.run(requests))
            .map_err(|error| TraceError::NoThread {
                source: Arc::new(error),
            })?;
        Ok(Self {
            directory: directory.into().into(),
            queue,
            queued_bytes,
        })
    }

    /// The writer of one session's trace. Its header, or the mark that the
    /// session was resumed at `at`, is written with its first line. Subagents
    /// write into the file of the session above them all.
    pub fn writer(
        &self,
        blueprint: &SessionBlueprint,
        start: TraceStart,
        at: Timestamp,
    ) -> TraceWriter {
        let session_id = blueprint.session_id.clone();
        let head_sequence = match start {
            TraceStart::New => 0,
            TraceStart::Resumed { head_sequence } => head_sequence,
        };
        let opening = Opening {
            header: line(&Line::header(blueprint, at)),
            resumed: line(&Line::TraceResumed {
                session_id: &session_id,
                resumed_at: at,
                head_sequence,
            }),
            start,
        };
        let place = blueprint.subagent.as_ref();
        let root = place.map_or(&session_id, |it| &it.root_session_id);
        TraceWriter {
            recorder: self.clone(),
            trace: Arc::new(Trace {
                path: self.directory.join(file_name(root)),
                joins: place.is_some(),
                session_id,
                opening: Mutex::new(Some(opening)),
                dropped: AtomicU64::new(0),
                problems: Mutex::default(),
            }),
            alive: Arc::default(),
        }
    }

    /// Waits until every line given before is in its file.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.queue.send(RecorderMessage::Flush(done)).await.is_ok() {
            drop(flushed.await);
        }
    }
}

/// `[A-Za-z0-9-_]` of the id, anything else as `_`.
fn file_name(session_id: &SessionId) -> String {
    let safe = |c: char| {
        if matches!(c, 'A'..='Z' | 'a'..='z' | '0'..='9' | '-') {
            c
        } else {
            '_'
        }
    };
    let stem: String = session_id.as_str().chars().map(safe).collect();
    format!("{stem}.txt")
}

/// Writes the trace of one session; its file is closed with the last clone.
#[derive(Debug, Clone)]
pub struct TraceWriter {
    recorder: TraceRecorder,
    trace: Arc<Trace>,
    /// Tells the last clone from the others.
    alive: Arc<()>,
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        if Arc::strong_count(&self.alive) == 1 {
            let close = RecorderMessage::Close(self.trace.clone());
            // With a full queue the file is closed when others need its place.
            drop(self.recorder.queue.try_send(close));
        }
    }
}

impl TraceWriter {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.trace.path
    }

    /// Records an event as it is generated, best-effort ones included.
    pub fn pending(&self, event: &PendingEvent) {
        self.push(line(&Line::pending(event)));
    }

    /// Records an event as it was committed.
    pub fn committed(&self, event: &SessionEvent) {
        self.push(line(event));
    }

    /// What went wrong since the last call; each kind of problem is told once
    /// per session.
    pub fn take_error(&self) -> Option<TraceError> {
        self.trace.problems().untold.pop()
    }

    fn push(&self, text: String) {
        if text.is_empty() || self.trace.problems().stopped {
            return;
        }
        let bytes = text.len();
        let queued = self
            .recorder
            .queued_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        let request = RecorderMessage::Line(self.trace.clone(), text);
        let refused =
            queued + bytes > TRACE_QUEUE_BYTES || self.recorder.queue.try_send(request).is_err();
        if refused {
            self.recorder
                .queued_bytes
                .fetch_sub(bytes, Ordering::Relaxed);
            self.trace.dropped.fetch_add(1, Ordering::Relaxed);
            self.trace.problems().overrun(&self.trace.path);
        }
    }
}

#[derive(Debug)]
struct Trace {
    path: PathBuf,
    /// The file is that of a session above.
    joins: bool,
    session_id: SessionId,
    opening: Mutex<Option<Opening>>,
    dropped: AtomicU64,
    problems: Mutex<Problems>,
}

impl Trace {
    fn problems(&self) -> std::sync::MutexGuard<'_, Problems> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_opening(&self) -> Option<Opening> {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        opening.take()
    }
}

#[derive(Debug)]
struct Opening {
    header: String,
    resumed: String,
    start: TraceStart,
}

#[derive(Debug, Default)]
struct Problems {
    untold: Vec<TraceError>,
    stopped: bool,
    overrun: bool,
}

impl Problems {
    fn stop(&mut self, path: &Path, error: io::Error) {
        self.stopped = true;
        self.untold.push(TraceError::Stopped {
            path: path.to_owned(),
            source: Arc::new(error),
        });
    }

    fn overrun(&mut self, path: &Path) {
        if !self.overrun {
            self.overrun = true;
            self.untold.push(TraceError::Overrun {
                path: path.to_owned(),
            });
        }
    }
}

#[derive(Debug)]
enum RecorderMessage {
    Line(Arc<Trace>, String),
    Close(Arc<Trace>),
    Flush(oneshot::Sender<()>),
}

/// What the thread owns.
struct TraceFiles {
    queued_bytes: Arc<AtomicUsize>,
    open: HashMap<PathBuf, OpenTrace>,
    clock: u64,
}

struct OpenTrace {
    /// Who wrote last.
    trace: Arc<Trace>,
    file: BufWriter<File>,
    /// Nothing was in it when it was opened, and nothing is.
    is_empty: bool,
    last_used: u64,
}

impl TraceFiles {
    fn run(mut self, mut requests: mpsc::Receiver<RecorderMessage>) {
        while let Some(first) = requests.blocking_recv() {
            self.handle(first);
            while let Ok(next) = requests.try_recv() {
                self.handle(next);
            }
            self.flush();
        }
    }

    fn handle(&mut self, request: RecorderMessage) {
        match request {
            RecorderMessage::Flush(done) => {
                self.flush();
                // Nobody waits any more if this fails.
                let _ = done.send(());
            }
            RecorderMessage::Close(trace) => {
                if !trace.joins {
                    self.close(&trace.path);
                }
            }
            RecorderMessage::Line(trace, text) => {
                self.queued_bytes.fetch_sub(text.len(), Ordering::Relaxed);
                if trace.problems().stopped {
                    return;
                }
                if let Err(error) = self.write(&trace, &text) {
                    self.open.remove(&trace.path);
                    trace.problems().stop(&trace.path, error);
                }
            }
        }
    }

    fn write(&mut self, trace: &Arc<Trace>, text: &str) -> io::Result<()> {
        self.clock += 1;
        if !self.open.contains_key(&trace.path) {
            self.make_room();
            let (file, is_empty) = open_file(&trace.path)?;
            let opened = OpenTrace {
                file,
                is_empty,
                trace: trace.clone(),
                last_used: self.clock,
            };
            self.open.insert(trace.path.clone(), opened);
        }
        let Some(open) = self.open.get_mut(&trace.path) else {
            return Ok(());
        };
        open.last_used = self.clock;
        open.trace = trace.clone();
        if let Some(opening) = trace.take_opening() {
            let is_new = opening.start == TraceStart::New;
            if open.is_empty || (trace.joins && is_new) {
                open.file.write_all(opening.header.as_bytes())?;
            }
            if !is_new || (!open.is_empty && !trace.joins) {
                open.file.write_all(opening.resumed.as_bytes())?;
            }
        }
        open.is_empty = false;
        let dropped_lines = trace.dropped.swap(0, Ordering::Relaxed);
        if dropped_lines > 0 {
            let gap = Line::TraceGap {
                session_id: &trace.session_id,
                dropped_lines,
            };
            open.file.write_all(line(&gap).as_bytes())?;
        }
        open.file.write_all(text.as_bytes())
    }

    fn make_room(&mut self) {
        while self.open.len() >= TRACE_OPEN_FILES {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.last_used);
            let Some(path) = oldest.map(|(path, _)| path.clone()) else {
                return;
            };
            self.close(&path);
        }
    }

    fn close(&mut self, path: &Path) {
        if let Some(mut open) = self.open.remove(path)
            && let Err(error) = open.file.flush()
        {
            open.trace.problems().stop(path, error);
        }
    }

    fn flush(&mut self) {
        self.open.retain(|path, open| match open.file.flush() {
            Ok(()) => true,
            Err(error) => {
                open.trace.problems().stop(path, error);
                false
            }
        });
    }
}

/// Opens the file for appending. True if nothing is in it.
fn open_file(path: &Path) -> io::Result<(BufWriter<File>, bool)> {
    if let Some(directory) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let is_empty = file.metadata()?.len() == 0;
    let is_torn = !is_empty && last_byte(&mut file)? != Some(b'\n');
    let mut file = BufWriter::new(file);
    if is_torn {
        file.write_all(b"\n")?;
    }
    Ok((file, is_empty))
}

fn last_byte(file: &mut File) -> io::Result<Option<u8>> {
    file.seek(SeekFrom::End(-1))?;
    let mut byte = [0];
    let read = file.read(&mut byte)?;
    Ok(byte.first().copied().filter(|_| read == 1))
}
