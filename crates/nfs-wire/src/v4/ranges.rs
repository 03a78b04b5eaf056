//! Operations of 4.2 on ranges of files, RFC 7862 §15.

use xdr::Xdr;

use super::{
    ARRAY_MAX, Bitmap, DATA_MAX, NetAddr, NfsTime, Reply, StableHow, Stateid, Status, TEXT_MAX, Verifier,
};

/// `ALLOCATE4args`, RFC 7862 §15.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct AllocateArgs {
    pub stateid: Stateid,
    pub offset: u64,
    pub length: u64,
}

/// `netloc_type4`, RFC 7862 §4.7; the tags of [`NetLoc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum NetLocType {
    #[xdr(name = "NL4_NAME")]
    Name = 1,
    #[xdr(name = "NL4_URL")]
    Url = 2,
    #[xdr(name = "NL4_NETADDR")]
    NetAddr = 3,
}

/// `netloc4`, RFC 7862 §4.7: a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum NetLoc<'a> {
    #[xdr(tag = NetLocType::Name as u32)]
    Name(#[xdr(max = TEXT_MAX)] &'a [u8]),
    #[xdr(tag = NetLocType::Url as u32)]
    Url(#[xdr(max = TEXT_MAX)] &'a [u8]),
    #[xdr(tag = NetLocType::NetAddr as u32)]
    NetAddr(NetAddr<'a>),
}

/// `COPY4args`, RFC 7862 §15.2.1.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct CopyArgs<'a> {
    pub src_stateid: Stateid,
    pub dst_stateid: Stateid,
    pub src_offset: u64,
    pub dst_offset: u64,
    /// Zero: to the end of the source.
    pub count: u64,
    pub consecutive: bool,
    pub synchronous: bool,
    /// Empty: the source is on this server.
    #[xdr(max = ARRAY_MAX)]
    pub source_server: Vec<NetLoc<'a>>,
}

/// `write_response4`, RFC 7862 §15.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct WriteResponse {
    /// An array of at most one: the copy continues, and a callback reports its end.
    pub callback_id: Option<Stateid>,
    pub count: u64,
    pub committed: StableHow,
    pub writeverf: Verifier,
}

/// `copy_requirements4`, RFC 7862 §15.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CopyRequirements {
    pub consecutive: bool,
    pub synchronous: bool,
}

/// `COPY4resok`, RFC 7862 §15.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CopyOk {
    pub response: WriteResponse,
    pub requirements: CopyRequirements,
}

/// `COPY4res`, RFC 7862 §15.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum CopyReply {
    #[xdr(tag = Status::OK.0)]
    Ok(CopyOk),
    /// The requirements that the server can meet.
    #[xdr(tag = Status::OFFLOAD_NO_REQS.0)]
    NoReqs(CopyRequirements),
    #[xdr(default)]
    Err(Status),
}

/// `COPY_NOTIFY4args`, RFC 7862 §15.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CopyNotifyArgs<'a> {
    pub src_stateid: Stateid,
    pub destination_server: NetLoc<'a>,
}

/// `COPY_NOTIFY4resok`, RFC 7862 §15.3.2.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct CopyNotifyOk<'a> {
    pub lease_time: NfsTime,
    pub stateid: Stateid,
    #[xdr(max = ARRAY_MAX)]
    pub source_server: Vec<NetLoc<'a>>,
}

/// `COPY_NOTIFY4res`, RFC 7862 §15.3.2.
pub type CopyNotifyReply<'a> = Reply<CopyNotifyOk<'a>>;

/// `DEALLOCATE4args`, RFC 7862 §15.4.1: identical to that of ALLOCATE.
pub type DeallocateArgs = AllocateArgs;

xdr::open_set! {
    /// `IO_ADVISE_type4`, RFC 7862 §15.5.1; numbers in the sets of hints.
    pub struct IoAdviseType {
        NORMAL: "IO_ADVISE4_NORMAL" = 0,
        SEQUENTIAL: "IO_ADVISE4_SEQUENTIAL" = 1,
        SEQUENTIAL_BACKWARDS: "IO_ADVISE4_SEQUENTIAL_BACKWARDS" = 2,
        RANDOM: "IO_ADVISE4_RANDOM" = 3,
        WILLNEED: "IO_ADVISE4_WILLNEED" = 4,
        WILLNEED_OPPORTUNISTIC: "IO_ADVISE4_WILLNEED_OPPORTUNISTIC" = 5,
        DONTNEED: "IO_ADVISE4_DONTNEED" = 6,
        NOREUSE: "IO_ADVISE4_NOREUSE" = 7,
        READ: "IO_ADVISE4_READ" = 8,
        WRITE: "IO_ADVISE4_WRITE" = 9,
        INIT_PROXIMITY: "IO_ADVISE4_INIT_PROXIMITY" = 10,
    }
}

