//! Programs that serve over their standard streams: listened to within bounds,
//! started again after a pause, ended with all they started, also when this
//! program is killed. Nothing here knows a protocol.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use halter_exec::Environment;
//! use halter_exec::supervise::{Program, ProgramSettings};
//!
//! let mut started = Program::start(&ProgramSettings {
//!     program: "/bin/cat".into(),
//!     arguments: Vec::new(),
//!     environment: Environment::new(),
//!     directory: "/".into(),
//!     sandbox: None,
//! })?;
//! started.input.write(b"hello\n").await?;
//! let line = started.output.next_line(100).await.unwrap();
//! assert_eq!(line.as_deref(), Some("hello".as_bytes()));
//! drop(started.input);
//! started.program.stop().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod backoff;
mod guard;
mod program;

pub use backoff::Backoff;
pub use guard::Guard;
pub use program::{
    LastWords, LineTooLong, Program, ProgramInput, ProgramOutput, ProgramSettings, Started,
};
