//! Messages as lines on the standard streams of a program.

use super::Closing;
use crate::limits::{SERVER_MESSAGE_BYTES, STRAY_LINES};
use crate::supervise::{LineTooLong, ProgramInput, ProgramOutput};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use std::io;

/// The streams of a program that serves.
pub(crate) struct Stdio {
    input: Option<ProgramInput>,
    output: ProgramOutput,
    closing: Closing,
    /// Lines since the last message. The library may drop a wait for the next.
    stray: usize,
}

impl Stdio {
    pub(crate) fn new(input: ProgramInput, output: ProgramOutput, closing: Closing) -> Self {
        Self {
            input: Some(input),
            output,
            closing,
            stray: 0,
        }
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (input, closing) = (self.input.clone(), self.closing.clone());
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let input = input.ok_or(io::ErrorKind::BrokenPipe)?;
            // One that reads no more is of no use, even if it goes on running.
            input.write(&line).await.inspect_err(|_| closing.end())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let line = match self.output.next_line(SERVER_MESSAGE_BYTES).await {
                Ok(line) => line?,
                Err(LineTooLong) => {
                    let reason =
                        format!("it sent a message of more than {SERVER_MESSAGE_BYTES} bytes");
                    self.closing.because(reason);
                    return None;
                }
            };
            match serde_json::from_slice(&line) {
                Ok(message) => {
                    self.stray = 0;
                    return Some(message);
                }
                // Many print greetings and logs there, or lines with nothing.
                Err(error) => {
                    self.stray += 1;
                    tracing::debug!(%error, "a line of a server is no message");
                }
            }
            if self.stray > STRAY_LINES {
                let reason = format!("it printed {} lines that are no messages", self.stray);
                self.closing.because(reason);
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        if let Some(input) = self.input.take() {
            input.end();
        }
        Ok(())
    }
}
