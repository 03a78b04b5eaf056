//! The file system: FSSTAT, FSINFO, PATHCONF.

use super::attr::post_attrs;
use super::convert;
use super::reply::{accept, refuse};
use crate::call::{Call, CallResult};
use crate::limits::TRANSFER_BYTES_MAX;
use nfs_wire::v3::{
    FsinfoArgs, FsinfoFail, FsinfoOk, FsstatArgs, FsstatFail, FsstatOk, NfsTime, PathconfArgs, PathconfFail,
    PathconfOk, Properties,
};
use xdr::Writer;

/// RFC 1813 §3.3.18.
pub(super) fn fsstat(call: &mut Call<'_>, args: FsstatArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let file = match call.file(args.fsroot.0) {
        Ok(file) => file,
        Err(error) => return refuse(w, error, FsstatFail::default()),
    };
    match file.volume().stat() {
        Ok(stat) => accept(
            w,
            &FsstatOk {
                obj_attributes: post_attrs(call, &file),
                tbytes: stat.bytes_total,
                fbytes: stat.bytes_free,
                abytes: stat.bytes_available,
                tfiles: stat.files_total,
                ffiles: stat.files_free,
                afiles: stat.files_available,
                invarsec: 0,
            },
        ),
        Err(error) => refuse(w, error, FsstatFail { obj_attributes: post_attrs(call, &file) }),
    }
}

/// RFC 1813 §3.3.19.
pub(super) fn fsinfo(call: &mut Call<'_>, args: FsinfoArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let found = call.file(args.fsroot.0).and_then(|file| Ok((call.attrs(&file)?, file)));
    let (attrs, file) = match found {
        Ok(found) => found,
        Err(error) => return refuse(w, error, FsinfoFail::default()),
    };
    let limits = file.volume().limits();
    accept(
        w,
        &FsinfoOk {
            obj_attributes: Some(convert::fattr(&file, &attrs)),
            rtmax: TRANSFER_BYTES_MAX,
            rtpref: TRANSFER_BYTES_MAX,
            rtmult: 4096,
            wtmax: TRANSFER_BYTES_MAX,
            wtpref: TRANSFER_BYTES_MAX,
            wtmult: 4096,
            dtpref: 64 << 10,
            maxfilesize: limits.file_bytes_max,
            time_delta: NfsTime { seconds: 0, nseconds: limits.time_step_ns },
            properties: Properties::LINK
                | Properties::SYMLINK
                | Properties::HOMOGENEOUS
                | Properties::CANSETTIME,
        },
    )
}

/// RFC 1813 §3.3.20.
pub(super) fn pathconf(call: &mut Call<'_>, args: PathconfArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let found = call.file(args.object.0).and_then(|file| Ok((call.attrs(&file)?, file)));
    let (attrs, file) = match found {
        Ok(found) => found,
        Err(error) => return refuse(w, error, PathconfFail::default()),
    };
    let limits = file.volume().limits();
    accept(
        w,
        &PathconfOk {
            obj_attributes: Some(convert::fattr(&file, &attrs)),
            linkmax: limits.links_max,
            name_max: limits.name_bytes_max,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        },
    )
}
