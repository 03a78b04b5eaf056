//! Access rights: a client's request, the equivalent of mode bits, and the form in the claim table.

use smb_wire::classes::file::Mode;
use smb_wire::create::{CreateOptions, ShareAccess};
use smb_wire::types::AccessMask;
use vfs::claims::{self, Rights};
use vfs::file::AccessReply;
use vfs::{Access, Caller, File};

/// The rights of everyone who can reach a file.
const ALWAYS: AccessMask =
    AccessMask(AccessMask::READ_ATTRIBUTES.0 | AccessMask::READ_CONTROL.0 | AccessMask::SYNCHRONIZE.0);
const READ: AccessMask = AccessMask(AccessMask::READ_DATA.0 | AccessMask::READ_EA.0);
const WRITE: AccessMask =
    AccessMask(AccessMask::WRITE_DATA.0 | AccessMask::APPEND_DATA.0 | AccessMask::WRITE_EA.0);
/// The rights of write permission. FILE_DELETE_CHILD means nothing for files, but a request for all rights includes it.
const MODIFY: AccessMask = AccessMask(WRITE.0 | AccessMask::DELETE_CHILD.0);

/// The rights that concern neither data nor attributes (MS-FSA §2.1.4.12).
const OTHER: AccessMask = AccessMask(
    AccessMask::READ_EA.0 | AccessMask::WRITE_EA.0 | AccessMask::WRITE_DAC.0 | AccessMask::WRITE_OWNER.0,
);

/// Replaces generic rights by those of files (MS-DTYP §2.4.3, MS-SMB2 §2.2.13.1).
pub(crate) fn without_generic(desired: AccessMask) -> AccessMask {
    let generic = [
        (AccessMask::GENERIC_READ, READ | ALWAYS),
        (
            AccessMask::GENERIC_WRITE,
            WRITE | AccessMask::WRITE_ATTRIBUTES | AccessMask::READ_CONTROL | AccessMask::SYNCHRONIZE,
        ),
        (AccessMask::GENERIC_EXECUTE, AccessMask::EXECUTE | ALWAYS),
        (AccessMask::GENERIC_ALL, AccessMask::FILE_ALL),
    ];
    generic.into_iter().fold(desired, |mask, (generic, rights)| {
        if mask.contains(generic) { mask.without(generic) | rights } else { mask }
    })
}

/// Computes `MaximalAccess` of a caller. The directory decides about deletion.
pub(crate) fn rights_from_mode(reply: &AccessReply, is_dir: bool, may_remove: bool) -> AccessMask {
    let rights = [
        (reply.read, READ),
        // A client that can read a file can execute it, so read implies execute.
        (if is_dir { reply.lookup } else { reply.execute || reply.read }, AccessMask::EXECUTE),
        (reply.modify, MODIFY),
        (reply.modify || reply.owns, AccessMask::WRITE_ATTRIBUTES),
        (reply.owns, AccessMask::WRITE_DAC | AccessMask::WRITE_OWNER),
        (may_remove, AccessMask::DELETE),
    ];
    rights.into_iter().filter(|(has, _)| *has).fold(ALWAYS, |mask, (_, more)| mask | more)
}

/// Computes all rights on a volume with NTFS rules. `sees`: the caller may list the directory (MS-FSA §2.1.5.1.2.1).
pub(crate) fn rights_from_list(rights: vfs::acl::Rights, sees: bool, may_remove: bool) -> AccessMask {
    let more = [(sees, AccessMask::READ_ATTRIBUTES), (may_remove, AccessMask::DELETE)];
    more.into_iter().filter(|(has, _)| *has).fold(AccessMask(rights.0), |mask, (_, more)| mask | more)
}

pub(crate) fn rights_of_bits(bits: u32, is_dir: bool) -> AccessMask {
    let (reads, writes, executes) = (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0);
    let rights = [(reads, READ), (executes || reads && !is_dir, AccessMask::EXECUTE), (writes, MODIFY)];
    rights.into_iter().filter(|(has, _)| *has).fold(ALWAYS, |mask, (_, more)| mask | more)
}

/// The data access of an open. On volumes with NTFS rules append alone gives no write access, since the storage has no
/// append-only access.
pub(crate) fn data_access(granted: AccessMask, is_listed: bool) -> Access {
    let mut access = Access::NONE;
    // Execute permits reading (MS-SMB2 §3.3.5.12).
    if granted.intersects(AccessMask::READ_DATA | AccessMask::EXECUTE) {
        access = access.and(Access::READ);
    }
    let writes = AccessMask::WRITE_DATA | AccessMask::APPEND_DATA;
    let writes = if is_listed { AccessMask::WRITE_DATA } else { writes };
    if granted.intersects(writes) {
        access = access.and(Access::WRITE);
    }
    access
}

