//! Which attributes there are: since which minor version, whether they can be read and set, and how they are
//! encoded.
//!
//! Numbers without a comment are of RFC 8881 §5.

use super::super::ops::{Done, Stop};
use super::acl;
use super::subject::Subject;
use super::wish::When;
use crate::limits::TRANSFER_BYTES_MAX;
use nfs_wire::v4::attr::{
    self, Acl41, AclFlag, AclSupport, ChangeAttrType, FhExpireType, OpenArgsWant, OpenArguments,
};
use nfs_wire::v4::{
    Bitmap, CreateMode, FileType, NfsTime, OpenClaimType, ShareAccess, ShareDeny, SpecData, Status,
};
use vfs::{FsResult, Time};
use xdr::{Encode, Writer};

/// Writes the value of an attribute.
type Read = fn(&Subject<'_>, &mut Writer<'_>) -> FsResult<()>;

/// When an attribute can be set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Set {
    Never,
    Always,
    /// But not with a creation that is done once only: its key lies there.
    NotOnce,
    /// With a creation alone.
    AtCreation,
}

struct Attribute {
    number: u32,
    /// The minor version that has it first.
    since: u32,
    set: Set,
    /// `None` of what can only be set.
    read: Option<Read>,
}

const fn read(number: u32, read: Read) -> Attribute {
    Attribute { number, since: 0, set: Set::Never, read: Some(read) }
}

const fn since(minor: u32, attribute: Attribute) -> Attribute {
    Attribute { since: minor, ..attribute }
}

const fn settable_too(attribute: Attribute) -> Attribute {
    Attribute { set: Set::Always, ..attribute }
}

const fn write_only(number: u32, set: Set) -> Attribute {
    Attribute { number, since: 0, set, read: None }
}

/// A reader that encodes what the expression says of its subject.
macro_rules! value {
    (|$subject:ident| $value:expr) => {
        |$subject, w| {
            $value.encode(w);
            Ok(())
        }
    };
}

