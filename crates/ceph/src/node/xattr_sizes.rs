//! The sizes of extended attributes, for which a volume is charged.

use crate::ffi::Inode;
use rustix::io::Errno;
use std::ffi::CString;
use vfs::backend::charge;

pub(super) const PREFIX: &[u8] = b"user.";
/// The class of our own attributes: clients of CephFS see them only as superuser.
pub(super) const TRUSTED: &[u8] = b"trusted.";

/// The charge of the extended attributes of a file or directory.
pub(crate) fn xattrs_charged(inode: &Inode) -> Result<u64, Errno> {
    let mut charge = charge::Xattrs::default();
    for (name, len) in lengths(inode)? {
        charge.add(strip_class(&name).len(), len);
    }
    Ok(charge.bytes())
}

/// The names and value lengths of the attributes that this service sets. The others belong to the engine.
pub(super) fn lengths(inode: &Inode) -> Result<Vec<(Vec<u8>, usize)>, Errno> {
    let names = inode.xattr_names()?;
    let mut lengths = Vec::new();
    for name in names.split(|&byte| byte == 0) {
        if !name.starts_with(PREFIX) && !name.starts_with(TRUSTED) {
            continue;
        }
        match inode.xattr(&CString::new(name).map_err(|_| Errno::INVAL)?, &mut []) {
            Ok(len) => lengths.push((name.to_vec(), len)),
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(lengths)
}

pub(super) fn strip_class(name: &[u8]) -> &[u8] {
    name.strip_prefix(PREFIX).or_else(|| name.strip_prefix(TRUSTED)).unwrap_or(name)
}
