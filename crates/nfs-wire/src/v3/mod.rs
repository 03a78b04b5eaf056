//! NFS version 3 on the wire, RFC 1813: arguments and results of the procedures, in the RFC's order.
//!
//! A procedure's results are a [`Reply`] of its `…Ok` and `…Fail`. GETATTR's failure carries nothing: `()`.

use xdr::{Encode, ListRef, Writer, Xdr};

mod types;

pub use types::*;

/// `GETATTR3args`, RFC 1813 §3.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetattrArgs<'a> {
    pub object: FileHandle<'a>,
}

/// `GETATTR3resok`, RFC 1813 §3.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetattrOk {
    pub obj_attributes: Fattr,
}

/// `GETATTR3res`, RFC 1813 §3.3.1.
pub type GetattrReply = Reply<GetattrOk, ()>;

/// `SETATTR3args`, RFC 1813 §3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SetattrArgs<'a> {
    pub object: FileHandle<'a>,
    pub new_attributes: Sattr,
    /// `sattrguard3`: the ctime the object must have.
    pub guard: Option<NfsTime>,
}

/// `SETATTR3resok`, RFC 1813 §3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SetattrOk {
    pub obj_wcc: WccData,
}

/// `SETATTR3resfail`, RFC 1813 §3.3.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct SetattrFail {
    pub obj_wcc: WccData,
}

/// `SETATTR3res`, RFC 1813 §3.3.2.
pub type SetattrReply = Reply<SetattrOk, SetattrFail>;

/// `LOOKUP3args`, RFC 1813 §3.3.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LookupArgs<'a> {
    pub what: DirOpArgs<'a>,
}

/// `LOOKUP3resok`, RFC 1813 §3.3.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LookupOk<'a> {
    pub object: FileHandle<'a>,
    pub obj_attributes: PostOpAttr,
    pub dir_attributes: PostOpAttr,
}

/// `LOOKUP3resfail`, RFC 1813 §3.3.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct LookupFail {
    pub dir_attributes: PostOpAttr,
}

/// `LOOKUP3res`, RFC 1813 §3.3.3.
pub type LookupReply<'a> = Reply<LookupOk<'a>, LookupFail>;

/// `ACCESS3args`, RFC 1813 §3.3.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct AccessArgs<'a> {
    pub object: FileHandle<'a>,
    pub access: Access,
}

/// `ACCESS3resok`, RFC 1813 §3.3.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct AccessOk {
    pub obj_attributes: PostOpAttr,
    pub access: Access,
}

/// `ACCESS3resfail`, RFC 1813 §3.3.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct AccessFail {
    pub obj_attributes: PostOpAttr,
}

/// `ACCESS3res`, RFC 1813 §3.3.4.
pub type AccessReply = Reply<AccessOk, AccessFail>;

/// `READLINK3args`, RFC 1813 §3.3.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadlinkArgs<'a> {
    pub symlink: FileHandle<'a>,
}

/// `READLINK3resok`, RFC 1813 §3.3.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadlinkOk<'a> {
    pub symlink_attributes: PostOpAttr,
    #[xdr(max = PATH_MAX)]
    pub data: &'a [u8],
}

/// `READLINK3resfail`, RFC 1813 §3.3.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct ReadlinkFail {
    pub symlink_attributes: PostOpAttr,
}

/// `READLINK3res`, RFC 1813 §3.3.5.
pub type ReadlinkReply<'a> = Reply<ReadlinkOk<'a>, ReadlinkFail>;

/// `READ3args`, RFC 1813 §3.3.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadArgs<'a> {
    pub file: FileHandle<'a>,
    pub offset: u64,
    pub count: u32,
}

/// `READ3resok`, RFC 1813 §3.3.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadOk<'a> {
    pub file_attributes: PostOpAttr,
    pub count: u32,
    pub eof: bool,
    #[xdr(max = DATA_MAX)]
    pub data: &'a [u8],
}

/// `READ3resok` up to the length of `data`, RFC 1813 §3.3.6, for data that reaches the reply by another way (read in
/// place, or zero copy). After it come `data_length` bytes and [`Writer::pad`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadOkHead {
    pub file_attributes: PostOpAttr,
    pub count: u32,
    pub eof: bool,
    pub data_length: u32,
}

/// `READ3resfail`, RFC 1813 §3.3.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct ReadFail {
    pub file_attributes: PostOpAttr,
}

/// `READ3res`, RFC 1813 §3.3.6.
pub type ReadReply<'a> = Reply<ReadOk<'a>, ReadFail>;

