//! What tracing is told.

use super::{hello, tokens};
use crate::support::answer;
use halter_protocol::ProviderErrorKind;
use halter_providers::layers::Traced;
use halter_providers::{FakeProvider, Provider as _, Reply};
use std::io::Write;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

impl Log {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test]
async fn a_call_is_told_without_its_content() {
    let (log, _guard) = Log::start();
    let reply = Reply::new()
        .text("the secret plan")
        .usage(tokens(12, 3))
        .warning("careful");
    let provider = Traced::new(Arc::new(FakeProvider::scripted([reply])));
    answer(&provider, hello()).await;
    let text = log.text();
    for told in [
        "model_call{provider=fake model=m-1 session=ses_1 turn=turn_1 messages=1}",
        "the model answered",
        "stop_reason=end_turn",
        "uncached_input=12",
        "output=3",
    ] {
        assert!(text.contains(told), "{told} is not in {text}");
    }
    assert!(
        !text.contains("secret plan") && !text.contains("hello"),
        "{text}"
    );
}

#[tokio::test]
async fn failures_and_abandoned_calls_are_told() {
    let (log, _guard) = Log::start();
    let failing = Reply::error(ProviderErrorKind::RateLimited, "slow down");
    let cut = Reply::new().text("a").text("b");
    let provider = Traced::new(Arc::new(FakeProvider::scripted([failing, cut])));
    answer(&provider, hello()).await;
    assert!(log.text().contains("kind=rate_limited"), "{}", log.text());
    let stream = provider
        .stream(hello(), CancellationToken::new())
        .await
        .unwrap();
    drop(stream);
    assert!(
        log.text().contains("the model call was abandoned"),
        "{}",
        log.text()
    );
}
