//! Constants, statuses and the types that operations share, RFC 8881 §3.

use std::fmt;
use std::ops::{BitAnd, BitOr};

use xdr::{Decode, Encode, Malformed, Reader, Writer, Xdr};

use crate::bits::bits;
pub use crate::v3::{DATA_MAX, DirListEnd, NAME_MAX, PATH_MAX};

xdr::constants! {
    pub CONSTANTS {
        PROGRAM: "NFS4_PROGRAM" = 100_003,
        VERSION: "NFS_V4" = 4,
        FHSIZE: "NFS4_FHSIZE" = 128,
        VERIFIER_SIZE: "NFS4_VERIFIER_SIZE" = 8,
        OTHER_SIZE: "NFS4_OTHER_SIZE" = 12,
        OPAQUE_LIMIT: "NFS4_OPAQUE_LIMIT" = 1024,
        SESSIONID_SIZE: "NFS4_SESSIONID_SIZE" = 16,
        DEVICEID_SIZE: "NFS4_DEVICEID4_SIZE" = 16,
    }
}

/// The longest tag of a COMPOUND that is decoded; the protocol sets no bound.
pub const TAG_MAX: u32 = 1024;
/// The longest text that is decoded where the protocol sets no bound: users and groups, servers, addresses, object
/// identifiers.
pub const TEXT_MAX: u32 = 1024;
/// The most bytes of an `attrlist4` that are decoded: an ACL is the only long value.
pub const ATTRLIST_MAX: u32 = 1 << 20;
/// The most elements of an array that are decoded where the protocol sets no bound and no operation needs more.
pub const ARRAY_MAX: u32 = 1024;

