//! The daemon's side of the connection to its holder.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use halter_exec::Containment;
use halter_exec::host::watch_descriptor;
use rustix::net::{Shutdown, shutdown};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot, watch};

use super::exit::{ExitWatch, ProcessEnd};
use super::message::{HolderReply, HolderRequest, Key, UnitKind};
use super::prepared::{GivenUnit, PreparedUnits};
use super::socket::{self, Arriving, Outbox, Received, must_wait};
use crate::limits::{COVER_DEADLINE, LATER_REQUEST_WAIT, MAX_LATER_REQUESTS};
use crate::lock::lock;

/// Units the daemon makes itself are named from here on.
const OWN_UNITS: u64 = 1 << 62;

/// How soon is tried again what was too much for the system.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// The connection. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HolderLink {
    inner: Arc<Inner>,
}

/// The numbers that a holder is known by.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HolderNumbers {
    /// Its own.
    pub own: i32,
    /// The one by which its processes find what it has open.
    pub descriptor_owner: i32,
}

/// Where something was mounted, or why something stays open.
type Covered = Result<Vec<PathBuf>, String>;

#[derive(Debug)]
struct Inner {
    socket: AsyncFd<OwnedFd>,
    holder: HolderNumbers,
    next_name: AtomicU64,
    outbox: Mutex<Outbox>,
    outbox_filled: Notify,
    /// What goes with the next message.
    later: Mutex<Vec<HolderRequest>>,
    later_filled: Notify,
    ends: Mutex<HashMap<Key, ExitWatch>>,
    pids: Mutex<HashMap<Key, Vec<oneshot::Sender<i32>>>>,
    contained: Mutex<Option<oneshot::Sender<Option<String>>>>,
    /// Who asked for something to be covered, in the order of the answers.
    covered: Mutex<VecDeque<oneshot::Sender<Covered>>>,
    prepared: PreparedUnits,
    lost: watch::Sender<bool>,
}

impl HolderLink {
    pub(super) fn new(socket: AsyncFd<OwnedFd>, holder: HolderNumbers, next_name: u64) -> Self {
        Self {
            inner: Arc::new(Inner {
                socket,
                holder,
                next_name: AtomicU64::new(next_name),
                outbox: Mutex::default(),
                outbox_filled: Notify::new(),
                later: Mutex::default(),
                later_filled: Notify::new(),
                ends: Mutex::default(),
                pids: Mutex::default(),
                contained: Mutex::default(),
                covered: Mutex::default(),
                prepared: PreparedUnits::default(),
                lost: watch::Sender::new(false),
            }),
        }
    }

    /// Begins to listen, and to send what did not fit or had time.
    pub(super) fn begin(&self) {
        let reading = Arc::clone(&self.inner);
        tokio::spawn(async move {
            let mut arriving = Arriving::default();
            // Ends when either side has hung up.
            while let Ok(Some(received)) = next(&reading.socket, &mut arriving).await {
                reading.handle(received);
            }
            reading.lose();
        });
        let writing = Arc::clone(&self.inner);
        tokio::spawn(async move {
            let mut gone = writing.lost.subscribe();
            let writes = async {
                loop {
                    writing.outbox_filled.notified().await;
                    if writing.flush().await.is_err() {
                        return writing.shut_down();
                    }
                }
            };
            let rest = async {
                loop {
                    writing.later_filled.notified().await;
                    tokio::time::sleep(LATER_REQUEST_WAIT).await;
                    writing.send(&[], &[]);
                }
            };
            tokio::select! {
                () = writes => {}
                () = rest => {}
                _ = gone.wait_for(|lost| *lost) => {}
            }
        });
    }

    /// The holder's process number.
    #[must_use]
    pub fn holder(&self) -> i32 {
        self.inner.holder.own
    }

    /// The number by which the holder's processes find what it has open.
    #[must_use]
    pub fn descriptor_owner(&self) -> i32 {
        self.inner.holder.descriptor_owner
    }

    /// A name that no slot has, nor a unit of ours.
    #[must_use]
    pub fn new_key(&self) -> Key {
        self.inner.next_name.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the holder is gone.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        *self.inner.lost.borrow()
    }

