//! Which attributes there are: since which minor version, whether they can be read and set, and how they are
//! encoded.
//!
//! Numbers without a comment are of RFC 8881 §5.

use super::super::compound_state::{OpError, OpResult};
use super::acl;
use super::attr_request::When;
use super::attr_source::AttrSource;
use super::block::Block;
use crate::id_map::IdKind;
use crate::limits::TRANSFER_BYTES_MAX;
use nfs_wire::v4::attr::{self, AclSupport, ChangeAttrType, FhExpireType, OpenArgsWant, OpenArguments};
use nfs_wire::v4::{
    Bitmap, CreateMode, FileType, NfsTime, OpenClaimType, ShareAccess, ShareDeny, SpecData, Status,
};
use vfs::{FsResult, Time};
use xdr::{Encode, Writer};

/// The occasions on which an attribute can be set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settable {
    Never,
    Always,
    /// But not with a creation that is done once only: its key lies there.
    NotOnce,
    AtCreation,
}

struct Attribute {
    number: u32,
    since: u32,
    set: Settable,
    is_readable: bool,
}

/// The table of attributes and their encoders, the inner loop of every listing.
macro_rules! attributes {
    ($($number:path, $since:literal, $set:ident $(, |$source:ident| $value:expr)?;)*) => {
        /// All, in the order in which values follow one another.
        const TABLE: &[Attribute] = &[$(Attribute {
            number: $number,
            since: $since,
            set: Settable::$set,
            is_readable: {
                const VALUE: &[&str] = &[$(stringify!($value))?];
                !VALUE.is_empty()
            },
        },)*];

        /// Writes the value of an attribute.
        fn write(number: u32, source: &AttrSource<'_>, w: &mut Writer<'_>) -> FsResult<()> {
            match number {
                $($($number => {
                    let $source = source;
                    $value.encode(w);
                })?)*
                _ => {}
            }
            Ok(())
        }

        /// Writes the values of these attributes, which are known when this is compiled, in one go.
        #[inline]
        fn write_all<const MASK: u128>(source: &AttrSource<'_>, w: &mut Writer<'_>) -> FsResult<()> {
            $($(if MASK & 1 << $number != 0 {
                let $source = source;
                $value.encode(w);
            })?)*
            Ok(())
        }
    };
}

