//! A model service over HTTP.

use super::conversations::{Conversations, Encoded, Encoding, Unsaid, lock};
use super::response_stream::{Answering, answer};
use super::transport::{
    HttpMethod, HttpRequest, HttpResponse, ResponseHeaders, Transport, TransportError,
};
use crate::catalog::{Catalog, ListedModel, read_models};
use crate::layers::RateLimiter;
use crate::limits::{DOCUMENT_BYTES, ERROR_BODY_BYTES, ERROR_BODY_SECS};
use crate::provider::{
    EventStream, Provider, ProviderCapabilities, ProviderRequest, RequestPurpose,
};
use crate::secrets::Secrets;
use crate::wire::{
    ErrorResponse, ImageInput, OutputWay, RefusedSetting, RequestSettings, WantedOutput, Wire,
    address,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use halter_protocol::{
    ContentPart, Message, ProviderError, ProviderErrorKind, ResolvedModel, ToolMessage, ToolResult,
};
use secrecy::{ExposeSecret as _, SecretString};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Settings that may be left out one after the other for one request:
/// temperature, reasoning, a schema of the answer, images, and tools in the
/// midst of a conversation.
const REFUSALS: usize = 5;

/// Where a service is and what it is sent besides conversations.
#[derive(Clone, Default)]
pub struct Endpoint {
    /// The address before the wire's own path.
    pub base_url: String,
    /// The key, where the service wants one.
    pub api_key: Option<SecretString>,
    /// Further headers; one that the wire sends too replaces it.
    pub headers: Vec<(String, SecretString)>,
    /// The sampling temperature, if configured.
    pub temperature: Option<f32>,
    /// Further members of every body, as JSON text of an object without its
    /// braces: OpenRouter's routing.
    pub extra_members: Option<String>,
    /// Whether the service compacts conversations itself, where the wire has
    /// it; absent: if it is the vendor's own.
    pub native_compaction: Option<bool>,
    /// Whether the service takes tools in the midst of a conversation, where the
    /// wire has it; absent: if it is the vendor's own.
    pub native_tool_loading: Option<bool>,
}

impl Endpoint {
    /// An address without a key.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            ..Self::default()
        }
    }

    /// Adds the key.
    #[must_use]
    pub fn with_api_key(mut self, api_key: impl Into<SecretString>) -> Self {
        self.api_key = Some(api_key.into());
        self
    }

    fn secrets(&self) -> Secrets {
        let key = self.api_key.iter();
        let headers = self.headers.iter().map(|(_, value)| value);
        Secrets::new(
            key.chain(headers)
                .map(|secret| secret.expose_secret().to_owned()),
        )
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.is_some())
            .field("headers", &headers)
            .field("temperature", &self.temperature)
            .field("extra_members", &self.extra_members)
            .field("native_compaction", &self.native_compaction)
            .field("native_tool_loading", &self.native_tool_loading)
            .finish()
    }
}

/// A provider that speaks a wire over a transport.
///
/// It makes one attempt per request; [`layers`](crate::layers) add retries
/// and rate limits. Errors and warnings never hold the key or a configured
/// header. A temperature, a level of reasoning or images that a model is known
/// to refuse, or refuses, are left out with a warning.
pub struct HttpProvider {
    wire: Arc<dyn Wire>,
    transport: Arc<dyn Transport>,
    endpoint: Endpoint,
    secrets: Secrets,
    conversations: Conversations,
    catalog: Catalog,
    rates: Option<RateLimiter>,
}

impl HttpProvider {
    /// A provider of a service.
    pub fn new(wire: Arc<dyn Wire>, endpoint: Endpoint, transport: Arc<dyn Transport>) -> Self {
        Self {
            wire,
            transport,
            secrets: endpoint.secrets(),
            endpoint,
            conversations: Conversations::default(),
            catalog: Catalog::new(),
            rates: None,
        }
    }

    /// Shares what is known of models, and learns into it.
    #[must_use]
    pub fn with_catalog(mut self, catalog: Catalog) -> Self {
        self.catalog = catalog;
        self
    }

    /// Reports what responses say about rates to a limiter.
    #[must_use]
    pub fn with_rate_reports(mut self, rates: RateLimiter) -> Self {
        self.rates = Some(rates);
        self
    }

