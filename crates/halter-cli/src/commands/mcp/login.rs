//! Logging in to a server, with any browser, on this machine or another.

use super::{probe, with_hint};
use crate::args::JsonArg;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness;
use crate::limits::{LOGIN_HEAD_BYTES, LOGIN_HEAD_WAIT, LOGIN_WAIT};
use halter::{DescribedServer, HalterError, mcp_server_settings};
use halter_mcp::ServerSettings;
use halter_mcp::auth::{self, Login, LoginError, LoginRequest};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use url::Url;

/// The page that the browser is sent to in the end.
const PAGE: &str = "/callback";

/// Logs in to a server.
pub async fn login(
    context: &mut Context,
    name: &str,
    scopes: Vec<String>,
    arguments: JsonArg,
) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let (server, settings) = named(context, name).await?;
    let port = server.table.oauth.callback_port.unwrap_or(0);
    let port = u16::try_from(port).unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    let listener = listener.map_err(|error| {
        let message = format!("port {port} of this machine cannot be used: {error}");
        usage(
            message,
            "end what uses it, or name another `oauth.callback_port`",
        )
    })?;
    let local = listener.local_addr();
    let local = local.map_err(|error| HalterError::new("input_failed", error.to_string()))?;
    let origin = format!("http://{local}");
    let request = LoginRequest {
        redirect_uri: format!("{origin}{PAGE}"),
        scopes: words(&scopes),
        challenge: None,
    };
    let login = Login::begin(&settings, request).await.map_err(failure)?;
    match arguments.json {
        true => context
            .data
            .json(&json!({"name": name, "address": login.address().as_str()}))?,
        false => {
            context.messages.say("Open this page in a browser:");
            context.data.line(login.address().as_str())?;
            context.messages.say(
                "Then, if the browser cannot come back to this machine, paste the address that it \
                 was sent to, or the code in it, and press return:",
            );
        }
    }
    let answered = answered(context, &login, &listener, &origin);
    match tokio::time::timeout(LOGIN_WAIT, answered).await {
        Ok(done) => done?,
        Err(_) => {
            let message = format!("nobody logged in within {} s", LOGIN_WAIT.as_secs());
            let hint = format!("run `halter mcp login {name}` again");
            return Err(HalterError::new("mcp_login_wait", message)
                .with_hint(hint)
                .into());
        }
    }
    match arguments.json {
        true => context
            .data
            .json(&json!({"name": name, "logged_in": true}))?,
        false => context.messages.say(&format!("logged in to {name}")),
    }
    Ok(Exit::Success)
}

/// Forgets the tokens of a server.
pub async fn logout(
    context: &mut Context,
    name: &str,
    arguments: JsonArg,
) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let (_, settings) = named(context, name).await?;
    let forgotten = auth::logout(&settings).await.map_err(failure)?;
    match (arguments.json, forgotten) {
        (true, forgotten) => context
            .data
            .json(&json!({"name": name, "logged_out": forgotten}))?,
        (false, true) => context.data.line(&format!("logged out of {name}"))?,
        (false, false) => context
            .data
            .line(&format!("nobody was logged in to {name}"))?,
    }
    Ok(Exit::Success)
}

/// Forgets the tokens of a server that is in no file any more; whether there
/// were any.
pub(super) async fn forget(server: &ServerSettings) -> Result<bool, Failure> {
    match auth::logout(server).await {
        Err(LoginError::Program(_) | LoginError::NoStore(_)) => Ok(false),
        forgotten => forgotten.map_err(failure),
    }
}

/// The settings of a server, if a file that can be read has it.
pub(super) async fn known(context: &Context, name: &str) -> Option<ServerSettings> {
    let loaded = harness::load_silently(context).await.ok()?;
    let described = harness::described_servers(context, &loaded).await.ok()?;
    let name = probe::known_as(name);
    let server = described.servers.iter().find(|it| it.name == name)?;
    mcp_server_settings(&loaded.config.config, &context.environment, server).ok()
}

