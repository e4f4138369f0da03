//! Moves a command's bytes while something else is awaited.

use bytes::Bytes;
use std::future::Future;
use std::io;

use crate::input::InputSpool;
use crate::limits::TERMINAL_DRAIN_WAIT;

use super::{
    Capture, CapturedOutput, Drained, OutputChunk, OutputLimits, OutputPipe, OutputSink,
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
}

impl Stream {
    fn new(kind: OutputStream, pipe: Option<OutputPipe>, limits: &OutputLimits) -> Self {
        Self {
            kind,
            pipe,
            capture: Capture::new(limits),
        }
    }

    /// The next chunk, or the end; never returns after the end.
    async fn next(&mut self) -> Option<Bytes> {
        self.capture.ready().await;
        match &mut self.pipe {
            Some(pipe) => pipe.read().await.unwrap_or_else(|error| {
                tracing::debug!(%error, "reading command output");
                None
            }),
            None => std::future::pending().await,
        }
    }

    fn take(&mut self, chunk: Option<Bytes>, sink: &dyn OutputSink) {
        let Some(bytes) = chunk else {
            self.pipe = None;
            return;
        };
        let offset = self.capture.total();
        self.capture.push(&bytes);
        sink.chunk(OutputChunk {
            stream: self.kind,
            offset,
            bytes,
        });
    }

    /// Takes what is in the pipe, and no more than it can hold: a writer that
    /// goes on forever must not keep us here.
    async fn drain(&mut self, sink: &dyn OutputSink) -> io::Result<()> {
        if self.pipe.as_ref().is_some_and(OutputPipe::is_terminal) {
            self.drain_terminal(sink).await;
            return Ok(());
        }
        let mut left = self.pipe.as_ref().map_or(0, OutputPipe::capacity);
        while left > 0 {
            self.capture.ready().await;
            let Some(pipe) = &mut self.pipe else { break };
            match pipe.read_now()? {
                Drained::Chunk(bytes) => {
                    left = left.saturating_sub(bytes.len());
                    self.take(Some(bytes), sink);
                }
                Drained::End => self.pipe = None,
                Drained::Empty => break,
            }
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
                let chunk = self.next().await;
                self.take(chunk, sink);
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
                chunk = self.stdout.next() => self.stdout.take(chunk, self.sink),
                chunk = self.stderr.next() => self.stderr.take(chunk, self.sink),
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
