//! Files that a revert has taken out of a volume, for as long as a snapshot may have them: another revert puts them back
//! under the same keys.
//!
//! Each is in one directory of the volume, under its key. Its owner is [`INVALID_ID`], so that no key leads to it.

use super::engine::{list, snapshot_name};
use crate::error::refused;
use crate::ffi::{Inode, SetMask, Statx, TimeSpec, Wanted};
use crate::stat::{file_type, held_name, key_of};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use vfs::model::caller::INVALID_ID;
use vfs::{FileType, FsError, FsResult};

/// The name of the directory.
pub(crate) const HELD: &CStr = c"held";
/// The time of a snapshot, an attribute of its root.
const SNAPSHOT_TIME: &CStr = c"ceph.snap.btime";
/// The bytes below a directory.
const BYTES: &CStr = c"ceph.dir.rbytes";

/// Whether a file is held: not one of the volume at present.
pub(crate) fn is_held(stat: &Statx) -> bool {
    stat.uid == INVALID_ID
}

/// Moves a file, or an empty directory, from its name to `held`.
pub(crate) fn hold(held: &Inode, dir: &Inode, name: &CStr, inode: &Inode, stat: &Statx) -> FsResult<()> {
    if !is_held(stat) {
        let mut owners = SetMask::UID;
        owners.add(SetMask::GID);
        let none = Statx { uid: INVALID_ID, gid: INVALID_ID, ..Statx::default() };
        inode.set_attrs(owners, &none).map_err(refused)?;
    }
    let place = held_name(&key_of(stat)?);
    match held.lookup(&place) {
        // It has come under another name.
        Ok(_) => dir.unlink(name).map_err(refused),
        Err(Errno::NOENT) => dir.rename(name, held, &place).map_err(refused),
        Err(errno) => Err(refused(errno)),
    }
}

/// Deletes what is held in the volume with the directory `volume` and is younger than its last snapshot, and the names of
/// files that are back in the volume. `snapshots` is the directory of the snapshots.
pub(crate) fn sweep(volume: &Inode, snapshots: &Inode) -> FsResult<()> {
    let held = match volume.lookup(HELD) {
        Err(Errno::NOENT) => return Ok(()),
        found => found.map_err(refused)?.0,
    };
    let last = list(snapshots)?.last().map(|&view| time_of(snapshots, view)).transpose()?;
    let mut entries = held.open_dir().map_err(refused)?;
    let mut doomed = Vec::new();
    while let Some(entry) = entries.next(Wanted::Attrs).map_err(refused)? {
        let born = (entry.stat.born.seconds, entry.stat.born.nanos);
        let may_be_in = last.is_some_and(|last| born <= (last.seconds, last.nanos));
        let is_doomed = !may_be_in || !is_held(&entry.stat);
        if !matches!(&entry.name[..], b"." | b"..") && is_doomed {
            doomed.push((entry.name, file_type(&entry.stat)?));
        }
    }
    for (name, kind) in doomed {
        let name = CString::new(name).map_err(|_| FsError::Io)?;
        let deleted = if kind == FileType::Directory { held.remove_dir(&name) } else { held.unlink(&name) };
        deleted.map_err(refused)?;
    }
    Ok(())
}

fn time_of(snapshots: &Inode, view: vfs::ViewId) -> FsResult<TimeSpec> {
    let (root, _) = snapshots.lookup(&snapshot_name(view)).map_err(refused)?;
    let mut text = [0; 64];
    let len = root.xattr(SNAPSHOT_TIME, &mut text).map_err(refused)?;
    let text = std::str::from_utf8(text.get(..len).unwrap_or_default()).map_err(|_| FsError::Io)?;
    parse_time(text).ok_or(FsError::Io)
}

/// Seconds, a point, and nine digits.
fn parse_time(text: &str) -> Option<TimeSpec> {
    let (seconds, nanos) = text.trim_end_matches('\0').split_once('.')?;
    Some(TimeSpec { seconds: seconds.parse().ok()?, nanos: nanos.parse().ok()? })
}

/// The bytes of the held files of a volume: the engine counts them in its quota.
pub(crate) fn bytes(volume: &Inode) -> u64 {
    let mut text = [0; 24];
    let read = volume.lookup(HELD).and_then(|(held, _)| held.xattr(BYTES, &mut text));
    let text = read.ok().and_then(|len| std::str::from_utf8(text.get(..len)?).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_snapshot_is_seconds_and_nanoseconds() {
        let time = TimeSpec { seconds: 1_796_063_696, nanos: 91_850_039 };
        assert_eq!(parse_time("1796063696.091850039"), Some(time));
        assert_eq!(parse_time("1796063696.091850039\0"), Some(time));
        assert_eq!(parse_time("1796063696"), None);
    }
}
