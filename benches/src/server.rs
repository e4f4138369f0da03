//! A model server on loopback that answers every post with the same bytes.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

const ANSWER: &str = r#"{"text":"I look.","tool":"shell","arguments":{"command":"ls"}}"#;

/// Serves until its standard input ends. Prints its address first.
pub fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    announce(&listener.local_addr()?)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(stream));
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// What a server says first, for [`Server::start`].
pub fn announce(address: &impl Display) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{address}")?;
    output.flush()?;
    Ok(())
}

fn answer_all(stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::with_capacity(1 << 20, stream);
    let mut body = Vec::new();
    loop {
        let Some(length) = read_head(&mut reader)? else {
            return Ok(());
        };
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
        write!(
            writer,
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{ANSWER}",
            ANSWER.len()
        )?;
    }
}

fn read_head(reader: &mut impl BufRead) -> anyhow::Result<Option<usize>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim();
        if line.is_empty() {
            return Ok(Some(length));
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse()?;
        }
    }
}

/// A server in a process of its own, so that its time is not ours.
pub struct Server {
    child: std::process::Child,
    address: String,
}

impl Server {
    /// Starts this executable again as a server, which first says where it
    /// listens and ends when its input does.
    pub fn start() -> anyhow::Result<Self> {
        let mut child = std::process::Command::new(std::env::current_exe()?)
            .args(["--child", "serve"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line.trim().to_owned();
        anyhow::ensure!(!address.is_empty(), "the server does not start");
        Ok(Self { child, address })
    }

    /// Where it listens, as it says.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
