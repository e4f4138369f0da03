//! Standard input and output as one connection.

use tokio::io::{AsyncRead, AsyncWrite};

use super::connection;
use crate::service::Service;

/// Serves one connection on two streams until the first ends and everything
/// it asked for is answered on the second.
pub async fn serve_stdio<Source, Sink>(service: Service, source: Source, sink: Sink)
where
    Source: AsyncRead + Unpin,
    Sink: AsyncWrite + Unpin + Send + 'static,
{
    // Whoever reads the answers is there for as long as they can be written.
    connection::serve(service, source, sink, |_| std::future::pending()).await;
}
