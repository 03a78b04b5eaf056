//! The current and the saved filehandle: PUTFH, PUTROOTFH, PUTPUBFH, GETFH, SAVEFH, RESTOREFH.

use super::compound_state::{CompoundState, OpError, OpResult};
use super::filehandle::Filehandle;
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
pub(super) fn putfh(cx: &mut CompoundState<'_, '_>, args: PutfhArgs<'_>, _: &mut Writer<'_>) -> OpResult {
    cx.current = Some(resolve(cx, args.object.0)?);
    Ok(())
}

/// RFC 8881 §18.21, and §18.20: the public filehandle is that of the root.
pub(super) fn putrootfh(cx: &mut CompoundState<'_, '_>, _: &mut Writer<'_>) -> OpResult {
    cx.current = Some(pseudo::root(cx.call)?);
    Ok(())
}

/// RFC 8881 §18.8.
#[inline]
pub(super) fn getfh(cx: &mut CompoundState<'_, '_>, w: &mut Writer<'_>) -> OpResult {
    let handle = cx.current_filehandle()?.handle(cx.call);
    GetfhOk { object: FileHandle(handle.bytes()) }.encode(w);
    Ok(())
}

/// RFC 8881 §18.28.
pub(super) fn savefh(cx: &mut CompoundState<'_, '_>, _: &mut Writer<'_>) -> OpResult {
    (cx.saved, cx.state.saved_stateid) = (Some(cx.current_filehandle()?.clone()), cx.state.stateid);
    Ok(())
}

/// RFC 8881 §18.27; RFC 7530 §16.29 has a status of its own.
pub(super) fn restorefh(cx: &mut CompoundState<'_, '_>, _: &mut Writer<'_>) -> OpResult {
    let missing = if cx.request.minor == 0 { Status::RESTOREFH } else { Status::NOFILEHANDLE };
    cx.current = Some(cx.saved.clone().ok_or(OpError::Status(missing))?);
    cx.state.stateid = cx.state.saved_stateid;
    Ok(())
}

#[inline]
pub(super) fn resolve(cx: &mut CompoundState<'_, '_>, handle: &[u8]) -> Result<Filehandle, OpError> {
    if pseudo::claims(handle) {
        return Ok(Filehandle::Pseudo(pseudo::of_handle(cx.call, handle)?));
    }
    match cx.call.file(handle) {
        // The client may still use an unlinked file that it has open.
        Err(FsError::Stale) => Ok(Filehandle::File(open_unlinked(cx, handle)?)),
        found => Ok(Filehandle::File(found?)),
    }
}

fn open_unlinked(cx: &mut CompoundState<'_, '_>, handle: &[u8]) -> Result<File, OpError> {
    let id = cx.call.service.signer.verify(handle)?;
    let client = cx.likely_client().ok_or(FsError::Stale)?;
    let file = client.states().file(id).ok_or(FsError::Stale)?;
    let cached = CachedFile { handle: Rc::new(Handle::of(handle)?), file };
    Ok(cx.call.admit(Rc::new(cached))?)
}
