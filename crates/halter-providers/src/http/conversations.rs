//! Encoded conversations, kept between requests so that the next one costs
//! only what is new in it.

use super::call_tool::ToldTools;
use crate::limits::{KEPT_CONVERSATION_BYTES, KEPT_CONVERSATIONS};
use crate::provider::{ProviderRequest, RequestPurpose};
use crate::wire::{ConversationEncoder, EncodedBody, ImageInput, RequestSettings, Wire};
use halter_protocol::{ProviderError, ResolvedModel, SessionId, Transcript};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The encoder of a conversation, shared with the answer that streams.
pub(super) type SharedEncoder = Arc<Mutex<Box<dyn ConversationEncoder>>>;

/// Warnings that no answer has told yet: a request that fails tells none.
pub(super) type Unsaid = Arc<Mutex<Vec<String>>>;

/// A request in the words of a wire.
pub(super) struct Encoded {
    pub json: Vec<u8>,
    pub unsaid: Unsaid,
    pub encoder: SharedEncoder,
    /// True if nothing of the conversation was encoded before.
    pub fresh: bool,
    /// A header that the service wants with it.
    pub beta: Option<(&'static str, &'static str)>,
}

/// How a conversation is encoded.
#[derive(Clone, Copy)]
pub(super) struct Encoding<'a> {
    pub wire: &'a dyn Wire,
    pub images: ImageInput,
    /// Whether the service takes its own compactions.
    pub compacts: bool,
    /// Whether the service takes tools in the midst of a conversation.
    pub loads_tools: bool,
}

/// The conversations of a provider, the one used last at the back.
#[derive(Default)]
pub(super) struct Conversations {
    kept: Mutex<VecDeque<Conversation>>,
}

/// What has been encoded of a conversation.
struct Conversation {
    session: SessionId,
    model: ResolvedModel,
    images: ImageInput,
    loads_tools: bool,
    told_tools: ToldTools,
    encoder: SharedEncoder,
    unsaid: Unsaid,
    messages: Transcript,
    bytes: usize,
}

impl Conversations {
    /// Encodes a request, as far as it was not encoded before.
    pub fn encode(
        &self,
        encoding: Encoding<'_>,
        request: &ProviderRequest,
        settings: &RequestSettings,
    ) -> Result<Encoded, ProviderError> {
        let known = self.take(request, encoding);
        let fresh = known.is_none();
        let mut conversation = known.unwrap_or_else(|| Conversation::new(encoding, request));
        let body = conversation.grow(request, settings)?;
        let encoder = conversation.encoder.clone();
        let unsaid = conversation.unsaid.clone();
        self.keep(conversation);
        lock(&unsaid).extend(body.warnings);
        Ok(Encoded {
            json: body.json,
            unsaid,
            encoder,
            fresh,
            beta: body.beta,
        })
    }

    /// The longest conversation that the request goes on with, no longer kept:
    /// two requests of one conversation at a time do not share it.
    fn take(&self, request: &ProviderRequest, encoding: Encoding<'_>) -> Option<Conversation> {
        let mut kept = lock(&self.kept);
        let (place, _) = kept
            .iter()
            .enumerate()
            .filter(|(_, known)| known.is_encoded_so(encoding) && known.goes_on_with(request))
            .max_by_key(|(_, known)| known.messages.len())?;
        kept.remove(place)
    }

    fn keep(&self, conversation: Conversation) {
        let mut kept = lock(&self.kept);
        kept.push_back(conversation);
        let mut bytes: usize = kept.iter().map(|known| known.bytes).sum();
        while kept.len() > KEPT_CONVERSATIONS || (bytes > KEPT_CONVERSATION_BYTES && kept.len() > 1)
        {
            match kept.pop_front() {
                Some(oldest) => bytes -= oldest.bytes,
                None => return,
            }
        }
    }
}

