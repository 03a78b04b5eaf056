//! The files with the rules of a volume and its usage by owner. docs/formats/quotas.md draws the bytes.

use super::dir_lock::DirLock;
use super::usage_file::open_locked;
use crate::error::refused;
use rustix::fs::{AtFlags, Mode, OFlags, fdatasync, fstat, fsync, ftruncate, openat, renameat, unlinkat};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use storage::OwnerStore;
use vfs::{FsError, FsResult};

/// More than any volume has: a larger file is not read.
const FILE_BYTES_MAX: usize = 1 << 30;

/// Directory and name of a volume's files.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) dir: Arc<OwnedFd>,
    pub(crate) name: String,
}

/// The files of an open volume. The table is locked against other processes while it is open.
pub(crate) struct OwnerFiles {
    place: Place,
    table: Option<OwnedFd>,
    _dir_lock: Arc<DirLock>,
}

impl OwnerFiles {
    pub(crate) fn new(place: Place, dir_lock: Arc<DirLock>) -> Self {
        Self { place, table: None, _dir_lock: dir_lock }
    }

    fn table(&self) -> FsResult<&OwnedFd> {
        self.table.as_ref().ok_or(FsError::Io)
    }
}

impl OwnerStore for OwnerFiles {
    fn open_table(&mut self, creates: bool) -> FsResult<bool> {
        let Place { dir, name } = &self.place;
        if !creates {
            match openat(&**dir, &**name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
                Ok(_) => {}
                Err(Errno::NOENT) => return Ok(false),
                Err(errno) => return Err(refused(errno)),
            }
        }
        // Waits for the lock: a volume that is being closed still holds it.
        self.table = Some(open_locked(dir, name)?);
        Ok(true)
    }

    fn read_table(&self) -> FsResult<Vec<u8>> {
        read(self.table()?)
    }

    fn write_table(&self, start: &[u8], is_whole: bool) -> FsResult<()> {
        write(self.table()?, start, 0)?;
        if is_whole {
            ftruncate(self.table()?, start.len() as u64).map_err(refused)?;
        }
        Ok(())
    }

    fn sync_table(&self) -> FsResult<()> {
        fdatasync(self.table()?).map_err(refused)
    }

    fn read_rules(&self) -> FsResult<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match openat(&*self.place.dir, rules_name(&self.place), flags, Mode::empty()) {
            Ok(file) => read(&file).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }

    fn replace_rules(&self, bytes: &[u8]) -> FsResult<()> {
        let (dir, rules) = (&*self.place.dir, rules_name(&self.place));
        let draft = format!("{rules}.new");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(dir, &*draft, flags, Mode::RUSR | Mode::WUSR).map_err(refused)?;
        write(&file, bytes, 0)?;
        fsync(&file).map_err(refused)?;
        renameat(dir, &*draft, dir, &*rules).map_err(refused)?;
        fsync(dir).map_err(refused)
    }
}

/// Removes the files of a volume.
pub(crate) fn remove(place: &Place) -> FsResult<()> {
    let names = [place.name.clone(), rules_name(place), format!("{}.new", rules_name(place))];
    let mut was_there = false;
    for name in names {
        match unlinkat(&*place.dir, name, AtFlags::empty()) {
            Ok(()) => was_there = true,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(refused(errno)),
        }
    }
    if was_there { fsync(&*place.dir).map_err(refused) } else { Ok(()) }
}

fn rules_name(place: &Place) -> String {
    format!("{}.rules", place.name)
}

fn read(file: &OwnedFd) -> FsResult<Vec<u8>> {
    let size = usize::try_from(fstat(file).map_err(refused)?.st_size).unwrap_or(usize::MAX);
    if size > FILE_BYTES_MAX {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; size];
    let mut done = 0;
    while done < size {
        match retry_on_intr(|| pread(file, &mut bytes[done..], done as u64)).map_err(refused)? {
            0 => break,
            read => done += read,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

fn write(file: &OwnedFd, bytes: &[u8], offset: u64) -> FsResult<()> {
    let mut done = 0;
    while done < bytes.len() {
        match retry_on_intr(|| pwrite(file, &bytes[done..], offset + done as u64)).map_err(refused)? {
            0 => return Err(FsError::NoSpace),
            written => done += written,
        }
    }
    Ok(())
}
