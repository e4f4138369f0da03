//! Calls about files for whoever blocks: doors are used on threads without a
//! runtime of their own.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use halter_policy::PolicyError;
use tokio::runtime::{Builder, Runtime};

use crate::backend::started::{PAUSE, RETURN_TIME};
use crate::client::{Client, ClientError, Target};
use crate::protocol::ErrorCode;

/// A client with a thread that does its calls.
#[derive(Debug)]
pub(super) struct FileCalls {
    client: Client,
    /// How long one call may take.
    call_time: Duration,
    /// Only its drop takes it.
    thread: Option<Runtime>,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The runtime said no, or was never asked.
    Refused(ClientError),
    /// It was asked, and what became of that is not known.
    Lost(String),
    /// The same, and all the time for an answer is gone.
    Late(String),
}

impl FileCalls {
    pub(super) fn new(target: Target, call_time: Duration) -> std::io::Result<Self> {
        let thread = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("halter-files")
            .enable_all()
            .build()?;
        Ok(Self {
            client: Client::new(target),
            call_time,
            thread: Some(thread),
        })
    }

    pub(super) fn target(&self) -> String {
        self.client.target().to_string()
    }

    /// Makes one call. As long as the runtime was not reached it is tried again
    /// for a while: it may be about to come back.
    pub(super) fn once<T, Call>(&self, call: impl Fn(Client) -> Call) -> Result<T, CallFailure>
    where
        T: Send + 'static,
        Call: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        let begun = Instant::now();
        loop {
            let error = match self.ask(call(self.client.clone())) {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(reason) => return Err(CallFailure::Late(reason)),
            };
            if matches!(error, ClientError::Lost { .. }) {
                return Err(CallFailure::Lost(error.to_string()));
            }
            if !error.is_passing() || begun.elapsed() >= RETURN_TIME {
                return Err(CallFailure::Refused(error));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Makes a call that changes nothing, again if its answer is lost.
    pub(super) fn repeated<T, Call>(&self, call: impl Fn(Client) -> Call) -> Result<T, PolicyError>
    where
        T: Send + 'static,
        Call: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        let begun = Instant::now();
        loop {
            match self.once(&call) {
                Ok(answer) => return Ok(answer),
                Err(CallFailure::Refused(error)) => return Err(self.failed(&error)),
                Err(CallFailure::Late(reason)) => return Err(unreachable(reason)),
                Err(CallFailure::Lost(reason)) if begun.elapsed() >= RETURN_TIME => {
                    return Err(unreachable(reason));
                }
                Err(CallFailure::Lost(_)) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// The answer to a call, or why there is none.
    fn ask<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    ) -> Result<Result<T, ClientError>, String> {
        let (sender, answer) = mpsc::sync_channel(1);
        let call_time = self.call_time;
        if let Some(thread) = &self.thread {
            thread.spawn(async move {
                // Whoever asked waits for it.
                let _ = sender.send(tokio::time::timeout(call_time, call).await);
            });
        }
        let late = call_time + Duration::from_secs(1);
        match answer.recv_timeout(late) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(format!(
                "the runtime at {} has not answered within {} s",
                self.target(),
                call_time.as_secs_f64()
            )),
        }
    }

    /// A refusal that says nothing about a file.
    pub(super) fn failed(&self, error: &ClientError) -> PolicyError {
        match error {
            ClientError::Refused(refused) if refused.code == ErrorCode::FileFailed => {
                PolicyError::Elsewhere {
                    code: "files_refused",
                    denies: false,
                    message: refused.message.clone(),
                }
            }
            error => unreachable(format!(
                "the files at {} cannot be reached: {error}",
                self.target()
            )),
        }
    }
}

impl Drop for FileCalls {
    fn drop(&mut self) {
        // It may be dropped where nobody may block.
        if let Some(thread) = self.thread.take() {
            thread.shutdown_background();
        }
    }
}

pub(super) fn unreachable(message: String) -> PolicyError {
    PolicyError::Elsewhere {
        code: "files_unreachable",
        denies: false,
        message,
    }
}
