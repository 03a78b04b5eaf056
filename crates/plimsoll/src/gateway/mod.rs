//! Several gateways in front of one CephFS: the network side of an endpoint that moves between them.

pub(crate) mod address;
mod announce;
mod checksum;
mod rtnetlink;
pub(crate) mod wake_clients;

#[cfg(test)]
mod tests;
