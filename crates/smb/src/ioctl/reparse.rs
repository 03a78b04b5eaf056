//! Reparse points: where a symbolic link leads (MS-FSA §2.1.5.10, MS-FSCC §2.1.2.4).

use super::answer::{Answer, room};
use crate::open::Open;
use crate::ops::Stop;
use crate::posix::link_target;
use smb_wire::ioctl::IoctlRequest;
use smb_wire::reparse::{ReparseData, SymbolicLink};
use smb_wire::{Encode, NtStatus, Utf16};
use vfs::FileType;

/// Bytes of a `REPARSE_DATA_BUFFER` before its data, which a client must have room for.
const HEAD_BYTES: usize = 8;

/// FSCTL_GET_REPARSE_POINT.
pub(super) fn get(open: &Open, args: &IoctlRequest<'_>) -> Result<Answer, Stop> {
    if open.file_type != FileType::Symlink {
        return Err(NtStatus::NOT_A_REPARSE_POINT.into());
    }
    let (_, target) = open.file.read_link()?;
    let (target, flags) = link_target(&target, open.naming).ok_or(NtStatus::OBJECT_NAME_INVALID)?;
    let name = Utf16::new(&target)?;
    let link = SymbolicLink { substitute_name: name, print_name: name, flags };
    let mut output = ReparseData::SymbolicLink(link).to_bytes();
    if room(args) < HEAD_BYTES {
        return Err(NtStatus::BUFFER_TOO_SMALL.into());
    }
    let is_cut = output.len() > room(args);
    output.truncate(room(args));
    Ok(Answer { status: if is_cut { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS }, output })
}
