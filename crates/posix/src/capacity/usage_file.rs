//! The file with the capacity and usage of a volume between two runs. docs/formats/usage-file.md draws the bytes.

use crate::error::refused;
use rustix::fs::{FlockOperation, Mode, OFlags, fdatasync, flock, openat};
use rustix::io::{Errno, pread, pwrite};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vfs::{Capacity, FsError, FsResult, Usage};

const VERSION: u8 = 3;
/// The version before snapshots.
const VERSION_LIVE_ONLY: u8 = 2;
const BYTES_LIVE_ONLY: usize = 40;
/// The version that counted only the sizes of regular files: its usage is too low.
const VERSION_SIZES_ONLY: u8 = 1;
const IN_USE: u8 = 0;
const CLEAN: u8 = 1;
const BYTES: usize = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsageRecord {
    /// The usage is exact; otherwise it is the last known usage.
    pub(crate) is_clean: bool,
    pub(crate) capacity: Capacity,
    pub(crate) usage: Usage,
    /// The part of the bytes that only snapshots need.
    pub(crate) held: u64,
}

/// An open usage file, locked against other processes.
pub(crate) struct UsageFile(OwnedFd);

impl UsageFile {
    /// Opens or creates `name` in `dir`. Waits for the lock: a volume that is being closed still holds it.
    pub(crate) fn open(dir: BorrowedFd<'_>, name: &str) -> FsResult<Self> {
        open_locked(dir, name).map(Self)
    }

    /// Reads `name` in `dir` without the lock; `None` if there is no such file or its contents are invalid.
    pub(crate) fn peek(dir: BorrowedFd<'_>, name: &str) -> FsResult<Option<UsageRecord>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match openat(dir, name, flags, Mode::empty()) {
            Ok(file) => Self(file).read(),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }

    /// `None` if the file is new or its contents are invalid.
    pub(crate) fn read(&self) -> FsResult<Option<UsageRecord>> {
        let mut bytes = [0; BYTES + 1];
        let read = pread(&self.0, &mut bytes[..], 0).map_err(refused)?;
        Ok(decode(&bytes[..read]))
    }

    /// Writes `entry` durably. In place: the write must succeed on a full disk, and 48 bytes at the start of a sector
    /// reach the disk all or not at all.
    pub(crate) fn write(&self, entry: &UsageRecord) -> FsResult<()> {
        self.write_lazily(entry)?;
        fdatasync(&self.0).map_err(refused)
    }

    /// [`UsageFile::write`] without waiting for the disk.
    pub(crate) fn write_lazily(&self, entry: &UsageRecord) -> FsResult<()> {
        match pwrite(&self.0, &encode(entry), 0) {
            Ok(BYTES) => Ok(()),
            Ok(_) => Err(FsError::NoSpace),
            Err(errno) => Err(refused(errno)),
        }
    }
}

/// Opens or creates `name` in `dir`, and waits for its lock.
pub(super) fn open_locked(dir: impl AsFd, name: &str) -> FsResult<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(dir, name, flags, Mode::RUSR | Mode::WUSR).map_err(refused)?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            done => return done.map(|()| file).map_err(refused),
        }
    }
}

fn encode(entry: &UsageRecord) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..2].copy_from_slice(&[VERSION, if entry.is_clean { CLEAN } else { IN_USE }]);
    let UsageRecord { capacity, usage, held, .. } = entry;
    let numbers = [capacity.bytes, capacity.files, usage.bytes, usage.files, *held];
    for (place, number) in bytes[8..].as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
        *place = number.to_be_bytes();
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<UsageRecord> {
    let [version, state @ (IN_USE | CLEAN), 0, 0, 0, 0, 0, 0, numbers @ ..] = bytes else { return None };
    let len = match *version {
        VERSION => BYTES,
        VERSION_SIZES_ONLY | VERSION_LIVE_ONLY => BYTES_LIVE_ONLY,
        _ => return None,
    };
    if bytes.len() != len {
        return None;
    }
    let mut numbers = numbers.as_chunks::<8>().0.iter().map(|number| u64::from_be_bytes(*number));
    let mut next = || numbers.next();
    let [capacity_bytes, capacity_files, bytes, files] = [next()?, next()?, next()?, next()?];
    Some(UsageRecord {
        is_clean: *state == CLEAN && *version != VERSION_SIZES_ONLY,
        capacity: Capacity { bytes: capacity_bytes, files: capacity_files },
        usage: Usage { bytes, files },
        held: next().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_file_bytes_match_format() {
        let entry = UsageRecord {
            is_clean: true,
            capacity: Capacity { bytes: 0x0102_0304_0506_0708, files: 9 },
            usage: Usage { bytes: 0x1000, files: 2 },
            held: 3,
        };
        let bytes = encode(&entry);
        assert_eq!(bytes[..16], [3, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(
            bytes[16..],
            [
                [0, 0, 0, 0, 0, 0, 0, 9],
                [0, 0, 0, 0, 0, 0, 16, 0],
                [0, 0, 0, 0, 0, 0, 0, 2],
                [0, 0, 0, 0, 0, 0, 0, 3]
            ]
            .concat()
        );
        assert_eq!(decode(&bytes), Some(entry));
        let in_use = UsageRecord { is_clean: false, ..entry };
        assert_eq!(decode(&encode(&in_use)), Some(in_use));
        let mut earlier = encode(&entry)[..BYTES_LIVE_ONLY].to_vec();
        earlier[0] = VERSION_LIVE_ONLY;
        assert_eq!(decode(&earlier), Some(UsageRecord { held: 0, ..entry }));
        earlier[0] = VERSION_SIZES_ONLY;
        let recounted = UsageRecord { held: 0, ..in_use };
        assert_eq!(decode(&earlier), Some(recounted), "what an earlier version counted is counted again");
        assert_eq!(decode(&encode(&entry)[..BYTES_LIVE_ONLY]), None);
        assert_eq!(decode(&[0; BYTES]), None, "a later version, or an empty file, is not guessed at");
    }
}
