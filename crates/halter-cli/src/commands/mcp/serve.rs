//! `halter mcp serve`: the agent, served to hosts.

use super::agent::HarnessAgent;
use super::host_approvals::HostApprovals;
use super::own_tools::{self, OwnTools};
use crate::args::McpServeArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::harness::{self, Loaded};
use crate::live;
use crate::signals::Signals;
use halter::{Approvals, HalterError, SessionInit};
use halter_mcp::server::{AgentServer, ServeError, serve_streams};
use halter_protocol::ModelId;
use std::num::NonZeroU32;
use std::sync::Arc;
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
    let mut signals = Signals::open()?;
    let serving = serve_streams(
        server,
        tokio::io::stdin(),
        tokio::io::stdout(),
        stop.clone(),
    );
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
    served.map_err(failure)?;
    Ok(asked.map_or(Exit::Success, Exit::Signal))
}

async fn agent(
    context: &Context,
    loaded: &Loaded,
    arguments: &McpServeArgs,
) -> Result<HarnessAgent, Failure> {
    let approvals = Arc::new(HostApprovals::default());
    let resources = harness::compile(loaded).await?;
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
