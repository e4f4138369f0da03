//! Exclusive locks on paths, so that two writers of one file take turns.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

type Locks = Arc<Mutex<HashMap<PathBuf, LockSlot>>>;

struct LockSlot {
    lock: Arc<AsyncMutex<()>>,
    /// Holders and waiters; the last one takes the slot away.
    users: usize,
}

/// One lock per path in use. Idle paths cost nothing.
///
/// Lock the *resolved* path: two spellings of one file are two locks.
#[derive(Default)]
pub struct PathLockMap {
    locks: Locks,
}

impl PathLockMap {
    /// A map in which nothing is locked.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for the path and holds it until the guard is dropped. Dropping
    /// the future gives the place in the queue up.
    pub async fn lock(&self, path: impl AsRef<Path>) -> PathLockGuard {
        let (claim, lock) = Claim::new(&self.locks, path.as_ref());
        let held = lock.lock_owned().await;
        PathLockGuard {
            _held: held,
            _claim: claim,
        }
    }

    /// How many paths are locked or waited for.
    pub fn len(&self) -> usize {
        self.locks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// True if no path is locked.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for PathLockMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathLockMap")
            .field("len", &self.len())
            .finish()
    }
}

/// Holds a path for its owner; may be sent to another thread.
#[must_use = "the path is free again as soon as the guard is dropped"]
pub struct PathLockGuard {
    // Order matters: the lock is released before the claim looks for others.
    _held: OwnedMutexGuard<()>,
    _claim: Claim,
}

impl std::fmt::Debug for PathLockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathLockGuard")
            .field("path", &self._claim.path)
            .finish()
    }
}

struct Claim {
    locks: Locks,
    path: PathBuf,
}

impl Claim {
    fn new(locks: &Locks, path: &Path) -> (Self, Arc<AsyncMutex<()>>) {
        let mut slots = locks.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.entry(path.to_owned()).or_insert_with(|| LockSlot {
            lock: Arc::default(),
            users: 0,
        });
        slot.users += 1;
        let claim = Self {
            locks: Arc::clone(locks),
            path: path.to_owned(),
        };
        (claim, Arc::clone(&slot.lock))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut slots = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = slots.entry(std::mem::take(&mut self.path)) {
            entry.get_mut().users -= 1;
            if entry.get().users == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn one_path_is_held_by_one_and_others_are_free() {
        let locks = PathLockMap::new();
        let held = locks.lock("/a").await;
        assert!(locks.lock("/b").now_or_never().is_some());
        assert!(locks.lock("/a").now_or_never().is_none());
        drop(held);
        assert!(locks.lock("/a").now_or_never().is_some());
    }

    #[tokio::test]
    async fn nothing_is_kept_for_idle_paths() {
        let locks = PathLockMap::new();
        let held = locks.lock("/a").await;
        let mut waiting = Box::pin(locks.lock("/a"));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(locks.len(), 1);
        drop(waiting);
        drop(held);
        assert!(locks.is_empty());
    }

    #[tokio::test]
    async fn waiters_take_turns() {
        let locks = Arc::new(PathLockMap::new());
        let counter = Arc::new(Mutex::new((0, 0)));
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let (locks, counter) = (Arc::clone(&locks), Arc::clone(&counter));
                tokio::spawn(async move {
                    let _held = locks.lock("/a").await;
                    counter.lock().unwrap().0 += 1;
                    tokio::task::yield_now().await;
                    let mut counter = counter.lock().unwrap();
                    assert_eq!(counter.0, 1);
                    counter.0 -= 1;
                    counter.1 += 1;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(counter.lock().unwrap().1, 20);
        assert!(locks.is_empty());
    }
}
