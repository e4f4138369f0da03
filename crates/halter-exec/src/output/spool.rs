//! The whole of an output that does not fit into memory, on disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::limits::{DEFAULT_SPOOL_QUOTA_BYTES, SPOOL_QUEUE_CHUNKS};

/// Where outputs beyond the memory bound go, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolSettings {
    /// An existing directory of the caller's.
    pub directory: PathBuf,
    /// Bytes of one stream that are kept on disk; later ones are counted but
    /// not written.
    pub quota_bytes: u64,
}

impl SpoolSettings {
    /// Spool files in this directory, with the default quota.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            quota_bytes: DEFAULT_SPOOL_QUOTA_BYTES,
        }
    }
}

/// A file with an output from its first byte on. It is deleted with this
/// handle unless it is [kept](SpoolFile::keep).
#[derive(Debug)]
pub struct SpoolFile {
    path: PathBuf,
    bytes: u64,
    problem: Option<String>,
}

impl SpoolFile {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes it holds: the output up to the quota.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Why the file ends before the quota, if writing failed (a full disk).
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Leaves the file where it is, to the care of the caller.
    #[must_use]
    pub fn keep(mut self) -> PathBuf {
        mem::take(&mut self.path)
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(path = %self.path.display(), %error, "spool file not removed");
        }
    }
}

/// Writes chunks on a blocking thread. The bounded queue makes the reader,
/// and with it the child, wait for a slow disk rather than fill memory.
#[derive(Debug)]
pub(super) struct SpoolWriter {
    queue: mpsc::Sender<Bytes>,
    writer: JoinHandle<SpoolFile>,
}

impl SpoolWriter {
    pub(super) fn start(settings: &SpoolSettings) -> io::Result<Self> {
        let name = crate::nonce::random().map_err(io::Error::other)?;
        let path = settings.directory.join(format!("output-{name}.spool"));
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let spool = SpoolFile {
            path,
            bytes: 0,
            problem: None,
        };
        let quota = settings.quota_bytes;
        let (queue, chunks) = mpsc::channel(SPOOL_QUEUE_CHUNKS);
        let writer = tokio::task::spawn_blocking(move || write_chunks(spool, file, quota, chunks));
        Ok(Self { queue, writer })
    }

    /// Room for one chunk.
    pub(super) async fn ready(&self) {
        let _ = self.queue.reserve().await;
    }

    /// Queues a chunk; `false` if there is no room, which cannot happen after
    /// [`ready`](Self::ready) to a single user.
    pub(super) fn push(&self, chunk: Bytes) -> bool {
        self.queue.try_send(chunk).is_ok()
    }

    pub(super) async fn finish(self) -> Option<SpoolFile> {
        drop(self.queue);
        self.writer.await.ok()
    }
}

fn write_chunks(
    mut spool: SpoolFile,
    mut file: File,
    quota: u64,
    mut chunks: mpsc::Receiver<Bytes>,
) -> SpoolFile {
    while let Some(chunk) = chunks.blocking_recv() {
        let room = usize::try_from(quota - spool.bytes).unwrap_or(usize::MAX);
        let fitting = chunk.get(..room.min(chunk.len())).unwrap_or_default();
        // Keep receiving after a failure: the command goes on.
        if spool.problem.is_some() || fitting.is_empty() {
            continue;
        }
        match file.write_all(fitting) {
            Ok(()) => spool.bytes += fitting.len() as u64,
            Err(error) => {
                spool.problem = Some(error.to_string());
                // A part may have been written; the file says how much.
                spool.bytes = file.metadata().map_or(spool.bytes, |found| found.len());
            }
        }
    }
    spool
}
