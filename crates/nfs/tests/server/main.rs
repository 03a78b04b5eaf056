//! The server over real sockets.

#[path = "../support/mod.rs"]
mod support;

mod caches;
mod compounds;
mod crowds;
mod deadline;
mod delegations;
mod durability;
mod endpoints;
mod lifetime;
mod limits;
mod locks;
mod neighbors;
mod quotas;
mod reads;
mod records;
mod replay;
mod strangers;
mod v40;