    /// Returns when the holder is gone.
    pub async fn lost(&self) {
        let mut lost = self.inner.lost.subscribe();
        let _ = lost.wait_for(|lost| *lost).await;
    }

    /// Disconnects. What the holder has stays with it.
    pub fn disconnect(&self) {
        self.inner.shut_down();
    }

    /// Tells the holder all of this at once. What was told before is done
    /// before.
    pub fn send(&self, requests: &[HolderRequest]) {
        self.inner.send(requests, &[]);
    }

    /// Tells the holder this with the next message, or soon, or never if this
    /// program is killed before: for what is given back.
    pub fn send_later(&self, request: HolderRequest) {
        let mut later = lock(&self.inner.later);
        add_later(&mut later, request);
        let full = later.len() >= MAX_LATER_REQUESTS;
        drop(later);
        if full {
            self.send(&[]);
        } else {
            self.inner.later_filled.notify_one();
        }
    }

    /// Gives the holder copies of descriptors as a unit, and returns its name.
    pub fn give(&self, kind: UnitKind, parts: &[BorrowedFd<'_>]) -> u64 {
        let id = OWN_UNITS | self.new_key();
        self.inner
            .send(&[HolderRequest::AddUnit { id, kind }], parts);
        id
    }

    /// The end of a slot's process. Asked before the process is started, or
    /// for one that was found running.
    #[must_use]
    pub fn exit_of(&self, key: Key) -> ExitWatch {
        let end = ExitWatch::default();
        let mut ends = lock(&self.inner.ends);
        if self.is_lost() {
            end.end(ProcessEnd::Lost);
        } else {
            ends.insert(key, end.clone());
        }
        end
    }

    /// The number of a slot's process, unless it has ended. When this returns,
    /// all that was sent before has been done.
    pub async fn pid_of(&self, key: Key) -> Option<i32> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.inner.pids).entry(key).or_default().push(sender);
        self.send(&[HolderRequest::AskPid { key }]);
        let mut lost = self.inner.lost.subscribe();
        tokio::select! {
            pid = receiver => pid.ok().filter(|pid| *pid != 0),
            _ = lost.wait_for(|lost| *lost) => None,
        }
    }

    /// Has all processes to come be born in name spaces of their own.
    ///
    /// # Errors
    /// Why that cannot be.
    pub async fn contain(&self, containment: Containment) -> Result<(), String> {
        let (sender, receiver) = oneshot::channel();
        *lock(&self.inner.contained) = Some(sender);
        self.send(&[HolderRequest::Contain(Box::new(containment))]);
        let refused = tokio::select! {
            answer = receiver => answer.ok().flatten(),
            () = self.lost() => Some("the session's holder has ended".to_owned()),
        };
        refused.map_or(Ok(()), Err)
    }

    /// Has what is open of these name spaces, and these paths, be covered, before
    /// anything that is asked for later. Returns where something was mounted.
    ///
    /// # Errors
    /// Why some of it stays open.
    pub async fn cover(&self, protect: Vec<PathBuf>) -> Covered {
        let (sender, receiver) = oneshot::channel();
        {
            // Answers come in the order of the questions.
            let mut waiting = lock(&self.inner.covered);
            waiting.push_back(sender);
            self.send(&[HolderRequest::Cover { protect }]);
        }
        let lost = || Err("the session's holder has ended".to_owned());
        tokio::select! {
            answer = receiver => answer.unwrap_or_else(|_| lost()),
            () = self.lost() => lost(),
            () = tokio::time::sleep(COVER_DEADLINE) => Err(format!(
                "that took more than {} s; a file system does not answer",
                COVER_DEADLINE.as_secs()
            )),
        }
    }

    /// A unit made ahead; waits for one only if all are used up.
    ///
    /// # Errors
    /// If the holder is gone, or cannot make any.
    pub async fn unit(&self, kind: UnitKind) -> io::Result<GivenUnit> {
        loop {
            let filled = self.inner.prepared.filled();
            tokio::pin!(filled);
            filled.as_mut().enable();
            let found = self.inner.prepared.take(kind);
            self.order(kind, found.is_none());
            if let Some(unit) = found {
                return Ok(unit);
            }
            tokio::select! {
                () = filled => {}
                () = self.lost() => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            if self.inner.prepared.is_exhausted(kind) {
                return Err(rustix::io::Errno::MFILE.into());
            }
        }
    }

    /// Has units made, so that the first command finds some.
    pub fn prepare(&self) {
        self.order(UnitKind::Output, false);
    }

    /// Orders more of a kind if there are few or one is wanted. What is not
    /// waited for goes with the next message, which starts a command as a rule.
    fn order(&self, kind: UnitKind, wanted: bool) {
        let count = self.inner.prepared.to_order(kind, wanted);
        let order = count.map(|count| HolderRequest::MakeUnits { kind, count });
        if wanted {
            // They may have been ordered already, and not been asked for yet.
            self.send(order.as_slice());
        } else if let Some(order) = order {
            self.send_later(order);
        }
    }
}

