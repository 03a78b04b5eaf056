//! The network side of an endpoint: its address, which moves with it, and clients that were connected elsewhere.

mod address;
mod announce;
mod checksum;
mod rtnetlink;
#[cfg(test)]
mod tests;
mod wake_clients;

pub(crate) use address::{AddressMover, EndpointAddress, External, Interface};
pub(crate) use wake_clients::wake_clients;