// Number, first minor version, settability, value.
attributes! {
    attr::SUPPORTED_ATTRS, 0, Never, |s| s.supported();
    attr::TYPE, 0, Never, |s| file_type(s.attrs.file_type);
    attr::FH_EXPIRE_TYPE, 0, Never, |_s| FhExpireType::PERSISTENT;
    attr::CHANGE, 0, Never, |s| s.attrs.change;
    attr::SIZE, 0, Always, |s| s.attrs.size;
    attr::LINK_SUPPORT, 0, Never, |_s| true;
    attr::SYMLINK_SUPPORT, 0, Never, |_s| true;
    attr::NAMED_ATTR, 0, Never, |_s| false;
    attr::FSID, 0, Never, |s| s.fsid();
    // A volume with two exports has two filehandles for every file.
    attr::UNIQUE_HANDLES, 0, Never, |_s| false;
    attr::LEASE_TIME, 0, Never, |s| s.fs.lease_s();
    attr::RDATTR_ERROR, 0, Never, |_s| Status::OK;
    attr::ACL, 0, Always, |s| acl::acl_value(s.attrs, (s.acl)()?.as_deref(), s.fs.naming())?;
    attr::ACLSUPPORT, 0, Never, |_s| AclSupport::ALLOW_ACL | AclSupport::DENY_ACL;
    attr::CANSETTIME, 0, Never, |_s| true;
    attr::CASE_INSENSITIVE, 0, Never, |_s| false;
    attr::CASE_PRESERVING, 0, Never, |_s| true;
    attr::CHOWN_RESTRICTED, 0, Never, |_s| true;
    attr::FILEHANDLE, 0, Never, |s| s.handle.map_or(&[][..], |handle| handle.bytes());
    attr::FILEID, 0, Never, |s| s.attrs.file_id;
    attr::FILES_AVAIL, 0, Never, |s| s.fs.stat()?.files_available;
    attr::FILES_FREE, 0, Never, |s| s.fs.stat()?.files_free;
    attr::FILES_TOTAL, 0, Never, |s| s.fs.stat()?.files_total;
    attr::FS_LOCATIONS, 0, Never, |s| s.fs.locations();
    attr::HOMOGENEOUS, 0, Never, |_s| true;
    attr::MAXFILESIZE, 0, Never, |s| s.fs.limits().file_bytes_max;
    attr::MAXLINK, 0, Never, |s| s.fs.limits().links_max;
    attr::MAXNAME, 0, Never, |s| s.fs.limits().name_bytes_max;
    attr::MAXREAD, 0, Never, |_s| u64::from(TRANSFER_BYTES_MAX);
    attr::MAXWRITE, 0, Never, |_s| u64::from(TRANSFER_BYTES_MAX);
    attr::MODE, 0, Always, |s| s.attrs.mode;
    attr::NO_TRUNC, 0, Never, |_s| true;
    attr::NUMLINKS, 0, Never, |s| s.attrs.links;
    attr::OWNER, 0, Always, |s| s.fs.naming().owner(IdKind::User, s.attrs.uid)?;
    attr::OWNER_GROUP, 0, Always, |s| s.fs.naming().owner(IdKind::Group, s.attrs.gid)?;
    attr::QUOTA_AVAIL_HARD, 0, Never, |s| s.quota_room().bytes.unwrap_or(u64::MAX);
    attr::QUOTA_AVAIL_SOFT, 0, Never, |s| s.quota_room().soft_bytes.unwrap_or(u64::MAX);
    attr::QUOTA_USED, 0, Never, |s| s.quota_room().bytes_used;
    attr::RAWDEV, 0, Never, |s| SpecData { specdata1: s.attrs.device.major, specdata2: s.attrs.device.minor };
    attr::SPACE_AVAIL, 0, Never, |s| s.fs.stat()?.bytes_available;
    attr::SPACE_FREE, 0, Never, |s| s.fs.stat()?.bytes_free;
    attr::SPACE_TOTAL, 0, Never, |s| s.fs.stat()?.bytes_total;
    attr::SPACE_USED, 0, Never, |s| s.attrs.used;
    attr::TIME_ACCESS, 0, Never, |s| nfs_time(s.attrs.accessed);
    attr::TIME_ACCESS_SET, 0, NotOnce;
    attr::TIME_CREATE, 0, Always, |s| nfs_time(s.attrs.born.unwrap_or_default());
    attr::TIME_DELTA, 0, Never, |s| NfsTime { seconds: 0, nseconds: s.fs.limits().time_step_ns };
    attr::TIME_METADATA, 0, Never, |s| nfs_time(s.attrs.changed);
    attr::TIME_MODIFY, 0, Never, |s| nfs_time(s.attrs.modified);
    attr::TIME_MODIFY_SET, 0, NotOnce;
    attr::MOUNTED_ON_FILEID, 0, Never, |s| s.mounted_on;
    attr::DACL, 1, Always, |s| acl::acl_value(s.attrs, (s.acl)()?.as_deref(), s.fs.naming())?.into_dacl();
    attr::SUPPATTR_EXCLCREAT, 1, Never, |s| settable(s.fs.minor, When::Once) & s.supported();
    // RFC 7862 §12.2.
    attr::CLONE_BLKSIZE, 2, Never, |s| s.clone_bytes().unwrap_or(0);
    attr::CHANGE_ATTR_TYPE, 2, Never, |s| change_attr_type(s);
    // RFC 8275.
    attr::MODE_UMASK, 2, AtCreation;
    // RFC 8276. Linux queries the root only, and applies the answer to everything below.
    attr::XATTR_SUPPORT, 2, Never, |s| s.fs.is_pseudo() || s.fs.capabilities().xattrs.is_some();
    // RFC 9754.
    attr::OPEN_ARGUMENTS, 2, Never, |s| open_arguments(s);
}

/// The attributes that Linux requests of a file.
pub(super) const OF_A_FILE: u128 = Bitmap::of(&[
    attr::TYPE,
    attr::CHANGE,
    attr::SIZE,
    attr::FSID,
    attr::FILEID,
    attr::MODE,
    attr::NUMLINKS,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::RAWDEV,
    attr::SPACE_USED,
    attr::TIME_ACCESS,
    attr::TIME_METADATA,
    attr::TIME_MODIFY,
    attr::MOUNTED_ON_FILEID,
])
.bits();
/// The attributes that Linux requests of each listed name.
pub(super) const OF_A_NAME: u128 = OF_A_FILE | Bitmap::of(&[attr::RDATTR_ERROR, attr::FILEHANDLE]).bits();
/// The attributes that Linux requests after a change of data.
pub(super) const OF_A_CHANGE: u128 =
    Bitmap::of(&[attr::CHANGE, attr::SIZE, attr::SPACE_USED, attr::TIME_METADATA, attr::TIME_MODIFY]).bits();

