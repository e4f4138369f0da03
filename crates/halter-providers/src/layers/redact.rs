//! Takes secrets out of what a provider says about itself.

use crate::provider::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use crate::secrets::Secrets;
use async_trait::async_trait;
use futures::StreamExt as _;
use halter_protocol::{ProviderError, ResolvedModel};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A provider whose errors and warnings never hold the given secrets.
///
/// [`HttpProvider`](crate::http::HttpProvider) does this itself for its own
/// key and headers; this is for providers that do not.
pub struct Redacted {
    inner: Arc<dyn Provider>,
    secrets: Secrets,
}

impl Redacted {
    /// Takes `secrets` out of what `inner` says.
    pub fn new(inner: Arc<dyn Provider>, secrets: Secrets) -> Self {
        Self { inner, secrets }
    }
}

#[async_trait]
impl Provider for Redacted {
    fn capabilities(&self) -> ProviderCapabilities {
        self.inner.capabilities()
    }

    fn model_capabilities(&self, model: &ResolvedModel) -> ProviderCapabilities {
        self.inner.model_capabilities(model)
    }

    async fn stream(
        &self,
        request: ProviderRequest,
        cancel: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        let secrets = self.secrets.clone();
        match self.inner.stream(request, cancel).await {
            Ok(stream) => Ok(Box::pin(stream.map(move |item| match item {
                Ok(event) => Ok(secrets.scrub_event(event)),
                Err(error) => Err(secrets.scrub_error(error)),
            }))),
            Err(error) => Err(match error.downcast::<ProviderError>() {
                Ok(error) => secrets.scrub_error(error).into(),
                // Only the text of an error of unknown type can be scrubbed.
                Err(error) => anyhow::anyhow!(secrets.scrub(&format!("{error:#}")).into_owned()),
            }),
        }
    }
}
