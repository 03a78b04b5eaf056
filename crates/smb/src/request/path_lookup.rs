//! The directories and names of a path, case-insensitive unless the client asked for POSIX names.

use super::context::Stop;
use crate::metadata::names::locks::NameLock;
use crate::metadata::names::{Naming, folded, to_wire};
use crate::state::service::Service;
use crate::state::tree::Disk;
use smb_wire::NtStatus;
use std::sync::Arc;
use vfs::{Attrs, Blocking, Caller, File, FileType, FsError, FsResult, Resolved};

/// The directory that the last path has led through. What is asked for in one turn came before any of it was done, so each request
/// may find directories as they were when the first did.
#[derive(Default)]
pub(crate) struct Trail(Option<Walked>);

struct Walked {
    disk: Arc<Disk>,
    names: Vec<Vec<u8>>,
    naming: Naming,
    dir: File,
    attrs: Attrs,
    path: Vec<Vec<u8>>,
}

impl Trail {
    /// Directories are to be looked for anew.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    pub(crate) fn descend(
        &mut self,
        disk: &Arc<Disk>,
        names: &[Vec<u8>],
        naming: Naming,
    ) -> Result<(Resolved, Vec<Vec<u8>>), Stop> {
        let is_same =
            |old: &Walked| Arc::ptr_eq(&old.disk, disk) && old.names == names && old.naming == naming;
        if let Some(old) = self.0.as_ref().filter(|old| is_same(old)) {
            return Ok((Resolved { file: old.dir.clone(), attrs: old.attrs }, old.path.clone()));
        }
        let (dir, path) = descend(disk, names, naming)?;
        self.0 = Some(Walked {
            disk: Arc::clone(disk),
            names: names.to_vec(),
            naming,
            dir: dir.file.clone(),
            attrs: dir.attrs,
            path: path.clone(),
        });
        Ok((dir, path))
    }
}

/// The directory in which the last name of a path is, or is to be, and the path to it as it is stored.
pub(crate) fn parent_of(
    disk: &Disk,
    path: &[Vec<u8>],
    naming: Naming,
) -> Result<(Resolved, Vec<Vec<u8>>), Stop> {
    let dirs = path.split_last().map_or(&[][..], |(_, dirs)| dirs);
    descend(disk, dirs, naming)
}

fn descend(disk: &Disk, names: &[Vec<u8>], naming: Naming) -> Result<(Resolved, Vec<Vec<u8>>), Stop> {
    let root = disk.export.root();
    let attrs = root.attrs(Blocking::Allowed)?;
    let (mut dir, mut path) = (Resolved { file: root, attrs }, Vec::with_capacity(names.len() + 1));
    for name in names {
        let (stored, found) = find(&dir, &disk.caller, name, naming).map_err(on_the_way)?;
        if found.attrs.file_type != FileType::Directory {
            return Err(NtStatus::OBJECT_PATH_NOT_FOUND.into());
        }
        dir = found;
        path.push(stored);
    }
    Ok((dir, path))
}

/// What is wrong with a directory on the way.
pub(crate) fn on_the_way(error: FsError) -> Stop {
    match error {
        FsError::NotFound | FsError::NotDirectory | FsError::Stale => NtStatus::OBJECT_PATH_NOT_FOUND.into(),
        error => error.into(),
    }
}

/// What has a name in a directory, and that name as it is stored: spelled like this, or else without case.
pub(crate) fn find(
    dir: &Resolved,
    caller: &Caller,
    name: &[u8],
    naming: Naming,
) -> FsResult<(Vec<u8>, Resolved)> {
    let opened = dir.open_dir(caller, Blocking::Allowed)?;
    match opened.lookup(name, Blocking::Allowed) {
        Err(FsError::NotFound) if naming == Naming::Windows => {}
        found => return Ok((name.to_vec(), found?)),
    }
    let stored = dir.file.find_ignoring_case(caller, name, spelling)?.ok_or(FsError::NotFound)?;
    let found = opened.lookup(&stored, Blocking::Allowed)?;
    Ok((stored, found))
}

/// Locks a name in a directory in all its spellings, from before it is looked for until it is made. By the rules of Unix those are other
/// names.
pub(crate) fn lock_name<'l>(
    service: &'l Service,
    (dir, name): (&File, &[u8]),
    naming: Naming,
) -> Option<NameLock<'l>> {
    (naming == Naming::Windows).then(|| service.name_locks.lock(dir, spelling(name)))
}

/// What names have in common that differ by case alone; nothing of what cannot be told to clients.
pub(crate) fn spelling(name: &[u8]) -> Option<Vec<u8>> {
    Some(folded(&to_wire(name, Naming::Windows)?).into_iter().flat_map(u16::to_le_bytes).collect())
}
