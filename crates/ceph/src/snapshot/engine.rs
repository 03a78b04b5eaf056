//! The directory of the engine that has the snapshots of a directory.

use crate::error::refused;
use crate::ffi::{Inode, Wanted};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use vfs::{FsResult, ViewId};

/// The snapshots in a directory of snapshots, in ascending order.
pub(crate) fn list(dir: &Inode) -> FsResult<Vec<ViewId>> {
    let mut entries = dir.open_dir().map_err(refused)?;
    let mut views = Vec::new();
    while let Some(entry) = entries.next(Wanted::Nothing).map_err(refused)? {
        views.extend(view_of(&entry.name));
    }
    views.sort_unstable();
    Ok(views)
}

/// Deletes a snapshot, if it exists.
pub(super) fn remove(dir: &Inode, view: ViewId) -> FsResult<()> {
    let name = snapshot_name(view);
    // After a request to delete one that does not exist, libcephfs cannot unmount any more.
    match dir.lookup(&name).and_then(|_| dir.remove_dir(&name)) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(refused(errno)),
    }
}

/// Deletes the snapshots of all directories in `dir`, which the engine would not remove.
pub(crate) fn remove_below(dir: &Inode, snapshot_dir: &CStr) -> Result<(), Errno> {
    for name in names_in(dir)? {
        let snapshots = match dir.lookup(&name).and_then(|(root, _)| root.lookup(snapshot_dir)) {
            Ok((snapshots, _)) => snapshots,
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            Err(errno) => return Err(errno),
        };
        names_in(&snapshots)?.iter().try_for_each(|name| snapshots.remove_dir(name))?;
    }
    Ok(())
}

/// The name of a snapshot: 16 hexadecimal digits.
pub(super) fn snapshot_name(view: ViewId) -> CString {
    CString::new(format!("{:016x}", view.0)).unwrap_or_default()
}

/// The snapshot of a name; `None` if it is not the name of one.
fn view_of(text: &[u8]) -> Option<ViewId> {
    let view = ViewId(u32::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()?);
    (view != ViewId::LIVE && snapshot_name(view).as_bytes() == text).then_some(view)
}

fn names_in(dir: &Inode) -> Result<Vec<CString>, Errno> {
    let (mut entries, mut names) = (dir.open_dir()?, Vec::new());
    while let Some(entry) = entries.next(Wanted::Nothing)? {
        if !matches!(&entry.name[..], b"." | b"..") {
            names.push(CString::new(entry.name).map_err(|_| Errno::INVAL)?);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_snapshot_is_that_of_its_view_alone() {
        for view in [ViewId(1), ViewId(77), ViewId::MAX] {
            assert_eq!(view_of(snapshot_name(view).as_bytes()), Some(view));
        }
        for other in [&b"0000000000000000"[..], b"7", b"0000000100000000", b"000000000000000A", b"_1_1"] {
            assert_eq!(view_of(other), None, "{other:?}");
        }
    }
}
