//! The port mapper and rpcbind, RFC 1833.

pub mod wire;