/// `IO_ADVISE4args`, RFC 7862 §15.5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct IoAdviseArgs {
    pub stateid: Stateid,
    pub offset: u64,
    pub count: u64,
    pub hints: Bitmap,
}

/// `IO_ADVISE4resok`, RFC 7862 §15.5.2: the hints that the server follows.
pub type IoAdviseOk = Bitmap;
/// `IO_ADVISE4res`, RFC 7862 §15.5.2.
pub type IoAdviseReply = Reply<IoAdviseOk>;

/// `OFFLOAD_CANCEL4args`, RFC 7862 §15.8.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct OffloadCancelArgs {
    pub stateid: Stateid,
}

/// `OFFLOAD_STATUS4args`, RFC 7862 §15.9.1: identical to that of OFFLOAD_CANCEL.
pub type OffloadStatusArgs = OffloadCancelArgs;

/// `OFFLOAD_STATUS4resok`, RFC 7862 §15.9.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct OffloadStatusOk {
    pub count: u64,
    /// An array of at most one: the status of a copy that has ended.
    pub complete: Option<Status>,
}

/// `OFFLOAD_STATUS4res`, RFC 7862 §15.9.2.
pub type OffloadStatusReply = Reply<OffloadStatusOk>;

/// `READ_PLUS4args`, RFC 7862 §15.10.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadPlusArgs {
    pub stateid: Stateid,
    pub offset: u64,
    pub count: u32,
}

/// `data_content4`, RFC 7862 §15.10.2; the tags of [`ReadPlusContent`], and the content that SEEK finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum DataContent {
    #[xdr(name = "NFS4_CONTENT_DATA")]
    Data = 0,
    #[xdr(name = "NFS4_CONTENT_HOLE")]
    Hole = 1,
}

/// `data4`, RFC 7862 §15.10.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Data<'a> {
    pub offset: u64,
    #[xdr(max = DATA_MAX)]
    pub data: &'a [u8],
}

/// `data_info4`, RFC 7862 §15.10.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct DataInfo {
    pub offset: u64,
    pub length: u64,
}

/// `read_plus_content`, RFC 7862 §15.10.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum ReadPlusContent<'a> {
    #[xdr(tag = DataContent::Data as u32)]
    Data(Data<'a>),
    #[xdr(tag = DataContent::Hole as u32)]
    Hole(DataInfo),
}

/// `read_plus_content` with data, up to its length, RFC 7862 §15.10.2, for data that is read in place. After
/// it come `data_length` bytes and [`xdr::Writer::pad`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadPlusDataHead {
    /// [`DataContent::Data`].
    pub content: DataContent,
    pub offset: u64,
    pub data_length: u32,
}

/// `read_plus_res4`, RFC 7862 §15.10.2.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct ReadPlusOk<'a> {
    pub eof: bool,
    #[xdr(max = ARRAY_MAX)]
    pub contents: Vec<ReadPlusContent<'a>>,
}

/// `read_plus_res4` up to its contents, RFC 7862 §15.10.2. A server that writes them one by one patches the
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadPlusOkHead {
    pub eof: bool,
    pub contents_length: u32,
}

/// `READ_PLUS4res`, RFC 7862 §15.10.2.
pub type ReadPlusReply<'a> = Reply<ReadPlusOk<'a>>;

/// `SEEK4args`, RFC 7862 §15.11.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SeekArgs {
    pub stateid: Stateid,
    pub offset: u64,
    /// `data_content4`, unchecked: an unknown value gets `NFS4ERR_UNION_NOTSUPP`.
    pub what: u32,
}

/// `seek_res4`, RFC 7862 §15.11.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SeekOk {
    pub eof: bool,
    pub offset: u64,
}

/// `SEEK4res`, RFC 7862 §15.11.2.
pub type SeekReply = Reply<SeekOk>;

/// `app_data_block4`, RFC 7862 §15.12.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct AppDataBlock<'a> {
    pub offset: u64,
    pub block_size: u64,
    pub block_count: u64,
    pub reloff_blocknum: u64,
    pub block_num: u32,
    pub reloff_pattern: u64,
    #[xdr(max = DATA_MAX)]
    pub pattern: &'a [u8],
}

/// `WRITE_SAME4args`, RFC 7862 §15.12.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct WriteSameArgs<'a> {
    pub stateid: Stateid,
    pub stable: StableHow,
    pub adb: AppDataBlock<'a>,
}

/// `WRITE_SAME4res`, RFC 7862 §15.12.2.
pub type WriteSameReply = Reply<WriteResponse>;

/// `CLONE4args`, RFC 7862 §15.13.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CloneArgs {
    pub src_stateid: Stateid,
    pub dst_stateid: Stateid,
    pub src_offset: u64,
    pub dst_offset: u64,
    /// Zero: to the end of the source.
    pub count: u64,
}
