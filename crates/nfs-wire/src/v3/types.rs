//! Constants, statuses and the types that procedures share, RFC 1813 §2.

use xdr::{Decode, Encode, Malformed, Reader, Writer, Xdr};

use crate::bits::bits;

xdr::constants! {
    pub CONSTANTS {
        PROGRAM: "NFS_PROGRAM" = 100_003,
        VERSION: "NFS_V3" = 3,
        FHSIZE: "NFS3_FHSIZE" = 64,
        COOKIEVERFSIZE: "NFS3_COOKIEVERFSIZE" = 8,
        CREATEVERFSIZE: "NFS3_CREATEVERFSIZE" = 8,
        WRITEVERFSIZE: "NFS3_WRITEVERFSIZE" = 8,
    }
}

/// The longest name that is decoded. The protocol sets no bound (RFC 1813 §2.4, `filename3`). This one is far above any
/// file system's, so that a name too long for the volume gets `NFS3ERR_NAMETOOLONG`, not `GARBAGE_ARGS`. Version 4 uses
/// it too.
pub const NAME_MAX: u32 = 4096;
/// The longest path (the text of a symbolic link) that is decoded; above `PATH_MAX` of Linux for the same reason.
pub const PATH_MAX: u32 = 16384;
/// The most bytes of one READ or WRITE that are decoded; the limit of the record bounds memory.
pub const DATA_MAX: u32 = 1 << 30;

xdr::open_set! {
    /// The procedures, RFC 1813 §3.
    pub struct Procedure {
        NULL: "NFSPROC3_NULL" = 0,
        GETATTR: "NFSPROC3_GETATTR" = 1,
        SETATTR: "NFSPROC3_SETATTR" = 2,
        LOOKUP: "NFSPROC3_LOOKUP" = 3,
        ACCESS: "NFSPROC3_ACCESS" = 4,
        READLINK: "NFSPROC3_READLINK" = 5,
        READ: "NFSPROC3_READ" = 6,
        WRITE: "NFSPROC3_WRITE" = 7,
        CREATE: "NFSPROC3_CREATE" = 8,
        MKDIR: "NFSPROC3_MKDIR" = 9,
        SYMLINK: "NFSPROC3_SYMLINK" = 10,
        MKNOD: "NFSPROC3_MKNOD" = 11,
        REMOVE: "NFSPROC3_REMOVE" = 12,
        RMDIR: "NFSPROC3_RMDIR" = 13,
        RENAME: "NFSPROC3_RENAME" = 14,
        LINK: "NFSPROC3_LINK" = 15,
        READDIR: "NFSPROC3_READDIR" = 16,
        READDIRPLUS: "NFSPROC3_READDIRPLUS" = 17,
        FSSTAT: "NFSPROC3_FSSTAT" = 18,
        FSINFO: "NFSPROC3_FSINFO" = 19,
        PATHCONF: "NFSPROC3_PATHCONF" = 20,
        COMMIT: "NFSPROC3_COMMIT" = 21,
    }
}

xdr::open_set! {
    /// `nfsstat3`, RFC 1813 §2.6.
    pub struct Status {
        OK: "NFS3_OK" = 0,
        PERM: "NFS3ERR_PERM" = 1,
        NOENT: "NFS3ERR_NOENT" = 2,
        IO: "NFS3ERR_IO" = 5,
        NXIO: "NFS3ERR_NXIO" = 6,
        ACCES: "NFS3ERR_ACCES" = 13,
        EXIST: "NFS3ERR_EXIST" = 17,
        XDEV: "NFS3ERR_XDEV" = 18,
        NODEV: "NFS3ERR_NODEV" = 19,
        NOTDIR: "NFS3ERR_NOTDIR" = 20,
        ISDIR: "NFS3ERR_ISDIR" = 21,
        INVAL: "NFS3ERR_INVAL" = 22,
        FBIG: "NFS3ERR_FBIG" = 27,
        NOSPC: "NFS3ERR_NOSPC" = 28,
        ROFS: "NFS3ERR_ROFS" = 30,
        MLINK: "NFS3ERR_MLINK" = 31,
        NAMETOOLONG: "NFS3ERR_NAMETOOLONG" = 63,
        NOTEMPTY: "NFS3ERR_NOTEMPTY" = 66,
        DQUOT: "NFS3ERR_DQUOT" = 69,
        STALE: "NFS3ERR_STALE" = 70,
        REMOTE: "NFS3ERR_REMOTE" = 71,
        BADHANDLE: "NFS3ERR_BADHANDLE" = 10001,
        NOT_SYNC: "NFS3ERR_NOT_SYNC" = 10002,
        BAD_COOKIE: "NFS3ERR_BAD_COOKIE" = 10003,
        NOTSUPP: "NFS3ERR_NOTSUPP" = 10004,
        TOOSMALL: "NFS3ERR_TOOSMALL" = 10005,
        SERVERFAULT: "NFS3ERR_SERVERFAULT" = 10006,
        BADTYPE: "NFS3ERR_BADTYPE" = 10007,
        JUKEBOX: "NFS3ERR_JUKEBOX" = 10008,
    }
}

