//! Attributes: their numbers, and the values that are more than a number, RFC 8881 §5 and §6.
//!
//! A number without a section is one of RFC 8881 §5.8 or RFC 7862 §12.2. How values are read from a file and
//! put into an [`Fattr`](super::Fattr) is not of this crate.

use xdr::Xdr;

use super::{ARRAY_MAX, Bitmap, Component, NAME_MAX, NfsTime, TEXT_MAX, Text};
use crate::bits::bits;

xdr::constants! {
    pub NAMED {
        SUPPORTED_ATTRS: "FATTR4_SUPPORTED_ATTRS" = 0,
        TYPE: "FATTR4_TYPE" = 1,
        FH_EXPIRE_TYPE: "FATTR4_FH_EXPIRE_TYPE" = 2,
        CHANGE: "FATTR4_CHANGE" = 3,
        SIZE: "FATTR4_SIZE" = 4,
        LINK_SUPPORT: "FATTR4_LINK_SUPPORT" = 5,
        SYMLINK_SUPPORT: "FATTR4_SYMLINK_SUPPORT" = 6,
        NAMED_ATTR: "FATTR4_NAMED_ATTR" = 7,
        FSID: "FATTR4_FSID" = 8,
        UNIQUE_HANDLES: "FATTR4_UNIQUE_HANDLES" = 9,
        LEASE_TIME: "FATTR4_LEASE_TIME" = 10,
        RDATTR_ERROR: "FATTR4_RDATTR_ERROR" = 11,
        ACL: "FATTR4_ACL" = 12,
        ACLSUPPORT: "FATTR4_ACLSUPPORT" = 13,
        ARCHIVE: "FATTR4_ARCHIVE" = 14,
        CANSETTIME: "FATTR4_CANSETTIME" = 15,
        CASE_INSENSITIVE: "FATTR4_CASE_INSENSITIVE" = 16,
        CASE_PRESERVING: "FATTR4_CASE_PRESERVING" = 17,
        CHOWN_RESTRICTED: "FATTR4_CHOWN_RESTRICTED" = 18,
        FILEHANDLE: "FATTR4_FILEHANDLE" = 19,
        FILEID: "FATTR4_FILEID" = 20,
        FILES_AVAIL: "FATTR4_FILES_AVAIL" = 21,
        FILES_FREE: "FATTR4_FILES_FREE" = 22,
        FILES_TOTAL: "FATTR4_FILES_TOTAL" = 23,
        FS_LOCATIONS: "FATTR4_FS_LOCATIONS" = 24,
        HIDDEN: "FATTR4_HIDDEN" = 25,
        HOMOGENEOUS: "FATTR4_HOMOGENEOUS" = 26,
        MAXFILESIZE: "FATTR4_MAXFILESIZE" = 27,
        MAXLINK: "FATTR4_MAXLINK" = 28,
        MAXNAME: "FATTR4_MAXNAME" = 29,
        MAXREAD: "FATTR4_MAXREAD" = 30,
        MAXWRITE: "FATTR4_MAXWRITE" = 31,
        MIMETYPE: "FATTR4_MIMETYPE" = 32,
        MODE: "FATTR4_MODE" = 33,
        NO_TRUNC: "FATTR4_NO_TRUNC" = 34,
        NUMLINKS: "FATTR4_NUMLINKS" = 35,
        OWNER: "FATTR4_OWNER" = 36,
        OWNER_GROUP: "FATTR4_OWNER_GROUP" = 37,
        QUOTA_AVAIL_HARD: "FATTR4_QUOTA_AVAIL_HARD" = 38,
        QUOTA_AVAIL_SOFT: "FATTR4_QUOTA_AVAIL_SOFT" = 39,
        QUOTA_USED: "FATTR4_QUOTA_USED" = 40,
        RAWDEV: "FATTR4_RAWDEV" = 41,
        SPACE_AVAIL: "FATTR4_SPACE_AVAIL" = 42,
        SPACE_FREE: "FATTR4_SPACE_FREE" = 43,
        SPACE_TOTAL: "FATTR4_SPACE_TOTAL" = 44,
        SPACE_USED: "FATTR4_SPACE_USED" = 45,
        SYSTEM: "FATTR4_SYSTEM" = 46,
        TIME_ACCESS: "FATTR4_TIME_ACCESS" = 47,
        TIME_ACCESS_SET: "FATTR4_TIME_ACCESS_SET" = 48,
        TIME_BACKUP: "FATTR4_TIME_BACKUP" = 49,
        TIME_CREATE: "FATTR4_TIME_CREATE" = 50,
        TIME_DELTA: "FATTR4_TIME_DELTA" = 51,
        TIME_METADATA: "FATTR4_TIME_METADATA" = 52,
        TIME_MODIFY: "FATTR4_TIME_MODIFY" = 53,
        TIME_MODIFY_SET: "FATTR4_TIME_MODIFY_SET" = 54,
        MOUNTED_ON_FILEID: "FATTR4_MOUNTED_ON_FILEID" = 55,
        DIR_NOTIF_DELAY: "FATTR4_DIR_NOTIF_DELAY" = 56,
        DIRENT_NOTIF_DELAY: "FATTR4_DIRENT_NOTIF_DELAY" = 57,
        DACL: "FATTR4_DACL" = 58,
        SACL: "FATTR4_SACL" = 59,
        CHANGE_POLICY: "FATTR4_CHANGE_POLICY" = 60,
        FS_STATUS: "FATTR4_FS_STATUS" = 61,
        FS_LAYOUT_TYPES: "FATTR4_FS_LAYOUT_TYPES" = 62,
        LAYOUT_HINT: "FATTR4_LAYOUT_HINT" = 63,
        LAYOUT_TYPES: "FATTR4_LAYOUT_TYPES" = 64,
        LAYOUT_BLKSIZE: "FATTR4_LAYOUT_BLKSIZE" = 65,
        LAYOUT_ALIGNMENT: "FATTR4_LAYOUT_ALIGNMENT" = 66,
        FS_LOCATIONS_INFO: "FATTR4_FS_LOCATIONS_INFO" = 67,
        MDSTHRESHOLD: "FATTR4_MDSTHRESHOLD" = 68,
        RETENTION_GET: "FATTR4_RETENTION_GET" = 69,
        RETENTION_SET: "FATTR4_RETENTION_SET" = 70,
        RETENTEVT_GET: "FATTR4_RETENTEVT_GET" = 71,
        RETENTEVT_SET: "FATTR4_RETENTEVT_SET" = 72,
        RETENTION_HOLD: "FATTR4_RETENTION_HOLD" = 73,
        MODE_SET_MASKED: "FATTR4_MODE_SET_MASKED" = 74,
        SUPPATTR_EXCLCREAT: "FATTR4_SUPPATTR_EXCLCREAT" = 75,
        FS_CHARSET_CAP: "FATTR4_FS_CHARSET_CAP" = 76,
        CLONE_BLKSIZE: "FATTR4_CLONE_BLKSIZE" = 77,
        SPACE_FREED: "FATTR4_SPACE_FREED" = 78,
        CHANGE_ATTR_TYPE: "FATTR4_CHANGE_ATTR_TYPE" = 79,
        SEC_LABEL: "FATTR4_SEC_LABEL" = 80,
        MODE_UMASK: "FATTR4_MODE_UMASK" = 81,
        XATTR_SUPPORT: "FATTR4_XATTR_SUPPORT" = 82,
        OFFLINE: "FATTR4_OFFLINE" = 83,
        TIME_DELEG_ACCESS: "FATTR4_TIME_DELEG_ACCESS" = 84,
        TIME_DELEG_MODIFY: "FATTR4_TIME_DELEG_MODIFY" = 85,
        OPEN_ARGUMENTS: "FATTR4_OPEN_ARGUMENTS" = 86,
    }
}

