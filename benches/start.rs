//! From the start of a process to its first request of a model.
//!
//! The harness reads a configuration file, opens a session and posts its first
//! request over a real wire. The floor is a minimal client with the same TLS
//! set-up that posts the same bytes. Both end when the server has answered.

use futures::StreamExt;
use halter::prelude::*;
use halter_bench::measure::{block_on, median, run_child, tell};
use halter_bench::report::{Claim, print};
use halter_bench::server::{Server, serve};
use halter_providers::http::{
    ClientSettings, HttpMethod, HttpRequest, NetworkTransport, Transport,
};

const ROUNDS: usize = 15;

/// About what a first request with the built-in tools takes, in bytes.
const BODY_BYTES: usize = 16 * 1024;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--child", "serve"] => serve(),
        ["--child", "harness", config] => tell(&block_on(harness(config))?),
        ["--child", "floor", address] => tell(&block_on(floor(address))?),
        _ => block_on(bench()),
    }
}

async fn bench() -> anyhow::Result<()> {
    let server = Server::start()?;
    let address = server.address();
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("halter.toml");
    let config = format!(
        "version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n\
         [providers.openai]\nbase_url = \"http://{address}\"\napi_key = \"none\"\n\
         [resilience.request_retry]\nmax_attempts = 1\n"
    );
    std::fs::write(&file, config)?;
    let file = file.display().to_string();
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let harness = run_child::<bool>(&["harness", &file]).await?;
        let floor = run_child::<bool>(&["floor", address]).await?;
        ratios.push(harness.cpu.as_secs_f64() / floor.cpu.as_secs_f64());
    }
    print(&Claim {
        what: "CPU from start to first model request, over a minimal client",
        value: median(ratios),
        limit: 3.0,
        unit: "x",
    });
    Ok(())
}

/// The server does not speak the wire: its answer ends the turn, after the
/// request has been made.
async fn harness(config: &str) -> anyhow::Result<bool> {
    let harness = Halter::from_config_file(config).await?;
    let session = harness.new_session(SessionInit::default()).await?;
    let mut events = session.submit_turn(Turn::user("hello")).await?;
    let mut asked = false;
    while let Some(event) = events.next().await {
        asked |= matches!(event?.payload, SessionEventPayload::TurnFailed { .. });
    }
    Ok(asked)
}

async fn floor(address: &str) -> anyhow::Result<bool> {
    let transport = NetworkTransport::new(ClientSettings::default());
    let response = transport
        .send(HttpRequest {
            method: HttpMethod::Post,
            url: format!("http://{address}/"),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: vec![b'x'; BODY_BYTES].into(),
        })
        .await?;
    let body: Vec<_> = response.body.collect().await;
    Ok(!body.is_empty())
}
