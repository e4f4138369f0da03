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
}

impl Stdio {
    pub(crate) fn new(input: ProgramInput, output: ProgramOutput, closing: Closing) -> Self {
        Self {
            input: Some(input),
            output,
            closing,
        }
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let input = self.input.clone();
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            match input {
                Some(input) => input.write(&line).await,
                None => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let mut stray = 0;
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
                Ok(message) => return Some(message),
                Err(_) if line.trim_ascii().is_empty() => {}
                // Many print greetings and logs there.
                Err(error) => {
                    stray += 1;
                    tracing::debug!(%error, "a line of a server is no message");
                }
            }
            if stray > STRAY_LINES {
                let reason = format!("it printed {stray} lines that are no messages");
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
