//! The files of a volume with its quota rules and its usage by owner. docs/formats/quotas.md draws the bytes.

use crate::error::refused;
use crate::ffi::{Inode, SetMask, Statx};
use crate::space::VolumeDir;
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::CStr;
use std::sync::Arc;
use storage::OwnerStore;
use vfs::{FsError, FsResult};

const TABLE: &CStr = c"quotas";
const RULES: &CStr = c"quotas.rules";
const RULES_DRAFT: &CStr = c"quotas.rules.new";
/// More than any volume has: a larger file is not read.
const FILE_BYTES_MAX: u64 = 1 << 30;

pub(crate) struct OwnerFiles {
    dir: Arc<VolumeDir>,
    /// The table as it was last written: a flush through a later connection would not cover that.
    written: Cell<Option<Inode>>,
}

impl OwnerFiles {
    pub(crate) fn new(dir: &Arc<VolumeDir>) -> Self {
        Self { dir: Arc::clone(dir), written: Cell::default() }
    }

    /// `None` if there is no such file.
    fn find(&self, name: &CStr) -> FsResult<Option<Inode>> {
        match self.dir.inode()?.lookup(name) {
            Ok((inode, _)) => Ok(Some(inode)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }

    fn table(&self) -> FsResult<Inode> {
        self.find(TABLE)?.ok_or(FsError::Io)
    }
}

impl OwnerStore for OwnerFiles {
    fn open_table(&mut self, creates: bool) -> FsResult<bool> {
        if self.find(TABLE)?.is_some() {
            return Ok(true);
        }
        if creates {
            let dir = self.dir.inode()?;
            dir.create(TABLE, 0o600, (0, 0)).and_then(|_| dir.sync(false)).map_err(refused)?;
        }
        Ok(creates)
    }

    fn read_table(&self) -> FsResult<Vec<u8>> {
        read(&self.table()?)
    }

    fn write_table(&self, start: &[u8], is_whole: bool) -> FsResult<()> {
        let table = self.table()?;
        write(&table, start)?;
        if is_whole {
            let size = Statx { size: start.len() as u64, ..Statx::default() };
            table.set_attrs(SetMask::SIZE, &size).map_err(refused)?;
        }
        self.written.set(Some(table));
        Ok(())
    }

    fn sync_table(&self) -> FsResult<()> {
        self.written.take().map_or(Ok(()), |table| table.sync(false).map_err(refused))
    }

    fn read_rules(&self) -> FsResult<Option<Vec<u8>>> {
        self.find(RULES)?.map(|rules| read(&rules)).transpose()
    }

    fn replace_rules(&self, bytes: &[u8]) -> FsResult<()> {
        let dir = self.dir.inode()?;
        match dir.unlink(RULES_DRAFT) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(refused(errno)),
        }
        let (draft, _) = dir.create(RULES_DRAFT, 0o600, (0, 0)).map_err(refused)?;
        write(&draft.inode, bytes)?;
        let moved = draft.inode.sync(false).and_then(|()| dir.rename(RULES_DRAFT, &dir, RULES));
        moved.and_then(|()| dir.sync(false)).map_err(refused)
    }
}

fn read(file: &Inode) -> FsResult<Vec<u8>> {
    let size = file.attrs().map_err(refused)?.size;
    let mut bytes = Vec::new();
    if size <= FILE_BYTES_MAX {
        let len = usize::try_from(size).unwrap_or(0);
        file.open(false).and_then(|handle| handle.read(0, len, &mut bytes)).map_err(refused)?;
    }
    Ok(bytes)
}

fn write(file: &Inode, bytes: &[u8]) -> FsResult<()> {
    file.open(true).and_then(|handle| handle.write_all(0, bytes)).map_err(refused)
}
