//! RPC records (RFC 5531 §11) and the headers of replies.

pub(crate) mod mark;
pub mod reply;
