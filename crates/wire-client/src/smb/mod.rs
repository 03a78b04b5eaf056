//! SMB 3.1.1 as a client speaks it.
//!
//! - [`channel`]: the state of a connection after its set-up: message ids, credits, keys.
//! - [`session`]: set-up of a connection, and one request at a time.
//! - [`requests`]: requests with the fields that clients set.
//! - [`call`]: the requests of a [`Call`](crate::call::Call), and the responses to them.

pub mod call;
pub mod channel;
mod client;
pub mod requests;
mod responses;
pub mod session;

pub(crate) use client::Smb;
