//! Sessions: their names, their states, what they are given, how many there
//! may be and for how long.
//!
//! Owns: the pool, and the one function that changes a session's state.
//! Never: starts or ends a process.

mod clock;
mod entry;
mod environment;
mod error;
mod expiry;
mod ids;
mod pool;
mod state;
mod timeout;

pub use clock::{Clock, Moment, SystemClock};
pub use entry::{CommandTurn, Session, SessionParameters};
pub(crate) use environment::{OWN, is_name};
pub use environment::{check_variables, merge, without_own};
pub use error::PoolError;
pub use expiry::{Expiry, Lifetimes, expiry};
pub use ids::SessionId;
pub use pool::SessionPool;
pub use state::{SessionEvent, SessionState, TransitionError, transition};
pub use timeout::{TimeoutError, command_timeout, read_timeout};
