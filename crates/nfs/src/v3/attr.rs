//! Attributes: GETATTR, SETATTR, ACCESS.

use super::convert;
use super::reply::{accept, refuse};
use crate::call::{Call, CallResult, File};
use nfs_wire::v3::{
    Access, AccessArgs, AccessFail, AccessOk, GetattrArgs, GetattrOk, SetattrArgs, SetattrFail, SetattrOk,
    WccData,
};
use vfs::{Attrs, FsResult, file::AccessReply};
use xdr::Writer;

/// RFC 1813 §3.3.1.
#[inline]
pub(super) fn getattr(call: &mut Call<'_>, args: GetattrArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let attrs = |call: &mut Call<'_>| -> FsResult<_> {
        let file = call.file(args.object.0)?;
        // A client with a write delegation may have changed the size.
        file.recall_writers_for_eof(file.caller.by)?;
        let attrs = call.attrs(&file)?;
        Ok(convert::fattr(&file, &attrs))
    };
    match attrs(call) {
        Ok(obj_attributes) => accept(w, &GetattrOk { obj_attributes }),
        Err(error) => refuse(w, error, ()),
    }
}

/// RFC 1813 §3.3.2.
pub(super) fn setattr(call: &mut Call<'_>, args: SetattrArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let file = match call.file(args.object.0) {
        Ok(file) => file,
        Err(error) => return refuse(w, error, SetattrFail::default()),
    };
    let set = convert::set_attrs(&args.new_attributes);
    match file.set_attrs(&file.caller, &set, args.guard.map(convert::time), call.pending) {
        Ok(change) => accept(w, &SetattrOk { obj_wcc: convert::wcc(file.volume_id(), &change) }),
        Err(error) => refuse(w, error, SetattrFail { obj_wcc: wcc_after(call, &file) }),
    }
}

/// RFC 1813 §3.3.4.
#[inline]
pub(super) fn access(call: &mut Call<'_>, args: AccessArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let file = match call.file(args.object.0) {
        Ok(file) => file,
        Err(error) => return refuse(w, error, AccessFail::default()),
    };
    match file.access(&file.caller, call.blocking) {
        Ok(reply) => accept(
            w,
            &AccessOk {
                obj_attributes: Some(convert::fattr(&file, &reply.attrs)),
                access: granted(&reply) & args.access,
            },
        ),
        Err(error) => refuse(w, error, AccessFail { obj_attributes: post_attrs(call, &file) }),
    }
}

/// Attributes in the reply that names an object. Omitted while a client has a write delegation: the client then
/// requests them.
pub(super) fn found_attrs(file: &vfs::File, attrs: &Attrs) -> Option<nfs_wire::v3::Fattr> {
    (!file.has_write_delegation()).then(|| convert::fattr(file, attrs))
}

/// Optional attributes in a reply.
pub(super) fn post_attrs(call: &mut Call<'_>, file: &File) -> Option<nfs_wire::v3::Fattr> {
    let attrs: Attrs = call.attrs(file).ok()?;
    Some(convert::fattr(file, &attrs))
}

/// `wcc_data` of a mutation that did not take place.
pub(super) fn wcc_after(call: &mut Call<'_>, file: &File) -> WccData {
    WccData { before: None, after: post_attrs(call, file) }
}

fn granted(reply: &AccessReply) -> Access {
    let bits = [
        (reply.read, Access::READ),
        (reply.lookup, Access::LOOKUP),
        (reply.modify, Access::MODIFY),
        (reply.extend, Access::EXTEND),
        (reply.delete, Access::DELETE),
        (reply.execute, Access::EXECUTE),
    ];
    bits.into_iter().filter(|&(granted, _)| granted).fold(Access(0), |all, (_, bit)| all | bit)
}
