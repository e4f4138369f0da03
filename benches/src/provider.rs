//! A provider that posts requests to the loopback server, as a real wire does:
//! every message is encoded once, a request copies the bytes out.

use crate::measure::cpu_time;
use async_trait::async_trait;
use futures::StreamExt;
use halter_protocol::{BlockId, StopReason, StreamEvent, ToolName, Usage, UsageBuckets};
use halter_providers::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// One connection to the server, kept open.
pub struct Client(BufReader<TcpStream>);

impl Client {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Posts a body and reads the answer.
    pub async fn post(&mut self, body: &[u8]) -> anyhow::Result<Vec<u8>> {
        let head = format!(
            "POST / HTTP/1.1\r\nhost: loopback\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.0.get_mut().write_all(head.as_bytes()).await?;
        self.0.get_mut().write_all(body).await?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await?;
            match line.trim() {
                "" => break,
                other => {
                    if let Some(value) = other.strip_prefix("content-length: ") {
                        length = value.parse()?;
                    }
                }
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer).await?;
        Ok(answer)
    }
}

/// What a run of steps looked like from the provider.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StepLog {
    /// CPU time of the process when each request was made, in nanoseconds.
    pub cpu_nanos: Vec<u64>,
    /// The size of each request's body, in bytes.
    pub body_bytes: Vec<usize>,
    /// The most memory the process used, in KiB.
    pub peak_kib: u64,
}

/// Takes down the CPU time now.
pub fn note_step(log: &mut StepLog, body_bytes: usize) {
    let nanos = u64::try_from(cpu_time().as_nanos()).unwrap_or(u64::MAX);
    log.cpu_nanos.push(nanos);
    log.body_bytes.push(body_bytes);
}

/// Asks for one `ls` after another, then says that it is done.
pub struct LoopbackProvider {
    address: SocketAddr,
    steps: usize,
    state: Arc<tokio::sync::Mutex<State>>,
    log: Arc<Mutex<StepLog>>,
}

#[derive(Default)]
struct State {
    client: Option<Client>,
    body: Vec<u8>,
    encoded: usize,
    requests: usize,
}

/// What the server says.
#[derive(Deserialize)]
struct Answer {
    text: String,
    tool: ToolName,
    arguments: serde_json::Value,
}

impl LoopbackProvider {
    /// A model that wants so many tool calls.
    pub fn new(address: SocketAddr, steps: usize) -> Self {
        Self {
            address,
            steps,
            state: Arc::default(),
            log: Arc::default(),
        }
    }

    /// What has happened so far.
    pub fn log(&self) -> StepLog {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[async_trait]
impl Provider for LoopbackProvider {
    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::new()
    }

    async fn stream(
        &self,
        request: ProviderRequest,
        _: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        let mut guard = self.state.lock().await;
        let state = &mut *guard;
        if state.encoded == 0 {
            serde_json::to_writer(&mut state.body, request.prompt.segments())?;
            serde_json::to_writer(&mut state.body, &request.tools)?;
        }
        for message in request.messages.since(state.encoded) {
            serde_json::to_writer(&mut state.body, &message)?;
        }
        state.encoded = request.messages.len();
        state.requests += 1;
        let number = state.requests;
        {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            note_step(&mut log, state.body.len());
        }
        let client = match &mut state.client {
            Some(client) => client,
            slot => slot.insert(Client::connect(self.address).await?),
        };
        let answer: Answer = serde_json::from_slice(&client.post(&state.body).await?)?;
        let events = spoken(answer, number, number > self.steps);
        Ok(futures::stream::iter(events.into_iter().map(Ok)).boxed())
    }
}

fn spoken(answer: Answer, number: usize, done: bool) -> Vec<StreamEvent> {
    let block = |name: &str| BlockId(format!("{name}_{number}"));
    let mut events = vec![
        StreamEvent::MessageStart { id: "msg".into() },
        StreamEvent::TextStart { id: block("text") },
        StreamEvent::TextDelta {
            id: block("text"),
            delta: answer.text,
        },
        StreamEvent::TextEnd {
            id: block("text"),
            opaque: None,
        },
    ];
    if !done {
        // Each call differs, as calls of a model at work do.
        let mut arguments = answer.arguments;
        if let Some(command) = arguments.get_mut("command") {
            *command = format!("ls -w {}", 80 + number).into();
        }
        events.extend([
            StreamEvent::ToolCallStart {
                id: block("call"),
                tool_call_id: format!("call_{number}").into(),
                name: answer.tool,
            },
            StreamEvent::ToolArgsDelta {
                id: block("call"),
                delta: arguments.to_string(),
            },
            StreamEvent::ToolCallEnd {
                id: block("call"),
                opaque: None,
            },
        ]);
    }
    events.push(StreamEvent::UsageUpdate {
        usage: Usage::from(UsageBuckets {
            uncached_input: 100,
            output: 10,
            ..UsageBuckets::default()
        }),
    });
    events.push(StreamEvent::MessageEnd {
        id: "msg".into(),
        stop_reason: if done {
            StopReason::EndTurn
        } else {
            StopReason::ToolUse
        },
    });
    events
}
