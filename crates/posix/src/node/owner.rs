//! Owner, group and mode in an extended attribute, for processes that may not set the real ones.
//!
//! docs/formats/owner-xattr.md draws the bytes. Only regular files and directories can carry it: the kernel allows
//! `user.` attributes on nothing else. Symbolic links, FIFOs and sockets show their real owner.

use crate::error::refused;
use crate::sys::proc_path;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr, getxattr, lgetxattr, setxattr};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use vfs::model::attrs::MODE_BITS;
use vfs::{Attrs, FileType, FsResult};

const ATTRIBUTE: &str = "user.plimsoll.owner";
const VERSION: u8 = 1;
const BYTES: usize = 11;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Permission, set-id and sticky bits.
    pub(crate) mode: u32,
}

impl Owner {
    pub(crate) fn of(attrs: &Attrs) -> Self {
        Self { uid: attrs.uid, gid: attrs.gid, mode: attrs.mode }
    }

    /// Reads the attribute of `name` in the directory `file`, or of `file` itself; `None` if there is none.
    pub(crate) fn read(file: BorrowedFd<'_>, name: Option<&[u8]>) -> FsResult<Option<Self>> {
        let mut value = [0; BYTES];
        let read = match name {
            Some(name) => {
                let path = [proc_path(file).as_bytes(), b"/", name].concat();
                lgetxattr(path, ATTRIBUTE, &mut value[..])
            }
            None => match fgetxattr(file, ATTRIBUTE, &mut value[..]) {
                // An O_PATH descriptor.
                Err(Errno::BADF) => getxattr(proc_path(file), ATTRIBUTE, &mut value[..]),
                read => read,
            },
        };
        match read {
            Ok(len) => Ok(Self::decode(&value[..len])),
            // Absent, not supported, or not one of ours.
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }

    pub(crate) fn write(self, file: BorrowedFd<'_>) -> FsResult<()> {
        let value = self.encode();
        match fsetxattr(file, ATTRIBUTE, &value, XattrFlags::empty()) {
            Err(Errno::BADF) => setxattr(proc_path(file), ATTRIBUTE, &value, XattrFlags::empty()),
            done => done,
        }
        .map_err(refused)
    }

    /// The real mode for this owner: the process must always have access, and the real group and others get only the
    /// permissions that all three recorded classes have.
    pub(crate) fn real_mode(self, directory: bool) -> u32 {
        let own = if directory { 0o700 } else { 0o600 };
        let all = self.mode & self.mode >> 3 & self.mode >> 6 & 0o7;
        own | all << 3 | all
    }

    fn encode(self) -> [u8; BYTES] {
        let mut value = [0; BYTES];
        let [.., high, low] = (self.mode & MODE_BITS).to_be_bytes();
        value[..3].copy_from_slice(&[VERSION, high, low]);
        value[3..7].copy_from_slice(&self.uid.to_be_bytes());
        value[7..].copy_from_slice(&self.gid.to_be_bytes());
        value
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let [VERSION, high, low, owners @ ..] = value else { return None };
        let (uid, gid) = owners.split_first_chunk()?;
        let mode = u32::from(u16::from_be_bytes([*high, *low])) & MODE_BITS;
        Some(Self { uid: u32::from_be_bytes(*uid), gid: u32::from_be_bytes(gid.try_into().ok()?), mode })
    }
}

pub(crate) fn carries(file_type: FileType) -> bool {
    matches!(file_type, FileType::Regular | FileType::Directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_attribute_bytes_match_format() {
        let owner = Owner { uid: 0x0102_0304, gid: 0xa0b0_c0d0, mode: 0o4755 };
        let value = [1, 0x09, 0xed, 1, 2, 3, 4, 0xa0, 0xb0, 0xc0, 0xd0];
        assert_eq!(owner.encode(), value);
        assert_eq!(Owner::decode(&value), Some(owner));
        assert_eq!(Owner::decode(&value[..10]), None);
        assert_eq!(Owner::decode(&[2; BYTES]), None, "a later version is not guessed at");
        assert_eq!(Owner::decode(&[]), None);
    }

    #[test]
    fn real_mode_always_admits_process() {
        let owner = |mode| Owner { uid: 1, gid: 1, mode };
        assert_eq!(owner(0o000).real_mode(false), 0o600);
        assert_eq!(owner(0o7640).real_mode(false), 0o600);
        assert_eq!(owner(0o755).real_mode(true), 0o755);
        assert_eq!(owner(0o311).real_mode(true), 0o711);
    }
}