    /// The service's models, where the wire has a list of them.
    pub async fn models(
        &self,
        cancel: &CancellationToken,
    ) -> Result<Vec<ListedModel>, ProviderError> {
        let read = async {
            let mut models = self.list().await?;
            self.fill_in_windows(&mut models).await;
            Ok(models)
        };
        or_cancelled(cancel, read)
            .await
            .map_err(|error| self.secrets.scrub_error(error))
    }

    /// The list of models as the service has it.
    pub(super) async fn list(&self) -> Result<Vec<ListedModel>, ProviderError> {
        let Some(url) = self.wire.models_url(&self.endpoint.base_url) else {
            return Ok(Vec::new());
        };
        let request = HttpRequest {
            method: HttpMethod::Get,
            url,
            headers: self.headers(),
            body: Bytes::new(),
        };
        let response = self.transport.send(request).await?;
        if !is_success(response.status) {
            return Err(self.refusal(response).await.0);
        }
        let body = read_body(response.body, DOCUMENT_BYTES).await?;
        Ok(read_models(&body))
    }

    async fn answer(
        &self,
        mut request: ProviderRequest,
        cancel: CancellationToken,
    ) -> Result<EventStream, ProviderError> {
        if request.purpose == RequestPurpose::Compaction && !self.compacts(&request.model) {
            return Err(ProviderError::new(
                "the service is not known to compact conversations",
                ProviderErrorKind::Fatal,
            )
            .with_hint("set providers.<name>.native_compaction if it does"));
        }
        let mut learned = false;
        let ask = async {
            self.ask_for_window(&request.model).await;
            Ok(())
        };
        or_cancelled(&cancel, ask).await?;
        for refusals in 0..=REFUSALS {
            let dropped = self.drop_refused(&mut request);
            let schema = request.response_schema.as_ref();
            let asked = schema.map(|_| self.catalog.output_way(&request.model));
            let mut encoded = self.encode(&request, &dropped)?;
            if encoded.fresh || learned {
                let warnings = dropped
                    .iter()
                    .filter_map(|setting| warn(*setting, &request.model));
                add_new(&encoded.unsaid, warnings);
            }
            let post = self.post(&request, &mut encoded);
            let response = or_cancelled(&cancel, async { Ok(self.transport.send(post).await?) });
            let response = response.await?;
            self.report_rates(&request.model, &response.headers);
            if is_success(response.status) {
                return Ok(answer(Answering {
                    response,
                    wire: self.wire.clone(),
                    encoder: encoded.encoder,
                    unsaid: encoded.unsaid,
                    secrets: self.secrets.clone(),
                    catalog: self.catalog.clone(),
                    asked,
                    request,
                    cancel,
                }));
            }
            let (error, refused) =
                or_cancelled(&cancel, async { Ok(self.refusal(response).await) }).await?;
            // What is only tried must not fail the request, whatever the words.
            let tried = asked == Some(OutputWay::Both)
                && matches!(error.status, Some(400 | 422 | 500 | 501))
                && error.kind != ProviderErrorKind::ContextOverflow;
            let refused = refused.or(tried.then_some(RefusedSetting::Output));
            match refused.filter(|setting| self.sends(*setting, &request, &dropped)) {
                Some(setting) if refusals < REFUSALS => {
                    self.catalog.learn_refusal(&request.model, setting);
                    learned = true;
                }
                _ => {
                    self.learn(&request.model, &error);
                    return Err(error);
                }
            }
        }
        Err(ProviderError::new(
            "the service refuses every form of the request",
            ProviderErrorKind::Fatal,
        ))
    }

    /// Takes the settings that the model refuses out of the request.
    fn drop_refused(&self, request: &mut ProviderRequest) -> Vec<RefusedSetting> {
        let mut dropped = Vec::new();
        if !self.catalog.takes_reasoning(&request.model) {
            request.model.reasoning = None;
            dropped.push(RefusedSetting::Reasoning);
        }
        if self.endpoint.temperature.is_some() && !self.catalog.takes_temperature(&request.model) {
            dropped.push(RefusedSetting::Temperature);
        }
        if !self.catalog.takes_images(&request.model) {
            dropped.push(RefusedSetting::Images);
        }
        if !self.catalog.takes_late_tools(&request.model) {
            dropped.push(RefusedSetting::LateTools);
        }
        dropped
    }

