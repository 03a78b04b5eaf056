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
    Argument, Bitmap, CompoundHead, CompoundReplyHead, GetattrArgs, Op, PutfhArgs, ReadArgs, SequenceArgs,
    Status, WriteHead,
};
use ops::{Done, Ops, Stop};
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
pub(crate) fn outline(args: &[u8], mut counts: Option<&mut ThreadCounts>) -> Outline {
    let minor = CompoundHead::decode(&mut Reader::new(args)).map_or(0, |head| head.minorversion);
    let mut outline = Outline { minor, ..Outline::default() };
    let (mut read, mut writes) = (0u32, false);
    if let Some(counts) = &mut counts {
        counts.add_compound(minor);
    }
    look_through(args, |glance| {
        if let Some(counts) = &mut counts {
            counts.add_operation(minor, glance.op);
        }
        if outline.first == Op::ILLEGAL {
            outline.first = glance.op;
        }
        outline.is_recorded |= table::is_recorded(glance.op);
        outline.is_once |= minor == 0 && table::is_once(glance.op);
        if !table::is_inline(glance.op) {
            outline.dispatch = Dispatch::Batched;
        }
        read = read.saturating_add(glance.read);
        writes |= matches!(glance.op, Op::WRITE | Op::COPY);
    });
    outline.reply_bytes_max = read.min(TRANSFER_BYTES_MAX);
    outline.kind = match (read, writes) {
        (_, true) => Kind::Write,
        (0, false) => Kind::Other,
        (_, false) => Kind::Read,
    };
    outline
}

/// What a COMPOUND is about to take, and the handle that says where; `None` without a handle. Its READs and WRITEs pay
/// together; one without pays as one operation on metadata. One that has its client recorded pays for that instead (`rates.rs`),
/// and what else it does pays by itself.
pub(crate) fn demand(args: &[u8]) -> Option<(&[u8], Demand)> {
    let (mut handle, mut read, mut written, mut copied) = (None, 0u32, 0u32, 0u32);
    let mut is_recorded = false;
    look_through(args, |glance| {
        is_recorded |= table::is_recorded(glance.op);
        handle = glance.handle.or(handle);
        read = read.saturating_add(glance.read);
        written = written.saturating_add(glance.written);
        copied = copied.saturating_add(glance.copied.saturating_mul(2));
    });
    let handle = handle.filter(|_| !is_recorded);
    // No reply has more data than one transfer, so what is asked for beyond that is not read.
    let read = read.min(2 * TRANSFER_BYTES_MAX);
    let (kind, bytes) = match (read, written.saturating_add(copied)) {
        (0, 0) => (Kind::Other, 0),
        (read, 0) => (Kind::Read, read),
        (read, written) => (Kind::Write, read.saturating_add(written)),
    };
    Some((handle?, Demand { kind, bytes }))
}

/// What an operation pays by itself, if it looks at a file.
fn price(argument: &Argument<'_>) -> Option<Demand> {
    let data = |kind, bytes: usize| Some(Demand { kind, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) });
    match argument {
        Argument::Sequence(_) | Argument::Putfh(_) | Argument::Putrootfh | Argument::Putpubfh => None,
        Argument::Getfh | Argument::Savefh | Argument::Restorefh => None,
        Argument::Read(args) => data(Kind::Read, args.count.min(TRANSFER_BYTES_MAX) as usize),
        Argument::ReadPlus(args) => data(Kind::Read, args.count.min(TRANSFER_BYTES_MAX) as usize),
        Argument::Readdir(args) => data(Kind::Read, args.maxcount.min(LISTING_BYTES_MAX) as usize),
        Argument::Write(args) => data(Kind::Write, args.data.len()),
        Argument::Copy(args) => data(Kind::Write, 2 * copied(args.count) as usize),
        _ => data(Kind::Other, 0),
    }
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

