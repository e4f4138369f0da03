//! A client written from the seed's text alone: it knows the methods, the
//! shapes and the transports, and none of this crate's code.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};

use serde_json::{Value, json};

use crate::runtime::{Plan, Runtime, TEST_TIMEOUT, TOKEN};
use crate::schema;

/// One way to talk to a runtime.
pub enum Plain {
    Socket {
        reader: BufReader<UnixStream>,
        stream: UnixStream,
    },
    Http {
        address: SocketAddr,
    },
    Stdin {
        sink: Option<ChildStdin>,
        reader: BufReader<ChildStdout>,
    },
}

pub fn request(id: &str, method: &str, params: &Value) -> String {
    json!({"id": id, "method": method, "params": params}).to_string()
}

impl Plain {
    pub fn socket(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self::Socket { reader, stream }
    }

    pub fn stdin(runtime: &mut Runtime) -> Self {
        Self::Stdin {
            sink: runtime.child.stdin.take(),
            reader: BufReader::new(runtime.child.stdout.take().unwrap()),
        }
    }

    /// Sends a line. Not over HTTP, which has no lines of its own.
    pub fn send(&mut self, line: &str) {
        let line = format!("{line}\n");
        match self {
            Self::Socket { stream, .. } => stream.write_all(line.as_bytes()).unwrap(),
            Self::Stdin { sink, .. } => {
                let sink = sink.as_mut().unwrap();
                sink.write_all(line.as_bytes()).unwrap();
                sink.flush().unwrap();
            }
            Self::Http { .. } => panic!("HTTP has no lines"),
        }
    }

    /// The next line, as JSON; `None` at the end.
    pub fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self {
            Self::Socket { reader, .. } => reader.read_line(&mut line).unwrap(),
            Self::Stdin { reader, .. } => reader.read_line(&mut line).unwrap(),
            Self::Http { .. } => panic!("HTTP has no lines"),
        };
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}")))
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&mut self) {
        match self {
            Self::Socket { stream, .. } => stream.shutdown(Shutdown::Write).unwrap(),
            Self::Stdin { sink, .. } => drop(sink.take()),
            Self::Http { .. } => {}
        }
    }

    /// The reply to a request.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let line = request("1", method, &params);
        if let Self::Http { address } = self {
            let response = post(*address, &[&bearer()], line.as_bytes());
            return serde_json::from_str(&response.body)
                .unwrap_or_else(|_| panic!("{}", response.body));
        }
        self.send(&line);
        self.receive().unwrap()
    }

    /// The data of a reply.
    pub fn ok(&mut self, method: &str, params: Value) -> Value {
        schema::check_params(method, &params);
        let reply = self.call(method, params);
        assert_eq!(reply["ok"], true, "{reply}");
        assert_eq!(reply["id"], "1", "{reply}");
        schema::check_line(&reply);
        schema::check_data(method, &reply["data"]);
        reply["data"].clone()
    }

    /// The error code of a reply.
    pub fn refused(&mut self, method: &str, params: Value) -> String {
        let reply = self.call(method, params);
        assert_eq!(reply["ok"], false, "{reply}");
        schema::check_line(&reply);
        let message = reply["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty());
        reply["error"]["code"].as_str().unwrap().to_owned()
    }

    /// A new session.
    pub fn session(&mut self) -> String {
        let created = self.ok("session.create", json!({"shell": "/bin/bash"}));
        created["session_id"].as_str().unwrap().to_owned()
    }

    pub fn run(&mut self, session: &str, command: &str) -> Value {
        self.ok(
            "exec.run",
            json!({"session_id": session, "command": command}),
        )
    }
}

/// Runs a test over the socket, HTTP and standard input.
pub fn over_every_transport(test: impl Fn(&mut Plain, &mut Runtime)) {
    let mut runtime = Runtime::start();
    let mut socket = Plain::socket(&runtime.socket());
    test(&mut socket, &mut runtime);
    let mut runtime = Runtime::start();
    let address = runtime.http();
    test(&mut Plain::Http { address }, &mut runtime);
    let mut runtime = Runtime::with(&Plan {
        stdin: true,
        ..Plan::default()
    });
    let mut stdin = Plain::stdin(&mut runtime);
    test(&mut stdin, &mut runtime);
}

pub fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}")
}

/// What came back over HTTP.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// A connection on which nothing was said yet.
pub fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

/// Sends a POST as `curl -d` does and reads the response to its end.
pub fn post(address: SocketAddr, headers: &[&str], body: &[u8]) -> HttpResponse {
    let mut stream = tcp(address);
    stream
        .write_all(&post_bytes(&address.to_string(), headers, body))
        .unwrap();
    read_response(stream)
}

pub fn post_bytes(host: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let more: String = headers
        .iter()
        .map(|header| format!("{header}\r\n"))
        .collect();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\nConnection: close\r\n{more}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

pub fn read_response(mut stream: TcpStream) -> HttpResponse {
    let mut bytes = Vec::new();
    // A server that refuses early may reset what it has not read.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no response: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    if status == 102 {
        panic!("an interim response came first: {text}");
    }
    let body = match head.to_lowercase().contains("transfer-encoding: chunked") {
        true => dechunk(body),
        false => body.to_owned(),
    };
    HttpResponse {
        status,
        head: head.to_owned(),
        body,
    }
}

fn dechunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole
}
