//! The POSIX extensions to SMB3: Unix attributes, and Linux's SIDs for owners and modes.

use super::file_info::FileInfo;
use super::names::{Naming, component, to_wire};
use identity::Id;
use smb_wire::NtStatus;
use smb_wire::error::SymlinkFlags;
use smb_wire::posix::{PosixFileType, PosixInformation, PosixResponse};
use smb_wire::security::{Ace, AceBody, AceFlags, Acl, Sid};
use smb_wire::types::AccessMask;
use vfs::model::attrs::MODE_BITS;
use vfs::{Attrs, FileType};

/// `S-1-5-88`, the authority of Unix ids, as in Microsoft's NFS server.
const NFS: (u64, u32) = (5, 88);
const NFS_USER: u32 = 1;
const NFS_GROUP: u32 = 2;
const NFS_MODE: u32 = 3;

/// Owners are always numeric SIDs: Linux does not resolve other SIDs.
pub(crate) fn unix_of(attrs: &Attrs, file_info: &FileInfo) -> PosixResponse {
    PosixResponse {
        hard_links: attrs.links,
        reparse_tag: file_info.reparse_tag.unwrap_or_default(),
        mode: attrs.mode & MODE_BITS | kind_of(attrs.file_type).0,
        owner: Sid::unix_user(attrs.uid),
        group: Sid::unix_group(attrs.gid),
    }
}

/// Linux 6.1 ignores file types and fails on that of a directory; newer kernels recognize directories without it.
fn kind_of(file_type: FileType) -> PosixFileType {
    match file_type {
        FileType::Regular | FileType::Directory => PosixFileType::FILE,
        FileType::Symlink => PosixFileType::SYMLINK,
        FileType::Character => PosixFileType::CHARACTER,
        FileType::Block => PosixFileType::BLOCK,
        FileType::Fifo => PosixFileType::FIFO,
        FileType::Socket => PosixFileType::SOCKET,
    }
}

pub(crate) fn information(
    inode: u64,
    attrs: &Attrs,
    file_info: &FileInfo,
    device_id: u32,
) -> PosixInformation {
    PosixInformation { inode, unix: unix_of(attrs, file_info), ..attributes_of(file_info, device_id) }
}

pub(crate) fn information_of_unknown(inode: u64, device_id: u32) -> PosixInformation {
    PosixInformation { inode, ..attributes_of(&FileInfo::default(), device_id) }
}

fn attributes_of(file_info: &FileInfo, device_id: u32) -> PosixInformation {
    PosixInformation {
        creation_time: file_info.created,
        last_access_time: file_info.accessed,
        last_write_time: file_info.written,
        change_time: file_info.changed,
        end_of_file: file_info.size,
        allocation_size: file_info.allocation,
        file_attributes: file_info.attributes,
        inode: 0,
        device_id,
        unix: PosixResponse {
            hard_links: 0,
            reparse_tag: file_info.reparse_tag.unwrap_or_default(),
            mode: 0,
            owner: Sid::nobody(),
            group: Sid::nobody(),
        },
    }
}

/// The mode in an entry for `S-1-5-88-3-mode`, as Linux's chmod sends it; other entries are ignored.
pub(crate) fn mode_of(list: Option<&Acl>) -> Option<u32> {
    list?.aces().iter().find_map(|ace| match ace.body() {
        AceBody::Plain { sid, .. } => match nfs_number(sid)? {
            (NFS_MODE, mode) => Some(mode & MODE_BITS),
            _ => None,
        },
        _ => None,
    })
}

/// Lists entries that encode owner, group and mode in SIDs of `S-1-5-88`, and grant nothing.
pub(crate) fn entries_of(attrs: &Attrs) -> impl Iterator<Item = Ace> {
    let values = [(NFS_USER, attrs.uid), (NFS_GROUP, attrs.gid), (NFS_MODE, attrs.mode & MODE_BITS)];
    let (authority, first) = NFS;
    values.into_iter().filter_map(move |(kind, number)| {
        let sid = Sid::new(authority, &[first, kind, number])?;
        Some(Ace::allow(AceFlags::empty(), AccessMask::empty(), sid))
    })
}

pub(crate) fn is_number(ace: &Ace) -> bool {
    matches!(ace.body(), AceBody::Plain { sid, .. } if nfs_number(sid).is_some())
}

/// The meaning of `S-1-5-88-1-uid` and `S-1-5-88-2-gid`.
pub(crate) fn id_of(sid: &Sid) -> Option<Id> {
    match nfs_number(sid)? {
        (NFS_USER, uid) => Some(Id::User(uid)),
        (NFS_GROUP, gid) => Some(Id::Group(gid)),
        _ => None,
    }
}

