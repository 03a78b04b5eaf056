//! Lookup of the directories and names of a path, ignoring case unless the client uses POSIX names.

use super::outcome::CommandError;
use crate::metadata::names::locks::NameLock;
use crate::metadata::names::{Naming, folded, to_wire};
use crate::state::service::Service;
use crate::state::tree::DiskShare;
use smb_wire::NtStatus;
use std::sync::Arc;
use vfs::{Attrs, Blocking, Caller, File, FileType, FsError, FsResult, Resolved, ViewId};

/// The name of the directory of snapshots in every directory, as NetApp's. No listing contains it.
const SNAPSHOTS: &[u8] = b"~snapshot";

/// The parent directory of the turn's previous CREATE. All requests of a turn arrived before the first was answered,
/// so each may see directories as the first did.
#[derive(Default)]
pub(crate) struct PathCache(Option<CachedDirectory>);

struct CachedDirectory {
    disk: Arc<DiskShare>,
    view: ViewId,
    names: Vec<Vec<u8>>,
    naming: Naming,
    dir: File,
    attrs: Attrs,
    path: Vec<Vec<u8>>,
}

impl PathCache {
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    pub(crate) fn resolve_dir(
        &mut self,
        disk: &Arc<DiskShare>,
        view: ViewId,
        names: &[Vec<u8>],
        naming: Naming,
    ) -> Result<(Resolved, Vec<Vec<u8>>), CommandError> {
        let is_same = |old: &CachedDirectory| {
            Arc::ptr_eq(&old.disk, disk) && (old.view, old.naming) == (view, naming) && old.names == names
        };
        if let Some(old) = self.0.as_ref().filter(|old| is_same(old)) {
            return Ok((Resolved { file: old.dir.clone(), attrs: old.attrs }, old.path.clone()));
        }
        let (dir, path) = resolve_dir(disk, view, names, naming)?;
        self.0 = Some(CachedDirectory {
            disk: Arc::clone(disk),
            view,
            names: names.to_vec(),
            naming,
            dir: dir.file.clone(),
            attrs: dir.attrs,
            path: path.clone(),
        });
        Ok((dir, path))
    }
}

/// Resolves the directory of a path's last name. Returns it with the stored names that lead to it.
pub(crate) fn resolve_parent(
    disk: &DiskShare,
    path: &[Vec<u8>],
    naming: Naming,
) -> Result<(Resolved, Vec<Vec<u8>>), CommandError> {
    let dirs = path.split_last().map_or(&[][..], |(_, dirs)| dirs);
    resolve_dir(disk, ViewId::LIVE, dirs, naming)
}

/// The root of a share, live or as a snapshot has it.
pub(crate) fn root(disk: &DiskShare, view: ViewId) -> FsResult<File> {
    if view == ViewId::LIVE { Ok(disk.export.root()) } else { disk.export.root_in(view) }
}

fn resolve_dir(
    disk: &DiskShare,
    view: ViewId,
    names: &[Vec<u8>],
    naming: Naming,
) -> Result<(Resolved, Vec<Vec<u8>>), CommandError> {
    let root = root(disk, view).map_err(path_error)?;
    let attrs = root.attrs(Blocking::Allowed)?;
    let (mut dir, mut path) = (Resolved { file: root, attrs }, Vec::with_capacity(names.len() + 1));
    for name in names {
        let (stored, found) = find_name(&dir, &disk.caller, name, naming).map_err(path_error)?;
        if found.attrs.file_type != FileType::Directory {
            return Err(NtStatus::OBJECT_PATH_NOT_FOUND.into());
        }
        dir = found;
        path.push(stored);
    }
    Ok((dir, path))
}

/// Maps the error of a directory on the path.
pub(crate) fn path_error(error: FsError) -> CommandError {
    match error {
        FsError::NotFound | FsError::NotDirectory | FsError::Stale => NtStatus::OBJECT_PATH_NOT_FOUND.into(),
        error => error.into(),
    }
}

/// Finds a name in a directory: in its exact spelling, or else in another case. Returns the stored name. Without such an
/// entry, `~snapshot` is the directory of snapshots.
pub(crate) fn find_name(
    dir: &Resolved,
    caller: &Caller,
    name: &[u8],
    naming: Naming,
) -> FsResult<(Vec<u8>, Resolved)> {
    let opened = dir.open_dir(caller, Blocking::Allowed)?;
    match opened.lookup(name, Blocking::Allowed) {
        Err(FsError::NotFound) if naming == Naming::Windows => {}
        Err(FsError::NotFound) => return snapshots_in(dir, name),
        found => return Ok((name.to_vec(), found?)),
    }
    let Some(stored) = dir.file.find_ignoring_case(caller, name, folded_key)? else {
        return snapshots_in(dir, name);
    };
    let found = opened.lookup(&stored, Blocking::Allowed)?;
    Ok((stored, found))
}

/// The directory of snapshots in `dir`, if `name` is its name over SMB.
fn snapshots_in(dir: &Resolved, name: &[u8]) -> FsResult<(Vec<u8>, Resolved)> {
    if !name.eq_ignore_ascii_case(SNAPSHOTS) || !dir.attrs.is_live() {
        return Err(FsError::NotFound);
    }
    let key = dir.file.key().in_view(ViewId::DIRECTORY);
    let file = dir.file.export().file(&key, Blocking::Allowed).map_err(|error| match error {
        // Clients may not reach it.
        FsError::Stale => FsError::NotFound,
        error => error,
    })?;
    let attrs = file.attrs(Blocking::Allowed)?;
    Ok((SNAPSHOTS.to_vec(), Resolved { file, attrs }))
}

/// Locks all spellings of a name in a directory, so that a lookup and the creation after it are atomic. POSIX names
/// need no lock: other spellings are other names.
pub(crate) fn lock_name<'l>(
    service: &'l Service,
    dir: &File,
    name: &[u8],
    naming: Naming,
) -> Option<NameLock<'l>> {
    (naming == Naming::Windows).then(|| service.name_locks.lock(dir, folded_key(name)))
}

/// The key that all spellings of a name share; `None` for a name that cannot be sent to clients.
pub(crate) fn folded_key(name: &[u8]) -> Option<Vec<u8>> {
    Some(folded(&to_wire(name, Naming::Windows)?).into_iter().flat_map(u16::to_le_bytes).collect())
}
