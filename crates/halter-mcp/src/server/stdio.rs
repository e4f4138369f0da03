//! One host at the other end of two streams.

use super::agent::ServeError;
use super::handler::AgentServer;
use super::lines::LineTransport;
use crate::limits::WORK_END_WAIT;
use rmcp::ServerHandler;
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// Serves an agent to the host at the other end of two streams, say standard
/// input and output, until the host closes its end or `stop` fires. Nothing
/// runs for the host any more when this returns.
///
/// # Errors
/// If the host does not begin as the protocol says.
pub async fn serve_streams<R, W>(
    server: AgentServer,
    reader: R,
    writer: W,
    stop: CancellationToken,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let gone = server.gone().clone();
    let served = tokio::select! {
        served = serve_handler(server.clone(), reader, writer, gone.clone()) => served,
        () = stop.cancelled() => Ok(()),
    };
    gone.cancel();
    if tokio::time::timeout(WORK_END_WAIT, server.ended())
        .await
        .is_err()
    {
        tracing::warn!("a task did not end in time");
    }
    served
}

/// Serves any handler over two streams. `gone` fires when the host has gone.
async fn serve_handler<H, R, W>(
    handler: H,
    reader: R,
    writer: W,
    gone: CancellationToken,
) -> Result<(), ServeError>
where
    H: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = LineTransport::new(reader, writer, gone.clone());
    match serve_server_with_ct(handler, transport, CancellationToken::new()).await {
        Ok(running) => {
            let _ = running.waiting().await;
            Ok(())
        }
        // Whoever comes and goes without a word has done nothing wrong.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(ServeError::new(
            "mcp_handshake_failed",
            format!("the host did not begin as MCP says: {error}"),
        )),
    }
}
