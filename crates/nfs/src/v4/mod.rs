//! NFS version 4: 4.1 (RFC 8881) and 4.2 (RFC 7862) as one engine, and 4.0 (RFC 7530) as a layer on it.
//!
//! [`nfs_wire::v4`] is what messages look like; [`compound`] runs the operations of a call one after another; the
//! operations are grouped by family as the procedures of version 3 are. [`state`] is what clients hold.

mod attr;
pub(crate) mod compound;
mod delegation;
mod dir;
pub(crate) mod file;
mod filehandle;
mod filehandle_ops;
mod lock;
mod open;
mod ops;
mod outline;
mod pay;
mod payment;
pub(crate) mod price;
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
mod table;
mod v40;
mod xattr;

use nfs_wire::v4::{Argument, Bitmap, CompoundReplyHead, Op, Status, WriteArgs};
use ops::{Done, Ops, Stop};
pub use outline::Outline;
pub(crate) use outline::outline;
use transport::Outbox;
use vfs::ProtocolId;
use xdr::{Decode, Encode, Malformed, Reader, Writer};

/// A minor version in the rules of exports.
pub(crate) fn protocol(minor: u32) -> ProtocolId {
    match minor {
        0 => ProtocolId(4),
        1 => ProtocolId(1),
        _ => ProtocolId(2),
    }
}

/// Reads the arguments of one operation and does it; its number and NFS4_OK are written.
#[inline(always)]
fn run_operation(ops: &mut Ops<'_, '_>, op: Op, r: &mut Reader<'_>, out: &mut Outbox) -> Done {
    use crate::records::reply::Records;
    // What nearly every compound has is done without a value for any operation.
    match op {
        Op::SEQUENCE => {
            let args = arguments(r)?;
            ops.checksum = session::checksum(r.rest());
            session::sequence(ops, &args, &mut out.writer())
        }
        Op::PUTFH => filehandle_ops::putfh(ops, arguments(r)?, &mut out.writer()),
        Op::GETATTR => attr::getattr(ops, arguments(r)?, &mut out.writer()),
        Op::READ => file::read(ops, &arguments(r)?, out),
        Op::WRITE => {
            let args: WriteArgs<'_> = arguments(r)?;
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
    use crate::records::reply::Records;
    let before = r.rest();
    let argument = Argument::decode_body(op, r).map_err(|Malformed(_)| Stop::Status(Status::BADXDR))?;
    if ops.minor == 0 && v40::is_numbered(op) {
        // What has a number pays where its end counts.
        ops.checksum = v40::checksum(op, &before[..before.len() - r.remaining()]);
        return v40::in_sequence(ops, &argument, &mut out.writer());
    }
    if let Argument::ReadPlus(args) = &argument {
        return read_plus::read_plus(ops, args, out);
    }
    let w = &mut out.writer();
    match argument {
        Argument::Putrootfh | Argument::Putpubfh => filehandle_ops::putrootfh(ops, w),
        Argument::Getfh => filehandle_ops::getfh(ops, w),
        Argument::Savefh => filehandle_ops::savefh(ops, w),
        Argument::Restorefh => filehandle_ops::restorefh(ops, w),
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
    let status = crate::status::nfs4::status(error);
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
