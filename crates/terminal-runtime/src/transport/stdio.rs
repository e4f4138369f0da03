//! Standard input and output as one connection.

use std::io;
use std::os::fd::AsFd;

use tokio::io::Interest;

use super::connection;
use crate::service::Service;

/// Serves one connection on standard input and output, until the first ends
/// and everything it asked for is answered on the second, or nobody reads the
/// answers any more.
pub async fn serve_stdio(service: Service) {
    let (source, sink) = (tokio::io::stdin(), tokio::io::stdout());
    connection::serve(service, source, sink, |_| reader_gone(io::stdout())).await;
}

/// Returns when nobody reads what is written there. A file always has room,
/// and nobody to leave.
async fn reader_gone(sink: impl AsFd) {
    let copy = sink.as_fd().try_clone_to_owned();
    let watched =
        copy.and_then(|copy| halter_exec::host::watch_descriptor(copy, Interest::WRITABLE));
    let Ok(watched) = watched else {
        return std::future::pending().await;
    };
    while let Ok(mut seen) = watched.ready(Interest::WRITABLE).await {
        if seen.ready().is_write_closed() {
            return;
        }
        seen.clear_ready();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_pipe_is_read_until_its_reader_is_gone_and_a_file_always() {
        let (reader, writer) = io::pipe().unwrap();
        let moment = Duration::from_millis(50);
        let early = tokio::time::timeout(moment, reader_gone(&writer)).await;
        assert!(early.is_err());
        drop(reader);
        tokio::time::timeout(Duration::from_secs(20), reader_gone(&writer))
            .await
            .unwrap();
        let file = tempfile::tempfile().unwrap();
        let never = tokio::time::timeout(moment, reader_gone(&file)).await;
        assert!(never.is_err());
    }
}
