//! Where a child runs between clone and exec.

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ptr;

/// Enough for the few frames between clone and exec.
const STACK_BYTES: usize = 64 * 1024;

thread_local! {
    /// Kept for the thread's next child: making one costs as much as several
    /// system calls, and touching new memory more.
    static KEPT: Cell<Option<ChildStack>> = const { Cell::new(None) };
}

/// Runs `act` with the stack of this thread.
pub(super) fn with_stack<Outcome>(act: impl FnOnce(&ChildStack) -> Outcome) -> io::Result<Outcome> {
    let kept = KEPT.try_with(Cell::take).ok().flatten();
    let stack = kept.map_or_else(ChildStack::new, Ok)?;
    let outcome = act(&stack);
    // A thread that is ending keeps nothing.
    let _ = KEPT.try_with(|place| place.set(Some(stack)));
    Ok(outcome)
}

/// Memory for one child at a time to run on until its exec.
#[derive(Debug)]
pub(super) struct ChildStack {
    base: *mut c_void,
}

impl ChildStack {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: a fresh private anonymous mapping aliases nothing.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                STACK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base })
    }

    pub(super) fn base(&self) -> *mut c_void {
        self.base
    }

    pub(super) fn length(&self) -> usize {
        STACK_BYTES
    }

    pub(super) fn top(&self) -> *mut c_void {
        self.base.wrapping_byte_add(STACK_BYTES)
    }
}

impl Drop for ChildStack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every child has left it: a parent
        // resumes only after its child's exec or exit.
        unsafe { libc::munmap(self.base, STACK_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_one_stack_for_one_child_after_the_other() {
        let base = || with_stack(|stack| stack.base() as usize).unwrap();
        assert_eq!(base(), base());
        let inner = with_stack(|outer| {
            let nested = with_stack(|inner| inner.base() as usize).unwrap();
            assert_ne!(outer.base() as usize, nested);
        });
        inner.unwrap();
    }
}
