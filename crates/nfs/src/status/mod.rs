//! NFS error codes: the mapping of [`vfs`] errors for each protocol.

pub(crate) mod mount;
pub(crate) mod nfs3;
pub(crate) mod nfs4;
pub(crate) mod nlm;
