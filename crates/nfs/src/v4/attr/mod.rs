//! Attributes: GETATTR, SETATTR, ACCESS, VERIFY, NVERIFY.
//!
//! [`table`] lists the attributes, [`attr_source`] provides their values, [`attr_request`] decodes those to set.

mod acl;
mod attr_request;
mod attr_source;
mod block;
mod locations;
#[cfg(test)]
mod locations_tests;
mod owner;
#[cfg(test)]
mod owner_tests;
#[cfg(test)]
mod posix_acl_tests;
#[cfg(test)]
mod quota_tests;
#[cfg(test)]
mod settable_tests;
mod table;
#[cfg(test)]
mod tests;
mod times;

pub(super) use attr_request::{AttrRequest, When, attr_request};
pub(super) use attr_source::{AttrSource, FileSystem, encode_filehandle};
pub(super) use table::{check_request, encode, encode_unknown, is_known};

use super::compound_state::{CompoundState, OpError, OpResult};
use super::filehandle::Filehandle;
use super::price;
use crate::call::File;
use nfs_wire::v4::{
    Access, AccessArgs, AccessOk, Bitmap, Fattr, GetattrArgs, NverifyArgs, SetattrArgs, Status, VerifyArgs,
    attr,
};
use vfs::FsError;
use vfs::file::AccessReply;
use vfs::qos::Transferred;
use xdr::{Encode, Writer};

const LISTS: Bitmap = Bitmap::of(&price::LISTS);
/// An attribute for listings only.
const RDATTR_ERROR: Bitmap = Bitmap::of(&[attr::RDATTR_ERROR]);

/// RFC 8881 §18.7.
#[inline]
pub(super) fn getattr(cx: &mut CompoundState<'_, '_>, args: GetattrArgs, w: &mut Writer<'_>) -> OpResult {
    let request = args.attr_request.without(&RDATTR_ERROR);
    let start = w.len();
    attr_source::of_current(cx, &request, |source| encode(&request, source, w))?;
    if !(request & LISTS).is_empty() {
        cx.count_metadata(Transferred::read(w.len() - start));
    }
    Ok(())
}

/// RFC 8881 §18.30. Nothing is set if not everything can be.
pub(super) fn setattr(cx: &mut CompoundState<'_, '_>, args: SetattrArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    cx.may_wait()?;
    if !(args.obj_attributes.attrmask & times::DELEGATED_TIMES).is_empty() {
        return times::set(cx, &args, w);
    }
    let file = cx.file()?;
    let AttrRequest { mut set, born, mask: attrsset } = attr_request(cx, &args.obj_attributes, When::Later)?;
    if attrsset.contains(attr::ACL) || attrsset.contains(attr::DACL) {
        check_sets_list(cx, &file)?;
    }
    // Authorized before anything is set.
    if born.is_some() {
        file.authorize_born(&file.caller).map_err(|error| match error {
            FsError::NotSupported => OpError::Status(Status::ATTRNOTSUPP),
            error => error.into(),
        })?;
    }
    if let (Some(mode), false) = (&mut set.mode, attrsset.contains(attr::MODE)) {
        // An ACL does not set the set-id and sticky bits.
        *mode |= cx.call.attrs(&file)?.mode & !0o777;
    }
    // The stateid matters only for a new size.
    let opened = match set.size {
        Some(_) => cx.open_by_stateid(&file, &args.stateid, vfs::Access::WRITE)?,
        None => None,
    };
    match opened {
        Some(opened) => opened.set_attrs(&file.caller, &set, cx.call.pending),
        None => file.set_attrs(&file.caller, &set, None, cx.call.pending),
    }?;
    if let Some(born) = born {
        file.set_born(&file.caller, born, cx.call.pending)?;
    }
    attrsset.encode(w);
    Ok(())
}

/// Refuses an ACL for a file with a POSIX ACL: as a mode it would become its mask, and give users and groups rights
/// that the new list does not.
fn check_sets_list(cx: &mut CompoundState<'_, '_>, file: &File) -> OpResult {
    let attrs = cx.call.attrs(file)?;
    match file.posix_acl(&attrs, cx.call.blocking)? {
        None => Ok(()),
        Some(_) => Err(OpError::Status(Status::ATTRNOTSUPP)),
    }
}

