//! NFS version 4: 4.1 (RFC 8881) and 4.2 (RFC 7862) as one engine, and 4.0 (RFC 7530) as a layer on it.
//!
//! [`nfs_wire::v4`] has the messages; [`compound`] runs the operations of a call; the operations are grouped by family
//! like the procedures of version 3. `state::nfs4` has the state of clients.

mod attr;
pub(crate) mod compound;
mod compound_state;
mod delegation;
mod dir;
pub(crate) mod file;
mod filehandle;
mod filehandle_ops;
mod lock;
mod open;
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
#[cfg(test)]
mod snapshot_attack_tests;
#[cfg(test)]
mod snapshot_tests;
mod table;
mod v40;
mod xattr;

use compound_state::{CompoundState, OpError, OpResult};
use nfs_wire::v4::{Argument, Bitmap, CompoundReplyHead, Op, Status, WriteArgs};
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
fn run_operation(cx: &mut CompoundState<'_, '_>, op: Op, r: &mut Reader<'_>, out: &mut Outbox) -> OpResult {
    use crate::records::reply::Records;
    // The most frequent operations are decoded without the `Argument` enum.
    match op {
        Op::SEQUENCE => {
            let args = arguments(r)?;
            cx.checksum = session::checksum(r.rest());
            session::sequence(cx, &args, &mut out.writer())
        }
        Op::PUTFH => filehandle_ops::putfh(cx, arguments(r)?, &mut out.writer()),
        Op::GETATTR => attr::getattr(cx, arguments(r)?, &mut out.writer()),
        Op::READ => file::read(cx, &arguments(r)?, out),
        Op::WRITE => {
            let args: WriteArgs<'_> = arguments(r)?;
            file::write(cx, &args, &mut out.writer())
        }
        _ => run_other(cx, op, r, out),
    }
}

/// The arguments of an operation. Of a call that cannot be read, its result is BADXDR.
#[inline]
fn arguments<'a, A: Decode<'a>>(r: &mut Reader<'a>) -> Result<A, OpError> {
    A::decode(r).map_err(|Malformed(_)| OpError::Status(Status::BADXDR))
}

fn run_other(cx: &mut CompoundState<'_, '_>, op: Op, r: &mut Reader<'_>, out: &mut Outbox) -> OpResult {
    use crate::records::reply::Records;
    let before = r.rest();
    let argument = Argument::decode_body(op, r).map_err(|Malformed(_)| OpError::Status(Status::BADXDR))?;
    if cx.request.minor == 0 && v40::is_numbered(op) {
        // A numbered request pays inside its sequence.
        cx.checksum = v40::checksum(op, &before[..before.len() - r.remaining()]);
        return v40::in_sequence(cx, &argument, &mut out.writer());
    }
    if let Argument::ReadPlus(args) = &argument {
        return read_plus::read_plus(cx, args, out);
    }
    let w = &mut out.writer();
    match argument {
        Argument::Putrootfh | Argument::Putpubfh => filehandle_ops::putrootfh(cx, w),
        Argument::Getfh => filehandle_ops::getfh(cx, w),
        Argument::Savefh => filehandle_ops::savefh(cx, w),
        Argument::Restorefh => filehandle_ops::restorefh(cx, w),
        Argument::Setattr(args) => attr::setattr(cx, args, w),
        Argument::Access(args) => attr::access(cx, args, w),
        Argument::Verify(args) => attr::verify(cx, args, w),
        Argument::Nverify(args) => attr::nverify(cx, args, w),
        Argument::Lookup(args) => dir::lookup(cx, args, w),
        Argument::Lookupp => dir::lookupp(cx, w),
        Argument::Readdir(args) => dir::readdir(cx, args, w),
        Argument::Readlink => dir::readlink(cx, w),
        Argument::Create(args) => dir::create(cx, args, w),
        Argument::Remove(args) => dir::remove(cx, args, w),
        Argument::Rename(args) => dir::rename(cx, args, w),
        Argument::Link(args) => dir::link(cx, args, w),
        Argument::Secinfo(args) => dir::secinfo(cx, args, w),
        Argument::SecinfoNoName(args) => dir::secinfo_no_name(cx, args, w),
        Argument::Open(args) => open::open(cx, &args, w),
        Argument::OpenDowngrade(args) => open::open_downgrade(cx, &args, w),
        Argument::Close(args) => open::close(cx, &args, w),
        Argument::Delegreturn(args) => delegation::delegreturn(cx, &args),
        Argument::TestStateid(args) => open::test_stateid(cx, &args, w),
        Argument::FreeStateid(args) => open::free_stateid(cx, &args),
        Argument::Lock(args) => lock::lock(cx, &args, w),
        Argument::Lockt(args) => lock::lockt(cx, &args, w),
        Argument::Locku(args) => lock::locku(cx, &args, w),
        Argument::Commit(args) => file::commit(cx, &args, w),
        Argument::Seek(args) => ranges::seek(cx, &args, w),
        Argument::Allocate(args) => ranges::allocate(cx, &args),
        Argument::Deallocate(args) => ranges::deallocate(cx, &args),
        Argument::Clone(args) => ranges::clone(cx, &args),
        Argument::Copy(args) => ranges::copy(cx, &args, w),
        Argument::OffloadStatus(args) => ranges::offload_status(cx, &args, w),
        Argument::OffloadCancel(args) => ranges::offload_cancel(cx, &args),
        Argument::Getxattr(args) => xattr::getxattr(cx, args, w),
        Argument::Setxattr(args) => xattr::setxattr(cx, args, w),
        Argument::Listxattrs(args) => xattr::listxattrs(cx, args, w),
        Argument::Removexattr(args) => xattr::removexattr(cx, args, w),
        Argument::ExchangeId(args) => session::exchange_id(cx, &args, w),
        Argument::CreateSession(args) => session::create_session(cx, &args, w),
        Argument::DestroySession(args) => session::destroy_session(cx, &args),
        Argument::DestroyClientid(args) => session::destroy_clientid(cx, &args),
        Argument::BindConnToSession(args) => session::bind_conn_to_session(cx, &args, w),
        Argument::BackchannelCtl(args) => session::backchannel_ctl(cx, &args),
        Argument::ReclaimComplete(args) => session::reclaim_complete(cx, &args),
        Argument::Setclientid(args) => v40::client::setclientid(cx, &args, w),
        Argument::SetclientidConfirm(args) => v40::client::setclientid_confirm(cx, &args),
        Argument::Renew(args) => v40::client::renew(cx, &args),
        Argument::ReleaseLockowner(args) => v40::client::release_lockowner(cx, &args),
        _ => Err(OpError::Status(Status::NOTSUPP)),
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

/// Writes the rest of a failed operation's result.
fn fail_tail(op: Op, w: &mut Writer<'_>) {
    if op == Op::SETATTR {
        Bitmap::EMPTY.encode(w);
    }
}

/// Handles are those of version 3.
const _: () = assert!(crate::handle::HANDLE_BYTES_MAX <= nfs_wire::v4::FHSIZE as usize);