/// `WRITE3args`, RFC 1813 §3.3.7. The procedure checks that `count` is the length of `data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct WriteArgs<'a> {
    pub file: FileHandle<'a>,
    pub offset: u64,
    pub count: u32,
    pub stable: StableHow,
    #[xdr(max = DATA_MAX)]
    pub data: &'a [u8],
}

/// `WRITE3resok`, RFC 1813 §3.3.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct WriteOk {
    pub file_wcc: WccData,
    pub count: u32,
    pub committed: StableHow,
    pub verf: WriteVerf,
}

/// `WRITE3resfail`, RFC 1813 §3.3.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct WriteFail {
    pub file_wcc: WccData,
}

/// `WRITE3res`, RFC 1813 §3.3.7.
pub type WriteReply = Reply<WriteOk, WriteFail>;

/// `CREATE3args`, RFC 1813 §3.3.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CreateArgs<'a> {
    pub place: DirOpArgs<'a>,
    pub how: CreateHow,
}

/// `createhow3`, RFC 1813 §3.3.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum CreateHow {
    #[xdr(tag = CreateMode::Unchecked as u32)]
    Unchecked(Sattr),
    #[xdr(tag = CreateMode::Guarded as u32)]
    Guarded(Sattr),
    #[xdr(tag = CreateMode::Exclusive as u32)]
    Exclusive(CreateVerf),
}

/// `CREATE3resok`, RFC 1813 §3.3.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CreateOk<'a> {
    pub obj: PostOpFh<'a>,
    pub obj_attributes: PostOpAttr,
    pub dir_wcc: WccData,
}

/// `CREATE3resfail`, RFC 1813 §3.3.8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct CreateFail {
    pub dir_wcc: WccData,
}

/// `CREATE3res`, RFC 1813 §3.3.8.
pub type CreateReply<'a> = Reply<CreateOk<'a>, CreateFail>;

/// `MKDIR3args`, RFC 1813 §3.3.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct MkdirArgs<'a> {
    pub place: DirOpArgs<'a>,
    pub attributes: Sattr,
}

/// `MKDIR3resok`, RFC 1813 §3.3.9: identical to that of CREATE.
pub type MkdirOk<'a> = CreateOk<'a>;
/// `MKDIR3resfail`, RFC 1813 §3.3.9: identical to that of CREATE.
pub type MkdirFail = CreateFail;
/// `MKDIR3res`, RFC 1813 §3.3.9.
pub type MkdirReply<'a> = CreateReply<'a>;

/// `SYMLINK3args`, RFC 1813 §3.3.10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SymlinkArgs<'a> {
    pub place: DirOpArgs<'a>,
    pub symlink: SymlinkData<'a>,
}

/// `symlinkdata3`, RFC 1813 §3.3.10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SymlinkData<'a> {
    pub symlink_attributes: Sattr,
    #[xdr(max = PATH_MAX)]
    pub symlink_data: &'a [u8],
}

/// `SYMLINK3resok`, RFC 1813 §3.3.10: identical to that of CREATE.
pub type SymlinkOk<'a> = CreateOk<'a>;
/// `SYMLINK3resfail`, RFC 1813 §3.3.10: identical to that of CREATE.
pub type SymlinkFail = CreateFail;
/// `SYMLINK3res`, RFC 1813 §3.3.10.
pub type SymlinkReply<'a> = CreateReply<'a>;

/// `MKNOD3args`, RFC 1813 §3.3.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct MknodArgs<'a> {
    pub place: DirOpArgs<'a>,
    pub what: MknodData,
}

/// `mknoddata3`, RFC 1813 §3.3.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum MknodData {
    #[xdr(tag = FileType::CharDevice as u32)]
    CharDevice(DeviceData),
    #[xdr(tag = FileType::BlockDevice as u32)]
    BlockDevice(DeviceData),
    #[xdr(tag = FileType::Socket as u32)]
    Socket(Sattr),
    #[xdr(tag = FileType::Fifo as u32)]
    Fifo(Sattr),
    /// Any other value, an `ftype3` or not: the answer is `NFS3ERR_BADTYPE`.
    #[xdr(default)]
    Other(u32),
}

/// `devicedata3`, RFC 1813 §3.3.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct DeviceData {
    pub dev_attributes: Sattr,
    pub spec: SpecData,
}

/// `MKNOD3resok`, RFC 1813 §3.3.11: identical to that of CREATE.
pub type MknodOk<'a> = CreateOk<'a>;
/// `MKNOD3resfail`, RFC 1813 §3.3.11: identical to that of CREATE.
pub type MknodFail = CreateFail;
/// `MKNOD3res`, RFC 1813 §3.3.11.
pub type MknodReply<'a> = CreateReply<'a>;

