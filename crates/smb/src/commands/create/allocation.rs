//! The room that a CREATE asks for (MS-SMB2 §3.3.5.9.2, MS-FSA §2.1.5.1.1).

use crate::request::context::{Ops, Stop};
use crate::state::open::Open;
use smb_wire::contexts::AllocationSize;
use smb_wire::create::{CreateAction, CreateRequest};
use smb_wire::{Decode, NtStatus};
use vfs::claims::Requester;
use vfs::volume::change_notify::ChangeMask;
use vfs::{Access, Attrs, Blocking, File, Stability};

/// `STATUS_DISK_FULL` unless a file that has taken `used` bytes can have what the request asks for: then nothing is made and nothing
/// overwritten.
pub(super) fn check(args: &CreateRequest<'_>, file: &File, used: u64) -> Result<(), Stop> {
    check_room(file, asked(args)?.saturating_sub(used))
}

/// `STATUS_DISK_FULL` unless the volume of a file has room for so many bytes more.
pub(crate) fn check_room(file: &File, more: u64) -> Result<(), Stop> {
    if more > 0 && more > file.volume().stat()?.bytes_available {
        return Err(NtStatus::DISK_FULL.into());
    }
    Ok(())
}

/// Takes the room for a file that was made, or has been emptied, by an open: its attributes then, if that has changed anything.
/// Where it cannot be, the client learns from the reply how much the file has.
pub(super) fn take(
    ops: &mut Ops<'_>,
    args: &CreateRequest<'_>,
    open: &Open,
    action: CreateAction,
) -> Result<Option<Attrs>, NtStatus> {
    let (file, caller) = (&open.file, &open.disk.caller);
    let size = asked(args)?;
    if size == 0 {
        return Ok(None);
    }
    let opened = match action {
        CreateAction::CREATED => file.open_new(caller, Access::WRITE, Blocking::Allowed),
        _ => file.open(caller, Access::WRITE, Blocking::Allowed),
    };
    let preallocated = opened.and_then(|(opened, _)| {
        let opened = opened.into_owned().with_claim(Requester::Open(open.claim()));
        opened.preallocate(size, Stability::Unstable, ops.pending)
    });
    let Ok(change) = preallocated else { return Ok(None) };
    open.tell_modified(ChangeMask::SIZE);
    Ok(Some(change.after))
}

fn asked(args: &CreateRequest<'_>) -> Result<u64, NtStatus> {
    let Some(data) = args.contexts.find(AllocationSize::NAME) else { return Ok(0) };
    let AllocationSize { allocation_size } =
        AllocationSize::from_bytes(data).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    if i64::try_from(allocation_size).is_err() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok(allocation_size)
}
