//! Names: LOOKUP, the making and removing of entries, RENAME, LINK, and listing.

mod listing;

pub(super) use listing::{readdir, readdirplus};

use super::attr::{found_attrs, post_attrs, wcc_after};
use super::convert;
use super::reply::{accept, refuse};
use crate::call::{Call, CallResult, File};
use nfs_wire::v3::{
    CreateArgs, CreateFail, CreateHow, CreateOk, DirOpArgs, FileHandle, LinkArgs, LinkFail, LinkOk,
    LookupArgs, LookupFail, LookupOk, MkdirArgs, MknodArgs, MknodData, RemoveArgs, RemoveFail, RemoveOk,
    RenameArgs, RenameFail, RenameOk, RmdirArgs, Sattr, SpecData, SymlinkArgs,
};
use vfs::qos::Transferred;
use vfs::{
    Change, Created, Device, Disposition, ExclusiveKey, FsError, FsResult, PendingSync, SetAttrs, Special,
};
use xdr::Writer;

/// RFC 1813 §3.3.3.
#[inline]
pub(super) fn lookup(call: &mut Call<'_>, args: LookupArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let dir = match call.file(args.what.dir.0) {
        Ok(dir) => dir,
        Err(error) => return refuse(w, error, LookupFail::default()),
    };
    match call.lookup(&dir, args.what.name) {
        Ok((dir_attrs, found, attrs)) => accept(
            w,
            &LookupOk {
                object: FileHandle(found.handle.bytes()),
                obj_attributes: found_attrs(&found.file, &attrs),
                dir_attributes: Some(convert::fattr(&dir, &dir_attrs)),
            },
        ),
        Err(error) => {
            let error = refusal(error, args.what.name);
            refuse(w, error, LookupFail { dir_attributes: post_attrs(call, &dir) })
        }
    }
}

/// RFC 1813 §3.3.8.
pub(super) fn create(call: &mut Call<'_>, args: CreateArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let (disposition, set) = match &args.how {
        CreateHow::Unchecked(sattr) => (Disposition::OpenOrCreate, convert::set_attrs(sattr)),
        CreateHow::Guarded(sattr) => (Disposition::CreateNew, convert::set_attrs(sattr)),
        CreateHow::Exclusive(verifier) => {
            let set = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
            (Disposition::CreateOnce(ExclusiveKey::new(*verifier)), set)
        }
    };
    create_entry(call, &args.place, w, |dir, name, pending| {
        dir.create(&dir.caller, name, disposition, &set, pending)
    })
}

/// RFC 1813 §3.3.9.
pub(super) fn mkdir(call: &mut Call<'_>, args: MkdirArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let set = convert::set_attrs(&args.attributes);
    create_entry(call, &args.place, w, |dir, name, pending| dir.make_dir(&dir.caller, name, &set, pending))
}

/// RFC 1813 §3.3.10.
pub(super) fn symlink(call: &mut Call<'_>, args: SymlinkArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    call.stats.count_metadata(Transferred::written(args.symlink.symlink_data.len()));
    let special = Special::Symlink(args.symlink.symlink_data);
    make_special(call, &args.place, w, Ok((special, args.symlink.symlink_attributes)))
}

/// RFC 1813 §3.3.11.
pub(super) fn mknod(call: &mut Call<'_>, args: MknodArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let device = |spec: SpecData| Device { major: spec.specdata1, minor: spec.specdata2 };
    let what = match args.what {
        MknodData::CharDevice(data) => Ok((Special::Character(device(data.spec)), data.dev_attributes)),
        MknodData::BlockDevice(data) => Ok((Special::Block(device(data.spec)), data.dev_attributes)),
        MknodData::Socket(sattr) => Ok((Special::Socket, sattr)),
        MknodData::Fifo(sattr) => Ok((Special::Fifo, sattr)),
        MknodData::Other(_) => Err(FsError::BadType),
    };
    make_special(call, &args.place, w, what)
}

/// RFC 1813 §3.3.12.
pub(super) fn remove(call: &mut Call<'_>, args: RemoveArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    remove_entry(call, &args.object, w, |dir, name, pending| dir.remove(&dir.caller, name, pending))
}

/// RFC 1813 §3.3.13.
pub(super) fn rmdir(call: &mut Call<'_>, args: RmdirArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    remove_entry(call, &args.object, w, |dir, name, pending| dir.remove_dir(&dir.caller, name, pending))
}

