//! NFS version 4: 4.1 (RFC 8881) and 4.2 (RFC 7862) as one engine, and 4.0 (RFC 7530) as a layer on it.
//!
//! [`nfs_wire::v4`] is what messages look like; [`compound`] runs the operations of a call one after another; the
//! operations are grouped by family as the procedures of version 3 are. [`state`] is what clients hold.

mod attr;
pub(crate) mod compound;
mod delegation;
mod dir;
mod fh;
mod file;
pub(crate) mod large;
mod lock;
mod open;
mod ops;
mod place;
mod pseudo;
#[cfg(test)]
mod random;
mod ranges;
mod read_plus;
#[cfg(test)]
mod refused_tests;
#[cfg(test)]
mod rules_tests;
mod session;
pub mod state;
mod status;
mod table;
#[cfg(test)]
mod testing;
mod v40;
mod xattr;

use crate::counts::ThreadCounts;
use crate::limits::{LISTING_BYTES_MAX, TRANSFER_BYTES_MAX};
use nfs_wire::v4::{
    Argument, Bitmap, CompoundHead, CompoundReplyHead, Op, PutfhArgs, ReadArgs, Status, WriteArgs, WriteHead,
};
use ops::{Done, Ops, Stop};
use table::Traits;
use transport::{Dispatch, Outbox};
use vfs::ProtocolId;
use vfs::qos::{Demand, Kind};
use xdr::{Decode, Encode, Malformed, Reader, Writer};

/// A minor version in the rules of exports.
pub(crate) fn protocol(minor: u32) -> ProtocolId {
    match minor {
        0 => ProtocolId(4),
        1 => ProtocolId(1),
        _ => ProtocolId(2),
    }
}

/// What can be known of a compound before it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The minor version.
    pub(crate) minor: u32,
    /// The first operation.
    pub(crate) first: Op,
    /// Whether it must not be done twice, and nothing but the transport would keep it from that: sessions do since 4.1.
    pub(crate) is_once: bool,
    /// Whether it has its client recorded for a restart.
    pub(crate) is_recorded: bool,
    /// How it may be done.
    pub(crate) dispatch: Dispatch,
    /// What it does, as limits and counters see it.
    pub(crate) kind: Kind,
    /// The most bytes of data that its reply may have.
    pub(crate) reply_bytes_max: u32,
}

impl Default for Outline {
    fn default() -> Self {
        let (first, dispatch, kind) = (Op::ILLEGAL, Dispatch::Inline, Kind::Other);
        Self { minor: 0, first, is_once: false, is_recorded: false, dispatch, kind, reply_bytes_max: 0 }
    }
}

/// Looks through the arguments of a COMPOUND, and counts what is asked for.
pub(crate) fn outline(args: &[u8], counts: Option<&mut ThreadCounts>) -> Outline {
    let mut r = Reader::new(args);
    let Ok(head) = CompoundHead::decode(&mut r) else { return Outline::default() };
    let minor = head.minorversion;
    let mut counts = counts.and_then(|counts| counts.compound(minor));
    let (mut first, mut traits, mut read) = (None, Traits::NONE, 0u32);
    look_through(&mut r, head.operations, |glance| {
        if let Some(counts) = &mut counts {
            counts.add(glance.op);
        }
        first = first.or(Some(glance.op));
        traits = traits.or(Traits::of(glance.op));
        read = read.saturating_add(glance.read);
    });
    Outline {
        minor,
        first: first.unwrap_or(Op::ILLEGAL),
        is_once: minor == 0 && traits.has(Traits::ONCE),
        is_recorded: traits.has(Traits::RECORDED),
        dispatch: if traits.has(Traits::WAITS) { Dispatch::Batched } else { Dispatch::Inline },
        kind: match (read, traits.has(Traits::WRITES)) {
            (_, true) => Kind::Write,
            (0, false) => Kind::Other,
            (_, false) => Kind::Read,
        },
        reply_bytes_max: read.min(TRANSFER_BYTES_MAX),
    }
}