/// The create options that are part of the mode (MS-FSCC §2.4.26).
pub(crate) fn mode_of(options: CreateOptions) -> Mode {
    let modes = [
        (CreateOptions::WRITE_THROUGH, Mode::WRITE_THROUGH),
        (CreateOptions::SEQUENTIAL_ONLY, Mode::SEQUENTIAL_ONLY),
        (CreateOptions::NO_INTERMEDIATE_BUFFERING, Mode::NO_INTERMEDIATE_BUFFERING),
        (CreateOptions::SYNCHRONOUS_IO_ALERT, Mode::SYNCHRONOUS_IO_ALERT),
        (CreateOptions::SYNCHRONOUS_IO_NONALERT, Mode::SYNCHRONOUS_IO_NONALERT),
        (CreateOptions::DELETE_ON_CLOSE, Mode::DELETE_ON_CLOSE),
    ];
    modes
        .into_iter()
        .filter(|(option, _)| options.contains(*option))
        .fold(Mode::empty(), |all, (_, mode)| all | mode)
}

/// The claims of an open. A read-only rule drops its share mode, and so does a snapshot: programs deny sharing out of
/// habit, and must not lock out others.
pub(crate) fn claimed_by(
    caller: &Caller,
    file: &File,
    granted: AccessMask,
    share: ShareAccess,
) -> claims::Access {
    let access = claimed(granted, share);
    let denies = !caller.read_only && file.is_live();
    if denies { access } else { claims::Access { deny: Rights::NONE, ..access } }
}

/// Rights and share mode in the form of the claim table (MS-FSA §2.1.5.1.2.2).
fn claimed(granted: AccessMask, share: ShareAccess) -> claims::Access {
    let sum = |rights: &[(bool, Rights)]| {
        rights.iter().filter(|(has, _)| *has).fold(Rights::NONE, |all, (_, right)| all | *right)
    };
    let rights = sum(&[
        (granted.intersects(AccessMask::READ_DATA | AccessMask::EXECUTE), Rights::READ),
        (granted.intersects(AccessMask::WRITE_DATA | AccessMask::APPEND_DATA), Rights::WRITE),
        (granted.contains(AccessMask::DELETE), Rights::DELETE),
        (granted.contains(AccessMask::READ_CONTROL), Rights::DESCRIPTOR),
        (granted.intersects(OTHER), Rights::OTHER),
    ]);
    let deny = sum(&[
        (!share.contains(ShareAccess::READ), Rights::READ),
        (!share.contains(ShareAccess::WRITE), Rights::WRITE),
        (!share.contains(ShareAccess::DELETE), Rights::DELETE),
    ]);
    claims::Access { rights, deny }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_with_read_and_write_has_all_rights() {
        let file = vfs::Attrs {
            file_type: vfs::FileType::Regular,
            mode: 0o644,
            links: 1,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: vfs::Device::default(),
            file_id: 1,
            accessed: vfs::Time { seconds: 0, nanos: 0 },
            modified: vfs::Time { seconds: 0, nanos: 0 },
            changed: vfs::Time { seconds: 0, nanos: 0 },
            change: 1,
            born: None,
            view: vfs::ViewId::LIVE,
        };
        let none = AccessReply {
            attrs: file,
            read: false,
            lookup: false,
            modify: false,
            extend: false,
            delete: false,
            execute: false,
            owns: false,
        };
        let owner = AccessReply { read: true, modify: true, extend: true, owns: true, ..none };
        assert_eq!(rights_from_mode(&owner, false, true), AccessMask::FILE_ALL);
        assert!(!rights_from_mode(&owner, false, false).contains(AccessMask::DELETE));
        assert_eq!(rights_from_mode(&none, false, false), ALWAYS);
    }

    #[test]
    fn generic_rights_map_to_file_rights() {
        assert_eq!(without_generic(AccessMask::GENERIC_ALL), AccessMask::FILE_ALL);
        assert_eq!(without_generic(AccessMask::GENERIC_READ), AccessMask(0x0012_0089));
        assert_eq!(without_generic(AccessMask::GENERIC_WRITE), AccessMask(0x0012_0116));
        assert_eq!(without_generic(AccessMask::GENERIC_EXECUTE), AccessMask(0x0012_00a0));
        let maximal = AccessMask::MAXIMUM_ALLOWED | AccessMask::DELETE;
        assert_eq!(without_generic(maximal), maximal);
    }

    #[test]
    fn open_of_attributes_conflicts_with_none() {
        let attributes = claimed(AccessMask::READ_ATTRIBUTES | AccessMask::SYNCHRONIZE, ShareAccess::empty());
        let alone = claimed(AccessMask::FILE_ALL, ShareAccess::empty());
        assert!(attributes.rights.is_none() && !attributes.conflicts(alone));
        let reader =
            claimed(AccessMask::EXECUTE, ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE);
        assert!(reader.conflicts(alone) && reader.deny.is_none());
    }
}
