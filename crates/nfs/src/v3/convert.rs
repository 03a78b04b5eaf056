//! Between the model's types and the wire's.

use nfs_wire::v3::{Fattr, FileType, NfsTime, Sattr, SetTime, SpecData, StableHow, WccAttr, WccData};
use vfs::{Attrs, Change, SetAttrs, Stability, Time, VolumeId};

/// `fattr3` of a file. An entry of a directory of snapshots has the number that the listing shows: with that of the live
/// directory, the tree would look like a loop until the client has noticed the other file system.
#[inline]
pub(crate) fn fattr(file: &vfs::File, attrs: &Attrs) -> Fattr {
    let mut fattr = fattr_of(file.volume().id(), attrs);
    if let Some(fileid) = file.entry_id(attrs) {
        fattr.fileid = fileid;
    }
    fattr
}

/// `fattr3` of a file in `volume` that is no entry of a directory of snapshots.
#[inline]
pub(super) fn fattr_of(volume: VolumeId, attrs: &Attrs) -> Fattr {
    Fattr {
        ftype: file_type(attrs.file_type),
        mode: attrs.mode,
        nlink: attrs.links,
        uid: attrs.uid,
        gid: attrs.gid,
        size: attrs.size,
        used: attrs.used,
        rdev: SpecData { specdata1: attrs.device.major, specdata2: attrs.device.minor },
        // Each snapshot is a file system.
        fsid: attrs.view.number(volume.0),
        fileid: attrs.file_id,
        atime: nfs_time(attrs.accessed),
        mtime: nfs_time(attrs.modified),
        ctime: nfs_time(attrs.changed),
    }
}

/// `wcc_data` of a mutation.
#[inline]
pub(super) fn wcc(volume: VolumeId, change: &Change) -> WccData {
    WccData { before: Some(wcc_attr(&change.before)), after: Some(fattr_of(volume, &change.after)) }
}

/// `wcc_attr`.
#[inline]
pub(super) fn wcc_attr(attrs: &Attrs) -> WccAttr {
    WccAttr { size: attrs.size, mtime: nfs_time(attrs.modified), ctime: nfs_time(attrs.changed) }
}

/// Converts `sattr3`.
pub(super) fn set_attrs(sattr: &Sattr) -> SetAttrs {
    SetAttrs {
        mode: sattr.mode,
        umask: 0,
        uid: sattr.uid,
        gid: sattr.gid,
        size: sattr.size,
        accessed: set_time(sattr.atime),
        modified: set_time(sattr.mtime),
    }
}

/// Converts `stable_how`.
pub(crate) fn stability(how: StableHow) -> Stability {
    match how {
        StableHow::Unstable => Stability::Unstable,
        StableHow::DataSync => Stability::Data,
        StableHow::FileSync => Stability::File,
    }
}

pub(super) fn time(wire: NfsTime) -> Time {
    Time { seconds: i64::from(wire.seconds), nanos: wire.nseconds.min(999_999_999) }
}

/// A time on the wire: 32 bits of seconds since 1970, so earlier and later ones become the nearest there is.
#[inline]
pub(super) fn nfs_time(time: Time) -> NfsTime {
    let seconds = u32::try_from(time.seconds.max(0)).unwrap_or(u32::MAX);
    NfsTime { seconds, nseconds: time.nanos }
}

fn set_time(how: SetTime) -> Option<vfs::SetTime> {
    match how {
        SetTime::DontChange => None,
        SetTime::ServerTime => Some(vfs::SetTime::Now),
        SetTime::ClientTime(to) => Some(vfs::SetTime::To(time(to))),
    }
}

fn file_type(file_type: vfs::FileType) -> FileType {
    match file_type {
        vfs::FileType::Regular => FileType::Regular,
        vfs::FileType::Directory => FileType::Directory,
        vfs::FileType::Symlink => FileType::Symlink,
        vfs::FileType::Block => FileType::BlockDevice,
        vfs::FileType::Character => FileType::CharDevice,
        vfs::FileType::Fifo => FileType::Fifo,
        vfs::FileType::Socket => FileType::Socket,
    }
}
