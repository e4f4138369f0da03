//! The holder's loop: one thread, three descriptors to watch, no runtime.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use halter_exec::host::{PidNamespace, Sandbox, reap_any};
use halter_exec::{Containment, SandboxSpec, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, getuid, kill_process_group};

use super::message::{
    Exit, HolderReply, HolderRequest, Key, ProcessState, Unit, UnitKind, VERSION,
};
use super::socket::{self, Arriving, Outbox, must_wait};
use super::table::Table;
use crate::limits::{HOLDER_END_WAIT, HOLDER_LINGER, MAX_UNITS_AHEAD};
use crate::sys::{self, ChildEnds};

/// How often a holder without a daemon looks whether it is still needed.
const NO_DAEMON_POLL: Duration = Duration::from_millis(500);

/// The number of the first process of a PID namespace, in there.
const FIRST_IN_NAMESPACE: i32 = 1;

/// Names the groups of a sandbox, of which this one has none: the daemon makes
/// those.
const SANDBOX_NAME: &str = "holder";

/// How soon something that did not fit is tried again.
const RETRY_TICK: Duration = Duration::from_millis(5);

/// The program in its hidden mode: holds processes and descriptors until it is
/// told to end, or until nobody can need it any more. Its standard input is
/// the socket where daemons connect; `path` is that socket's name. What it
/// starts gets a PID namespace with a `proc` at each of these places, if there
/// are any and the system lets it.
///
/// # Errors
/// If it cannot become what it has to be.
pub fn run(path: &Path, procs: &[impl AsRef<Path>]) -> io::Result<()> {
    let listener = io::stdin().as_fd().try_clone_to_owned()?;
    sys::take_in_orphans()?;
    let identity = identity(path);
    let namespace = match procs {
        [] => None,
        // Without it this goes on, and `runtime.describe` says why.
        _ => PidNamespace::enter(procs).ok(),
    };
    let mut holder = Holder {
        identity,
        path: path.to_owned(),
        namespace,
        listener,
        ends: ChildEnds::watch()?,
        daemon: None,
        outbox: Outbox::default(),
        table: Table::new()?,
        arriving: Arriving::default(),
        idle_since: Instant::now(),
        alone_since: Instant::now(),
        lease: None,
    };
    while holder.step()? {}
    holder.end();
    Ok(())
}

/// The file system's name for what is at this path now.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

struct Holder {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    /// What its processes live in, if not in the namespace of the holder.
    namespace: Option<PidNamespace>,
    listener: OwnedFd,
    ends: ChildEnds,
    daemon: Option<OwnedFd>,
    /// What the daemon has had no room for yet.
    outbox: Outbox,
    table: Table,
    arriving: Arriving,
    /// Since when nobody is there and nothing works.
    idle_since: Instant,
    /// Since when nobody is there.
    alone_since: Instant,
    /// How long its session goes on without a daemon; `None` for as long as
    /// something works.
    lease: Option<Duration>,
}

/// Where the requests of the daemon that have arrived lead.
enum AfterRequests {
    /// All were applied.
    Continue,
    /// The holder is to end.
    End,
    /// The daemon has disconnected.
    Disconnected,
}

impl Holder {
    /// Waits for something and deals with it; `false` to end.
    fn step(&mut self) -> io::Result<bool> {
        let (ends, caller, daemon) = self.wait()?;
        if ends {
            self.ends.clear();
            if !self.reap() {
                return Ok(false);
            }
        }
        if daemon {
            self.flush();
            match self.serve_requests() {
                AfterRequests::Continue => {}
                AfterRequests::End => return Ok(false),
                AfterRequests::Disconnected => self.lose_daemon(),
            }
        }
        if caller {
            self.accept();
        }
        if self.table.has_unsent() {
            self.table.write_rest();
        }
        Ok(self.daemon.is_some() || self.is_needed(Instant::now()))
    }