/// RFC 1813 §3.3.14.
pub(super) fn rename(call: &mut Call<'_>, args: RenameArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let from = match call.file(args.from.dir.0) {
        Ok(from) => from,
        Err(error) => return refuse(w, error, RenameFail::default()),
    };
    let to = match call.file(args.to.dir.0) {
        Ok(to) => to,
        Err(error) => {
            let fromdir_wcc = wcc_after(call, &from);
            return refuse(w, error, RenameFail { fromdir_wcc, ..RenameFail::default() });
        }
    };
    match from.rename(&from.caller, args.from.name, &to, args.to.name, call.pending) {
        Ok((from_change, to_change)) => accept(
            w,
            &RenameOk {
                fromdir_wcc: convert::wcc(from.volume_id(), &from_change),
                todir_wcc: convert::wcc(to.volume_id(), &to_change),
            },
        ),
        Err(error) => {
            let error = refusal(refusal(error, args.from.name), args.to.name);
            let fail = RenameFail { fromdir_wcc: wcc_after(call, &from), todir_wcc: wcc_after(call, &to) };
            refuse(w, error, fail)
        }
    }
}

/// RFC 1813 §3.3.15.
pub(super) fn link(call: &mut Call<'_>, args: LinkArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let file = match call.file(args.file.0) {
        Ok(file) => file,
        Err(error) => return refuse(w, error, LinkFail::default()),
    };
    let dir = match call.file(args.link.dir.0) {
        Ok(dir) => dir,
        Err(error) => {
            let file_attributes = post_attrs(call, &file);
            return refuse(w, error, LinkFail { file_attributes, ..LinkFail::default() });
        }
    };
    match dir.link(&dir.caller, &file, args.link.name, call.pending) {
        Ok(created) => accept(
            w,
            &LinkOk {
                file_attributes: Some(convert::fattr(&file, &created.attrs)),
                linkdir_wcc: convert::wcc(dir.volume_id(), &created.dir),
            },
        ),
        Err(error) => {
            let error = refusal(error, args.link.name);
            let fail =
                LinkFail { file_attributes: post_attrs(call, &file), linkdir_wcc: wcc_after(call, &dir) };
            refuse(w, error, fail)
        }
    }
}

fn make_special(
    call: &mut Call<'_>,
    place: &DirOpArgs<'_>,
    w: &mut Writer<'_>,
    what: FsResult<(Special<'_>, Sattr)>,
) -> CallResult {
    create_entry(call, place, w, |dir, name, pending| {
        let (special, sattr) = what?;
        let set = convert::set_attrs(&sattr);
        dir.make_special(&dir.caller, name, special, &set, pending)
    })
}

/// The common part of CREATE, MKDIR, SYMLINK and MKNOD.
fn create_entry(
    call: &mut Call<'_>,
    place: &DirOpArgs<'_>,
    w: &mut Writer<'_>,
    make: impl FnOnce(&File, &[u8], &mut PendingSync) -> FsResult<Created>,
) -> CallResult {
    let dir = match call.file(place.dir.0) {
        Ok(dir) => dir,
        Err(error) => return refuse(w, error, CreateFail::default()),
    };
    match make(&dir, place.name, call.pending) {
        Ok(created) => {
            let handle = call.service.signer.sign(dir.export_id(), &created.file.key());
            accept(
                w,
                &CreateOk {
                    obj: Some(FileHandle(handle.bytes())),
                    obj_attributes: found_attrs(&created.file, &created.attrs),
                    dir_wcc: convert::wcc(dir.volume_id(), &created.dir),
                },
            )
        }
        Err(error) => refuse(w, refusal(error, place.name), CreateFail { dir_wcc: wcc_after(call, &dir) }),
    }
}

/// The common part of REMOVE and RMDIR.
fn remove_entry(
    call: &mut Call<'_>,
    object: &DirOpArgs<'_>,
    w: &mut Writer<'_>,
    take: impl FnOnce(&File, &[u8], &mut PendingSync) -> FsResult<Change>,
) -> CallResult {
    let dir = match call.file(object.dir.0) {
        Ok(dir) => dir,
        Err(error) => return refuse(w, error, RemoveFail::default()),
    };
    match take(&dir, object.name, call.pending) {
        Ok(change) => accept(w, &RemoveOk { dir_wcc: convert::wcc(dir.volume_id(), &change) }),
        Err(error) => refuse(w, refusal(error, object.name), RemoveFail { dir_wcc: wcc_after(call, &dir) }),
    }
}

/// The error for a call with this `name`. RFC 1813 §3.3 (General comments on filenames) requires NFS3ERR_ACCES for an
/// empty name or an invalid character, where the model returns `Invalid`.
fn refusal(error: FsError, name: &[u8]) -> FsError {
    let is_none = name.is_empty() || name.iter().any(|&byte| byte == b'/' || byte == 0);
    if error == FsError::Invalid && is_none { FsError::Access } else { error }
}
