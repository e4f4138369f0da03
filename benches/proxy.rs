//! What passes the filtering proxy in a second, against the same bytes over
//! loopback directly.
//!
//! Bytes go through a tunnel, as those of HTTPS do: one thread sends, one
//! receives, and the proxy is a third.

use anyhow::Context;
use halter_bench::measure::median;
use halter_bench::report::{Goal, Ratio};
use halter_policy::{NetworkPolicy, NetworkSwitch, PolicySettings};
use halter_tools::network::{Connector, FilteringProxy};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

/// Pairs of runs; the medians count.
const ROUNDS: usize = 7;

/// Bytes of one run, and of one write.
const TOTAL: usize = 1 << 30;
const PIECE: usize = 256 * 1024;

fn main() -> anyhow::Result<()> {
    let (mut direct, mut proxied, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let floor = speed(false)?;
        let measured = speed(true)?;
        direct.push(floor);
        proxied.push(measured);
        ratios.push(100.0 * measured / floor);
    }
    Ratio {
        what: "a tunnel through the filtering proxy, against direct loopback",
        measured: median(proxied),
        floor: median(direct),
        unit: "MiB/s",
        percent: median(ratios),
        goal: Goal::AtLeast(50.0),
    }
    .print();
    Ok(())
}

/// MiB that arrive in a second.
fn speed(through_proxy: bool) -> anyhow::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = listener.local_addr()?;
    let receiver = std::thread::spawn(move || receive(&listener));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let proxy = through_proxy
        .then(|| runtime.block_on(async { start(server) }))
        .transpose()?;
    let mut stream = match &proxy {
        Some((_, address)) => tunnel(*address, server)?,
        None => TcpStream::connect(server)?,
    };
    let piece = vec![7; PIECE];
    let started = Instant::now();
    for _ in 0..TOTAL / PIECE {
        stream.write_all(&piece)?;
    }
    drop(stream);
    let received = receiver.join().ok().context("the receiver failed")??;
    let seconds = started.elapsed().as_secs_f64();
    anyhow::ensure!(received == TOTAL, "{received} bytes arrived");
    Ok(TOTAL as f64 / f64::from(1 << 20) / seconds)
}

fn receive(listener: &TcpListener) -> std::io::Result<usize> {
    let (mut stream, _) = listener.accept()?;
    let (mut buffer, mut total) = (vec![0; PIECE], 0);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(total),
            read => total += read,
        }
    }
}

fn start(server: SocketAddr) -> anyhow::Result<(FilteringProxy, SocketAddr)> {
    let policy = NetworkPolicy::bind(&PolicySettings {
        network: NetworkSwitch::On,
        allowed_loopback: vec![("127.0.0.1".into(), Some(server.port()))],
        ..PolicySettings::default()
    })?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let proxy = FilteringProxy::start(listener, Connector::new(policy))?;
    Ok((proxy, address))
}

fn tunnel(proxy: SocketAddr, server: SocketAddr) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(proxy)?;
    write!(stream, "CONNECT {server} HTTP/1.1\r\n\r\n")?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    anyhow::ensure!(head.starts_with(b"HTTP/1.1 200"), "the proxy refused");
    Ok(stream)
}