xdr::open_set! {
    /// `nfsstat4`, RFC 8881 §15, RFC 7862 §11 and RFC 8276 §8.3; `RESOURCE` only in 4.0 (RFC 7530 §13).
    pub struct Status {
        OK: "NFS4_OK" = 0,
        PERM: "NFS4ERR_PERM" = 1,
        NOENT: "NFS4ERR_NOENT" = 2,
        IO: "NFS4ERR_IO" = 5,
        NXIO: "NFS4ERR_NXIO" = 6,
        ACCESS: "NFS4ERR_ACCESS" = 13,
        EXIST: "NFS4ERR_EXIST" = 17,
        XDEV: "NFS4ERR_XDEV" = 18,
        NOTDIR: "NFS4ERR_NOTDIR" = 20,
        ISDIR: "NFS4ERR_ISDIR" = 21,
        INVAL: "NFS4ERR_INVAL" = 22,
        FBIG: "NFS4ERR_FBIG" = 27,
        NOSPC: "NFS4ERR_NOSPC" = 28,
        ROFS: "NFS4ERR_ROFS" = 30,
        MLINK: "NFS4ERR_MLINK" = 31,
        NAMETOOLONG: "NFS4ERR_NAMETOOLONG" = 63,
        NOTEMPTY: "NFS4ERR_NOTEMPTY" = 66,
        DQUOT: "NFS4ERR_DQUOT" = 69,
        STALE: "NFS4ERR_STALE" = 70,
        BADHANDLE: "NFS4ERR_BADHANDLE" = 10001,
        BAD_COOKIE: "NFS4ERR_BAD_COOKIE" = 10003,
        NOTSUPP: "NFS4ERR_NOTSUPP" = 10004,
        TOOSMALL: "NFS4ERR_TOOSMALL" = 10005,
        SERVERFAULT: "NFS4ERR_SERVERFAULT" = 10006,
        BADTYPE: "NFS4ERR_BADTYPE" = 10007,
        DELAY: "NFS4ERR_DELAY" = 10008,
        SAME: "NFS4ERR_SAME" = 10009,
        DENIED: "NFS4ERR_DENIED" = 10010,
        EXPIRED: "NFS4ERR_EXPIRED" = 10011,
        LOCKED: "NFS4ERR_LOCKED" = 10012,
        GRACE: "NFS4ERR_GRACE" = 10013,
        FHEXPIRED: "NFS4ERR_FHEXPIRED" = 10014,
        SHARE_DENIED: "NFS4ERR_SHARE_DENIED" = 10015,
        WRONGSEC: "NFS4ERR_WRONGSEC" = 10016,
        CLID_INUSE: "NFS4ERR_CLID_INUSE" = 10017,
        RESOURCE: "NFS4ERR_RESOURCE" = 10018,
        MOVED: "NFS4ERR_MOVED" = 10019,
        NOFILEHANDLE: "NFS4ERR_NOFILEHANDLE" = 10020,
        MINOR_VERS_MISMATCH: "NFS4ERR_MINOR_VERS_MISMATCH" = 10021,
        STALE_CLIENTID: "NFS4ERR_STALE_CLIENTID" = 10022,
        STALE_STATEID: "NFS4ERR_STALE_STATEID" = 10023,
        OLD_STATEID: "NFS4ERR_OLD_STATEID" = 10024,
        BAD_STATEID: "NFS4ERR_BAD_STATEID" = 10025,
        BAD_SEQID: "NFS4ERR_BAD_SEQID" = 10026,
        NOT_SAME: "NFS4ERR_NOT_SAME" = 10027,
        LOCK_RANGE: "NFS4ERR_LOCK_RANGE" = 10028,
        SYMLINK: "NFS4ERR_SYMLINK" = 10029,
        RESTOREFH: "NFS4ERR_RESTOREFH" = 10030,
        LEASE_MOVED: "NFS4ERR_LEASE_MOVED" = 10031,
        ATTRNOTSUPP: "NFS4ERR_ATTRNOTSUPP" = 10032,
        NO_GRACE: "NFS4ERR_NO_GRACE" = 10033,
        RECLAIM_BAD: "NFS4ERR_RECLAIM_BAD" = 10034,
        RECLAIM_CONFLICT: "NFS4ERR_RECLAIM_CONFLICT" = 10035,
        BADXDR: "NFS4ERR_BADXDR" = 10036,
        LOCKS_HELD: "NFS4ERR_LOCKS_HELD" = 10037,
        OPENMODE: "NFS4ERR_OPENMODE" = 10038,
        BADOWNER: "NFS4ERR_BADOWNER" = 10039,
        BADCHAR: "NFS4ERR_BADCHAR" = 10040,
        BADNAME: "NFS4ERR_BADNAME" = 10041,
        BAD_RANGE: "NFS4ERR_BAD_RANGE" = 10042,
        LOCK_NOTSUPP: "NFS4ERR_LOCK_NOTSUPP" = 10043,
        OP_ILLEGAL: "NFS4ERR_OP_ILLEGAL" = 10044,
        DEADLOCK: "NFS4ERR_DEADLOCK" = 10045,
        FILE_OPEN: "NFS4ERR_FILE_OPEN" = 10046,
        ADMIN_REVOKED: "NFS4ERR_ADMIN_REVOKED" = 10047,
        CB_PATH_DOWN: "NFS4ERR_CB_PATH_DOWN" = 10048,
        BADIOMODE: "NFS4ERR_BADIOMODE" = 10049,
        BADLAYOUT: "NFS4ERR_BADLAYOUT" = 10050,
        BAD_SESSION_DIGEST: "NFS4ERR_BAD_SESSION_DIGEST" = 10051,
        BADSESSION: "NFS4ERR_BADSESSION" = 10052,
        BADSLOT: "NFS4ERR_BADSLOT" = 10053,
        COMPLETE_ALREADY: "NFS4ERR_COMPLETE_ALREADY" = 10054,
        CONN_NOT_BOUND_TO_SESSION: "NFS4ERR_CONN_NOT_BOUND_TO_SESSION" = 10055,
        DELEG_ALREADY_WANTED: "NFS4ERR_DELEG_ALREADY_WANTED" = 10056,
        BACK_CHAN_BUSY: "NFS4ERR_BACK_CHAN_BUSY" = 10057,
        LAYOUTTRYLATER: "NFS4ERR_LAYOUTTRYLATER" = 10058,
        LAYOUTUNAVAILABLE: "NFS4ERR_LAYOUTUNAVAILABLE" = 10059,
        NOMATCHING_LAYOUT: "NFS4ERR_NOMATCHING_LAYOUT" = 10060,
        RECALLCONFLICT: "NFS4ERR_RECALLCONFLICT" = 10061,
        UNKNOWN_LAYOUTTYPE: "NFS4ERR_UNKNOWN_LAYOUTTYPE" = 10062,
        SEQ_MISORDERED: "NFS4ERR_SEQ_MISORDERED" = 10063,
        SEQUENCE_POS: "NFS4ERR_SEQUENCE_POS" = 10064,
        REQ_TOO_BIG: "NFS4ERR_REQ_TOO_BIG" = 10065,
        REP_TOO_BIG: "NFS4ERR_REP_TOO_BIG" = 10066,
        REP_TOO_BIG_TO_CACHE: "NFS4ERR_REP_TOO_BIG_TO_CACHE" = 10067,
        RETRY_UNCACHED_REP: "NFS4ERR_RETRY_UNCACHED_REP" = 10068,
        UNSAFE_COMPOUND: "NFS4ERR_UNSAFE_COMPOUND" = 10069,
        TOO_MANY_OPS: "NFS4ERR_TOO_MANY_OPS" = 10070,
        OP_NOT_IN_SESSION: "NFS4ERR_OP_NOT_IN_SESSION" = 10071,
        HASH_ALG_UNSUPP: "NFS4ERR_HASH_ALG_UNSUPP" = 10072,
        CLIENTID_BUSY: "NFS4ERR_CLIENTID_BUSY" = 10074,
        PNFS_IO_HOLE: "NFS4ERR_PNFS_IO_HOLE" = 10075,
        SEQ_FALSE_RETRY: "NFS4ERR_SEQ_FALSE_RETRY" = 10076,
        BAD_HIGH_SLOT: "NFS4ERR_BAD_HIGH_SLOT" = 10077,
        DEADSESSION: "NFS4ERR_DEADSESSION" = 10078,
        ENCR_ALG_UNSUPP: "NFS4ERR_ENCR_ALG_UNSUPP" = 10079,
        PNFS_NO_LAYOUT: "NFS4ERR_PNFS_NO_LAYOUT" = 10080,
        NOT_ONLY_OP: "NFS4ERR_NOT_ONLY_OP" = 10081,
        WRONG_CRED: "NFS4ERR_WRONG_CRED" = 10082,
        WRONG_TYPE: "NFS4ERR_WRONG_TYPE" = 10083,
        DIRDELEG_UNAVAIL: "NFS4ERR_DIRDELEG_UNAVAIL" = 10084,
        REJECT_DELEG: "NFS4ERR_REJECT_DELEG" = 10085,
        RETURNCONFLICT: "NFS4ERR_RETURNCONFLICT" = 10086,
        DELEG_REVOKED: "NFS4ERR_DELEG_REVOKED" = 10087,
        PARTNER_NOTSUPP: "NFS4ERR_PARTNER_NOTSUPP" = 10088,
        PARTNER_NO_AUTH: "NFS4ERR_PARTNER_NO_AUTH" = 10089,
        UNION_NOTSUPP: "NFS4ERR_UNION_NOTSUPP" = 10090,
        OFFLOAD_DENIED: "NFS4ERR_OFFLOAD_DENIED" = 10091,
        WRONG_LFS: "NFS4ERR_WRONG_LFS" = 10092,
        BADLABEL: "NFS4ERR_BADLABEL" = 10093,
        OFFLOAD_NO_REQS: "NFS4ERR_OFFLOAD_NO_REQS" = 10094,
        NOXATTR: "NFS4ERR_NOXATTR" = 10095,
        XATTR2BIG: "NFS4ERR_XATTR2BIG" = 10096,
    }
}

