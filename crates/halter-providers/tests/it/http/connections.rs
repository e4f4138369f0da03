//! Connections between requests: how many stay open, for how long, and how one
//! that is dead is noticed.

use super::network;
use super::server::{Response, Server};
use futures::TryStreamExt as _;
use futures::future::join_all;
use halter_providers::http::{HttpMethod, HttpRequest, Transport};
use halter_providers::limits::{IDLE_CONNECTION_SECS, IDLE_CONNECTIONS, TCP_KEEPALIVE_SECS};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::advance;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// One request, its answer read to the end.
async fn get(transport: &dyn Transport, server: &Server) {
    let request = HttpRequest {
        method: HttpMethod::Get,
        url: server.url.clone(),
        headers: Vec::new(),
        body: Vec::new().into(),
    };
    let response = transport.send(request).await.unwrap();
    response.body.try_for_each(async |_| Ok(())).await.unwrap();
    // The connection goes back to the others in a task of its own.
    yield_now().await;
}

async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Requests that are all under way before the first is answered.
async fn side_by_side(transport: &dyn Transport, server: &Server, gates: &[Arc<Notify>]) {
    let already = server.requests().len();
    let requests = join_all(gates.iter().map(|_| get(transport, server)));
    let open = async {
        let all = already + gates.len();
        until("every request", || server.requests().len() == all).await;
        gates.iter().for_each(|gate| gate.notify_one());
    };
    tokio::join!(requests, open);
}

#[tokio::test]
async fn no_more_idle_connections_are_kept_than_the_limit() {
    let gates: Vec<Arc<Notify>> = (0..=IDLE_CONNECTIONS).map(|_| Arc::default()).collect();
    let response = |gate| Response::json(200, "{}").gate(gate);
    let server = Server::start(gates.iter().chain(&gates).map(response)).await;
    let transport = network();
    side_by_side(&*transport, &server, &gates).await;
    assert_eq!(server.connections(), IDLE_CONNECTIONS + 1);
    until("the close of one too many", || server.closed() > 0).await;

    side_by_side(&*transport, &server, &gates).await;
    assert_eq!(server.connections(), IDLE_CONNECTIONS + 2, "one is new");
    until("the close of one too many", || server.closed() > 1).await;
    assert_eq!(server.closed(), 2);
}

/// Time stands still until a test moves it, although there is a network to
/// wait for: a paused clock moves by itself only if no blocking task runs.
fn frozen() -> Sender<()> {
    let (ended, wait) = channel();
    tokio::task::spawn_blocking(move || wait.recv());
    ended
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept_up_to_the_limit_and_not_longer() {
    let _frozen = frozen();
    let limit = Duration::from_secs(IDLE_CONNECTION_SECS);
    let server = Server::start((0..3).map(|_| Response::json(200, "{}"))).await;
    let transport = network();
    get(&*transport, &server).await;
    advance(limit).await;
    get(&*transport, &server).await;
    assert_eq!(server.connections(), 1);
    advance(limit + Duration::from_millis(1)).await;
    get(&*transport, &server).await;
    assert_eq!(server.connections(), 2);
}

/// The kernel tells how long it waits before it probes the connection.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_silent_connection_is_probed_after_the_limit() {
    let server = Server::start([Response::json(200, "{}")]).await;
    let transport = network();
    get(&*transport, &server).await;
    let port: u16 = server.url.rsplit(':').next().unwrap().parse().unwrap();
    let mut wait = None;
    until("the wait for a probe", || {
        wait = probe_wait(port);
        wait.is_some()
    })
    .await;
    let (wait, limit) = (wait.unwrap(), Duration::from_secs(TCP_KEEPALIVE_SECS));
    // A loaded machine may look late.
    assert!(wait <= limit && wait > limit / 2, "{wait:?}");
}

/// The time until the probe of the connection to a port of this machine.
#[cfg(target_os = "linux")]
fn probe_wait(port: u16) -> Option<Duration> {
    const KEEPALIVE: &str = "02";
    /// Ticks of the clock of `/proc`, per second.
    const TICKS: u64 = 100;
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let remote = format!("0100007F:{port:04X}");
    let rows = table.lines().map(|row| row.split_whitespace().collect());
    let mut rows = rows.filter(|row: &Vec<&str>| row.get(2) == Some(&remote.as_str()));
    let (kind, ticks) = rows.next()?[5].split_once(':').unwrap();
    let ticks = u64::from_str_radix(ticks, 16).unwrap();
    (kind == KEEPALIVE).then(|| Duration::from_millis(ticks * 1_000 / TICKS))
}
