//! A record: the attributes of a file before its first change under a label, and blocks that were replaced since.
//!
//! Extended attributes lie on the record as they lay on the file. docs/formats/undo-store.md draws the bytes.

use super::{BlockSet, Method, Undo, damaged, data, record_name, whole, whole_name};
use crate::error::refused;
use crate::sys::{open_existing, proc_path};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, XattrFlags, fgetxattr, flistxattr, fsetxattr, ftruncate, getxattr, linkat,
    listxattr, openat,
};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use vfs::{Attrs, Device, FileKey, FileType, FsError, FsResult, Time, ViewId};

/// The attribute of a record with the attributes of the file.
const META: [&str; 2] = ["trusted.plimsoll.undo", "user.plimsoll.undo"];
/// The POSIX ACLs of the file, which would change the rights of the record under their own names.
const ACLS: [(&str, &str); 2] = [
    ("system.posix_acl_access", "trusted.plimsoll.undo-acl-access"),
    ("system.posix_acl_default", "trusted.plimsoll.undo-acl-default"),
];
const VERSION: u8 = 1;
const FIXED_BYTES: usize = 112;
const VALUE_BYTES_MAX: usize = 64 << 10;
const TYPES: [FileType; 7] = [
    FileType::Regular,
    FileType::Directory,
    FileType::Symlink,
    FileType::Block,
    FileType::Character,
    FileType::Fifo,
    FileType::Socket,
];

/// The state of a file apart from data and extended attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordMeta {
    pub(crate) attrs: Attrs,
    /// The parent of a directory, or the target of a symbolic link.
    pub(crate) rest: Vec<u8>,
}

impl RecordMeta {
    fn encode(&self) -> Vec<u8> {
        let Attrs { mode, links, uid, gid, size, used, device, file_id, change, .. } = self.attrs;
        let place = TYPES.iter().position(|one| *one == self.attrs.file_type).unwrap_or(0);
        let mut bytes =
            vec![VERSION, u8::try_from(place).unwrap_or(0), u8::from(self.attrs.born.is_some()), 0];
        [mode, links, uid, gid, device.major, device.minor]
            .into_iter()
            .for_each(|number| bytes.extend(number.to_be_bytes()));
        [size, used, file_id, change].into_iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        let Attrs { accessed, modified, changed, born, .. } = self.attrs;
        for Time { seconds, nanos } in [accessed, modified, changed, born.unwrap_or_default()] {
            bytes.extend(seconds.to_be_bytes());
            bytes.extend(nanos.to_be_bytes());
        }
        // Up to a multiple of eight.
        bytes.resize(FIXED_BYTES, 0);
        bytes.extend_from_slice(&self.rest);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_at_checked(FIXED_BYTES)?;
        let [VERSION, place, has_born, 0, numbers @ ..] = fixed else { return None };
        let (small, numbers) = numbers.split_at_checked(24)?;
        let (large, times) = numbers.split_at_checked(32)?;
        let [mode, links, uid, gid, major, minor] =
            <[[u8; 4]; 6]>::try_from(small.as_chunks().0).ok()?.map(u32::from_be_bytes);
        let [size, used, file_id, change] =
            <[[u8; 8]; 4]>::try_from(large.as_chunks().0).ok()?.map(u64::from_be_bytes);
        let time = |bytes: &[u8; 12]| {
            let (seconds, nanos) = bytes.split_first_chunk()?;
            let nanos = u32::from_be_bytes(nanos.try_into().ok()?);
            (nanos < 1_000_000_000).then_some(Time { seconds: i64::from_be_bytes(*seconds), nanos })
        };
        let [accessed, modified, changed, born] =
            <[[u8; 12]; 4]>::try_from(&times.as_chunks().0[..4]).ok()?;
        let attrs = Attrs {
            file_type: *TYPES.get(usize::from(*place))?,
            mode,
            links,
            uid,
            gid,
            size,
            used,
            device: Device { major, minor },
            file_id,
            accessed: time(&accessed)?,
            modified: time(&modified)?,
            changed: time(&changed)?,
            change,
            born: if *has_born == 1 { Some(time(&born)?) } else { None },
            view: ViewId::LIVE,
        };
        Some(Self { attrs, rest: rest.to_vec() })
    }
}

