//! SMB 2.1 to 3.1.1 (MS-SMB2) over the files of [`vfs`].
//!
//! [`server`] is SMB as a protocol of [`transport`]: it frames messages, opens and seals what is encrypted, and hands chains of
//! commands on. A `chain` does them one after the other by the `table` of commands; the commands are grouped by
//! family as those of NFS are. What a client has lies in its `connection`, its `session`s, `tree` connects and `open`s.
//! Share modes, deletion and caches are claims of [`vfs::claims`]: this crate represents them, and decides nothing of them.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod attempts;
mod attr;
mod breaks;
mod chain;
mod channel;
mod connect;
mod connection;
mod copying;
mod counts;
mod create;
mod credits;
mod descriptor;
mod dir;
mod durable;
mod ea;
mod endings;
mod file;
mod frame;
pub mod fuzz;
mod heads;
mod holder;
mod ioctl;
mod ipc;
mod keys;
mod later;
mod leases;
pub mod limits;
mod list;
mod lock;
mod lock_sequences;
mod name_locks;
mod names;
mod negotiate;
mod negotiated;
mod nonces;
mod notify;
mod numbered;
mod open;
mod opened;
mod oplock;
mod ops;
mod payload;
pub mod persistent;
mod pipe;
mod posix;
mod price;
mod scan;
mod sequence;
pub mod server;
pub mod service;
mod session;
mod setattr;
mod setup;
mod setups;
mod shown;
mod signatures;
mod status;
mod table;
mod tree;
mod turn;
mod users;
mod watching;

pub use tree::PROTOCOL;
