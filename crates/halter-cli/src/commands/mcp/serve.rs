//! `halter mcp serve`: the agent, served to hosts.

use super::agent::HarnessAgent;
use super::host_approvals::HostApprovals;
use super::own_tools::{self, OwnTools};
use super::token;
use crate::args::McpServeArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness::{self, Loaded};
use crate::live;
use crate::signals::Signals;
use futures::future::BoxFuture;
use halter::{Approvals, HalterError, SessionInit};
use halter_mcp::server::{
    AgentServer, HTTP_PATH, HttpGuard, ServeError, serve_http, serve_streams,
};
use halter_protocol::ModelId;
use serde_json::json;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves until the host goes or a signal comes.
pub async fn serve(context: &mut Context, arguments: McpServeArgs) -> Result<Exit, Failure> {
    let mut loaded = harness::load_for(context, arguments.model.as_deref()).await?;
    arguments.permissions.apply(&mut loaded.config)?;
    harness::explain_model(context, &loaded).await;
    let agent = Arc::new(agent(context, &loaded, &arguments).await?);
    let harness = agent.harness.clone();
    let server = AgentServer::new(agent, env!("CARGO_PKG_VERSION"));
    let stop = CancellationToken::new();
    // Before the address is printed: who reads it may send a signal at once.
    let mut signals = Signals::open()?;
    let listening = match arguments.http {
        Some(address) => Some(listen(context, address, &arguments).await?),
        None => None,
    };
    let ended = stop.clone();
    let serving: BoxFuture<'_, Result<(), Failure>> = match listening {
        Some((listener, guard)) => Box::pin(async move {
            let served = serve_http(server, listener, guard, ended).await;
            served.map_err(|error| cannot_listen(&error))
        }),
        None => Box::pin(async move {
            let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
            let served = serve_streams(server, input, output, ended).await;
            served.map_err(failure)
        }),
    };
    tokio::pin!(serving);
    let (served, asked) = tokio::select! {
        served = &mut serving => (served, None),
        signal = signals.next() => {
            stop.cancel();
            let served = tokio::select! {
                served = serving => served,
                // Whoever asks again does not want to wait.
                _ = signals.next() => Ok(()),
            };
            (served, Some(signal))
        }
    };
    live::close(&harness).await;
    served?;
    Ok(asked.map_or(Exit::Success, Exit::Signal))
}

/// Opens the address and prints it.
async fn listen(
    context: &mut Context,
    address: SocketAddr,
    arguments: &McpServeArgs,
) -> Result<(TcpListener, HttpGuard), Failure> {
    if !address.ip().is_loopback() && arguments.allowed_host.is_empty() {
        return Err(usage(
            format!("{address} can be reached from other computers"),
            "name the server as hosts call it with --allowed-host, or listen on 127.0.0.1",
        ));
    }
    let file = token::file(context, arguments.token_file.as_deref())?;
    let mut guard = HttpGuard::with_token(token::read_or_make(&file)?);
    for host in &arguments.allowed_host {
        guard = guard.allow_host(host);
    }
    for origin in &arguments.allowed_origin {
        guard = guard.allow_origin(origin);
    }
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| cannot_listen(&error))?;
    let address = listener.local_addr()?;
    let url = format!("http://{address}{HTTP_PATH}");
    match arguments.json {
        true => {
            let told = json!({ "url": url, "token_file": file });
            context.data.json(&told)?;
        }
        false => context.data.line(&url)?,
    }
    let file = file.display();
    context.messages.note(&format!(
        "hosts send the token in {file}; Ctrl-C stops the server"
    ));
    Ok((listener, guard))
}

fn cannot_listen(error: &std::io::Error) -> Failure {
    HalterError::new("mcp_listen_failed", format!("cannot serve there: {error}"))
        .with_hint("choose another address with --http")
        .into()
}

async fn agent(
    context: &Context,
    loaded: &Loaded,
    arguments: &McpServeArgs,
) -> Result<HarnessAgent, Failure> {
    let approvals = Arc::new(HostApprovals::default());
    let resources = harness::compile(context, loaded).await?;
    let asks = Approvals::Handler(approvals.clone());
    let (own_tools, provider) = match arguments.tools {
        true => {
            let (tools, provider) = OwnTools::new();
            (Some(tools), Some((own_tools::PROVIDER, provider)))
        }
        false => (None, None),
    };
    let harness = harness::build_served(context, loaded, resources, asks, provider).await?;
    let mut init = SessionInit {
        max_turns: arguments.max_turns.map(NonZeroU32::get),
        ..SessionInit::default().with_budget(arguments.budget.budget())
    };
    if context.globals.cwd.is_some() {
        init.working_dir = ".".into();
    }
    Ok(HarnessAgent {
        harness,
        init,
        model: arguments.model.as_deref().map(ModelId::from),
        approvals,
        own_tools,
    })
}

fn failure(error: ServeError) -> Failure {
    HalterError::new(error.code, error.message).into()
}
