//! NFS version 3, RFC 1813.
//!
//! [`nfs_wire::v3`] has the messages; [`attr`], [`file`], [`dir`] and [`fs`] have the procedures by family; this file
//! maps procedure numbers to them.

mod attr;
pub(crate) mod convert;
mod dir;
mod file;
mod fs;
pub(crate) mod reply;

use crate::call::{Attempt, Call, Outcome};
use crate::limits::{LISTING_BYTES_MAX, TRANSFER_BYTES_MAX};
use crate::records::reply::Records;
use crate::status::nfs3::status;
use nfs_wire::v3::{self as wire, Procedure};
use transport::{Dispatch, Outbox};
use vfs::qos::{Demand, Kind};
use vfs::{FsError, ProtocolId};
use xdr::{Decode, Encode, Malformed, Reader, Writer};

/// Version 3 in the rules of exports.
pub(crate) const PROTOCOL: ProtocolId = ProtocolId(0);

/// The dispatch class of a procedure. Unknown procedures are answered at once.
#[inline]
pub(crate) fn dispatch(procedure: Procedure) -> Dispatch {
    match procedure {
        Procedure::READLINK
        | Procedure::READDIR
        | Procedure::READDIRPLUS
        | Procedure::FSSTAT
        | Procedure::COMMIT => Dispatch::Offload,
        Procedure::WRITE => Dispatch::Batched,
        procedure if !is_idempotent(procedure) => Dispatch::Batched,
        _ => Dispatch::Inline,
    }
}

/// Whether a procedure may be done twice: the second time changes nothing, and has the same reply.
#[inline]
pub(crate) fn is_idempotent(procedure: Procedure) -> bool {
    !matches!(
        procedure,
        Procedure::SETATTR
            | Procedure::CREATE
            | Procedure::MKDIR
            | Procedure::SYMLINK
            | Procedure::MKNOD
            | Procedure::REMOVE
            | Procedure::RMDIR
            | Procedure::RENAME
            | Procedure::LINK
    )
}

/// The demand of a call and the handle of its file; `None` if it is free or cannot be decoded. Listings and symbolic
/// links count as data: otherwise they could move any amount past the limits.
#[inline]
pub(crate) fn demand(procedure: Procedure, args: &[u8]) -> Option<(&[u8], Demand)> {
    if matches!(procedure, Procedure::NULL | Procedure::COMMIT) {
        return None;
    }
    let mut r = Reader::new(args);
    let handle = wire::FileHandle::decode(&mut r).ok()?.0;
    let demand = match procedure {
        Procedure::READ => Demand::read(read_bytes_max(procedure, r)?),
        Procedure::READDIR | Procedure::READDIRPLUS => Demand::list(read_bytes_max(procedure, r)?),
        Procedure::READLINK => Demand::list(wire::PATH_MAX),
        Procedure::WRITE => {
            let (_, count, _, length) = (r.u64().ok()?, r.u32().ok()?, r.u32().ok()?, r.u32().ok()?);
            // A count that differs from the length is refused.
            Demand::write((length == count && length <= TRANSFER_BYTES_MAX).then_some(length)?)
        }
        Procedure::SYMLINK => Demand::store(u32::try_from(r.remaining()).unwrap_or(u32::MAX)),
        _ => Demand::OTHER,
    };
    Some((handle, demand))
}

/// The longest reply to READ, READDIR or READDIRPLUS, from the arguments after the handle. It is at most one transfer.
fn read_bytes_max(procedure: Procedure, mut r: Reader<'_>) -> Option<u32> {
    // READ has an offset first. Listings have a cookie and a verifier before the count; READDIRPLUS also has
    // `dircount`.
    r.u64().ok()?;
    if procedure != Procedure::READ {
        r.u64().ok()?;
    }
    if procedure == Procedure::READDIRPLUS {
        r.u32().ok()?;
    }
    let bytes_max = if procedure == Procedure::READ { TRANSFER_BYTES_MAX } else { LISTING_BYTES_MAX };
    let requested = r.u32().ok()?;
    Some(requested.min(bytes_max))
}

