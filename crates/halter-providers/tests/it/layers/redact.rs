//! Secrets stay out of what a provider says about itself.

use super::hello;
use crate::support::{answer, outline};
use async_trait::async_trait;
use halter_protocol::ProviderErrorKind;
use halter_providers::layers::Redacted;
use halter_providers::secrets::Secrets;
use halter_providers::{
    EventStream, FakeProvider, Provider, ProviderCapabilities, ProviderRequest, Reply,
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

fn redacted(inner: impl Provider + 'static) -> Redacted {
    Redacted::new(
        Arc::new(inner),
        Secrets::new(["hunter2-hunter2".to_owned()]),
    )
}

#[tokio::test]
async fn errors_and_warnings_lose_them_and_answers_do_not() {
    let reply = Reply::new()
        .warning("key hunter2-hunter2 expires")
        .text("hunter2-hunter2")
        .then_error(ProviderErrorKind::Fatal, "bad key hunter2-hunter2");
    let items = answer(&redacted(FakeProvider::scripted([reply])), hello()).await;
    let lines = outline(&items);
    assert!(
        lines.contains(&"warning key [redacted] expires".to_owned()),
        "{lines:?}"
    );
    assert!(lines.contains(&"hunter2-hunter2".to_owned()), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "error fatal: bad key [redacted]");
}

struct Failing;

#[async_trait]
impl Provider for Failing {
    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::new()
    }

    async fn stream(
        &self,
        _: ProviderRequest,
        _: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        anyhow::bail!("no route for hunter2-hunter2")
    }
}

#[tokio::test]
async fn errors_of_any_type_lose_them() {
    let opened = redacted(Failing)
        .stream(hello(), CancellationToken::new())
        .await;
    let Err(error) = opened else {
        panic!("it fails");
    };
    assert_eq!(
        format!("{error:?}").lines().next(),
        Some("no route for [redacted]")
    );
}