/// An open record.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) fd: Arc<OwnedFd>,
    /// The blocks that it has with their holes.
    pub(crate) whole: Arc<BlockSet>,
}

impl Record {
    /// Opens the record of a label in a file's directory; `None` if it does not exist.
    pub(super) fn open(dir: BorrowedFd<'_>, label: ViewId) -> FsResult<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Some(fd) = open_existing(dir, &record_name(label), flags).map_err(refused)? else {
            return Ok(None);
        };
        Ok(Some(Self { fd: Arc::new(fd), whole: Arc::new(whole::read(dir, &whole_name(label))?) }))
    }

    /// The number of blocks that the file had. A record needs no others.
    pub(crate) fn blocks_max(&self, unit: u64) -> FsResult<u64> {
        Ok(self.meta()?.attrs.size.div_ceil(unit))
    }

    /// The parts of a range of blocks that are not preserved here.
    pub(super) fn missing(&self, blocks: &Range<u64>, unit: u64) -> FsResult<Vec<Range<u64>>> {
        let mut preserved = BlockSet::clone(&self.whole);
        data::preserved(self, blocks.clone(), unit)?.into_iter().for_each(|range| preserved.add(range));
        Ok(preserved.missing(blocks))
    }

    pub(crate) fn meta(&self) -> FsResult<RecordMeta> {
        let mut value = vec![0; VALUE_BYTES_MAX];
        let read = META.iter().find_map(|name| match fgetxattr(&self.fd, *name, &mut value[..]) {
            Err(Errno::NODATA) => None,
            read => Some(read),
        });
        let len = read.ok_or_else(damaged)?.map_err(refused)?;
        RecordMeta::decode(&value[..len]).ok_or_else(damaged)
    }

    /// The POSIX ACL of the file, as the kernel encodes it.
    pub(crate) fn acl(&self, is_default: bool) -> FsResult<Option<Vec<u8>>> {
        let mut value = vec![0; VALUE_BYTES_MAX];
        match fgetxattr(&self.fd, ACLS[usize::from(is_default)].1, &mut value[..]) {
            Ok(len) => {
                value.truncate(len);
                Ok(Some(value))
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }
}

impl Undo {
    /// The record of a file under a label; `None` if the file has not changed since.
    pub(crate) fn record(&self, key: &FileKey, label: ViewId) -> FsResult<Option<Record>> {
        match self.key_dir(key)? {
            Some(dir) => Record::open(dir.as_fd(), label),
            None => Ok(None),
        }
    }

    /// Notes, durably, that a file's record of a label has these blocks with their holes.
    pub(crate) fn add_whole(&self, key: &FileKey, label: ViewId, blocks: Range<u64>) -> FsResult<()> {
        let dir = self.key_dir(key)?.ok_or_else(damaged)?;
        whole::append(dir.as_fd(), &whole_name(label), &[blocks])
    }

    /// The parts of a range of blocks that a record does not have.
    pub(crate) fn missing_blocks(&self, record: &Record, blocks: &Range<u64>) -> FsResult<Vec<Range<u64>>> {
        record.missing(blocks, self.unit)
    }

    /// Makes the record of a file, unless it exists. `file` is the file, open in any way, for its extended attributes.
    /// Returns the record, and whether it is new.
    pub(crate) fn make_record(
        &self,
        key: &FileKey,
        label: ViewId,
        file: BorrowedFd<'_>,
        meta: impl FnOnce() -> FsResult<RecordMeta>,
    ) -> FsResult<(Record, bool)> {
        if let Some(record) = self.record(key, label)? {
            return Ok((record, false));
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let draft = openat(&self.records, ".", flags, Mode::RUSR | Mode::WUSR).map_err(refused)?;
        copy_xattrs(file, draft.as_fd())?;
        let meta = meta()?;
        set_meta(draft.as_fd(), &meta.encode())?;
        // All whole blocks: a record never grows by more than the last block. XFS writes when a file with a part of a
        // block at its end grows, and holes near blocks that are written count as data once they are read. It also clears
        // what a killed process has shared behind the end.
        let whole_blocks = meta.attrs.size - meta.attrs.size % self.unit;
        if meta.attrs.file_type == FileType::Regular && self.method == Method::Share && whole_blocks > 0 {
            ftruncate(&draft, whole_blocks).map_err(refused)?;
        }
        let linked = self.in_key_dir(key, |dir| {
            linkat(CWD, proc_path(draft.as_fd()), dir, record_name(label), AtFlags::SYMLINK_FOLLOW)
        });
        match linked {
            Ok(()) => Ok((Record { fd: Arc::new(draft), whole: Arc::default() }, true)),
            // Another change of the same file was first. Both have the state before either.
            Err(FsError::Exists) => Ok((self.record(key, label)?.ok_or_else(damaged)?, false)),
            Err(error) => Err(error),
        }
    }
}

fn set_meta(record: BorrowedFd<'_>, value: &[u8]) -> FsResult<()> {
    let set = |name| fsetxattr(record, name, value, XattrFlags::CREATE);
    match set(META[0]) {
        Err(Errno::PERM | Errno::OPNOTSUPP) => set(META[1]),
        done => done,
    }
    .map_err(refused)
}

/// Copies the extended attributes and ACLs of a file to its record.
fn copy_xattrs(file: BorrowedFd<'_>, record: BorrowedFd<'_>) -> FsResult<()> {
    let path = proc_path(file);
    let mut names = vec![0; VALUE_BYTES_MAX];
    let listed = match flistxattr(file, &mut names[..]) {
        // An O_PATH descriptor.
        Err(Errno::BADF) => listxattr(&*path, &mut names[..]),
        listed => listed,
    };
    let len = match listed {
        Ok(len) => len,
        Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => 0,
        Err(errno) => return Err(refused(errno)),
    };
    let mut value = Vec::new();
    for name in names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let acl = ACLS.iter().find(|(acl, _)| acl.as_bytes() == name);
        let target = match acl {
            Some((_, target)) => target.as_bytes(),
            None if name.starts_with(b"user.") || name.starts_with(b"trusted.") => name,
            None => continue,
        };
        value.resize(VALUE_BYTES_MAX, 0);
        let read = match fgetxattr(file, name, &mut value[..]) {
            Err(Errno::BADF) => getxattr(&*path, name, &mut value[..]),
            read => read,
        };
        match read {
            Ok(len) => {
                fsetxattr(record, target, &value[..len], XattrFlags::CREATE).map_err(refused)?;
            }
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(refused(errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_bytes_decode_to_their_parts() {
        let time = |seconds| Time { seconds, nanos: 5 };
        let attrs = Attrs {
            file_type: FileType::Symlink,
            mode: 0o4755,
            links: 2,
            uid: 3,
            gid: 4,
            size: 5,
            used: 6,
            device: Device { major: 7, minor: 8 },
            file_id: 9,
            accessed: time(10),
            modified: time(-11),
            changed: time(12),
            change: 13,
            born: None,
            view: ViewId::LIVE,
        };
        for born in [None, Some(time(14))] {
            let meta = RecordMeta { attrs: Attrs { born, ..attrs }, rest: b"target".to_vec() };
            let bytes = meta.encode();
            assert_eq!((bytes.len(), bytes[0]), (FIXED_BYTES + 6, VERSION));
            assert_eq!(RecordMeta::decode(&bytes), Some(meta));
            let later = [&[VERSION + 1], &bytes[1..]].concat();
            assert_eq!(RecordMeta::decode(&later), None, "a later version is not guessed at");
            assert_eq!(RecordMeta::decode(&bytes[..FIXED_BYTES - 1]), None);
        }
    }
}
