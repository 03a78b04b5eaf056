//! WRITE calls longer than a receive buffer: the data is written as it arrives.

pub(crate) mod nfs3;
pub(crate) mod nfs4;
