//! What a persistent shell is, and what it is given to do.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::report::ShellOption;
use crate::environment::Environment;
use crate::limits::DEFAULT_GRACE;
use crate::output::OutputLimits;
use crate::pause::DeadlinePause;
use crate::process::Stdin;

/// How a persistent shell is started.
#[derive(Debug, Clone)]
pub struct ShellConfig {
    /// The shell; `None` for `bash`, or `sh` where there is none, from the
    /// environment's `PATH`. A program not called `bash` is mentioned to in
    /// POSIX shell language.
    pub program: Option<PathBuf>,
    /// All the variables the shell starts with.
    pub environment: Environment,
    /// The directory it starts in.
    pub cwd: PathBuf,
    /// The options it starts with.
    pub options: BTreeSet<ShellOption>,
}

impl ShellConfig {
    /// The default shell with this environment in this directory.
    pub fn new(environment: Environment, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: None,
            environment,
            cwd: cwd.into(),
            options: BTreeSet::new(),
        }
    }
}

/// One command for a persistent shell.
#[derive(Clone)]
pub struct ShellCommand {
    /// What the shell evaluates.
    pub text: String,
    /// The directory for this command; relative ones start at the shell's.
    /// Afterwards the shell is back where it was, unless the command itself
    /// went elsewhere. `None` for where the shell is.
    pub cwd: Option<PathBuf>,
    /// Variables for this command only.
    pub environment: Environment,
    /// What it reads.
    pub stdin: Stdin,
    /// How long it may run; `None` for as long as it likes.
    pub deadline: Option<Duration>,
    /// Stops the deadline for a while.
    pub pause: DeadlinePause,
    /// How long it gets between TERM and KILL when it is stopped.
    pub grace: Duration,
    /// How much of its output is kept.
    pub output: OutputLimits,
}

impl ShellCommand {
    /// A command where the shell is: no input, no deadline, default bounds.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            cwd: None,
            environment: Environment::new(),
            stdin: Stdin::Null,
            deadline: None,
            pause: DeadlinePause::default(),
            grace: DEFAULT_GRACE,
            output: OutputLimits::default(),
        }
    }
}

impl fmt::Debug for ShellCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ShellCommand")
            .field("text", &format_args!("({} bytes)", self.text.len()))
            .field("cwd", &self.cwd)
            .field("environment", &self.environment)
            .field("stdin", &self.stdin)
            .field("deadline", &self.deadline)
            .field("grace", &self.grace)
            .field("output", &self.output)
            .finish()
    }
}
