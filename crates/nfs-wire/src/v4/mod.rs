//! NFS version 4 on the wire: 4.0 (RFC 7530), 4.1 (RFC 8881), 4.2 (RFC 7862), extended attributes (RFC 8276), and OPEN
//! arguments and delegated times (RFC 9754). Their descriptions in XDR are RFC 7531, RFC 5662 and RFC 7863.
//!
//! A call of COMPOUND is a [`CompoundHead`] and then, for each operation, an [`Op`] and the body that
//! [`Argument::decode_body`] reads. They are read one after another, because an operation may be refused before later
//! ones are decoded. A reply is a [`CompoundReplyHead`] and then, for each operation that ran, its [`Op`] and its
//! result: a [`Reply`] of the `…Ok`, another union, or the [`Status`] alone. [`OpReply`] is any of them.

use xdr::Xdr;

pub mod attr;
pub mod callback;
mod client40;
mod delegation;
mod dir;
mod file;
mod layout;
mod lock;
mod open;
mod ops;
mod ranges;
mod session;
mod types;
mod xattr;

pub use client40::*;
pub use delegation::*;
pub use dir::*;
pub use file::*;
pub use layout::*;
pub use lock::*;
pub use open::*;
pub use ops::*;
pub use ranges::*;
pub use session::*;
pub use types::*;
pub use xattr::*;

xdr::open_set! {
    /// The procedures, RFC 8881 §16.
    pub struct Procedure { NULL: "NFSPROC4_NULL" = 0, COMPOUND: "NFSPROC4_COMPOUND" = 1 }
}

/// `COMPOUND4args` up to its operations, RFC 8881 §16.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CompoundHead<'a> {
    #[xdr(max = TAG_MAX)]
    pub tag: &'a [u8],
    pub minorversion: u32,
    /// The length of `argarray`: how many operations follow.
    pub operations: u32,
}

/// `COMPOUND4res` up to its results, RFC 8881 §16.2.2. A server that learns `status` and `operations` at the
/// end patches them: the first word, and the last one of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CompoundReplyHead<'a> {
    pub status: Status,
    #[xdr(max = TAG_MAX)]
    pub tag: &'a [u8],
    /// The length of `resarray`: how many results follow.
    pub operations: u32,
}
