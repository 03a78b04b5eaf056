//! NFS error codes: what an error of [`vfs`] is in each protocol.

pub(crate) mod mount;
pub(crate) mod nfs3;
pub(crate) mod nfs4;
pub(crate) mod nlm;