/// The specification's name of the attribute `number`, for logs.
pub fn name(number: u32) -> Option<&'static str> {
    NAMED.iter().find(|(_, value)| *value == number).map(|(name, _)| *name)
}

/// `time_how4`, RFC 8881 §3.3.2; the tags of [`SetTime`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum TimeHow {
    #[xdr(name = "SET_TO_SERVER_TIME4")]
    SetToServerTime = 0,
    #[xdr(name = "SET_TO_CLIENT_TIME4")]
    SetToClientTime = 1,
}

/// `settime4`, RFC 8881 §3.3.3: `time_access_set` and `time_modify_set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum SetTime {
    #[xdr(tag = TimeHow::SetToServerTime as u32)]
    ServerTime,
    #[xdr(tag = TimeHow::SetToClientTime as u32)]
    ClientTime(NfsTime),
}

xdr::open_set! {
    /// The bits of `fh_expire_type`, RFC 8881 §5.8.1.3.
    pub struct FhExpireType {
        PERSISTENT: "FH4_PERSISTENT" = 0x0000_0000,
        NOEXPIRE_WITH_OPEN: "FH4_NOEXPIRE_WITH_OPEN" = 0x0000_0001,
        VOLATILE_ANY: "FH4_VOLATILE_ANY" = 0x0000_0002,
        VOL_MIGRATION: "FH4_VOL_MIGRATION" = 0x0000_0004,
        VOL_RENAME: "FH4_VOL_RENAME" = 0x0000_0008,
    }
}

