//! Connections for any protocol: bytes in, whole messages, calls answered now or later, replies gathered, back-pressure.
//!
//! [`Server`] listens and starts the threads. An event loop ([`event_loop`]) receives; [`inbound`] finds what to do with the
//! bytes; [`runner`] has the [`Protocol`] plan and run calls; what must wait goes to a storage thread as a [`job`], or the
//! thread gets the whole connection for a while ([`lease`]). [`outbox`] gathers replies and [`connection`] sends them. This
//! crate knows no protocol; of files it knows volumes, which count what is done and whose limits calls must pass.
//!
//! Layers, top down: `event_loop`, `clients`.

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
mod handshake;
mod inbound;
mod job;
mod kernel_tls;
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
mod resources;
mod runner;
mod server;
mod settings;
mod shared;
mod stall;
mod tail;
pub mod tls;
mod transform;
mod upload;
mod yielding;

pub use connection::Connection;
pub use context::{Context, Late};
pub use counters::CallStats;
pub use data::{ReadData, ReadRange, Splice, read_data};
pub use listeners::Listeners;
pub use message::{Body, Dispatch, Endpoints, Frame, Malformed, PartData, Role};
pub use outbox::{Outbox, Start};
pub use parking::{Parked, Parking};
pub use pipe::{Pipe, limit_pipes};
pub use protocol::{Plan, Progress, Protocol};
pub use registry::{Client, Users};
pub use server::{Server, Stats, View};
pub use settings::{Descriptors, Settings};
pub use transform::{HandOver, Opened, Transform};
pub use yielding::Yielding;
