//! Connections and the filtering proxy. Nothing here leaves loopback: names
//! come from a resolver of the test's own.

use async_trait::async_trait;
use halter_policy::{Destination, NetworkPolicy, NetworkSwitch};
use halter_tools::PolicySettings;
use halter_tools::limits::{
    CONNECT_ADDRESSES, CONNECT_TIME, PROXY_CONNECTIONS, PROXY_COPY_BYTES, PROXY_HEAD_BYTES,
    PROXY_HEAD_TIME, PROXY_IDLE_TIME, RESOLVE_TIME,
};
use halter_tools::network::{Connector, FilteringProxy, HostResolver, proxy_environment};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// Answers for names, one after the other; the last one stays.
#[derive(Debug, Default)]
struct Names {
    answers: Mutex<HashMap<&'static str, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    fn with(mut self, name: &'static str, answers: &[&[&str]]) -> Self {
        let parse = |it: &&str| it.parse().unwrap();
        let answers = answers.iter().map(|it| it.iter().map(parse).collect());
        self.answers
            .get_mut()
            .unwrap()
            .insert(name, answers.collect());
        self
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl HostResolver for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if name == "silent.test" {
            std::future::pending::<()>().await;
        }
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let Some(answers) = answers.get_mut(name) else {
            return Err(io::Error::other("no such name"));
        };
        match answers.len() {
            1 => Ok(answers[0].clone()),
            _ => Ok(answers.remove(0)),
        }
    }
}

fn policy(hosts: &[&str], loopback: &[(&str, Option<u16>)]) -> NetworkPolicy {
    let settings = PolicySettings {
        network: NetworkSwitch::On,
        allowed_hosts: hosts.iter().map(|&it| it.to_owned()).collect(),
        allowed_loopback: loopback
            .iter()
            .map(|(host, port)| ((*host).to_owned(), *port))
            .collect(),
        ..PolicySettings::default()
    };
    NetworkPolicy::bind(&settings).unwrap()
}

fn to(text: &str) -> Destination {
    Destination::parse(text).unwrap()
}

/// A server that answers each connection by what it was sent first.
async fn mirror() -> (SocketAddr, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.windows(4).any(|it| it == b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", head.len());
                stream.write_all(answer.as_bytes()).await.ok();
                stream.write_all(&head).await.ok();
                // What follows is sent back as it is.
                let mut buffer = vec![0; PROXY_COPY_BYTES];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, AbortOnDropHandle::new(task))
}

struct Proxied {
    proxy: FilteringProxy,
    address: SocketAddr,
    /// Where the allowed host is.
    mirror: SocketAddr,
    names: Arc<Names>,
    _mirror: AbortOnDropHandle<()>,
}

/// A proxy by which `files.test` may be reached, on one port.
async fn proxied() -> Proxied {
    let (mirror, task) = mirror().await;
    let names = Names::default()
        .with("files.test", &[&["127.0.0.1"]])
        .with("private.test", &[&["10.1.2.3"]])
        .with("metadata.test", &[&["169.254.169.254"]])
        .with("other.test", &[&["127.0.0.1"]])
        .with("rebinding.test", &[&["127.0.0.1"], &["127.0.0.9"]])
        .with("both.test", &[&["93.184.216.34", "10.0.0.1"]]);
    let names = Arc::new(names);
    let allowed = [
        "files.test",
        "private.test",
        "metadata.test",
        "rebinding.test",
        "both.test",
        "silent.test",
    ];
    let policy = policy(&allowed, &[("127.0.0.1", Some(mirror.port()))]);
    let resolver = Arc::clone(&names) as Arc<dyn HostResolver>;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connector = Connector::with_resolver(policy, resolver);
    Proxied {
        proxy: FilteringProxy::start(listener, connector).unwrap(),
        address,
        mirror,
        names,
        _mirror: task,
    }
}

