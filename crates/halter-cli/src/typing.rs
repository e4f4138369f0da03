//! What a person types while a turn runs.
//!
//! Meanwhile the terminal neither echoes nor waits for a line: what is typed is
//! shown beside the progress, so that it does not get mixed up with the answer.
//! Ctrl-C stays a signal.

use crate::draft::Draft;
use crate::limits::TYPED_CHUNKS;
use crate::terminal;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Stdin};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// Listens to the keyboard. The terminal is as before when it is dropped.
pub struct Typing {
    keys: mpsc::Receiver<Vec<u8>>,
    draft: Draft,
    complete: Vec<String>,
    refused: Vec<String>,
    reader: Option<JoinHandle<()>>,
    /// The reader stops when this is closed.
    stop: Option<OwnedFd>,
}

impl Typing {
    /// Listens from now on.
    pub fn start() -> io::Result<Self> {
        let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        terminal::read_without_echo()?;
        let (sender, keys) = key_queue();
        let reader = std::thread::spawn(move || read_keys(&stopped, &sender));
        Ok(Self {
            keys,
            draft: Draft::default(),
            complete: Vec::new(),
            refused: Vec::new(),
            reader: Some(reader),
            stop: Some(stop),
        })
    }

    /// Waits for keys; the next complete line, if they complete one. It may be
    /// blank, which is an answer to a question.
    pub async fn next(&mut self) -> Option<String> {
        if self.complete.is_empty() {
            match self.keys.recv().await {
                Some(keys) => self.complete = self.draft.type_in(&keys),
                // The keyboard is gone; a signal will tell what to do.
                None => std::future::pending().await,
            }
        }
        match self.complete.is_empty() {
            true => None,
            false => Some(self.complete.remove(0)),
        }
    }

    /// What is typed and not sent.
    pub fn draft(&self) -> &str {
        self.draft.text()
    }

    /// Keeps a line that could not be sent.
    pub fn take_back(&mut self, line: String) {
        self.refused.push(line);
    }

    /// Stops listening and returns what was not sent.
    pub fn finish(mut self) -> String {
        self.stop();
        while let Ok(keys) = self.keys.try_recv() {
            self.complete.extend(self.draft.type_in(&keys));
        }
        self.complete.retain(|line| !line.trim().is_empty());
        let mut rest = std::mem::take(&mut self.refused);
        rest.append(&mut self.complete);
        rest.push(std::mem::take(&mut self.draft).into_text());
        rest.join("\n").trim_end_matches('\n').to_owned()
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(reader) = self.reader.take() {
            // It only waits for keys; it cannot have panicked.
            let _ = reader.join();
        }
        terminal::restore();
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads of the keyboard on their way. When it is full, the terminal keeps the
/// rest.
fn key_queue() -> (mpsc::Sender<Vec<u8>>, mpsc::Receiver<Vec<u8>>) {
    mpsc::channel(TYPED_CHUNKS)
}

/// Reads keys until it is told to stop, taking none that come later.
fn read_keys(stopped: &OwnedFd, keys: &mpsc::Sender<Vec<u8>>) {
    let stdin = io::stdin();
    while let Ok(true) = wait_for_keys(&stdin, stopped) {
        let mut bytes = [0; 256];
        let Ok(count @ 1..) = rustix::io::read(&stdin, &mut bytes) else {
            return;
        };
        let typed = bytes.get(..count).unwrap_or_default().to_vec();
        if keys.blocking_send(typed).is_err() {
            return;
        }
    }
}

fn wait_for_keys(stdin: &Stdin, stopped: &OwnedFd) -> io::Result<bool> {
    let mut watched = [
        PollFd::new(stdin, PollFlags::IN),
        PollFd::new(stopped, PollFlags::IN),
    ];
    loop {
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let [keys, stop] = &watched;
        return Ok(stop.revents().is_empty() && !keys.revents().is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_reads_wait_and_no_more() {
        let (sender, _keys) = key_queue();
        for _ in 0..TYPED_CHUNKS {
            sender.try_send(Vec::new()).unwrap();
        }
        assert!(sender.try_send(Vec::new()).is_err());
    }
}