/// All, in the order in which values follow one another.
const TABLE: &[Attribute] = &[
    read(attr::SUPPORTED_ATTRS, value!(|s| s.supported())),
    read(attr::TYPE, value!(|s| file_type(s.attrs.file_type))),
    read(attr::FH_EXPIRE_TYPE, value!(|_s| FhExpireType::PERSISTENT)),
    read(attr::CHANGE, value!(|s| s.attrs.change)),
    settable_too(read(attr::SIZE, value!(|s| s.attrs.size))),
    read(attr::LINK_SUPPORT, value!(|_s| true)),
    read(attr::SYMLINK_SUPPORT, value!(|_s| true)),
    read(attr::NAMED_ATTR, value!(|_s| false)),
    read(attr::FSID, value!(|s| s.system.fsid())),
    // A volume that is exported twice has two filehandles for every file.
    read(attr::UNIQUE_HANDLES, value!(|_s| false)),
    read(attr::LEASE_TIME, value!(|s| s.system.lease_s)),
    read(attr::RDATTR_ERROR, value!(|_s| Status::OK)),
    settable_too(read(attr::ACL, value!(|s| acl::of_mode(s.attrs.mode, s.attrs.file_type)))),
    read(attr::ACLSUPPORT, value!(|_s| AclSupport::ALLOW_ACL | AclSupport::DENY_ACL)),
    read(attr::CANSETTIME, value!(|_s| true)),
    read(attr::CASE_INSENSITIVE, value!(|_s| false)),
    read(attr::CASE_PRESERVING, value!(|_s| true)),
    read(attr::CHOWN_RESTRICTED, value!(|_s| true)),
    read(attr::FILEHANDLE, value!(|s| s.handle.map_or(&[][..], |handle| handle.bytes()))),
    read(attr::FILEID, value!(|s| s.attrs.file_id)),
    read(attr::FILES_AVAIL, value!(|s| s.system.stat()?.files_available)),
    read(attr::FILES_FREE, value!(|s| s.system.stat()?.files_free)),
    read(attr::FILES_TOTAL, value!(|s| s.system.stat()?.files_total)),
    read(attr::HOMOGENEOUS, value!(|_s| true)),
    read(attr::MAXFILESIZE, value!(|s| s.system.limits().file_bytes_max)),
    read(attr::MAXLINK, value!(|s| s.system.limits().links_max)),
    read(attr::MAXNAME, value!(|s| s.system.limits().name_bytes_max)),
    read(attr::MAXREAD, value!(|_s| u64::from(TRANSFER_BYTES_MAX))),
    read(attr::MAXWRITE, value!(|_s| u64::from(TRANSFER_BYTES_MAX))),
    settable_too(read(attr::MODE, value!(|s| s.attrs.mode))),
    read(attr::NO_TRUNC, value!(|_s| true)),
    read(attr::NUMLINKS, value!(|s| s.attrs.links)),
    settable_too(read(attr::OWNER, value!(|s| Id(s.attrs.uid)))),
    settable_too(read(attr::OWNER_GROUP, value!(|s| Id(s.attrs.gid)))),
    read(
        attr::RAWDEV,
        value!(|s| SpecData { specdata1: s.attrs.device.major, specdata2: s.attrs.device.minor }),
    ),
    read(attr::SPACE_AVAIL, value!(|s| s.system.stat()?.bytes_available)),
    read(attr::SPACE_FREE, value!(|s| s.system.stat()?.bytes_free)),
    read(attr::SPACE_TOTAL, value!(|s| s.system.stat()?.bytes_total)),
    read(attr::SPACE_USED, value!(|s| s.attrs.used)),
    read(attr::TIME_ACCESS, value!(|s| nfs_time(s.attrs.accessed))),
    write_only(attr::TIME_ACCESS_SET, Set::NotOnce),
    read(attr::TIME_CREATE, value!(|s| nfs_time(s.attrs.born.unwrap_or_default()))),
    read(attr::TIME_DELTA, value!(|s| NfsTime { seconds: 0, nseconds: s.system.limits().time_step_ns })),
    read(attr::TIME_METADATA, value!(|s| nfs_time(s.attrs.changed))),
    read(attr::TIME_MODIFY, value!(|s| nfs_time(s.attrs.modified))),
    write_only(attr::TIME_MODIFY_SET, Set::NotOnce),
    read(attr::MOUNTED_ON_FILEID, value!(|s| s.mounted_on)),
    since(1, settable_too(read(attr::DACL, value!(|s| dacl(s))))),
    since(1, read(attr::SUPPATTR_EXCLCREAT, value!(|s| settable(s.system.minor, When::Once)))),
    // RFC 7862 §12.2.
    since(2, read(attr::CLONE_BLKSIZE, value!(|s| s.clone_bytes().unwrap_or(0)))),
    since(2, read(attr::CHANGE_ATTR_TYPE, value!(|s| change_attr_type(s)))),
    // RFC 8275.
    since(2, write_only(attr::MODE_UMASK, Set::AtCreation)),
    // RFC 8276. Linux asks at the top only, and takes the answer for all that is below.
    since(
        2,
        read(
            attr::XATTR_SUPPORT,
            value!(|s| s.system.is_pseudo() || s.system.capabilities().xattrs.is_some()),
        ),
    ),
    // RFC 9754.
    since(2, read(attr::OPEN_ARGUMENTS, value!(|_s| OPEN_ARGUMENTS))),
];

/// What OPEN understands.
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

/// The latest minor version that an attribute is of.
const MINOR_MAX: u32 = 2;
/// What each minor version has.
const SUPPORTED: [Bitmap; MINOR_MAX as usize + 1] = [since_until(0), since_until(1), since_until(2)];
/// What can only be set.
const WRITE_ONLY: Bitmap = {
    let (mut all, mut index) = (Bitmap::EMPTY, 0);
    while index < TABLE.len() {
        if TABLE[index].read.is_none() {
            all.insert(TABLE[index].number);
        }
        index += 1;
    }
    all
};
/// How attributes are written, by number.
static READERS: [Option<Read>; TABLE[TABLE.len() - 1].number as usize + 1] = {
    let mut readers = [None; TABLE[TABLE.len() - 1].number as usize + 1];
    let mut index = 0;
    while index < TABLE.len() {
        readers[TABLE[index].number as usize] = TABLE[index].read;
        index += 1;
    }
    readers
};
/// What is known of an entry without its attributes.
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

