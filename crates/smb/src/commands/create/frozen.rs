//! Rights on files of snapshots.
//!
//! As on Windows, an open may have all rights that the file's descriptor gives, and changes fail (smb2.twrp.write):
//! programs that always ask for the right to write can read old versions.

use crate::commands::tree_connect::READ_ONLY;
use crate::metadata::rights::{rights_from_list, rights_from_mode};
use crate::request::outcome::CommandError;
use crate::state::open::EntryPath;
use crate::state::tree::DiskShare;
use smb_wire::NtStatus;
use smb_wire::types::AccessMask;
use vfs::model::attrs::STICKY;
use vfs::{Attrs, Blocking, Caller, File, FileType, FsResult, ViewId};

/// Checks the rights that a user requests. `maximal`: the rights to read.
pub(super) fn check_access(
    disk: &DiskShare,
    entry_path: &EntryPath,
    file: &File,
    attrs: &Attrs,
    requested: AccessMask,
    maximal: AccessMask,
) -> Result<(), CommandError> {
    let has_all = maximal.contains(requested)
        || (maximal | rights_at_its_time(disk, entry_path, file, attrs)?).contains(requested);
    if has_all { Ok(()) } else { Err(NtStatus::ACCESS_DENIED.into()) }
}

/// Computes the rights that the user had on the file at the time of the snapshot: those of its descriptor.
pub(super) fn rights_at_its_time(
    disk: &DiskShare,
    entry_path: &EntryPath,
    file: &File,
    attrs: &Attrs,
) -> FsResult<AccessMask> {
    let caller = &disk.caller;
    let dir = entry_path.entry.as_ref().map(|(dir, _)| dir);
    let may_remove = dir.map_or(Ok(false), |dir| may_remove(dir, attrs, caller))?;
    if let Some(rights) = file.rights(caller, attrs, Blocking::Allowed)? {
        let sees = dir.map_or(Ok(false), |dir| may_list(dir, caller))?;
        let all = rights_from_list(rights, sees, may_remove);
        return Ok(if caller.read_only { all & READ_ONLY } else { all });
    }
    let reply = match file.is_stream() {
        true => file.access(caller, Blocking::Allowed)?,
        false => file.access_by(live(attrs), caller, Blocking::Allowed)?,
    };
    Ok(rights_from_mode(&reply, attrs.file_type == FileType::Directory, may_remove))
}

/// Whether mode bits let the user remove an entry of `dir` that has `attrs`.
fn may_remove(dir: &File, attrs: &Attrs, caller: &Caller) -> FsResult<bool> {
    let of_dir = dir.attrs(Blocking::Allowed)?;
    let owns = [attrs.uid, of_dir.uid].contains(&caller.uid) || caller.is_root();
    let reply = dir.access_by(live(&of_dir), caller, Blocking::Allowed)?;
    Ok(reply.delete && (of_dir.mode & STICKY == 0 || owns))
}

/// The attributes as those of a live file, on which changes are not refused altogether.
fn live(attrs: &Attrs) -> Attrs {
    Attrs { view: ViewId::LIVE, ..*attrs }
}

pub(super) fn may_list(dir: &File, caller: &Caller) -> FsResult<bool> {
    Ok(dir.access(caller, Blocking::Allowed)?.read)
}
