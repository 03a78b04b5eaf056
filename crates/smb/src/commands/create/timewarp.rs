//! Opens of files as a snapshot has them (MS-SMB2 §2.2.13.2.7).

use crate::state::tree::DiskShare;
use smb_wire::create::CreateContexts;
use smb_wire::snapshots::TimewarpToken;
use smb_wire::{Decode, NtStatus};
use vfs::ViewId;

/// The view that a CREATE asks for. Clients know the time of a snapshot in whole seconds.
pub(super) fn view_of(disk: &DiskShare, contexts: &CreateContexts<'_>) -> Result<ViewId, NtStatus> {
    let Some(data) = contexts.find(TimewarpToken::NAME) else { return Ok(ViewId::LIVE) };
    let TimewarpToken { timestamp } =
        TimewarpToken::from_bytes(data).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let (seconds, _) = timestamp.to_unix();
    let snapshots = disk.export.volume.snapshots();
    let found = snapshots.by_second(seconds).filter(|_| disk.export.volume.has_snapshot_directories());
    found.map(|snapshot| snapshot.view).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)
}
