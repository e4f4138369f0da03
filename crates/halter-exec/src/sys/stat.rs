//! What a system says about a process.

/// The parent of everything that runs in the kernel only.
pub(crate) const KERNEL_THREADS: i32 = 2;

/// The facts that identify a process and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub pid: i32,
    pub name: String,
    pub state: char,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// When it was started, in a unit of the system's; with the pid it names
    /// one process for good.
    pub start_time: u64,
}

impl Stat {
    /// Whether the process has ended and only waits to be collected.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// What the environment of a process says about a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnvironmentLook {
    /// It was started with it.
    Has,
    /// It was not, or cannot be looked at.
    Lacks,
    /// It is between two programs: in the middle of an exec a process shows
    /// neither environment nor arguments.
    Unclear,
}