/// The attributes of a minor version.
pub(super) fn supported(minor: u32) -> Bitmap {
    SUPPORTED[minor.min(MINOR_MAX) as usize]
}

/// The attributes that can be set.
pub(super) fn settable(minor: u32, when: When) -> Bitmap {
    let is_settable = |set| match set {
        Set::Never => false,
        Set::Always => true,
        Set::NotOnce => when != When::Once,
        Set::AtCreation => when != When::Later,
    };
    let mut all = Bitmap::EMPTY;
    let settable = TABLE.iter().filter(|attribute| attribute.since <= minor && is_settable(attribute.set));
    settable.for_each(|attribute| all.insert(attribute.number));
    all
}

/// Refuses to read what can only be set.
#[inline]
pub(in crate::v4) fn check_request(request: &Bitmap, minor: u32) -> Done {
    // Hardly anybody asks for any of them.
    let is_readable =
        (*request & WRITE_ONLY).is_empty() || (*request & WRITE_ONLY & supported(minor)).is_empty();
    if is_readable { Ok(()) } else { Err(Stop::Status(Status::INVAL)) }
}

/// Writes those of the attributes that there are, as a `fattr4`.
#[inline]
pub(in crate::v4) fn encode(request: &Bitmap, subject: &Subject<'_>, w: &mut Writer<'_>) -> Done {
    check_request(request, subject.system.minor)?;
    let given = *request & subject.supported();
    values(&given, w, |w| {
        let mut readers = given.iter().filter_map(|number| *READERS.get(number as usize)?);
        readers.try_for_each(|read| read(subject, w))
    })
}

/// Writes what of the attributes is known of an entry without looking at it, as a `fattr4`, with why no more
/// is.
pub(in crate::v4) fn encode_unknown(
    request: &Bitmap,
    error: Status,
    file_id: u64,
    w: &mut Writer<'_>,
) -> Done {
    let given = *request & ENTRY;
    values(&given, w, |w| {
        for number in given.iter() {
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
fn values(mask: &Bitmap, w: &mut Writer<'_>, write: impl FnOnce(&mut Writer<'_>) -> FsResult<()>) -> Done {
    mask.encode(w);
    let length = w.len();
    w.u32(0);
    let start = w.len();
    write(w)?;
    let bytes = u32::try_from(w.len() - start).expect("attributes are short");
    w.patch_u32(length, bytes);
    Ok(())
}

/// A user or group as a text of digits, which is what it is without a common directory of names (RFC 8881
/// §5.9).
struct Id(u32);

impl Encode for Id {
    fn encode(&self, w: &mut Writer<'_>) {
        let mut digits = [0; 10];
        let (mut start, mut rest) = (digits.len(), self.0);
        loop {
            start -= 1;
            digits[start] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        w.opaque(&digits[start..]);
    }
}

/// The list without what is inherited, of which there is nothing.
fn dacl(subject: &Subject<'_>) -> Acl41<'static> {
    Acl41 { flag: AclFlag(0), aces: acl::of_mode(subject.attrs.mode, subject.attrs.file_type) }
}

fn nfs_time(time: Time) -> NfsTime {
    NfsTime { seconds: time.seconds, nseconds: time.nanos }
}

/// Of the directories above the exports, what they lead to is summed up, which has no order.
fn change_attr_type(subject: &Subject<'_>) -> ChangeAttrType {
    if subject.system.is_pseudo() { ChangeAttrType::UNDEFINED } else { ChangeAttrType::MONOTONIC_INCR }
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
