//! ONC RPC version 2 over TCP, RFC 5531.
//!
//! A call's way: [`server`] accepts, [`event_loop`] receives, [`record`] finds the calls, [`dispatch`] the procedure;
//! what must wait goes through [`pool`] as a [`job`]; [`reply`] gathers, [`connection`] sends.

pub(crate) mod admission;
mod buffer;
mod clients;
mod congestion;
mod connection;
pub mod dispatch;
mod event_loop;
mod job;
mod lease;
mod limit_queue;
mod pacing;
pub(crate) mod pipe;
mod pool;
pub mod record;
mod registry;
pub mod replay;
pub mod reply;
pub mod server;
mod stream;