xdr::open_set! {
    /// The bits of `aclsupport`, RFC 8881 §6.2.1.2.
    pub struct AclSupport {
        ALLOW_ACL: "ACL4_SUPPORT_ALLOW_ACL" = 0x0000_0001,
        DENY_ACL: "ACL4_SUPPORT_DENY_ACL" = 0x0000_0002,
        AUDIT_ACL: "ACL4_SUPPORT_AUDIT_ACL" = 0x0000_0004,
        ALARM_ACL: "ACL4_SUPPORT_ALARM_ACL" = 0x0000_0008,
    }
}

xdr::open_set! {
    /// `acetype4`, RFC 8881 §6.2.1.1.
    pub struct AceType {
        ACCESS_ALLOWED: "ACE4_ACCESS_ALLOWED_ACE_TYPE" = 0x0000_0000,
        ACCESS_DENIED: "ACE4_ACCESS_DENIED_ACE_TYPE" = 0x0000_0001,
        SYSTEM_AUDIT: "ACE4_SYSTEM_AUDIT_ACE_TYPE" = 0x0000_0002,
        SYSTEM_ALARM: "ACE4_SYSTEM_ALARM_ACE_TYPE" = 0x0000_0003,
    }
}

xdr::open_set! {
    /// `aceflag4`, RFC 8881 §6.2.1.4.
    pub struct AceFlag {
        FILE_INHERIT_ACE: "ACE4_FILE_INHERIT_ACE" = 0x0000_0001,
        DIRECTORY_INHERIT_ACE: "ACE4_DIRECTORY_INHERIT_ACE" = 0x0000_0002,
        NO_PROPAGATE_INHERIT_ACE: "ACE4_NO_PROPAGATE_INHERIT_ACE" = 0x0000_0004,
        INHERIT_ONLY_ACE: "ACE4_INHERIT_ONLY_ACE" = 0x0000_0008,
        SUCCESSFUL_ACCESS_ACE_FLAG: "ACE4_SUCCESSFUL_ACCESS_ACE_FLAG" = 0x0000_0010,
        FAILED_ACCESS_ACE_FLAG: "ACE4_FAILED_ACCESS_ACE_FLAG" = 0x0000_0020,
        IDENTIFIER_GROUP: "ACE4_IDENTIFIER_GROUP" = 0x0000_0040,
        INHERITED_ACE: "ACE4_INHERITED_ACE" = 0x0000_0080,
    }
}

xdr::open_set! {
    /// `acemask4`, RFC 8881 §6.2.1.3.
    pub struct AceMask {
        READ_DATA: "ACE4_READ_DATA" = 0x0000_0001,
        LIST_DIRECTORY: "ACE4_LIST_DIRECTORY" = 0x0000_0001,
        WRITE_DATA: "ACE4_WRITE_DATA" = 0x0000_0002,
        ADD_FILE: "ACE4_ADD_FILE" = 0x0000_0002,
        APPEND_DATA: "ACE4_APPEND_DATA" = 0x0000_0004,
        ADD_SUBDIRECTORY: "ACE4_ADD_SUBDIRECTORY" = 0x0000_0004,
        READ_NAMED_ATTRS: "ACE4_READ_NAMED_ATTRS" = 0x0000_0008,
        WRITE_NAMED_ATTRS: "ACE4_WRITE_NAMED_ATTRS" = 0x0000_0010,
        EXECUTE: "ACE4_EXECUTE" = 0x0000_0020,
        DELETE_CHILD: "ACE4_DELETE_CHILD" = 0x0000_0040,
        READ_ATTRIBUTES: "ACE4_READ_ATTRIBUTES" = 0x0000_0080,
        WRITE_ATTRIBUTES: "ACE4_WRITE_ATTRIBUTES" = 0x0000_0100,
        WRITE_RETENTION: "ACE4_WRITE_RETENTION" = 0x0000_0200,
        WRITE_RETENTION_HOLD: "ACE4_WRITE_RETENTION_HOLD" = 0x0000_0400,
        DELETE: "ACE4_DELETE" = 0x0001_0000,
        READ_ACL: "ACE4_READ_ACL" = 0x0002_0000,
        WRITE_ACL: "ACE4_WRITE_ACL" = 0x0004_0000,
        WRITE_OWNER: "ACE4_WRITE_OWNER" = 0x0008_0000,
        SYNCHRONIZE: "ACE4_SYNCHRONIZE" = 0x0010_0000,
        GENERIC_READ: "ACE4_GENERIC_READ" = 0x0012_0081,
        GENERIC_WRITE: "ACE4_GENERIC_WRITE" = 0x0016_0106,
        GENERIC_EXECUTE: "ACE4_GENERIC_EXECUTE" = 0x0012_00a0,
    }
}

