//! The state of a file as libcephfs has it, and its key.

use crate::ffi::{Statx, TimeSpec};
use rustix::fs::{major, minor};
use std::ffi::CString;
use vfs::model::attrs::MODE_BITS;
use vfs::volume::streams::dir_name;
use vfs::{Attrs, Device, FileKey, FileType, FsError, FsResult, Time};

/// Form tag of a key: inode number and birth time. docs/formats/file-key.md draws the bytes.
const FORM_CEPH: u8 = 4;
const KEY_BYTES: usize = 21;
/// The unit of `blocks`, in bytes.
const BLOCK_UNIT_BYTES: u64 = 512;

/// The state of a file, with the offset of its change counter read just before.
#[derive(Clone, Copy)]
pub(crate) struct VersionedStat {
    pub(crate) stat: Statx,
    pub(crate) offset: u64,
}

/// The key of a file with this state.
pub(crate) fn key_of(stat: &Statx) -> FsResult<FileKey> {
    let mut bytes = [0; KEY_BYTES];
    bytes[0] = FORM_CEPH;
    bytes[1..9].copy_from_slice(&stat.inode.to_be_bytes());
    bytes[9..17].copy_from_slice(&stat.born.seconds.to_be_bytes());
    bytes[17..].copy_from_slice(&nanos(stat.born).to_be_bytes());
    FileKey::new(&bytes)
}

/// The inode number of a key; [`FsError::BadHandle`] if it is not one of this crate.
pub(crate) fn inode_of(key: &FileKey) -> FsResult<u64> {
    match key.bytes() {
        [FORM_CEPH, rest @ ..] if rest.len() == KEY_BYTES - 1 => {
            let number = rest.first_chunk().ok_or(FsError::BadHandle)?;
            Ok(u64::from_be_bytes(*number))
        }
        _ => Err(FsError::BadHandle),
    }
}

/// The name of a file that a revert has taken out of its volume, in their directory.
pub(crate) fn held_name(key: &FileKey) -> CString {
    CString::new(dir_name(key)).unwrap_or_default()
}

pub(crate) fn file_type(stat: &Statx) -> FsResult<FileType> {
    Ok(match u32::from(stat.mode) & libc::S_IFMT {
        libc::S_IFREG => FileType::Regular,
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFBLK => FileType::Block,
        libc::S_IFCHR => FileType::Character,
        libc::S_IFIFO => FileType::Fifo,
        libc::S_IFSOCK => FileType::Socket,
        _ => return Err(FsError::BadType),
    })
}

pub(crate) fn time(time: TimeSpec) -> Time {
    Time { seconds: time.seconds, nanos: nanos(time) }
}

pub(crate) fn time_spec(time: Time) -> TimeSpec {
    TimeSpec { seconds: time.seconds, nanos: time.nanos.into() }
}

fn nanos(time: TimeSpec) -> u32 {
    u32::try_from(time.nanos).unwrap_or(0)
}

impl VersionedStat {
    pub(crate) fn attrs(&self) -> FsResult<Attrs> {
        let Self { stat, offset } = self;
        let file_type = file_type(stat)?;
        let device = match file_type {
            FileType::Block | FileType::Character => {
                Device { major: major(stat.special_device), minor: minor(stat.special_device) }
            }
            _ => Device::default(),
        };
        Ok(Attrs {
            file_type,
            mode: u32::from(stat.mode) & MODE_BITS,
            links: stat.links,
            uid: stat.uid,
            gid: stat.gid,
            size: stat.size,
            used: stat.blocks * BLOCK_UNIT_BYTES,
            device,
            file_id: stat.inode,
            accessed: time(stat.accessed),
            modified: time(stat.modified),
            changed: time(stat.changed),
            change: stat.version.wrapping_add(*offset),
            born: Some(time(stat.born)),
            view: vfs::ViewId::LIVE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_inode_and_birth_time() {
        let born = TimeSpec { seconds: 2, nanos: 3 };
        let stat = Statx { inode: 0x0100_0000_03e9, born, ..Statx::default() };
        let key = key_of(&stat).unwrap();
        assert_eq!(key.bytes(), [4, 0, 0, 1, 0, 0, 0, 3, 0xe9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3]);
        assert_eq!(inode_of(&key), Ok(0x0100_0000_03e9));
        for bytes in [&[4; 20][..], &[4; 22], &[1; 21], &[4]] {
            assert_eq!(inode_of(&FileKey::new(bytes).unwrap()), Err(FsError::BadHandle));
        }
    }
}
