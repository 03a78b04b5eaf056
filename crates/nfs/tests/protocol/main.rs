//! The protocol without sockets: literal requests in, literal replies out (RFC 1813, RFC 5531).

#[path = "../support/mod.rs"]
mod support;

mod access;
mod acls;
mod attr;
mod cache;
mod data;
mod exports;
mod fs;
mod handles;
mod listing;
mod making;
mod names;
mod removing;
mod rpc;
mod snapshot_attacks;
mod snapshots;