xdr::open_set! {
    /// `aclflag4`, RFC 8881 §6.4.3.2.
    pub struct AclFlag {
        AUTO_INHERIT: "ACL4_AUTO_INHERIT" = 0x0000_0001,
        PROTECTED: "ACL4_PROTECTED" = 0x0000_0002,
        DEFAULTED: "ACL4_DEFAULTED" = 0x0000_0004,
    }
}

bits!(FhExpireType, AclSupport, AceFlag, AceMask, AclFlag);

/// `nfsace4`, RFC 8881 §6.2.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct Ace<'a> {
    pub acetype: AceType,
    pub flag: AceFlag,
    pub access_mask: AceMask,
    #[xdr(max = TEXT_MAX)]
    pub who: &'a [u8],
}

/// `fattr4_acl`, RFC 8881 §6.2.1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Xdr)]
pub struct Acl<'a>(#[xdr(max = ARRAY_MAX)] pub Vec<Ace<'a>>);

/// `nfsacl41`, RFC 8881 §6.4.3.2: `dacl` and `sacl`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Xdr)]
pub struct Acl41<'a> {
    pub flag: AclFlag,
    pub aces: Acl<'a>,
}

/// `mode_masked4`, RFC 8881 §6.2.5: `mode_set_masked`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct ModeMasked {
    pub value_to_set: u32,
    pub mask_bits: u32,
}

/// `mode_umask4`, RFC 8275 §4: the mode of a new file and the umask that applies where no ACL is inherited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct ModeUmask {
    pub mode: u32,
    pub umask: u32,
}

/// `pathname4`, RFC 8881 §3.2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Xdr)]
pub struct Pathname<'a>(#[xdr(max = ARRAY_MAX)] pub Vec<Component<'a>>);

/// `fs_location4`, RFC 8881 §11.16.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct FsLocation<'a> {
    #[xdr(max = ARRAY_MAX)]
    pub server: Vec<Text<'a>>,
    pub rootpath: Pathname<'a>,
}

/// `fs_locations4`, RFC 8881 §11.16.
#[derive(Clone, Debug, Default, PartialEq, Eq, Xdr)]
pub struct FsLocations<'a> {
    pub fs_root: Pathname<'a>,
    #[xdr(max = ARRAY_MAX)]
    pub locations: Vec<FsLocation<'a>>,
}

xdr::open_set! {
    /// `change_attr_type4`, RFC 7862 §12.2.3.
    pub struct ChangeAttrType {
        MONOTONIC_INCR: "NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR" = 0,
        VERSION_COUNTER: "NFS4_CHANGE_TYPE_IS_VERSION_COUNTER" = 1,
        VERSION_COUNTER_NOPNFS: "NFS4_CHANGE_TYPE_IS_VERSION_COUNTER_NOPNFS" = 2,
        TIME_METADATA: "NFS4_CHANGE_TYPE_IS_TIME_METADATA" = 3,
        UNDEFINED: "NFS4_CHANGE_TYPE_IS_UNDEFINED" = 4,
    }
}

/// `sec_label4`, RFC 7862 §12.2.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SecLabel<'a> {
    pub lfs: u32,
    pub pi: u32,
    #[xdr(max = NAME_MAX)]
    pub data: &'a [u8],
}

/// `open_arguments4`, RFC 9754 §3: the options that OPEN supports. The numbers in the sets are the values of
/// [`ShareAccess`](super::ShareAccess), [`ShareDeny`](super::ShareDeny), [`OpenArgsWant`],
/// [`OpenClaimType`](super::OpenClaimType) and [`CreateMode`](super::CreateMode).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct OpenArguments {
    pub share_access: Bitmap,
    pub share_deny: Bitmap,
    pub share_access_want: Bitmap,
    pub open_claim: Bitmap,
    pub create_mode: Bitmap,
}

xdr::open_set! {
    /// `open_args_share_access_want4`, RFC 9754 §3.
    pub struct OpenArgsWant {
        ANY_DELEG: "OPEN_ARGS_SHARE_ACCESS_WANT_ANY_DELEG" = 3,
        NO_DELEG: "OPEN_ARGS_SHARE_ACCESS_WANT_NO_DELEG" = 4,
        CANCEL: "OPEN_ARGS_SHARE_ACCESS_WANT_CANCEL" = 5,
        SIGNAL_DELEG_WHEN_RESRC_AVAIL: "OPEN_ARGS_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL" = 17,
        PUSH_DELEG_WHEN_UNCONTENDED: "OPEN_ARGS_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED" = 18,
        DELEG_TIMESTAMPS: "OPEN_ARGS_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS" = 20,
        OPEN_XOR_DELEGATION: "OPEN_ARGS_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION" = 21,
    }
}
