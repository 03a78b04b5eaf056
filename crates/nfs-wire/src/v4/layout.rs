//! Layouts and devices of parallel NFS, RFC 8881 §18.40 to §18.44, RFC 7862 §15.6 and §15.7. The opaque bodies of
//! layout types are not decoded here.

use xdr::Xdr;

use super::{ARRAY_MAX, Bitmap, DATA_MAX, DeviceId, NfsTime, Op, Reply, Stateid, Status, Verifier};

/// `layouttype4`, RFC 8881 §3.3.13: a number of a registry that grows.
pub type LayoutType = u32;

/// `layoutiomode4`, RFC 8881 §3.3.20.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum LayoutIomode {
    #[xdr(name = "LAYOUTIOMODE4_READ")]
    Read = 1,
    #[xdr(name = "LAYOUTIOMODE4_RW")]
    Rw = 2,
    #[xdr(name = "LAYOUTIOMODE4_ANY")]
    Any = 3,
}

/// A layout type with its body: `layout_content4`, `layouthint4`, `device_addr4` and `layoutupdate4`, RFC 8881 §3.3.15,
/// §3.3.16, §3.3.18 and §3.3.19.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LayoutBody<'a> {
    pub layout_type: LayoutType,
    #[xdr(max = DATA_MAX)]
    pub body: &'a [u8],
}

/// `GETDEVICEINFO4args`, RFC 8881 §18.40.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetdeviceinfoArgs {
    pub device_id: DeviceId,
    pub layout_type: LayoutType,
    pub maxcount: u32,
    pub notify_types: Bitmap,
}

/// `GETDEVICEINFO4resok`, RFC 8881 §18.40.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetdeviceinfoOk<'a> {
    pub device_addr: LayoutBody<'a>,
    pub notification: Bitmap,
}

/// `GETDEVICEINFO4res`, RFC 8881 §18.40.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum GetdeviceinfoReply<'a> {
    #[xdr(tag = Status::OK.0)]
    Ok(GetdeviceinfoOk<'a>),
    /// The smallest sufficient `maxcount`.
    #[xdr(tag = Status::TOOSMALL.0)]
    TooSmall(u32),
    #[xdr(default)]
    Err(Status),
}

/// `GETDEVICELIST4args`, RFC 8881 §18.41.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetdevicelistArgs {
    pub layout_type: LayoutType,
    pub maxdevices: u32,
    pub cookie: u64,
    pub cookieverf: Verifier,
}

/// `GETDEVICELIST4resok`, RFC 8881 §18.41.2.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct GetdevicelistOk {
    pub cookie: u64,
    pub cookieverf: Verifier,
    #[xdr(max = ARRAY_MAX)]
    pub deviceid_list: Vec<DeviceId>,
    pub eof: bool,
}

/// `GETDEVICELIST4res`, RFC 8881 §18.41.2.
pub type GetdevicelistReply = Reply<GetdevicelistOk>;

/// `LAYOUTCOMMIT4args`, RFC 8881 §18.42.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LayoutcommitArgs<'a> {
    pub offset: u64,
    pub length: u64,
    pub reclaim: bool,
    pub stateid: Stateid,
    pub last_write_offset: Option<u64>,
    pub time_modify: Option<NfsTime>,
    pub layoutupdate: LayoutBody<'a>,
}

/// `LAYOUTCOMMIT4resok`, RFC 8881 §18.42.2: the file's size, if it changed.
pub type LayoutcommitOk = Option<u64>;
/// `LAYOUTCOMMIT4res`, RFC 8881 §18.42.2.
pub type LayoutcommitReply = Reply<LayoutcommitOk>;

/// `LAYOUTGET4args`, RFC 8881 §18.43.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LayoutgetArgs {
    pub signal_layout_avail: bool,
    pub layout_type: LayoutType,
    pub iomode: LayoutIomode,
    pub offset: u64,
    pub length: u64,
    pub minlength: u64,
    pub stateid: Stateid,
    pub maxcount: u32,
}

/// `layout4`, RFC 8881 §3.3.17.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Layout<'a> {
    pub offset: u64,
    pub length: u64,
    pub iomode: LayoutIomode,
    pub content: LayoutBody<'a>,
}

/// `LAYOUTGET4resok`, RFC 8881 §18.43.2.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct LayoutgetOk<'a> {
    pub return_on_close: bool,
    pub stateid: Stateid,
    #[xdr(max = ARRAY_MAX)]
    pub layout: Vec<Layout<'a>>,
}

/// `LAYOUTGET4res`, RFC 8881 §18.43.2.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub enum LayoutgetReply<'a> {
    #[xdr(tag = Status::OK.0)]
    Ok(LayoutgetOk<'a>),
    /// Whether the server notifies the client when one is available.
    #[xdr(tag = Status::LAYOUTTRYLATER.0)]
    TryLater(bool),
    #[xdr(default)]
    Err(Status),
}

/// `layoutreturn_type4`, RFC 8881 §18.44.1; the tags of [`LayoutReturn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum LayoutReturnType {
    #[xdr(name = "LAYOUTRETURN4_FILE")]
    File = 1,
    #[xdr(name = "LAYOUTRETURN4_FSID")]
    Fsid = 2,
    #[xdr(name = "LAYOUTRETURN4_ALL")]
    All = 3,
}

/// `layoutreturn4`, RFC 8881 §18.44.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum LayoutReturn<'a> {
    #[xdr(tag = LayoutReturnType::File as u32)]
    File(LayoutReturnFile<'a>),
    #[xdr(tag = LayoutReturnType::Fsid as u32)]
    Fsid,
    #[xdr(tag = LayoutReturnType::All as u32)]
    All,
}

/// `layoutreturn_file4`, RFC 8881 §18.44.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LayoutReturnFile<'a> {
    pub offset: u64,
    pub length: u64,
    pub stateid: Stateid,
    #[xdr(max = DATA_MAX)]
    pub body: &'a [u8],
}

/// `LAYOUTRETURN4args`, RFC 8881 §18.44.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LayoutreturnArgs<'a> {
    pub reclaim: bool,
    pub layout_type: LayoutType,
    pub iomode: LayoutIomode,
    pub layoutreturn: LayoutReturn<'a>,
}

/// `layoutreturn_stateid`, RFC 8881 §18.44.2: the stateid, if layouts remain.
pub type LayoutreturnOk = Option<Stateid>;
/// `LAYOUTRETURN4res`, RFC 8881 §18.44.2.
pub type LayoutreturnReply = Reply<LayoutreturnOk>;

/// `device_error4`, RFC 7862 §15.6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct DeviceError {
    pub deviceid: DeviceId,
    pub status: Status,
    pub opnum: Op,
}

/// `LAYOUTERROR4args`, RFC 7862 §15.6.1.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct LayouterrorArgs {
    pub offset: u64,
    pub length: u64,
    pub stateid: Stateid,
    #[xdr(max = ARRAY_MAX)]
    pub errors: Vec<DeviceError>,
}

/// `io_info4`, RFC 7862 §15.7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct IoInfo {
    pub count: u64,
    pub bytes: u64,
}

/// `LAYOUTSTATS4args`, RFC 7862 §15.7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LayoutstatsArgs<'a> {
    pub offset: u64,
    pub length: u64,
    pub stateid: Stateid,
    pub read: IoInfo,
    pub write: IoInfo,
    pub deviceid: DeviceId,
    pub layoutupdate: LayoutBody<'a>,
}
