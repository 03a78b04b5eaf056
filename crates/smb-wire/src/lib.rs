//! The messages of SMB 2.0.2 to 3.1.1 (MS-SMB2) as types, for servers and clients alike.
//!
//! This crate holds constants, types and the bounds of decoding, as specified. It has no server behavior. Decoding
//! never allocates more than a small multiple of the input, and never follows an offset backward.
//!
//! Layers, top down: `classes`, `compression`, `crypto`, `rpc`, `security`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

extern crate self as smb_wire;

pub mod apple;
pub mod chain;
pub mod classes;
pub mod compound;
pub mod compression;
pub mod contexts;
pub mod copy;
pub mod create;
pub mod crypto;
pub mod dir;
pub mod durable;
pub mod ea;
pub mod error;
pub mod file;
pub mod fsctl;
#[doc(hidden)]
pub mod fuzz;
pub mod header;
pub mod info;
pub mod ioctl;
pub mod lease;
pub mod lock;
pub mod negotiate;
pub mod notify;
pub mod oplock;
pub mod posix;
pub mod quota;
pub mod ranges;
mod reader;
pub mod reparse;
pub mod rpc;
pub mod security;
pub mod session;
mod sets;
pub mod smb1;
pub mod snapshots;
pub mod status;
pub mod transform;
pub mod tree;
pub mod types;
mod utf16;
mod value;
mod writer;

pub use reader::{BufferLocation, Malformed, Reader};
pub use smb_wire_derive::Wire;
pub use status::NtStatus;
pub use types::{FileId, FileTime, Guid};
pub use utf16::Utf16;
pub use value::{Decode, DecodeBuffer, Encode, EncodeBuffer, ExternalBuffer, decode_list, encode_list};
pub use writer::{BufferSpan, FieldInt, Writer};
