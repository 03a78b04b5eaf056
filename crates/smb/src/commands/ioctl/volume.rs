//! File requests whose answer is the same for the whole volume: no compression, ids as object ids.

use super::answer::FsctlReply;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use smb_wire::fsctl::{COMPRESSION_FORMAT_NONE, ObjectIdBuffer};
use smb_wire::ioctl::IoctlRequest;
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Guid, NtStatus};
use vfs::Blocking;

/// FSCTL_CREATE_OR_GET_OBJECT_ID: the ids of volume and file, which are unique.
pub(super) fn object_id(open: &Open, args: &IoctlRequest<'_>) -> Result<FsctlReply, CommandError> {
    let file_id = open.file_number(&open.file.attrs(Blocking::Allowed)?);
    let mut object_id = [0; 16];
    object_id[..4].copy_from_slice(&open.serial_number().to_le_bytes());
    object_id[8..].copy_from_slice(&file_id.to_le_bytes());
    let object_id = Guid(object_id);
    let buffer = ObjectIdBuffer { object_id, birth_object_id: object_id, ..ObjectIdBuffer::default() };
    FsctlReply::encode_whole(args, &buffer, NtStatus::INVALID_PARAMETER)
}

pub(super) fn compression(args: &IoctlRequest<'_>) -> Result<FsctlReply, CommandError> {
    FsctlReply::encode_whole(args, &COMPRESSION_FORMAT_NONE, NtStatus::INVALID_PARAMETER)
}

/// FSCTL_SET_COMPRESSION: only "not compressed" is accepted.
pub(super) fn set_compression(open: &Open, input: &[u8]) -> Result<FsctlReply, CommandError> {
    let format = u16::decode(&mut smb_wire::Reader::new(input))?;
    open.check(AccessMask::WRITE_DATA)?;
    if format == COMPRESSION_FORMAT_NONE {
        Ok(FsctlReply::NOTHING)
    } else {
        Err(NtStatus::NOT_SUPPORTED.into())
    }
}
