//! One connection that carries lines: requests in, replies and streams out.

use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::in_flight::InFlightLimits;
use super::lines::{Incoming, LineReader};
use crate::limits::MAX_REQUEST_BYTES;
use crate::protocol::{Call, Rejection, RequestId, WireError, decode, failure};
use crate::service::{CallAnswer, Client, Outlet, Service};

/// The sending side, shared by everything that has an answer.
struct Sender<To> {
    sink: Mutex<To>,
}

impl<To: AsyncWrite + Unpin + Send> Outlet for Sender<To> {
    async fn send(&self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let mut sink = self.sink.lock().await;
        sink.write_all(head).await?;
        if !body.is_empty() {
            sink.write_all(body).await?;
        }
        sink.flush().await
    }
}

/// What one connection works with.
struct Connection<To> {
    service: Service,
    client: Arc<Client>,
    sender: Arc<Sender<To>>,
    in_flight: Arc<InFlightLimits>,
}

impl<To> Clone for Connection<To> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            client: Arc::clone(&self.client),
            sender: Arc::clone(&self.sender),
            in_flight: Arc::clone(&self.in_flight),
        }
    }
}

/// Serves one connection until the client has sent its last request and got
/// every answer, or is gone. `hangup` makes, from the receiving side, a future
/// that ends when the client is.
pub(super) async fn serve<Source, To, Watch, Gone>(
    service: Service,
    source: Source,
    sink: To,
    hangup: Watch,
) where
    Source: AsyncRead + Unpin,
    To: AsyncWrite + Unpin + Send + 'static,
    Watch: FnOnce(&Source) -> Gone,
    Gone: Future<Output = ()>,
{
    let deadline = service.settings().request_deadline;
    let (closing, ended) = (service.closing(), service.ended());
    let connection = Connection {
        service,
        client: Arc::new(Client::with_frames()),
        sender: Arc::new(Sender {
            sink: Mutex::new(sink),
        }),
        in_flight: Arc::new(InFlightLimits::new()),
    };
    let mut reader = LineReader::new(source, deadline);
    let mut waiting = JoinSet::new();
    let receiving = connection.receive(&mut reader, &mut waiting);
    let finished = tokio::select! {
        finished = receiving => finished,
        () = closing.cancelled() => true,
    };
    let answered = async { while waiting.join_next().await.is_some() {} };
    if !finished {
        connection.client.gone().cancel();
        answered.await;
        return;
    }
    let gone = hangup(reader.source());
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        () = &mut answered => {}
        () = async { tokio::select! { () = gone => {}, () = ended.cancelled() => {} } } => {
            connection.client.gone().cancel();
            answered.await;
        }
    }
}

impl<To: AsyncWrite + Unpin + Send + 'static> Connection<To> {
    /// Takes requests until there are no more; `false` if the client is gone
    /// or has to go.
    async fn receive<Source: AsyncRead + Unpin>(
        &self,
        reader: &mut LineReader<Source>,
        waiting: &mut JoinSet<()>,
    ) -> bool {
        loop {
            let found = tokio::select! {
                found = reader.next() => found,
                () = self.client.gone().cancelled() => return false,
            };
            while waiting.try_join_next().is_some() {}
            let sent = match found {
                Ok(Incoming::Line) => self.request(reader.line(), waiting).await,
                Ok(Incoming::Oversized) => self.refuse(oversized(reader.line())).await,
                Ok(Incoming::Late) => {
                    let deadline = self.service.settings().request_deadline;
                    let error = WireError::invalid(format!(
                        "the request was not complete after {} s",
                        deadline.as_secs_f64()
                    ));
                    let id = RequestId::unknown();
                    let _ = self.refuse(Rejection { id, error }).await;
                    return false;
                }
                Ok(Incoming::End) => return true,
                Err(error) => Err(error),
            };
            if sent.is_err() {
                return false;
            }
        }
    }

    /// Answers a request at once, or sees to it that it will be.
    async fn request(&self, line: &[u8], waiting: &mut JoinSet<()>) -> io::Result<()> {
        let request = match decode(line) {
            Ok(request) => request,
            Err(rejection) => return self.refuse(rejection).await,
        };
        let id = request.id;
        let call = match Call::parse(&request.method, request.params) {
            Ok(call) => call,
            Err(error) => return self.refuse(Rejection { id, error }).await,
        };
        if !call.may_wait() {
            let answer = self.service.call_now(&id, call, &self.client);
            return self.deliver(&id, answer).await;
        }
        let place = match self.in_flight.take(&call, line.len()) {
            Ok(place) => place,
            Err(error) => return self.refuse(Rejection { id, error }).await,
        };
        let connection = self.clone();
        let answering = async move {
            let answer = connection.service.call(&id, call, &connection.client).await;
            if connection.deliver(&id, answer).await.is_err() {
                connection.client.gone().cancel();
            }
            drop(place);
        };
        // Tasks are moved about before they are polled: this one is large.
        waiting.spawn(Box::pin(answering));
        Ok(())
    }

    async fn refuse(&self, rejection: Rejection) -> io::Result<()> {
        self.sender
            .send(&failure(&rejection.id, &rejection.error), &[])
            .await
    }

    async fn deliver(&self, id: &RequestId, answer: CallAnswer) -> io::Result<()> {
        match answer {
            CallAnswer::Line(line) => self.sender.send(&line, &[]).await,
            CallAnswer::Result(order) => {
                // Its output is taken into memory only when it can go out.
                let mut sink = self.sender.sink.lock().await;
                let line = self.service.result_line(id, &order);
                // However slow the client: nothing of it is needed any more.
                drop(order);
                sink.write_all(&line).await?;
                sink.flush().await
            }
            CallAnswer::Stream(order) => {
                let first = self.sender.send(&order.first_line(id), &[]).await;
                if first.is_err() {
                    self.client.gone().cancel();
                }
                let rest = self.service.send_stream(order, &self.client, &*self.sender);
                Box::pin(rest).await;
                first
            }
            CallAnswer::Nobody => Ok(()),
        }
    }
}

fn oversized(beginning: &[u8]) -> Rejection {
    match decode(beginning) {
        Err(rejection) => rejection,
        Ok(request) => Rejection {
            id: request.id,
            error: WireError::invalid(format!(
                "the request has more than {MAX_REQUEST_BYTES} bytes"
            )),
        },
    }
}
