//! The current and the saved filehandle: PUTFH, PUTROOTFH, PUTPUBFH, GETFH, SAVEFH, RESTOREFH.

use super::filehandle::Place;
use super::ops::{Done, Ops, Stop};
use super::pseudo;
use crate::call::File;
use crate::handle::Handle;
use crate::handle::cache::CachedFile;
use nfs_wire::v4::{FileHandle, GetfhOk, PutfhArgs, Status};
use std::rc::Rc;
use vfs::FsError;
use xdr::{Encode, Writer};

/// RFC 8881 §18.19.
#[inline]
pub(super) fn putfh(ops: &mut Ops<'_, '_>, args: PutfhArgs<'_>, _: &mut Writer<'_>) -> Done {
    ops.current = Some(place(ops, args.object.0)?);
    Ok(())
}

/// RFC 8881 §18.21, and §18.20: the public filehandle is that of the root.
pub(super) fn putrootfh(ops: &mut Ops<'_, '_>, _: &mut Writer<'_>) -> Done {
    ops.current = Some(pseudo::root(ops.call)?);
    Ok(())
}

/// RFC 8881 §18.8.
#[inline]
pub(super) fn getfh(ops: &mut Ops<'_, '_>, w: &mut Writer<'_>) -> Done {
    let handle = ops.place()?.handle(ops.call);
    GetfhOk { object: FileHandle(handle.bytes()) }.encode(w);
    Ok(())
}

/// RFC 8881 §18.28.
pub(super) fn savefh(ops: &mut Ops<'_, '_>, _: &mut Writer<'_>) -> Done {
    (ops.saved, ops.saved_stateid) = (Some(ops.place()?.clone()), ops.stateid);
    Ok(())
}

/// RFC 8881 §18.27; RFC 7530 §16.29 has a status of its own.
pub(super) fn restorefh(ops: &mut Ops<'_, '_>, _: &mut Writer<'_>) -> Done {
    let missing = if ops.minor == 0 { Status::RESTOREFH } else { Status::NOFILEHANDLE };
    ops.current = Some(ops.saved.clone().ok_or(Stop::Status(missing))?);
    ops.stateid = ops.saved_stateid;
    Ok(())
}

/// Where a filehandle leads.
#[inline]
pub(super) fn place(ops: &mut Ops<'_, '_>, handle: &[u8]) -> Result<Place, Stop> {
    if pseudo::claims(handle) {
        return Ok(Place::Pseudo(pseudo::of_handle(ops.call, handle)?));
    }
    match ops.call.file(handle) {
        // What the client has open it may close, also once it is gone.
        Err(FsError::Stale) => Ok(Place::File(held(ops, handle)?)),
        found => Ok(Place::File(found?)),
    }
}

/// A file that has gone and that the client has open.
fn held(ops: &mut Ops<'_, '_>, handle: &[u8]) -> Result<File, Stop> {
    let id = ops.call.service.signer.verify(handle)?;
    let client = ops.likely_client().ok_or(FsError::Stale)?;
    let file = client.held().file(id).ok_or(FsError::Stale)?;
    let cached = CachedFile { handle: Rc::new(Handle::of(handle)?), file };
    Ok(ops.call.admit(Rc::new(cached))?)
}
