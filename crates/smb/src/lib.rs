//! SMB 2.1 to 3.1.1 (MS-SMB2) over the files of [`vfs`].
//!
//! [`server`] implements SMB as a protocol of [`transport`]: it frames, decrypts and encrypts messages, and runs the
//! commands of a compound in order. Share modes, deletion and caching are claims of [`vfs::claims`]: this crate
//! represents them and decides nothing about them.
//!
//! Layers, top down: `fuzz`, `server`, `commands`, `pipes`, `request`, `state`, `metadata`, `framing`, `limits`,
//! `status`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod commands;
mod framing;
pub mod fuzz;
pub mod limits;
mod metadata;
mod pipes;
mod request;
pub mod server;
mod state;
mod status;

pub use state::tree::PROTOCOL;
pub use state::{persistent, service};
