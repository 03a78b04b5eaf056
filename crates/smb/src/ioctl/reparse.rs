//! Reparse points: where a symbolic link leads (MS-FSA §2.1.5.10, MS-FSCC §2.1.2.4).

use super::answer::{Answer, room};
use crate::names::to_wire;
use crate::open::Open;
use crate::ops::Stop;
use smb_wire::error::SymlinkFlags;
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
    let name = wire_target(&target).ok_or(NtStatus::OBJECT_NAME_INVALID)?;
    let name = Utf16::new(&name)?;
    let flags = if target.starts_with(b"/") { SymlinkFlags::empty() } else { SymlinkFlags::RELATIVE };
    let link = SymbolicLink { substitute_name: name, print_name: name, flags };
    let mut output = ReparseData::SymbolicLink(link).to_bytes();
    if room(args) < HEAD_BYTES {
        return Err(NtStatus::BUFFER_TOO_SMALL.into());
    }
    let is_cut = output.len() > room(args);
    output.truncate(room(args));
    Ok(Answer { status: if is_cut { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS }, output })
}

/// A target as clients read it: names of a path are mapped as all names are, with backslashes between.
fn wire_target(target: &[u8]) -> Option<Vec<u8>> {
    let names = target.split(|&byte| byte == b'/').map(to_wire).collect::<Option<Vec<_>>>()?;
    let units = names.join(&u16::from(b'\\'));
    Some(units.into_iter().flat_map(u16::to_le_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_backslashes() {
        let wire = |text: &str| Some(text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
        assert_eq!(wire_target(b"../a/b"), wire("..\\a\\b"));
        assert_eq!(wire_target(b"/a"), wire("\\a"));
        assert_eq!(wire_target(b"a:b"), wire("a\u{f022}b"));
        assert_eq!(wire_target(b"\xff"), None);
    }
}