fn nfs_number(sid: &Sid) -> Option<(u32, u32)> {
    let mut numbers = sid.sub_authorities();
    let [first, kind, number] = [numbers.next()?, numbers.next()?, numbers.next()?];
    ((sid.authority(), first) == NFS && numbers.next().is_none()).then_some((kind, number))
}

/// Encodes the target of a symbolic link in UTF-16; `None` if it is not valid text. Windows gets backslashes and mapped
/// characters; POSIX opens get the target unchanged.
pub(crate) fn link_target(target: &[u8], naming: Naming) -> Option<(Vec<u8>, SymlinkFlags)> {
    let names = target.split(|&byte| byte == b'/').map(|name| to_wire(name, naming));
    let units = names.collect::<Option<Vec<_>>>()?.join(&naming.separator());
    let flags = if target.starts_with(b"/") { SymlinkFlags::empty() } else { SymlinkFlags::RELATIVE };
    Some((units.into_iter().flat_map(u16::to_le_bytes).collect(), flags))
}

/// Converts a link target from a client to its stored form.
pub(crate) fn target_of(wire: &[u16], flags: SymlinkFlags, naming: Naming) -> Result<Vec<u8>, NtStatus> {
    let (separator, dot) = (naming.separator(), u16::from(b'.'));
    if !flags.contains(SymlinkFlags::RELATIVE) && wire.first() != Some(&separator) {
        // A drive, or a path that only the client can resolve.
        return Err(NtStatus::IO_REPARSE_DATA_INVALID);
    }
    let stored = |name: &[u16]| match name.iter().all(|&unit| unit == dot) && name.len() <= 2 {
        // Links may contain "." and ".."; `component` refuses them, since a path must stay in its share.
        true => Ok(vec![b'.'; name.len()]),
        false => component(name, naming),
    };
    let names = wire.split(|&unit| unit == separator).map(stored);
    Ok(names.collect::<Result<Vec<_>, _>>()?.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_target_has_the_separators_of_its_reader() {
        let wire = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        let windows = |target: &[u8]| link_target(target, Naming::Windows);
        let (near, far) = (SymlinkFlags::RELATIVE, SymlinkFlags::empty());
        assert_eq!(windows(b"../a/b"), Some((wire("..\\a\\b"), near)));
        assert_eq!(windows(b"/a"), Some((wire("\\a"), far)));
        assert_eq!(windows(b"a:b"), Some((wire("a\u{f022}b"), near)));
        assert_eq!(windows(b"\xff"), None);
        assert_eq!(link_target(b"/a\\b:/c.", Naming::Posix), Some((wire("/a\\b:/c."), far)));
    }

    #[test]
    fn link_target_survives_the_wire() {
        for naming in [Naming::Windows, Naming::Posix] {
            for target in [&b"../a/b"[..], b"/a", b".", b"./x", b"a//b", b"a:b/c.", b"/", b"dir/"] {
                let (wire, flags) = link_target(target, naming).unwrap();
                let units: Vec<u16> =
                    wire.chunks(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
                assert_eq!(target_of(&units, flags, naming).as_deref(), Ok(target), "{naming:?}");
            }
        }
        let of =
            |text: &str, flags| target_of(&text.encode_utf16().collect::<Vec<_>>(), flags, Naming::Windows);
        let (near, far) = (SymlinkFlags::RELATIVE, SymlinkFlags::empty());
        for (text, flags) in [("C:\\a", far), ("a", far), ("", far)] {
            assert_eq!(of(text, flags), Err(NtStatus::IO_REPARSE_DATA_INVALID), "{text}");
        }
        for (text, flags) in [("\\??\\C:\\a", far), ("a:b", near), ("a|b", near), ("x/y", near)] {
            assert_eq!(of(text, flags), Err(NtStatus::OBJECT_NAME_INVALID), "{text}");
        }
    }

    #[test]
    fn unix_sid_under_another_authority_has_no_number() {
        let sid = |numbers: &[u32]| Sid::new(5, numbers).unwrap();
        assert_eq!(id_of(&sid(&[88, 1, 1000])), Some(Id::User(1000)));
        assert_eq!(id_of(&sid(&[88, 2, 100])), Some(Id::Group(100)));
        for other in [&[88, 3, 1][..], &[88, 1], &[88, 1, 1, 1], &[87, 1, 1]] {
            assert_eq!(id_of(&sid(other)), None, "{other:?}");
        }
        assert_eq!(id_of(&Sid::new(22, &[88, 1, 1]).unwrap()), None);
    }
}
