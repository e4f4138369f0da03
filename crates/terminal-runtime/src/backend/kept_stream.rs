//! One stream of a command: what goes into its result, and the file for the
//! rest.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use halter_exec::CapturedOutput;
use halter_tools::exec::{FinishedOutput, OutputBounds};

/// A stream as it comes.
#[derive(Debug)]
pub(super) struct KeptStream {
    bounds: OutputBounds,
    /// Where the file goes.
    path: PathBuf,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    /// Bytes of it that the runtime did not keep.
    missing: u64,
    file: Option<KeptFile>,
    problem: Option<String>,
}

#[derive(Debug)]
struct KeptFile {
    file: Arc<File>,
    bytes: u64,
    /// Whether bytes were left out, so that nothing more is written.
    ended: bool,
}

impl KeptStream {
    pub(super) fn new(bounds: OutputBounds, directory: &Path, name: &str) -> Self {
        Self {
            bounds,
            path: directory.join(format!("output-{name}")),
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
            missing: 0,
            file: None,
            problem: None,
        }
    }

    /// More has come.
    pub(super) async fn push(&mut self, bytes: Bytes) {
        let before = self.total;
        self.total += bytes.len() as u64;
        let memory = self.bounds.result_bytes as u64;
        if self.total > memory && self.file.is_none() && self.problem.is_none() {
            // Until now nothing was left out: memory has it all.
            let mut all = self.head.clone();
            all.extend(&self.tail);
            if all.len() as u64 == before {
                self.start_file(all).await;
            }
        }
        self.write(bytes.clone()).await;
        self.keep(&bytes);
    }

    /// Bytes up to here were not kept by the runtime.
    pub(super) fn skip(&mut self, from: u64, to: u64) {
        self.total = self.total.max(to);
        if let Some(file) = &mut self.file {
            file.ended = true;
        }
        self.tail.clear();
        self.missing += to - from;
    }

    fn keep(&mut self, bytes: &[u8]) {
        let tail_limit = self.bounds.result_bytes / 2;
        let head_limit = self.bounds.result_bytes - tail_limit;
        let room = head_limit.saturating_sub(self.head.len());
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let kept = rest.get(rest.len().saturating_sub(tail_limit)..);
        let kept = kept.unwrap_or_default();
        let excess = (self.tail.len() + kept.len()).saturating_sub(tail_limit);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(kept);
    }

    async fn start_file(&mut self, all: Vec<u8>) {
        let path = self.path.clone();
        let made = blocking(move || {
            let mut options = File::options();
            options.write(true).create_new(true).mode(0o600).open(path)
        });
        match made.await {
            Ok(file) => {
                self.file = Some(KeptFile {
                    file: Arc::new(file),
                    bytes: 0,
                    ended: false,
                });
                self.write(all.into()).await;
            }
            Err(error) => self.problem = Some(format!("it could not be kept: {error}")),
        }
    }

    async fn write(&mut self, bytes: Bytes) {
        let Some(kept) = self.file.as_mut().filter(|kept| !kept.ended) else {
            return;
        };
        let room = self.bounds.kept_file_bytes.saturating_sub(kept.bytes);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let part = bytes.slice(..bytes.len().min(room));
        kept.ended = part.len() < bytes.len();
        if kept.ended {
            let reached = || "it reached its limit".to_owned();
            self.problem.get_or_insert_with(reached);
        }
        let (file, written) = (Arc::clone(&kept.file), part.len() as u64);
        match blocking(move || (&*file).write_all(&part)).await {
            Ok(()) => kept.bytes += written,
            Err(error) => {
                kept.ended = true;
                self.problem = Some(error.to_string());
            }
        }
    }

    /// The stream as a result shows it.
    pub(super) fn finish(self) -> FinishedOutput {
        let (head, tail) = (Bytes::from(self.head), Bytes::from(Vec::from(self.tail)));
        let captured = CapturedOutput::in_memory(head, tail, self.total);
        let mut finished = FinishedOutput {
            text: captured.to_text(),
            omitted_bytes: captured.dropped(),
            ..FinishedOutput::default()
        };
        if captured.is_complete() {
            return finished;
        }
        let total = self.total;
        let problem = match self.missing {
            0 => self.problem,
            missing => Some(format!(
                "{missing} bytes were not kept by the runtime, beyond its --spool-quota-bytes or \
                 for a full disk there"
            )),
        };
        match self.file {
            Some(kept) => {
                finished.kept_note = (kept.bytes < total).then(|| {
                    let held = kept.bytes;
                    let reason = problem.unwrap_or_default();
                    format!("holds the first {held} of {total} bytes: {reason}")
                });
                finished.kept_file = Some(self.path);
            }
            None => finished.kept_note = problem,
        }
        finished
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(std::io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> OutputBounds {
        OutputBounds {
            result_bytes: 8,
            kept_file_bytes: 12,
            kept_files: 4,
        }
    }

    #[tokio::test]
    async fn what_fits_is_in_the_result_and_nothing_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let mut kept = KeptStream::new(bounds(), directory.path(), "a");
        kept.push(Bytes::from_static(b"01234")).await;
        kept.push(Bytes::from_static(b"567")).await;
        let finished = kept.finish();
        assert_eq!(
            (finished.text.as_str(), finished.kept_file),
            ("01234567", None)
        );
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }

    #[tokio::test]
    async fn what_does_not_fit_is_in_a_file_to_its_limit() {
        for (more, note) in [
            (&b"89ab"[..], None),
            (
                b"89abc",
                Some("holds the first 12 of 13 bytes: it reached its limit"),
            ),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let mut kept = KeptStream::new(bounds(), directory.path(), "a");
            kept.push(Bytes::from_static(b"01234567")).await;
            kept.push(Bytes::copy_from_slice(more)).await;
            let finished = kept.finish();
            assert!(finished.text.starts_with("0123\n[... "), "{finished:?}");
            assert_eq!(finished.kept_note.as_deref(), note);
            let file = std::fs::read(finished.kept_file.unwrap()).unwrap();
            assert_eq!(file, b"0123456789ab");
        }
    }

    #[tokio::test]
    async fn what_the_runtime_did_not_keep_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let mut kept = KeptStream::new(bounds(), directory.path(), "a");
        kept.push(Bytes::from_static(b"0123456789")).await;
        kept.skip(10, 20);
        kept.skip(20, 30);
        kept.push(Bytes::from_static(b"yz")).await;
        let finished = kept.finish();
        assert!(finished.text.ends_with("\nyz"), "{finished:?}");
        let note = finished.kept_note.unwrap();
        assert!(
            note.starts_with("holds the first 10 of 32 bytes: 20 bytes"),
            "{note}"
        );
    }
}