/// The arguments that OPEN supports.
const OPEN_ARGUMENTS: OpenArguments = OpenArguments {
    share_access: Bitmap::of(&[ShareAccess::READ.0, ShareAccess::WRITE.0, ShareAccess::BOTH.0]),
    share_deny: Bitmap::of(&[ShareDeny::NONE.0, ShareDeny::READ.0, ShareDeny::WRITE.0, ShareDeny::BOTH.0]),
    share_access_want: Bitmap::of(&[
        OpenArgsWant::ANY_DELEG.0,
        OpenArgsWant::NO_DELEG.0,
        OpenArgsWant::CANCEL.0,
    ]),
    open_claim: Bitmap::of(&[
        OpenClaimType::Null as u32,
        OpenClaimType::Previous as u32,
        OpenClaimType::DelegateCur as u32,
        OpenClaimType::Fh as u32,
        OpenClaimType::DelegCurFh as u32,
    ]),
    create_mode: Bitmap::of(&[
        CreateMode::Unchecked as u32,
        CreateMode::Guarded as u32,
        CreateMode::Exclusive as u32,
        CreateMode::Exclusive41 as u32,
    ]),
};

/// The arguments that OPEN supports, with delegated timestamps where they are enabled.
fn open_arguments(source: &AttrSource<'_>) -> OpenArguments {
    let delegated = [OpenArgsWant::DELEG_TIMESTAMPS.0, OpenArgsWant::OPEN_XOR_DELEGATION.0];
    let more = if source.fs.delegates_times() { Bitmap::of(&delegated) } else { Bitmap::EMPTY };
    OpenArguments { share_access_want: OPEN_ARGUMENTS.share_access_want | more, ..OPEN_ARGUMENTS }
}

const MINOR_MAX: u32 = 2;
/// The attributes of each minor version.
const SUPPORTED: [Bitmap; MINOR_MAX as usize + 1] = [since_until(0), since_until(1), since_until(2)];
/// The attributes that can be set but not read.
const WRITE_ONLY: Bitmap = {
    let (mut all, mut index) = (Bitmap::EMPTY, 0);
    while index < TABLE.len() {
        if !TABLE[index].is_readable {
            all.insert(TABLE[index].number);
        }
        index += 1;
    }
    all
};
/// Writes the attributes that Linux requests of a file, or of a name in a listing.
#[inline]
fn write_object<const IS_NAME: bool>(source: &AttrSource<'_>, w: &mut Writer<'_>) -> FsResult<()> {
    let (attrs, system) = (source.attrs, source.fs);
    let (fsid, naming) = (source.fsid(), system.naming());
    let kind = file_type(attrs.file_type) as u32;
    let what = Block::<36>::new().u32(kind).u64(attrs.change).u64(attrs.size).u64(fsid.major).u64(fsid.minor);
    what.write(w);
    if IS_NAME {
        Status::OK.encode(w);
        source.handle.map_or(&[][..], |handle| handle.bytes()).encode(w);
    }
    Block::<16>::new().u64(attrs.file_id).u32(attrs.mode).u32(attrs.links).write(w);
    naming.owner(IdKind::User, attrs.uid)?.encode(w);
    naming.owner(IdKind::Group, attrs.gid)?.encode(w);
    let device = Block::<60>::new().u32(attrs.device.major).u32(attrs.device.minor).u64(attrs.used);
    let times = device.time(attrs.accessed).time(attrs.changed).time(attrs.modified);
    times.u64(source.mounted_on).write(w);
    Ok(())
}

/// The attributes of files in volumes with quota rules.
pub(super) const QUOTA: Bitmap =
    Bitmap::of(&[attr::QUOTA_AVAIL_HARD, attr::QUOTA_AVAIL_SOFT, attr::QUOTA_USED]);

/// The attributes of an entry that are known without opening it.
const ENTRY: Bitmap = Bitmap::of(&[attr::RDATTR_ERROR, attr::FILEID, attr::MOUNTED_ON_FILEID]);

const _: () = {
    let mut index = 1;
    while index < TABLE.len() {
        assert!(TABLE[index - 1].number < TABLE[index].number, "values are encoded in ascending order");
        index += 1;
    }
};

const fn since_until(minor: u32) -> Bitmap {
    let (mut all, mut index) = (Bitmap::EMPTY, 0);
    while index < TABLE.len() {
        if TABLE[index].since <= minor {
            all.insert(TABLE[index].number);
        }
        index += 1;
    }
    all
}