async fn named(
    context: &Context,
    name: &str,
) -> Result<(DescribedServer, ServerSettings), Failure> {
    let loaded = harness::load(context).await?;
    let described = harness::described_servers(context, &loaded).await?;
    for problem in &described.problems {
        context.messages.warning(&with_hint(problem));
    }
    let known = probe::known_as(name);
    let server = described.servers.iter().find(|it| it.name == known);
    let Some(server) = server else {
        return Err(probe::unknown(&described, name));
    };
    let config = &loaded.config.config;
    let settings = mcp_server_settings(config, &context.environment, server)?;
    Ok((server.clone(), settings))
}

/// Rights, whether they were given one by one or as a text.
fn words(scopes: &[String]) -> Vec<String> {
    let words = scopes.iter().flat_map(|scope| scope.split_whitespace());
    words.map(str::to_owned).collect()
}

fn failure(error: LoginError) -> Failure {
    HalterError::new(error.code(), error.to_string()).into()
}

/// Waits for the answer: from a browser on this machine, or from whoever types.
async fn answered(
    context: &Context,
    login: &Login,
    listener: &TcpListener,
    origin: &str,
) -> Result<(), Failure> {
    let mut typed = typed();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                if let Some(done) = browser(login, stream, origin).await {
                    return done.map_err(failure);
                }
            }
            Some(line) = typed.recv() => match login.finish(&line).await {
                Ok(()) => return Ok(()),
                Err(error @ LoginError::Answer(_)) => context.messages.warning(&error.to_string()),
                Err(error) => return Err(failure(error)),
            },
        }
    }
}

/// The lines of standard input. The thread that reads them ends with the program.
fn typed() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let Ok(line) = line else { return };
            if !line.trim().is_empty() && sender.blocking_send(line).is_err() {
                return;
            }
        }
        // Without more lines a browser may still answer.
        std::mem::forget(sender);
    });
    lines
}

/// Answers a browser. `None` if it is not about this login.
async fn browser(
    login: &Login,
    mut stream: TcpStream,
    origin: &str,
) -> Option<Result<(), LoginError>> {
    let head = tokio::time::timeout(LOGIN_HEAD_WAIT, head(&mut stream)).await;
    let target = head.ok().flatten()?;
    let url = Url::parse(&format!("{origin}{target}")).ok()?;
    let ours = url.path() == PAGE && login.answers(&url);
    let done = match ours {
        true => Some(login.finish(url.as_str()).await),
        false => None,
    };
    let (status, text) = match &done {
        Some(Ok(())) => ("200 OK", "You are logged in. This page can be closed."),
        Some(Err(_)) => ("400 Bad Request", "The login failed: see the terminal."),
        None => ("404 Not Found", "There is nothing here."),
    };
    let page = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    );
    let answering = async {
        stream.write_all(page.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(LOGIN_HEAD_WAIT, answering).await;
    done
}

/// What a browser asks for.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut limited = stream.take(LOGIN_HEAD_BYTES);
    loop {
        let mut piece = [0; 1024];
        let read = limited.read(&mut piece).await.ok().filter(|it| *it > 0)?;
        head.extend_from_slice(piece.get(..read)?);
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            break;
        }
    }
    let text = String::from_utf8(head).ok()?;
    let mut words = text.lines().next()?.split(' ');
    let is_get = words.next() == Some("GET");
    words.next().filter(|_| is_get).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(text: &[u8]) -> Option<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut browser = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        browser.write_all(text).await.unwrap();
        browser.shutdown().await.unwrap();
        head(&mut stream).await
    }

    #[tokio::test]
    async fn a_browser_says_what_it_wants_in_so_many_bytes() {
        let request = |bytes: u64| {
            let frame = "GET /a HTTP/1.1\r\nX: \r\n\r\n".len() as u64;
            let filler = "x".repeat(usize::try_from(bytes - frame).unwrap());
            format!("GET /a HTTP/1.1\r\nX: {filler}\r\n\r\n").into_bytes()
        };
        assert_eq!(
            asked(&request(LOGIN_HEAD_BYTES)).await.as_deref(),
            Some("/a")
        );
        assert_eq!(asked(&request(LOGIN_HEAD_BYTES + 1)).await, None);
        assert_eq!(asked(b"POST /a HTTP/1.1\r\n\r\n").await, None);
        // Whoever says nothing is not waited for as long as a user is.
        assert!(LOGIN_HEAD_WAIT < LOGIN_WAIT);
    }
}