xdr::open_set! {
    /// The bits of ACCESS, RFC 1813 §3.3.4.
    pub struct Access {
        READ: "ACCESS3_READ" = 0x01,
        LOOKUP: "ACCESS3_LOOKUP" = 0x02,
        MODIFY: "ACCESS3_MODIFY" = 0x04,
        EXTEND: "ACCESS3_EXTEND" = 0x08,
        DELETE: "ACCESS3_DELETE" = 0x10,
        EXECUTE: "ACCESS3_EXECUTE" = 0x20,
    }
}

xdr::open_set! {
    /// The bits of `properties` in FSINFO, RFC 1813 §3.3.19.
    pub struct Properties {
        LINK: "FSF3_LINK" = 0x01,
        SYMLINK: "FSF3_SYMLINK" = 0x02,
        HOMOGENEOUS: "FSF3_HOMOGENEOUS" = 0x08,
        CANSETTIME: "FSF3_CANSETTIME" = 0x10,
    }
}

bits!(Access, Properties);

/// `ftype3`, RFC 1813 §2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum FileType {
    #[xdr(name = "NF3REG")]
    Regular = 1,
    #[xdr(name = "NF3DIR")]
    Directory = 2,
    #[xdr(name = "NF3BLK")]
    BlockDevice = 3,
    #[xdr(name = "NF3CHR")]
    CharDevice = 4,
    #[xdr(name = "NF3LNK")]
    Symlink = 5,
    #[xdr(name = "NF3SOCK")]
    Socket = 6,
    #[xdr(name = "NF3FIFO")]
    Fifo = 7,
}

/// `time_how`, RFC 1813 §2.6; the tags of [`SetTime`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum TimeHow {
    #[xdr(name = "DONT_CHANGE")]
    DontChange = 0,
    #[xdr(name = "SET_TO_SERVER_TIME")]
    SetToServerTime = 1,
    #[xdr(name = "SET_TO_CLIENT_TIME")]
    SetToClientTime = 2,
}

/// `stable_how`, RFC 1813 §3.3.7, from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Xdr)]
#[repr(u32)]
pub enum StableHow {
    #[xdr(name = "UNSTABLE")]
    Unstable = 0,
    #[xdr(name = "DATA_SYNC")]
    DataSync = 1,
    #[xdr(name = "FILE_SYNC")]
    FileSync = 2,
}

/// `createmode3`, RFC 1813 §3.3.8; the tags of [`super::CreateHow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum CreateMode {
    #[xdr(name = "UNCHECKED")]
    Unchecked = 0,
    #[xdr(name = "GUARDED")]
    Guarded = 1,
    #[xdr(name = "EXCLUSIVE")]
    Exclusive = 2,
}

/// `cookieverf3`, RFC 1813 §2.4.
pub type CookieVerf = [u8; COOKIEVERFSIZE as usize];
/// `createverf3`, RFC 1813 §2.4.
pub type CreateVerf = [u8; CREATEVERFSIZE as usize];
/// `writeverf3`, RFC 1813 §2.4.
pub type WriteVerf = [u8; WRITEVERFSIZE as usize];

