//! A daemon as a process, and the bare wire to it: no code is shared with the
//! client library, so that a mistake there cannot agree with itself.
#![allow(dead_code, reason = "each program uses a part of it")]

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Long enough for a machine that has other things to do.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The token of HTTP.
pub const TOKEN: &str = "t0ken-of-the-tests";

/// Numbers that are the same in every run.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A number from the environment, or the default.
pub fn count(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}

/// A daemon in a directory of its own.
#[derive(Debug)]
pub struct Daemon {
    directory: tempfile::TempDir,
    child: Mutex<Option<Child>>,
    variables: Mutex<Vec<(String, String)>>,
    /// Where it listens for HTTP; any port unless it is to keep its own.
    listen: Mutex<String>,
    /// What starts it, if that is another program.
    starter: Vec<String>,
}

impl Daemon {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// One with these variables besides the usual ones.
    pub fn start_with(variables: &[(&str, &str)]) -> Self {
        Self::start_by(&[], variables)
    }

    /// One that a program starts which becomes it.
    pub fn start_by(starter: &[&str], variables: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let daemon = Self {
            directory: tempfile::tempdir().unwrap(),
            child: Mutex::new(None),
            variables: Mutex::new(variables.iter().map(owned).collect()),
            listen: Mutex::new("127.0.0.1:0".to_owned()),
            starter: starter.iter().map(|&word| word.to_owned()).collect(),
        };
        daemon.spawn();
        daemon
    }

    /// Gives the next one that is spawned another variable.
    pub fn set(&self, name: &str, value: &str) {
        let variable = (name.to_owned(), value.to_owned());
        self.variables.lock().unwrap().push(variable);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("trl.sock")
    }

    /// Has the next one that is spawned listen where this one does.
    pub fn keep_http(&self) {
        let address = self.http().to_string();
        *self.listen.lock().unwrap() = address;
    }

    /// Where it listens for HTTP.
    pub fn http(&self) -> SocketAddr {
        let mut wire = Wire::reconnect(&self.socket());
        let described = wire.data("runtime.describe", &json!({}));
        let transports = described["transports"].as_array().unwrap();
        let http = transports.iter().find(|found| found["kind"] == "http");
        http.unwrap()["address"].as_str().unwrap().parse().unwrap()
    }

    /// Starts the daemon and waits until it answers.
    pub fn spawn(&self) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        let program = env!("CARGO_BIN_EXE_terminal-runtime").to_owned();
        let mut words = self.starter.iter().chain([&program]);
        let child = Command::new(words.next().unwrap())
            .args(words)
            .arg("--socket")
            .arg(self.socket())
            .args(["--http", &self.listen.lock().unwrap()])
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("TRL_DISCOVERY_DIR", self.path("found"))
            .env("TRL_STATE_DIR", self.path("state"))
            .env("TRL_SESSION_MAX_COMMANDS", "0")
            .env("TRL_AUTH_TOKEN", TOKEN)
            .envs(self.variables.lock().unwrap().iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        *self.child.lock().unwrap() = Some(child);
        until("the daemon answers", || {
            Wire::connect(&self.socket())
                .and_then(|mut wire| wire.call("system.ping", &json!({})))
                .is_ok()
        });
    }

    /// Ends it as nothing can prevent.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap().take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends it as a service manager would; nothing may be left.
    pub fn terminate(&self) {
        let mut child = self.child.lock().unwrap().take().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
        assert!(!self.socket().exists());
        assert!(!self.path("state").exists(), "the state directory stays");
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.lock().unwrap().as_ref().unwrap().id()
    }

    /// The holders of its sessions, and the first processes of their PID
    /// namespaces: their command lines name the holders' sockets.
    pub fn holders(&self) -> Vec<u32> {
        let place = format!("\0holder\0{}/", self.path("state").display());
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| {
                fs::read_to_string(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line.contains(&place))
            })
            .collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail = log.len().saturating_sub(4000);
            eprintln!("the daemon's log ends with: {}", &log[tail..]);
        }
        if let Some(mut child) = self.child.lock().unwrap().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Holders end by themselves when the names of their sockets are gone.
    }
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Where a daemon is reached.
#[derive(Clone)]
pub enum Address {
    Socket(PathBuf),
    Http(SocketAddr),
}

/// One connection; over HTTP, one after the other.
pub struct Wire {
    line: Line,
    last_id: u64,
}

enum Line {
    Socket {
        reader: BufReader<UnixStream>,
        writer: UnixStream,
    },
    Http {
        address: SocketAddr,
        response: Option<Response>,
    },
}

impl Wire {
    pub fn connect(path: &Path) -> io::Result<Self> {
        let writer = UnixStream::connect(path)?;
        writer.set_read_timeout(Some(TEST_TIMEOUT))?;
        let reader = BufReader::new(writer.try_clone()?);
        Ok(Self {
            line: Line::Socket { reader, writer },
            last_id: 0,
        })
    }