/// A result without a body on failure: the `…resok` of `NFS4_OK`, or another status (RFC 8881 §18, most `…4res`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<O> {
    Ok(O),
    /// Never with [`Status::OK`].
    Err(Status),
}

impl<O: Encode> Encode for Reply<O> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Ok(ok) => {
                Status::OK.encode(w);
                ok.encode(w);
            }
            Self::Err(status) => status.encode(w),
        }
    }
}

impl<'a, O: Decode<'a>> Decode<'a> for Reply<O> {
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match Status::decode(r)? {
            Status::OK => O::decode(r).map(Self::Ok),
            status => Ok(Self::Err(status)),
        }
    }
}

/// `clientid4`, RFC 8881 §3.2.
pub type ClientId = u64;
/// `verifier4`, RFC 8881 §3.2.
pub type Verifier = [u8; VERIFIER_SIZE as usize];
/// `sessionid4`, RFC 8881 §3.2.
pub type SessionId = [u8; SESSIONID_SIZE as usize];
/// `deviceid4`, RFC 8881 §3.3.14.
pub type DeviceId = [u8; DEVICEID_SIZE as usize];

/// `nfs_ftype4`, RFC 8881 §3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum FileType {
    #[xdr(name = "NF4REG")]
    Regular = 1,
    #[xdr(name = "NF4DIR")]
    Directory = 2,
    #[xdr(name = "NF4BLK")]
    BlockDevice = 3,
    #[xdr(name = "NF4CHR")]
    CharDevice = 4,
    #[xdr(name = "NF4LNK")]
    Symlink = 5,
    #[xdr(name = "NF4SOCK")]
    Socket = 6,
    #[xdr(name = "NF4FIFO")]
    Fifo = 7,
    /// A directory of named attributes.
    #[xdr(name = "NF4ATTRDIR")]
    AttrDir = 8,
    #[xdr(name = "NF4NAMEDATTR")]
    NamedAttr = 9,
}