/// A lock that a panic elsewhere does not spoil.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Conversation {
    fn new(encoding: Encoding<'_>, request: &ProviderRequest) -> Self {
        let mut encoder = encoding.wire.encoder(&request.model, encoding.images);
        if encoding.compacts {
            encoder.allow_native_compaction();
        }
        if encoding.loads_tools {
            encoder.load_natively();
        }
        Self {
            session: request.session_id.clone(),
            model: request.model.clone(),
            encoder: Arc::new(Mutex::new(encoder)),
            images: encoding.images,
            loads_tools: encoding.loads_tools,
            told_tools: ToldTools::default(),
            unsaid: Unsaid::default(),
            messages: Transcript::default(),
            bytes: 0,
        }
    }

    fn is_encoded_so(&self, encoding: Encoding<'_>) -> bool {
        self.images == encoding.images && self.loads_tools == encoding.loads_tools
    }

    fn goes_on_with(&self, request: &ProviderRequest) -> bool {
        self.session == request.session_id
            && self.model == request.model
            && request.messages.starts_with(&self.messages)
    }

    fn grow(
        &mut self,
        request: &ProviderRequest,
        settings: &RequestSettings,
    ) -> Result<EncodedBody, ProviderError> {
        let mut encoder = lock(&self.encoder);
        let mut new = request.messages.since(self.messages.len());
        if self.loads_tools {
            encoder.set_prefix(&request.prompt, &request.tools);
            encoder.set_loaded(&request.loaded_tools);
        } else {
            let told = &mut self.told_tools;
            encoder.set_prefix(&request.prompt, told.offered(&request.tools));
            encoder.set_loaded(&told.untold(&request.loaded_tools, &new));
            new = told.translate(&request.loaded_tools, new);
        }
        for message in new {
            encoder.push(&message);
        }
        self.messages = request.messages.clone();
        let body = match request.purpose {
            RequestPurpose::Answer => encoder.body(settings)?,
            RequestPurpose::Compaction => encoder.compaction_body(settings)?,
        };
        self.bytes = body.json.len();
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_model::model;
    use crate::wire::{Decoder, ErrorResponse, HeaderLookup, RateLimitHints};
    use halter_protocol::{AssembledPrompt, Message, ProviderErrorKind, ToolSpec};

    /// A wire whose bodies have a size and nothing else.
    struct Sized(usize);

    impl Wire for Sized {
        fn name(&self) -> &'static str {
            "sized"
        }

        fn url(&self, _: &str, _: &ResolvedModel) -> String {
            String::new()
        }

        fn headers(&self, _: Option<&str>) -> Vec<(String, String)> {
            Vec::new()
        }

        fn encoder(&self, _: &ResolvedModel, _: ImageInput) -> Box<dyn ConversationEncoder> {
            Box::new(Self(self.0))
        }

        fn decoder(&self) -> Box<dyn Decoder> {
            Box::new(Self(0))
        }

        fn error(&self, _: &ErrorResponse<'_>) -> ProviderError {
            ProviderError::new("", ProviderErrorKind::Fatal)
        }

        fn rate_limit(&self, _: &dyn HeaderLookup) -> RateLimitHints {
            RateLimitHints::default()
        }
    }

    impl Decoder for Sized {
        fn event(
            &mut self,
            _: &crate::wire::SseEvent<'_>,
            _: &mut Vec<halter_protocol::StreamEvent>,
        ) -> Result<(), ProviderError> {
            Ok(())
        }

        fn end(&mut self, _: &mut Vec<halter_protocol::StreamEvent>) -> Result<(), ProviderError> {
            Ok(())
        }
    }

    impl ConversationEncoder for Sized {
        fn set_prefix(&mut self, _: &AssembledPrompt, _: &Arc<[ToolSpec]>) {}

        fn set_loaded(&mut self, _: &Arc<[Arc<ToolSpec>]>) {}

        fn push(&mut self, _: &Message) {}

        fn body(&mut self, _: &RequestSettings) -> Result<EncodedBody, ProviderError> {
            Ok(EncodedBody {
                // Pages that nobody touches cost nothing.
                json: vec![0; self.0],
                warnings: Vec::new(),
                beta: None,
            })
        }
    }

    fn fresh(conversations: &Conversations, session: &str, bytes: usize) -> bool {
        let request = ProviderRequest {
            session_id: session.into(),
            turn_id: "turn".into(),
            model: model("m"),
            prompt: AssembledPrompt::default(),
            messages: Transcript::default(),
            tools: Arc::from([]),
            response_schema: None,
            purpose: crate::provider::RequestPurpose::default(),
            attempts: None,
            loaded_tools: Arc::default(),
        };
        conversations
            .encode(
                Encoding {
                    wire: &Sized(bytes),
                    images: ImageInput::Taken,
                    compacts: false,
                    loads_tools: false,
                },
                &request,
                &RequestSettings::default(),
            )
            .unwrap()
            .fresh
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let conversations = Conversations::default();
        let half = KEPT_CONVERSATION_BYTES / 2;
        assert!(fresh(&conversations, "a", half));
        assert!(fresh(&conversations, "b", half));
        assert!(!fresh(&conversations, "a", half), "both fit");
        assert!(fresh(&conversations, "c", 1));
        assert!(fresh(&conversations, "b", half), "it was used longest ago");

        assert!(fresh(&conversations, "huge", KEPT_CONVERSATION_BYTES + 1));
        assert!(
            !fresh(&conversations, "huge", KEPT_CONVERSATION_BYTES + 1),
            "the newest is kept even if it alone is larger"
        );
    }
}