/// What a COMPOUND is about to take, and the handle that says where; `None` without a handle. Its READs and WRITEs pay
/// together, each as an operation; one without any pays as one operation on metadata. One that has its client recorded pays for that instead (`rates.rs`),
/// and what else it does pays by itself.
pub(crate) fn demand(args: &[u8]) -> Option<(&[u8], Demand)> {
    let mut r = Reader::new(args);
    let head = CompoundHead::decode(&mut r).ok()?;
    let (mut handle, mut read, mut written, mut copied, mut operations) = (None, 0u32, 0u32, 0u32, 0u32);
    let mut traits = Traits::NONE;
    look_through(&mut r, head.operations, |glance| {
        traits = traits.or(Traits::of(glance.op));
        handle = glance.handle.or(handle);
        read = read.saturating_add(glance.read);
        written = written.saturating_add(glance.written);
        copied = copied.saturating_add(glance.copied.saturating_mul(2));
        operations += u32::from((glance.read | glance.written | glance.copied) > 0);
    });
    let handle = handle.filter(|_| !traits.has(Traits::RECORDED));
    // No reply has more data than one transfer, so what is asked for beyond that is not read.
    let read = read.min(2 * TRANSFER_BYTES_MAX);
    let (kind, bytes) = match (read, written.saturating_add(copied)) {
        (0, 0) => (Kind::Other, 0),
        (read, 0) => (Kind::Read, read),
        (read, written) => (Kind::Write, read.saturating_add(written)),
    };
    Some((handle?, Demand { kind, bytes, operations: operations.max(1) }))
}

/// What an operation pays by itself, if it looks at a file.
fn price(argument: &Argument<'_>) -> Option<Demand> {
    match argument {
        Argument::Putrootfh
        | Argument::Putpubfh
        | Argument::Getfh
        | Argument::Savefh
        | Argument::Restorefh => None,
        Argument::ReadPlus(args) => Some(data(Kind::Read, args.count.min(TRANSFER_BYTES_MAX))),
        Argument::Readdir(args) => Some(data(Kind::Read, args.maxcount.min(LISTING_BYTES_MAX))),
        Argument::Copy(args) => Some(data(Kind::Write, copied(args.count).saturating_mul(2))),
        _ => Some(METADATA),
    }
}

/// An operation on metadata.
const METADATA: Demand = Demand::one(Kind::Other, 0);

/// An operation on so many bytes of data.
fn data(kind: Kind, bytes: u32) -> Demand {
    Demand::one(kind, bytes)
}

/// What an operation is seen to be before it is run.
struct Glance<'a> {
    op: Op,
    handle: Option<&'a [u8]>,
    /// Bytes of data that it reads and writes.
    read: u32,
    written: u32,
    /// Bytes that it copies, each of which is read and written.
    copied: u32,
}

/// What a COPY of so many bytes copies at once where that is limited; 0 is all there is.
fn copied(count: u64) -> u32 {
    let all = ranges::COPY_PAID_BYTES_MAX;
    u32::try_from(if count == 0 { all } else { count.min(all) }).unwrap_or(u32::MAX)
}

/// Words of `SEQUENCE4args`: the session, three numbers and a flag (RFC 8881 §18.46.1).
const SEQUENCE_WORDS: usize = 8;

/// Shows the operations of a COMPOUND up to the first that cannot be read, or whose data are not there.
#[inline]
fn look_through<'a>(r: &mut Reader<'a>, operations: u32, mut see: impl FnMut(Glance<'a>)) {
    for _ in 0..operations {
        let Ok(op) = Op::decode(r) else { return };
        let mut glance = Glance { op, handle: None, read: 0, written: 0, copied: 0 };
        // Data that follow, which need not be there.
        let mut data = 0;
        // What nearly every compound has is passed over, or looked at, without a value for any operation.
        let looked = match op {
            Op::SEQUENCE => r.words::<SEQUENCE_WORDS>().map(drop),
            Op::PUTFH => PutfhArgs::decode(r).map(|args| glance.handle = Some(args.object.0)),
            Op::GETATTR => r.u32().and_then(|words| r.fixed((words as usize).saturating_mul(4))).map(drop),
            Op::READ => ReadArgs::decode(r).map(|args| glance.read = args.count.min(TRANSFER_BYTES_MAX)),
            Op::WRITE => WriteHead::decode(r).map(|write| {
                data = write.data_length;
                glance.written = data.min(TRANSFER_BYTES_MAX);
            }),
            _ => look_at(op, r, &mut glance),
        };
        if looked.is_err() {
            return;
        }
        see(glance);
        if data > 0 && r.fixed(data as usize).is_err() {
            return;
        }
    }
}

