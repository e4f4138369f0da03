//! Errors judged by somebody else than their wire.

use crate::provider::{
    EventStream, Provider, ProviderCapabilities, ProviderRequest, provider_error,
};
use crate::resilience::ProviderErrorClassifier;
use async_trait::async_trait;
use futures::StreamExt as _;
use halter_protocol::{ProviderError, ResolvedModel};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A provider whose errors have the kinds that a classifier gives them. A
/// request that was cancelled stays cancelled.
pub struct Classified {
    inner: Arc<dyn Provider>,
    classifier: Arc<dyn ProviderErrorClassifier>,
}

impl Classified {
    /// Has `classifier` judge the errors of `inner`.
    pub fn new(inner: Arc<dyn Provider>, classifier: Arc<dyn ProviderErrorClassifier>) -> Self {
        Self { inner, classifier }
    }
}

fn judged(classifier: &dyn ProviderErrorClassifier, mut error: ProviderError) -> ProviderError {
    if !error.is_cancelled() {
        error.kind = classifier.classify(&error);
    }
    error
}

#[async_trait]
impl Provider for Classified {
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
        match self.inner.stream(request, cancel).await {
            Ok(stream) => {
                let classifier = self.classifier.clone();
                Ok(Box::pin(stream.map(move |item| {
                    item.map_err(|error| judged(classifier.as_ref(), error))
                })))
            }
            Err(error) => Err(judged(self.classifier.as_ref(), provider_error(error)).into()),
        }
    }
}
