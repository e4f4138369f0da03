//! Moves a command's bytes while something else is awaited.

use bytes::Bytes;
use std::future::Future;
use std::io;

use crate::input::InputSpool;
use crate::limits::{READ_CHUNK_BYTES, TERMINAL_DRAIN_WAIT};

use super::{
    Capture, CapturedOutput, Filled, OutputChunk, OutputLimits, OutputPipe, OutputSink,
    OutputStream,
};

/// Both output streams and the input of one command.
pub(crate) struct Pump<'sink> {
    stdout: Stream,
    stderr: Stream,
    stdin: Option<InputSpool>,
    sink: &'sink dyn OutputSink,
}

struct Stream {
    kind: OutputStream,
    pipe: Option<OutputPipe>,
    capture: Capture,
    /// Up to where the sink has been told.
    announced: u64,
}

impl Stream {
    fn new(kind: OutputStream, pipe: Option<OutputPipe>, limits: &OutputLimits) -> Self {
        Self {
            kind,
            pipe,
            capture: Capture::new(limits),
            announced: 0,
        }
    }

    /// Takes the next bytes, or sees the end; never returns after the end.
    async fn next(&mut self) -> Filled {
        match &mut self.pipe {
            Some(pipe) => self.capture.fill(pipe).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "reading command output");
                Filled::End
            }),
            None => std::future::pending().await,
        }
    }

    /// Passes on what was taken.
    fn take(&mut self, filled: Filled, sink: &dyn OutputSink) {
        match filled {
            Filled::Nothing => {}
            Filled::End => self.pipe = None,
            Filled::Kept => self.announce_kept(sink),
            Filled::Unkept(bytes) => {
                self.announce_kept(sink);
                let count = bytes.len() as u64;
                let offset = self.capture.progress().total - count;
                self.announce(offset, bytes, sink);
            }
        }
    }

    fn announce_kept(&mut self, sink: &dyn OutputSink) {
        let stored = self.capture.progress().stored;
        if !sink.is_listening() {
            self.announced = self.announced.max(stored);
        }
        while self.announced < stored {
            let offset = self.announced;
            let end = stored.min(offset + READ_CHUNK_BYTES as u64);
            match self.capture.read_range(offset, end) {
                Ok(bytes) if !bytes.is_empty() => self.announce(offset, bytes, sink),
                // The sink sees the gap in the offsets.
                _ => self.announced = stored,
            }
        }
    }

    fn announce(&mut self, offset: u64, bytes: Bytes, sink: &dyn OutputSink) {
        self.announced = offset + bytes.len() as u64;
        if sink.is_listening() {
            sink.chunk(OutputChunk {
                stream: self.kind,
                offset,
                bytes,
            });
        }
    }

    /// Takes what is in the pipe, and no more than it can hold: a writer that
    /// goes on forever must not keep us here.
    async fn drain(&mut self, sink: &dyn OutputSink) -> io::Result<()> {
        if self.pipe.as_ref().is_some_and(OutputPipe::is_terminal) {
            self.drain_terminal(sink).await;
            return Ok(());
        }
        // What is on its way already has left the pipe, and its place may have
        // been filled again.
        if let Some(filled) = self.capture.moved().await? {
            self.take(filled, sink);
        }
        let begun = self.capture.progress().total;
        let most = self.pipe.as_ref().map_or(0, OutputPipe::capacity) as u64;
        while self.capture.progress().total < begun + most {
            let Some(pipe) = &mut self.pipe else { break };
            let filled = self.capture.fill_now(pipe).await?;
            if matches!(filled, Filled::Nothing) {
                break;
            }
            self.take(filled, sink);
        }
        Ok(())
    }
}

impl Stream {
    /// A terminal hands over late what was written early, so an empty one
    /// says nothing: only its end does, or that some time has passed.
    async fn drain_terminal(&mut self, sink: &dyn OutputSink) {
        let to_the_end = async {
            while self.pipe.is_some() {
                let filled = self.next().await;
                self.take(filled, sink);
            }
        };
        let _ = tokio::time::timeout(TERMINAL_DRAIN_WAIT, to_the_end).await;
    }
}

impl<'sink> Pump<'sink> {
    pub(crate) fn new(
        stdout: OutputPipe,
        stderr: impl Into<Option<OutputPipe>>,
        stdin: Option<InputSpool>,
        limits: &OutputLimits,
        sink: &'sink dyn OutputSink,
    ) -> Self {
        Self {
            stdout: Stream::new(OutputStream::Stdout, Some(stdout), limits),
            stderr: Stream::new(OutputStream::Stderr, stderr.into(), limits),
            stdin,
            sink,
        }
    }

    /// Moves bytes until `end` is done. The end of the streams is no reason
    /// to return, and an open stream none to stay.
    pub(crate) async fn run_until<End: Future>(&mut self, end: End) -> End::Output {
        tokio::pin!(end);
        loop {
            tokio::select! {
                outcome = &mut end => return outcome,
                filled = self.stdout.next() => self.stdout.take(filled, self.sink),
                filled = self.stderr.next() => self.stderr.take(filled, self.sink),
                () = write_input(&mut self.stdin) => self.stdin = None,
            }
        }
    }

    /// Takes what was written so far without waiting for more.
    pub(crate) async fn drain(&mut self) -> io::Result<()> {
        self.stdin = None;
        self.stdout.drain(self.sink).await?;
        self.stderr.drain(self.sink).await
    }

    /// The captured streams, and the pipes that still have a writer.
    pub(crate) async fn finish(self) -> (CapturedOutput, CapturedOutput, Vec<OutputPipe>) {
        let open = [self.stdout.pipe, self.stderr.pipe]
            .into_iter()
            .flatten()
            .collect();
        let stdout = self.stdout.capture.finish().await;
        let stderr = self.stderr.capture.finish().await;
        (stdout, stderr, open)
    }
}

async fn write_input(stdin: &mut Option<InputSpool>) {
    match stdin {
        // What it did not read, it did not want.
        Some(input) => {
            if let Err(error) = input.pump().await {
                tracing::debug!(%error, "writing command input");
            }
        }
        None => std::future::pending().await,
    }
}