fn look_at(op: Op, r: &mut Reader<'_>, glance: &mut Glance<'_>) -> Result<(), Malformed> {
    match Argument::decode_body(op, r)? {
        Argument::Illegal(_) => return Err(Malformed("no operation")),
        Argument::ReadPlus(args) => glance.read = args.count.min(TRANSFER_BYTES_MAX),
        Argument::Readdir(args) => glance.read = args.maxcount.min(LISTING_BYTES_MAX),
        Argument::Copy(args) => glance.copied = copied(args.count),
        _ => {}
    }
    Ok(())
}

/// Reads the arguments of one operation, which pays for it, and does it; its number and NFS4_OK are written.
#[inline(always)]
fn run_operation(ops: &mut Ops<'_, '_>, op: Op, r: &mut Reader<'_>, out: &mut Outbox) -> Done {
    use crate::rpc::reply::Records;
    // What nearly every compound has is done without a value for any operation.
    match op {
        Op::SEQUENCE => {
            let args = arguments(r)?;
            ops.checksum = session::checksum(r.rest());
            session::sequence(ops, &args, &mut out.writer())
        }
        Op::PUTFH => fh::putfh(ops, arguments(r)?, &mut out.writer()),
        Op::GETATTR => {
            let args = arguments(r)?;
            ops.pay(METADATA)?;
            attr::getattr(ops, args, &mut out.writer())
        }
        Op::READ => {
            let args: ReadArgs = arguments(r)?;
            ops.pay(data(Kind::Read, args.count.min(TRANSFER_BYTES_MAX)))?;
            file::read(ops, &args, out)
        }
        Op::WRITE => {
            let args: WriteArgs<'_> = arguments(r)?;
            ops.pay(data(Kind::Write, u32::try_from(args.data.len()).unwrap_or(u32::MAX)))?;
            file::write(ops, &args, &mut out.writer())
        }
        _ => run_other(ops, op, r, out),
    }
}

/// The arguments of an operation. Of a call that cannot be read, its result is BADXDR.
#[inline]
fn arguments<'a, A: Decode<'a>>(r: &mut Reader<'a>) -> Result<A, Stop> {
    A::decode(r).map_err(|Malformed(_)| Stop::Status(Status::BADXDR))
}

