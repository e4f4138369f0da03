//! Calls over the Unix socket: many at a time over one connection.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::Target;
use super::demux::{Demux, Item};
use super::error::ClientError;
use crate::lock::lock;
use crate::transport::may_connect;

/// What every reply starts with.
#[derive(serde::Deserialize)]
struct Addressed {
    id: String,
}

/// The id of a reply to no request in particular: the connection itself is
/// refused. No request of ours has it.
const UNADDRESSED: &str = "unknown";

/// One connection for calls.
#[derive(Debug, Clone)]
pub(super) struct CallLine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    sink: tokio::sync::Mutex<OwnedWriteHalf>,
    /// `None` once the connection is lost.
    waiting: Arc<Mutex<Option<Waiting>>>,
    reader: AbortHandle,
}

type Waiting = HashMap<String, oneshot::Sender<Bytes>>;

impl Drop for Inner {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

pub(super) async fn connect(target: &Target, path: &Path) -> Result<UnixStream, ClientError> {
    let failed = |source| ClientError::connecting(target, source);
    let stream = UnixStream::connect(path).await.map_err(failed)?;
    // Anybody can listen on a path below /tmp, and would be told commands and
    // variables.
    let owner = stream.peer_cred().map_err(failed)?.uid();
    if !may_connect(owner, rustix::process::geteuid().as_raw()) {
        return Err(ClientError::Stranger {
            target: target.to_string(),
            owner,
        });
    }
    Ok(stream)
}

impl CallLine {
    pub(super) async fn connect(target: &Target, path: &Path) -> Result<Self, ClientError> {
        let (source, sink) = connect(target, path).await?.into_split();
        let waiting = Arc::new(Mutex::new(Some(Waiting::new())));
        let reader = tokio::spawn(receive(source, Arc::clone(&waiting))).abort_handle();
        Ok(Self {
            inner: Arc::new(Inner {
                sink: tokio::sync::Mutex::new(sink),
                waiting,
                reader,
            }),
        })
    }

    pub(super) fn is_alive(&self) -> bool {
        lock(&self.inner.waiting).is_some()
    }

    pub(super) async fn call(
        &self,
        target: &Target,
        id: String,
        line: Vec<u8>,
    ) -> Result<Bytes, ClientError> {
        let (sender, answer) = oneshot::channel();
        match lock(&self.inner.waiting).as_mut() {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err(ClientError::lost(target)),
        };
        // A runtime that refuses the connection says why before it closes it;
        // one that is gone is noticed by whoever reads.
        let _ = self.inner.sink.lock().await.write_all(&line).await;
        answer.await.map_err(|_| ClientError::lost(target))
    }
}

/// Hands every reply to whoever waits for it.
async fn receive(mut source: OwnedReadHalf, waiting: Arc<Mutex<Option<Waiting>>>) {
    let mut demux = Demux::default();
    while let Ok(read) = source.read_buf(demux.buffer()).await
        && read > 0
    {
        while let Ok(Some(Item::Line(line))) = demux.next_item() {
            let Ok(Addressed { id }) = serde_json::from_slice(&line) else {
                continue;
            };
            let mut waiting = lock(&waiting);
            let Some(waiting) = waiting.as_mut() else {
                return;
            };
            // Whoever asked may have given up.
            if let Some(receiver) = waiting.remove(&id) {
                let _ = receiver.send(line);
            } else if id == UNADDRESSED {
                for (_, receiver) in waiting.drain() {
                    let _ = receiver.send(line.clone());
                }
            }
        }
    }
    *lock(&waiting) = None;
}
