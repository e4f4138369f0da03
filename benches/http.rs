//! What the harness adds to a step over a real wire, against the model service
//! of the tests.
//!
//! A step is a post of the whole conversation, an answer that streams, and one
//! `ls`. The floor is a bare loop with the same client that posts the same
//! bytes to the same service, reads each event of the answer as a value, and
//! spawns the same command.

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use halter::prelude::*;
use halter_bench::measure::{block_on, median, run_child, tell};
use halter_bench::report::{Claim, print, remark};
use halter_bench::server::{Server, announce};
use halter_bench::turn::one_turn;
use halter_mock::{ServeOptions, serve};
use halter_providers::http::{
    ClientSettings, Endpoint, HttpMethod, HttpProvider, HttpRequest, HttpResponse,
    NetworkTransport, Transport, TransportError,
};
use halter_providers::layers::{RateLimiter, RetryPolicy, standard};
use halter_providers::wire::Wire;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::responses::ResponsesWire;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Pairs of runs; the medians count.
const ROUNDS: usize = 5;

/// Sessions in one run, which would scatter too much alone.
const SESSIONS: usize = 6;

/// Steps of the shorter and of the longer session: the difference counts.
const STEPS: [usize; 2] = [10, 30];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--child", "serve"] => block_on(service()),
        ["--child", "harness", wire, address, steps, record] => {
            let record = (!record.is_empty()).then_some(Path::new(record));
            block_on(harness(wire, address, steps, record))
        }
        ["--child", "floor", recorded] => block_on(floor(Path::new(recorded))),
        _ => block_on(bench()),
    }
}

async fn bench() -> anyhow::Result<()> {
    let server = Server::start()?;
    for wire in ["anthropic", "openai"] {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            ratios.push(overhead(wire, server.address()).await?);
        }
        print(&Claim {
            what: &format!("{wire}: CPU of a step over the floor's, over HTTP"),
            value: median(ratios),
            limit: 2.0,
            unit: "x",
        });
    }
    remark("service, harness and floor ran as processes of their own, interleaved");
    Ok(())
}

/// CPU of the later steps over that of the floor.
async fn overhead(wire: &str, address: &str) -> anyhow::Result<f64> {
    let scratch = tempfile::tempdir()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for steps in STEPS {
        let file = scratch.path().join(steps.to_string()).display().to_string();
        let steps = steps.to_string();
        // Once to take down what is sent, once to measure.
        run_child::<bool>(&["harness", wire, address, &steps, &file]).await?;
        let harness = run_child::<bool>(&["harness", wire, address, &steps, ""]).await?;
        let floor = run_child::<bool>(&["floor", &file]).await?;
        ours.push(harness.cpu.as_secs_f64());
        theirs.push(floor.cpu.as_secs_f64());
    }
    let difference = |values: &[f64]| match values {
        [early, late] => late - early,
        _ => f64::NAN,
    };
    Ok(difference(&ours) / difference(&theirs))
}

/// Serves until its standard input ends. Prints its address first.
async fn service() -> anyhow::Result<()> {
    let mut options = ServeOptions::default();
    for steps in STEPS {
        let call = r#"{ parts = [{ type = "text", text = "I look." }, { type = "call", tool = "shell", input = { command = "ls -w {{step}}0" } }] },"#;
        let end = r#"{ parts = [{ type = "text", text = "Done." }] }"#;
        options.scenarios.add_toml(&format!(
            "[scenarios.ls{steps}]\ndescription = \"So many commands.\"\nsteps = [{}{end}]\n",
            call.repeat(steps)
        ))?;
    }
    let service = serve(options).await?;
    announce(&service.base_url())?;
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
        .await??;
    service.stop().await;
    Ok(())
}

/// A request, to be made again.
#[derive(Serialize, Deserialize)]
struct Noted {
    url: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// A transport that takes down what it carries, if it is to.
struct Recording {
    network: NetworkTransport,
    requests: Option<Mutex<Vec<Noted>>>,
}

#[async_trait]
impl Transport for Recording {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        if let Some(requests) = &self.requests {
            let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.push(Noted {
                url: request.url.clone(),
                headers: request.headers.clone(),
                body: String::from_utf8_lossy(&request.body).into_owned(),
            });
        }
        self.network.send(request).await
    }
}

/// Sessions of so many steps through the whole harness.
async fn harness(
    wire: &str,
    address: &str,
    steps: &str,
    record: Option<&Path>,
) -> anyhow::Result<()> {
    let spoken: Arc<dyn Wire> = match wire {
        "anthropic" => Arc::new(Anthropic::new()),
        _ => Arc::new(ResponsesWire),
    };
    let transport = Arc::new(Recording {
        network: NetworkTransport::new(ClientSettings::default()),
        requests: record.map(|_| Mutex::default()),
    });
    let endpoint = Endpoint::new(format!("{address}/{wire}")).with_api_key("sk-bench".to_owned());
    let http = HttpProvider::new(spoken, endpoint, transport.clone());
    let retry = RetryPolicy {
        max_attempts: 1,
        deadline: Duration::from_secs(60),
        base_backoff: Duration::from_millis(1),
        max_backoff: Duration::from_secs(1),
        jitter_percent: 0,
    };
    let provider = standard(Arc::new(http), None, retry, RateLimiter::new());
    let workspace = tempfile::tempdir()?;
    let harness = HalterBuilder::new()
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_provider(provider)
        .build()
        .await?;
    let sessions = if record.is_some() { 1 } else { SESSIONS };
    for _ in 0..sessions {
        let turn = Turn::user(format!("mock:ls{steps}"));
        one_turn(&harness, workspace.path(), turn).await?;
    }
    if let (Some(file), Some(requests)) = (record, &transport.requests) {
        let requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        std::fs::write(file, serde_json::to_vec(&*requests)?)?;
    }
    tell(&true)
}

/// The bare loop.
async fn floor(recorded: &Path) -> anyhow::Result<()> {
    let requests: Vec<Noted> = serde_json::from_slice(&std::fs::read(recorded)?)?;
    let workspace = tempfile::tempdir()?;
    let client = NetworkTransport::new(ClientSettings::default());
    for _ in 0..SESSIONS {
        for (step, noted) in requests.iter().enumerate() {
            let request = HttpRequest {
                method: HttpMethod::Post,
                url: noted.url.clone(),
                headers: noted.headers.clone(),
                body: Bytes::from(noted.body.clone()),
            };
            let mut answer = client.send(request).await?.body;
            let mut bytes = Vec::new();
            while let Some(piece) = answer.next().await {
                bytes.extend_from_slice(&piece?);
            }
            for line in bytes.split(|byte| *byte == b'\n') {
                if let Some(data) = line.strip_prefix(b"data: ") {
                    serde_json::from_slice::<serde_json::Value>(data)?;
                }
            }
            if step + 1 < requests.len() {
                list(workspace.path()).await?;
            }
        }
    }
    tell(&true)
}

async fn list(directory: &Path) -> anyhow::Result<()> {
    let output = tokio::process::Command::new("ls")
        .args(["-w", "80"])
        .current_dir(directory)
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .context("ls")?;
    anyhow::ensure!(output.status.success(), "ls");
    Ok(())
}