fn run_other(ops: &mut Ops<'_, '_>, op: Op, r: &mut Reader<'_>, out: &mut Outbox) -> Done {
    use crate::rpc::reply::Records;
    let before = r.rest();
    let argument = Argument::decode_body(op, r).map_err(|Malformed(_)| Stop::Status(Status::BADXDR))?;
    if ops.minor == 0 && v40::is_numbered(op) {
        // What has a number pays where its end counts.
        ops.checksum = v40::checksum(op, &before[..before.len() - r.remaining()]);
        return v40::in_sequence(ops, &argument, &mut out.writer());
    }
    if let Some(demand) = price(&argument) {
        ops.pay(demand)?;
    }
    if let Argument::ReadPlus(args) = &argument {
        return read_plus::read_plus(ops, args, out);
    }
    let w = &mut out.writer();
    match argument {
        Argument::Putrootfh | Argument::Putpubfh => fh::putrootfh(ops, w),
        Argument::Getfh => fh::getfh(ops, w),
        Argument::Savefh => fh::savefh(ops, w),
        Argument::Restorefh => fh::restorefh(ops, w),
        Argument::Setattr(args) => attr::setattr(ops, args, w),
        Argument::Access(args) => attr::access(ops, args, w),
        Argument::Verify(args) => attr::verify(ops, args, w),
        Argument::Nverify(args) => attr::nverify(ops, args, w),
        Argument::Lookup(args) => dir::lookup(ops, args, w),
        Argument::Lookupp => dir::lookupp(ops, w),
        Argument::Readdir(args) => dir::readdir(ops, args, w),
        Argument::Readlink => dir::readlink(ops, w),
        Argument::Create(args) => dir::create(ops, args, w),
        Argument::Remove(args) => dir::remove(ops, args, w),
        Argument::Rename(args) => dir::rename(ops, args, w),
        Argument::Link(args) => dir::link(ops, args, w),
        Argument::Secinfo(args) => dir::secinfo(ops, args, w),
        Argument::SecinfoNoName(args) => dir::secinfo_no_name(ops, args, w),
        Argument::Open(args) => open::open(ops, &args, w),
        Argument::OpenDowngrade(args) => open::open_downgrade(ops, &args, w),
        Argument::Close(args) => open::close(ops, &args, w),
        Argument::Delegreturn(args) => delegation::delegreturn(ops, &args),
        Argument::TestStateid(args) => open::test_stateid(ops, &args, w),
        Argument::FreeStateid(args) => open::free_stateid(ops, &args),
        Argument::Lock(args) => lock::lock(ops, &args, w),
        Argument::Lockt(args) => lock::lockt(ops, &args, w),
        Argument::Locku(args) => lock::locku(ops, &args, w),
        Argument::Commit(args) => file::commit(ops, &args, w),
        Argument::Seek(args) => ranges::seek(ops, &args, w),
        Argument::Allocate(args) => ranges::allocate(ops, &args),
        Argument::Deallocate(args) => ranges::deallocate(ops, &args),
        Argument::Clone(args) => ranges::clone(ops, &args),
        Argument::Copy(args) => ranges::copy(ops, &args, w),
        Argument::OffloadStatus(args) => ranges::offload_status(ops, &args, w),
        Argument::OffloadCancel(args) => ranges::offload_cancel(ops, &args),
        Argument::Getxattr(args) => xattr::getxattr(ops, args, w),
        Argument::Setxattr(args) => xattr::setxattr(ops, args, w),
        Argument::Listxattrs(args) => xattr::listxattrs(ops, args, w),
        Argument::Removexattr(args) => xattr::removexattr(ops, args, w),
        Argument::ExchangeId(args) => session::exchange_id(ops, &args, w),
        Argument::CreateSession(args) => session::create_session(ops, &args, w),
        Argument::DestroySession(args) => session::destroy_session(ops, &args),
        Argument::DestroyClientid(args) => session::destroy_clientid(ops, &args),
        Argument::BindConnToSession(args) => session::bind_conn_to_session(ops, &args, w),
        Argument::BackchannelCtl(args) => session::backchannel_ctl(ops, &args),
        Argument::ReclaimComplete(args) => session::reclaim_complete(ops, &args),
        Argument::Setclientid(args) => v40::client::setclientid(ops, &args, w),
        Argument::SetclientidConfirm(args) => v40::client::setclientid_confirm(ops, &args),
        Argument::Renew(args) => v40::client::renew(ops, &args),
        Argument::ReleaseLockowner(args) => v40::client::release_lockowner(ops, &args),
        _ => Err(Stop::Status(Status::NOTSUPP)),
    }
}

/// The results of a compound that was not done: its first operation is refused, SEQUENCE where there are sessions, so that
/// the client sends the same again.
pub(crate) fn fail(outline: &Outline, error: vfs::FsError, w: &mut Writer<'_>) {
    let status = status::status(error);
    CompoundReplyHead { status, tag: b"", operations: 1 }.encode(w);
    outline.first.encode(w);
    status.encode(w);
    fail_tail(outline.first, w);
}

