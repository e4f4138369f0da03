//! A place behind a message boundary: what a remote one would be, without the
//! network. Only data crosses; if a handle were needed, this would not compile.

use async_trait::async_trait;
use halter_tools::exec::{
    ExecBackend, ExecCommand, ExecSession, ExecSessionSpec, FinishedCommand, KillOutcome,
    LocalExec, SessionProcesses, TextListener,
};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Runs every session on a thread and runtime of its own.
#[derive(Debug)]
pub struct RelayedExec;

struct RelayedSession(mpsc::UnboundedSender<Request>);

enum Request {
    Run {
        command: ExecCommand,
        cancelled: oneshot::Receiver<()>,
        events: mpsc::UnboundedSender<Event>,
    },
    Processes(
        Option<i32>,
        oneshot::Sender<anyhow::Result<SessionProcesses>>,
    ),
    Signal(i32, i32, oneshot::Sender<anyhow::Result<Vec<KillOutcome>>>),
    Close(oneshot::Sender<()>),
}

enum Event {
    Output(String),
    Finished(Box<anyhow::Result<FinishedCommand>>),
}

impl ExecBackend for RelayedExec {
    fn open(&self, spec: ExecSessionSpec) -> Arc<dyn ExecSession> {
        let (requests, inbox) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(serve(spec, inbox));
        });
        Arc::new(RelayedSession(requests))
    }
}

async fn serve(spec: ExecSessionSpec, mut inbox: mpsc::UnboundedReceiver<Request>) {
    let session = LocalExec.open(spec);
    while let Some(request) = inbox.recv().await {
        let session = Arc::clone(&session);
        tokio::spawn(async move {
            match request {
                Request::Run {
                    command,
                    cancelled,
                    events,
                } => {
                    let cancel = CancellationToken::new();
                    let output = |text: &str| {
                        let _ = events.send(Event::Output(text.to_owned()));
                    };
                    let run = session.run(command, &cancel, &output);
                    tokio::pin!(run);
                    let finished = tokio::select! {
                        finished = &mut run => finished,
                        Ok(()) = cancelled => {
                            cancel.cancel();
                            run.await
                        }
                    };
                    let _ = events.send(Event::Finished(Box::new(finished)));
                }
                Request::Processes(root, reply) => {
                    let _ = reply.send(session.processes(root).await);
                }
                Request::Signal(root, signal, reply) => {
                    let _ = reply.send(session.signal_tree(root, signal).await);
                }
                Request::Close(reply) => {
                    session.close().await;
                    let _ = reply.send(());
                }
            }
        });
    }
}

#[async_trait]
impl ExecSession for RelayedSession {
    async fn run(
        &self,
        command: ExecCommand,
        cancel: &CancellationToken,
        output: &TextListener<'_>,
    ) -> anyhow::Result<FinishedCommand> {
        let (cancelled_here, cancelled) = oneshot::channel();
        let mut cancelled_here = Some(cancelled_here);
        let (events, mut arriving) = mpsc::unbounded_channel();
        self.0.send(Request::Run {
            command,
            cancelled,
            events,
        })?;
        loop {
            tokio::select! {
                event = arriving.recv() => match event {
                    Some(Event::Output(text)) => output(&text),
                    Some(Event::Finished(finished)) => return *finished,
                    None => anyhow::bail!("the place is gone"),
                },
                () = cancel.cancelled(), if cancelled_here.is_some() => {
                    cancelled_here.take().map(|sender| sender.send(()));
                }
            }
        }
    }

    async fn processes(&self, root: Option<i32>) -> anyhow::Result<SessionProcesses> {
        let (reply, answer) = oneshot::channel();
        self.0.send(Request::Processes(root, reply))?;
        answer.await?
    }

    async fn signal_tree(&self, root: i32, signal: i32) -> anyhow::Result<Vec<KillOutcome>> {
        let (reply, answer) = oneshot::channel();
        self.0.send(Request::Signal(root, signal, reply))?;
        answer.await?
    }

    async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        if self.0.send(Request::Close(reply)).is_ok() {
            let _ = answer.await;
        }
    }
}
