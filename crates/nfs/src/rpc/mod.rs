//! ONC RPC version 2, RFC 5531.
//!
//! [`server`] is RPC as a protocol of [`transport`]: [`record`] finds the calls in what was received, [`dispatch`] the
//! procedures, [`demand`] what they must pay, [`replay`] what was done before; `compounds` has calls of version 4, [`reply`] writes the headers of replies; [`tls`]
//! is asked for by a call. [`udp`] answers calls in datagrams, without a server.

mod compounds;
pub(crate) mod demand;
pub mod dispatch;
pub(crate) mod programs;
mod put_off;
mod record;
pub mod replay;
pub mod reply;
pub mod server;
pub mod tls;
pub mod udp;