#[inline]
pub(super) fn supported(minor: u32) -> Bitmap {
    SUPPORTED[minor.min(MINOR_MAX) as usize]
}

pub(super) fn settable(minor: u32, when: When) -> Bitmap {
    let is_settable = |set| match set {
        Settable::Never => false,
        Settable::Always => true,
        Settable::NotOnce => when != When::Once,
        Settable::AtCreation => when != When::Later,
    };
    let mut all = Bitmap::EMPTY;
    let settable = TABLE.iter().filter(|attribute| attribute.since <= minor && is_settable(attribute.set));
    settable.for_each(|attribute| all.insert(attribute.number));
    all
}

/// Refuses attributes that can only be set.
#[inline]
pub(in crate::v4) fn check_request(request: &Bitmap, minor: u32) -> OpResult {
    // Clients hardly ever request any of them.
    let is_readable =
        (*request & WRITE_ONLY).is_empty() || (*request & WRITE_ONLY & supported(minor)).is_empty();
    if is_readable { Ok(()) } else { Err(OpError::Status(Status::INVAL)) }
}

/// Writes those of the attributes that there are, as a `fattr4`.
#[inline]
pub(in crate::v4) fn encode(request: &Bitmap, source: &AttrSource<'_>, w: &mut Writer<'_>) -> OpResult {
    // The attributes that Linux requests exist for every object in every minor version.
    match request.bits() {
        OF_A_FILE => return values(request, w, |w| write_object::<false>(source, w)),
        OF_A_NAME => return values(request, w, |w| write_object::<true>(source, w)),
        OF_A_CHANGE => return values(request, w, |w| write_all::<OF_A_CHANGE>(source, w)),
        _ => {}
    }
    check_request(request, source.fs.minor)?;
    let available = source.available(request);
    values(&available, w, |w| available.iter().try_for_each(|number| write(number, source, w)))
}

const _: () = {
    let requested = OF_A_NAME | OF_A_CHANGE;
    assert!(requested & !SUPPORTED[0].bits() == 0 && requested & WRITE_ONLY.bits() == 0);
    assert!(requested & Bitmap::of(&[attr::TIME_CREATE, attr::CLONE_BLKSIZE]).bits() == 0);
    assert!(requested & QUOTA.bits() == 0);
};

/// Writes the attributes of an entry that are known without opening it, and the error, as a `fattr4`.
pub(in crate::v4) fn encode_unknown(
    request: &Bitmap,
    error: Status,
    file_id: u64,
    w: &mut Writer<'_>,
) -> OpResult {
    let available = *request & ENTRY;
    values(&available, w, |w| {
        for number in available.iter() {
            match number {
                attr::RDATTR_ERROR => error.encode(w),
                _ => w.u64(file_id),
            }
        }
        Ok(())
    })
}

/// Whether all of this is known of an entry without looking at it.
pub(in crate::v4) fn is_known(request: &Bitmap) -> bool {
    ENTRY.contains_all(request)
}

/// Writes a `fattr4` around values.
#[inline]
fn values(
    mask: &Bitmap,
    w: &mut Writer<'_>,
    write: impl FnOnce(&mut Writer<'_>) -> FsResult<()>,
) -> OpResult {
    mask.encode(w);
    let length = w.len();
    w.u32(0);
    let start = w.len();
    write(w)?;
    let bytes = u32::try_from(w.len() - start).expect("attributes are short");
    w.patch_u32(length, bytes);
    Ok(())
}

fn nfs_time(time: Time) -> NfsTime {
    NfsTime { seconds: time.seconds, nseconds: time.nanos }
}

/// The type of the change attribute. For directories above the exports it is a hash, which has no order.
fn change_attr_type(source: &AttrSource<'_>) -> ChangeAttrType {
    if source.fs.is_pseudo() { ChangeAttrType::UNDEFINED } else { ChangeAttrType::MONOTONIC_INCR }
}

fn file_type(file_type: vfs::FileType) -> FileType {
    match file_type {
        vfs::FileType::Regular => FileType::Regular,
        vfs::FileType::Directory => FileType::Directory,
        vfs::FileType::Symlink => FileType::Symlink,
        vfs::FileType::Block => FileType::BlockDevice,
        vfs::FileType::Character => FileType::CharDevice,
        vfs::FileType::Fifo => FileType::Fifo,
        vfs::FileType::Socket => FileType::Socket,
    }
}