    /// Connects as soon as somebody listens.
    pub fn reconnect(path: &Path) -> Self {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            match Self::connect(path) {
                Ok(wire) => return wire,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn open(address: &Address) -> Self {
        match address {
            Address::Socket(path) => Self::reconnect(path),
            Address::Http(address) => Self {
                line: Line::Http {
                    address: *address,
                    response: None,
                },
                last_id: 0,
            },
        }
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, params: &Value) -> io::Result<String> {
        self.last_id += 1;
        let id = self.last_id.to_string();
        let request = json!({"id": id, "method": method, "params": params});
        match &mut self.line {
            Line::Socket { writer, .. } => writer.write_all(format!("{request}\n").as_bytes())?,
            Line::Http { address, response } => {
                if let Some(mut before) = response.take() {
                    assert_eq!(before.line()?, None, "there is more than was asked for");
                }
                *response = Some(Response::to(*address, &request.to_string())?);
            }
        }
        Ok(id)
    }

    /// The next line.
    pub fn line(&mut self) -> io::Result<Value> {
        let line = match &mut self.line {
            Line::Socket { reader, .. } => {
                let mut line = String::new();
                (reader.read_line(&mut line)? > 0).then_some(line)
            }
            Line::Http { response, .. } => match response {
                Some(response) => response.line()?,
                None => None,
            },
        };
        let line = line.ok_or(io::ErrorKind::UnexpectedEof)?;
        serde_json::from_str(&line).map_err(|_| io::ErrorKind::UnexpectedEof.into())
    }

    /// Sends a request and waits for its answer, which is the next line.
    pub fn call(&mut self, method: &str, params: &Value) -> io::Result<Value> {
        let id = self.send(method, params)?;
        let answer = self.line()?;
        assert_eq!(answer["id"], json!(id), "{answer}");
        Ok(answer)
    }

    /// Goes away as a client does that was killed.
    pub fn abort(self) {
        if let Line::Http {
            response: Some(response),
            ..
        } = self.line
        {
            let at_once = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(response.reader.get_ref(), at_once).unwrap();
        }
    }

    /// The data of an answer that must be fine.
    pub fn data(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.call(method, params);
        let mut answer = answer.unwrap_or_else(|error| panic!("{method} {params}: {error}"));
        assert_eq!(answer["ok"], json!(true), "{method} {params}: {answer}");
        answer["data"].take()
    }
}

/// What comes back for a request over HTTP, as it comes.
struct Response {
    reader: BufReader<TcpStream>,
    rest: Rest,
    /// What has come of the next line.
    begun: Vec<u8>,
}

/// What is still to come of a response.
enum Rest {
    Everything,
    Bytes(usize),
    Chunks,
    Nothing,
}

impl Response {
    fn to(address: SocketAddr, request: &str) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TEST_TIMEOUT))?;
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Length: {}\r\n\r\n",
            request.len()
        );
        stream.write_all(format!("{head}{request}").as_bytes())?;
        Ok(Self {
            reader: BufReader::new(stream),
            rest: Rest::Everything,
            begun: Vec::new(),
        })
    }

    /// The next line of the body; `None` at its end.
    fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.begun.iter().position(|&byte| byte == b'\n') {
                let line = self.begun.drain(..=end).collect();
                return Ok(Some(String::from_utf8(line).unwrap()));
            }
            match self.rest {
                Rest::Everything => self.rest = self.head()?,
                Rest::Bytes(count) => {
                    self.take(count)?;
                    self.rest = Rest::Nothing;
                }
                Rest::Chunks => {
                    let size = self.head_line()?;
                    let size = usize::from_str_radix(&size, 16).unwrap();
                    self.take(size)?;
                    assert_eq!(self.head_line()?, "");
                    if size == 0 {
                        self.rest = Rest::Nothing;
                    }
                }
                Rest::Nothing => {
                    assert!(self.begun.is_empty(), "the last line has no end");
                    return Ok(None);
                }
            }
        }
    }

    fn head(&mut self) -> io::Result<Rest> {
        let status = self.head_line()?;
        assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
        let mut rest = None;
        loop {
            let line = self.head_line()?.to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("content-length", count)) => rest = Some(Rest::Bytes(count.parse().unwrap())),
                Some(("transfer-encoding", "chunked")) => rest = Some(Rest::Chunks),
                Some(_) => {}
                None => return rest.ok_or_else(|| io::ErrorKind::InvalidData.into()),
            }
        }
    }

    fn head_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn take(&mut self, count: usize) -> io::Result<()> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes)?;
        self.begun.extend(bytes);
        Ok(())
    }
}