/// Shows the operations of a COMPOUND up to the first that cannot be read, or whose data are not there.
fn look_through<'a>(args: &'a [u8], mut see: impl FnMut(Glance<'a>)) {
    let mut r = Reader::new(args);
    let Ok(head) = CompoundHead::decode(&mut r) else { return };
    for _ in 0..head.operations {
        let Ok(op) = Op::decode(&mut r) else { return };
        let mut glance = Glance { op, handle: None, read: 0, written: 0, copied: 0 };
        if op == Op::WRITE {
            let Ok(write) = WriteHead::decode(&mut r) else { return };
            glance.written = write.data_length.min(TRANSFER_BYTES_MAX);
            see(glance);
            if r.fixed(write.data_length as usize).is_err() {
                return;
            }
            continue;
        }
        // What nearly every compound has is looked at without a value for any operation.
        let looked = match op {
            Op::SEQUENCE => SequenceArgs::decode(&mut r).map(drop),
            Op::PUTFH => PutfhArgs::decode(&mut r).map(|args| glance.handle = Some(args.object.0)),
            Op::GETATTR => GetattrArgs::decode(&mut r).map(drop),
            Op::READ => ReadArgs::decode(&mut r).map(|args| glance.read = args.count.min(TRANSFER_BYTES_MAX)),
            _ => look_at(op, &mut r, &mut glance),
        };
        if looked.is_err() {
            return;
        }
        see(glance);
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

/// Does one operation; its number and NFS4_OK are written.
fn run_operation(ops: &mut Ops<'_, '_>, argument: Argument<'_>, out: &mut Outbox) -> Done {
    use crate::rpc::reply::Records;
    if let Argument::Read(args) = &argument {
        return file::read(ops, args, out);
    }
    if let Argument::ReadPlus(args) = &argument {
        return read_plus::read_plus(ops, args, out);
    }
    let w = &mut out.writer();
    if ops.minor == 0 && v40::is_numbered(argument.op()) {
        return v40::in_sequence(ops, &argument, w);
    }
    match argument {
        Argument::Sequence(args) => session::sequence(ops, &args, w),
        Argument::Putfh(args) => fh::putfh(ops, args, w),
        Argument::Putrootfh | Argument::Putpubfh => fh::putrootfh(ops, w),
        Argument::Getfh => fh::getfh(ops, w),
        Argument::Savefh => fh::savefh(ops, w),
        Argument::Restorefh => fh::restorefh(ops, w),
        Argument::Getattr(args) => attr::getattr(ops, args, w),
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
        Argument::Write(args) => file::write(ops, &args, w),
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
    use nfs_wire::v4::{
        CopyArgs, FileHandle, PutfhArgs, ReadArgs, ReclaimCompleteArgs, StableHow, Stateid, WriteArgs,
    };

    fn read(count: u32) -> Argument<'static> {
        Argument::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset: 0, count })
    }

    fn demand_of(operations: &[Argument<'_>]) -> (Kind, u32) {
        let head =
            CompoundHead { tag: b"", minorversion: 1, operations: u32::try_from(operations.len()).unwrap() };
        let mut args = head.to_bytes();
        operations.iter().for_each(|operation| args.extend(operation.to_bytes()));
        let (handle, demand) = demand(&args).unwrap();
        assert_eq!(handle, b"handle");
        (demand.kind, demand.bytes)
    }

    #[test]
    fn a_compound_pays_for_all_its_data_or_as_one_operation() {
        let putfh = || Argument::Putfh(PutfhArgs { object: FileHandle(b"handle") });
        let (stateid, stable) = (Stateid::ANONYMOUS, StableHow::Unstable);
        let write = Argument::Write(WriteArgs { stateid, offset: 0, stable, data: &[7; 100] });
        assert_eq!(demand_of(&[putfh(), Argument::Getfh, Argument::Savefh]), (Kind::Other, 0));
        assert_eq!(demand_of(&[putfh(), read(4096), read(4096)]), (Kind::Read, 8192));
        assert_eq!(demand_of(&[putfh(), read(u32::MAX), read(u32::MAX), read(9)]), (Kind::Read, 2 << 20));
        assert_eq!(demand_of(&[putfh(), read(10), write]), (Kind::Write, 110));
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
        assert_eq!(demand_of(&[putfh(), copy(1000)]), (Kind::Write, 2000));
        assert_eq!(demand_of(&[putfh(), copy(0)]), (Kind::Write, 4 << 20), "all there is");
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
