//! The allocation size of a CREATE (MS-SMB2 §3.3.5.9.2, MS-FSA §2.1.5.1.1).

use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use smb_wire::contexts::AllocationSize;
use smb_wire::create::{CreateAction, CreateRequest};
use smb_wire::{Decode, NtStatus};
use vfs::claims::Requester;
use vfs::volume::change_notify::ChangeMask;
use vfs::{Access, Attrs, Blocking, File, Stability};

/// Fails with `STATUS_DISK_FULL` unless a file with `used` bytes can grow to the requested size. Checked before
/// anything is created or overwritten.
pub(super) fn check(args: &CreateRequest<'_>, file: &File, used: u64) -> Result<(), CommandError> {
    check_room(file, requested_size(args)?.saturating_sub(used))
}

/// Fails with `STATUS_DISK_FULL` unless the volume has `more` bytes available.
pub(crate) fn check_room(file: &File, more: u64) -> Result<(), CommandError> {
    if more > 0 && more > file.volume().stat()?.bytes_available {
        return Err(NtStatus::DISK_FULL.into());
    }
    Ok(())
}

/// Allocates space for a file that an open created or overwrote. Returns the new attributes if anything changed. A
/// failure is not an error: the client sees the actual size in the reply.
pub(super) fn preallocate(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    open: &Open,
    action: CreateAction,
) -> Result<Option<Attrs>, NtStatus> {
    let (file, caller) = (&open.file, &open.disk.caller);
    let size = requested_size(args)?;
    if size == 0 {
        return Ok(None);
    }
    let opened = match action {
        CreateAction::CREATED => file.open_new(caller, Access::WRITE, Blocking::Allowed),
        _ => file.open(caller, Access::WRITE, Blocking::Allowed),
    };
    let preallocated = opened.and_then(|(opened, _)| {
        let opened = opened.into_owned().with_claim(Requester::Open(open.claim()));
        opened.preallocate(size, Stability::Unstable, cx.message.pending)
    });
    let Ok(change) = preallocated else { return Ok(None) };
    open.notify_modified(ChangeMask::SIZE);
    Ok(Some(change.after))
}

fn requested_size(args: &CreateRequest<'_>) -> Result<u64, NtStatus> {
    let Some(data) = args.contexts.find(AllocationSize::NAME) else { return Ok(0) };
    let AllocationSize { allocation_size } =
        AllocationSize::from_bytes(data).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    if i64::try_from(allocation_size).is_err() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok(allocation_size)
}
