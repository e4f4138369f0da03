//! A provider that says what a test tells it to.

mod gate;
mod reply;

pub use gate::Gate;
pub use reply::Reply;

use crate::limits::RECORDED_REQUESTS;
use crate::pairing::check_pairing;
use crate::playback::play;
use crate::provider::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use async_trait::async_trait;
use futures::StreamExt as _;
use halter_protocol::{Message, Prices, ProviderError, ProviderErrorKind, Transcript};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// A model without a model: it answers from a script, from a closure, or by
/// repeating what the user said. It uses no network and records what it is
/// asked.
///
/// Every request is checked by [`check_pairing`] first; one that a strict
/// service would refuse is answered with a fatal error that says why.
///
/// ```
/// use halter_providers::{FakeProvider, Reply};
/// use serde_json::json;
///
/// // The first request is answered with a tool call, the second with text.
/// let scripted = FakeProvider::scripted([
///     Reply::new().tool_call("read", json!({"path": "notes.txt"})),
///     Reply::new().text("It says hello."),
/// ]);
///
/// // The answer follows from the request.
/// let computed = FakeProvider::from_fn(|request| {
///     Reply::new().text(format!("{} messages so far", request.messages.len()))
/// });
///
/// // "fake> {what the user said} [{model}]"
/// let echo = FakeProvider::default();
/// ```
pub struct FakeProvider {
    answers: Answers,
    checks_pairing: bool,
    prices: Option<Prices>,
    record: Mutex<Record>,
}

enum Answers {
    Echo(String),
    Computed(Box<dyn Fn(&ProviderRequest) -> Reply + Send + Sync>),
    Scripted(Mutex<VecDeque<Reply>>),
}

#[derive(Default)]
struct Record {
    requests: VecDeque<ProviderRequest>,
    total: usize,
}

impl FakeProvider {
    /// Answers the first request with the first reply, and so on. A request
    /// too many fails with a fatal error that gives its number.
    pub fn scripted<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        let replies = replies.into_iter().map(Into::into).collect();
        Self::new(Answers::Scripted(Mutex::new(replies)))
    }

    /// Answers each request with what the closure makes of it.
    pub fn from_fn<R: Into<Reply>>(
        answer: impl Fn(&ProviderRequest) -> R + Send + Sync + 'static,
    ) -> Self {
        Self::new(Answers::Computed(Box::new(move |request| {
            answer(request).into()
        })))
    }

    /// Repeats what the user said: `{prefix} {text} [{model}]`.
    pub fn with_prefix(prefix: impl Into<String>) -> Self {
        Self::new(Answers::Echo(prefix.into()))
    }

    /// Answers also requests whose tool calls and results do not pair.
    pub fn lenient(mut self) -> Self {
        self.checks_pairing = false;
        self
    }

    /// Charges these prices for its tokens.
    pub fn with_prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// The requests so far, oldest first; of very many, the newest
    /// [`RECORDED_REQUESTS`].
    pub fn requests(&self) -> Vec<ProviderRequest> {
        lock(&self.record).requests.iter().cloned().collect()
    }

    /// The number of requests so far.
    pub fn request_count(&self) -> usize {
        lock(&self.record).total
    }

    /// The number of scripted replies that nobody has asked for yet.
    pub fn remaining(&self) -> usize {
        match &self.answers {
            Answers::Scripted(replies) => lock(replies).len(),
            Answers::Echo(_) | Answers::Computed(_) => 0,
        }
    }

    fn new(answers: Answers) -> Self {
        Self {
            answers,
            checks_pairing: true,
            prices: None,
            record: Mutex::default(),
        }
    }

    /// Keeps the request and says which it is, counted from 1.
    fn record(&self, request: &ProviderRequest) -> usize {
        let mut record = lock(&self.record);
        if record.requests.len() >= RECORDED_REQUESTS {
            record.requests.pop_front();
        }
        record.requests.push_back(request.clone());
        record.total += 1;
        record.total
    }

    fn reply(&self, request: &ProviderRequest, number: usize) -> Result<Reply, ProviderError> {
        if self.checks_pairing
            && let Err(error) = check_pairing(&request.messages)
        {
            return Err(fatal(format!("request {number} is malformed: {error}")));
        }
        match &self.answers {
            Answers::Echo(prefix) => {
                let said = last_user_text(&request.messages);
                let model = &request.model.model;
                Ok(Reply::new().text(format!("{prefix} {said} [{model}]")))
            }
            Answers::Computed(answer) => Ok(answer(request)),
            Answers::Scripted(replies) => lock(replies).pop_front().ok_or_else(|| {
                fatal(format!(
                    "the script of the fake provider has no reply for request {number}: \
                     add one, or find out why the harness asks again"
                ))
            }),
        }
    }
}

impl Default for FakeProvider {
    fn default() -> Self {
        Self::with_prefix("fake>")
    }
}

#[async_trait]
impl Provider for FakeProvider {
    fn capabilities(&self) -> ProviderCapabilities {
        let mut capabilities = ProviderCapabilities::new();
        capabilities.prices = self.prices;
        capabilities
    }

    async fn stream(
        &self,
        request: ProviderRequest,
        cancel: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        let number = self.record(&request);
        let reply = self.reply(&request, number)?;
        let refuses = reply.refuses();
        // The length of the transcript keeps ids apart when a session goes on
        // with another fake, the number when a request is repeated.
        let stem = format!("fake_{}_{number}", request.messages.len());
        let mut events = play(reply.into_cues(stem), cancel);
        while refuses && let Some(item) = events.next().await {
            item?;
        }
        Ok(events)
    }
}

impl std::fmt::Debug for FakeProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let answers = match &self.answers {
            Answers::Echo(_) => "echo",
            Answers::Computed(_) => "computed",
            Answers::Scripted(_) => "scripted",
        };
        f.debug_struct("FakeProvider")
            .field("answers", &answers)
            .field("remaining", &self.remaining())
            .field("request_count", &self.request_count())
            .finish_non_exhaustive()
    }
}

fn fatal(message: String) -> ProviderError {
    ProviderError::new(message, ProviderErrorKind::Fatal)
}

fn last_user_text(messages: &Transcript) -> String {
    messages
        .iter_newest_first()
        .find_map(|message| match message.as_ref() {
            Message::User(user) => Some(user.plain_text()),
            _ => None,
        })
        .unwrap_or_default()
}

/// A panic elsewhere leaves nothing half-done in what these locks guard.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
