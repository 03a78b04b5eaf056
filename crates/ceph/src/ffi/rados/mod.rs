//! Calls of librados.

#[cfg(test)]
mod abi;
mod client;
mod library;
mod operations;

pub(crate) use client::{Cluster, ConnectError, Pool, Settings};
pub(crate) use operations::{PairReader, WriteOperation, read_data};