/// RFC 8881 §18.1.
#[inline]
pub(super) fn access(cx: &mut CompoundState<'_, '_>, args: AccessArgs, w: &mut Writer<'_>) -> OpResult {
    let place = cx.current_filehandle()?;
    if !defined(cx.request.minor).contains(args.access) {
        return Err(OpError::Status(Status::INVAL));
    }
    let (supported, granted) = match place {
        Filehandle::Pseudo(_) => (DIR_ACCESS, Access::READ | Access::LOOKUP),
        Filehandle::File(file) => {
            let reply = file.access(&file.caller, cx.call.blocking)?;
            let has_xattrs = file.volume().capabilities().xattrs.is_some();
            (supported(&reply, has_xattrs), granted(&reply))
        }
    };
    let supported = supported & args.access;
    AccessOk { supported, access: granted & supported }.encode(w);
    Ok(())
}

/// RFC 8881 §18.31.
pub(super) fn verify(cx: &mut CompoundState<'_, '_>, args: VerifyArgs<'_>, _: &mut Writer<'_>) -> OpResult {
    if is_same(cx, &args.obj_attributes)? { Ok(()) } else { Err(OpError::Status(Status::NOT_SAME)) }
}

/// RFC 8881 §18.15.
pub(super) fn nverify(cx: &mut CompoundState<'_, '_>, args: NverifyArgs<'_>, _: &mut Writer<'_>) -> OpResult {
    if is_same(cx, &args.obj_attributes)? { Err(OpError::Status(Status::SAME)) } else { Ok(()) }
}

/// Whether the current object has these values, which are compared as they would be sent.
fn is_same(cx: &mut CompoundState<'_, '_>, expected: &Fattr<'_>) -> Result<bool, OpError> {
    attr_source::of_current(cx, &expected.attrmask, |source| {
        if expected.attrmask.contains(attr::RDATTR_ERROR) {
            return Err(OpError::Status(Status::INVAL));
        }
        if !source.supported().contains_all(&expected.attrmask) {
            return Err(OpError::Status(Status::ATTRNOTSUPP));
        }
        let mut now = Vec::new();
        encode(&expected.attrmask, source, &mut Writer::new(&mut now))?;
        Ok(now == expected.to_bytes())
    })
}

const DIR_ACCESS: Access =
    Access(Access::READ.0 | Access::LOOKUP.0 | Access::MODIFY.0 | Access::EXTEND.0 | Access::DELETE.0);
const FILE_ACCESS: Access = Access(Access::READ.0 | Access::MODIFY.0 | Access::EXTEND.0 | Access::EXECUTE.0);
const XATTR_ACCESS: Access = Access(Access::XAREAD.0 | Access::XAWRITE.0 | Access::XALIST.0);

/// The bits that there are: RFC 8276 adds some to 4.2.
fn defined(minor: u32) -> Access {
    let all = DIR_ACCESS | FILE_ACCESS;
    if minor < 2 { all } else { all | XATTR_ACCESS }
}

/// The bits that apply to an object.
fn supported(reply: &AccessReply, has_xattrs: bool) -> Access {
    let (bits, carries) = match reply.attrs.file_type {
        vfs::FileType::Directory => (DIR_ACCESS, true),
        vfs::FileType::Regular => (FILE_ACCESS, true),
        _ => (FILE_ACCESS, false),
    };
    if carries && has_xattrs { bits | XATTR_ACCESS } else { bits }
}

fn granted(reply: &AccessReply) -> Access {
    let bits = [
        (reply.read, Access::READ | Access::XAREAD | Access::XALIST),
        (reply.lookup, Access::LOOKUP),
        (reply.modify, Access::MODIFY | Access::XAWRITE),
        (reply.extend, Access::EXTEND),
        (reply.delete, Access::DELETE),
        (reply.execute, Access::EXECUTE),
    ];
    bits.into_iter().filter(|&(granted, _)| granted).fold(Access(0), |all, (_, bit)| all | bit)
}