    fn wait(&self) -> io::Result<(bool, bool, bool)> {
        let mut timeout = self.daemon.is_none().then_some(NO_DAEMON_POLL);
        if self.table.has_unsent() || !self.outbox.is_empty() {
            timeout = Some(RETRY_TICK);
        }
        let timeout = timeout.map(|limit| Timespec {
            tv_sec: 0,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let listener = PollFd::new(&self.listener, PollFlags::IN);
        let mut watched = [
            PollFd::new(&self.ends, PollFlags::IN),
            listener.clone(),
            match &self.daemon {
                Some(daemon) => PollFd::new(daemon, PollFlags::IN),
                None => listener,
            },
        ];
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok((true, false, false)),
            Err(error) => return Err(error.into()),
        }
        let [ends, caller, daemon] = watched.map(|found| !found.revents().is_empty());
        Ok((ends, caller, daemon || !self.outbox.is_empty()))
    }

    /// Collects every child that has ended: those that were started here and
    /// those that came here because their parents ended. `false` if nothing can
    /// be started any more, since the namespace has ended.
    fn reap(&mut self) -> bool {
        while let Ok(Some((pid, exit))) = reap_any() {
            let namespace = self.namespace.as_ref();
            if namespace.is_some_and(|namespace| namespace.first() == pid) {
                return false;
            }
            let exit = Exit {
                code: exit.status.code,
                signal: exit.status.signal,
                user_us: micros(exit.usage.user_time),
                system_us: micros(exit.usage.system_time),
                max_resident_bytes: exit.usage.max_resident_bytes,
                at_us: crate::clock::now_us(),
            };
            if let Some(key) = self.table.exited(pid, exit) {
                self.send(&HolderReply::Exited { key, exit }, &[]);
            }
        }
        true
    }

    /// Applies all messages of the daemon that have come.
    fn serve_requests(&mut self) -> AfterRequests {
        loop {
            let Some(daemon) = &self.daemon else {
                return AfterRequests::Continue;
            };
            let received = match socket::receive(daemon, &mut self.arriving) {
                Ok(Some(received)) => received,
                Ok(None) => return AfterRequests::Disconnected,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return AfterRequests::Continue;
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
                Err(_) => return AfterRequests::Disconnected,
            };
            // What cannot be read was not sent by a daemon of this version.
            let requests = HolderRequest::decode_all(&received.message).unwrap_or_default();
            let mut fds = received.fds;
            for request in requests {
                if !self.serve(request, &mut fds) {
                    return AfterRequests::End;
                }
            }
        }
    }

    fn serve(&mut self, request: HolderRequest, fds: &mut Vec<OwnedFd>) -> bool {
        match request {
            HolderRequest::Hello { version } => self.welcome(version),
            HolderRequest::MakeUnits { kind, count } => self.make(kind, count),
            HolderRequest::AddUnit { id, kind } => {
                let rest = fds.split_off(kind.parts().min(fds.len()));
                self.table.add_unit(id, kind, std::mem::replace(fds, rest));
            }
            HolderRequest::Store { key, record, units } => self.table.store(key, record, &units),
            HolderRequest::Spawn(new) => {
                let key = new.key;
                if let Err(failure) = self.table.spawn(*new) {
                    self.send(&HolderReply::Failed { key, failure }, &[]);
                }
            }
            HolderRequest::WriteLines {
                key,
                lines,
                command,
            } => self.table.write_lines(key, &lines, command),
            HolderRequest::Settle { key } => self.table.settle(key),
            HolderRequest::CloseStreams { key } => self.table.close_streams(key),
            HolderRequest::CloseInput { key } => self.table.close_input(key),
            HolderRequest::Remove { key } => self.table.remove(key),
            HolderRequest::DropUnits { units } => self.table.drop_units(&units),
            HolderRequest::Signal {
                key,
                signal,
                target,
            } => self.table.signal(key, signal, target),
            HolderRequest::AskPid { key } => self.answer_pid(key),
            HolderRequest::Lease { length } => self.lease = Some(length),
            HolderRequest::Contain(containment) => self.contain(*containment),
            HolderRequest::Cover { protect } => self.cover(&protect),
            HolderRequest::End => return false,
        }
        true
    }

    fn welcome(&mut self, version: u64) {
        if version != VERSION {
            self.send(&HolderReply::Refused { version: VERSION }, &[]);
            return;
        }
        let pid = getpid().as_raw_nonzero().get();
        self.send(
            &HolderReply::Welcome {
                version: VERSION,
                pid,
            },
            &[],
        );
        // Taken apart so that the slots can be read while they are sent.
        let table = std::mem::take(&mut self.table.slots);
        for (key, slot) in &table {
            let units: Vec<Unit> = slot.units.iter().map(|unit| unit.describe()).collect();
            let fds: Vec<BorrowedFd<'_>> = slot
                .units
                .iter()
                .flat_map(|unit| unit.open_parts())
                .collect();
            let reply = HolderReply::Slot {
                key: *key,
                record: slot.record.clone(),
                units,
                process: slot.process.clone(),
            };
            self.send(&reply, &fds);
        }
        self.table.slots = table;
        let descriptor_owner = match self.namespace {
            Some(_) => FIRST_IN_NAMESPACE,
            None => pid,
        };
        self.send(&HolderReply::Ready { descriptor_owner }, &[]);
    }

    /// Makes units and hands out copies, all in one message.
    fn make(&mut self, kind: UnitKind, count: u64) {
        let mut ids = Vec::new();
        for _ in 0..count.min(MAX_UNITS_AHEAD) {
            match self.table.make(kind) {
                Ok(id) => ids.push(id),
                // Out of descriptors: fewer are better than none.
                Err(_) => break,
            }
        }
        let made: Vec<_> = ids.iter().filter_map(|id| self.table.unit(*id)).collect();
        let units = made.iter().map(|unit| unit.describe()).collect();
        let fds: Vec<_> = made.iter().flat_map(|unit| unit.shared_parts()).collect();
        let reply = HolderReply::Units { kind, units };
        post(&mut self.outbox, self.daemon.as_ref(), &reply, &fds);
    }

    /// Puts all processes to come into name spaces of their own.
    fn contain(&mut self, containment: Containment) {
        let spec = SandboxSpec {
            containment: Some(containment),
            ..SandboxSpec::default()
        };
        let refused = match Sandbox::establish(spec, SANDBOX_NAME) {
            Ok(sandbox) => {
                self.table.sandbox = Some(sandbox);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        self.send(&HolderReply::Contained { refused }, &[]);
    }

    /// Has what is open in the name spaces be covered again.
    fn cover(&mut self, protect: &[PathBuf]) {
        let covered = match &self.table.sandbox {
            Some(sandbox) => {
                sandbox.protect_more(protect);
                sandbox.cover_again()
            }
            None => Ok(Vec::new()),
        };
        let (places, refused) = match covered {
            Ok(places) => (places, None),
            Err(missing) => (Vec::new(), Some(missing.to_string())),
        };
        self.send(&HolderReply::Covered { places, refused }, &[]);
    }

    fn answer_pid(&mut self, key: Key) {
        let process = self.table.slots.get(&key).map(|slot| &slot.process);
        let pid = match process {
            Some(ProcessState::Running { pid }) => *pid,
            _ => 0,
        };
        self.send(&HolderReply::Pid { key, pid }, &[]);
    }

    fn send(&mut self, reply: &HolderReply, fds: &[BorrowedFd<'_>]) {
        post(&mut self.outbox, self.daemon.as_ref(), reply, fds);
    }

    fn flush(&mut self) {
        let Some(daemon) = &self.daemon else {
            return;
        };
        // A daemon that is gone is noticed by what is read from it.
        while let Err(error) = self.outbox.flush(daemon) {
            if must_wait(&error) {
                return;
            }
        }
    }

    /// Takes the next daemon, if it is one and there is none.
    fn accept(&mut self) {
        let Ok(caller) = sys::accept(&self.listener) else {
            return;
        };
        let user = halter_exec::host::system::peer_user(&caller);
        if !user.is_ok_and(|user| user == getuid().as_raw()) {
            return;
        }
        if self.daemon.is_some() {
            post(
                &mut Outbox::default(),
                Some(&caller),
                &HolderReply::Refused { version: VERSION },
                &[],
            );
            return;
        }
        self.daemon = Some(caller);
    }

    fn lose_daemon(&mut self) {
        self.daemon = None;
        self.outbox = Outbox::default();
        self.arriving = Arriving::default();
        self.table.drop_spare_units();
        self.idle_since = Instant::now();
        self.alone_since = self.idle_since;
    }

    /// Whether a daemon may still come for something that is here.
    fn is_needed(&mut self, now: Instant) -> bool {
        if identity(&self.path) != self.identity {
            return false;
        }
        let alone = now.saturating_duration_since(self.alone_since);
        if self.lease.is_some_and(|lease| alone >= lease) {
            return false;
        }
        if self.table.is_working() {
            self.idle_since = now;
        }
        now.saturating_duration_since(self.idle_since) < HOLDER_LINGER
    }

    /// Kills everything that descends from here and collects it. Nothing
    /// escapes from a PID namespace, nor where whatever loses its parent
    /// becomes a child of this process; elsewhere it may be found in its group.
    fn end(&mut self) {
        if let Some(namespace) = &self.namespace {
            // One that is gone already has killed everything in it.
            let _ = namespace.kill();
        }
        let own = getpid().as_raw_nonzero().get();
        // The numbers that `/proc` has in a namespace mean others out here.
        let sees_descendants = self.namespace.is_none();
        let kill_trees = || {
            let descendants = sees_descendants.then(|| halter_exec::list_descendants(own));
            for process in descendants.and_then(Result::ok).unwrap_or_default() {
                if process.ppid == own {
                    // One that has ended meanwhile is collected next.
                    let _ = halter_exec::kill_tree(process.pid, Signal::KILL);
                }
            }
        };
        // Trees before groups: a child that made a session of its own is found
        // by its parent, as long as that lives.
        kill_trees();
        for leader in self.table.running().filter_map(Pid::from_raw) {
            let _ = kill_process_group(leader, rustix::process::Signal::KILL);
        }
        let begun = Instant::now();
        let all_gone = || loop {
            match reap_any() {
                Ok(Some(_)) => {}
                Ok(None) => return false,
                // No child is left.
                Err(_) => return true,
            }
        };
        let kill = || {
            kill_trees();
            std::thread::sleep(Duration::from_millis(2));
        };
        kill_until(all_gone, kill, || begun.elapsed());
        // Takes away what it has put in the place of protected paths.
        self.table.sandbox = None;
    }
}

/// Kills until all are gone, or have had their time.
fn kill_until(
    mut all_gone: impl FnMut() -> bool,
    mut kill: impl FnMut(),
    elapsed: impl Fn() -> Duration,
) {
    while elapsed() < HOLDER_END_WAIT && !all_gone() {
        kill();
    }
}

/// Sends, or keeps what there is no room for.
fn post(
    outbox: &mut Outbox,
    daemon: Option<&OwnedFd>,
    reply: &HolderReply,
    fds: &[BorrowedFd<'_>],
) {
    let Some(daemon) = daemon else { return };
    if let Ok(message) = reply.encode() {
        // A daemon that is gone is noticed by what is read from it.
        let _ = outbox.post(daemon, message, fds);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::message::NewCommand;
    use super::*;

    /// A holder that serves the other end of a socket.
    fn holder(path: &Path) -> (Holder, OwnedFd) {
        let (daemon, ours) = sys::channel_pair().unwrap();
        let (listener, _) = sys::channel_pair().unwrap();
        let holder = Holder {
            path: path.to_owned(),
            identity: identity(path),
            namespace: None,
            listener,
            ends: ChildEnds::watch().unwrap(),
            daemon: Some(daemon),
            outbox: Outbox::default(),
            table: Table::new().unwrap(),
            arriving: Arriving::default(),
            idle_since: Instant::now(),
            alone_since: Instant::now(),
            lease: None,
        };
        (holder, ours)
    }

    #[test]
    fn one_request_brings_no_more_units_than_one_message_can_carry() {
        let (mut holder, ours) = holder(Path::new("/"));
        let mut made = |count| {
            for kind in [UnitKind::Output, UnitKind::Input, UnitKind::File] {
                holder.make(kind, count);
                let received = socket::receive(&ours, &mut Arriving::default())
                    .unwrap()
                    .unwrap();
                let HolderReply::Units { units, .. } =
                    HolderReply::decode(&received.message).unwrap()
                else {
                    panic!("units were asked for");
                };
                assert_eq!(units.len() as u64, count.min(MAX_UNITS_AHEAD));
                let fds = units.len() * kind.shared_parts().len();
                assert_eq!(received.fds.len(), fds);
            }
        };
        made(MAX_UNITS_AHEAD);
        made(MAX_UNITS_AHEAD + 1);
    }

    #[test]
    fn a_holder_without_a_daemon_waits_for_one_so_long() {
        let directory = tempfile::tempdir().unwrap();
        let (mut holder, _ours) = holder(directory.path());
        holder.lose_daemon();
        let left = holder.idle_since;
        assert!(holder.is_needed(left + HOLDER_LINGER - Duration::from_millis(1)));
        assert!(!holder.is_needed(left + HOLDER_LINGER));
        // Without its name nobody finds it.
        drop(directory);
        assert!(!holder.is_needed(left));
    }

    /// Also with a command at work: whoever it is for cannot be there.
    #[test]
    fn a_holder_without_a_daemon_keeps_a_leased_session_for_its_lease() {
        let directory = tempfile::tempdir().unwrap();
        let (mut holder, _ours) = holder(directory.path());
        let lease = Duration::from_secs(60);
        holder.serve(HolderRequest::Lease { length: lease }, &mut Vec::new());
        let command = NewCommand {
            key: 1,
            record: Vec::new(),
            units: Vec::new(),
        };
        holder.table.write_lines(0, b"", Some(command));
        holder.lose_daemon();
        let left = holder.alone_since;
        assert!(holder.is_needed(left + lease - Duration::from_millis(1)));
        assert!(!holder.is_needed(left + lease));
    }

    #[test]
    fn what_does_not_die_holds_up_the_end_so_long() {
        let elapsed = Cell::new(Duration::ZERO);
        let tick = || elapsed.set(elapsed.get() + Duration::from_secs(1));
        kill_until(|| false, tick, || elapsed.get());
        assert_eq!(elapsed.get(), HOLDER_END_WAIT);
        elapsed.set(Duration::ZERO);
        let last_moment = HOLDER_END_WAIT - Duration::from_secs(1);
        kill_until(|| elapsed.get() == last_moment, tick, || elapsed.get());
        assert_eq!(elapsed.get(), last_moment);
    }
}