/// `post_op_attr`, RFC 1813 §2.6.
pub type PostOpAttr = Option<Fattr>;
/// `pre_op_attr`, RFC 1813 §2.6.
pub type PreOpAttr = Option<WccAttr>;
/// `post_op_fh3`, RFC 1813 §2.6.
pub type PostOpFh<'a> = Option<FileHandle<'a>>;

/// A result: the `…resok` of `NFS3_OK`, or another status with its `…resfail` (RFC 1813 §3.3, every `…3res`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<O, F> {
    Ok(O),
    /// Never with [`Status::OK`].
    Err(Status, F),
}

impl<O: Encode, F: Encode> Encode for Reply<O, F> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Ok(ok) => {
                Status::OK.encode(w);
                ok.encode(w);
            }
            Self::Err(status, fail) => {
                status.encode(w);
                fail.encode(w);
            }
        }
    }
}

impl<'a, O: Decode<'a>, F: Decode<'a>> Decode<'a> for Reply<O, F> {
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match Status::decode(r)? {
            Status::OK => O::decode(r).map(Self::Ok),
            status => F::decode(r).map(|fail| Self::Err(status, fail)),
        }
    }
}

/// `nfs_fh3`, RFC 1813 §2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
pub struct FileHandle<'a>(#[xdr(max = FHSIZE)] pub &'a [u8]);

/// `nfstime3`, RFC 1813 §2.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Xdr)]
pub struct NfsTime {
    pub seconds: u32,
    pub nseconds: u32,
}

/// `specdata3`, RFC 1813 §2.6: major and minor number of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Xdr)]
pub struct SpecData {
    pub specdata1: u32,
    pub specdata2: u32,
}

/// `fattr3`, RFC 1813 §2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
#[xdr(decode)]
pub struct Fattr {
    pub ftype: FileType,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub used: u64,
    pub rdev: SpecData,
    pub fsid: u64,
    pub fileid: u64,
    pub atime: NfsTime,
    pub mtime: NfsTime,
    pub ctime: NfsTime,
}

impl Fattr {
    pub const SIZE: usize = 84;
}

/// By hand: nearly every reply holds attributes, and one append is several times faster than twenty.
impl Encode for Fattr {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        let [size, used, fsid, fileid] = [self.size, self.used, self.fsid, self.fileid].map(u64::to_be_bytes);
        let head = [self.ftype as u32, self.mode, self.nlink, self.uid, self.gid].map(u32::to_be_bytes);
        let rdev = [self.rdev.specdata1, self.rdev.specdata2].map(u32::to_be_bytes);
        let times = [self.atime, self.mtime, self.ctime];
        let times = times.map(|time| [time.seconds, time.nseconds].map(u32::to_be_bytes));
        let mut bytes = [0; Self::SIZE];
        bytes[..20].copy_from_slice(head.as_flattened());
        bytes[20..28].copy_from_slice(&size);
        bytes[28..36].copy_from_slice(&used);
        bytes[36..44].copy_from_slice(rdev.as_flattened());
        bytes[44..52].copy_from_slice(&fsid);
        bytes[52..60].copy_from_slice(&fileid);
        bytes[60..].copy_from_slice(times.as_flattened().as_flattened());
        w.fixed(&bytes);
    }
}

/// `wcc_attr`, RFC 1813 §2.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct WccAttr {
    pub size: u64,
    pub mtime: NfsTime,
    pub ctime: NfsTime,
}

/// `wcc_data`, RFC 1813 §2.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct WccData {
    pub before: PreOpAttr,
    pub after: PostOpAttr,
}

/// `sattr3`, RFC 1813 §2.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct Sattr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: SetTime,
    pub mtime: SetTime,
}

/// `set_atime` and `set_mtime`, RFC 1813 §2.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub enum SetTime {
    #[default]
    #[xdr(tag = TimeHow::DontChange as u32)]
    DontChange,
    #[xdr(tag = TimeHow::SetToServerTime as u32)]
    ServerTime,
    #[xdr(tag = TimeHow::SetToClientTime as u32)]
    ClientTime(NfsTime),
}

/// `diropargs3`, RFC 1813 §2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct DirOpArgs<'a> {
    pub dir: FileHandle<'a>,
    #[xdr(max = NAME_MAX)]
    pub name: &'a [u8],
}
