//! SMB 3.1.1 as a client speaks it.
//!
//! - [`channel`]: what a connection has once it is set up: message ids, credits, keys.
//! - [`session`]: how it comes to that, and one request at a time.
//! - [`requests`]: the requests of loads and of their set-up.

mod channel;
pub(crate) mod requests;
mod session;

pub(crate) use channel::{Channel, Request, charge};
pub(crate) use session::Session;
