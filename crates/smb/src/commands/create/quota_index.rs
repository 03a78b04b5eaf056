//! The index of quotas, a file that NTFS volumes have: Windows and Samba open it to ask for the quotas of users.
//!
//! The open is one of the root of the share that gives no right but to read attributes. Every open answers a query of
//! quotas, and the query itself decides what its caller sees.

use crate::state::tree::DiskShare;
use smb_wire::create::{CreateDisposition, CreateOptions, CreateRequest, OplockLevel};
use smb_wire::types::AccessMask;
use smb_wire::{NtStatus, Utf16};

/// The type of its stream is one that no file of a volume has, so no file has this name.
const PATH: &str = "$Extend\\$Quota:$Q:$INDEX_ALLOCATION";

/// Whether a CREATE names the index of a volume with quotas.
pub(super) fn is_named(disk: &DiskShare, name: &Utf16<'_>) -> bool {
    let letter = |unit: u16| u8::try_from(unit).ok().map(|byte| byte.to_ascii_lowercase());
    let expected = PATH.bytes().map(|byte| Some(byte.to_ascii_lowercase()));
    name.units().map(letter).eq(expected) && disk.export.volume.ruling_quotas().is_some()
}

/// The open of the root that stands for the index.
pub(super) fn open_of_root<'a>(args: CreateRequest<'a>) -> Result<CreateRequest<'a>, NtStatus> {
    let opens = matches!(args.create_disposition, CreateDisposition::OPEN | CreateDisposition::OPEN_IF);
    if !opens || args.create_options.contains(CreateOptions::DELETE_ON_CLOSE) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    Ok(CreateRequest {
        requested_oplock_level: OplockLevel::NONE,
        desired_access: AccessMask::READ_ATTRIBUTES | AccessMask::SYNCHRONIZE,
        create_disposition: CreateDisposition::OPEN,
        create_options: CreateOptions::empty(),
        name: Utf16::new(&[]).map_err(|_| NtStatus::INTERNAL_ERROR)?,
        ..args
    })
}
