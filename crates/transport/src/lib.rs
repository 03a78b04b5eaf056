//! Connections for any protocol: whole messages, immediate and deferred replies, gathered sends, back-pressure.
//!
//! [`Server`] listens and starts the threads. An event loop ([`event_loop`]) receives. [`inbound`] decides about the
//! bytes. [`runner`] has the [`Protocol`] plan and run calls. A call that waits for storage becomes a [`job`] of a
//! storage thread, or the thread leases the whole connection ([`lease`]). [`outbox`] gathers replies and [`connection`]
//! sends them. This crate knows no protocol. It knows volumes, which count calls and limit them.
//!
//! Layers, top down: `event_loop`, `tls`, `clients`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod admission;
mod assembly;
mod buffer;
mod clients;
pub mod clock;
mod congestion;
mod connection;
mod context;
mod counters;
mod data;
mod event_loop;
mod eviction_queue;
mod inbound;
mod job;
mod lease;
pub mod limits;
mod listeners;
mod long_reply;
mod mailbox;
mod message;
mod outbox;
mod pacing;
mod parking;
mod pipe;
mod pool;
mod protocol;
mod queue;
mod registry;
mod reply_deadline;
mod resources;
mod runner;
mod server;
mod settings;
mod shared;
mod stall;
mod tail;
pub mod tls;
mod upload;

pub use connection::Connection;
pub use context::{Context, DeferredReply};
pub use counters::CallStats;
pub use data::{ReadData, ReadRange, Splice, read_data};
pub use eviction_queue::EvictionQueue;
pub use listeners::Listeners;
pub use message::{Body, ConnectionEnds, Dispatch, Endpoints, Frame, Malformed, PartData, Role};
pub use outbox::{Outbox, Start};
pub use parking::{Parked, Parking};
pub use pipe::{Pipe, limit_pipes};
pub use protocol::{Plan, Progress, Protocol};
pub use registry::{Client, VolumeConnections};
pub use reply_deadline::{ReplyDeadline, ReplyLease};
pub use server::{Server, Stats, View};
pub use settings::{Descriptors, Settings};
pub use tls::transform::{KernelOffload, Plaintext, Transform};