    /// True if the setting was in the request, so that it helps to drop it.
    fn sends(
        &self,
        setting: RefusedSetting,
        request: &ProviderRequest,
        dropped: &[RefusedSetting],
    ) -> bool {
        !dropped.contains(&setting)
            && match setting {
                RefusedSetting::Temperature => self.endpoint.temperature.is_some(),
                RefusedSetting::Reasoning => request.model.reasoning.is_some(),
                RefusedSetting::Output => {
                    request.response_schema.is_some()
                        && self.catalog.output_way(&request.model) != OutputWay::Tool
                }
                RefusedSetting::Images => request.messages.iter().any(|message| has_image(message)),
                RefusedSetting::LateTools => self.loads_tools() && !request.loaded_tools.is_empty(),
            }
    }

    fn encode(
        &self,
        request: &ProviderRequest,
        dropped: &[RefusedSetting],
    ) -> Result<Encoded, ProviderError> {
        let takes_temperature = !dropped.contains(&RefusedSetting::Temperature);
        let settings = RequestSettings {
            temperature: self.endpoint.temperature.filter(|_| takes_temperature),
            extra_members: self.endpoint.extra_members.clone(),
            prompt_cache_key: Some(request.session_id.0.clone()),
            output: request.response_schema.clone().map(|schema| WantedOutput {
                schema,
                way: self.catalog.output_way(&request.model),
            }),
        };
        let images = match dropped.contains(&RefusedSetting::Images) {
            true => ImageInput::LeftOut,
            false => ImageInput::Taken,
        };
        let encoding = Encoding {
            wire: self.wire.as_ref(),
            images,
            compacts: self.compacts(&request.model),
            loads_tools: self.loads_tools() && !dropped.contains(&RefusedSetting::LateTools),
        };
        self.conversations.encode(encoding, request, &settings)
    }

    fn post(&self, request: &ProviderRequest, encoded: &mut Encoded) -> HttpRequest {
        let (base_url, model) = (&self.endpoint.base_url, &request.model);
        let mut headers = self.headers();
        if let Some((name, value)) = encoded.beta {
            match headers.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = format!("{known},{value}"),
                None => headers.push((name.to_owned(), value.to_owned())),
            }
        }
        HttpRequest {
            method: HttpMethod::Post,
            url: match request.purpose {
                RequestPurpose::Answer => self.wire.url(base_url, model),
                RequestPurpose::Compaction => self.wire.compaction_url(base_url, model),
            },
            headers,
            body: Bytes::from(std::mem::take(&mut encoded.json)),
        }
    }

    /// Whether the service takes tools in the midst of a conversation.
    fn loads_tools(&self) -> bool {
        let Some(host) = self.wire.loading_host() else {
            return false;
        };
        let is_vendor = || address::is_at(&self.endpoint.base_url, host);
        self.endpoint.native_tool_loading.unwrap_or_else(is_vendor)
    }

    /// Whether the service compacts conversations with a model.
    fn compacts(&self, model: &ResolvedModel) -> bool {
        let Some(host) = self.wire.compacting_host() else {
            return false;
        };
        let is_vendor = || address::is_at(&self.endpoint.base_url, host);
        self.endpoint.native_compaction.unwrap_or_else(is_vendor) && self.wire.compacts(model)
    }

    pub(super) fn base_url(&self) -> &str {
        &self.endpoint.base_url
    }

    pub(super) fn wire(&self) -> &dyn Wire {
        self.wire.as_ref()
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(super) fn transport(&self) -> &dyn Transport {
        self.transport.as_ref()
    }

    pub(super) fn headers(&self) -> Vec<(String, String)> {
        let key = self.endpoint.api_key.as_ref();
        let mut headers = self.wire.headers(key.map(|key| key.expose_secret()));
        for (name, value) in &self.endpoint.headers {
            let name = name.to_ascii_lowercase();
            headers.retain(|(ours, _)| *ours != name);
            headers.push((name, value.expose_secret().to_owned()));
        }
        headers
    }

    fn report_rates(&self, model: &ResolvedModel, headers: &ResponseHeaders) {
        if let Some(rates) = &self.rates {
            rates.observe(model, self.wire.rate_limit(headers));
        }
    }

    /// Keeps what an error says of limits.
    fn learn(&self, model: &ResolvedModel, error: &ProviderError) {
        if error.kind == ProviderErrorKind::ContextOverflow {
            self.catalog.learn_from_overflow(model, &error.message);
        }
        if let (Some(rates), ProviderErrorKind::RateLimited, Some(wait)) =
            (&self.rates, &error.kind, error.backoff_hint)
        {
            rates.hold(model, wait);
        }
    }

    /// What a response that is no success means, and the setting it refuses.
    async fn refusal(&self, response: HttpResponse) -> (ProviderError, Option<RefusedSetting>) {
        let deadline = Duration::from_secs(ERROR_BODY_SECS);
        // The status alone says enough to go on with.
        let body = tokio::time::timeout(deadline, read_prefix(response.body))
            .await
            .unwrap_or_default();
        let response = ErrorResponse {
            status: response.status,
            headers: &response.headers,
            body: &body,
        };
        (
            self.wire.error(&response),
            self.wire.refused_setting(&response),
        )
    }
}

impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider")
            .field("wire", &self.wire.name())
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Provider for HttpProvider {
    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::new()
            .with_structured_output()
            .with_media(self.wire.media_limits())
    }

    fn model_capabilities(&self, model: &ResolvedModel) -> ProviderCapabilities {
        let mut capabilities = self.capabilities();
        if !self.catalog.takes_images(model) {
            let types = &mut capabilities.media.media_types;
            types.retain(|known| !known.starts_with("image/"));
        }
        let facts = self.catalog.facts(model);
        capabilities.context_window = Some(facts.context_window.value);
        capabilities.output_limit = facts.output_limit.map(|known| known.value);
        capabilities.native_compaction = self.compacts(model);
        capabilities.prices = facts.prices.map(|known| known.value);
        capabilities
    }

    async fn stream(
        &self,
        request: ProviderRequest,
        cancel: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        let answer = self.answer(request, cancel).await;
        answer.map_err(|error| self.secrets.scrub_error(error).into())
    }
}

pub(super) fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// True if the user or a tool showed an image.
fn has_image(message: &Message) -> bool {
    let parts: &[ContentPart] = match message {
        Message::User(user) => &user.parts,
        Message::Tool(ToolMessage { content, .. }) => match content.as_ref() {
            ToolResult::Parts { parts } => parts,
            _ => &[],
        },
        _ => &[],
    };
    let is_image = |part: &ContentPart| matches!(part, ContentPart::Image { .. });
    parts.iter().any(is_image)
}

/// Adds warnings that are not there yet.
fn add_new(unsaid: &Unsaid, warnings: impl Iterator<Item = String>) {
    let mut unsaid = lock(unsaid);
    for warning in warnings {
        if !unsaid.contains(&warning) {
            unsaid.push(warning);
        }
    }
}

/// What the user is told; nothing of a schema and of tools, which are sent in
/// another way instead, and nothing of images, each of which has its own warning.
fn warn(setting: RefusedSetting, model: &ResolvedModel) -> Option<String> {
    let (what, key) = match setting {
        RefusedSetting::Output | RefusedSetting::Images | RefusedSetting::LateTools => return None,
        RefusedSetting::Temperature => ("temperature", "providers.<name>.temperature"),
        RefusedSetting::Reasoning => ("level of reasoning", "models.<role>.reasoning"),
    };
    Some(format!(
        "the model '{}' of provider '{}' does not take the configured {what}; \
         it was left out (set by {key})",
        model.model, model.provider
    ))
}

/// The result, unless the caller cancels first.
pub(super) async fn or_cancelled<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ProviderError::cancelled()),
        result = work => result,
    }
}

/// As much of an error's body as is kept; what breaks is what there is.
async fn read_prefix(mut body: super::BodyStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(piece)) = body.next().await {
        let room = ERROR_BODY_BYTES - bytes.len();
        bytes.extend(piece.iter().take(room));
        if bytes.len() == ERROR_BODY_BYTES {
            break;
        }
    }
    bytes
}

pub(super) async fn read_body(
    mut body: super::BodyStream,
    limit: usize,
) -> Result<Vec<u8>, ProviderError> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes
            .extend_from_slice(&piece.map_err(|error: TransportError| ProviderError::from(error))?);
        if bytes.len() > limit {
            return Err(ProviderError::new(
                format!("the server sent a document of more than {limit} bytes"),
                ProviderErrorKind::Fatal,
            ));
        }
    }
    Ok(bytes)
}