/// `REMOVE3args`, RFC 1813 §3.3.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RemoveArgs<'a> {
    pub object: DirOpArgs<'a>,
}

/// `REMOVE3resok`, RFC 1813 §3.3.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RemoveOk {
    pub dir_wcc: WccData,
}

/// `REMOVE3resfail`, RFC 1813 §3.3.12.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct RemoveFail {
    pub dir_wcc: WccData,
}

/// `REMOVE3res`, RFC 1813 §3.3.12.
pub type RemoveReply = Reply<RemoveOk, RemoveFail>;

/// `RMDIR3args`, RFC 1813 §3.3.13: identical to that of REMOVE.
pub type RmdirArgs<'a> = RemoveArgs<'a>;
/// `RMDIR3resok`, RFC 1813 §3.3.13: identical to that of REMOVE.
pub type RmdirOk = RemoveOk;
/// `RMDIR3resfail`, RFC 1813 §3.3.13: identical to that of REMOVE.
pub type RmdirFail = RemoveFail;
/// `RMDIR3res`, RFC 1813 §3.3.13.
pub type RmdirReply = RemoveReply;

/// `RENAME3args`, RFC 1813 §3.3.14.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RenameArgs<'a> {
    pub from: DirOpArgs<'a>,
    pub to: DirOpArgs<'a>,
}

/// `RENAME3resok`, RFC 1813 §3.3.14.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RenameOk {
    pub fromdir_wcc: WccData,
    pub todir_wcc: WccData,
}

/// `RENAME3resfail`, RFC 1813 §3.3.14.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct RenameFail {
    pub fromdir_wcc: WccData,
    pub todir_wcc: WccData,
}

/// `RENAME3res`, RFC 1813 §3.3.14.
pub type RenameReply = Reply<RenameOk, RenameFail>;

/// `LINK3args`, RFC 1813 §3.3.15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LinkArgs<'a> {
    pub file: FileHandle<'a>,
    pub link: DirOpArgs<'a>,
}

/// `LINK3resok`, RFC 1813 §3.3.15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LinkOk {
    pub file_attributes: PostOpAttr,
    pub linkdir_wcc: WccData,
}

/// `LINK3resfail`, RFC 1813 §3.3.15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct LinkFail {
    pub file_attributes: PostOpAttr,
    pub linkdir_wcc: WccData,
}

/// `LINK3res`, RFC 1813 §3.3.15.
pub type LinkReply = Reply<LinkOk, LinkFail>;

/// `READDIR3args`, RFC 1813 §3.3.16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReaddirArgs<'a> {
    pub dir: FileHandle<'a>,
    pub cookie: u64,
    pub cookieverf: CookieVerf,
    /// Most bytes of the whole `READDIR3resok`.
    pub count: u32,
}

/// `READDIR3resok` before its entries, RFC 1813 §3.3.16 and §3.3.17.
///
/// The server writes [`Status::OK`], this, then `Some(entry)` ([`Entry`] or [`EntryPlus`]) for as many as fit, then
/// [`DirListEnd`]. An entry that turns out too large is removed with [`Writer::truncate`]. The client decodes
/// [`ReaddirOk`] or [`ReaddirplusOk`], which are the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReaddirOkHead {
    pub dir_attributes: PostOpAttr,
    pub cookieverf: CookieVerf,
}

/// The end of `dirlist3` and `dirlistplus3`, RFC 1813 §3.3.16 and §3.3.17, and of `dirlist4`, RFC 8881 §18.23.2: no
/// further entry, and whether the directory ends here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirListEnd {
    pub eof: bool,
}

impl DirListEnd {
    pub const SIZE: usize = 8;
}

impl Encode for DirListEnd {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bool(false);
        w.bool(self.eof);
    }
}

/// `entry3` without its link, RFC 1813 §3.3.16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Entry<'a> {
    pub fileid: u64,
    #[xdr(max = NAME_MAX)]
    pub name: &'a [u8],
    pub cookie: u64,
}

/// `READDIR3resok` with `dirlist3`, RFC 1813 §3.3.16, as a client reads it: `reply.entries.iter()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReaddirOk<'a> {
    pub dir_attributes: PostOpAttr,
    pub cookieverf: CookieVerf,
    pub entries: ListRef<'a, Entry<'a>>,
    pub eof: bool,
}

/// `READDIR3resfail`, RFC 1813 §3.3.16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct ReaddirFail {
    pub dir_attributes: PostOpAttr,
}

/// `READDIR3res`, RFC 1813 §3.3.16.
pub type ReaddirReply<'a> = Reply<ReaddirOk<'a>, ReaddirFail>;