impl Inner {
    fn send(&self, requests: &[HolderRequest], fds: &[BorrowedFd<'_>]) {
        let mut outbox = lock(&self.outbox);
        // Taken under the lock that keeps messages in order.
        let later = std::mem::take(&mut *lock(&self.later));
        if later.is_empty() && requests.is_empty() {
            return;
        }
        let Ok(message) = HolderRequest::encode_all(later.iter().chain(requests)) else {
            return;
        };
        // A holder that is gone is noticed by the reader.
        let _ = outbox.post(self.socket.get_ref(), message, fds);
        if !outbox.is_empty() {
            self.outbox_filled.notify_one();
        }
    }

    async fn flush(&self) -> io::Result<()> {
        // Only now, since a socket that has room would say so again and again.
        let socket = self.socket.get_ref().try_clone()?;
        let socket = watch_descriptor(socket, Interest::WRITABLE)?;
        loop {
            let mut ready = socket.writable().await?;
            let flushed = lock(&self.outbox).flush(socket.get_ref());
            match flushed {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if must_wait(&error) => tokio::time::sleep(RETRY_PAUSE).await,
                other => return other,
            }
        }
    }

    fn shut_down(&self) {
        let _ = shutdown(self.socket.get_ref(), Shutdown::Both);
        self.lose();
    }

    fn handle(&self, received: Received) {
        let Ok(reply) = HolderReply::decode(&received.message) else {
            return;
        };
        match reply {
            HolderReply::Units { kind, units } => self.prepared.add(kind, units, received.fds),
            HolderReply::Exited { key, exit } => self.ended(key, ProcessEnd::Exited(exit)),
            HolderReply::Failed { key, failure } => self.ended(key, ProcessEnd::Failed(failure)),
            HolderReply::Contained { refused } => {
                if let Some(asked) = lock(&self.contained).take() {
                    let _ = asked.send(refused);
                }
            }
            HolderReply::Covered { places, refused } => {
                if let Some(asked) = lock(&self.covered).pop_front() {
                    let _ = asked.send(refused.map_or(Ok(places), Err));
                }
            }
            HolderReply::Pid { key, pid } => {
                for asked in lock(&self.pids).remove(&key).unwrap_or_default() {
                    let _ = asked.send(pid);
                }
            }
            _ => {}
        }
    }

    fn ended(&self, key: Key, end: ProcessEnd) {
        if let Some(waiting) = lock(&self.ends).remove(&key) {
            waiting.end(end);
        }
    }

    fn lose(&self) {
        let mut ends = lock(&self.ends);
        self.lost.send_replace(true);
        for (_, waiting) in ends.drain() {
            waiting.end(ProcessEnd::Lost);
        }
        drop(ends);
        lock(&self.pids).clear();
        self.prepared.wake();
    }
}

/// Adds a request to those that have time. A slot that goes need not be
/// settled.
fn add_later(later: &mut Vec<HolderRequest>, request: HolderRequest) {
    if let HolderRequest::Remove { key } = request {
        later.retain(|waiting| *waiting != HolderRequest::Settle { key });
    }
    later.push(request);
}

/// The next message of the holder; `None` if it has hung up.
pub(super) async fn next(
    socket: &AsyncFd<OwnedFd>,
    arriving: &mut Arriving,
) -> io::Result<Option<Received>> {
    loop {
        let mut ready = socket.readable().await?;
        match socket::receive(socket.get_ref(), arriving) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    /// A link, and the holder's end of it.
    fn link() -> (HolderLink, OwnedFd) {
        let (ours, theirs) = sys::channel_pair().unwrap();
        let socket = watch_descriptor(ours, Interest::READABLE).unwrap();
        let link = HolderLink::new(socket, HolderNumbers::default(), 0);
        link.begin();
        (link, theirs)
    }

    fn received(holder: &OwnedFd) -> Option<Vec<HolderRequest>> {
        let received = socket::receive(holder, &mut Arriving::default()).ok()??;
        Some(HolderRequest::decode_all(&received.message).unwrap())
    }

    #[tokio::test]
    async fn what_has_time_goes_with_the_next_message_and_before_it() {
        let (link, holder) = link();
        link.send_later(HolderRequest::Settle { key: 1 });
        link.send_later(HolderRequest::Settle { key: 2 });
        link.send_later(HolderRequest::Remove { key: 1 });
        assert_eq!(received(&holder), None);
        link.send(&[HolderRequest::AskPid { key: 3 }]);
        let all = [
            HolderRequest::Settle { key: 2 },
            HolderRequest::Remove { key: 1 },
            HolderRequest::AskPid { key: 3 },
        ];
        assert_eq!(received(&holder).unwrap(), all);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_time_has_so_much() {
        let (link, holder) = link();
        link.send_later(HolderRequest::Remove { key: 1 });
        tokio::task::yield_now().await;
        tokio::time::sleep(LATER_REQUEST_WAIT - Duration::from_millis(1)).await;
        assert_eq!(received(&holder), None);
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(
            received(&holder).unwrap(),
            [HolderRequest::Remove { key: 1 }]
        );
    }

    fn answer(holder: &OwnedFd, place: &str) {
        let reply = HolderReply::Covered {
            places: vec![place.into()],
            refused: None,
        };
        let mut outbox = Outbox::default();
        let message = reply.encode().unwrap();
        outbox.post(holder, message, &[]).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_covered_in_time_is_refused_and_its_late_answer_is_no_others() {
        let (link, holder) = link();
        let begun = tokio::time::Instant::now();
        let refused = link.cover(Vec::new()).await.unwrap_err();
        assert!(refused.contains("does not answer"), "{refused}");
        assert_eq!(begun.elapsed(), COVER_DEADLINE);
        tokio::time::resume();
        answer(&holder, "/late");
        let (covered, ()) = tokio::join!(link.cover(Vec::new()), async {
            answer(&holder, "/mine");
        });
        assert_eq!(covered.unwrap(), [PathBuf::from("/mine")]);
    }

    #[tokio::test]
    async fn so_much_waits_at_a_time() {
        let (link, holder) = link();
        let most = MAX_LATER_REQUESTS as u64;
        for key in 1..most {
            link.send_later(HolderRequest::Remove { key });
            assert_eq!(received(&holder), None);
        }
        link.send_later(HolderRequest::Remove { key: most });
        assert_eq!(received(&holder).unwrap().len(), MAX_LATER_REQUESTS);
    }

    /// What the holder cannot take at once it gets when it can.
    #[tokio::test]
    async fn a_holder_that_is_slow_gets_everything_in_order() {
        let (link, holder) = link();
        let record = vec![7; 8 * 1024];
        let put = |key| HolderRequest::Store {
            key,
            record: record.clone(),
            units: Vec::new(),
        };
        for key in 0..1000 {
            link.send(&[put(key)]);
        }
        assert!(!lock(&link.inner.outbox).is_empty());
        for key in 0..1000 {
            let received = loop {
                match received(&holder) {
                    Some(requests) => break requests,
                    None => tokio::task::yield_now().await,
                }
            };
            assert_eq!(received, [put(key)]);
        }
    }

    #[tokio::test]
    async fn a_holder_that_is_gone_is_noticed() {
        let (link, holder) = link();
        let end = link.exit_of(1);
        drop(holder);
        link.lost().await;
        assert_eq!(end.wait().await, ProcessEnd::Lost);
        assert_eq!(link.exit_of(2).now(), Some(ProcessEnd::Lost));
    }
}