/// The most bytes that a reply may take, if it may be long.
pub(crate) fn reply_bytes_max(procedure: Procedure, args: &[u8]) -> u32 {
    if !matches!(procedure, Procedure::READ | Procedure::READDIR | Procedure::READDIRPLUS) {
        return 0;
    }
    let mut r = Reader::new(args);
    let behind = wire::FileHandle::decode(&mut r).is_ok().then_some(r);
    behind.and_then(|r| read_bytes_max(procedure, r)).unwrap_or(0)
}

#[inline]
pub(crate) fn kind(procedure: Procedure) -> Kind {
    match procedure {
        Procedure::READ => Kind::Read,
        Procedure::WRITE => Kind::Write,
        _ => Kind::Other,
    }
}

/// Does a procedure: decodes the arguments and writes the results.
pub(crate) fn answer(call: &mut Call<'_>, procedure: Procedure, args: &[u8], out: &mut Outbox) -> Attempt {
    let mut args = Reader::new(args);
    let r = &mut args;
    let done = match procedure {
        Procedure::NULL => Ok(()),
        Procedure::READ => return Ok(file::read(call, decode(r)?, out).into()),
        Procedure::GETATTR => attr::getattr(call, decode(r)?, &mut out.writer()),
        Procedure::SETATTR => attr::setattr(call, decode(r)?, &mut out.writer()),
        Procedure::ACCESS => attr::access(call, decode(r)?, &mut out.writer()),
        Procedure::LOOKUP => dir::lookup(call, decode(r)?, &mut out.writer()),
        Procedure::READLINK => file::readlink(call, decode(r)?, &mut out.writer()),
        Procedure::WRITE => file::write(call, decode(r)?, &mut out.writer()),
        Procedure::COMMIT => file::commit(call, decode(r)?, &mut out.writer()),
        Procedure::CREATE => dir::create(call, decode(r)?, &mut out.writer()),
        Procedure::MKDIR => dir::mkdir(call, decode(r)?, &mut out.writer()),
        Procedure::SYMLINK => dir::symlink(call, decode(r)?, &mut out.writer()),
        Procedure::MKNOD => dir::mknod(call, decode(r)?, &mut out.writer()),
        Procedure::REMOVE => dir::remove(call, decode(r)?, &mut out.writer()),
        Procedure::RMDIR => dir::rmdir(call, decode(r)?, &mut out.writer()),
        Procedure::RENAME => dir::rename(call, decode(r)?, &mut out.writer()),
        Procedure::LINK => dir::link(call, decode(r)?, &mut out.writer()),
        Procedure::READDIR => dir::readdir(call, decode(r)?, &mut out.writer()),
        Procedure::READDIRPLUS => dir::readdirplus(call, decode(r)?, &mut out.writer()),
        Procedure::FSSTAT => fs::fsstat(call, decode(r)?, &mut out.writer()),
        Procedure::FSINFO => fs::fsinfo(call, decode(r)?, &mut out.writer()),
        Procedure::PATHCONF => fs::pathconf(call, decode(r)?, &mut out.writer()),
        _ => return Ok(Outcome::NoProcedure),
    };
    Ok(done.into())
}

/// Writes the result of a call that failed outside the procedure: the status, and absent values for the rest.
pub(crate) fn fail(procedure: Procedure, error: FsError, w: &mut Writer<'_>) {
    status(error).encode(w);
    // `wcc_data` is two absent options; `post_op_attr` is one (RFC 1813 §2.6).
    let absent = match procedure {
        Procedure::RENAME => 4,
        Procedure::LINK => 3,
        Procedure::GETATTR => 0,
        Procedure::LOOKUP
        | Procedure::ACCESS
        | Procedure::READLINK
        | Procedure::READ
        | Procedure::READDIR
        | Procedure::READDIRPLUS
        | Procedure::FSSTAT
        | Procedure::FSINFO
        | Procedure::PATHCONF => 1,
        _ => 2,
    };
    (0..absent).for_each(|_| w.bool(false));
}

/// Decodes arguments. Bytes after them are ignored, as by other servers.
#[inline]
fn decode<'a, T: Decode<'a>>(r: &mut Reader<'a>) -> Result<T, Malformed> {
    T::decode(r)
}
