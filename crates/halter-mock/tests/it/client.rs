//! A plain HTTP/1.1 client and an event-stream reader, as simple as can be.

use halter_mock::MockService;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How a response's body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// As HTTP says it must.
    Whole,
    /// The connection closed before that.
    Closed,
    /// The connection was reset.
    Reset,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub ended: Ended,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The events of the stream: name and data.
    pub fn events(&self) -> Vec<(Option<String>, String)> {
        events(&self.text())
    }

    /// The data of the events, parsed; `[DONE]` is left out.
    pub fn data(&self) -> Vec<Value> {
        self.events()
            .into_iter()
            .filter(|(_, data)| data != "[DONE]")
            .map(|(_, data)| {
                serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {data}"))
            })
            .collect()
    }
}

/// An event stream, read as its specification says.
pub fn events(text: &str) -> Vec<(Option<String>, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut found = Vec::new();
    let mut name = None;
    let mut data: Vec<String> = Vec::new();
    for line in text.split('\n') {
        if line.is_empty() {
            if !data.is_empty() {
                found.push((name.take(), data.join("\n")));
            }
            data.clear();
            name = None;
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = Some(value.to_owned()),
            "data" => data.push(value.to_owned()),
            _ => {}
        }
    }
    found
}

/// A connection with a request sent on it.
pub struct Open {
    stream: TcpStream,
    pub received: Vec<u8>,
}

pub async fn open(
    service: &MockService,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Open {
    let mut stream = TcpStream::connect(service.address()).await.unwrap();
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: mock\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that refuses a large body may stop reading it.
    let _refused = stream.write_all(body).await;
    Open {
        stream,
        received: Vec::new(),
    }
}

impl Open {
    /// Reads until this text has arrived.
    pub async fn read_until(&mut self, text: &str) {
        let arrives = async {
            while !self
                .received
                .windows(text.len())
                .any(|part| part == text.as_bytes())
            {
                let mut buffer = [0; 4096];
                let count = self.stream.read(&mut buffer).await.unwrap();
                assert!(
                    count > 0,
                    "ended: {}",
                    String::from_utf8_lossy(&self.received)
                );
                self.received.extend_from_slice(&buffer[..count]);
            }
        };
        tokio::time::timeout(PATIENCE, arrives).await.unwrap();
    }

    /// Reads to the end.
    pub async fn finish(mut self) -> Reply {
        let ended = tokio::time::timeout(PATIENCE, self.stream.read_to_end(&mut self.received))
            .await
            .expect("the response ends");
        let reset = ended.is_err();
        let split = self
            .received
            .windows(4)
            .position(|part| part == b"\r\n\r\n")
            .unwrap_or_else(|| panic!("no head: {:?} {ended:?}", self.received));
        let head = String::from_utf8(self.received[..split].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines
            .next()
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        let headers: BTreeMap<_, _> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let raw = &self.received[split + 4..];
        let (body, whole) = if headers
            .get("transfer-encoding")
            .is_some_and(|kind| kind == "chunked")
        {
            dechunked(raw)
        } else {
            let length = headers
                .get("content-length")
                .map(|length| length.parse::<usize>().unwrap());
            (
                raw.to_vec(),
                length.is_none_or(|length| length == raw.len()),
            )
        };
        let ended = match (reset, whole) {
            (true, _) => Ended::Reset,
            (false, true) => Ended::Whole,
            (false, false) => Ended::Closed,
        };
        Reply {
            status,
            headers,
            body,
            ended,
        }
    }
}

fn dechunked(mut raw: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = raw.windows(2).position(|part| part == b"\r\n") else {
            return (body, false);
        };
        let size = usize::from_str_radix(std::str::from_utf8(&raw[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        let start = line + 2;
        let end = (start + size).min(raw.len());
        body.extend_from_slice(&raw[start..end]);
        if end + 2 > raw.len() {
            return (body, false);
        }
        raw = &raw[end + 2..];
    }
}

pub async fn send(
    service: &MockService,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    open(service, method, path, headers, body)
        .await
        .finish()
        .await
}