/// `nfs_fh4`, RFC 8881 §3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
pub struct FileHandle<'a>(#[xdr(max = FHSIZE)] pub &'a [u8]);

/// `component4`, RFC 8881 §3.2: a name, where an array holds several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
pub struct Component<'a>(#[xdr(max = NAME_MAX)] pub &'a [u8]);

/// `utf8string`, RFC 8881 §3.2, or another short opaque without a bound, where an array holds several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
pub struct Text<'a>(#[xdr(max = TEXT_MAX)] pub &'a [u8]);

/// `nfstime4`, RFC 8881 §3.3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Xdr)]
pub struct NfsTime {
    pub seconds: i64,
    pub nseconds: u32,
}

/// `specdata4`, RFC 8881 §3.3.4: major and minor number of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Xdr)]
pub struct SpecData {
    pub specdata1: u32,
    pub specdata2: u32,
}

/// `fsid4`, RFC 8881 §3.3.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Xdr)]
pub struct Fsid {
    pub major: u64,
    pub minor: u64,
}

/// `change_info4`, RFC 8881 §3.3.8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct ChangeInfo {
    pub atomic: bool,
    pub before: u64,
    pub after: u64,
}

/// `netaddr4`, RFC 8881 §3.3.9: a universal address (RFC 5665).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct NetAddr<'a> {
    #[xdr(max = TEXT_MAX)]
    pub r_netid: &'a [u8],
    #[xdr(max = TEXT_MAX)]
    pub r_addr: &'a [u8],
}

/// `state_owner4`, RFC 8881 §3.3.10, also as `open_owner4` and `lock_owner4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
pub struct StateOwner<'a> {
    pub clientid: ClientId,
    #[xdr(max = OPAQUE_LIMIT)]
    pub owner: &'a [u8],
}

/// `stateid4`, RFC 8881 §3.3.12.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Xdr)]
pub struct Stateid {
    pub seqid: u32,
    pub other: [u8; OTHER_SIZE as usize],
}

/// The special stateids, RFC 8881 §8.2.3.
impl Stateid {
    /// No state: I/O by the file's permissions and share reservations alone.
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; _] };
    /// Like [`Self::ANONYMOUS`], and a READ may bypass share reservations and locks.
    pub const READ_BYPASS: Self = Self { seqid: u32::MAX, other: [u8::MAX; _] };
    /// The stateid of the previous operation in the same compound.
    pub const CURRENT: Self = Self { seqid: 1, other: [0; _] };
    /// A stateid that belongs to no state.
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; _] };
}

/// `bitmap4`, RFC 8881 §3.2: a set of small numbers.
///
/// A bitmap stores numbers below [`Self::CAPACITY`], far above any in use. Decoding accepts longer bitmaps: the unused number
/// [`Self::BEYOND`] stands for the members that it does not store. Encoding omits words of zeros at the end.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Bitmap {
    bits: u128,
}

impl Bitmap {
    pub const CAPACITY: u32 = u128::BITS;
    /// Stands for all numbers from [`Self::CAPACITY`] on.
    pub const BEYOND: u32 = Self::CAPACITY - 1;
    const WORDS: usize = Self::CAPACITY as usize / 32;
    pub const EMPTY: Self = Self { bits: 0 };

    /// The set of `numbers`.
    ///
    /// # Panics
    /// If one of them is [`Self::CAPACITY`] or more.
    pub const fn of(numbers: &[u32]) -> Self {
        let mut set = Self::EMPTY;
        let mut index = 0;
        while index < numbers.len() {
            set.insert(numbers[index]);
            index += 1;
        }
        set
    }

    #[inline]
    pub const fn bits(&self) -> u128 {
        self.bits
    }

    /// Adds `number`.
    ///
    /// # Panics
    /// If it is [`Self::CAPACITY`] or more.
    #[inline]
    pub const fn insert(&mut self, number: u32) {
        assert!(number < Self::CAPACITY);
        self.bits |= 1 << number;
    }

    #[inline]
    pub const fn remove(&mut self, number: u32) {
        if number < Self::CAPACITY {
            self.bits &= !(1 << number);
        }
    }

