//! Errors judged by a classifier.

use super::hello;
use crate::support::{answer, outline};
use halter_protocol::{ProviderError, ProviderErrorKind};
use halter_providers::layers::{Classified, Retry, RetryPolicy};
use halter_providers::resilience::{DefaultProviderErrorClassifier, ProviderErrorClassifier};
use halter_providers::{FakeProvider, Reply};
use std::sync::Arc;

/// Knows a gateway that says "warming up" where it means "in a moment".
struct Gateway;

impl ProviderErrorClassifier for Gateway {
    fn classify(&self, error: &ProviderError) -> ProviderErrorKind {
        match error.message.contains("warming up") {
            true => ProviderErrorKind::Transient,
            false => error.kind.clone(),
        }
    }
}

async fn attempts(classifier: impl ProviderErrorClassifier + 'static, reply: Reply) -> usize {
    let fake = Arc::new(FakeProvider::scripted([reply, Reply::new().text("ok")]));
    let judged = Arc::new(Classified::new(fake.clone(), Arc::new(classifier)));
    let retry = Retry::new(judged, RetryPolicy::default());
    let lines = outline(&answer(&retry, hello()).await);
    assert!(!lines.is_empty());
    fake.request_count()
}

#[tokio::test(start_paused = true)]
async fn a_classifier_decides_what_is_tried_again() {
    let fatal = |message| Reply::error(ProviderErrorKind::Fatal, message);
    assert_eq!(attempts(Gateway, fatal("warming up")).await, 2);
    assert_eq!(attempts(Gateway, fatal("no such model")).await, 1);
    let own = DefaultProviderErrorClassifier;
    assert_eq!(attempts(own, fatal("warming up")).await, 1);
    let transient = Reply::error(ProviderErrorKind::Transient, "busy");
    assert_eq!(attempts(own, transient).await, 2);
}

/// Who cancels is never taken for a fault of the service.
#[tokio::test(start_paused = true)]
async fn what_was_cancelled_stays_cancelled() {
    let cancelled = Reply::error(ProviderErrorKind::Cancelled, "warming up");
    assert_eq!(attempts(Gateway, cancelled).await, 1);
}