/// `READDIRPLUS3args`, RFC 1813 §3.3.17.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReaddirplusArgs<'a> {
    pub dir: FileHandle<'a>,
    pub cookie: u64,
    pub cookieverf: CookieVerf,
    /// Most bytes of file ids, names and cookies.
    pub dircount: u32,
    /// Most bytes of the whole `READDIRPLUS3resok`.
    pub maxcount: u32,
}

/// `entryplus3` without its link, RFC 1813 §3.3.17.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct EntryPlus<'a> {
    pub fileid: u64,
    #[xdr(max = NAME_MAX)]
    pub name: &'a [u8],
    pub cookie: u64,
    pub name_attributes: PostOpAttr,
    pub name_handle: PostOpFh<'a>,
}

/// `READDIRPLUS3resok` with `dirlistplus3`, RFC 1813 §3.3.17, as a client reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReaddirplusOk<'a> {
    pub dir_attributes: PostOpAttr,
    pub cookieverf: CookieVerf,
    pub entries: ListRef<'a, EntryPlus<'a>>,
    pub eof: bool,
}

/// `READDIRPLUS3resfail`, RFC 1813 §3.3.17: identical to that of READDIR.
pub type ReaddirplusFail = ReaddirFail;
/// `READDIRPLUS3res`, RFC 1813 §3.3.17.
pub type ReaddirplusReply<'a> = Reply<ReaddirplusOk<'a>, ReaddirplusFail>;

/// `FSSTAT3args`, RFC 1813 §3.3.18.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct FsstatArgs<'a> {
    pub fsroot: FileHandle<'a>,
}

/// `FSSTAT3resok`, RFC 1813 §3.3.18: bytes, files, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct FsstatOk {
    pub obj_attributes: PostOpAttr,
    pub tbytes: u64,
    pub fbytes: u64,
    pub abytes: u64,
    pub tfiles: u64,
    pub ffiles: u64,
    pub afiles: u64,
    pub invarsec: u32,
}

/// `FSSTAT3resfail`, RFC 1813 §3.3.18; FSINFO's and PATHCONF's are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct FsstatFail {
    pub obj_attributes: PostOpAttr,
}

/// `FSSTAT3res`, RFC 1813 §3.3.18.
pub type FsstatReply = Reply<FsstatOk, FsstatFail>;

/// `FSINFO3args`, RFC 1813 §3.3.19: identical to that of FSSTAT.
pub type FsinfoArgs<'a> = FsstatArgs<'a>;

/// `FSINFO3resok`, RFC 1813 §3.3.19: bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct FsinfoOk {
    pub obj_attributes: PostOpAttr,
    pub rtmax: u32,
    pub rtpref: u32,
    pub rtmult: u32,
    pub wtmax: u32,
    pub wtpref: u32,
    pub wtmult: u32,
    pub dtpref: u32,
    pub maxfilesize: u64,
    pub time_delta: NfsTime,
    pub properties: Properties,
}

/// `FSINFO3resfail`, RFC 1813 §3.3.19.
pub type FsinfoFail = FsstatFail;
/// `FSINFO3res`, RFC 1813 §3.3.19.
pub type FsinfoReply = Reply<FsinfoOk, FsinfoFail>;

/// `PATHCONF3args`, RFC 1813 §3.3.20.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct PathconfArgs<'a> {
    pub object: FileHandle<'a>,
}

/// `PATHCONF3resok`, RFC 1813 §3.3.20.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct PathconfOk {
    pub obj_attributes: PostOpAttr,
    pub linkmax: u32,
    pub name_max: u32,
    pub no_trunc: bool,
    pub chown_restricted: bool,
    pub case_insensitive: bool,
    pub case_preserving: bool,
}

/// `PATHCONF3resfail`, RFC 1813 §3.3.20.
pub type PathconfFail = FsstatFail;
/// `PATHCONF3res`, RFC 1813 §3.3.20.
pub type PathconfReply = Reply<PathconfOk, PathconfFail>;

/// `COMMIT3args`, RFC 1813 §3.3.21.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CommitArgs<'a> {
    pub file: FileHandle<'a>,
    pub offset: u64,
    /// Zero: to the end of the file.
    pub count: u32,
}

/// `COMMIT3resok`, RFC 1813 §3.3.21.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CommitOk {
    pub file_wcc: WccData,
    pub verf: WriteVerf,
}

/// `COMMIT3resfail`, RFC 1813 §3.3.21.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct CommitFail {
    pub file_wcc: WccData,
}

/// `COMMIT3res`, RFC 1813 §3.3.21.
pub type CommitReply = Reply<CommitOk, CommitFail>;
