//! The pipe on which a shell says how its commands ended.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use halter_exec::host::{Moved, system, watch_descriptor};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::limits::MAX_RECORD_FILE_BYTES;

/// What a shell says, moved from its pipe to a file that survives us before
/// it is looked at.
#[derive(Debug)]
pub(super) struct Records {
    pipe: AsyncFd<OwnedFd>,
    file: File,
    /// How much is in the file, and how much of that was returned.
    stored: u64,
    returned: u64,
    /// Whether that was at the end of a record.
    whole: bool,
}

impl Records {
    pub(super) fn new(pipe: OwnedFd, file: OwnedFd) -> io::Result<Self> {
        let file = File::from(file);
        system::settle_file(&file)?;
        Ok(Self {
            pipe: watch_descriptor(pipe, Interest::READABLE)?,
            stored: file.metadata()?.len(),
            file,
            returned: 0,
            whole: true,
        })
    }

    /// The next bytes; waits forever once nobody can say anything.
    pub(super) async fn next(&mut self) -> Bytes {
        loop {
            if let Some(bytes) = self.fresh() {
                return bytes;
            }
            match self.pipe.readable().await {
                Ok(mut ready) => {
                    match store(ready.get_inner(), &self.file, self.stored) {
                        Ok(Moved::Bytes(count)) => {
                            self.stored += count;
                            // That was all: whatever comes next is new.
                            if count < FEW_BYTES {
                                ready.clear_ready();
                            }
                            continue;
                        }
                        Ok(Moved::WouldBlock) => {
                            ready.clear_ready();
                            continue;
                        }
                        Ok(Moved::End) | Err(_) => {}
                    }
                    drop(ready);
                    std::future::pending::<()>().await;
                }
                Err(_) => std::future::pending().await,
            }
        }
    }

    /// What has been said and not been returned.
    pub(super) fn now(&mut self) -> Option<Bytes> {
        while let Ok(Moved::Bytes(count)) = store(self.pipe.get_ref(), &self.file, self.stored) {
            self.stored += count;
        }
        self.fresh()
    }

    /// What is in the file and has not been returned.
    fn fresh(&mut self) -> Option<Bytes> {
        let fresh = usize::try_from(self.stored - self.returned).unwrap_or(0);
        if fresh == 0 {
            return None;
        }
        let mut bytes = vec![0; fresh];
        self.file.read_exact_at(&mut bytes, self.returned).ok()?;
        self.returned = self.stored;
        self.whole = bytes.last() == Some(&0);
        Some(bytes.into())
    }

    /// Forgets what was said about earlier commands: by the time somebody
    /// waits for the end of the next one, the holder knows theirs.
    pub(super) fn trim(&mut self) {
        if self.returned > MAX_RECORD_FILE_BYTES
            && self.returned == self.stored
            && self.whole
            && self.file.set_len(0).is_ok()
        {
            self.stored = 0;
            self.returned = 0;
        }
    }
}

/// A move of fewer bytes has left none behind.
const FEW_BYTES: u64 = 4096;

fn store(pipe: &OwnedFd, file: &File, place: u64) -> io::Result<Moved> {
    system::move_to_file(pipe, file, place, 64 * 1024)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Has a record of this many bytes come through.
    async fn say(records: &mut Records, writer: &mut io::PipeWriter, size: u64) {
        let mut record = vec![b'x'; usize::try_from(size).unwrap() - 1];
        record.push(0);
        for part in record.chunks(4096) {
            writer.write_all(part).unwrap();
            assert_eq!(records.next().await.as_ref(), part);
        }
    }

    #[tokio::test]
    async fn what_was_said_is_kept_up_to_a_limit_and_then_forgotten() {
        let (read, mut writer) = io::pipe().unwrap();
        let file = halter_exec::host::Spool::memory_file().unwrap();
        let kept = file.try_clone().unwrap();
        let mut records = Records::new(read.into(), file.into()).unwrap();
        say(&mut records, &mut writer, MAX_RECORD_FILE_BYTES).await;
        records.trim();
        assert_eq!(kept.metadata().unwrap().len(), MAX_RECORD_FILE_BYTES);
        // Half a record is never forgotten.
        writer.write_all(b"x").unwrap();
        assert_eq!(records.next().await.as_ref(), b"x");
        records.trim();
        assert_eq!(kept.metadata().unwrap().len(), MAX_RECORD_FILE_BYTES + 1);
        writer.write_all(&[0]).unwrap();
        assert_eq!(records.next().await.as_ref(), &[0]);
        records.trim();
        assert_eq!(kept.metadata().unwrap().len(), 0);
        // It goes on from the beginning.
        say(&mut records, &mut writer, 9).await;
        assert_eq!(kept.metadata().unwrap().len(), 9);
    }
}