/// What follows the status of every failure of an operation, where anything does.
fn fail_tail(op: Op, w: &mut Writer<'_>) {
    if op == Op::SETATTR {
        Bitmap::EMPTY.encode(w);
    }
}

/// Handles are those of version 3.
const _: () = assert!(crate::handle::HANDLE_BYTES_MAX <= nfs_wire::v4::FHSIZE as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use nfs_wire::v4::{CopyArgs, FileHandle, PutfhArgs, ReadArgs, ReclaimCompleteArgs, StableHow, Stateid};

    fn read(count: u32) -> Argument<'static> {
        Argument::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset: 0, count })
    }

    fn demand_of(operations: &[Argument<'_>]) -> Demand {
        let head =
            CompoundHead { tag: b"", minorversion: 1, operations: u32::try_from(operations.len()).unwrap() };
        let mut args = head.to_bytes();
        operations.iter().for_each(|operation| args.extend(operation.to_bytes()));
        let (handle, demand) = demand(&args).unwrap();
        assert_eq!(handle, b"handle");
        demand
    }

    #[test]
    fn a_compound_pays_for_each_read_and_write_or_as_one_operation() {
        let putfh = || Argument::Putfh(PutfhArgs { object: FileHandle(b"handle") });
        let (stateid, stable) = (Stateid::ANONYMOUS, StableHow::Unstable);
        let write = Argument::Write(WriteArgs { stateid, offset: 0, stable, data: &[7; 100] });
        let several = |operations, kind, bytes| Demand { kind, bytes, operations };
        assert_eq!(demand_of(&[putfh(), Argument::Getfh, Argument::Savefh]), Demand::one(Kind::Other, 0));
        assert_eq!(demand_of(&[putfh(), read(4096), read(4096)]), several(2, Kind::Read, 8192));
        assert_eq!(
            demand_of(&[putfh(), read(u32::MAX), read(u32::MAX), read(9)]),
            several(3, Kind::Read, 2 << 20)
        );
        assert_eq!(demand_of(&[putfh(), read(10), write]), several(2, Kind::Write, 110));
        let copy = |count| {
            Argument::Copy(CopyArgs {
                src_stateid: stateid,
                dst_stateid: stateid,
                src_offset: 0,
                dst_offset: 0,
                count,
                consecutive: true,
                synchronous: true,
                source_server: vec![],
            })
        };
        assert_eq!(demand_of(&[putfh(), copy(1000)]), Demand::one(Kind::Write, 2000));
        assert_eq!(demand_of(&[putfh(), copy(0)]), Demand::one(Kind::Write, 4 << 20), "all there is");
    }

    #[test]
    fn a_compound_that_has_its_client_recorded_pays_for_that_and_for_the_rest_by_itself() {
        let putfh = || Argument::Putfh(PutfhArgs { object: FileHandle(b"handle") });
        let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        let args_of = |operations: &[Argument<'_>]| {
            let operations_count = u32::try_from(operations.len()).unwrap();
            let head = CompoundHead { tag: b"", minorversion: 1, operations: operations_count };
            let operations = operations.iter().flat_map(Argument::to_bytes);
            head.to_bytes().into_iter().chain(operations).collect::<Vec<u8>>()
        };
        let args = args_of(&[putfh(), complete, read(4096)]);
        assert!(outline(&args, None).is_recorded && demand(&args).is_none());
        let args = args_of(&[putfh(), read(4096)]);
        assert!(!outline(&args, None).is_recorded && demand(&args).is_some());
    }

    #[test]
    fn arguments_that_end_early_pay_for_what_can_be_read() {
        let mut args = CompoundHead { tag: b"", minorversion: 1, operations: 9 }.to_bytes();
        args.extend(Argument::Putfh(PutfhArgs { object: FileHandle(b"handle") }).to_bytes());
        args.extend(read(100).to_bytes());
        args.extend(read(100).to_bytes().split_at(20).0);
        assert_eq!(demand(&args).unwrap().1.bytes, 100);
        assert!(demand(&args[..10]).is_none());
    }
}
