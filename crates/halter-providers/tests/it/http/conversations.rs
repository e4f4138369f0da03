//! Messages are encoded once.

use super::scripted::{Script, Scripted};
use super::{HELLO, chat};
use crate::support::{events, request};
use halter_protocol::{
    AssembledPrompt, Message, ProviderError, ResolvedModel, Timestamp, ToolSpec, UserMessage,
    UserPart,
};
use halter_providers::ProviderRequest;
use halter_providers::http::{Endpoint, HttpProvider};
use halter_providers::limits::KEPT_CONVERSATIONS;
use halter_providers::wire::chat::Chat;
use halter_providers::wire::{
    ConversationEncoder, Decoder, EncodedBody, ErrorResponse, HeaderLookup, ImageInput,
    RateLimitHints, RequestSettings, Wire,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A wire that counts what is encoded.
struct Counting {
    inner: Arc<Chat>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    encoders: AtomicUsize,
    messages: AtomicUsize,
}

struct CountingEncoder {
    inner: Box<dyn ConversationEncoder>,
    counts: Arc<Counts>,
}

impl Wire for Counting {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn url(&self, base_url: &str, model: &ResolvedModel) -> String {
        self.inner.url(base_url, model)
    }

    fn headers(&self, api_key: Option<&str>) -> Vec<(String, String)> {
        self.inner.headers(api_key)
    }

    fn encoder(&self, model: &ResolvedModel, images: ImageInput) -> Box<dyn ConversationEncoder> {
        self.counts.encoders.fetch_add(1, Ordering::SeqCst);
        Box::new(CountingEncoder {
            inner: self.inner.encoder(model, images),
            counts: self.counts.clone(),
        })
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        self.inner.decoder()
    }

    fn error(&self, response: &ErrorResponse<'_>) -> ProviderError {
        self.inner.error(response)
    }

    fn rate_limit(&self, headers: &dyn HeaderLookup) -> RateLimitHints {
        self.inner.rate_limit(headers)
    }
}

impl ConversationEncoder for CountingEncoder {
    fn set_prefix(&mut self, prompt: &AssembledPrompt, tools: &Arc<[ToolSpec]>) {
        self.inner.set_prefix(prompt, tools);
    }

    fn set_loaded(&mut self, _: &Arc<[Arc<ToolSpec>]>) {}

    fn push(&mut self, message: &Message) {
        self.counts.messages.fetch_add(1, Ordering::SeqCst);
        self.inner.push(message);
    }

    fn body(&mut self, settings: &RequestSettings) -> Result<EncodedBody, ProviderError> {
        self.inner.body(settings)
    }
}

struct Setup {
    provider: HttpProvider,
    counts: Arc<Counts>,
    transport: Scripted,
    next_id: Mutex<usize>,
}

impl Setup {
    fn new() -> Self {
        let counts = Arc::new(Counts::default());
        let scripts = std::iter::repeat_with(|| Script::new(200, HELLO)).take(500);
        let transport = Scripted::new(scripts);
        let wire = Arc::new(Counting {
            inner: chat(),
            counts: counts.clone(),
        });
        Self {
            provider: HttpProvider::new(
                wire,
                Endpoint::new("http://x"),
                Arc::new(transport.clone()),
            ),
            counts,
            transport,
            next_id: Mutex::new(0),
        }
    }

    fn message(&self) -> Message {
        let mut id = self.next_id.lock().unwrap();
        *id += 1;
        Message::User(UserMessage {
            id: format!("msg_{id}").as_str().into(),
            created_at: Timestamp::UNIX_EPOCH,
            parts: vec![UserPart::Text {
                text: format!("number {id}"),
            }],
        })
    }

    fn request(&self, messages: usize) -> ProviderRequest {
        request((0..messages).map(|_| self.message()))
    }

    /// Sends a request; returns how many encoders and messages that took.
    async fn send(&self, request: &ProviderRequest) -> (usize, usize) {
        let before = self.counted();
        events(&self.provider, request.clone()).await;
        let after = self.counted();
        (after.0 - before.0, after.1 - before.1)
    }

    fn counted(&self) -> (usize, usize) {
        (
            self.counts.encoders.load(Ordering::SeqCst),
            self.counts.messages.load(Ordering::SeqCst),
        )
    }
}

#[tokio::test]
async fn the_next_request_costs_its_new_messages() {
    let setup = Setup::new();
    let mut request = setup.request(300);
    assert_eq!(setup.send(&request).await, (1, 300));
    for _ in 0..5 {
        request.messages.push(setup.message());
        request.messages.push(setup.message());
        assert_eq!(setup.send(&request).await, (0, 2));
    }
    assert_eq!(setup.send(&request).await, (0, 0), "the same once more");
    let bodies = setup.transport.bodies();
    let fresh = Setup::new();
    fresh.send(&request).await;
    assert_eq!(bodies.last(), fresh.transport.bodies().last());
}

#[tokio::test]
async fn a_cut_is_encoded_anew() {
    let setup = Setup::new();
    let request = setup.request(10);
    setup.send(&request).await;
    let mut shorter = request.clone();
    shorter.messages = request.messages.iter().take(4).cloned().collect();
    assert_eq!(setup.send(&shorter).await, (1, 4));
    let mut summarized = request.clone();
    summarized.messages = std::iter::once(Arc::new(setup.message()))
        .chain(request.messages.iter().skip(5).cloned())
        .chain((0..6).map(|_| Arc::new(setup.message())))
        .collect();
    assert_eq!(setup.send(&summarized).await, (1, 12));
    assert_eq!(
        setup.send(&request).await,
        (0, 0),
        "the older one is still there"
    );
}

#[tokio::test]
async fn each_model_and_session_has_its_own() {
    let setup = Setup::new();
    let mut request = setup.request(3);
    setup.send(&request).await;
    let mut other_model = request.clone();
    other_model.model.model = "m-2".to_owned();
    assert_eq!(setup.send(&other_model).await, (1, 3));
    let mut other_session = request.clone();
    other_session.session_id = "ses_2".into();
    assert_eq!(setup.send(&other_session).await, (1, 3));
    request.messages.push(setup.message());
    assert_eq!(setup.send(&request).await, (0, 1), "the first goes on");
}

#[tokio::test]
async fn the_conversation_used_longest_ago_is_let_go() {
    let setup = Setup::new();
    let request = setup.request(1);
    let of_session = |number: usize| ProviderRequest {
        session_id: format!("ses_{number}").as_str().into(),
        ..request.clone()
    };
    for number in 0..KEPT_CONVERSATIONS {
        setup.send(&of_session(number)).await;
    }
    assert_eq!(setup.send(&of_session(0)).await, (0, 0), "all are kept");
    setup.send(&of_session(KEPT_CONVERSATIONS)).await;
    assert_eq!(
        setup.send(&of_session(0)).await,
        (0, 0),
        "it was used since"
    );
    assert_eq!(setup.send(&of_session(1)).await, (1, 1), "it was let go");
}
