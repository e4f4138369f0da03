//! Our side of a connection: what servers may ask of us, what is asked of
//! them, and how one connection begins and ends.

mod call;
mod changes;
mod elicit;
mod form;
mod handler;
mod lists;
mod running;
mod sample;

pub(crate) use call::CallOrders;
pub(crate) use running::{Greeting, Link, Running};