impl Proxied {
    async fn open(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads until the proxy closes.
    async fn answer(&self, request: &str) -> String {
        let mut stream = self.open().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap_or_default();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Opens a tunnel to the allowed host.
    async fn tunnel(&self) -> TcpStream {
        let mut stream = self.open().await;
        let port = self.mirror.port();
        let request = format!("CONNECT files.test:{port} HTTP/1.1\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        stream
    }

    fn rules(&self) -> Vec<(String, &'static str)> {
        let taken = self.proxy.refusals().take();
        taken.into_iter().map(|it| (it.host, it.rule)).collect()
    }
}

/// Reads a head, byte by byte: what follows is left.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn a_connection_is_made_to_the_address_that_was_checked() {
    let (server, _task) = mirror().await;
    let names = Arc::new(Names::default().with("a.test", &[&["127.0.0.1"], &["127.0.0.9"]]));
    let policy = policy(&["a.test"], &[("127.0.0.1", Some(server.port()))]);
    let connector = Connector::with_resolver(policy, Arc::clone(&names) as _);
    let destination = to(&format!("A.test.:{}", server.port()));
    let stream = connector.connect(&destination).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), server);
    assert_eq!(names.asked(), ["a.test"]);
    // The next time the name leads elsewhere, which nobody allowed.
    let error = connector.connect(&destination).await.unwrap_err();
    assert_eq!(error.code(), "network.loopback");
    assert!(error.to_string().contains("leads to 127.0.0.9"), "{error}");
}

#[tokio::test]
async fn no_name_leads_to_an_address_that_nobody_named() {
    let names = Names::default()
        .with("private.test", &[&["192.168.1.1"]])
        .with("mixed.test", &[&["8.8.8.8", "::1"]])
        .with("mapped.test", &[&["::ffff:10.0.0.1"]])
        .with("cloud.test", &[&["fd00:ec2::254"]])
        .with("zero.test", &[&["0.0.0.0"]])
        .with("nothing.test", &[&[]]);
    let connector = Connector::with_resolver(policy(&["*"], &[]), Arc::new(names));
    for (host, code) in [
        ("private.test:80", "network.private"),
        ("mixed.test:80", "network.loopback"),
        ("mapped.test:80", "network.private"),
        ("cloud.test:80", "network.metadata"),
        ("zero.test:80", "network.unspecified"),
        ("nothing.test:80", "host_not_found"),
        ("unknown.test:80", "host_not_found"),
        ("localhost:80", "network.loopback"),
        ("x.localhost:80", "network.loopback"),
        ("2130706433:80", "network.loopback"),
        ("[::ffff:7f00:1]:80", "network.loopback"),
        ("private.test", "no_port"),
    ] {
        let error = connector.connect(&to(host)).await.unwrap_err();
        assert_eq!(error.code(), code, "{host}");
    }
}

