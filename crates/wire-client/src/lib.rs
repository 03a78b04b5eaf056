//! NFS and SMB as clients speak them, for load generators, tools and tests.
//!
//! [`Client`] makes one call at a time and waits for it. A program that keeps many calls in flight drives its
//! connections itself: `Call` and the `call` module of each protocol encode its calls and decode the replies.
//!
//! Layers, top down: `client`, `nfs3`, `nfs4`, `smb`, `call`, `rpc`, `object`, `target`, `error`.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod call;
mod client;
mod error;
pub mod nfs3;
pub mod nfs4;
mod object;
mod rpc;
pub mod smb;
mod target;

pub use client::Client;
pub use error::{Error, is_denial, refusal};
pub use object::{Attributes, Chunk, DirEntry, Handle, Space, TransferLimits, WriteResult};
pub use rpc::{Connection, Identity, first_xid};
pub use target::{Protection, Target, Version};