    #[inline]
    pub const fn contains(&self, number: u32) -> bool {
        number < Self::CAPACITY && self.bits & 1 << number != 0
    }

    #[inline]
    pub fn contains_all(&self, other: &Self) -> bool {
        other.without(self).is_empty()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// The members that are not in `other`.
    #[inline]
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self { bits: self.bits & !other.bits }
    }

    /// The members in ascending order, as values follow each other in an [`Fattr`].
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let mut bits = self.bits;
        std::iter::from_fn(move || {
            let number = (bits != 0).then(|| bits.trailing_zeros())?;
            bits &= bits - 1;
            Some(number)
        })
    }
}

impl BitAnd for Bitmap {
    type Output = Self;

    #[inline]
    fn bitand(self, other: Self) -> Self {
        Self { bits: self.bits & other.bits }
    }
}

impl BitOr for Bitmap {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self { bits: self.bits | other.bits }
    }
}

impl fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Encode for Bitmap {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        let bytes = self.bits.to_le_bytes();
        let words = (Self::CAPACITY - self.bits.leading_zeros()).div_ceil(32) as usize;
        w.length(words);
        bytes.as_chunks().0[..words].iter().for_each(|&word| w.u32(u32::from_le_bytes(word)));
    }
}

impl Decode<'_> for Bitmap {
    #[inline]
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = r.u32()? as usize;
        let all = r.fixed(length.saturating_mul(4))?.as_chunks().0;
        let (words, beyond) = all.split_at(all.len().min(Self::WORDS));
        let shifted = words
            .iter()
            .zip((0..).step_by(32))
            .map(|(&word, bit)| u128::from(u32::from_be_bytes(word)) << bit);
        let bits = shifted.fold(0, |all, word| all | word);
        let is_beyond = beyond.iter().any(|word| *word != [0; 4]);
        Ok(Self { bits: bits | u128::from(is_beyond) << Self::BEYOND })
    }
}

/// `fattr4`, RFC 8881 §3.3.7: the values of the attributes in `attrmask`, by ascending number ([`super::attr`]).
///
/// Values of numbers beyond [`Bitmap::CAPACITY`] are not decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct Fattr<'a> {
    pub attrmask: Bitmap,
    #[xdr(max = ATTRLIST_MAX)]
    pub attr_vals: &'a [u8],
}

/// `stable_how4`, RFC 8881 §18.32.1, from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Xdr)]
#[repr(u32)]
pub enum StableHow {
    #[xdr(name = "UNSTABLE4")]
    Unstable = 0,
    #[xdr(name = "DATA_SYNC4")]
    DataSync = 1,
    #[xdr(name = "FILE_SYNC4")]
    FileSync = 2,
}

xdr::open_set! {
    /// The bits of ACCESS, RFC 8881 §18.1.1 and RFC 8276 §8.5.
    pub struct Access {
        READ: "ACCESS4_READ" = 0x0000_0001,
        LOOKUP: "ACCESS4_LOOKUP" = 0x0000_0002,
        MODIFY: "ACCESS4_MODIFY" = 0x0000_0004,
        EXTEND: "ACCESS4_EXTEND" = 0x0000_0008,
        DELETE: "ACCESS4_DELETE" = 0x0000_0010,
        EXECUTE: "ACCESS4_EXECUTE" = 0x0000_0020,
        XAREAD: "ACCESS4_XAREAD" = 0x0000_0040,
        XAWRITE: "ACCESS4_XAWRITE" = 0x0000_0080,
        XALIST: "ACCESS4_XALIST" = 0x0000_0100,
    }
}

xdr::open_set! {
    /// The bits of a mode, RFC 8881 §6.2.4.
    pub struct Mode {
        SUID: "MODE4_SUID" = 0x800,
        SGID: "MODE4_SGID" = 0x400,
        SVTX: "MODE4_SVTX" = 0x200,
        RUSR: "MODE4_RUSR" = 0x100,
        WUSR: "MODE4_WUSR" = 0x080,
        XUSR: "MODE4_XUSR" = 0x040,
        RGRP: "MODE4_RGRP" = 0x020,
        WGRP: "MODE4_WGRP" = 0x010,
        XGRP: "MODE4_XGRP" = 0x008,
        ROTH: "MODE4_ROTH" = 0x004,
        WOTH: "MODE4_WOTH" = 0x002,
        XOTH: "MODE4_XOTH" = 0x001,
    }
}

bits!(Access, Mode);