#[tokio::test]
async fn so_many_addresses_are_checked_and_tried_and_no_more() {
    // Nobody listens there any more.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let with_private_at = |place: usize| {
        let mut addresses = vec!["127.0.0.1"; place];
        addresses.push("10.0.0.1");
        let names = Names::default().with("many.test", &[&addresses]);
        let policy = policy(&["many.test"], &[("127.0.0.1", Some(port))]);
        Connector::with_resolver(policy, Arc::new(names))
    };
    for (place, code) in [
        (CONNECT_ADDRESSES - 1, "network.private"),
        (CONNECT_ADDRESSES, "host_unreachable"),
    ] {
        let many = to(&format!("many.test:{port}"));
        let error = with_private_at(place).connect(&many).await.unwrap_err();
        assert_eq!(error.code(), code, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_nobody_answers_for_is_given_up() {
    let names = Arc::new(Names::default());
    let connector = Connector::with_resolver(policy(&["silent.test"], &[]), names);
    let started = tokio::time::Instant::now();
    let error = connector.connect(&to("silent.test:80")).await.unwrap_err();
    assert_eq!(error.code(), "host_timed_out");
    assert_eq!(started.elapsed(), RESOLVE_TIME);
    assert!(CONNECT_TIME > RESOLVE_TIME);
}

#[tokio::test]
async fn a_redirect_is_another_connection() {
    let (server, _task) = mirror().await;
    let names = Names::default().with("a.test", &[&["127.0.0.1"]]);
    let policy = policy(&["a.test"], &[("127.0.0.1", Some(server.port()))]);
    let connector = Connector::with_resolver(policy, Arc::new(names));
    let first = to(&format!("a.test:{}", server.port()));
    connector.connect(&first).await.unwrap();
    for location in ["b.test:80", "169.254.169.254:80", "localhost:22"] {
        assert!(
            connector.connect(&to(location)).await.is_err(),
            "{location}"
        );
    }
}

#[tokio::test]
async fn plain_http_is_passed_on_without_what_concerns_the_proxy() {
    let proxied = proxied().await;
    let port = proxied.mirror.port();
    let answer = proxied
        .answer(&format!(
            "GET http://files.test:{port}/a?b=c HTTP/1.1\r\nHost: FILES.test:{port}\r\n\
             Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\n\
             X-Hop: 1\r\nX-Kept: 2\r\nConnection: close, X-Hop\r\n\r\n"
        ))
        .await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let body = body.to_lowercase();
    assert!(body.starts_with("get /a?b=c http/1.1\r\n"), "{body}");
    assert!(
        body.contains(&format!("host: files.test:{port}\r\n")),
        "{body}"
    );
    assert!(body.contains("x-kept: 2"), "{body}");
    for gone in ["proxy-", "x-hop", "c2vjcmv0"] {
        assert!(!body.contains(gone), "{gone}: {body}");
    }
}

#[tokio::test]
async fn a_refusal_names_the_host_the_rule_and_what_to_set() {
    let proxied = proxied().await;
    let port = proxied.mirror.port();
    for (host, rule, setting) in [
        (
            "other.test:443",
            "network.host",
            "policy.network.allowed_hosts",
        ),
        (
            "private.test:443",
            "network.private",
            "policy.network.allowed_hosts",
        ),
        (
            "metadata.test:80",
            "network.metadata",
            "policy.network.allowed_hosts",
        ),
        (
            "both.test:80",
            "network.private",
            "policy.network.allowed_hosts",
        ),
        (
            "files.test:1",
            "network.loopback",
            "policy.network.allowed_loopback",
        ),
        (
            "10.0.0.1:80",
            "network.private",
            "policy.network.allowed_hosts",
        ),
        (
            "0x7f.1:1",
            "network.loopback",
            "policy.network.allowed_loopback",
        ),
        (
            "[::1]:1",
            "network.loopback",
            "policy.network.allowed_loopback",
        ),
    ] {
        let shown = to(host).to_string();
        let connect = format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let get = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
        for request in [connect, get] {
            let answer = proxied.answer(&request).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{request} {answer}");
            for part in [format!("'{shown}'").as_str(), rule, setting] {
                assert!(answer.contains(part), "{part}: {answer}");
            }
        }
        // Twice the same is one refusal.
        assert_eq!(proxied.rules(), [(shown, rule)]);
    }
    let ok = format!("GET http://files.test:{port}/ HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(proxied.answer(&ok).await.starts_with("HTTP/1.1 200"));
    assert!(proxied.rules().is_empty());
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_checked_each_time() {
    let proxied = proxied().await;
    let port = proxied.mirror.port();
    let get = format!("GET http://rebinding.test:{port}/ HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(proxied.answer(&get).await.starts_with("HTTP/1.1 200"));
    assert!(proxied.answer(&get).await.starts_with("HTTP/1.1 403"));
    assert_eq!(proxied.names.asked(), ["rebinding.test", "rebinding.test"]);
}

#[tokio::test]
async fn requests_that_disagree_with_themselves_are_refused() {
    let proxied = proxied().await;
    let port = proxied.mirror.port();
    let ours = format!("files.test:{port}");
    for (request, status) in [
        (
            format!("GET http://{ours}/ HTTP/1.1\r\nHost: other.test\r\n\r\n"),
            "400",
        ),
        (
            format!("GET http://{ours}/ HTTP/1.1\r\nHost: {ours}\r\nHost: other.test\r\n\r\n"),
            "400",
        ),
        (
            format!("GET http://user:word@{ours}/ HTTP/1.1\r\n\r\n"),
            "400",
        ),
        (
            "GET / HTTP/1.1\r\nHost: files.test\r\n\r\n".to_owned(),
            "400",
        ),
        (format!("GET https://{ours}/ HTTP/1.1\r\n\r\n"), "400"),
        (format!("CONNECT user@{ours} HTTP/1.1\r\n\r\n"), "400"),
        ("CONNECT files.test HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("GET http://a%zz/ HTTP/1.1\r\n\r\n".to_owned(), "400"),
        (
            format!(
                "GET http://{ours}/{} HTTP/1.1\r\n\r\n",
                "x".repeat(PROXY_HEAD_BYTES)
            ),
            "4",
        ),
    ] {
        let answer = proxied.answer(&request).await;
        let start = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&start), "{:.80} {answer:.200}", request);
    }
    // A second request on the same connection is judged by itself.
    let both =
        format!("GET http://{ours}/ HTTP/1.1\r\n\r\nGET http://other.test/ HTTP/1.1\r\n\r\n");
    let answer = proxied.answer(&both).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("HTTP/1.1 403"), "{answer}");
    assert!(
        !answer.to_lowercase().contains("host: other.test"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways() {
    let proxied = proxied().await;
    let mut stream = proxied.tunnel().await;
    stream.write_all(b"HELLO\r\n\r\n").await.unwrap();
    read_head(&mut stream).await;
    assert_eq!(read_head(&mut stream).await, "HELLO\r\n\r\n");
    let sent: Vec<u8> = (0..20 * PROXY_COPY_BYTES + 7).map(|it| it as u8).collect();
    let (mut reader, mut writer) = stream.into_split();
    let expected = sent.clone();
    let writing = tokio::spawn(async move {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    let mut received = Vec::new();
    reader.read_to_end(&mut received).await.unwrap();
    writing.await.unwrap();
    assert!(received == expected, "{} bytes", received.len());
}

/// Speaks SOCKS5 and returns the reply code.
async fn socks(proxied: &Proxied, request: &[u8]) -> (u8, TcpStream) {
    let mut stream = proxied.open().await;
    stream.write_all(&[5, 2, 0, 2]).await.unwrap();
    let mut method = [0; 2];
    stream.read_exact(&mut method).await.unwrap();
    assert_eq!(method, [5, 0]);
    stream.write_all(request).await.unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).await.unwrap();
    (reply[1], stream)
}

fn by_name(command: u8, name: &str, port: u16) -> Vec<u8> {
    let mut request = vec![5, command, 0, 3, u8::try_from(name.len()).unwrap()];
    request.extend(name.as_bytes());
    request.extend(port.to_be_bytes());
    request
}

#[tokio::test]
async fn socks_takes_names_and_addresses_and_connects_only() {
    let proxied = proxied().await;
    let port = proxied.mirror.port();
    let [high, low] = port.to_be_bytes();
    let mut v6 = vec![5, 1, 0, 4];
    v6.extend([0; 10]);
    v6.extend([0xff, 0xff, 10, 0, 0, 1, 0, 80]);
    for (request, code) in [
        (by_name(1, "files.test", port), 0),
        (vec![5, 1, 0, 1, 127, 0, 0, 1, high, low], 0),
        (by_name(1, "other.test", port), 2),
        (by_name(1, "private.test", 80), 2),
        (vec![5, 1, 0, 1, 169, 254, 169, 254, 0, 80], 2),
        (v6, 2),
        (by_name(1, "no host", 80), 4),
        (by_name(1, "files.test", 0), 4),
        (by_name(2, "files.test", port), 7),
        (by_name(3, "files.test", port), 7),
        (vec![5, 1, 0, 9, 0, 0], 8),
    ] {
        let (found, _) = socks(&proxied, &request).await;
        assert_eq!(found, code, "{request:?}");
    }
    let rules: Vec<_> = proxied.rules().into_iter().map(|it| it.1).collect();
    let expected = [
        "network.host",
        "network.private",
        "network.metadata",
        "network.private",
    ];
    assert_eq!(rules, expected);
    let (_, mut stream) = socks(&proxied, &by_name(1, "files.test", port)).await;
    stream.write_all(b"HELLO\r\n\r\n").await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
    // Without a method of ours, and the version before.
    for greeting in [&[5_u8, 1, 2][..], &[4, 1, 0, 80]] {
        let mut stream = proxied.open().await;
        stream.write_all(greeting).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap_or_default();
        assert!(answer.is_empty() || answer == [5, 0xff] || answer.starts_with(b"HTTP/1.1 400"));
    }
}

/// The time it takes the proxy to end a connection that it was sent this on. The
/// clock stands still only while nothing but time can end it: it would run ahead
/// of a connection that is being made.
async fn closed_after(proxied: &Proxied, sent: &[u8]) -> Duration {
    let mut stream = proxied.open().await;
    stream.write_all(sent).await.unwrap();
    until_closed(stream).await
}

async fn until_closed(mut stream: TcpStream) -> Duration {
    tokio::time::pause();
    let started = tokio::time::Instant::now();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap_or_default();
    let after = started.elapsed();
    tokio::time::resume();
    after
}

#[tokio::test]
async fn who_says_nothing_or_half_of_it_is_given_up() {
    let proxied = proxied().await;
    for sent in [
        &b""[..],
        b"CONNECT files.te",
        b"\x05",
        b"\x05\x01\x00\x05\x01",
    ] {
        let after = closed_after(&proxied, sent).await;
        assert!(
            after <= 2 * PROXY_HEAD_TIME + Duration::from_secs(1),
            "{after:?}"
        );
    }
}

#[tokio::test]
async fn a_tunnel_on_which_nothing_moves_is_closed() {
    let proxied = proxied().await;
    let after = until_closed(proxied.tunnel().await).await;
    assert!(
        after <= PROXY_IDLE_TIME + Duration::from_secs(1),
        "{after:?}"
    );
}

#[tokio::test]
async fn a_flood_waits_for_its_turn() {
    let proxied = proxied().await;
    let mut held = Vec::new();
    for _ in 0..PROXY_CONNECTIONS {
        held.push(proxied.tunnel().await);
    }
    let port = proxied.mirror.port();
    let get = format!("GET http://files.test:{port}/ HTTP/1.1\r\nConnection: close\r\n\r\n");
    let waiting = proxied.answer(&get);
    tokio::pin!(waiting);
    let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    assert!(early.is_err(), "{early:?}");
    held.pop();
    assert!(waiting.await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_proxy_that_is_dropped_ends_its_connections() {
    let proxied = proxied().await;
    let mut stream = proxied.tunnel().await;
    let address = proxied.address;
    drop(proxied);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap_or_default();
    assert!(rest.is_empty());
    assert!(TcpStream::connect(address).await.is_err());
}

/// Runs a client with the variables that commands get.
async fn client(proxied: &Proxied, program: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("GIT_TERMINAL_PROMPT", "0");
    let SocketAddr::V4(address) = proxied.address else {
        panic!("{:?}", proxied.address);
    };
    let variables = proxy_environment(address, &policy(&[], &[]));
    command.envs(variables);
    let output = tokio::task::spawn_blocking(move || command.output());
    match output.await.unwrap() {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            Some((
                output.status.success(),
                String::from_utf8_lossy(&text).into_owned(),
            ))
        }
        Err(_) => {
            crate::support::skipped(program);
            None
        }
    }
}

#[tokio::test]
async fn real_clients_reach_what_is_allowed_and_nothing_else() {
    let proxied = proxied().await;
    let port = proxied.mirror.port();
    let ours = format!("http://files.test:{port}/");
    let socks = format!("socks5h://127.0.0.1:{}", proxied.address.port());
    let python = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).status)";
    for arguments in [
        vec!["-sS", "-f", &*ours],
        vec!["-sS", "-f", "--proxytunnel", &ours],
        vec!["-sS", "-f", "--proxy", &socks, &ours],
    ] {
        if let Some((success, text)) = client(&proxied, "curl", &arguments).await {
            assert!(
                success && text.contains("GET / HTTP/1.1"),
                "{arguments:?} {text}"
            );
        }
    }
    if let Some((success, text)) = client(&proxied, "python3", &["-c", python, &ours]).await {
        assert!(success && text.contains("200"), "{text}");
    }
    proxied.rules();
    let other = "https://other.test/";
    for (program, arguments) in [
        ("curl", vec!["-sS", "-f", other]),
        ("curl", vec!["-sS", "-f", "--proxy", &socks, other]),
        ("python3", vec!["-c", python, other]),
        ("git", vec!["ls-remote", other]),
    ] {
        let Some((success, text)) = client(&proxied, program, &arguments).await else {
            continue;
        };
        assert!(!success, "{program} {text}");
        let refused = ("other.test:443".to_owned(), "network.host");
        assert_eq!(proxied.rules(), [refused], "{program} {text}");
    }
}

#[test]
fn servers_of_a_command_are_reached_directly_unless_those_outside_may_be() {
    let value = |policy: &NetworkPolicy, name: &str| {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1080);
        let variables = proxy_environment(address, policy);
        variables.into_iter().find(|it| it.0 == name).map(|it| it.1)
    };
    let here = policy(&["a.test"], &[]);
    for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        assert_eq!(value(&here, name).as_deref(), Some("http://127.0.0.1:1080"));
    }
    let direct = value(&here, "no_proxy");
    assert_eq!(direct.as_deref(), Some("localhost,127.0.0.1,::1"));
    let outside = policy(&["a.test"], &[("localhost", Some(80))]);
    assert_eq!(value(&outside, "NO_PROXY").as_deref(), Some(""));
}
