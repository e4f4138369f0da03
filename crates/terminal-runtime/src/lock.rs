//! Locking without poison: nothing here is left half changed by a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<Value>(mutex: &Mutex<Value>) -> MutexGuard<'_, Value> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
