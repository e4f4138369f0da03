//! Where a child runs between clone and exec.

use std::ffi::c_void;
use std::io;
use std::ptr;

/// Enough for the few frames between clone and exec.
const STACK_BYTES: usize = 64 * 1024;

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
